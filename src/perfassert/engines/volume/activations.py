"""Bytes that each activation of a DRAM row moves.

A DRAM bank reads and writes only in the row that it has activated, and each channel activates rows
at a limited rate (tFAW). A memory controller serves requests for the same row together, but it sees
only the requests in its queues. The *window* is the set of requests that the queues of all channels
hold at a time. It consists of the requests of consecutive blocks, or of all resident blocks in some
iterations of their loops. Each page of ``dram_page_bytes`` that the window touches costs one
activation. An array that is read along its columns, in pieces of 64 bytes, therefore costs one
activation per 64 bytes. An array that is read along its rows costs hardly any.

A window of eight blocks of 16 × 16 threads reads from rows at a distance of 4,096 bytes. The eight
blocks read 512 consecutive bytes of each of 16 rows:

    >>> rows = Runs(np.arange(16) * 4096, np.arange(16) * 4096 + 8 * 64)
    >>> page_fill(rows, granularity=32, page_bytes=2048)
    512.0

If the indices are swapped, each of the eight blocks reads 64 bytes of 16 other rows:

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
    """Compute the activations of a wave by field and direction.

    The result is empty if the device file has no cost of an activation.
    """
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
    """Bytes in touched granules, divided by the number of touched pages."""
    pages = size(to_granules(runs, page_bytes))
    return size(to_granules(runs, granularity)) * granularity / pages if pages else 0.0


class _Cut(NamedTuple):
    """Accesses in the same loops: a range of iterations of blocks ``first`` to ``last`` - 1."""

    groups: Sequence[AccessGroup]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Window:
    """Requests of blocks ``first`` to ``last`` - 1 of one wave that are queued at the same time.

    ``waiting`` is the fraction of the wave's traffic that is queued at a time. ``around`` is that
    fraction plus the traffic before and after it during which the L2 keeps a line.
    """

    groups: LaunchGroups
    first: int
    last: int
    waiting: float
    around: float

    @classmethod
    def of(cls, groups: LaunchGroups, wave: Wave, total: float) -> Window:
        """Return the window of a wave that moves ``total`` bytes."""
        device = groups.device
        waiting = device.dram_channels * device.dram_queue_depth * device.dram_request_bytes
        share = min(1.0, waiting / total)
        around = share + 2 * device.l2_effective_bytes / total
        return cls(groups, wave.first, wave.first + wave.block_count, share, around)

    def blocks(self, share: float) -> tuple[int, int]:
        """Return the first and the last (exclusive) block of a range in the middle of the wave.

        The range is the fraction ``share`` of the wave's blocks, but at least one block. With
        ``share`` > 1 it includes blocks before and after the wave.
        """
        # For example, a quarter of blocks 100 to 199 is 25 blocks, 137 to 161: the result is (137,
        # 162).
        count = max(1, round(share * (self.last - self.first)))
        first = self.first + (self.last - self.first - count) // 2
        return first, first + count

    def bytes_per_activation(self, name: str, direction: Direction) -> float:
        """Return the bytes of ``name`` that an activation moves, at most those of a page.

        The result is a whole page if the window touches nothing of the field. In that case its
        blocks have no work, or it has only loads that complete sectors of stores, in rows that the
        stores activate.
        """
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
        # Without loops the blocks in ``around`` include those of the window.
        near = [runs] if any(nest[0].loops for nest in nests) else []
        for nest, cut in zip(nests, cuts, strict=True):
            lines = _sharing_lines(nest, linear_range(launch.grid, *cut[1:]), launch, line)
            near.append(_cut_runs(self._cut(nest, self.around), launch, sector, lines))
        return fill * _growth_by_neighbours(runs, union(near, sector), sector, line)

    def _cut(self, nest: Sequence[AccessGroup], share: float) -> _Cut:
        """Return the accesses that make up a fraction ``share`` of the wave's traffic.

        They are the same iterations of all blocks, which run at the same time. If the fraction is
        less than one iteration, they are one iteration of some blocks. The number of iterations is
        a power of two, so that they begin at the start of a sector.
        """
        # For example, 1/10 of a wave whose loop has 64 iterations is 6.4 iterations, rounded down
        # to 4 of all blocks. 1/128 is half an iteration: one iteration of half of the blocks.
        trips = prod(trip_count(nest[0], loop) for loop in nest[0].loops)
        left, window = 1 << int(log2(max(1.0, min(share, 1.0) * trips))), {}
        for loop in reversed(nest[0].loops):
            window[loop] = min(left, trip_count(nest[0], loop))
            left //= window[loop]
        of_blocks = share if share > 1 else min(1.0, share * trips)
        return _Cut([cut_loops(g, window) for g in nest], *self.blocks(of_blocks))

    def _of_executed(self, groups: Sequence[ExecutedGroup], direction: Direction) -> float:
        """Return the bytes per activation, counted in executed blocks.

        The window may consist of other blocks than the executed ones.
        """
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
        """Return the fraction of a block's pages that it fills within the iterations of a window.

        A block has ``most`` iterations, and all blocks run the same ones at a time. If each thread
        reads a stripe of consecutive bytes, a page is filled over many iterations.
        """
        visits = [v for g in groups if (v := g.touched.visits) is not None]
        spread = [p for g in groups if (p := g.touched.spread) is not None]
        # For example, each thread reads 2,048 consecutive bytes, 64 of them per iteration. A window
        # of one iteration fills 64 bytes of each page of 2,048, although all iterations fill the
        # page: the fraction is 1/32.
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
        """Return the started blocks per block of the launch: less than 1 if blocks loop over the
        grid."""
        return min(1.0, sampled.total / self.groups.launch.blocks)

    def executed_places(self, sampled: Sampled, of_wave: float) -> tuple[int, int]:
        """Return the first and the last (exclusive) executed block that form the window.

        If all blocks were executed, they are the fraction ``of_wave`` of the wave. Otherwise they
        are the same number of consecutive blocks, or as many as the longest run of executed blocks
        has.
        """
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
    """Bytes in touched granules per touched page, both counted per block, from keys of pieces."""
    ordered = np.sort(keys)
    granules, pages = (
        1 + int(np.count_nonzero(np.diff(ordered // (size // grain))))
        for size in (device.dram_granularity, device.dram_page_bytes)
    )
    return granules * device.dram_granularity / pages if len(keys) else 0.0


def _growth_by_neighbours(written: Runs, around: Runs, sector: int, line: int) -> float:
    """Return the factor by which neighbours fill the lines of ``written`` until the L2 evicts them.

    The L2 writes all written sectors of a line back together, including those that blocks
    ``around`` have written in the meantime.
    """
    # For example, the window writes sector 0 of a line of four sectors, and blocks around it write
    # sectors 1 to 3. Four sectors are written back where the window wrote one: the factor is 4.
    lines = to_granules(written, line)
    whole = Runs(lines.starts * (line // sector), lines.ends * (line // sector))
    at_once = size(to_granules(written, sector))
    return max(1.0, common(whole, to_granules(around, sector)) / at_once) if at_once else 1.0


def _sharing_lines(
    groups: Sequence[AccessGroup], boxes: Sequence[BlockBox], launch: Launch, line: int
) -> BlockBox:
    """Return the bounding box of the blocks that can write to the same lines as ``boxes``.

    Along each axis the box is extended by the number of blocks that begin within one line.
    """
    steps = [block_steps(group, launch) for group in groups]
    result = []
    for i in range(3):
        within = [abs(own[i]) for own in steps if own[i]]
        margin = -(-line // min(within)) if within and min(within) < line else 0
        low, high = min(box[i][0] for box in boxes), max(box[i][1] for box in boxes)
        result.append((max(low - margin, 0), min(high + margin, launch.grid[i])))
    return (result[0], result[1], result[2])
