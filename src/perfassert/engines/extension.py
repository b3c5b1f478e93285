"""Compiled cores of the engines, if they were built when the package was installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def compiled_core(engine: str) -> Any:
    """Return the extension module of an engine, or None if it was not built."""
    try:
        return import_module(f"perfassert.engines.{engine}._core")
    except ImportError:
        return None
