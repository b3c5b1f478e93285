"""Kinds of blocks of a grid that do alike, and the block that stands for the others.

Blocks decide alike where every condition and trip count has the same value for each of their
threads. The grid is cut into boxes: where intervals decide all conditions, all blocks of a box are
of one kind and are counted by its extents; what is left is looked at block by block, and what is
too much for that in a sample of blocks. So a kind has its exact number of blocks, at a cost that
grows with the conditions' boundaries and not with the grid.

Of the kinds that do about as much as a block does on average, or more, the one that does most of
the work is simulated, and as many blocks of it as the work amounts to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import ceil, prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from perfassert.kernel.distinct import distinct
from perfassert.kernel.executed import spread_blocks

IntArray = npt.NDArray[np.int64]
Place = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""Blocks in x, y and z, each from a first coordinate to an excluded one."""
_FEW = 64
"""Largest number of blocks that are looked at one by one at once."""
_LEAF = 1 << 16
"""Largest number of values for which a box is looked at block by block."""
_BUDGET = 1 << 20
"""Largest number of values that are computed in all."""
_BOXES = 2048
"""Largest number of boxes that are cut."""
_SAMPLE = 4096
"""Largest number of the remaining blocks that are looked at."""
_MOST_WALKED = 256
"""Largest number of kinds walked through: further ones count as those that decide nearly alike."""
_ITEMS = 100_000
"""Largest number of graph items made for this; a few blocks are walked through in any case."""
_FEWEST = 8
_ALIKE = 0.75
"""Share of the work that is done by blocks like the middle one, from which on it stands for all."""
_NEAR = 0.8
"""Share of the mean work of a block: no number of blocks that do less does all of the work."""


