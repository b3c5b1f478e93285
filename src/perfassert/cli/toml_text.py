"""Values as TOML has them, in files that commands write."""

from __future__ import annotations

import json
from typing import Any


def toml_value(value: Any) -> str:
    """Of a table, a list, a text or a number."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{toml_text(k)} = {toml_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return toml_text(value) if isinstance(value, str) else repr(value)


def toml_text(value: str) -> str:
    """A string that Python and TOML read alike."""
    return json.dumps(value, ensure_ascii=False)
