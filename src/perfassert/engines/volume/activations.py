"""How many bytes each activation of a DRAM row moves.

A DRAM bank reads and writes only in the row that it has activated, and every channel activates rows
at a limited rate (tFAW). A memory controller serves requests that wait for the same row together,
but it sees only those in its queues. What the queues of all channels hold at a time, the *window*,
is what consecutive blocks of the launch ask for; each page of ``dram_page_bytes`` that the window
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

import numpy as np

from perfassert.engines.volume.executed import ExecutedGroup, executed_granules
from perfassert.engines.volume.footprint import (
    BlockBox,
    block_steps,
    clip_boxes,
    field_runs,
    linear_range,
)
from perfassert.engines.volume.groups import AccessGroup, of
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.runs import Runs, common, merge_runs, size, to_granules
from perfassert.engines.volume.waves import Wave
from perfassert.kernel.access import Direction
from perfassert.kernel.executed import Sampled
from perfassert.kernel.launch import Launch

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


@dataclass(frozen=True, slots=True)
class Window:
    """Blocks ``first`` to ``last``, ``last`` left out, whose requests wait together; the L2 holds
    what ``kept`` blocks write."""

    groups: LaunchGroups
    first: int
    last: int
    kept: int

    @classmethod
    def of(cls, groups: LaunchGroups, wave: Wave, total: float) -> Window:
        """The one in the middle of a wave, which moves ``total`` bytes."""
        device, blocks = groups.device, wave.block_count
        waiting = device.dram_channels * device.dram_queue_depth * device.dram_request_bytes
        count = min(blocks, max(1, round(waiting * blocks / total)))
        first = wave.first + (blocks - count) // 2
        return cls(groups, first, first + count, int(device.l2_effective_bytes * blocks / total))

    def bytes_per_activation(self, name: str, direction: Direction) -> float:
        device = self.groups.device
        if name in self.groups.executed:
            executed = [g for g in self.groups.executed[name] if g.direction is direction]
            fill = self._of_executed(executed, direction)
        else:
            fill = self._of_groups(of(direction, self.groups.fields[name]), direction)
        return min(max(fill, float(device.dram_request_bytes)), float(device.dram_page_bytes))

    def _of_groups(self, groups: Sequence[AccessGroup], direction: Direction) -> float:
        launch, device = self.groups.launch, self.groups.device
        sector, line = device.sector_bytes, device.l1_line_bytes
        boxes = linear_range(launch.grid, self.first, self.last)
        runs = field_runs(groups, boxes, launch, sector)
        if direction is Direction.LOAD:
            return page_fill(runs, device.dram_granularity, device.dram_page_bytes)
        fill = page_fill(runs, sector, device.dram_page_bytes)
        around = linear_range(launch.grid, self.first - self.kept, self.last + self.kept)
        near = clip_boxes(around, _sharing_lines(groups, boxes, launch, line))
        return fill * _growth_by_neighbours(
            runs, field_runs(groups, near, launch, sector), sector, line
        )

    def _of_executed(self, groups: Sequence[ExecutedGroup], direction: Direction) -> float:
        """The same of blocks that were executed, of which the window may be others."""
        device = self.groups.device
        if all(g.touched.run is None for g in groups):
            return 0.0
        sector, line = device.sector_bytes, device.l1_line_bytes
        numbers = np.array(groups[0].sampled.run)
        first, last = self.executed_places(groups[0].sampled)
        runs = _executed_runs(groups, first, last, sector)
        if direction is Direction.LOAD:
            return page_fill(runs, device.dram_granularity, device.dram_page_bytes)
        kept = int(self.kept * self._executed_share(groups[0].sampled))
        ends = (numbers[first] - kept, numbers[last - 1] + kept + 1)
        start, stop = map(int, np.searchsorted(numbers, ends))
        around = _executed_runs(groups, start, stop, sector)
        fill = page_fill(runs, sector, device.dram_page_bytes)
        return fill * _growth_by_neighbours(runs, around, sector, line)

    def _executed_share(self, sampled: Sampled) -> float:
        """Started blocks for each block of the launch, where loops over the grid make it larger."""
        return min(1.0, sampled.total / self.groups.launch.blocks)

    def executed_places(self, sampled: Sampled) -> tuple[int, int]:
        """Places among the executed blocks, the last left out: of the window itself where all were
        executed, else of as many in a row, or as many as there are."""
        share = self._executed_share(sampled)
        count = max(1, round((self.last - self.first) * share))
        if sampled.whole:
            first = min(int(self.first * share), sampled.total - count)
            return first, first + count
        starts = np.flatnonzero(np.diff(sampled.run, prepend=-2) != 1)
        lengths = np.diff(starts, append=len(sampled.run))
        longest = int(lengths.argmax())
        count = min(count, int(lengths[longest]))
        first = int(starts[longest]) + (int(lengths[longest]) - count) // 2
        return first, first + count


def _executed_runs(
    groups: Sequence[ExecutedGroup], first: int, last: int, granularity: int
) -> Runs:
    starts = executed_granules(groups, first, last, granularity) * granularity
    return merge_runs(starts, starts + granularity, 1)


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
