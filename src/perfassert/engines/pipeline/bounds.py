"""Bounds of the simulated time, which always lies between ``lower`` and ``upper``.

All bounds are monotone in every λ and Λ. The simulated time is not, since list scheduling has
anomalies.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from perfassert.engines.pipeline import compiled
from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.program import NO_LOOP, WarpProgram
from perfassert.kernel.graph import BodyItem, ItemKind

UNROLLED = 20_000
"""Largest number of instructions that are followed; longer programs run fewer iterations.

Nothing waits for a loop that was shortened, so the bound is valid, but loose.
"""
_MARGIN = 64  # sums of stalls are larger than times by less


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a simulation in cycles.

    ``pipelines`` holds the time in which each pipeline issues its instructions, min(λ, Λ) each.
    ``issue`` is the time of the schedulers' issue slots. ``path`` is the time of the rounds of
    blocks along their critical path. ``upper`` is the time of all instructions in series.
    ``around_watched`` is for a block that runs by itself. It is the time before the first of the
    *watched* nodes starts and after the last is complete, plus the shortest time of one of them, or
    0 if there is none.
    """

    pipelines: Mapping[str, float]
    issue: float
    path: float
    upper: float
    around_watched: float = 0.0

    @property
    def lower(self) -> float:
        """Lower bound: no schedule is faster."""
        return max(self.path, self.issue, *self.pipelines.values())


class Sums(NamedTuple):
    """Sums of times from which bounds follow, in ticks.

    ``busy`` is the time of each pipeline's instructions. ``serial`` is the time of all instructions
    in series without slots and stalls; ``stalls`` is that of stalls. ``followed``: each program's
    warp by itself.
    """

    busy: Sequence[int]
    serial: int
    stalls: int
    followed: Sequence[Followed]


class Followed(NamedTuple):
    """One warp by itself, as if no pipeline were ever busy, in ticks.

    ``latest`` is the latest completion. For watched nodes, ``first`` is the start of the first,
    ``last`` the completion of the last, and ``least`` the shortest time of one.
    """

    latest: int
    first: int
    last: int
    least: int


