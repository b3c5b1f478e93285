"""Grid-stride loops as a wider grid, and the guards that all accesses share as a domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfassert.frontends.binding.binder import Binder
from perfassert.kernel.affine import (
    Affine,
    AffineCall,
    IntArray,
    Quotient,
    Symbol,
    evaluate,
)
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import LoopCounter, Name

_MAX_POSITIONS = 2**14
"""Largest number of positions along an axis at which trip counts are looked at."""


def normalise_strides(
    binder: Binder, accesses: tuple[BoundAccess, ...]
) -> tuple[Launch, tuple[BoundAccess, ...]]:
    """Return a launch with more blocks and a domain, which replace grid-stride loops; its accesses.

    A loop that advances every address in it by as much as ``extent`` threads further along an axis
    does the work of a grid with so many more blocks, if its guards can be said of that grid, too.
    The code has to step by the extent of the grid, whatever that is: in a loop over rows of as many
    columns as there happen to be threads, an iteration is not the work of a further thread.
    The axis is the slowest that the grid has: all blocks do an iteration before any does the next.
    Shared and local memory stay with the launch as it is.
    """
    launch = binder.launch
    grid = list(launch.grid)
    for number, axis in enumerate(AXES):
        extent = launch.block[number] * launch.grid[number]
        if any(blocks > 1 for blocks in launch.grid[number + 1 :]):
            continue
        for loop in binder.program.loops:
            if loop.parent >= 0:
                continue
            stride = _Stride(LoopCounter(loop.index), axis, extent)
            total = _total_threads(binder, loop.index, number, extent)
            widened = None if total is None else _widen(binder, accesses, stride, total)
            if total is not None and widened is not None:
                accesses = widened
                grid[number] = -(-total // launch.block[number])
                break
    return _with_domain(launch, tuple(grid), accesses)


@dataclass(frozen=True, slots=True)
class _Stride:
    """A loop that may continue the coordinate ``axis``: an iteration is ``extent`` further on."""

    counter: LoopCounter
    axis: str
    extent: int

    @property
    def block(self) -> str:
        return f"blockIdx.{self.axis}"

    def wide(self, form: Affine) -> Affine | None:
        """The form with ``axis + extent · counter`` as one coordinate, which takes the place of
        ``axis``; None where they occur apart."""
        if {self.counter, self.axis, self.block}.isdisjoint(form.symbols()):
            return form
        own = grown = 0
        terms: list[tuple[Symbol, int]] = []
        for symbol, factor in form.terms:
            if symbol == self.counter:
                own = factor
                continue
            replacement = self._symbol(symbol)
            if replacement is None:
                return None
            terms.append((replacement[0], factor))
            grown += replacement[1] * factor
        return Affine(form.constant, tuple(terms)) if own == grown else None

    def _symbol(self, symbol: Symbol) -> tuple[Symbol, int] | None:
        """The symbol in terms of the wide coordinate, and by how much it grows along with that
        where the counter is written beside it."""
        if isinstance(symbol, AffineCall):
            inner = [self.wide(a) for a in symbol.arguments]
            if any(a is None for a in inner):
                return None
            return AffineCall(symbol.function, tuple(a for a in inner if a is not None)), 0
        if not isinstance(symbol, Quotient):
            if symbol == self.block:
                return None
            return symbol, self.extent * (symbol == self.axis)
        whole = self.wide(symbol.dividend)
        if whole is not None:
            return Quotient(whole, symbol.divisor), 0
        grown = self._grown(symbol.dividend)
        if grown is None or grown % symbol.divisor:
            return None
        return symbol, grown // symbol.divisor

    def _grown(self, form: Affine) -> int | None:
        """Return how much a form without the counter grows over one extent of the axis."""
        total = 0
        for symbol, factor in form.terms:
            if symbol == self.counter or isinstance(symbol, AffineCall):
                return None
            replacement = self._symbol(symbol)
            if replacement is None:
                return None
            total += replacement[1] * factor
        return total


def _widen(
    binder: Binder, accesses: Sequence[BoundAccess], stride: _Stride, total: int
) -> tuple[BoundAccess, ...] | None:
    """Return the accesses on a grid of ``total`` threads along the axis; None if not exact."""
    strided = [a for a in accesses if stride.counter in a.loops and _has_closed_form(a)]
    if not strided or not all(_reads_grid(binder, a, stride.axis) for a in strided):
        return None
    widened = []
    for access in accesses:
        wide: BoundAccess | None = access
        if _has_closed_form(access):
            inside = stride.counter in access.loops
            wide = (
                _widen_strided(binder, access, stride, total)
                if inside
                else _widen_unstrided(access, stride)
            )
        if wide is None:
            return None
        widened.append(wide)
    return tuple(widened)


def _reads_grid(binder: Binder, access: BoundAccess, axis: str) -> bool:
    """Return True if the code computes the address of the access from the extent of the grid."""
    symbols = binder.program.symbols
    addresses = (a.address for a in binder.program.instructions[access.instruction].accesses)
    atoms = frozenset[int]().union(*map(symbols.free_atoms, addresses))
    return any(symbols.atoms[a].name == f"gridDim.{axis}" for a in atoms)


def _has_closed_form(access: BoundAccess) -> bool:
    """Return True if a closed form gives the access's address in global memory."""
    return access.space == "global" and access.touched is None


