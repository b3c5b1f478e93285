"""Values as TOML has them: the one way in which files are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from perfassert.errors import printable

_BARE = re.compile("[A-Za-z0-9_-]+")
"""Keys that need no quotes: https://toml.io/en/v1.0.0#keys"""


def format_value(value: Any) -> str:
    """A table, a list, a text, a number or a truth value.

    >>> format_value({"shape": (4, 8), "dtype": "float32"})
    '{ shape = [4, 8], dtype = "float32" }'
    """
    if isinstance(value, dict):
        return format_table((key, format_value(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_string(value) if isinstance(value, str) else repr(value)


def format_table(items: Iterable[tuple[str, str]]) -> str:
    """An inline table of keys and values that are formatted already."""
    return f"{{ {', '.join(f'{format_key(key)} = {text}' for key, text in items)} }}"


def format_key(name: str) -> str:
    """A key, quoted where it has to be."""
    return name if _BARE.fullmatch(name) else format_string(name)


def format_comment(text: str) -> str:
    """A comment of one line, whatever the text holds.

    >>> format_comment("axpy\\n[kernels.evil]")
    '# axpy\\\\n[kernels.evil]'
    """
    return f"# {printable(text, lines=False)}"


def format_string(value: str) -> str:
    """A string that Python and TOML read alike."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
