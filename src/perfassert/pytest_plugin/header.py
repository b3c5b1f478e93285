"""The line above the tests: version, and the engine that simulates."""

from __future__ import annotations

from perfassert.engines.pipeline.compiled import available
from perfassert.version import VERSION


def line() -> str:
    """``reference`` is what a wheel without the compiled engine has: the same results, later."""
    if available():
        return f"perfassert: {VERSION}, compiled engine"
    return f"perfassert: {VERSION}, reference engine (slow: no compiled engine was installed)"
