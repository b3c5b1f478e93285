"""The line above the tests: version, and the engine that simulates."""

from __future__ import annotations

from perfassert.engines.pipeline.compiled import available
from perfassert.version import VERSION


def line(toolchain: str | None = None) -> str:
    """``reference`` is what a wheel without the compiled engine has: the same results, later."""
    compiler = f", CUDA {toolchain}" if toolchain else ""
    if available():
        return f"perfassert: {VERSION}, compiled engine{compiler}"
    slow = "reference engine (slow: no compiled engine was installed)"
    return f"perfassert: {VERSION}, {slow}{compiler}"
