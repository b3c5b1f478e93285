"""What waves touch of fields whose addresses were executed, and what of it the L2 may still hold.

Where all blocks were executed, wave by wave: when each granule was last touched is known. Else one
wave, or a part of one, stands for all. What the wave before has touched is counted; what earlier
ones have follows from the size of the buffer, of which all waves together can touch no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

import numpy as np

from perfassert.engines.volume.executed import ExecutedGroup, executed_granules
from perfassert.engines.volume.groups import IntArray, between_l2_and_dram
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.waves import FieldWave, Wave
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.executed import Sampled, stretches


def with_executed(sampled: Sequence[Wave], groups: LaunchGroups) -> list[Wave]:
    """The waves, with their share of what executed fields amount to."""
    if not groups.executed:
        return list(sampled)
    counted = {}
    for name, own in groups.executed.items():
        loads = between_l2_and_dram(Direction.LOAD, own)
        stores = between_l2_and_dram(Direction.STORE, own)
        counted[name] = launch_waves(loads, stores, groups.device, groups.resident_blocks)
    result = []
    for wave in sampled:
        share = wave.threads / groups.launch.threads
        shares = {name: counts.of(share) for name, counts in counted.items()}
        new = sum(f.load - f.overlap_y for f in (*wave.fields.values(), *shares.values()))
        apart = max(counts.again for counts in counted.values())
        layer_z = max(wave.layer_z, apart * new)
        result.append(replace(wave, fields={**wave.fields, **shares}, layer_z=layer_z))
    return result


@dataclass(frozen=True, slots=True)
class LaunchWaves:
    """One field over all waves of a launch, in bytes; as a wave's :class:`FieldWave`.

    ``again``: waves that lie between two that touch the same, where it is not the next one.
    """

    load: float = 0.0
    overlap_y: float = 0.0
    overlap_z: float = 0.0
    store: float = 0.0
    partial: float = 0.0
    pages: float = 0.0
    again: float = 0.0

    def of(self, share: float) -> FieldWave:
        """What a share of the launch's work touches."""
        return FieldWave(
            self.load * share, self.overlap_y * share, self.overlap_z * share,
            self.store * share, self.partial * share, round(self.pages),
        )  # fmt: skip


def launch_waves(
    loads: Sequence[ExecutedGroup],
    stores: Sequence[ExecutedGroup],
    device: Device,
    concurrent: int,
) -> LaunchWaves:
    """What the waves of the launch touch of one field, and of that what waves before had."""
    sampled = (loads or stores)[0].sampled
    counter = _Waves(loads, stores, device)
    if sampled.whole:
        return counter.of_all(sampled.total, concurrent)
    return counter.of_one(sampled, concurrent)


