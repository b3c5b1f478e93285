"""The compiled cores of the engines, where they were built when the package was installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def compiled_core(engine: str) -> Any:
    """The extension of an engine; None where there is none."""
    try:
        return import_module(f"perfassert.engines.{engine}._core")
    except ImportError:
        return None
