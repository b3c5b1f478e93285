"""Tables and shares as text."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.errors import printable


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A plain table; cells are shown as they are, first column to the left."""
    from tabulate import tabulate

    text: str = tabulate(
        [[printable(str(cell)) for cell in row] for row in rows],
        headers=list(map(printable, header)),
        tablefmt="simple",
        disable_numparse=True,
    )
    return text


def percent(share: float, signed: bool = True) -> str:
    """``+35.5 %``."""
    if abs(share) >= 10:
        return f"{share * 100:+.0f} %" if signed else f"{share * 100:.0f} %"
    return f"{share * 100:+.1f} %" if signed else f"{share * 100:.1f} %"


def indent(text: str, prefix: str = "  ") -> str:
    """Every line moved to the right."""
    return "\n".join(f"{prefix}{line}".rstrip() for line in text.splitlines())
