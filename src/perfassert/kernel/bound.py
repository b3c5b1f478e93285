"""Accesses of compiled code for one launch: byte addresses as affine forms, with their guards."""

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
    """``address``: bytes from the start of ``field``, over coordinates and loop counters.

    ``ranges``: inclusive range of a symbol where it is narrower than the launch's, and of every
    loop counter that surrounds the access; ``conditions``: further forms that must not be 0.
    ``bytes`` per thread. ``rests_on``: what was assumed about its address or whether it happens.
    ``touched``: where executed blocks went, which then counts instead of address and conditions;
    copies of one instruction have it in common. ``merged``: lanes of an atomic on one address are
    one operation; ``turn``: how long an atomic keeps its address. ``instruction``:
    its number in the program. ``pieces``: of a bulk copy, into how many loops it is taken apart
    (0: none); ``reaches``: blocks whose shared memory it is written to.
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
