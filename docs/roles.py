"""Roles in docstrings as Markdown, for the API page: ``:func:`~perfassert.predict``` links to the
entry of ``predict``; a name without an entry is code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGE = Path(__file__).parent / "reference/api.md"
ENTRIES = frozenset(re.findall(r"^::: perfassert\.(\w+)$", PAGE.read_text("utf-8"), re.M))
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")


class Roles(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = ROLE.sub(markdown, obj.docstring.value)


def markdown(role: re.Match[str]) -> str:
    name = role[1].rpartition(".")[2]
    return f"[`{name}`][perfassert.{name}]" if name in ENTRIES else f"`{name}`"
