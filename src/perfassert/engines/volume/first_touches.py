"""What of a warp's loads it has not loaded before: only that can be on its way from below the L1.

A thread that walks through a row of 4-byte items loads a sector of 32 bytes eight times: once in
eight iterations it waits for the L2. All lanes do in the same iteration if their rows are equally
aligned, so the share of iterations that wait is not a matter of chance.
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

_EXECUTIONS = 64  # of a warp, one after the other: bytes fill a sector in 32
_ROWS = 4096  # loads of warps that are looked at


@dataclass(frozen=True, eq=False, slots=True)
class FirstTouches:
    """Sectors of loads, counted [executions of a warp, loads]: all that each ``asked`` for; the
    ``new`` ones among them, which no load before it has touched in the same warp; and of these the
    ``arriving`` ones, which no warp of the block has touched in an earlier iteration.

    ``shared``: of all sectors that warps ask for, those that are the first of their block.
    """

    asked: IntArray
    new: IntArray
    arriving: IntArray
    shared: float

    def new_share(self, loads: slice) -> float:
        """Of all that all loads ask for, what some of them are the first to touch."""
        asked = int(self.asked.sum())
        return float(self.new[:, loads].sum() / asked) if asked else 1.0

    def executions_with_arriving(self, loads: slice) -> float:
        """Share of executions in which one of the loads touches something that arrives."""
        active = self.asked[:, loads].any(axis=1)
        return float(self.arriving[active][:, loads].any(axis=1).mean()) if active.any() else 1.0


def first_touches(
    groups: Sequence[AnyGroup], launch: Launch, device: Device
) -> FirstTouches | None:
    """Of the loads of a group, in the order of its members, or of executed ones in the same loops,
    in their order; None where nobody knows."""
    if isinstance(groups[0], AccessGroup):
        return _of_forms(groups[0], launch, device)
    visits = [g.touched.visits for g in groups if isinstance(g, ExecutedGroup)]
    known = [v for v in visits if v is not None]
    return _of_visits(known) if known and len(known) == len(visits) else None


def _of_forms(group: AccessGroup, launch: Launch, device: Device) -> FirstTouches | None:
    """All warps that load of a block in the middle of the grid, from their first iteration on."""
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
    """All warps of the blocks that were looked at, in the executions that are known."""
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
    """``place``: sectors of blocks, of which ``load`` asks in an iteration of a warp."""
    executions, number = np.unique(warp * (int(time.max()) + 1) + time, return_inverse=True)
    row = number.reshape(-1) * loads + load
    order = np.lexsort((load, time, warp, place))
    place, warp, time, row = place[order], warp[order], time[order], row[order]
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