class Deciding(Protocol):
    """Decision values of blocks; ``axes``: the axes of the grid that they depend on."""

    @property
    def axes(self) -> frozenset[int]: ...

    def cost(self, box: Box) -> int:
        """Values that are computed to look at each block of a box."""

    def differing(self, box: Box, among: Sequence[int] | None) -> Sequence[int]:
        """Numbers of the decisions, ``among`` these, that may differ between blocks of a box."""

    def decide(self, places: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return three numbers for each of the blocks [n, 3]: one that is the same where blocks
        decide alike, one that is the same where their conditions hold alike, and the sum of their
        trip counts."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups of blocks that decide alike.

    ``places``: a block of each; ``counts``: how many there are; ``trips``: sums of their trip
    counts, ascending among those with the same ``conditions``; ``looked_at``: blocks of those in
    the sample, of ``sampled`` that it is of; 0: every block was counted.
    """

    places: Sequence[Place]
    counts: npt.NDArray[np.float64]
    conditions: IntArray
    trips: IntArray
    looked_at: int = 0
    sampled: int = 0


def partition(box: Box, deciding: Deciding) -> Partition:
    """Return the blocks of a box, grouped by what they decide."""
    axes = deciding.axes
    whole = tuple(
        (low, high) if a in axes else ((low + high) // 2, (low + high) // 2 + 1)
        for a, (low, high) in enumerate(box)
    )
    repeated = _size(box) // max(1, _size(whole))
    boxes: list[tuple[int, Box, Sequence[int]]] = []
    alike: list[Box] = []
    single: list[Box] = []
    if _size(whole) <= _FEW:
        single.append(whole)
    elif undecided := deciding.differing(whole, None):
        boxes.append((-_size(whole), whole, undecided))
    else:
        alike.append(whole)
    values, cut = 0, 0
    while boxes and cut < _BOXES:
        _, box, among = boxes[0]
        cost = deciding.cost(box)
        if cost <= _LEAF:
            values += cost
            if values > _BUDGET:
                break
            single.append(heappop(boxes)[1])
            continue
        heappop(boxes)
        for half in _halves(box):
            cut += 1
            left = deciding.differing(half, among)
            if left:
                heappush(boxes, (-_size(half), half, left))
            else:
                alike.append(half)
    remaining = [box for _, box, _ in boxes]
    sample, weights = _sample_boxes(remaining)
    places = [
        np.array([[(low + high) // 2 for low, high in box] for box in alike], np.int64).reshape(
            -1, 3
        ),
        *map(_all_places, single),
        sample,
    ]
    counts = [
        np.array([_size(box) for box in alike], float),
        np.ones(sum(map(_size, single))),
        weights,
    ]
    return _group_alike(
        deciding, np.concatenate(places), np.concatenate(counts) * repeated,
        len(sample), sum(map(_size, remaining)) * repeated,
    )  # fmt: skip


def _group_alike(
    deciding: Deciding, places: IntArray, counts: npt.NDArray[np.float64], looked_at: int, of: int
) -> Partition:
    keys, conditions, trips = deciding.decide(places)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    sums = np.bincount(group, counts, len(first)).astype(np.float64)
    # Of a kind the block in the middle, away from borders.
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(first) + 1))
    middle = order[(starts[:-1] + starts[1:]) // 2]
    sorted_ = np.lexsort((first, trips[middle], conditions[middle]))
    at = middle[sorted_]
    return Partition(
        [tuple(p) for p in places[at].tolist()], sums[sorted_], conditions[at], trips[at],
        looked_at, of,
    )  # fmt: skip


def idle_boxes(grid: Sequence[int], working: Sequence[int]) -> Iterator[Box]:
    """Yield the boxes of ``grid`` besides the first ``working`` blocks in each direction.

    >>> list(idle_boxes((5, 4, 1), (3, 4, 1)))
    [((3, 5), (0, 4), (0, 1))]
    """
    for axis, (all_, some) in enumerate(zip(grid, working, strict=True)):
        if some < all_:
            before = [(0, n) for n in working[:axis]]
            yield (*before, (some, all_), *((0, n) for n in grid[axis + 1 :]))


def _size(box: Box) -> int:
    return prod(high - low for low, high in box)


def _halves(box: Box) -> Iterator[Box]:
    axis = max(range(len(box)), key=lambda a: box[a][1] - box[a][0])
    low, high = box[axis]
    middle = (low + high) // 2
    for part in ((low, middle), (middle, high)):
        yield (*box[:axis], part, *box[axis + 1 :])


def _all_places(box: Box) -> IntArray:
    sides = np.meshgrid(*(np.arange(low, high) for low, high in box), indexing="ij")
    return np.stack([side.reshape(-1) for side in sides], axis=1).astype(np.int64)


def _sample_boxes(boxes: Sequence[Box]) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return blocks spread over the boxes, and the number of blocks that each stands for."""
    if not boxes:
        return np.empty((0, 3), np.int64), np.empty(0)
    sizes = np.array([_size(box) for box in boxes], np.int64)
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    chosen = np.array(spread_blocks(total, _SAMPLE), np.int64)
    own = np.searchsorted(ends, chosen, side="right")
    lows, highs = (np.array([[side[k] for side in b] for b in boxes], np.int64) for k in (0, 1))
    number = chosen - (ends - sizes)[own]
    sides, places = (highs - lows)[own], np.empty((len(chosen), 3), np.int64)
    for axis in range(3):
        places[:, axis] = lows[own, axis] + number % sides[:, axis]
        number = number // sides[:, axis]
    return places, np.full(len(chosen), total / len(chosen))


class Walked(Protocol):
    """Work of one block: ``instructions`` of all its warps, and of its ``longest`` warp;
    ``effort``: what it took to walk through it, in items of a graph; ``digest`` tells kinds apart.
    """

    @property
    def instructions(self) -> int: ...

    @property
    def longest(self) -> int: ...

    @property
    def effort(self) -> int: ...

    @property
    def digest(self) -> int: ...


class Walk(Protocol):
    def __call__(self, place: Place) -> Walked: ...


@dataclass(frozen=True, slots=True)
class LongestKind:
    """Kind of block with the longest warp: one block of it, and their number."""

    block: Place
    count: int


@dataclass(frozen=True, slots=True)
class RepresentativeBlock:
    """The block that stands for the others; ``amount``: how many like it execute as many
    instructions as the grid does, None where all are; ``working``: in whole blocks, where they are
    much fewer than those that have work; ``longest``: where others take longer; ``idle``: what
    blocks without work execute before they end; ``walked``: groups that were, where not all."""

    block: Place
    amount: float | None = None
    working: int | None = None
    longest: LongestKind | None = None
    idle: float = 0.0
    walked: int = 0


def choose_representative(
    walk: Walk, grid: Sequence[int], groups: Partition
) -> RepresentativeBlock:
    """Return the block that stands for those of ``grid``, in which no mask cuts off all threads."""
    middle, blocks = tuple(n // 2 for n in grid), prod(grid)
    own = walk(middle)
    most = max(_FEWEST, min(_MOST_WALKED, _ITEMS // max(own.effort, 1)))
    kinds: dict[int, tuple[Walked, Place, float]] = {}
    chosen_ones = list(chosen_groups(groups, most))
    for place, count in chosen_ones:
        walked = walk(place)
        before = kinds.get(walked.digest, (walked, place, 0.0))
        kinds[walked.digest] = *before[:2], before[2] + count
    total = sum(walked.instructions * count for walked, _, count in kinds.values())
    mean = total / sum(count for _, _, count in kinds.values())
    alike = own.instructions * kinds[own.digest][2] if own.digest in kinds else 0.0
    block, chosen = middle, own
    if alike < _ALIKE * total or own.instructions < _NEAR * mean:
        near = (k for k in kinds.values() if k[0].instructions >= _NEAR * mean)
        chosen, block, _ = max(near, key=lambda k: k[0].instructions * k[2])
    amount = blocks * mean / max(chosen.instructions, 1)
    working = max(1, ceil(min(amount, blocks) - 1e-9))
    longest, place, count = max(kinds.values(), key=lambda k: k[0].longest)
    return RepresentativeBlock(
        block,
        None if amount == blocks else amount,
        None if chosen is own and amount >= _NEAR * blocks else working,
        LongestKind(place, ceil(count - 1e-9)) if longest.longest > chosen.longest else None,
        walked=len(chosen_ones) if len(chosen_ones) < len(groups.places) else 0,
    )


def chosen_groups(groups: Partition, most: int) -> Iterator[tuple[Place, float]]:
    """Yield about ``most`` groups of blocks at most, each as one block and the number of blocks. In
    a group, conditions hold alike and trip counts are near; its block is the one next to their
    mean, as work is linear in trips."""
    total = len(groups.places)
    starts = np.flatnonzero(np.diff(groups.conditions, prepend=groups.conditions[:1] - 1))
    if len(starts) > most:  # too many for each to be one of its own
        starts = starts[:1]
    for start, stop in pairwise([*starts.tolist(), total]):
        many = max(1, -(-most * (stop - start) // total))
        if stop - start > many > 1:  # the largest alone, which may take longest
            yield groups.places[stop - 1], float(groups.counts[stop - 1])
            stop, many = stop - 1, many - 1
        ends = np.cumsum(groups.counts[start:stop])
        strata = ((ends - groups.counts[start:stop] / 2) * many // ends[-1]).astype(int)
        if stop - start <= many:
            strata = np.arange(stop - start)
        for stratum in distinct(strata):
            own = start + np.flatnonzero(strata == stratum)
            mean = np.average(groups.trips[own], weights=groups.counts[own])
            at = own[np.abs(groups.trips[own] - mean).argmin()]
            yield groups.places[at], float(groups.counts[own].sum())
