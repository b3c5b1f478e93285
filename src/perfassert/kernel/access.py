"""One memory instruction: which field, which element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from perfassert.kernel.expression import ExpressionTree
from perfassert.source import SourceSpan


class Direction(str, Enum):
    """Whether an access reads or writes."""

    LOAD = "load"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of ``field[subscripts]``, one expression per axis, in C order.

    ``text`` is what the author wrote; columns in the expressions count from its start.
    ``assumed``: a subscript depends on data, and values for it were assumed.
    """

    field: str
    direction: Direction
    subscripts: tuple[ExpressionTree, ...]
    text: str
    span: SourceSpan
    assumed: bool = False

    def __str__(self) -> str:
        return self.text


_CARRIED = 0.1
"""Share of a direction's bytes from which on a width counts: the last elements of a row may be
narrow. The tenth is that of the metrics ``load_width`` and ``store_width``."""


def narrowest_width(bytes_by_width: Mapping[int, float]) -> int:
    """Find the least width whose accesses carry a tenth of all bytes.

    >>> narrowest_width({16: 4096.0, 4: 12.0}), narrowest_width({16: 4096.0, 4: 1024.0})
    (16, 4)
    """
    whole = sum(bytes_by_width.values())
    return min(width for width, moved in bytes_by_width.items() if moved >= _CARRIED * whole)
