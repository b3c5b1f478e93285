"""Blocks of unequal work, dealt out to the units as slots free up.

The simulated unit runs blocks that are all alike. How much longer a launch takes whose blocks are
not is a ratio: of two simulations that know of a block only its work and its longest warp. A unit
shares its throughput among the blocks that it holds, and none of them is faster than it would be
alone; a block goes to the first slot that is free, in the order of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice

_MOST = 4096  # blocks that are dealt: of a longer launch it is the end that is uneven
_UNITS = 8  # at least so many units, where the launch is cut down to so many blocks


@dataclass(frozen=True, slots=True)
class BlockWork:
    """``work``: time that it takes of a whole unit; ``alone``: time that it takes at least."""

    work: float
    alone: float


def makespan(blocks: Sequence[BlockWork], units: int, slots: int) -> float:
    """Return the time at which the last block ends.

    Four blocks, each of which takes all of a unit for 1 second, on a unit with two slots: 4
    seconds, whatever the slots. If none of them can be faster than 4 seconds by itself, two run
    side by side without slowing each other down:

        >>> makespan([BlockWork(1.0, 1.0)] * 4, units=1, slots=2)
        4.0
        >>> makespan([BlockWork(1.0, 4.0)] * 4, units=1, slots=2)
        8.0
    """
    resident: list[list[_Running]] = [[] for _ in range(units)]
    clock = [0.0] * units
    waiting = iter(blocks)
    for place, block in enumerate(islice(waiting, units * slots)):
        resident[place % units].append(_Running(block))
    queue = [(_next(resident[u]), u) for u in range(units) if resident[u]]
    heapify(queue)
    end = 0.0
    while queue:
        now, unit = heappop(queue)
        _advance(resident[unit], now - clock[unit])
        clock[unit] = end = now
        running = [r for r in resident[unit] if r.left > 1e-9]
        for _ in range(len(resident[unit]) - len(running)):
            running += [_Running(block) for block in islice(waiting, 1)]
        resident[unit] = running
        if running:
            heappush(queue, (now + _next(running), unit))
    return end


class _Running:
    """A block with the share of it that is left."""

    __slots__ = ("block", "left")

    def __init__(self, block: BlockWork) -> None:
        self.block = block
        self.left = 1.0


def _rate(running: Sequence[_Running]) -> list[float]:
    """Shares of a block per time: slow ones leave what they cannot use to the others."""
    order = sorted(range(len(running)), key=lambda i: _demand(running[i].block))
    rates, free = [0.0] * len(running), 1.0
    for place, i in enumerate(order):
        block = running[i].block
        share = min(_demand(block), free / (len(order) - place))
        free -= share
        rates[i] = share / block.work if block.work else 1.0 / max(block.alone, 1e-30)
    return rates


def _demand(block: BlockWork) -> float:
    """Return the share of the unit that the block can use."""
    return min(1.0, block.work / block.alone) if block.alone else 1.0


def _next(running: Sequence[_Running]) -> float:
    """Time until the first of them ends."""
    return min(r.left / rate for r, rate in zip(running, _rate(running), strict=True))


def _advance(running: Sequence[_Running], time: float) -> None:
    for one, rate in zip(running, _rate(running), strict=True):
        one.left -= rate * time


@dataclass(frozen=True, slots=True)
class BlockTime:
    """Time that a block takes by itself: ``fixed``, and ``growing`` with its longest warp."""

    fixed: float
    growing: float

    def of(self, longest: float) -> float:
        """Return the time alone of a block with ``longest`` times the mean's longest warp."""
        return self.fixed + self.growing * longest


def unevenness(
    work: Sequence[float], longest: Sequence[float], count: int, units: int, slots: int,
    each: float, alone: BlockTime,
) -> float:  # fmt: skip
    """Return the launch's time over that of a launch of equal blocks.

    ``work``, ``longest``: of sampled blocks, over their means; ``count``: blocks of the launch;
    ``each``: time that the mean block takes of a unit.
    """
    if max(work) - min(work) < 1e-9 and max(longest) - min(longest) < 1e-9:
        return 1.0
    fewer = min(1.0, _MOST / count)
    some = max(min(units, _UNITS), round(units * fewer)) if fewer < 1 else units
    waves = min(count / (units * slots), _MOST / (some * slots))
    dealt = max(1, round(waves * some * slots)) if fewer < 1 else count
    # Of a sample every block stands for its neighbours: they come in the order of the grid.
    places = [i * len(work) // dealt for i in range(dealt)]
    mean = sum(work[i] for i in places) / dealt
    apart = sum(longest[i] for i in places) / dealt
    uneven = [BlockWork(each * work[i] / mean, alone.of(longest[i] / apart)) for i in places]
    even = makespan([BlockWork(each, alone.of(1.0))] * dealt, some, slots)
    excess = makespan(uneven, some, slots) - even
    whole = even * count / units / (dealt / some)
    return max(1.0, 1 + excess / whole)
