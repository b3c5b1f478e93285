"""Which blocks of a grid do alike: one that most of the work is like stands for the others.

Where a guard cuts the grid (``if (blockIdx.x >= gridDim.x / 2)``, ``if (id < n) … else …``) a
block from the middle may have nothing to do. Blocks spread over the grid are walked through; the
kind that does most of the work is simulated, and as many blocks of it as the work amounts to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Protocol

Place = tuple[int, ...]
_EVERY = 64
"""Grids of at most so many blocks are walked through whole, of others so many."""
_ITEMS = 100_000
"""Instructions that are looked at for this, at most; a few blocks are looked at in any case."""
_FEWEST = 8
_ALIKE = 0.75
"""Share of the work that is done by blocks like the middle one, from which on it stands for all."""
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
    """The block that stands for the others, and how many of its kind the launch amounts to;
    None where every block that has work is one."""

    block: Place
    working: int | None = None


def standing(walk: Walk, grid: Sequence[int]) -> Standing:
    """Of the blocks of ``grid``, which all have threads that no mask cuts off."""
    middle = tuple(n // 2 for n in grid)
    (own,) = walk([middle])
    count = max(_FEWEST, min(_EVERY, _ITEMS // max(own.instructions, 1)))
    places = list(_places(grid, count))
    walked = walk(places)
    total = sum(w.instructions for w in walked)
    alike = sum(w.instructions for w in walked if w.digest == own.digest)
    if alike >= _ALIKE * total:
        return Standing(middle)
    shares: dict[int, int] = {}
    for w in walked:
        shares[w.digest] = shares.get(w.digest, 0) + w.instructions
    heaviest = max(shares, key=lambda d: shares[d])
    # of this kind the one in the middle, away from borders
    kind = [i for i, w in enumerate(walked) if w.digest == heaviest]
    chosen = kind[len(kind) // 2]
    per_block = walked[chosen].instructions
    working = ceil(prod(grid) * total / len(walked) / max(per_block, 1) - 1e-9)
    return Standing(places[chosen], max(1, min(working, prod(grid))))


def _places(grid: Sequence[int], count: int) -> Iterable[Place]:
    if prod(grid) <= count:
        return product(*map(range, grid))
    spread = (
        tuple(int((i + 0.5) * step % 1 * n) for step, n in zip(_SPREAD, grid, strict=True))
        for i in range(count)
    )
    return sorted(set(spread))
