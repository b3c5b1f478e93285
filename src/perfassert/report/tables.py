"""Tables and shares as text.

A :class:`Table` keeps its cells until it is shown: plain by ``str()``, as wide as the terminal and
with verdicts in colour by :func:`perfassert.cli.terminal.say`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfassert.errors import printable

_TENFOLD = 10  # as a share: a larger change is told as a factor


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown; the plain form has ``indent`` before each line.

    >>> print(table(("metric", "value"), [("time", "1 ms")]))
    metric    value
    --------  -------
    time      1 ms
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    indent: str = ""

    def __str__(self) -> str:
        from tabulate import tabulate

        text: str = tabulate(self.rows, self.header, tablefmt="simple", disable_numparse=True)
        return indent(text, self.indent)


@dataclass(frozen=True, slots=True)
class Text:
    """Sequence of texts and tables."""

    parts: tuple[str | Table, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


def table(header: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> Table:
    """Return a table of printable cells, all flush left."""
    cells = tuple(tuple(printable(str(cell)) for cell in row) for row in rows)
    return Table(tuple(map(printable, header)), cells, indent)


def join(parts: Iterable[str | Table | Text], separator: str = "\n\n") -> Text:
    """Return one text of several parts, with a separator between them."""
    joined: list[str | Table] = []
    for part in parts:
        if joined and separator:
            joined.append(separator)
        joined.extend(part.parts if isinstance(part, Text) else (part,))
    return Text(tuple(joined))


def is_factor(share: float) -> bool:
    """Return True for a change that :func:`percent` shows as a factor."""
    return share >= _TENFOLD


def percent(share: float, signed: bool = True) -> str:
    """Return a share in percent; more than tenfold is shown as a factor.

    >>> percent(0.355), percent(0.355, signed=False), percent(15.5), percent(8e5), percent(-1e-9)
    ('+35.5 %', '35.5 %', '16.5 times', '8e5 times', '0.0 %')
    """
    if signed and is_factor(share):
        return f"{1 + share:.3g} times".replace("e+0", "e")
    if abs(share) >= _TENFOLD:
        return f"{share * 100:.0f} %"
    text = f"{share * 100:+.1f} %"
    return text if signed and text[1:] != "0.0 %" else f"{abs(share) * 100:.1f} %"


def indent(text: str, prefix: str = "  ") -> str:
    """Return the text with each line moved to the right."""
    return "\n".join(f"{prefix}{line}".rstrip() for line in text.splitlines())
