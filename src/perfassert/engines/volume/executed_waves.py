"""Footprints of waves in fields with executed addresses, and their overlap with earlier waves.

If all blocks were executed, it is known when each granule was last touched. Otherwise one wave, or
a part of one, represents all waves. The overlap with the preceding wave is counted. The overlap
with earlier waves follows from the size of the buffer, which bounds what all waves together can
touch.
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
from perfassert.kernel.distinct import count_distinct
from perfassert.kernel.executed import Sampled, stretches


def with_executed(sampled: Sequence[Wave], groups: LaunchGroups) -> list[Wave]:
    """Return the waves with the footprints of executed fields added."""
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
    """Bytes of one field over all waves of a launch, with the fields of :class:`FieldWave`.

    ``again``: mean distance, in waves, between two waves that touch the same granule, if it is not
    the next wave.
    """

    load: float = 0.0
    overlap_y: float = 0.0
    overlap_z: float = 0.0
    store: float = 0.0
    partial: float = 0.0
    pages: float = 0.0
    again: float = 0.0

    def of(self, share: float) -> FieldWave:
        """Return the bytes that a fraction ``share`` of the launch's work touches."""
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
    """Return the bytes of one field that the waves touch, and their overlap with earlier waves."""
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
        """Return the footprints counted wave by wave; all blocks were executed."""
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
        """Return the footprints extrapolated from one wave, or a part of it, and the blocks before
        it."""
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
        """Limit ``fresh`` bytes to those that all waves together can touch for the first time."""
        return min(fresh, _buffer_bytes(self.loads, self.grain))

    def written_bytes(self, first: int, last: int) -> tuple[float, float]:
        """Return the bytes in written sectors, and in partly written sectors that nothing loads."""
        if all(g.touched.run is None for g in self.stores):
            return 0.0, 0.0
        sector = self.sector
        grain = min(g.touched.run.grain for g in self.stores if g.touched.run is not None)
        pieces = executed_granules(self.stores, first, last, grain)
        sectors, counts = count_distinct(pieces // (sector // grain))
        part = sectors[counts < sector // grain]
        read = executed_granules(self.loads, first, last, sector)
        left = np.setdiff1d(part, read, assume_unique=True)
        return float(len(sectors) * sector), float(len(left) * sector)

    def pages(self, first: int, last: int) -> int:
        return len(executed_granules([*self.loads, *self.stores], first, last, self.page))


def distinct_bytes(groups: Sequence[ExecutedGroup], granularity: int) -> float:
    """Return the bytes of the granules that the launch touches of one field, each counted once."""
    if not groups:
        return 0.0
    sampled = groups[0].sampled
    blocks = len(sampled.run)
    return _grown(groups, 0, blocks, sampled.total / blocks, granularity)


def _grown(
    groups: Sequence[ExecutedGroup], first: int, last: int, grow: float, granularity: int
) -> float:
    """Return the bytes that ``grow`` times the blocks ``first`` to ``last`` - 1 touch."""
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
    """Return the size in bytes of the largest buffer of the groups, infinite if one is unknown."""
    sizes = [g.touched.size for g in groups if g.touched.run is not None]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return inf
    return float(-(-max(known) // granularity) * granularity)


def _revisits(waves: Sequence[IntArray]) -> tuple[int, int, int]:
    """Count the granules that the wave before touched, those last touched earlier, and how long
    ago.

    The last number is the sum of the distances, in waves, of the granules last touched earlier.
    """
    # For example, waves that touch granules {1, 2}, {2, 3} and {1}: granule 2 was touched by the
    # wave before, granule 1 two waves earlier, so the result is (1, 1, 2).
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
    """Extrapolate the number of distinct values of ``parts`` to ``grow`` times as many parts.

    A value that occurs in one part only is new in that part, whatever the part's position in the
    sequence. The mean number of such values is what the last part adds. Together with the values
    that occur in two parts, it gives what the last part but one added. The model assumes that the
    contribution of each further part falls by the same ratio. It is exact if all parts draw their
    values from one reservoir, and if no two parts share a value.

    For example, two parts have the values {1, 2} and {2, 3}. The first part added 2 values, the
    second 1. The next parts add 1/2, 1/4 and so on, which makes 4 values in all:

        >>> parts = [np.array([1, 2]), np.array([2, 3])]
        >>> [extrapolate_distinct(parts, grow) for grow in (1, 2, 100)]
        [3.0, 3.75, 4.0]
    """
    count = len(parts)
    if count == 1:
        return len(parts[0]) * grow
    times = np.bincount(count_distinct(np.concatenate(parts))[1], minlength=3)
    last = times[1] / count
    before = last + times[2] / (count * (count - 1) / 2)
    if not before:
        return float(times.sum())
    ratio, more = last / before, count * (grow - 1)
    added = last * (more if ratio == 1 else ratio * (1 - ratio**more) / (1 - ratio))
    return float(times.sum() + added)
