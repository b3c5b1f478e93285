"""On which line each key of a TOML file stands, which the parser does not tell.

Follows https://toml.io/en/v1.0.0 for a text that the parser has accepted; nothing is checked.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from perfassert.toml.tables import loads

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\]|\\.)*"|'[^']*\'''', re.S
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")


def key_lines(text: str) -> dict[str, int]:
    """Key → line, counted from 1: ``{"test[0].expect.time": 12}``."""
    return _Scanner(text).scan()


class _Scanner:
    """Scanner of a TOML text, which finds the line of each key; ``at``: its current position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[str, int] = {}
        self._ends = [m.start() for m in re.finditer("\n", text)]
        self._counts: dict[str, int] = {}  # of arrays of tables

    def scan(self) -> dict[str, int]:
        table = ""
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self.lines

    def _header(self) -> str:
        start = self.at
        array = self.text.startswith("[[", start)
        self.at += 2 if array else 1
        *above, last = self._read_dotted_key()
        path = ""
        for part in above:
            path = self._note(_join(path, part), start)
            if path in self._counts:
                path += f"[{self._counts[path] - 1}]"
        path = self._note(_join(path, last), start)
        if array:
            count = self._counts[path] = self._counts.get(path, 0) + 1
            path = self._note(f"{path}[{count - 1}]", start)
        self.at += 2 if array else 1
        return path

    def _pair(self, table: str) -> None:
        start, path = self.at, table
        for part in self._read_dotted_key():
            path = self._note(_join(path, part), start)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: str) -> None:
        first = self.text[self.at]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline(path)
        else:
            self._skip(_STRING if first in "\"'" else _SCALAR)

    def _array(self, path: str) -> None:
        self._open()
        count = 0
        while self.text[self.at] != "]":
            self._value(self._note(f"{path}[{count}]", self.at))
            count += 1
            self._comma()
        self.at += 1

    def _inline(self, path: str) -> None:
        self._open()
        while self.text[self.at] != "}":
            self._pair(path)
            self._comma()
        self.at += 1

    def _open(self) -> None:
        self.at += 1
        self._skip(_BLANK)

    def _comma(self) -> None:
        self._skip(_BLANK)
        if self.text[self.at] == ",":
            self._open()

    def _read_dotted_key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_SPACE)
            parts.append(self._plain(self._skip(_KEY)))
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _plain(self, key: str) -> str:
        return next(iter(loads(f"{key} = 0"))) if key[0] in "\"'" else key

    def _note(self, path: str, at: int) -> str:
        self.lines.setdefault(path, bisect_right(self._ends, at - 1) + 1)
        return path

    def _skip(self, what: re.Pattern[str]) -> str:
        match = what.match(self.text, self.at)
        assert match is not None, f"position {self.at}"
        self.at = match.end()
        return match[0]


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part
