"""Tests that a test skipped for lack of the toolchain fails if the toolchain is required."""

from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("reason", [
    'nvrtc is not installed; install the CUDA tools with: pip install "perfassert[cuda]"',
    "nvdisasm is missing", "NVIDIA's compiler is not installed",
])
def test_toolchain(reason):
    pytest.skip(reason)

@pytest.mark.skipif(True, reason="NVRTC is missing")
def test_marked():
    pass

@pytest.mark.parametrize("reason", [
    "no Chromium on this machine", "measured data not at hand", "cuobjdump is not installed",
    "no tools of CUDA 12 are installed",
])
def test_other(reason):
    pytest.skip(reason)
"""


@pytest.mark.parametrize(("required", "held"), [("1", True), ("0", False), ("", False)])
def test_skips_for_want_of_tools(pytester, monkeypatch, required, held):
    monkeypatch.setenv("PERFASSERT_REQUIRE_TOOLCHAIN", required)
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text("utf-8"))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:randomly")
    if held:
        result.assert_outcomes(failed=3, errors=1, skipped=4)
        result.stdout.fnmatch_lines(["PERFASSERT_REQUIRE_TOOLCHAIN is set: *NVRTC is missing"])
    else:
        result.assert_outcomes(skipped=8)
