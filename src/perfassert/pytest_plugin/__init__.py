"""The pytest plug-in, registered as ``perfassert``.

pytest compiles each module of a plug-in's distribution anew, with asserts that explain themselves,
and keeps the result beside that of Python. There are some 300 modules here, none with an assert for
users. In an environment that is new, cannot be written to, or has ``PYTHONDONTWRITEBYTECODE``, this
takes longer than a small run. So modules of perfassert are found as without pytest.

Source: pytest documentation, "Writing plugins", *Assertion Rewriting*.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_PACKAGE = f"{__name__.partition('.')[0]}."


class _AsWithoutPytest:
    """Finder of modules of perfassert, which comes before that of pytest."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(_PACKAGE) else None


sys.meta_path.insert(0, _AsWithoutPytest)
