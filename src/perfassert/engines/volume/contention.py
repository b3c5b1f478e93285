"""Contention of atomic operations for one sector, or for one slice of the L2.

Operations that contend take turns. This module counts the turns and the cycles that they take.

A slice serves one sector at a time. Two slices share each range of twice ``l2_slice_bytes``: its
quarters lie in one and the other slice in turns (docs/results/h100.md, *Atomics*). For example,
bytes 0 to 255 and 512 to 767 of a KiB lie in one slice, and the other bytes in the other slice. 128
consecutive floats lie in two slices, eight sectors in each. A warp that adds to 32 of them takes
four turns of one slice.

If blocks are sampled, an address that several sampled blocks touch counts as touched by all blocks.
An address that only one sampled block touches counts for that block only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.warps import evaluated_iterations, lane_addresses
from perfassert.hardware.model import Device
from perfassert.kernel.executed import (
    NO_MEETING,
    PART_BYTES,
    Meeting,
    meeting,
    spread_blocks,
)
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import AtomicTurn

_LANES = 1 << 17  # largest number of lanes that are evaluated per group
_BLOCKS = 16  # smallest number of sampled blocks
_DOUBLE = 8  # bytes

_Kind = tuple[AtomicTurn, int]
"""A kind of atomic operation, and the bytes of one operation."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Largest contention in global memory.

    ``operations``: most operations of threads on one address. ``cycles``: longest time for which
    one sector is occupied. ``unmeasured``: the part of it in atomics whose rate was not measured.
    ``slice_cycles``: longest time for which one slice of the L2 is occupied, 0 if the size of a
    slice is unknown.
    """

    operations: float = 0.0
    cycles: float = 0.0
    unmeasured: float = 0.0
    slice_cycles: float = 0.0

    def at_least(self, met: Mapping[_Kind, Meeting], device: Device) -> Contention:
        """Return the larger value of each quantity, in this contention and in the operations
        ``met``."""
        operations: dict[int, float] = {}
        cycles: dict[int, float] = {}
        unmeasured: dict[int, float] = {}
        slices: dict[int, float] = {}
        for (turn, width), own in met.items():
            each = turn_cycles(turn, device)
            for address, count in own.operations.items():
                operations[address] = operations.get(address, 0.0) + count
            for sector, count in own.turns.items():
                cycles[sector] = cycles.get(sector, 0.0) + count * each
                if not is_measured(turn, device):
                    unmeasured[sector] = unmeasured.get(sector, 0.0) + count * each
            for part, count in own.part_turns.items() if device.l2_slice_bytes else ():
                operated = own.part_operations.get(part, 0.0)
                busy = slice_cycles(turn, width, count, operated, device)
                place = _slice(part, device)
                slices[place] = slices.get(place, 0.0) + busy
        return Contention(
            max([self.operations, *operations.values()]),
            max([self.cycles, *cycles.values()]),
            max([self.unmeasured, *unmeasured.values()]),
            max([self.slice_cycles, *slices.values()]),
        )


NO_CONTENTION = Contention()


def turn_cycles(turn: AtomicTurn, device: Device) -> float:
    """Return the cycles between two turns in one sector; unmeasured kinds count as updates."""
    if turn is AtomicTurn.ADDITION:
        return device.l2_atomic_cycles
    return device.l2_update_cycles or device.l2_atomic_cycles


def slice_cycles(
    turn: AtomicTurn, width: int, turns: float, operations: float, device: Device
) -> float:
    """Return the cycles that a slice of the L2 needs for ``turns`` turns in its sectors.

    A turn serves a whole sector. Updates of doubles are the exception: their operations, on
    ``width`` bytes each, are executed one after the other.
    """
    # For example, 4 turns at 2 cycles each take 8 cycles. If they are 16 additions of doubles at 1
    # cycle each, they take max(8, 16) = 16 cycles.
    adds_doubles = turn is AtomicTurn.UPDATE and width == _DOUBLE
    each = device.l2_double_cycles if adds_doubles else 0.0
    return max(turns * device.l2_atomic_cycles, operations * each)


def _slice(part: int, device: Device) -> int:
    """Return the slice of a part: the first and third quarters of a range lie in the same slice."""
    # For example, with l2_slice_bytes = 512 a quarter is one part: parts 0, 1, 2, 3, 4, 5 lie in
    # slices 0, 1, 0, 1, 2, 3.
    quarter = part // max(1, device.l2_slice_bytes // 2 // PART_BYTES)
    return quarter // 4 * 2 + quarter % 2


def is_measured(turn: AtomicTurn, device: Device) -> bool:
    """Return True if the duration of such an atomic was measured."""
    if turn is AtomicTurn.UPDATE:
        return bool(device.l2_update_cycles)
    return turn is AtomicTurn.ADDITION


def find_contention(groups: LaunchGroups) -> Contention:
    """Find the largest contention of atomics for an address, a sector, and a slice of the L2."""
    most, device = Contention(), groups.device
    for own in groups.fields.values():
        atomic = [g for g in own if g.serial]
        if atomic:
            most = most.at_least(_find_meetings(atomic, groups.launch, device), device)
    for executed in groups.executed.values():
        met: dict[_Kind, Meeting] = {}
        for group in executed:
            kind = group.turn, group.item_bytes
            met[kind] = met.get(kind, NO_MEETING).plus(group.touched.meeting)
        most = most.at_least(met, device)
    return most


def _find_meetings(
    groups: Sequence[AccessGroup], launch: Launch, device: Device
) -> dict[_Kind, Meeting]:
    result: dict[_Kind, Meeting] = {}
    for group in groups:
        grid = _blocks_reaching(group, launch)
        each = launch.threads_per_block * evaluated_iterations(group)
        chosen = _spread(grid, _LANES // each)
        lanes = lane_addresses(group, chosen, launch, device.warp_size)
        warps = -(-launch.threads_per_block // device.warp_size)
        block, row = np.nonzero(lanes.some)
        active, weight = lanes.active[lanes.some], float(lanes.weight.mean())
        for offset in group.offsets:
            addresses: IntArray = lanes.addresses[lanes.some] + offset
            met = meeting(addresses, active, block, len(chosen), prod(grid), row // warps, weight)
            kind = group.turn, group.item_bytes
            result[kind] = result.get(kind, NO_MEETING).plus(met)
    return result


def _blocks_reaching(group: AccessGroup, launch: Launch) -> tuple[int, int, int]:
    """Return the number of blocks along each axis that reach the group."""
    tops = dict(group.ranges)
    x, y, z = (
        min(g, -(-(tops[axis][1] + 1) // b)) if axis in tops else g
        for g, b, axis in zip(launch.grid, launch.block, AXES, strict=True)
    )
    return max(x, 1), max(y, 1), max(z, 1)


def _spread(grid: tuple[int, int, int], affordable: int) -> list[tuple[int, int, int]]:
    """Return evenly spread block indices, or all of them if the grid has few blocks."""
    chosen = spread_blocks(prod(grid), max(affordable, _BLOCKS))
    return [(b % grid[0], b // grid[0] % grid[1], b // (grid[0] * grid[1])) for b in chosen]
