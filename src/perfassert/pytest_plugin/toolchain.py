"""Settings of the compiler: its CUDA release, and what becomes of tests where it is missing."""

from __future__ import annotations

import pytest

from perfassert.pytest_plugin.settings import choice, setting

NO_TOOLCHAIN = ("fail", "skip")
"""Choices of what becomes of tests that need a compiler where it is not installed."""


def toolchain_of(config: pytest.Config) -> str | None:
    """Read the release from command line or ini file; :class:`pytest.UsageError` if it is none."""
    chosen, name = setting(config, "--perf-toolchain")
    if not chosen:
        return None
    from perfassert.errors import KernelSourceError
    from perfassert.frontends.toolchain.toolchains import release_of

    try:
        release_of(chosen)
    except KernelSourceError:
        raise pytest.UsageError(
            f"{name} must be a release of the CUDA toolkit, as 12.4, not {chosen!r}"
        ) from None
    return str(chosen)


def skips_without_toolchain(config: pytest.Config) -> bool:
    """Return True if tests that need a compiler are skipped where it is not installed.

    :class:`pytest.UsageError` for another choice than fail and skip.
    """
    return choice(config, "--perf-no-toolchain", NO_TOOLCHAIN) == "skip"
