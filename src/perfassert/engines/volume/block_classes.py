"""Classes of blocks for which the guards of accesses hold for the same threads.

Each class is sampled separately, and its samples are weighted by the number of its blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.kernel.affine import Forms
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import Name

_MAX_EVALUATED_BLOCKS = 2**14
"""Largest number of blocks whose guards are evaluated, spread evenly over larger grids."""
_CLASSES = 128
"""Largest number of classes; with more, all blocks are treated as one class."""
_SPREAD = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
"""Steps of the R3 low-discrepancy sequence (powers of the inverse of the root of x⁴ = x + 1)."""
_GOLDEN = 0.6180339887498949  # golden ratio: its multiples modulo 1 spread evenly
BlockIndex = tuple[int, int, int]


def sampled_blocks(
    groups: Sequence[AccessGroup], launch: Launch, count: int
) -> list[tuple[BlockIndex, float, int]]:
    """Return about ``count`` blocks of the grid, each with its weight and the number of its class.

    The weight is the number of blocks that the sampled block represents. Guards are evaluated for
    the first, middle and last thread on each axis of a block, once with all loops in their first
    iteration and once with all in their last. Blocks with equal results form one class.
    """
    sides = tuple(-(-e // b) for e, b in zip(launch.extent, launch.block, strict=True))
    total = sides[0] * sides[1] * sides[2]
    places = _spread(sides, min(total, _MAX_EVALUATED_BLOCKS)) if total > count else _all(sides)
    members = _classes(groups, launch, places)
    if len(members) > _CLASSES:
        members = [np.arange(len(places))]
    if total <= count:
        return [
            ((x, y, z), 1.0, number)
            for number, own in enumerate(members)
            for x, y, z in places[own].tolist()
        ]
    samples: list[tuple[BlockIndex, float, int]] = []
    for number, own in enumerate(members):
        # For example, 60 of 64 blocks lie inside the domain and 4 at its end: of 16 samples the
        # first class gets 15 and the second 1, and each sample represents 4 blocks.
        share = max(1, round(count * len(own) / len(places)))
        part = np.arange(share)  # each equal part gives one block, at a varying position
        chosen = own[((part + part * _GOLDEN % 1) / share * len(own)).astype(np.int64)]
        weight = total * len(own) / len(places) / len(chosen)
        samples += [((x, y, z), weight, number) for x, y, z in places[chosen].tolist()]
    return samples


def _all(sides: Sequence[int]) -> IntArray:
    return np.indices(sides, dtype=np.int64).reshape(3, -1).T


def _spread(sides: tuple[int, ...], count: int) -> IntArray:
    if count >= sides[0] * sides[1] * sides[2]:
        return _all(sides)
    steps = (np.arange(count)[:, None] + 0.5) * np.array(_SPREAD)
    return np.asarray((steps - np.floor(steps)) * np.array(sides), dtype=np.int64)


def _classes(groups: Sequence[AccessGroup], launch: Launch, places: IntArray) -> list[IntArray]:
    """Return each class as indices into ``places``, by guards and by cuts at the domain's end."""
    guards = {(g.ranges, g.conditions): g for g in groups}.values()
    # For example, 10 threads in blocks of 4: block 2 is cut by the end of the domain, blocks 0 and
    # 1 are not. Without guards the classes are {0, 1} and {2}.
    cut = (places + 1) * np.array(launch.block) > np.array(launch.extent)
    seen = [cut, *(_guards_hold(group, launch, places) for group in guards)]
    bits = np.packbits(np.concatenate(seen, axis=1), axis=1)
    order = np.lexsort(bits.T[::-1])
    ordered = bits[order]
    return np.split(order, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)


def _guards_hold(group: AccessGroup, launch: Launch, places: IntArray) -> np.ndarray:
    """Return the group's guards, in the shape (places, pairs of thread and iteration)."""
    columns = [
        _guard(group, _symbols(launch, places, thread), end)
        for thread in product(*(sorted({0, n // 2, n - 1}) for n in launch.block))
        for end in ((0, 1) if group.loops else (0,))
    ]
    return np.stack([np.broadcast_to(c, len(places)) for c in columns], axis=1)


def _symbols(launch: Launch, places: IntArray, thread: Sequence[int]) -> dict[Name, IntArray]:
    values: dict[Name, IntArray] = {}
    for number, axis in enumerate(AXES):
        first = places[:, number] * launch.block[number]
        values[axis] = np.minimum(first + thread[number], launch.extent[number] - 1)
        values[f"blockIdx.{axis}"] = places[:, number]
        values[f"threadIdx.{axis}"] = values[axis] - first
    return values


def _guard(group: AccessGroup, values: Mapping[Name, IntArray], end: int) -> np.ndarray:
    ranges = dict(group.ranges)
    known = dict(values)
    known.update((s, np.asarray(ranges[s][end])) for s in group.loops if s in ranges)
    parts: Iterable[np.ndarray] = (
        *((known[s] >= low) & (known[s] <= high) for s, (low, high) in group.ranges if s in known),
        *(c != 0 for c in Forms(group.conditions)(known)),
    )
    holds = np.ones((), dtype=np.bool_)
    for part in parts:
        holds = holds & part
    return holds
