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
from perfassert.engines.volume.runs import distinct
from perfassert.engines.volume.warps import lane_addresses, middle_block
from perfassert.hardware.model import Device
from perfassert.kernel.executed import ADDRESS_BITS, Visits
from perfassert.kernel.launch import Launch

_EXECUTIONS = 64  # of a warp, one after the other: bytes fill a sector in 32
_ROWS = 1024  # loads of a warp that are looked at


@dataclass(frozen=True, eq=False, slots=True)
class FirstTouches:
    """Sectors of loads, counted [executions of a warp, loads]: all that each ``asked`` for, and
    the ``new`` ones among them, which no load before it has touched in the same warp."""

    asked: IntArray
    new: IntArray

    def new_share(self, loads: slice) -> float:
        """Of all that all loads ask for, what some of them are the first to touch."""
        asked = int(self.asked.sum())
        return float(self.new[:, loads].sum() / asked) if asked else 1.0

    def executions_with_new(self, loads: slice) -> float:
        """Share of executions in which one of the loads touches something new."""
        active = self.asked[:, loads].any(axis=1)
        return float(self.new[active][:, loads].any(axis=1).mean()) if active.any() else 1.0


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
    """The middle one of the warps that load, of a block in the middle of the grid, from its first
    iteration on."""
    width, block = device.warp_size, [middle_block(launch)]
    (loading,) = lane_addresses(group, block, launch, width, 1).some[0].nonzero()
    if not len(loading):
        return None
    threads = np.arange(width, dtype=np.int64) + loading[len(loading) // 2] * width
    count = max(1, min(_EXECUTIONS, _ROWS // len(group.offsets)))
    lanes = lane_addresses(group, block, launch, width, count, threads)
    addresses, active = lanes.addresses[0], lanes.active[0]
    sectors = (addresses[:, None, :] + group.offsets[:, None]) // device.sector_bytes
    executions, loads = sectors.shape[:2]
    lit = np.repeat(active, loads, axis=0)
    row = np.repeat(np.arange(executions * loads, dtype=np.int64), width).reshape(lit.shape)
    return _count(sectors.reshape(lit.shape)[lit], row[lit], (executions, loads))


def _of_visits(visits: Sequence[Visits]) -> FirstTouches:
    """All warps of the blocks that were looked at, in the executions that are known."""
    key, warps, time = (
        np.concatenate(arrays)
        for arrays in zip(*((v.keys, v.warps, v.times) for v in visits), strict=True)
    )
    load = np.repeat(np.arange(len(visits), dtype=np.int64), [len(v.keys) for v in visits])
    block, piece = key >> ADDRESS_BITS, key & ((1 << ADDRESS_BITS) - 1)
    warp = block * (int(warps.max()) + 1) + warps
    pieces, place = np.unique(piece, return_inverse=True)
    executions, number = np.unique(warp * (int(time.max()) + 1) + time, return_inverse=True)
    row = number.reshape(-1) * len(visits) + load  # executions of a warp follow one another
    sectors = warp * len(pieces) + place.reshape(-1)
    return _count(sectors, row, (len(executions), len(visits)))


def _count(sectors: IntArray, row: IntArray, shape: tuple[int, int]) -> FirstTouches:
    """``row``: which load of which execution asks for each of the sectors, in their order."""
    rows = shape[0] * shape[1]
    pairs = distinct((sectors - sectors.min()) * rows + row)
    sector, row = pairs // rows, pairs % rows
    first = np.ones(len(pairs), np.bool_)
    np.not_equal(sector[1:], sector[:-1], out=first[1:])
    asked, new = (np.bincount(r, minlength=rows).reshape(shape) for r in (row, row[first]))
    return FirstTouches(asked, new)
