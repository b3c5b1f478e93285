"""Memory accesses of compiled code, bound to one launch.

Each has its byte address as an affine form, and the conditions under which it is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine
from perfassert.kernel.executed import Touched
from perfassert.kernel.machine import AtomicTurn
from perfassert.kernel.names import Counter, Name
from perfassert.source import Assumption, SourceSpan


@dataclass(frozen=True, slots=True)
class BoundAccess:
    """A memory access of one instruction, bound to a launch.

    Attributes:
        bytes: bytes that each thread accesses.
        address: bytes from the start of ``field``, over coordinates and loop counters.
        ranges: inclusive range of each symbol that has a narrower one than the launch gives it,
            and of the counter of each loop around the access.
        conditions: further forms; the access is executed only if none of them is 0.
        rests_on: what was assumed about its address, or about whether it is executed.
        touched: addresses that executed blocks accessed. If given, it replaces ``address`` and
            ``conditions``. Copies of one instruction share it.
        pieces: number of pieces, of one sector or less, into which a bulk copy is divided; 0 for
            other accesses.
        instruction: its number in the program.
        merged: True if the lanes of an atomic that access one address make one operation.
        turn: how long an atomic occupies its address.
        reaches: blocks to whose shared memory a bulk copy writes.
    """

    field: str
    space: str
    direction: Direction
    bytes: int
    address: Affine
    ranges: Mapping[Name, tuple[int, int]]
    conditions: tuple[Affine, ...]
    loops: tuple[Counter, ...]
    atomic: bool
    text: str
    span: SourceSpan | None
    rests_on: tuple[Assumption, ...] = ()
    touched: Touched | None = None
    pieces: int = 0
    instruction: int = -1
    merged: bool = False
    turn: AtomicTurn = AtomicTurn.UNKNOWN
    reaches: int = 1
