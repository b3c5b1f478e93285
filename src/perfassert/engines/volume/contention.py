"""Atomic operations that meet at one address take turns: how many there are on the fullest one.

Where blocks are sampled, what several of them have in common is taken to be common to all; what
only one of them touches is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.warps import lane_addresses
from perfassert.hardware.model import Device
from perfassert.kernel.executed import meeting
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch

_LANES = 1 << 17  # that are looked at, of a group: all where there are no more
_BLOCKS = 16  # spread over the grid, at least


def on_one_address(groups: LaunchGroups) -> float:
    """Operations of single threads on the address of global memory that has most of them."""
    most = 0.0
    for own in groups.fields.values():
        atomic = [g for g in own if g.serial]
        if atomic:
            most = max(most, _fullest_of_groups(atomic, groups.launch, groups.device))
    for executed in groups.executed.values():
        counts: dict[int, float] = {}
        for group in executed:
            for address, count in group.touched.meeting.items():
                counts[address] = counts.get(address, 0.0) + count
        most = max([most, *counts.values()])
    return most


def _fullest_of_groups(groups: Sequence[AccessGroup], launch: Launch, device: Device) -> float:
    counts: dict[int, float] = {}
    for group in groups:
        grid = _working(group, launch)
        chosen = _spread(grid, _LANES // launch.threads_per_block)
        lanes = lane_addresses(group, chosen, launch, device.warp_size)
        block = np.broadcast_to(np.arange(len(chosen))[:, None, None], lanes.addresses.shape)
        for offset in group.offsets:
            addresses: IntArray = lanes.addresses[lanes.active] + offset
            operations = meeting(addresses, block[lanes.active], len(chosen), prod(grid))
            for address, count in operations.items():
                again = lanes.weight if count > len(chosen) else 1.0
                counts[address] = counts.get(address, 0.0) + again * count
    return max(counts.values(), default=0.0)


def _working(group: AccessGroup, launch: Launch) -> tuple[int, int, int]:
    """Blocks in each direction that come to the group."""
    tops = dict(group.ranges)
    x, y, z = (
        min(g, -(-(tops[axis][1] + 1) // b)) if axis in tops else g
        for g, b, axis in zip(launch.working_grid(launch), launch.block, AXES, strict=True)
    )
    return max(x, 1), max(y, 1), max(z, 1)


def _spread(grid: tuple[int, int, int], affordable: int) -> list[tuple[int, int, int]]:
    """Some of the blocks, all of them where there are few."""
    total = prod(grid)
    count = min(total, max(affordable, _BLOCKS))
    chosen = ((2 * i + 1) * total // (2 * count) for i in range(count))
    return [(b % grid[0], b // grid[0] % grid[1], b // (grid[0] * grid[1])) for b in chosen]
