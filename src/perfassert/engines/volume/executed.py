"""Costs and footprints of fields whose addresses come from executed blocks, counted.

If an access has a closed form, groups of affine forms describe its addresses
(:mod:`~perfassert.engines.volume.binding`). Here the addresses themselves are available, of sampled
blocks that are spread over the grid and of consecutive blocks. Costs and unique sectors of a block
are means over the spread blocks. The consecutive blocks serve for waves
(:mod:`~perfassert.engines.volume.executed_waves`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perfassert.engines.volume.binding import loads_past_l1
from perfassert.engines.volume.groups import IntArray
from perfassert.engines.volume.runs import distinct
from perfassert.engines.volume.warps import Passes, WarpCost, rows_cost
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.description import Description
from perfassert.kernel.executed import (
    ADDRESS_BITS,
    Pieces,
    Sampled,
    Touched,
    Visits,
    error_of_mean,
)
from perfassert.kernel.machine import AtomicTurn
from perfassert.kernel.names import Counter, Name


@dataclass(frozen=True, eq=False, slots=True)
class ExecutedGroup:
    """The executions of one memory instruction.

    ``members`` holds the numbers of the accesses that are copies of the instruction. ``serial``,
    ``past_l1``, ``turn``, ``loops``, ``ranges`` and ``atomic`` are those of an
    :class:`AccessGroup`. ``window`` is the fraction of the executions, in sequence, that count.
    """

    field: str
    direction: Direction
    item_bytes: int
    alignment: int
    touched: Touched
    members: tuple[int, ...]
    serial: bool = False
    past_l1: bool = False
    turn: AtomicTurn = AtomicTurn.UNKNOWN
    loops: tuple[Counter, ...] = ()
    ranges: tuple[tuple[Name, tuple[int, int]], ...] = ()
    window: float = 1.0
    atomic: bool = False

    @property
    def sampled(self) -> Sampled:
        """The blocks that were executed."""
        return self.touched.sampled


def executed_groups(kernel: Description, space: str) -> list[ExecutedGroup]:
    """Return the groups of executed accesses to a memory space."""
    members: dict[int, list[int]] = {}
    for number, access in enumerate(kernel.bound):
        if access.space == space and access.touched is not None:
            members.setdefault(id(access.touched), []).append(number)
    result, strong = [], loads_past_l1(kernel)
    for numbers in members.values():
        access = kernel.bound[numbers[0]]
        assert access.touched is not None
        field = kernel.fields.get(access.field)
        result.append(
            ExecutedGroup(
                access.field, access.direction, access.bytes,
                256 if field is None else field.alignment, access.touched, tuple(numbers),
                access.atomic and not access.merged, access.instruction in strong, access.turn,
                access.loops, tuple(sorted(access.ranges.items(), key=str)), atomic=access.atomic,
            )
        )  # fmt: skip
    return result


def executed_cost(group: ExecutedGroup, device: Device) -> WarpCost:
    """Return the cost of a group over all warps of the launch."""
    rows, sampled = group.touched.rows, group.sampled
    if rows is None:
        return WarpCost()
    cost = rows_cost(rows.addresses, rows.lanes, group, group.alignment, device)
    return WarpCost().plus(cost, rows.every * sampled.total / len(sampled.spread))


def executed_on_chip_cost(group: ExecutedGroup, passes: Passes, device: Device) -> WarpCost:
    """Return the cost of a group on shared or constant memory over the launch.

    Addresses in shared memory are relative to the window of a block.
    """
    rows, sampled = group.touched.rows, group.sampled
    if rows is None:
        return WarpCost()
    scale = rows.every * sampled.total / len(sampled.spread)
    loads = group.direction is Direction.LOAD
    waves = passes(rows.addresses, rows.lanes, group.item_bytes, loads, group.serial, device)
    total = float(waves.sum()) * scale
    lit = float(rows.lanes.sum()) * scale
    return WarpCost(instructions=len(rows) * scale, wavefronts=total, cycles=total, lanes=lit)


@dataclass(frozen=True, slots=True)
class Counted:
    """Bytes summed over all blocks, and the relative error ``off`` (95 % confidence)."""

    total: float = 0.0
    off: float = 0.0


def block_footprint(groups: Sequence[ExecutedGroup], granularity: int) -> Counted:
    """Return the bytes that each block touches, summed over all blocks; ``window`` is ignored."""
    if not groups:
        return Counted()
    first, *others = (group.touched for group in groups)
    key = block_footprint, granularity, *others
    return first.counted.once(key, lambda: _count_pieces([first, *others], granularity))


def _count_pieces(touched: Sequence[Touched], granularity: int) -> Counted:
    sampled = touched[0].sampled
    blocks = len(sampled.spread)
    keys = [_coarser(t.spread, granularity) for t in touched if t.spread is not None]
    if not keys:
        return Counted()
    unique = distinct(np.concatenate(keys))
    each = np.bincount(unique >> ADDRESS_BITS, minlength=blocks)
    off = error_of_mean(each.tolist(), sampled.total)
    return Counted(float(each.mean()) * sampled.total * granularity, off)


def window_footprint(groups: Sequence[ExecutedGroup], granularity: int) -> float:
    """Return the mean bytes that a block touches in one window, summed over all blocks.

    All groups lie in the same loops. The i-th executions of all groups fall into the same window.
    Only a part of the executions is recorded. For windows longer than that part, the bytes are
    interpolated between the longest recorded window and all executions.
    """
    whole = block_footprint(groups, granularity).total
    visits = [g.touched.visits for g in groups if g.touched.visits is not None]
    most = max((v.most for v in visits), default=1)
    executions = groups[0].window * most
    if not visits or executions >= most:
        return whole
    # For example, a block touches 800 bytes in all 64 executions, and 400 bytes in a window of 16,
    # the longest that is recorded. A window of 40, halfway from 16 to 64, touches
    # 400 + (800 - 400) / 2 = 600 bytes.
    length, known = max(1, round(executions)), min(v.last - v.first for v in visits)
    blocks = groups[0].sampled.total
    apart = max(v.apart for v in visits)
    asked = sum(len(v.keys) / v.share for v in visits if v.share)
    if not asked:
        return whole
    each = blocks * granularity / len(groups[0].sampled.spread[::apart])  # bytes per granule
    each /= most * sum(len(v.keys) for v in visits) / asked

    def window_bytes(executions: int) -> float:
        return _in_windows(visits, executions, apart, granularity) * executions * each

    if length <= known:
        return min(whole, window_bytes(length) * min(1.0, executions))
    near = min(whole, window_bytes(known))
    return near + (whole - near) * (executions - known) / (most - known)


def _in_windows(visits: Sequence[Visits], length: int, apart: int, granularity: int) -> int:
    """Count the granules of each ``apart``-th block once per window of ``length`` executions."""
    keys, numbers = [], []
    for own in visits:
        some = (own.keys >> ADDRESS_BITS) % apart == 0
        keys.append(_coarser_keys(own.keys[some], granularity // own.grain))
        numbers.append(own.times[some] // length)
    key, number = np.concatenate(keys), np.concatenate(numbers)
    places, place = np.unique(key, return_inverse=True)
    return len(distinct(number * len(places) + place.reshape(-1)))


def _coarser(pieces: Pieces, granularity: int) -> IntArray:
    """Return the keys of pieces of ``granularity`` bytes."""
    return _coarser_keys(pieces.keys, granularity // pieces.grain)


def _coarser_keys(keys: IntArray, ratio: int) -> IntArray:
    # For example, with a ratio of 4, piece 5 of block 3 becomes piece 1 of block 3.
    block = keys >> ADDRESS_BITS << ADDRESS_BITS
    coarser: IntArray = block | (keys - block) // ratio
    return coarser


def executed_granules(
    groups: Sequence[ExecutedGroup], first: int, last: int, granularity: int
) -> IntArray:
    """Return the granules that executed blocks ``first`` to ``last`` - 1 of the run touch."""
    parts = [
        g.touched.run.of(first, last) // (granularity // g.touched.run.grain)
        for g in groups
        if g.touched.run is not None
    ]
    return distinct(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def sampling_notes(groups: Sequence[ExecutedGroup], footprint: Counted) -> Iterator[str]:
    """Yield notes of a prediction on a field whose sectors were counted in a sample of blocks."""
    sampled = groups[0].sampled
    if sampled.whole:
        return
    yield (
        f"{groups[0].field}: sectors of a block are counted in {len(sampled.spread)} executed "
        f"blocks of {sampled.total} (± {100 * footprint.off:.2g} %, 95 % confidence), those of a "
        f"wave in {len(sampled.run)}"
    )
