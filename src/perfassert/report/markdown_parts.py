"""Markdown for GitHub: cells, tables, details, and text that stays below GitHub's limit."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from perfassert.errors import ReportError, printable

_ALARMING = ("🔴", "❌", "⚫", "⚠️")
LIMIT = 65_536
"""Most characters that GitHub accepts in one comment."""
_RESERVE = 200  # for the last line, which says what was left out
_ADDRESS = re.compile(r"https?://[\w.:/?=&%#~+-]+")
_SPECIAL = re.compile(r"[\\`*\[\]|~#@!]|(?<!\w)_|_(?!\w)|:(?=\w|//)|(?<=www)\.|(?<=GH)-")


def code(text: str) -> str:
    """Return a name in code type, whatever characters it has."""
    escaped = html.escape(_join_lines(text), quote=False)
    return f"<code>{_SPECIAL.sub(_entity, escaped)}</code>"


def words(text: object) -> str:
    """Return text in which no character has a meaning to Markdown."""
    return _SPECIAL.sub(_entity, html.escape(_join_lines(str(text)), quote=False))


def _join_lines(text: str) -> str:
    return printable(" ".join(text.split()), lines=False)


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def fenced_block(text: str) -> str:
    """Return a block of preformatted text."""
    text = printable(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return a table of Markdown cells; the columns of ``right`` are flush right."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def details(summary: str, body: str) -> str:
    """Return a part that is folded away; ``summary`` is HTML."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


class Capped:
    """Text made of parts that are accepted as long as they fit."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.parts: list[str] = []
        self._left = limit - _RESERVE

    def add(self, part: str) -> bool:
        """Add a part and return True, or return False if it does not fit."""
        if len(part) + 2 > self._left:
            return False
        self._left -= len(part) + 2
        self.parts.append(part)
        return True

    def add_table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        share: float,
        right: Sequence[int] = (),
        total: int = 0,
        summary: str = "",
    ) -> None:
        """Add the rows that fit into a share of the room left, and the number of rows left out.

        ``total`` is the number of all rows, where ``rows`` holds fewer. A ``summary`` folds the
        table away below it.
        """
        room, kept = self._left * share - len("… and 1000000 more") - 2 * _width(header), 0
        for row in rows:
            room -= _width(row)
            if room < 0:
                break
            kept += 1
        if kept:
            text = table(header, rows[:kept], right)
            self.add(details(summary, text) if summary else text)
        if (left_out := max(total, len(rows)) - kept) > 0:
            self.add(f"… and {left_out} more")

    def text(self, left_out: int = 0) -> str:
        """Return all parts, and the number of those left out."""
        end = [f"… and {left_out} more, whose causes are not shown"] if left_out else []
        return "\n\n".join((*self.parts, *end)) + "\n"


def _width(row: Sequence[str]) -> int:
    """Return the number of characters of a table's line."""
    return sum(map(len, row)) + 3 * len(row) + 2


def report_link(address: str) -> str:
    """Return a link to the whole report; :class:`ReportError` for an invalid address."""
    if not _ADDRESS.fullmatch(address):
        raise ReportError(f"--link {address}: is not an address as https://example.org/report.html")
    return f"[The whole report]({address})"


def heading(mark: str, text: str, failed: object) -> str:
    """Return a heading with its mark, which is not a friendly one if the command fails.

    Example:
        >>> heading("✅", "Code of GPU kernels", failed=True)
        '## ❌ Code of GPU kernels'
    """
    return f"## {'❌' if failed and mark not in _ALARMING else mark} {text}"
