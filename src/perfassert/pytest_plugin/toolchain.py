"""``--perf-toolchain``: the CUDA release that compiles the kernels of a run."""

from __future__ import annotations

import pytest


def toolchain_of(config: pytest.Config) -> str | None:
    """Read the release from command line or ini file; :class:`pytest.UsageError` if it is none."""
    chosen = config.getoption("--perf-toolchain") or config.getini("perf_toolchain")
    if not chosen:
        return None
    from perfassert.errors import KernelSourceError
    from perfassert.frontends.toolchain.toolchains import release_of

    try:
        release_of(chosen)
    except KernelSourceError:
        raise pytest.UsageError(
            f"perf_toolchain must be a release of the CUDA toolkit, as 12.4, not {chosen!r}"
        ) from None
    return str(chosen)
