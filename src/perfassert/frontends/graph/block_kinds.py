"""Which blocks of a grid do alike: one that most of the work is like stands for the others.

Where a guard cuts the grid (``if (blockIdx.x >= gridDim.x / 2)``, ``if (id < n) … else …``) a
block from the middle may have nothing to do. Blocks spread over the grid are walked through; of the
kinds that do about as much as a block does on average, or more, the one that does most of the work
is simulated, and as many blocks of it as the work amounts to.
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
_NEAR = 0.8
"""Share of the mean work of a block: no number of blocks that do less does all of the work."""
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
    places = list(_probe_blocks(grid, count))
    walked = walk(places)
    total = sum(w.instructions for w in walked)
    mean = total / len(walked)
    alike = sum(w.instructions for w in walked if w.digest == own.digest)
    chosen, block = own, middle
    if alike < _ALIKE * total or own.instructions < _NEAR * mean:
        shares: dict[int, int] = {}
        for w in walked:
            if w.instructions >= _NEAR * mean:
                shares[w.digest] = shares.get(w.digest, 0) + w.instructions
        heaviest = max(shares, key=lambda d: shares[d])
        # of this kind the one in the middle, away from borders
        kind = [i for i, w in enumerate(walked) if w.digest == heaviest]
        chosen, block = walked[kind[len(kind) // 2]], places[kind[len(kind) // 2]]
    elif mean >= _NEAR * own.instructions:
        return Standing(middle)
    return Standing(block, prod(grid) * min(mean / max(chosen.instructions, 1), 1.0))


def _probe_blocks(grid: Sequence[int], count: int) -> Iterable[Place]:
    if prod(grid) <= count:
        return product(*map(range, grid))
    spread = (
        tuple(int((i + 0.5) * step % 1 * n) for step, n in zip(_SPREAD, grid, strict=True))
        for i in range(count)
    )
    return sorted(set(spread))
