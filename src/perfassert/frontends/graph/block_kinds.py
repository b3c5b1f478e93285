"""Which blocks of a grid do alike: one that most of the work is like stands for the others.

Where a guard cuts the grid (``if (blockIdx.x >= gridDim.x / 2)``, ``if (id < n) … else …``) a
block from the middle may have nothing to do. Blocks spread over the grid are walked through, and
those at its ends, which may be few and do most of the work (``if (blockIdx.x < 32)``); of the kinds
that do about as much as a block does on average, or more, the one that does most of the work is
simulated, and as many blocks of it as the work amounts to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import NamedTuple, Protocol

Place = tuple[int, ...]
_EVERY = 64
"""Grids of at most so many blocks are walked through whole, of others so many."""
_ITEMS = 100_000
"""Instructions that are looked at for this, at most; a few blocks are looked at in any case."""
_FEWEST = 8
_ALIKE = 0.75
"""Share of the work that is done by blocks like the middle one, from which on it stands for all."""
_NEAR = 0.8
"""Share of the mean work of a block: no number of blocks that do less does all of the work."""
_MATTERS = 0.05
"""Share of the work from which on blocks at an end of the grid count beside the others."""
_RARE = 0.125
"""Share of the blocks spread over the grid up to which those at its ends count apart."""
_SPREAD = (0.7548776662466927, 0.5698402909980532, 0.4301597090019468)
"""Steps of the sequence that fills a square evenly (powers of the inverse plastic number)."""


class Walked(Protocol):
    """What a block executes: ``instructions`` of all its warps; ``digest`` tells kinds apart."""

    @property
    def instructions(self) -> int: ...

    @property
    def digest(self) -> int: ...


class Walk(Protocol):
    def __call__(self, places: Sequence[Place]) -> Sequence[Walked]: ...


@dataclass(frozen=True, slots=True)
class Standing:
    """The block that stands for the others; ``amount``: how many like it do as much as the grid
    does, None where every block that has work is one."""

    block: Place
    amount: float | None = None

    @property
    def working(self) -> int | None:
        """The amount in whole blocks."""
        return None if self.amount is None else max(1, ceil(self.amount - 1e-9))


def standing(walk: Walk, grid: Sequence[int]) -> Standing:
    """Of the blocks of ``grid``, which all have threads that no mask cuts off."""
    middle = tuple(n // 2 for n in grid)
    (own,) = walk([middle])
    count = max(_FEWEST, min(_EVERY, _ITEMS // max(own.instructions, 1)))
    probes = _probes(walk, grid, count)
    places, walked = [p.place for p in probes], [p.walked for p in probes]
    work = [p.walked.instructions * p.weight for p in probes]
    total = sum(work)
    mean = total / sum(p.weight for p in probes)
    alike = sum(n for w, n in zip(walked, work, strict=True) if w.digest == own.digest)
    chosen, block = own, middle
    if alike < _ALIKE * total or own.instructions < _NEAR * mean:
        shares: dict[int, float] = {}
        for w, n in zip(walked, work, strict=True):
            if w.instructions >= _NEAR * mean:
                shares[w.digest] = shares.get(w.digest, 0) + n
        heaviest = max(shares, key=lambda d: shares[d])
        # of this kind the one in the middle, away from borders
        alike_ones = [i for i, w in enumerate(walked) if w.digest == heaviest]
        number = alike_ones[len(alike_ones) // 2]
        chosen, block = walked[number], places[number]
    elif mean >= _NEAR * own.instructions:
        return Standing(middle)
    return Standing(block, prod(grid) * min(mean / max(chosen.instructions, 1), 1.0))


class _Probe(NamedTuple):
    """A block that was walked through, and how many of the probes it counts as."""

    place: Place
    walked: Walked
    weight: float


def _probes(walk: Walk, grid: Sequence[int], count: int) -> list[_Probe]:
    """Blocks spread over the grid, and of its ends; those of all kinds weigh as they are many."""
    places = list(_probe_blocks(grid, count))
    walked = walk(places)
    ends = list(_heavy_ends(walk, grid, walked))
    kinds = {end.walked.digest for end in ends}
    others = [(p, w) for p, w in zip(places, walked, strict=True) if w.digest not in kinds]
    left = len(places) - sum(end.weight for end in ends)
    each = left / len(others) if ends and others else 1
    return [*(_Probe(p, w, each) for p, w in others), *ends]


def _heavy_ends(walk: Walk, grid: Sequence[int], walked: Sequence[Walked]) -> Iterator[_Probe]:
    """Blocks at either end of the launch order, of a kind that hardly any of ``walked`` is, where
    all of that kind lie there and do a relevant share of the work."""
    total = prod(grid)
    if total <= len(walked):
        return
    seen = Counter(w.digest for w in walked)
    mean = sum(w.instructions for w in walked) / len(walked)
    for order in (range(total), range(total - 1, -1, -1)):
        first = _place(order[0], grid)
        (end,) = walk([first])
        if seen[end.digest] > _RARE * len(walked):
            continue
        seen[end.digest] = len(walked)
        low, high = 1, total  # blocks from this end that are alike, and that are not
        while high - low > 1:
            middle = (low + high) // 2
            (there,) = walk([_place(order[middle - 1], grid)])
            low, high = (middle, high) if there.digest == end.digest else (low, middle)
        if end.instructions * low <= _MATTERS * mean * total:
            continue
        inside = walk([_place(order[low * i // _FEWEST], grid) for i in range(_FEWEST)])
        if all(there.digest == end.digest for there in inside):
            yield _Probe(first, end, low / total * len(walked))


def _place(number: int, grid: Sequence[int]) -> Place:
    """The block of that number in launch order."""
    return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])


def _probe_blocks(grid: Sequence[int], count: int) -> Iterable[Place]:
    if prod(grid) <= count:
        return product(*map(range, grid))
    spread = (
        tuple(int((i + 0.5) * step % 1 * n) for step, n in zip(_SPREAD, grid, strict=True))
        for i in range(count)
    )
    return sorted(set(spread))
