"""Memory accesses of hand-written descriptions: the field and the subscripts of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from perfassert.kernel.expression import ExpressionTree
from perfassert.source import SourceSpan


class Direction(str, Enum):
    """Direction of an access: it reads or writes."""

    LOAD = "load"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of ``field[subscripts]``, one expression per axis, in C order.

    ``text`` is the source text; columns in the expressions count from its start. ``assumed``: a
    subscript depends on data, and its value was assumed.
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
"""Fraction of the loaded (or stored) bytes from which on an access width counts.

A compiler may handle the last elements of a row by a few narrow accesses, which are ignored. The
metrics ``load_width`` and ``store_width`` document this fraction.
"""


def narrowest_width(bytes_by_width: Mapping[int, float]) -> int:
    """Return the smallest access width, in bytes, that moves at least a tenth of all bytes.

    >>> narrowest_width({16: 4096.0, 4: 12.0}), narrowest_width({16: 4096.0, 4: 1024.0})
    (16, 4)
    """
    whole = sum(bytes_by_width.values())
    return min(width for width, moved in bytes_by_width.items() if moved >= _CARRIED * whole)