def _widen_unstrided(access: BoundAccess, stride: _Stride) -> BoundAccess:
    low, high = access.ranges.get(stride.axis, (0, stride.extent - 1))
    return replace(
        access, ranges={**access.ranges, stride.axis: (low, min(high, stride.extent - 1))}
    )


def _widen_strided(
    binder: Binder, access: BoundAccess, stride: _Stride, total: int
) -> BoundAccess | None:
    address = stride.wide(access.address)
    if address is None or stride.axis not in set(access.address.symbols()):
        return None
    ranges = dict(access.ranges)
    first, last = ranges.pop(stride.counter)
    low, high = ranges.pop(stride.axis, (0, stride.extent - 1))
    if stride.block in ranges or low > 0 or high < stride.extent - 1:
        return None  # a guard on the thread, whatever the iteration
    ranges[stride.axis] = (first * stride.extent, min((last + 1) * stride.extent, total) - 1)
    own = binder.within(stride.counter.loop)
    conditions = [stride.wide(c) for c in access.conditions if c != own]
    if any(c is None for c in conditions):
        return None
    return replace(
        access, address=address, ranges=ranges,
        conditions=tuple(c for c in conditions if c is not None),
        loops=tuple(loop for loop in access.loops if loop != stride.counter),
    )  # fmt: skip


def _total_threads(binder: Binder, loop: int, axis: int, extent: int) -> int | None:
    """Return the number of threads along the axis that the loop's work amounts to. None: trips are
    not the same for all threads, or one fewer from some thread on."""
    loop_range = binder.loops[loop]
    trips = binder.program.loops[loop].trips
    if loop_range.fewest == loop_range.most or trips is None:
        return extent * loop_range.most
    form, name, block = binder.form(trips), AXES[axis], binder.launch.block[axis]
    if not {name, f"threadIdx.{name}", f"blockIdx.{name}"}.issuperset(form.symbols()):
        return None

    def of(place: IntArray) -> IntArray:
        values: dict[Name, IntArray] = {
            name: place,
            f"threadIdx.{name}": place % block,
            f"blockIdx.{name}": place // block,
        }
        return evaluate(dict(form.terms), values) + form.constant

    places = np.linspace(0, extent - 1, min(extent, _MAX_POSITIONS)).astype(np.int64)
    seen = of(places)
    if (
        (np.diff(seen) > 0).any()
        or seen.min() < loop_range.most - 1
        or seen.max() != loop_range.most
    ):
        return None
    last = np.flatnonzero(seen == loop_range.most)[-1]  # of those that run once more
    between = np.arange(places[last], places[min(last + 1, len(places) - 1)] + 1)
    return int(extent * (loop_range.most - 1) + between[of(between) == loop_range.most][-1] + 1)


def _with_domain(
    launch: Launch, grid: tuple[int, ...], accesses: tuple[BoundAccess, ...]
) -> tuple[Launch, tuple[BoundAccess, ...]]:
    """The launch on ``grid``; what no access goes beyond is its domain."""
    full = [b * g for b, g in zip(launch.block, grid, strict=True)]
    tops = []
    seen = [a for a in accesses if a.space == "global"]
    for i in range(len(AXES)):
        names = _coordinate_names(launch, grid, i)
        lasts = [min(a.ranges.get(n, (0, full[i] - 1))[1] for n in names) for a in seen]
        tops.append(max(lasts, default=full[i] - 1) + 1)
    domain = tuple(max(1, min(t, f)) for t, f in zip(tops, full, strict=True))
    trimmed = []
    for access in accesses:
        if access.space != "global":
            trimmed.append(access)
            continue
        ranges = dict(access.ranges)
        for i, axis in enumerate(AXES):
            if axis in ranges and ranges[axis][0] == 0 and ranges[axis][1] >= domain[i] - 1:
                del ranges[axis]
        changed = len(ranges) < len(access.ranges)
        trimmed.append(replace(access, ranges=ranges) if changed else access)
    work = Launch.looping(launch, grid, domain)
    return work, tuple(trimmed)


def _coordinate_names(launch: Launch, grid: tuple[int, ...], number: int) -> list[str]:
    """Return the coordinate's names: the thread's in one block, the block's if of one thread."""
    axis = AXES[number]
    names = [axis]
    if launch.grid[number] == grid[number] == 1:
        names.append(f"threadIdx.{axis}")
    if launch.block[number] == 1 and launch.grid[number] == grid[number]:
        names.append(f"blockIdx.{axis}")
    return names