class _Waves:
    def __init__(
        self, loads: Sequence[ExecutedGroup], stores: Sequence[ExecutedGroup], device: Device
    ) -> None:
        self.loads, self.stores = loads, stores
        self.grain, self.sector = device.dram_granularity, device.sector_bytes
        self.page = device.tlb_page_bytes

    def of_all(self, total: int, concurrent: int) -> LaunchWaves:
        """Wave by wave: how long ago each granule was touched is known."""
        starts = range(0, total, concurrent)
        read = [executed_granules(self.loads, s, s + concurrent, self.grain) for s in starts]
        load = sum(map(len, read)) * self.grain
        at_once, later, apart = _revisits(read)
        written = [self.written_bytes(s, s + concurrent) for s in starts]
        pages = [self.pages(s, s + concurrent) for s in starts]
        return LaunchWaves(
            load, at_once * self.grain, later * self.grain,
            sum(w[0] for w in written), sum(w[1] for w in written),
            sum(pages) / len(pages), apart / later if later else 0.0,
        )  # fmt: skip

    def of_one(self, sampled: Sampled, concurrent: int) -> LaunchWaves:
        """From one wave, whole or in part, and what precedes it."""
        blocks = len(sampled.run)
        wave = min(concurrent, blocks)
        middle = blocks - wave
        whole, rest = divmod(sampled.total, concurrent)
        waves = sampled.total / concurrent

        def all_waves(groups: Sequence[ExecutedGroup], grain: int) -> float:
            full = _grown(groups, middle, blocks, concurrent / wave, grain)
            return whole * full + _grown(groups, middle, blocks, rest / wave, grain)

        load = all_waves(self.loads, self.grain)
        in_y = 0.0
        if middle:
            before = executed_granules(self.loads, 0, middle, self.grain)
            here = executed_granules(self.loads, middle, blocks, self.grain)
            in_y = len(np.intersect1d(before, here, assume_unique=True)) * self.grain * waves
        once = self.most(load - in_y)
        written, partial = self.written_bytes(middle, blocks)
        store = all_waves(self.stores, self.sector)
        return LaunchWaves(
            load, in_y, max(0.0, load - in_y - once), store,
            store * partial / written if written else 0.0,
            self.pages(middle, blocks) * concurrent / wave,
            once * waves / load if load else 0.0,
        )  # fmt: skip

    def most(self, fresh: float) -> float:
        """Bytes that all waves together can touch for the first time."""
        return min(fresh, _buffer_bytes(self.loads, self.grain))

    def written_bytes(self, first: int, last: int) -> tuple[float, float]:
        """Bytes in sectors that are written, and in those of them that are written in part and
        that nothing loads."""
        if all(g.touched.run is None for g in self.stores):
            return 0.0, 0.0
        sector = self.sector
        grain = min(g.touched.run.grain for g in self.stores if g.touched.run is not None)
        pieces = executed_granules(self.stores, first, last, grain)
        sectors, counts = np.unique(pieces // (sector // grain), return_counts=True)
        part = sectors[counts < sector // grain]
        read = executed_granules(self.loads, first, last, sector)
        left = np.setdiff1d(part, read, assume_unique=True)
        return float(len(sectors) * sector), float(len(left) * sector)

    def pages(self, first: int, last: int) -> int:
        return len(executed_granules([*self.loads, *self.stores], first, last, self.page))


def distinct_bytes(groups: Sequence[ExecutedGroup], granularity: int) -> float:
    """Bytes of the granules that the launch touches of one field, each counted once."""
    if not groups:
        return 0.0
    sampled = groups[0].sampled
    blocks = len(sampled.run)
    return _grown(groups, 0, blocks, sampled.total / blocks, granularity)


def _grown(
    groups: Sequence[ExecutedGroup], first: int, last: int, grow: float, granularity: int
) -> float:
    """Bytes that so many times as many blocks touch as those from ``first`` to ``last``."""
    if not groups or not grow:
        return 0.0
    if grow <= 1.0:
        last = first + round((last - first) * grow)
        return float(len(executed_granules(groups, first, last, granularity))) * granularity
    count = stretches(last - first)
    edges = [first + (last - first) * i // count for i in range(count + 1)]
    parts = [executed_granules(groups, a, b, granularity) for a, b in pairwise(edges)]
    return min(extrapolate_distinct(parts, grow) * granularity, _buffer_bytes(groups, granularity))


def _buffer_bytes(groups: Sequence[ExecutedGroup], granularity: int) -> float:
    """Size in bytes of the buffer that all of them are in; infinite where it is unknown."""
    sizes = [g.touched.size for g in groups if g.touched.run is not None]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return inf
    return float(-(-max(known) // granularity) * granularity)


def _revisits(waves: Sequence[IntArray]) -> tuple[int, int, int]:
    """How many granules the wave before had touched, how many an earlier one, and how many waves
    lay between in all."""
    at_once = later = apart = 0
    seen = np.empty(0, np.int64)
    last = np.empty(0, np.int64)
    for number, wave in enumerate(waves):
        known = np.isin(wave, seen, assume_unique=True)
        places = np.searchsorted(seen, wave[known])
        ago = number - last[places]
        at_once += int((ago == 1).sum())
        later += int((ago > 1).sum())
        apart += int(ago[ago > 1].sum())
        seen = np.concatenate([seen, wave[~known]])
        last = np.concatenate([last, np.full(len(seen) - len(last), number)])
        last[places] = number
        order = np.argsort(seen, kind="stable")
        seen, last = seen[order], last[order]
    return at_once, later, apart


def extrapolate_distinct(parts: Sequence[IntArray], grow: float) -> float:
    """Extrapolate how many distinct values ``grow`` times as many blocks have, from several parts.

    A value that occurs in one part only is new there, whichever part comes last: their number says
    what the last part adds, and with those that occur in two parts what the last but one added.
    What every further part adds falls by the same ratio: exact for values that all parts draw
    from one reservoir, and for values that no part shares with another.

    Two parts with two values each, 1 and 2, 2 and 3: the first one added 2, the second one 1. So
    the next ones add 1/2, 1/4 and so on, and there are 4 values in all:

        >>> parts = [np.array([1, 2]), np.array([2, 3])]
        >>> [extrapolate_distinct(parts, grow) for grow in (1, 2, 100)]
        [3.0, 3.75, 4.0]
    """
    count = len(parts)
    if count == 1:
        return len(parts[0]) * grow
    times = np.bincount(np.unique(np.concatenate(parts), return_counts=True)[1], minlength=3)
    last = times[1] / count
    before = last + times[2] / (count * (count - 1) / 2)
    if not before:
        return float(times.sum())
    ratio, more = last / before, count * (grow - 1)
    added = last * (more if ratio == 1 else ratio * (1 - ratio**more) / (1 - ratio))
    return float(times.sum() + added)
