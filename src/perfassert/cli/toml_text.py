"""Values as TOML has them, in files that commands write."""

from __future__ import annotations

import json
import re
from typing import Any

_BARE = re.compile("[A-Za-z0-9_-]+")
"""Keys that need no quotes: https://toml.io/en/v1.0.0#keys"""


def toml_value(value: Any) -> str:
    """Of a table, a list, a text or a number."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(k)} = {toml_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return toml_text(value) if isinstance(value, str) else repr(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(value: str) -> str:
    """A string that Python and TOML read alike."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
