"""Entries of a TOML file by type; what has the wrong one fails with file and key."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from perfassert.errors import PerfAssertError, close_matches, in_short
from perfassert.system.confined import read_text

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError
    from tomllib import loads as _loads
else:
    from tomli import TOMLDecodeError
    from tomli import loads as _loads


__all__ = ["TOMLDecodeError", "TableReader", "loads", "read_toml"]


_MOST_PARTS = 16
"""Parts of a dotted key; no kind of file has tables nested half as deep."""
_MOST_DIGITS = 1000
"""Hexadecimal, octal and binary digits; Python prints no integer of several thousand."""
_PART = r"""(?:[A-Za-z0-9_-]+|"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"|'(?!'')[^'\n]*')"""
_DOT = r"[ \t]*\.[ \t]*"
_TOKEN = re.compile(
    "|".join(
        (
            r"#[^\n]*",
            r'"""[^"\\]*(?:(?:\\[\s\S]|"{1,2}(?!"))[^"\\]*)*"""(?:"{0,2})',
            r"'''[\s\S]*?'''(?:'{0,2})",
            rf"(?P<digits>0[xob][0-9A-Fa-f_]{{{_MOST_DIGITS}}})",
            rf"{_PART}(?:{_DOT}{_PART}){{0,{_MOST_PARTS - 1}}}(?P<further>{_DOT}{_PART})?",
            r"""(?P<unclosed>["'])""",
        )
    )
)
"""Comments, strings of several lines, and keys or values with their dots; all else is skipped."""


class _Unreadable(TOMLDecodeError):
    """TOML error for a text that Python's reader rejects with an error of another class."""

    def __init__(self, message: str) -> None:
        ValueError.__init__(self, message)


def loads(text: str) -> dict[str, Any]:
    """The table that a text is; :class:`TOMLDecodeError` for all that it is not."""
    _check_tokens(text)
    try:
        return _loads(text)
    except TOMLDecodeError:
        raise
    except ValueError as reason:  # a number of thousands of digits
        raise _Unreadable(str(reason)) from None
    except RecursionError:
        raise _Unreadable("it is nested too deeply") from None


def _check_tokens(text: str) -> None:
    """Reject a key of many parts, for which the parser takes time in proportion to the square,
    and an integer that is too long to be printed.

    Up to the first error of a text, its tokens are those of the parser; beyond it there is no
    matter, as the parser stops there. Therefore the scan ends at a quote that is not closed.
    """
    for token in _TOKEN.finditer(text):
        if token["further"] or token["digits"]:
            line = text.count("\n", 0, token.start()) + 1
            key, integer = f"a key has over {_MOST_PARTS} parts", "an integer has too many digits"
            raise _Unreadable(f"{key if token['further'] else integer} (at line {line})")
        if token["unclosed"]:
            return


def read_toml(
    path: Path, error: type[PerfAssertError], shown: str = ""
) -> tuple[str, dict[str, Any]]:
    """The text of a file and the table that it is; ``error`` calls it ``shown``, or by its path."""
    name = shown or str(path)
    try:
        text = read_text(path)
        return text, loads(text)
    except OSError as reason:
        raise error(f"{name}: cannot be read: {reason.strerror}") from None
    except TOMLDecodeError as reason:
        raise error(_not_toml(name, text, str(reason))) from None
    except UnicodeDecodeError as reason:
        raise error(f"{name}: not valid TOML: {reason}") from None
    except ValueError as reason:  # a name with NUL
        raise error(f"{name}: cannot be read: {reason}") from None


def _not_toml(name: str, text: str, reason: str) -> str:
    """``"k.toml:7: not valid TOML: Invalid value"`` and the line."""
    place = re.search(r" \(at line (\d+), column \d+\)$", reason)
    if place is None:
        return f"{name}: not valid TOML: {reason}"
    line = text.splitlines()[int(place[1]) - 1].strip()
    return f"{name}:{place[1]}: not valid TOML: {reason[: place.start()]}\n    {in_short(line)}"


_MOST = 20_000  # combinations that the lists of one file may stand for
_MOST_FILLED = 1 << 24
"""Characters and values that a file may come to when its names and lists are filled in."""


class TableReader:
    """Base of the readers of one kind of file; ``error`` is what they raise."""

    error: type[PerfAssertError] = PerfAssertError

    def __init__(self, path: Path) -> None:
        self.path = path
        self._combined = 0
        self._filled = 0

    def place(self, key: str) -> str:
        """Return the place of a key, with which messages begin."""
        return f"{self.path}: {key}"

    def fail(self, key: str, reason: str) -> NoReturn:
        raise self.error(f"{self.place(key)}: {reason}") from None

    def check_keys(self, prefix: str, table: Mapping[str, Any], allowed: Collection[str]) -> None:
        for key in table:
            if key not in allowed:
                hint = close_matches(key, allowed) or f"; known: {', '.join(allowed)}"
                self.fail(f"{prefix}.{key}".strip("."), f"unknown key{hint}")

    def section(self, key: str, value: Any) -> dict[str, Any]:
        if value is None:
            self.fail(key, "missing" if "[" in key else f"missing; add [{key}]")
        if not isinstance(value, dict):
            self.fail(key, f"must be a table, not {value!r}")
        return value

    def string(self, key: str, value: Any) -> str:
        if value is None:
            self.fail(key, "missing")
        if not isinstance(value, str):
            self.fail(key, f"must be a string, not {value!r}")
        return value

    def strings(self, key: str, value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        return tuple(self.string(key, item) for item in items)

    def mapping(self, key: str, value: Any) -> dict[str, str]:
        return {k: self.string(f"{key}.{k}", v) for k, v in self.section(key, value).items()}

    def combinations(self, key: str, lists: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Return the combinations of one element per list; the last list varies fastest.

        The number of combinations is limited, since a few short lists have more than fit in memory.
        """
        count = 1
        for items in lists:
            count = min(count * len(items), _MOST + 1)
        self._combined += count
        if self._combined > _MOST:
            self.fail(key, f"the file's lists have over {_MOST} combinations; give fewer values")
        return product(*lists)

    def count_filled(self, key: str, size: int) -> None:
        """Add what is made of a short file, before it is made; fail where it is more than a file
        may come to."""
        self._filled += size
        if self._filled > _MOST_FILLED:
            self.fail(
                key,
                f"with its names and lists filled in, the file has over {_MOST_FILLED >> 20} "
                "million characters; give shorter or fewer values",
            )

    def number(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, f"must be a number, not {value!r}")
        return float(value)
