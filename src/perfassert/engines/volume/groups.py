"""Accesses that differ by a constant, as one: what all of the volume engine works on.

So 25 loads of a stencil cost little more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, AffineCall, Forms, Quotient, Symbol
from perfassert.kernel.expression import AXES, BLOCK
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import AtomicTurn
from perfassert.kernel.names import Counter, Name

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tied:
    """Coordinates that terms which are not affine, or conditions, tie together; none occurs in
    another such set.

    ``forms``: the part of the address that depends on them, and their conditions; ``known``: what
    they amount to, by range and count of each name, where no block index is among them.
    """

    names: tuple[Name, ...]
    forms: Forms
    known: dict[tuple[object, ...], IntArray] = field(default_factory=dict, compare=False)

    @property
    def same_in_blocks(self) -> bool:
        """Whether only coordinates within a block are tied."""
        return not any(name in AXES or name in BLOCK for name in self.names)


@dataclass(frozen=True, eq=False)
class AccessGroup:
    """Accesses of one field and direction whose addresses differ by a constant.

    The byte address of access ``i`` is ``offsets[i] + Σ coefficient · symbol``. ``split`` names
    the axes for which ``symbols`` holds thread and block index apart; for the others it holds the
    global coordinate. Of compiled code: ``ranges`` of single symbols, among them the loop counters
    in ``loops``; ``conditions``: forms that are 0 where a thread is masked; ``members``: numbers
    of the kernel's accesses. ``atomic``: changes in the L2 what it finds there; ``serial``: lanes
    take turns at an address, and ``turn``: how long each does; ``bulk``: copied past the L1;
    ``past_l1``: loads that ask the L2 whatever the L1 holds.
    """

    field: str
    direction: Direction
    item_bytes: int
    terms: tuple[tuple[Symbol, int], ...]
    offsets: IntArray
    alignment: int
    split: frozenset[str]
    ranges: tuple[tuple[Name, tuple[int, int]], ...] = ()
    conditions: tuple[Affine, ...] = ()
    loops: tuple[Counter, ...] = ()
    members: tuple[int, ...] = ()
    serial: bool = False
    bulk: bool = False
    past_l1: bool = False
    turn: AtomicTurn = AtomicTurn.UNKNOWN
    atomic: bool = False

    @cached_property
    def coefficients(self) -> dict[Name, int]:
        """Coefficients of the symbols that occur outside quotients."""
        return {s: c for s, c in self.terms if not isinstance(s, (Quotient, AffineCall))}

    @cached_property
    def opaque(self) -> tuple[tuple[Quotient | AffineCall, int], ...]:
        """The terms that are not affine."""
        return tuple((s, c) for s, c in self.terms if isinstance(s, (Quotient, AffineCall)))

    @cached_property
    def tied(self) -> tuple[Tied, ...]:
        """The coordinates that are tied together, in as many sets as possible."""
        ties = [frozenset(_symbols(term)) for term in self.opaque]
        ties += [frozenset(condition.symbols()) for condition in self.conditions]
        sets: list[frozenset[Name]] = []
        for tie in ties:
            together = tie.union(*(s for s in sets if s & tie))
            sets = [*(s for s in sets if not s & tie and s != tie), together]
        return tuple(
            Tied(
                tuple(sorted(names, key=str)),
                Forms(
                    [
                        Affine(0, tuple(t for t in self.terms if names.issuperset(_symbols(t)))),
                        *(c for c in self.conditions if names.issuperset(c.symbols())),
                    ]
                ),
            )
            for names in sets
        )

    @cached_property
    def block_axes(self) -> frozenset[int]:
        """Axes along which its accesses may differ from block to block."""
        seen = {s for s, _ in self.ranges}
        for form in (Affine(0, self.terms), *self.conditions):
            seen.update(form.symbols())
        pairs = enumerate(zip(AXES, BLOCK, strict=True))
        return frozenset(i for i, names in pairs if not seen.isdisjoint(names))

    @cached_property
    def forms(self) -> Forms:
        """The address less the offset, and the conditions."""
        return Forms([Affine(0, self.terms), *self.conditions])

    @cached_property
    def rigid(self) -> bool:
        """Whether every block touches the same pattern, shifted, but for the domain's end."""
        own = {*(f"threadIdx.{a}" for a in AXES), *self.loops}
        seen = {s for s, _ in self.ranges}.union(*(tied.names for tied in self.tied))
        return seen <= own


def _symbols(term: tuple[Symbol, int]) -> Iterable[Name]:
    return Affine(0, (term,)).symbols()


def of(direction: Direction, groups: Sequence[AccessGroup]) -> list[AccessGroup]:
    """The groups of one direction."""
    return [g for g in groups if g.direction is direction]


class Moving(Protocol):
    """A group of accesses, with a closed form or executed."""

    @property
    def direction(self) -> Direction: ...

    @property
    def atomic(self) -> bool: ...


_Group = TypeVar("_Group", bound=Moving)


def between_l2_and_dram(direction: Direction, groups: Iterable[_Group]) -> list[_Group]:
    """The groups whose sectors the L2 loads from DRAM, or stores there: what is changed in the L2
    comes from DRAM first, whether or not a thread wants the result."""
    return [g for g in groups if g.direction is direction or g.atomic]


def coordinate_ranges(launch: Launch) -> dict[Name, tuple[int, int]]:
    """Inclusive range of every coordinate over the launch, masked threads left out."""
    ranges: dict[Name, tuple[int, int]] = {}
    for i, axis in enumerate(AXES):
        top = launch.extent[i] - 1
        ranges[axis] = (0, top)
        ranges[f"threadIdx.{axis}"] = (0, min(launch.block[i] - 1, top))
        ranges[f"blockIdx.{axis}"] = (0, min(launch.grid[i] - 1, top // launch.block[i]))
    return ranges
