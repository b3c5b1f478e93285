"""Splitting of SASS operand lists."""

from __future__ import annotations

from collections.abc import Iterator


def split_operands(text: str) -> Iterator[str]:
    """Return the parts of ``text`` between commas; commas inside brackets do not separate."""
    if not text:
        return
    depth = start = 0
    for i, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()
