"""What one warp instruction costs the L1 cache: wavefronts, tag cycles, sectors (Warpspeed §4.2).

Rules, fitted to hardware counters of 144 access patterns on A100 (see ``docs/model.md``):

* *data stage*: passes of 128 bytes (a warp of 4-byte items in one pass, of 8-byte items in two);
  each pass with an unmasked lane takes as many wavefronts as its fullest bank has distinct items;
* *tag stage*: four banks, the bank of a 128-byte line being the XOR of the 2-bit digits of its
  number; as many cycles as the fullest bank has distinct lines;
* *width*: bytes requested over the pipe's width.

The paper's rule that addresses more than 1024 B apart do not pair is the tag stage's hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfassert.engines.volume.binding import AccessGroup, IntArray
from perfassert.engines.volume.representatives import Representative
from perfassert.hardware.model import Device
from perfassert.kernel.affine import evaluate
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch

BoolArray = npt.NDArray[np.bool_]
_PASS_BYTES = 128
_HASH_DIGITS = range(0, 12, 2)
_MAX_ROWS = 1024
_MAX_BASES = 16
_MAX_ITERATIONS = 24


@dataclass(frozen=True, slots=True)
class WarpCost:
    """Totals over the whole launch for one access group.

    ``instructions``: warp instructions executed; ``wavefronts``: data stage; ``cycles``: the
    slowest of the stages; ``sectors``: distinct sectors per warp instruction, summed.
    """

    instructions: float = 0.0
    wavefronts: float = 0.0
    tag_cycles: float = 0.0
    cycles: float = 0.0
    sectors: float = 0.0

    def plus(self, other: WarpCost, weight: float = 1.0) -> WarpCost:
        """The sum, the other one weighted."""
        return WarpCost(
            self.instructions + weight * other.instructions,
            self.wavefronts + weight * other.wavefronts,
            self.tag_cycles + weight * other.tag_cycles,
            self.cycles + weight * other.cycles,
            self.sectors + weight * other.sectors,
        )


def warp_cost(
    group: AccessGroup, blocks: Sequence[Representative], launch: Launch, device: Device
) -> WarpCost:
    """Cost of the group's instructions over all warps of the launch."""
    warps = -(-launch.threads_per_block // device.warp_size)
    chosen = _chosen(blocks, max(1, _MAX_ROWS // (warps * len(group.offsets))))
    total = WarpCost()
    for block in chosen:
        lanes = lane_addresses(group, block.block, launch, device.warp_size)
        if len(lanes.addresses):
            cost = _block_cost(group, lanes.addresses, lanes.active, device)
            total = total.plus(cost, block.weight * lanes.weight)
    return total


def shared_cost(group: AccessGroup, launch: Launch, device: Device) -> WarpCost:
    """Cost of shared-memory instructions over the launch: 32 banks of 4 bytes.

    A block in the middle stands for all. An atomic counts as a load does: lanes that meet at one
    address cost nothing more.
    """
    middle = tuple(-(-e // b) // 2 for e, b in zip(launch.extent, launch.block, strict=True))
    lanes = lane_addresses(group, middle, launch, device.warp_size)  # type: ignore[arg-type]
    if not len(lanes.addresses):
        return WarpCost()
    waves = wavefronts(lanes.addresses, lanes.active, group.item_bytes)
    scale = launch.blocks * lanes.weight * len(group.offsets)
    total = float(waves.sum()) * scale
    return WarpCost(instructions=len(waves) * scale, wavefronts=total, cycles=total)


def _chosen(blocks: Sequence[Representative], limit: int) -> list[Representative]:
    """At most ``limit`` blocks of every mask class, which take over the class's weight."""
    classes: dict[tuple[bool, ...], list[Representative]] = {}
    for block in sorted(blocks, key=lambda b: -b.weight):
        classes.setdefault(block.partial, []).append(block)
    chosen = []
    for members in classes.values():
        kept = members[:limit]
        scale = sum(m.weight for m in members) / sum(k.weight for k in kept)
        chosen += [Representative(k.block, k.weight * scale, k.partial) for k in kept]
    return chosen


@dataclass(frozen=True, slots=True)
class Lanes:
    """Addresses less the offsets, and unmasked lanes, both of shape (warps, lanes).

    Every iteration of the loops around the group has rows of its own; where they are too many
    some stand for ``weight`` each.
    """

    addresses: IntArray
    active: BoolArray
    weight: float


def lane_addresses(
    group: AccessGroup, block: tuple[int, int, int], launch: Launch, warp_size: int
) -> Lanes:
    """What the lanes of one block access.

    Warps without an unmasked lane are left out; masked lanes repeat an unmasked one's address.
    """
    nx, ny, _ = launch.block
    size = launch.threads_per_block
    lanes = -(-size // warp_size) * warp_size
    linear = np.arange(lanes, dtype=np.int64)
    thread = {"x": linear % nx, "y": linear // nx % ny, "z": linear // (nx * ny)}
    values: dict[str, IntArray] = {}
    active = linear < size
    for i, axis in enumerate(AXES):
        position = thread[axis] + block[i] * launch.block[i]
        active &= position < launch.extent[i]
        values |= {
            axis: position,
            f"threadIdx.{axis}": thread[axis],
            f"blockIdx.{axis}": np.full_like(position, block[i]),
        }
    iterations, weight = _iterations(group)
    count = len(next(iter(iterations.values()))) if iterations else 1
    values |= {symbol: counts[:, None] for symbol, counts in iterations.items()}
    shape = (count, lanes)
    active = np.broadcast_to(active, shape)
    for symbol, (first, last) in group.ranges:
        active = active & (values[symbol] >= first) & (values[symbol] <= last)
    for condition in group.conditions:
        active = active & (evaluate(dict(condition.terms), values) + condition.constant != 0)
    addresses = np.broadcast_to(evaluate(dict(group.terms), values), shape)
    shaped, lit = addresses.reshape(-1, warp_size), active.reshape(-1, warp_size)
    some = lit.any(axis=1)
    shaped, lit = shaped[some], lit[some]
    if not lit.all():
        first_lit = np.take_along_axis(shaped, lit.argmax(axis=1)[:, None], axis=1)
        shaped = np.where(lit, shaped, first_lit)
    return Lanes(shaped, lit, weight)


def _iterations(group: AccessGroup) -> tuple[dict[str, IntArray], float]:
    """Loop counters of the iterations that are looked at, and how many each stands for."""
    if not group.loops:
        return {}, 1.0
    ranges = dict(group.ranges)
    counts = [ranges[s][1] - ranges[s][0] + 1 for s in group.loops]
    total = int(np.prod(counts))
    picked = min(total, _MAX_ITERATIONS)
    index = ((2 * np.arange(picked, dtype=np.int64) + 1) * total) // (2 * picked)
    values = {}
    for symbol, count in zip(reversed(group.loops), reversed(counts), strict=True):
        values[symbol] = ranges[symbol][0] + index % count
        index = index // count
    return values, total / picked


def _block_cost(
    group: AccessGroup, addresses: IntArray, active: BoolArray, device: Device
) -> WarpCost:
    offsets = group.offsets
    warps, step = len(addresses), 1
    if warps * len(offsets) > 2 * _MAX_ROWS:
        step = warps * len(offsets) // _MAX_ROWS
    data = wavefronts(addresses[::step], active[::step], group.item_bytes)
    width = active[::step].sum(axis=1) * group.item_bytes / device.l1_bytes_per_cycle
    rows = (addresses[::step, None, :] + offsets[None, :, None]).reshape(-1, addresses.shape[1])
    rows = np.sort(rows, axis=1)
    sectors = _distinct(rows // device.sector_bytes).sum()
    shifts = _base_shifts(group.alignment, len(rows))
    placed = (rows + shifts[:, None, None]).reshape(-1, rows.shape[1])
    tags = tag_cycles(placed // device.l1_line_bytes, device.l1_tag_banks)
    tags = tags.reshape(len(shifts), -1, len(offsets))
    floor = np.maximum(data, width)[:, None]
    scale = warps / len(data)
    return WarpCost(
        instructions=float(warps * len(offsets)),
        wavefronts=float(data.sum()) * len(offsets) * scale,
        tag_cycles=float(tags.sum()) / len(shifts) * scale,
        cycles=float(np.maximum(tags, floor).sum()) / len(shifts) * scale,
        sectors=float(sectors) * scale,
    )


def _base_shifts(alignment: int, rows: int) -> IntArray:
    """Base addresses to average the tag hash over: all that is known is their alignment.

    Multiples of five alignments, so that they run through all four banks.
    """
    count = min(_MAX_BASES, max(1, _MAX_ROWS // rows))
    return 5 * alignment * np.arange(count, dtype=np.int64)


def _distinct(ordered: IntArray) -> BoolArray:
    """Where, along sorted rows, a value occurs for the first time."""
    first = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    return first


def _fullest(bank: IntArray, counted: BoolArray, banks: int) -> IntArray:
    """Per row: the largest number of counted entries in one bank."""
    rows = np.arange(len(bank), dtype=np.int64)[:, None] * banks
    flat = (rows + bank)[counted]
    counts = np.bincount(flat, minlength=len(bank) * banks)
    fullest: IntArray = counts.reshape(len(bank), banks).max(axis=1)
    return fullest


def wavefronts(addresses: IntArray, active: BoolArray, item_bytes: int) -> IntArray:
    """Data-stage wavefronts per warp; ``addresses`` of shape (warps, lanes)."""
    unit = max(item_bytes, 4)
    lanes = min(_PASS_BYTES // unit, addresses.shape[1])
    banks = _PASS_BYTES // unit
    items, lit = (addresses // unit).reshape(-1, lanes), active.reshape(-1, lanes)
    if not lit.all():
        items = np.where(lit, items, np.take_along_axis(items, lit.argmax(axis=1)[:, None], axis=1))
    items = np.sort(items, axis=1)
    fullest = _fullest(items % banks, _distinct(items), banks) * lit.any(axis=1)
    passes: IntArray = fullest.reshape(len(addresses), -1).sum(axis=1)
    return passes


def tag_cycles(lines: IntArray, banks: int) -> IntArray:
    """Tag-stage cycles per warp; ``lines`` sorted along rows."""
    hashed = np.zeros_like(lines)
    for digit in _HASH_DIGITS:
        hashed ^= lines >> digit
    return _fullest(hashed % banks, _distinct(lines), banks)
