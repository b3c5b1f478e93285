"""Atomic operations that contend for one address take turns: how many do, and how long.

Where blocks are sampled, what several of them have in common is taken to be common to all; what
only one of them touches is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.warps import lane_addresses
from perfassert.hardware.model import Device
from perfassert.kernel.executed import meeting
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import AtomicTurn

_LANES = 1 << 17  # that are looked at, of a group: all where there are no more
_BLOCKS = 16  # spread over the grid, at least
Counts = dict[int, float]
"""Operations, by address."""


@dataclass(frozen=True, slots=True)
class Contention:
    """On single addresses of global memory, the most of each: ``operations`` of threads, ``cycles``
    for which they occupy it, and ``unmeasured`` ones, at a rate that is not known for them."""

    operations: float = 0.0
    cycles: float = 0.0
    unmeasured: float = 0.0

    def at_least(self, counts: Mapping[AtomicTurn, Counts], device: Device) -> Contention:
        """The larger of each."""
        operations: Counts = {}
        cycles: Counts = {}
        unmeasured: Counts = {}
        for turn, counted in counts.items():
            each = turn_cycles(turn, device)
            for address, count in counted.items():
                operations[address] = operations.get(address, 0.0) + count
                cycles[address] = cycles.get(address, 0.0) + count * each
                if not is_measured(turn, device):
                    unmeasured[address] = unmeasured.get(address, 0.0) + count * each
        return Contention(
            max([self.operations, *operations.values()]),
            max([self.cycles, *cycles.values()]),
            max([self.unmeasured, *unmeasured.values()]),
        )


NO_CONTENTION = Contention()


def turn_cycles(turn: AtomicTurn, device: Device) -> float:
    """Between two atomics on one address. What was not measured counts as the slower kind."""
    if turn is AtomicTurn.ADDITION:
        return device.l2_atomic_cycles
    return device.l2_update_cycles or device.l2_atomic_cycles


def is_measured(turn: AtomicTurn, device: Device) -> bool:
    """Whether it was measured how long such an atomic keeps one address."""
    if turn is AtomicTurn.UPDATE:
        return bool(device.l2_update_cycles)
    return turn is AtomicTurn.ADDITION


def find_contention(groups: LaunchGroups) -> Contention:
    """On the address of global memory that receives most atomics."""
    most, device = Contention(), groups.device
    for own in groups.fields.values():
        atomic = [g for g in own if g.serial]
        if atomic:
            most = most.at_least(_count_operations(atomic, groups.launch, device), device)
    for executed in groups.executed.values():
        counts: dict[AtomicTurn, Counts] = {}
        for group in executed:
            counted = counts.setdefault(group.turn, {})
            for address, count in group.touched.meeting.items():
                counted[address] = counted.get(address, 0.0) + count
        most = most.at_least(counts, device)
    return most


def _count_operations(
    groups: Sequence[AccessGroup], launch: Launch, device: Device
) -> dict[AtomicTurn, Counts]:
    result: dict[AtomicTurn, Counts] = {}
    for group in groups:
        counts = result.setdefault(group.turn, {})
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
    return result


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
