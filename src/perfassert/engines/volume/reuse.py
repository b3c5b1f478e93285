"""How much a cache must hold for what loops touch again: a block's the L1, a wave's the L2.

The paper's kernels have no loops: what a block touches is what the L1 must hold, what a wave
touches the L2 (§4.5). A loop that walks through rows touches its lines again within a few
iterations, however many it has. So the footprint is taken of windows of consecutive iterations,
from one of the innermost loops to all:
with ``F(w)`` the sectors of a window of ``w`` of ``n`` iterations, a cache that keeps just such a
window loads ``V(w) = ⌈n / w⌉ · F(w)``. What is touched again between one window and the next
larger, ``V(w) − V(w')``, hits where the lines of ``w'`` iterations fit. What lies in no loop is a
window of its own. Without loops that is the paper's formula.

Loops ask for 1,000 bytes of ``a`` again. For 600 of them the cache must hold 100 bytes, for another
300 of them 5,000 bytes; the others are asked for again by other blocks, and it no longer has them.
With a cache of 1,000 bytes:

    >>> near, farther = Again({"a": 600.0}, 100.0), Again({"a": 300.0}, 5000.0)
    >>> def miss(needed):
    ...     return float(needed > 1000)
    >>> lost_bytes({"a": 1000.0}, 500.0, 1.0, miss, [[near, farther]])
    {'a': 400.0}

The 600 bytes hit. The 300 miss, and so do the 100 that are no window's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perfassert.engines.volume.groups import AccessGroup
from perfassert.kernel.access import Direction
from perfassert.kernel.names import Counter

_STEP = 4
"""How many times as long as the one before a window is; the last one up to twice as many."""
_NEGLIGIBLE = 1e-2
Footprint = Callable[[Sequence[AccessGroup]], tuple[float, float]]
"""Accesses of one field → bytes that are moved, and bytes of the cache that they take."""
Window = Mapping[Counter, int]
"""Loop → consecutive iterations of it."""


@dataclass(frozen=True, slots=True)
class Again:
    """What is touched again, in bytes: by field, and what of the cache it takes for it to hit."""

    bytes: Mapping[str, float]
    needed: float


def touched_again(
    fields: Mapping[str, Sequence[AccessGroup]],
    asked: Mapping[tuple[int, ...], float],
    footprint: Footprint,
    direction: Direction,
) -> Iterator[Iterator[Again]]:
    """Reuse within each nest of loops, from near to far, found as it is asked for; what lies beyond
    all iterations is not among it.

    ``fields``: their accesses, of which those of one ``direction`` are counted and all take room;
    ``asked``: bytes that those ask for, by members of a group.
    """
    for nest in _nests(fields).values():
        before = {
            key: sum(asked.get(group.members, 0.0) for group in groups)
            for key, groups in nest.items()
        }
        if any(place[1] is direction for place in nest):
            yield _of_nest(nest, before, footprint, direction)


def lost_bytes(
    redundant: Mapping[str, float],
    unique: float,
    far: float,
    miss: Callable[[float], float],
    within: Iterable[Iterable[Again]],
) -> dict[str, float]:
    """Bytes that miss of what is asked for again, by field.

    At the most the share ``far`` of it; of what each nest of loops touches again ``within`` it, as
    ``miss`` says for what that takes. Windows are looked at only where they can matter beside the
    ``unique`` bytes.
    """
    lost = {name: far * bytes for name, bytes in redundant.items()}
    if sum(lost.values()) <= _NEGLIGIBLE * unique:
        return lost
    for nest in within:
        for near in nest:
            saved = far - miss(near.needed)
            if saved <= 0:
                break  # larger windows need more
            for name, bytes in near.bytes.items():
                lost[name] = max(0.0, lost[name] - saved * bytes)
    return lost


_Place = tuple[str, Direction, tuple[Counter, ...]]
"""A field, and the loops around some of its accesses."""
_Nest = dict[_Place, list[AccessGroup]]


def _nests(fields: Mapping[str, Sequence[AccessGroup]]) -> dict[Counter | None, _Nest]:
    """By outermost loop, None for none: the accesses of a field that lie in the same loops."""
    nests: dict[Counter | None, _Nest] = {}
    if not any(group.loops for groups in fields.values() for group in groups):
        return nests
    for name, groups in fields.items():
        for group in groups:
            nest = nests.setdefault(group.loops[0] if group.loops else None, {})
            nest.setdefault((name, group.direction, group.loops), []).append(group)
    return nests


def _of_nest(
    nest: _Nest, before: dict[_Place, float], footprint: Footprint, direction: Direction
) -> Iterator[Again]:
    for window in _windows(nest):
        volumes: dict[str, float] = {}
        needed = 0.0
        for key, groups in nest.items():
            moved, space = footprint([_within(group, window) for group in groups])
            needed += space
            if key[1] is direction:
                moved *= _count(groups[0], window)
                volumes[key[0]] = volumes.get(key[0], 0.0) + before[key] - moved
                before[key] = moved
        yield Again({name: max(0.0, bytes) for name, bytes in volumes.items()}, needed)


def _windows(nest: _Nest) -> Iterator[dict[Counter, int]]:
    """From one iteration to all; the innermost loops grow first."""
    depth: dict[Counter, int] = {}
    trips: dict[Counter, int] = {}
    for groups in nest.values():
        for group in groups:
            depth |= {loop: i for i, loop in enumerate(group.loops)}
            trips |= {loop: _trips(group, loop) for loop in group.loops}
    window = dict.fromkeys(trips, 1)
    yield dict(window)
    for level in sorted(set(depth.values()), reverse=True):
        here = [loop for loop in trips if depth[loop] == level]
        size, most = 1, max(trips[loop] for loop in here)
        while size < most:
            size = size * _STEP if size * _STEP * 2 <= most else most
            window |= {loop: min(size, trips[loop]) for loop in here}
            yield dict(window)


def _trips(group: AccessGroup, loop: Counter) -> int:
    first, last = dict(group.ranges).get(loop, (0, 0))
    return last - first + 1


def _count(group: AccessGroup, window: Window) -> float:
    """Windows that the loops of a group are cut into."""
    count = 1.0
    for loop in group.loops:
        count *= _trips(group, loop) / window[loop]
    return count


def _within(group: AccessGroup, window: Window) -> AccessGroup:
    """The accesses of one window from the middle of the loops."""
    ranges = dict(group.ranges)
    for loop in group.loops:
        first, last = ranges.get(loop, (0, 0))
        size = window[loop]
        start = first + (last - first + 1 - size) // 2 // size * size
        ranges[loop] = (start, start + size - 1)
    return replace(group, ranges=tuple(sorted(ranges.items(), key=str)))
