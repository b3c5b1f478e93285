"""Groups of accesses that differ by a constant; the volume engine computes on groups.

The 25 loads of a stencil, for example, form one group and cost little more than one load.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, AffineCall, Forms, Quotient, Symbol, names_of
from perfassert.kernel.expression import AXES, BLOCK
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import AtomicTurn
from perfassert.kernel.names import Counter, Name

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CoupledCoordinates:
    """A set of coordinates that terms which are not affine, or conditions, tie together.

    No coordinate occurs in two such sets. ``forms`` holds the part of the address that depends on
    the coordinates, and their conditions. ``known`` caches the enumerated values, by start and
    count of each name. They are few if no block index is among the names. Others are kept while
    the volumes of a launch are estimated, in which windows of loops repeat them.
    """

    names: tuple[Name, ...]
    forms: Forms
    known: dict[tuple[object, ...], IntArray] = dataclasses.field(
        default_factory=dict, compare=False
    )

    def forget_blocks(self) -> None:
        """Drop cached values that depend on the block."""
        if not self.same_in_blocks:
            self.known.clear()

    @property
    def same_in_blocks(self) -> bool:
        """True if only coordinates within a block are tied."""
        return not any(name in AXES or name in BLOCK for name in self.names)


Ties = dict[tuple[tuple[Name, ...], tuple[Affine, ...]], CoupledCoordinates]
"""Sets of tied coordinates by their names, part of the address and conditions."""


@dataclass(frozen=True, eq=False)
class AccessGroup:
    """Accesses of one field and direction whose addresses differ by a constant.

    The byte address of access ``i`` is ``offsets[i] + Σ coefficient · symbol``. For the axes in
    ``split``, ``terms`` use thread and block index as two symbols. For the other axes they use the
    global coordinate. ``members`` holds the numbers of the kernel's accesses.

    Compiled code has more fields. ``ranges`` bounds single symbols, among them the loop counters in
    ``loops``. ``conditions`` are forms that are 0 if a thread is masked. ``atomic`` accesses change
    data in the L2. ``serial`` means that lanes take turns at an address, and ``turn`` says how long
    each turn is. ``bulk`` data is copied past the L1. ``past_l1`` loads ask the L2 even if the L1
    holds the data. ``ties`` has the sets of tied coordinates of all groups that share it.
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
    ties: Ties = dataclasses.field(default_factory=dict, repr=False)

    def with_ranges(self, ranges: tuple[tuple[Name, tuple[int, int]], ...]) -> AccessGroup:
        """Return the group with other ranges; it shares what does not depend on them."""
        made = replace(self, ranges=ranges)
        made.__dict__["tied"] = self.tied  # in the place of the cached property
        return made

    @cached_property
    def coefficients(self) -> dict[Name, int]:
        """Coefficients of the symbols that occur outside quotients."""
        return {s: c for s, c in self.terms if not isinstance(s, (Quotient, AffineCall))}

    @cached_property
    def opaque(self) -> tuple[tuple[Quotient | AffineCall, int], ...]:
        """Terms that are not affine."""
        return tuple((s, c) for s, c in self.terms if isinstance(s, (Quotient, AffineCall)))

    @cached_property
    def tied(self) -> tuple[CoupledCoordinates, ...]:
        """Sets of coordinates that are tied together, as many sets as possible."""
        ties = [names_of(symbol) for symbol, _ in self.opaque]
        ties += [frozenset(condition.symbols()) for condition in self.conditions]
        sets: list[frozenset[Name]] = []
        # For example, the ties {i, j}, {k} and {j, k} have common members one after the other, so
        # they become a single set {i, j, k}. Without the last tie there are two sets.
        for tie in ties:
            together = tie.union(*(s for s in sets if s & tie))
            sets = [*(s for s in sets if not s & tie and s != tie), together]
        return tuple(self._couple(tuple(sorted(names, key=str))) for names in sets)

    def _couple(self, names: tuple[Name, ...]) -> CoupledCoordinates:
        """Return a set of tied coordinates; groups with the same terms share what is enumerated."""
        own = frozenset(names)
        address = Affine(0, tuple(t for t in self.terms if own.issuperset(names_of(t[0]))))
        forms = (address, *(c for c in self.conditions if own.issuperset(c.symbols())))
        return self.ties.setdefault((names, forms), CoupledCoordinates(names, Forms(forms)))

    @cached_property
    def block_axes(self) -> frozenset[int]:
        """Axes along which accesses may differ from block to block."""
        seen = {s for s, _ in self.ranges}
        for form in (Affine(0, self.terms), *self.conditions):
            seen.update(form.symbols())
        pairs = enumerate(zip(AXES, BLOCK, strict=True))
        return frozenset(i for i, names in pairs if not seen.isdisjoint(names))

    @cached_property
    def forms(self) -> Forms:
        """The address without the offset, and the conditions."""
        return Forms([Affine(0, self.terms), *self.conditions])

    @cached_property
    def rigid(self) -> bool:
        """True if all blocks touch the same pattern, shifted, except at the end of the domain."""
        own = {*(f"threadIdx.{a}" for a in AXES), *self.loops}
        seen = {s for s, _ in self.ranges}.union(*(tied.names for tied in self.tied))
        return seen <= own


def of(direction: Direction, groups: Sequence[AccessGroup]) -> list[AccessGroup]:
    """Return the groups of one direction."""
    return [g for g in groups if g.direction is direction]


class Moving(Protocol):
    """A group of accesses, with a closed form or with executed addresses."""

    @property
    def direction(self) -> Direction: ...

    @property
    def atomic(self) -> bool: ...


_Group = TypeVar("_Group", bound=Moving)


def between_l2_and_dram(direction: Direction, groups: Iterable[_Group]) -> list[_Group]:
    """Return the groups whose sectors the L2 loads from DRAM, or stores to it.

    Data that an atomic changes in the L2 is loaded from DRAM first, even if no thread uses the
    result, so atomics belong to both directions.
    """
    return [g for g in groups if g.direction is direction or g.atomic]


def coordinate_ranges(launch: Launch) -> dict[Name, tuple[int, int]]:
    """Return the inclusive range of each coordinate over the launch, without masked threads."""
    ranges: dict[Name, tuple[int, int]] = {}
    for i, axis in enumerate(AXES):
        top = launch.extent[i] - 1
        ranges[axis] = (0, top)
        ranges[f"threadIdx.{axis}"] = (0, min(launch.block[i] - 1, top))
        ranges[f"blockIdx.{axis}"] = (0, min(launch.grid[i] - 1, top // launch.block[i]))
    return ranges
