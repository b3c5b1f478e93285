"""How much a cache must hold for what loops touch again: a block's the L1, a wave's the L2.

The paper's kernels have no loops: what a block touches is what the L1 must hold, what a wave
touches the L2 (§4.5). Its curves were fitted to the bytes of one block, or wave, and contain what
others do meanwhile. So they hold for what is touched again within one iteration.

What another iteration touches again comes a known distance later. With ``F(t)`` the bytes that
``t`` consecutive iterations touch on average, ``G(t) = t · F(1) − F(t)`` is what a window of ``t``
iterations touches again in a later iteration than its first use of it. Bytes ``q(d)`` of each
iteration that are touched again ``d`` iterations later add ``q(d) · (t − d)`` to it, so the slope
of ``G`` at ``t`` is what is touched again within ``t`` iterations (the working set theorem of
Denning and Schwartz, 1972). ``G`` is convex; it is evaluated for windows of 1, 4, 16, … iterations,
innermost loops first, and straight lines connect the values. Where the slope rises by ``s`` at
``t``, of ``n`` iterations ``n − t`` touch ``s`` bytes that an iteration ``t`` earlier touched.

Between the two uses all blocks that share the cache go on as far. Those that are in the same loops
pass ``t`` iterations of them, too; others are in code that touches less, or nothing. As blocks
start at any time, a block is in the loops for the share of the instructions that it executes there.
A cache that is passed through again and again by more than it holds loses nearly all of it
(:func:`miss_share`).

Loops ask for 1,000 bytes of ``a`` again. For 600 of them the cache must hold 100 bytes, for another
300 of them 5,000 bytes; the others are asked for again by other loops, after 9,000 bytes. With a
cache of 1,000 bytes:

    >>> near = Again({"a": 600.0}, Room(100.0, 100.0), across=True)
    >>> farther = Again({"a": 300.0}, Room(1000.0, 5000.0), across=True)
    >>> cache = Cache(CapacityCurve(a=0.0, b=1.0, c=1.0), 1000.0)
    >>> lost = lost_bytes({"a": 1000.0}, 500.0, cache, Room(3000.0, 9000.0), [[near, farther]])
    >>> round(lost["a"])
    398

The 600 bytes hit. 99 % of the 300 miss, and nearly all of the 100 that are no window's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, prod
from typing import NamedTuple, Union

from perfassert.engines.volume.executed import ExecutedGroup
from perfassert.engines.volume.groups import AccessGroup
from perfassert.hardware.entries import CapacityCurve
from perfassert.kernel.access import Direction
from perfassert.kernel.names import Counter

_STEP = 4
"""How many times as long as the one before a window is; the last one up to twice as many."""
_NEGLIGIBLE = 1e-2
_HOPELESS = 5.0
"""Oversubscription from which on all is lost but for less than a hundredth."""
_HALVINGS = 60  # of the interval that holds the miss share


def miss_share(oversubscription: float) -> float:
    """Misses of a cache with random replacement that is run through again and again.

    Between two uses of a line ``share · oversubscription`` of the cache's lines are replaced, so
    the line is lost with ``1 − exp(−share · oversubscription)``, which is the share itself.
    """
    if oversubscription <= 1:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if 1 - exp(-middle * oversubscription) > middle:
            low = middle
        else:
            high = middle
    return high


class Room(NamedTuple):
    """Bytes of a cache that accesses take: of one block, and of all that share it, as if they were
    in the same code; a wave has it for itself."""

    own: float
    shared: float


@dataclass(frozen=True, slots=True)
class Cache:
    """How much a level loses of what it is asked for again."""

    curve: CapacityCurve
    capacity: float

    def lost_within(self, room: Room) -> float:
        """Share that is lost until the same iteration asks again."""
        return self.curve.miss(self.curve.oversubscription(room.own, self.capacity))

    def lost_across(self, room: Room) -> float:
        """Share that is lost until another iteration asks again: no less than if it were the same
        one."""
        return max(self.lost_within(room), miss_share(room.shared / self.capacity))


Fields = Mapping[str, Union[Sequence[AccessGroup], Sequence[ExecutedGroup]]]
AnyGroup = Union[AccessGroup, ExecutedGroup]
Footprint = Callable[[Sequence[AnyGroup]], tuple[float, Room]]
"""Accesses of one field → bytes that are moved, and the room that they take."""
Window = Mapping[Counter, int]
"""Loop → consecutive iterations of it."""
Presence = Callable[[Counter | None], float]
"""Outermost loop → for which share of its instructions a block is in it."""


@dataclass(frozen=True, slots=True)
class Again:
    """What is touched again, in bytes: by field, and what the cache must hold for it to hit.

    ``across``: in another iteration.
    """

    bytes: Mapping[str, float]
    room: Room
    across: bool


def _always(_: Counter | None) -> float:
    return 1.0


def touched_again(
    fields: Fields,
    asked: Mapping[tuple[int, ...], float],
    footprint: Footprint,
    direction: Direction,
    capacity: float,
    presence: Presence = _always,
) -> Iterator[list[Again]]:
    """Reuse within each nest of loops; what lies beyond all iterations is not among it, nor what
    lies so far apart that a cache of that capacity cannot hold it.

    ``fields``: their accesses, of which those of one ``direction`` are counted and all take room;
    ``asked``: bytes that those ask for, by members of a group. Less than what one iteration touches
    where another cache has answered the rest: then bytes within an iteration are negative.
    """
    for loop, nest in _nests(fields).items():
        before = {
            key: sum(asked.get(group.members, 0.0) for group in groups)
            for key, groups in nest.items()
        }
        if any(place[1] is direction for place in nest):
            measured = _measure(nest, footprint, direction, capacity, presence(loop))
            yield [
                again
                for place, windows in measured.items()
                for again in _reuse(place, nest[place][0], before[place], windows)
            ]


def lost_bytes(
    redundant: Mapping[str, float],
    unique: float,
    cache: Cache,
    whole: Room,
    nests: Iterable[Sequence[Again]],
) -> dict[str, float]:
    """Bytes that miss of what is asked for again, by field.

    ``whole``: room that all accesses take. A field that no nest of loops touches is lost as if it
    were asked for again within one iteration of them all. Of the others, what lies in no window is
    touched again by another nest. Where another cache has answered part of it, that was the
    nearest. Nests are looked at only where they can matter beside the ``unique`` bytes.
    """
    within, across = cache.lost_within(whole), cache.lost_across(whole)
    lost = {name: within * bytes for name, bytes in redundant.items()}
    if across * sum(redundant.values()) <= _NEGLIGIBLE * unique:
        return lost
    windows = [again for nest in nests for again in nest]
    windows.sort(key=lambda again: (again.across, again.room.shared), reverse=True)
    for name in {name for again in windows for name in again.bytes}:
        own = [again for again in windows if name in again.bytes]
        left = redundant[name]
        beyond = min(left, max(0.0, left - sum(again.bytes[name] for again in own)))
        lost[name], left = across * beyond, left - beyond
        for again in own:
            share = min(left, max(0.0, again.bytes[name]))
            miss = cache.lost_across if again.across else cache.lost_within
            lost[name] += miss(again.room) * share
            left -= share
    return lost


_Place = tuple[str, Direction, tuple[Counter, ...]]
"""A field, and the loops around some of its accesses."""
_Nest = dict[_Place, list[AnyGroup]]


def _nests(fields: Fields) -> dict[Counter | None, _Nest]:
    """By outermost loop, None for none: the accesses of a field that lie in the same loops."""
    nests: dict[Counter | None, _Nest] = {}
    if not any(group.loops for groups in fields.values() for group in groups):
        return nests
    for name, groups in fields.items():
        for group in groups:
            nest = nests.setdefault(group.loops[0] if group.loops else None, {})
            nest.setdefault((name, group.direction, group.loops), []).append(group)
    return nests


class _Measured(NamedTuple):
    """A window: its number of iterations of one place, bytes of that place that they move, and the
    room that all places of the nest take."""

    iterations: float
    moved: float
    room: Room


def _measure(
    nest: _Nest, footprint: Footprint, direction: Direction, capacity: float, presence: float
) -> dict[_Place, list[_Measured]]:
    """Windows of each place whose accesses are counted, by ascending length; of those that only
    other loops make longer the longest."""
    measured: dict[_Place, dict[float, _Measured]] = {}
    for window in _windows(nest):
        touched = {
            place: footprint([_within(group, window) for group in groups])
            for place, groups in nest.items()
        }
        own = sum(room.own for _, room in touched.values())
        shared = sum(room.shared for _, room in touched.values())
        room = Room(own, own + presence * (shared - own))
        for place, groups in nest.items():
            if place[1] is direction:
                count = float(prod(window[loop] for loop in groups[0].loops))
                windows = measured.setdefault(place, {})
                windows[count] = _Measured(count, touched[place][0], room)
        if room.shared > _HOPELESS * capacity:
            break
    return {place: sorted(windows.values()) for place, windows in measured.items()}


def _reuse(
    place: _Place, group: AnyGroup, before: float, windows: Sequence[_Measured]
) -> Iterator[Again]:
    """Of the accesses in one place: within an iteration, then by the distance of iterations."""
    field, first = place[0], windows[0]
    total = prod(trip_count(group, loop) for loop in group.loops)
    yield Again({field: before - total * first.moved}, first.room, across=False)
    slope = 0.0
    for near, rise in _convex(windows):
        yield Again({field: (rise - slope) * (total - near.iterations)}, near.room, across=True)
        slope = rise


def _convex(windows: Sequence[_Measured]) -> Iterator[tuple[_Measured, float]]:
    """Corners of the lower convex hull of ``G``, but for the last one, and its slopes after them.

    Windows begin at multiples of their length, so ``G`` of a short one may be too large.
    """
    each = windows[0].moved
    hull: list[tuple[_Measured, float]] = []
    for window in windows:
        again = window.iterations * each - window.moved
        while len(hull) > 1 and _slope(hull[-1], (window, again)) <= _slope(*hull[-2:]):
            hull.pop()
        hull.append((window, again))
    for near, far in pairwise(hull):
        yield near[0], max(0.0, _slope(near, far))


def _slope(near: tuple[_Measured, float], far: tuple[_Measured, float]) -> float:
    return (far[1] - near[1]) / (far[0].iterations - near[0].iterations)


def _windows(nest: _Nest) -> Iterator[dict[Counter, int]]:
    """From one iteration to all; the innermost loops grow first."""
    depth: dict[Counter, int] = {}
    trips: dict[Counter, int] = {}
    for groups in nest.values():
        for group in groups:
            depth |= {loop: i for i, loop in enumerate(group.loops)}
            trips |= {loop: trip_count(group, loop) for loop in group.loops}
    window = dict.fromkeys(trips, 1)
    yield dict(window)
    for level in sorted(set(depth.values()), reverse=True):
        here = [loop for loop in trips if depth[loop] == level]
        size, most = 1, max(trips[loop] for loop in here)
        while size < most:
            size = size * _STEP if size * _STEP * 2 <= most else most
            window |= {loop: min(size, trips[loop]) for loop in here}
            yield dict(window)


def trip_count(group: AnyGroup, loop: Counter) -> int:
    """Iterations of a loop around the group."""
    first, last = dict(group.ranges).get(loop, (0, 0))
    return last - first + 1


def _within(group: AnyGroup, window: Window) -> AnyGroup:
    if isinstance(group, AccessGroup):
        return cut_loops(group, window)
    return replace(group, window=prod(window[k] / trip_count(group, k) for k in group.loops))


def cut_loops(group: AccessGroup, window: Window) -> AccessGroup:
    """The accesses of one window from the middle of the loops."""
    ranges = dict(group.ranges)
    for loop in group.loops:
        first, last = ranges.get(loop, (0, 0))
        size = window[loop]
        start = first + (last - first + 1 - size) // 2 // size * size
        ranges[loop] = (start, start + size - 1)
    return replace(group, ranges=tuple(sorted(ranges.items(), key=str)))
