"""How much a cache must hold for what a block's loops touch again.

The paper's kernels have no loops: what a block touches is what the L1 must hold (§4.5). A loop that
walks through rows touches its lines again within a few iterations, however many it has. So the
footprint is taken of windows of consecutive iterations, from one of the innermost loops to all:
with ``F(w)`` the sectors of a window of ``w`` of ``n`` iterations, a cache that keeps just such a
window loads ``V(w) = ⌈n / w⌉ · F(w)``. What is touched again between one window and the next
larger, ``V(w) − V(w')``, hits where the lines of ``w'`` iterations fit. Without loops that is the
paper's formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perfassert.engines.volume.groups import AccessGroup

_STEP = 4
"""How many times as long as the one before a window is."""
Footprint = Callable[[Sequence[AccessGroup]], tuple[float, float]]
"""Loads of one field → bytes in sectors and in lines that all blocks touch, block by block."""
Window = Mapping[str, int]
"""Loop → consecutive iterations of it."""


@dataclass(frozen=True, slots=True)
class Again:
    """What is touched again, in bytes over the launch: by field, and the lines that a block must
    keep for it to hit."""

    bytes: Mapping[str, float]
    needed: float


def touched_again(
    fields: Mapping[str, Sequence[AccessGroup]],
    asked: Mapping[tuple[int, ...], float],
    footprint: Footprint,
    blocks: int,
) -> tuple[Again, ...]:
    """Reuse within loops, from near to far; what lies beyond all iterations is not among it.

    ``fields``: their loads; ``asked``: bytes that warps ask for, by members of a group.
    """
    found: list[Again] = []
    for nest in _nests(fields).values():
        before = {
            key: sum(asked.get(group.members, 0.0) for group in groups)
            for key, groups in nest.items()
        }
        found += _of_nest(nest, before, footprint, blocks)
    return tuple(found)


_Place = tuple[str, tuple[str, ...]]
"""A field, and the loops around some of its loads."""
_Nest = dict[_Place, list[AccessGroup]]


def _nests(fields: Mapping[str, Sequence[AccessGroup]]) -> dict[str, _Nest]:
    """By outermost loop: the accesses of a field that lie in the same loops."""
    nests: dict[str, _Nest] = {}
    for name, groups in fields.items():
        for group in groups:
            if group.loops:
                nest = nests.setdefault(group.loops[0], {})
                nest.setdefault((name, group.loops), []).append(group)
    return nests


def _of_nest(
    nest: _Nest, before: dict[_Place, float], footprint: Footprint, blocks: int
) -> Iterator[Again]:
    for window in _windows(nest):
        volumes: dict[str, float] = {}
        needed = 0.0
        for key, groups in nest.items():
            sectors, lines = footprint([_within(group, window) for group in groups])
            loaded = sectors * _count(groups[0], window)
            volumes[key[0]] = volumes.get(key[0], 0.0) + before[key] - loaded
            before[key] = loaded
            needed += lines / blocks
        yield Again({name: max(0.0, bytes) for name, bytes in volumes.items()}, needed)


def _windows(nest: _Nest) -> Iterator[dict[str, int]]:
    """From one iteration to all; the innermost loops grow first."""
    depth: dict[str, int] = {}
    trips: dict[str, int] = {}
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
            size = min(size * _STEP, most)
            window |= {loop: min(size, trips[loop]) for loop in here}
            yield dict(window)


def _trips(group: AccessGroup, loop: str) -> int:
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
    return replace(group, ranges=tuple(sorted(ranges.items())))
