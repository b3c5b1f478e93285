"""Atomic operations that contend for one sector, or for one slice of the L2, take turns: how many
do, and how long.

A slice serves one sector at a time, and two slices share each stretch of twice ``l2_slice_bytes``,
by quarters in turns (docs/results/h100.md, *Atomics*): of a KiB bytes 0 to 255 and 512 to 767 lie
in one, the others in the other. 128 floats side by side lie in two slices, eight sectors in each,
and a warp that adds to 32 of them takes one slice four turns.

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

_LANES = 1 << 17  # that are looked at, of a group: all where there are no more
_BLOCKS = 16  # spread over the grid, at least
_DOUBLE = 8  # bytes

_Kind = tuple[AtomicTurn, int]
"""And the bytes of an operation."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Of global memory, the most of each: ``operations`` of threads on one address; ``cycles`` for
    which one sector is occupied, and those of ``unmeasured`` atomics, whose rate is not known;
    ``slice_cycles`` for which one slice of the L2 is occupied, 0 if its size is not known."""

    operations: float = 0.0
    cycles: float = 0.0
    unmeasured: float = 0.0
    slice_cycles: float = 0.0

    def at_least(self, met: Mapping[_Kind, Meeting], device: Device) -> Contention:
        """The larger of each."""
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
    """Between two turns in one sector. What was not measured counts as the slower kind."""
    if turn is AtomicTurn.ADDITION:
        return device.l2_atomic_cycles
    return device.l2_update_cycles or device.l2_atomic_cycles


def slice_cycles(
    turn: AtomicTurn, width: int, turns: float, operations: float, device: Device
) -> float:
    """Return how long a slice of the L2 needs for so many turns in its sectors, of operations on
    ``width`` bytes: a turn serves a whole sector, but doubles are added one after the other."""
    adds_doubles = turn is AtomicTurn.UPDATE and width == _DOUBLE
    each = device.l2_double_cycles if adds_doubles else 0.0
    return max(turns * device.l2_atomic_cycles, operations * each)


def _slice(part: int, device: Device) -> int:
    """Return the slice of a part: the first and third quarters of a stretch lie in one."""
    quarter = part // max(1, device.l2_slice_bytes // 2 // PART_BYTES)
    return quarter // 4 * 2 + quarter % 2


def is_measured(turn: AtomicTurn, device: Device) -> bool:
    """Whether it was measured how long such an atomic takes."""
    if turn is AtomicTurn.UPDATE:
        return bool(device.l2_update_cycles)
    return turn is AtomicTurn.ADDITION


def find_contention(groups: LaunchGroups) -> Contention:
    """On the address, and in the sector, of global memory that receives most atomics."""
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
        grid = _working(group, launch)
        chosen = _spread(grid, _LANES // launch.threads_per_block)
        lanes = lane_addresses(group, chosen, launch, device.warp_size)
        block = np.broadcast_to(np.arange(len(chosen))[:, None], lanes.some.shape)[lanes.some]
        active = lanes.active[lanes.some]
        for offset in group.offsets:
            addresses: IntArray = lanes.addresses[lanes.some] + offset
            met = meeting(addresses, active, block, len(chosen), prod(grid))
            weight, count = float(lanes.weight.mean()), len(chosen)
            met = Meeting(*(_count_again(each, weight, count) for each in met))
            kind = group.turn, group.item_bytes
            result[kind] = result.get(kind, NO_MEETING).plus(met)
    return result


def _count_again(counts: Mapping[int, float], weight: float, blocks: int) -> dict[int, float]:
    """Counts of iterations that stand for several: what is touched more than once in a block."""
    return {place: count * (weight if count > blocks else 1.0) for place, count in counts.items()}


def _working(group: AccessGroup, launch: Launch) -> tuple[int, int, int]:
    """Blocks in each direction that come to the group."""
    tops = dict(group.ranges)
    x, y, z = (
        min(g, -(-(tops[axis][1] + 1) // b)) if axis in tops else g
        for g, b, axis in zip(launch.grid, launch.block, AXES, strict=True)
    )
    return max(x, 1), max(y, 1), max(z, 1)


def _spread(grid: tuple[int, int, int], affordable: int) -> list[tuple[int, int, int]]:
    """Some of the blocks, all of them where there are few."""
    chosen = spread_blocks(prod(grid), max(affordable, _BLOCKS))
    return [(b % grid[0], b // grid[0] % grid[1], b // (grid[0] * grid[1])) for b in chosen]
