"""One memory instruction: which field, which element."""

from __future__ import annotations

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
