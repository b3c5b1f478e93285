"""Docstrings of the source as the API page needs them.

Roles become Markdown: ``:func:`~perfassert.predict``` links to the entry of ``predict``, and a name
without an entry is code. ``Example:`` becomes the heading under which Griffe reads examples.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGE = Path(__file__).parent / "reference/api.md"
ENTRIES = frozenset(re.findall(r"^::: perfassert\.(\w+)$", PAGE.read_text("utf-8"), re.M))
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")
EXAMPLE = re.compile(r"^Example:$", re.M)


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = ROLE.sub(link, obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub("Examples:", text)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace a module by the function of its name: ``perfassert.predict`` is the function."""
        for name in ENTRIES:
            entry = pkg.members[name]
            if entry.is_alias:
                entry = pkg.modules_collection[entry.target_path]
            if entry.is_module:
                pkg.set_member(name, entry.members[name])


def link(role: re.Match[str]) -> str:
    name = role[1].rpartition(".")[2]
    return f"[`{name}`][perfassert.{name}]" if name in ENTRIES else f"`{name}`"
