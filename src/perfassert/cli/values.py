"""Values on the command line: numbers, arithmetic, null, lists, members of structures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perfassert.errors import LaunchError
from perfassert.kernel.integers import evaluate_integer

_NULL = ("null", "None", "nullptr")


def pair(text: str, option: str) -> tuple[str, str]:
    """``"n=100"`` → name and value."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise LaunchError(f"{option}: {text!r} is not of the form NAME=VALUE")
    return name.strip(), value.strip()


def values(texts: Iterable[str], option: str) -> dict[str, Any]:
    """``["n=1e6", "cfg.n=5"]`` → ``{"n": 1000000, "cfg": {"n": 5}}``; byte offsets are numbers."""
    found: dict[str, Any] = {}
    for text in texts:
        path, written = pair(text, option)
        name, dot, member = path.partition(".")
        if not dot:
            found[name] = value(written, f"{option} {name}")
            continue
        structure = found.setdefault(name, {})
        if not isinstance(structure, dict):
            raise LaunchError(f"{option} {path}: {name!r} has a value of its own")
        structure[int(member) if member.isdigit() else member] = value(written, f"{option} {path}")
    return found


def value(text: str, where: str) -> Any:
    """``"1e6"``, ``"0x10"``, ``"4096 * 256"``, ``"1.5"``, ``"null"``, ``"1, 2, 3"``."""
    if text in _NULL:
        return None
    if "," in text and "(" not in text:
        return [value(part.strip(), where) for part in text.split(",") if part.strip()]
    try:
        number = float(text)
    except ValueError:
        return _whole(text, where)
    plain = text.lstrip("+-").isdigit()
    return (
        int(text) if plain else int(number) if number.is_integer() and "." not in text else number
    )


def _whole(text: str, where: str) -> int:
    try:
        return evaluate_integer(text, {}, LaunchError)
    except LaunchError as error:
        raise LaunchError(f"{where}: {error}") from None
