"""First touches of sectors by a warp's loads: only they can wait for data from below the L1.

A thread that reads a row of 4-byte items in sequence loads each sector of 32 bytes eight times. It
waits for the L2 once in eight iterations. If the rows of all lanes are equally aligned, all lanes
wait in the same iteration. The fraction of iterations that wait can therefore not be computed as if
lanes waited at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfassert.engines.volume.executed import ExecutedGroup
from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.engines.volume.reuse import AnyGroup
from perfassert.engines.volume.warps import lane_addresses, middle_block
from perfassert.hardware.model import Device
from perfassert.kernel.executed import ADDRESS_BITS, Visits
from perfassert.kernel.launch import Launch

_EXECUTIONS = 64  # consecutive executions per warp: single bytes fill a sector within 32
_ROWS = 4096  # largest number of evaluated loads of warps


@dataclass(frozen=True, eq=False, slots=True)
class FirstTouches:
    """Counts of sectors, each of shape [executions of a warp, loads].

    ``asked``: all sectors that a load asks for. ``new``: those that the same warp has not touched
    before. ``arriving``: those of the new ones that no warp of the block has touched in an earlier
    iteration. ``shared``: sectors that a block touches for the first time, as a fraction of all
    requests.
    """

    asked: IntArray
    new: IntArray
    arriving: IntArray
    shared: float

    def new_share(self, loads: slice) -> float:
        """Return the new sectors of the given loads as a fraction of the requests of all loads."""
        asked = int(self.asked.sum())
        return float(self.new[:, loads].sum() / asked) if asked else 1.0

    def executions_with_arriving(self, loads: slice) -> float:
        """Return the fraction of executions in which one of the loads has an arriving sector."""
        active = self.asked[:, loads].any(axis=1)
        return float(self.arriving[active][:, loads].any(axis=1).mean()) if active.any() else 1.0


def first_touches(
    groups: Sequence[AnyGroup], launch: Launch, device: Device
) -> FirstTouches | None:
    """Return the first touches of loads, or None if the addresses are unknown.

    ``groups``: one group with a closed form, whose members are the loads, or executed groups in the
    same loops, each of which is one load.
    """
    if isinstance(groups[0], AccessGroup):
        return _of_forms(groups[0], launch, device)
    visits = [g.touched.visits for g in groups if isinstance(g, ExecutedGroup)]
    known = [v for v in visits if v is not None]
    return _of_visits(known) if known and len(known) == len(visits) else None


def _of_forms(group: AccessGroup, launch: Launch, device: Device) -> FirstTouches | None:
    """Count the loads of all warps of the middle block, from the first iteration on."""
    width, block = device.warp_size, [middle_block(launch)]
    (loading,) = lane_addresses(group, block, launch, width, 1).some[0].nonzero()
    if not len(loading):
        return None
    threads = (np.arange(width, dtype=np.int64) + loading[:, None] * width).reshape(-1)
    loads, warps = len(group.offsets), len(loading)
    count = max(1, min(_EXECUTIONS, _ROWS // (loads * warps)))
    lanes = lane_addresses(group, block, launch, width, count, threads)
    addresses, active = lanes.addresses[0], lanes.active[0]
    sectors = (addresses[:, None, :] + group.offsets[:, None]) // device.sector_bytes
    lit = np.broadcast_to(active[:, None, :], sectors.shape)
    row, load, _ = lit.nonzero()
    return _count(sectors[lit], row % warps, row // warps, load, loads)


def _of_visits(visits: Sequence[Visits]) -> FirstTouches:
    """Count the loads of all warps in the blocks and executions that were recorded."""
    key, warps, time = (
        np.concatenate(arrays)
        for arrays in zip(*((v.keys, v.warps, v.times) for v in visits), strict=True)
    )
    load = np.repeat(np.arange(len(visits), dtype=np.int64), [len(v.keys) for v in visits])
    warp = (key >> ADDRESS_BITS) * (int(warps.max()) + 1) + warps
    return _count(key, warp, time, load, len(visits))


def _count(
    place: IntArray, warp: IntArray, time: IntArray, load: IntArray, loads: int
) -> FirstTouches:
    """Count first touches, given the sector, warp, iteration and load of each request."""
    executions, number = np.unique(warp * (int(time.max()) + 1) + time, return_inverse=True)
    row = number.reshape(-1) * loads + load
    order = np.lexsort((load, time, warp, place))
    place, warp, time, row = place[order], warp[order], time[order], row[order]
    # For example, warp 0 loads sector 7 in iterations 0 and 1, warp 1 in iteration 1. Sorted, these
    # are three requests for one place. The first and the third are new (another warp); only the
    # first arrives, since iteration 1 is later than the earliest touch. ``shared`` is 1/3.
    other_place = np.diff(place, prepend=place[0] - 1) != 0
    other_warp = other_place | (np.diff(warp, prepend=-1) != 0)
    once = other_warp | (np.diff(row, prepend=-1) != 0)  # each load asks for a sector once
    earliest = np.minimum.reduceat(time, np.flatnonzero(other_place))
    arrives = other_warp & (time == earliest[np.cumsum(other_place) - 1])
    shape = (len(executions), loads)
    asked, new, arriving = (
        np.bincount(row[some], minlength=shape[0] * loads).reshape(shape)
        for some in (once, other_warp, arrives)
    )
    return FirstTouches(asked, new, arriving, float(other_place.sum() / once.sum()))
