"""How many bytes each activation of a DRAM row moves.

A DRAM bank reads and writes only in the row that it has activated, and every channel activates rows
at a limited rate (tFAW). A memory controller serves requests that wait for the same row together,
but it sees only those in its queues. What the queues of all channels hold at a time, the *window*,
is what consecutive blocks of the launch ask for, or all resident blocks in some iterations of
their loops; each page of ``dram_page_bytes`` that the window
touches costs one activation. So an array that is read along its columns, in pieces of 64 bytes,
costs one for every 64 bytes, and one that is read along its rows hardly any.

What a window of eight blocks of 16 × 16 threads reads of rows that are 4,096 bytes apart:

    >>> rows = Runs(np.arange(16) * 4096, np.arange(16) * 4096 + 8 * 64)
    >>> page_fill(rows, granularity=32, page_bytes=2048)
    512.0

Swapped indices give each of the eight blocks sixteen rows of its own:

    >>> rows = Runs(np.arange(128) * 4096, np.arange(128) * 4096 + 64)
    >>> page_fill(rows, granularity=32, page_bytes=2048)
    64.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import NamedTuple

import numpy as np

from perfassert.engines.volume.executed import ExecutedGroup, executed_granules
from perfassert.engines.volume.footprint import (
    BlockBox,
    block_steps,
    clip_boxes,
    field_runs,
    linear_range,
)
from perfassert.engines.volume.groups import AccessGroup, IntArray, of
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.reuse import cut_loops, trip_count
from perfassert.engines.volume.runs import Runs, common, merge_runs, size, to_granules, union
from perfassert.engines.volume.waves import Wave
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.executed import Sampled
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import Counter

Moved = Mapping[tuple[str, Direction], float]
"""Bytes that DRAM moves, by field and direction."""


def wave_activations(
    groups: LaunchGroups, wave: Wave, moved: Moved
) -> dict[tuple[str, Direction], float]:
    """Activations for what a wave moves; empty where the device file says nothing of them."""
    device, total = groups.device, sum(moved.values())
    if not device.dram_activate or not total:
        return {}
    window = Window.of(groups, wave, total)
    return {
        (name, direction): bytes_ / window.bytes_per_activation(name, direction)
        for (name, direction), bytes_ in moved.items()
        if bytes_
    }


def page_fill(runs: Runs, granularity: int, page_bytes: int) -> float:
    """Bytes in touched granules per touched page."""
    pages = size(to_granules(runs, page_bytes))
    return size(to_granules(runs, granularity)) * granularity / pages if pages else 0.0


class _Cut(NamedTuple):
    """Accesses in the same loops, of one stretch of iterations; blocks ``first`` to ``last``, the
    last left out."""

    groups: Sequence[AccessGroup]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Window:
    """Requests of a wave, blocks ``first`` to ``last``, the last left out, that wait together.

    ``waiting``: their share of all that the wave moves; ``around``: the share with what is written
    before and after them while the L2 keeps a line.
    """

    groups: LaunchGroups
    first: int
    last: int
    waiting: float
    around: float

    @classmethod
    def of(cls, groups: LaunchGroups, wave: Wave, total: float) -> Window:
        """That of a wave, which moves ``total`` bytes."""
        device = groups.device
        waiting = device.dram_channels * device.dram_queue_depth * device.dram_request_bytes
        share = min(1.0, waiting / total)
        around = share + 2 * device.l2_effective_bytes / total
        return cls(groups, wave.first, wave.first + wave.block_count, share, around)

    def blocks(self, share: float) -> tuple[int, int]:
        """So many of the wave's blocks in its middle, at least one; more than all with others
        around it."""
        count = max(1, round(share * (self.last - self.first)))
        first = self.first + (self.last - self.first - count) // 2
        return first, first + count

    def bytes_per_activation(self, name: str, direction: Direction) -> float:
        """Whole pages where nothing of the window is touched: its blocks have no work, or loads
        complete the sectors of stores, in rows that these activate."""
        device = self.groups.device
        page = float(device.dram_page_bytes)
        if name in self.groups.executed:
            executed = [g for g in self.groups.executed[name] if g.direction is direction]
            fill = self._of_executed(executed, direction)
        else:
            fill = self._of_groups(of(direction, self.groups.fields[name]), direction)
        return min(max(fill, float(device.dram_granularity)), page) if fill else page

    def _of_groups(self, groups: Sequence[AccessGroup], direction: Direction) -> float:
        launch, device = self.groups.launch, self.groups.device
        sector, line = device.sector_bytes, device.l1_line_bytes
        nests = _by_loops(groups)
        cuts = [self._cut(nest, self.waiting) for nest in nests]
        runs = union([_cut_runs(cut, launch, sector) for cut in cuts], sector)
        if direction is Direction.LOAD:
            return page_fill(runs, device.dram_granularity, device.dram_page_bytes)
        fill = page_fill(runs, sector, device.dram_page_bytes)
        near = [runs] if any(nest[0].loops for nest in nests) else []  # else it is among them
        for nest, cut in zip(nests, cuts, strict=True):
            lines = _sharing_lines(nest, linear_range(launch.grid, *cut[1:]), launch, line)
            near.append(_cut_runs(self._cut(nest, self.around), launch, sector, lines))
        return fill * _growth_by_neighbours(runs, union(near, sector), sector, line)

    def _cut(self, nest: Sequence[AccessGroup], share: float) -> _Cut:
        """What such a share of the wave's traffic is: some iterations of all blocks, which run at
        the same time; where less than one, one of some blocks. Powers of two of iterations begin
        where sectors do."""
        trips = prod(trip_count(nest[0], loop) for loop in nest[0].loops)
        left, window = 1 << int(log2(max(1.0, min(share, 1.0) * trips))), {}
        for loop in reversed(nest[0].loops):
            window[loop] = min(left, trip_count(nest[0], loop))
            left //= window[loop]
        of_blocks = share if share > 1 else min(1.0, share * trips)
        return _Cut([cut_loops(g, window) for g in nest], *self.blocks(of_blocks))

    def _of_executed(self, groups: Sequence[ExecutedGroup], direction: Direction) -> float:
        """The same of blocks that were executed, of which the window may be others."""
        device = self.groups.device
        if all(g.touched.run is None for g in groups):
            return 0.0
        sector, line = device.sector_bytes, device.l1_line_bytes
        numbers = np.array(groups[0].sampled.run)
        most = max((v.most for g in groups if (v := g.touched.visits) is not None), default=1)
        share = min(self.waiting * most, 1.0) if self.waiting < 1 else self.waiting
        first, last = self.executed_places(groups[0].sampled, share)
        runs = _executed_runs(groups, first, last, sector)
        if direction is Direction.LOAD:
            fill = page_fill(runs, device.dram_granularity, device.dram_page_bytes)
            return fill * self._share_at_a_time(groups, most)
        kept = (self.around - self.waiting) / 2 * (self.last - self.first)
        kept = int(kept * self._executed_share(groups[0].sampled))
        ends = (numbers[first] - kept, numbers[last - 1] + kept + 1)
        start, stop = map(int, np.searchsorted(numbers, ends))
        around = _executed_runs(groups, start, stop, sector)
        fill = page_fill(runs, sector, device.dram_page_bytes)
        return fill * _growth_by_neighbours(runs, around, sector, line)

    def _share_at_a_time(self, groups: Sequence[ExecutedGroup], most: int) -> float:
        """The share that a block fills of its pages in the iterations of a window, of ``most``,
        which all blocks run at the same time: threads that read a stripe each fill theirs one
        after the other."""
        visits = [v for g in groups if (v := g.touched.visits) is not None]
        spread = [p for g in groups if (p := g.touched.spread) is not None]
        length = 1 << int(log2(max(1.0, self.waiting * most)))
        if length >= most or self.waiting >= 1 or not spread:
            return 1.0
        device, grain = self.groups.device, visits[0].grain
        window = [v.keys[v.times < v.first + length] for v in visits]
        at_once = _fill_of_keys(np.concatenate(window), grain, device)
        in_all = _fill_of_keys(
            np.concatenate([p.keys * (p.grain // grain) for p in spread]), grain, device
        )
        return min(1.0, at_once / in_all)

    def _executed_share(self, sampled: Sampled) -> float:
        """Started blocks for each block of the launch, where loops over the grid make it larger."""
        return min(1.0, sampled.total / self.groups.launch.blocks)

    def executed_places(self, sampled: Sampled, of_wave: float) -> tuple[int, int]:
        """Places among the executed blocks, the last left out: of that share of the wave where all
        were executed, else of as many in a row, or as many as there are."""
        share = self._executed_share(sampled)
        begin, end = self.blocks(of_wave)
        count = max(1, round((end - begin) * share))
        if sampled.whole:
            first = min(int(begin * share), sampled.total - count)
            return first, first + count
        starts = np.flatnonzero(np.diff(sampled.run, prepend=-2) != 1)
        lengths = np.diff(starts, append=len(sampled.run))
        longest = int(lengths.argmax())
        count = min(count, int(lengths[longest]))
        first = int(starts[longest]) + (int(lengths[longest]) - count) // 2
        return first, first + count


def _by_loops(groups: Sequence[AccessGroup]) -> list[list[AccessGroup]]:
    nests: dict[tuple[Counter, ...], list[AccessGroup]] = {}
    for group in groups:
        nests.setdefault(group.loops, []).append(group)
    return list(nests.values())


def _cut_runs(cut: _Cut, launch: Launch, granularity: int, within: BlockBox | None = None) -> Runs:
    boxes = linear_range(launch.grid, cut.first, cut.last)
    boxes = clip_boxes(boxes, within) if within else boxes
    return field_runs(cut.groups, boxes, launch, granularity)


def _executed_runs(
    groups: Sequence[ExecutedGroup], first: int, last: int, granularity: int
) -> Runs:
    starts = executed_granules(groups, first, last, granularity) * granularity
    return merge_runs(starts, starts + granularity, 1)


def _fill_of_keys(keys: IntArray, grain: int, device: Device) -> float:
    """Bytes in touched granules per touched page, block by block; ``keys`` as those of pieces."""
    granules, pages = (
        len(np.unique(keys // (size // grain)))
        for size in (device.dram_granularity, device.dram_page_bytes)
    )
    return granules * device.dram_granularity / max(1, pages)


def _growth_by_neighbours(written: Runs, around: Runs, sector: int, line: int) -> float:
    """By how much the lines of ``written`` are fuller when they leave the L2, which writes back a
    line's sectors together: those that blocks ``around`` have written meanwhile, too."""
    lines = to_granules(written, line)
    whole = Runs(lines.starts * (line // sector), lines.ends * (line // sector))
    at_once = size(to_granules(written, sector))
    return max(1.0, common(whole, to_granules(around, sector)) / at_once) if at_once else 1.0


def _sharing_lines(
    groups: Sequence[AccessGroup], boxes: Sequence[BlockBox], launch: Launch, line: int
) -> BlockBox:
    """The blocks that can write to lines of ``boxes``: along an axis as many further as begin
    within a line."""
    steps = [block_steps(group, launch) for group in groups]
    result = []
    for i in range(3):
        within = [abs(own[i]) for own in steps if own[i]]
        margin = -(-line // min(within)) if within and min(within) < line else 0
        low, high = min(box[i][0] for box in boxes), max(box[i][1] for box in boxes)
        result.append((max(low - margin, 0), min(high + margin, launch.grid[i])))
    return (result[0], result[1], result[2])
