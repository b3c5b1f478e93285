"""Reuse in loops: the bytes that a cache must hold so that repeated requests hit.

The paper's kernels have no loops: the L1 must hold what a block touches, and the L2 what a wave
touches (§4.5). The paper's curves were fitted to the bytes of one block, or one wave, and include
the effect of other blocks that run at the same time. They apply to reuse within one iteration.

Reuse in a later iteration has a known distance. ``F(t)`` is the mean number of bytes that ``t``
consecutive iterations touch. ``G(t) = t · F(1) − F(t)`` is the number of bytes of a window of ``t``
iterations that an earlier iteration of the window has touched. If ``q(d)`` bytes of each iteration
are reused ``d`` iterations later, they add ``q(d) · (t − d)`` to ``G(t)``. The slope of ``G`` at
``t`` is therefore the number of bytes that are reused within ``t`` iterations (the working set
theorem of Denning and Schwartz, 1972). ``G`` is convex. It is evaluated for windows of 1, 4, 16, …
iterations, innermost loops first, and interpolated linearly. If the slope rises by ``s`` at ``t``,
``n − t`` of ``n`` iterations reuse ``s`` bytes that were touched ``t`` iterations before.

Between the two uses all blocks that share the cache proceed as far. Blocks in the same loops
execute ``t`` iterations, too. Other blocks execute code that touches less, or nothing. Since blocks
start at any time, a block is in the loops with a probability equal to the fraction of its
instructions in them. If more bytes than a cache holds pass through it repeatedly, it loses nearly
all of them (:func:`miss_share`).

For example, loops ask for 1,000 bytes of ``a`` again. For 600 bytes to hit, the cache must hold 100
bytes. For another 300 bytes it must hold 5,000. The other 100 bytes are asked for again by other
loops, after 9,000 bytes. A cache of 1,000 bytes loses:

    >>> near = Reuse({"a": 600.0}, CacheDemand(100.0, 100.0), across=True)
    >>> farther = Reuse({"a": 300.0}, CacheDemand(1000.0, 5000.0), across=True)
    >>> cache = Cache(CapacityCurve(a=0.0, b=1.0, c=1.0), 1000.0)
    >>> demand = CacheDemand(3000.0, 9000.0)
    >>> lost = lost_bytes({"a": 1000.0}, 500.0, cache, demand, [[near, farther]])
    >>> round(lost["a"])
    398

The 600 bytes hit. 99 % of the 300 bytes miss, and nearly all of the 100 bytes of other loops.
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
"""Ratio of the lengths of successive windows; the last ratio is less than twice as large."""
_NEGLIGIBLE = 1e-2
_HOPELESS = 5.0
"""Oversubscription at which a cache loses more than 99 % of the data."""
_HALVINGS = 60  # bisections of the interval that contains the miss rate


def miss_share(oversubscription: float) -> float:
    """Return the miss rate of a cache with random replacement that is traversed repeatedly.

    Between two uses of a line ``share · oversubscription`` of the cache's lines are replaced, so
    the line is lost with probability ``1 − exp(−share · oversubscription)``. This probability is
    the miss rate ``share`` itself.
    """
    if oversubscription <= 1:
        return 0.0
    # For example, data of twice the capacity has the fixed point 0.797 = 1 - exp(-2 · 0.797).
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if 1 - exp(-middle * oversubscription) > middle:
            low = middle
        else:
            high = middle
    return high


class CacheDemand(NamedTuple):
    """Bytes of a cache that accesses need: ``own`` for one block, ``shared`` for all that share the
    cache.

    All blocks are assumed to execute the same code. A wave has the cache for itself.
    """

    own: float
    shared: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache level: its capacity, and the curve of the fraction that it loses."""

    curve: CapacityCurve
    capacity: float

    def lost_within(self, room: CacheDemand) -> float:
        """Return the fraction that is lost before the same iteration asks again."""
        return self.curve.miss(self.curve.oversubscription(room.own, self.capacity))

    def lost_across(self, room: CacheDemand) -> float:
        """Return the fraction lost before another iteration asks again, at least that of the same
        one."""
        return max(self.lost_within(room), miss_share(room.shared / self.capacity))


