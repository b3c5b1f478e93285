"""Fixtures for tests of several front ends."""

import pytest

from perfassert.frontends.toolchain import tools


@pytest.fixture(scope="session")
def toolchain():
    """Assembles PTX; where a file needs more it has a fixture of its own."""
    if any(tools.find(name) is None for name in ("ptxas", "nvdisasm")):
        pytest.skip("the toolchain is not installed")
