"""The line above the tests: version, and the engine that simulates."""

from __future__ import annotations

from perfassert.engines.pipeline.compiled import available
from perfassert.version import VERSION


def line(toolchain: str | None = None) -> str:
    """Return the line; without the compiled engine every prediction is refused."""
    compiler = f", CUDA {toolchain}" if toolchain else ""
    if available():
        return f"perfassert: {VERSION}, compiled engine{compiler}"
    return f"perfassert: {VERSION}, no compiled engine: nothing can be predicted{compiler}"