Fields = Mapping[str, Union[Sequence[AccessGroup], Sequence[ExecutedGroup]]]
AnyGroup = Union[AccessGroup, ExecutedGroup]
Footprint = Callable[[Sequence[AnyGroup]], tuple[float, CacheDemand]]
"""Function from accesses of one field to the bytes that they move, and the cache room they need."""
Window = Mapping[Counter, int]
"""Number of consecutive iterations by loop."""
Presence = Callable[[Counter | None], float]
"""Function from an outermost loop to the fraction of a block's instructions that lie in it."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Bytes that are touched again, by field, and the cache room for which they hit.

    ``across``: True if another iteration touches them again.
    """

    bytes: Mapping[str, float]
    room: CacheDemand
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
) -> Iterator[list[Reuse]]:
    """Yield the reuse within each nest of loops.

    Reuse beyond all iterations of a nest is not included, nor reuse at distances that a cache of
    ``capacity`` bytes cannot hold. ``fields`` holds the accesses by field. Accesses of one
    ``direction`` are counted, but all accesses need room. ``asked`` holds the bytes that accesses
    ask for, by the members of a group. They may be fewer than the bytes that one iteration touches,
    if another cache has served the rest. The bytes within an iteration are negative in that case.
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
    whole: CacheDemand,
    nests: Iterable[Sequence[Reuse]],
) -> dict[str, float]:
    """Return the bytes of repeated requests that miss, by field.

    ``whole`` is the room that all accesses need. If no nest of loops touches a field, its bytes are
    lost as if all accesses were one iteration. For the other fields, bytes that belong to no window
    are reused by another nest. If another cache has served a part of the requests, that part is
    taken from the nearest reuse. Nests are evaluated only if their losses can matter compared with
    the ``unique`` bytes.
    """
    within, across = cache.lost_within(whole), cache.lost_across(whole)
    lost = {name: within * bytes for name, bytes in redundant.items()}
    if across * sum(redundant.values()) <= _NEGLIGIBLE * unique:
        return lost
    # For example, 1,000 redundant bytes, and windows with 600 and 300 bytes: 100 bytes belong to
    # another nest. With 700 redundant bytes the window of 300, the farthest, keeps its 300 bytes,
    # and the nearest gets the remaining 400.
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
"""A field, a direction, and the loops around some of its accesses."""
_Nest = dict[_Place, list[AnyGroup]]


def _nests(fields: Fields) -> dict[Counter | None, _Nest]:
    """Return the accesses of each place by outermost loop; None for accesses outside of loops."""
    nests: dict[Counter | None, _Nest] = {}
    if not any(group.loops for groups in fields.values() for group in groups):
        return nests
    for name, groups in fields.items():
        for group in groups:
            nest = nests.setdefault(group.loops[0] if group.loops else None, {})
            nest.setdefault((name, group.direction, group.loops), []).append(group)
    return nests


class _Measured(NamedTuple):
    """A window: its iterations of one place, the bytes that the place moves, and the room of the
    nest."""

    iterations: float
    moved: float
    room: CacheDemand


def _measure(
    nest: _Nest, footprint: Footprint, direction: Direction, capacity: float, presence: float
) -> dict[_Place, list[_Measured]]:
    """Return the windows of each place of one direction by ascending length.

    Several windows may differ only in other loops than those of the place. The longest of them is
    kept.
    """
    measured: dict[_Place, dict[float, _Measured]] = {}
    for window in _windows(nest):
        touched = {
            place: footprint([_cut_to_window(group, window) for group in groups])
            for place, groups in nest.items()
        }
        own = sum(room.own for _, room in touched.values())
        shared = sum(room.shared for _, room in touched.values())
        room = CacheDemand(own, own + presence * (shared - own))
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
) -> Iterator[Reuse]:
    """Yield the reuse of accesses in one place: within an iteration, then by ascending distance."""
    field, first = place[0], windows[0]
    total = prod(trip_count(group, loop) for loop in group.loops)
    yield Reuse({field: before - total * first.moved}, first.room, across=False)
    # For example, an iteration touches 100 bytes, and 40 of them again in the next one: F(1) = 100,
    # F(2) = 160, F(4) = 280. Then G(1) = 0, G(2) = 40, G(4) = 120: a slope of 40 from t = 1 on. Of
    # 10 iterations, 9 reuse 40 bytes: 360 bytes that need the room of one iteration.
    slope = 0.0
    for near, rise in _convex(windows):
        yield Reuse({field: (rise - slope) * (total - near.iterations)}, near.room, across=True)
        slope = rise


def _convex(windows: Sequence[_Measured]) -> Iterator[tuple[_Measured, float]]:
    """Yield the corners of the lower convex hull of ``G``, without the last, and the slopes after
    them.

    Windows begin at multiples of their length, so ``G`` of a short window may be too large.
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
    """Yield windows from one iteration to all iterations; the innermost loops grow first."""
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
        # For example, a loop of 10 iterations has windows of 1, 4 and 10. A window of 16 follows 4
        # only if the loop has at least 32 iterations.
        size, most = 1, max(trips[loop] for loop in here)
        while size < most:
            size = size * _STEP if size * _STEP * 2 <= most else most
            window |= {loop: min(size, trips[loop]) for loop in here}
            yield dict(window)


def trip_count(group: AnyGroup, loop: Counter) -> int:
    """Return the number of iterations of a loop around the group."""
    first, last = dict(group.ranges).get(loop, (0, 0))
    return last - first + 1


def _cut_to_window(group: AnyGroup, window: Window) -> AnyGroup:
    if isinstance(group, AccessGroup):
        return cut_loops(group, window)
    return replace(group, window=prod(window[k] / trip_count(group, k) for k in group.loops))


def cut_loops(group: AccessGroup, window: Window) -> AccessGroup:
    """Return the accesses of one window from the middle of the loops."""
    ranges = dict(group.ranges)
    for loop in group.loops:
        first, last = ranges.get(loop, (0, 0))
        size = window[loop]
        # For example, a window of 4 of 16 iterations starts at 12 // 2 // 4 * 4 = 4: a multiple of
        # its size.
        start = first + (last - first + 1 - size) // 2 // size * size
        ranges[loop] = (start, start + size - 1)
    return group.with_ranges(tuple(sorted(ranges.items(), key=str)))