def bounds(unit: Unit, watched: Collection[int] = ()) -> Bounds:
    """Compute the bounds of a unit's run; ``watched``: nodes of its graph."""
    is_compiled = compiled.available() and compiled.fits(unit, _MARGIN)
    sums = find_sums_compiled(unit, watched) if is_compiled else find_sums(unit, watched)
    ticks = unit.pipelines.ticks
    instructions = unit.block_length * unit.blocks
    slot = 2 * ticks if unit.width else 0
    copies = [unit.schedulers if scoped else 1 for scoped in unit.pipelines.per_scheduler]
    rounds = -(-unit.blocks // unit.resident)
    path = max(followed.latest for followed in sums.followed)
    # For example, 4 schedulers issue 100 instructions, one each per cycle, in cycles 0 to 24: the
    # last one issues after 24 cycles.
    slots = max(0, -(-instructions // (unit.schedulers * unit.width)) - 1) if unit.width else 0
    return Bounds(
        pipelines={
            name: -(-b // c) / ticks
            for name, b, c in zip(unit.pipelines.names, sums.busy, copies, strict=True)
        },
        issue=float(slots),
        path=rounds * path / ticks,
        upper=(sums.serial + sums.stalls + slot * instructions) / ticks,
        around_watched=_time_around_watched(sums.followed, path) / ticks,
    )


def find_sums(unit: Unit, watched: Collection[int]) -> Sums:
    """Compute the sums of a unit: the reference of the compiled ones."""
    busy = [0] * len(unit.pipelines.names)
    serial = stalls = 0
    for variant, warps in Counter(unit.variant).items():
        program = unit.programs[variant]
        executed = _executions(program, unit.blocks * warps)
        for node in program.nodes:
            times, served = executed[node.loop], node.served
            busy[node.pipeline] += times * min(node.issue, node.completion + served)
            for server, needed in node.demands:
                busy[server] += times * needed
            serial += times * (max(node.issue, node.completion) + served)
            stalls += times * node.stall
    return Sums(busy, serial, stalls, [_follow(program, watched) for program in unit.programs])


def find_sums_compiled(unit: Unit, watched: Collection[int]) -> Sums:
    """Compute the sums of a unit by the compiled core."""
    (*busy, serial, stalls), followed = compiled.find_sums(unit, watched, UNROLLED)
    return Sums(busy, serial, stalls, [Followed(*one) for one in followed])


def _time_around_watched(followed: Sequence[Followed], path: int) -> int:
    seen = [one for one in followed if one.last]
    if not seen:
        return 0
    first, last = min(one.first for one in seen), max(one.last for one in seen)
    return first + min(one.least for one in seen) + path - last


def _executions(program: WarpProgram, warps: int) -> dict[int, int]:
    """Return the executions of the nodes of each loop, and outside of loops, by ``warps`` warps."""
    executed = {NO_LOOP: warps}
    for index in range(len(program.loops)):
        executed[index] = warps * prod(program.loops[loop].trips for loop in program.chain(index))
    return executed


def _follow(program: WarpProgram, watched: Collection[int]) -> Followed:
    """Follow one warp by itself, as if no pipeline were ever busy."""
    trips = [loop.trips for loop in program.loops]
    # For example, a loop of 30 instructions and 1,000 iterations is 30,000 long. With 500
    # iterations it is 15,000 long, below the limit.
    while _length(program, program.body, trips) > UNROLLED and max(trips, default=1) > 1:
        trips = [-(-t // 2) for t in trips]
    follower = _Follower(program, trips, watched)
    follower.walk(program.body)
    return Followed(follower.latest, follower.first, follower.last, follower.least)


def _length(program: WarpProgram, body: tuple[BodyItem, ...], trips: list[int]) -> int:
    return sum(
        1 if kind is ItemKind.NODE else trips[i] * _length(program, program.loops[i].body, trips)
        for kind, i in body
    )


class _Follower:
    """Walk through a program in order, which computes the earliest completion of each value."""

    def __init__(self, program: WarpProgram, trips: list[int], watched: Collection[int]) -> None:
        self.program = program
        self.watched = watched
        self.first = self.least = sys.maxsize
        self.last = 0
        self.trips = trips
        self.chains = {n: program.chain(n) for n in range(NO_LOOP, len(program.loops))}
        self.done: list[dict[tuple[int, ...], int]] = [{} for _ in program.nodes]
        self.counters: dict[int, tuple[int, ...]] = {NO_LOOP: ()}  # by loop, outermost first
        self.latest = 0
        self.fence = 0
        self.slot = 0

    def walk(self, body: tuple[BodyItem, ...]) -> None:
        for kind, index in body:
            if kind is ItemKind.NODE:
                self.node(index)
                continue
            loop = self.program.loops[index]
            outer = self.counters[loop.parent]
            for i in range(self.trips[index]):
                self.counters[index] = (*outer, i)
                self.walk(loop.body)

    def node(self, index: int) -> None:
        node = self.program.nodes[index]
        start = self.latest if node.fence and not node.partial else self.fence
        if self.slot > start:
            start = self.slot
        for edge in node.sources:
            for producer, loop, distance in edge:
                if distance and self.counters[loop][-1] < distance:
                    continue
                done = self.done[producer].get(self.place(producer, loop, distance), 0)
                if done > start:
                    start = done
                break
        end = start + node.completion + (node.served if node.produces else 0)
        self.done[index][self.counters[node.loop]] = end
        if end > self.latest:
            self.latest = end
        if node.graph_node in self.watched:
            self.first = min(self.first, start)
            self.last = max(self.last, end)
            self.least = min(self.least, end - start)
        self.slot = start + node.stall if node.stall else 0
        if node.fence:
            self.fence = end

    def place(self, producer: int, loop: int, distance: int) -> tuple[int, ...]:
        """Return the loop counters of the producer's instance.

        If the instance lies in the last iteration of a shortened loop, it does not exist.
        """
        counters = self.counters[loop]
        if distance:
            counters = (*counters[:-1], counters[-1] - distance)
        own = self.program.nodes[producer].loop
        if own == loop:
            return counters
        deeper = self.chains[own][len(counters) :]
        return counters + tuple([self.program.loops[level].trips - 1 for level in deeper])
