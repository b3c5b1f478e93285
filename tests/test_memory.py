"""What remembers: sessions alone, and pure functions of strings and numbers, each with a bound.

A cache on kernels or launches, a context variable, or a container of a module that functions write
to would let an answer depend on what was asked before.
"""

from __future__ import annotations

from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src/perfassert"
CACHES = {
    "engines/extension.py compiled_core": "the extension module of an engine, by its name",
    "engines/pipeline/compiled.py _core": "",
}
