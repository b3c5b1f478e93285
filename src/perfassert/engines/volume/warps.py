"""Cost of one warp instruction in the L1: wavefronts, tag cycles, sectors (Warpspeed §4.2).

The rules were fitted to hardware counters of 144 access patterns on A100
(see ``docs/explanation/volumes.md``):

* *data stage*: an access takes passes over all banks of the data store, which is that of shared
  memory. With 32 banks of 4 bytes a warp of 4-byte items takes one pass, and a warp of 8-byte items
  takes two. Each pass with an unmasked lane takes as many wavefronts as its fullest bank has
  distinct items.
* *tag stage*: the tags lie in a few banks. The bank of a line is the XOR of the digits of its
  number; for four banks a digit has 2 bits. The stage takes as many cycles as the fullest bank has
  distinct lines.
* *width*: an access takes the requested bytes divided by the pipe's width, and at least the pipe's
  cycles for one access.

The paper's rule that addresses more than 1024 B apart do not pair is the tag stage's hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from perfassert.engines.volume.compiled import Packing, available, core
from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.engines.volume.representatives import Representative
from perfassert.engines.volume.runs import distinct
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine
from perfassert.kernel.executed import spread_blocks
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import Counter, Name
from perfassert.shipped import model_integer

BoolArray = npt.NDArray[np.bool_]
_HASH_BITS = model_integer("tag_hash_bits")  # of a line's number
_MAX_ROWS = 1024  # largest number of evaluated warp instructions; more are sampled
_MAX_BASES = 16  # base addresses that the tag hash is averaged over
_MAX_ITERATIONS = 24  # evaluated iterations of the loops around an access, evenly spread
_FEWEST_BLOCKS = 64  # evaluated blocks of each class, if trip counts differ between blocks
_CANDIDATES = 512  # candidate iterations, if some threads leave the loops before others
_MAX_PIECES = 4096  # evaluated pieces of a bulk copy whose box is clipped at the tensor's end


@dataclass(frozen=True, slots=True)
class WarpCost:
    """Totals of one access group over the whole launch.

    ``instructions`` counts executed warp instructions, and ``wavefronts`` those of the data stage.
    ``cycles`` are those of the slowest stage. ``sectors`` is the sum of distinct sectors per warp
    instruction. ``packets`` are those on the way to the L2 (:func:`count_packets`). ``lanes`` is
    the sum of the lanes that take part. ``pages`` is the sum of pages beyond the first of each
    instruction.
    """

    instructions: float = 0.0
    wavefronts: float = 0.0
    tag_cycles: float = 0.0
    cycles: float = 0.0
    sectors: float = 0.0
    packets: float = 0.0
    lanes: float = 0.0
    pages: float = 0.0

    def plus(self, other: WarpCost, weight: float = 1.0) -> WarpCost:
        """Return the sum of this cost and ``weight`` times the other."""
        return WarpCost(
            self.instructions + weight * other.instructions,
            self.wavefronts + weight * other.wavefronts,
            self.tag_cycles + weight * other.tag_cycles,
            self.cycles + weight * other.cycles,
            self.sectors + weight * other.sectors,
            self.packets + weight * other.packets,
            self.lanes + weight * other.lanes,
            self.pages + weight * other.pages,
        )


class Written(Protocol):
    """Properties of an access that determine its packets to the L2."""

    @property
    def direction(self) -> Direction: ...
    @property
    def item_bytes(self) -> int: ...
    @property
    def serial(self) -> bool: ...


def warp_cost(
    group: AccessGroup, blocks: Sequence[Representative], launch: Launch, device: Device
) -> WarpCost:
    """Return the cost of the group's instructions over all warps of the launch."""
    warps = -(-launch.threads_per_block // device.warp_size)
    limit = max(1, _MAX_ROWS // (warps * len(group.offsets)))
    if _leaves_early(group):  # trip counts differ between blocks
        limit = max(limit, _FEWEST_BLOCKS)
    chosen = _choose_blocks(blocks, limit)
    lanes = _cost_lanes(group, [b.block for b in chosen], launch, device.warp_size)
    weights = np.array([b.weight for b in chosen]) * lanes.weight
    counts = lanes.some.sum(axis=1)
    total = WarpCost()
    for count in distinct(counts[counts > 0]):  # blocks with equally many warps share an array
        alike = counts == count
        shape = (int(alike.sum()), int(count), lanes.addresses.shape[2])
        addresses = lanes.addresses[alike][lanes.some[alike]].reshape(shape)
        active = lanes.active[alike][lanes.some[alike]].reshape(shape)
        total = total.plus(_cost_of_blocks(group, addresses, active, weights[alike], device))
    return total


Passes = Callable[[IntArray, BoolArray, int, bool, bool, Device], npt.NDArray[np.float64]]
"""Function that returns the passes per warp.

Its arguments are addresses and active lanes of shape (warps, lanes), bytes of an item, whether the
access loads, and whether the lanes of an atomic take turns.
"""


def on_chip_cost(group: AccessGroup, passes: Passes, launch: Launch, device: Device) -> WarpCost:
    """Return the cost of instructions on shared or constant memory over the launch.

    The middle block represents all blocks.
    """
    lanes = lane_addresses(group, [middle_block(launch)], launch, device.warp_size)
    if not lanes.some.any():
        return WarpCost()
    addresses, active = lanes.addresses[lanes.some], lanes.active[lanes.some]
    loads = group.direction is Direction.LOAD
    waves = passes(addresses, active, group.item_bytes, loads, group.serial, device)
    scale = launch.blocks * float(lanes.weight.mean()) * len(group.offsets)
    total = float(waves.sum()) * scale
    lit = float(active.sum()) * scale
    return WarpCost(instructions=len(waves) * scale, wavefronts=total, cycles=total, lanes=lit)


def middle_block(launch: Launch) -> tuple[int, int, int]:
    """Return the block in the middle of the domain; no mask cuts it unless the domain is small."""
    x, y, z = (-(-e // b) // 2 for e, b in zip(launch.extent, launch.block, strict=True))
    return (x, y, z)


def _choose_blocks(blocks: Sequence[Representative], limit: int) -> list[Representative]:
    """Choose at most ``limit`` blocks of each class by mask and guards.

    The chosen blocks take over the weight of their class.
    """
    classes: dict[tuple[object, ...], list[Representative]] = {}
    for block in sorted(blocks, key=lambda b: -b.weight):
        classes.setdefault((block.partial, block.guards), []).append(block)
    chosen = []
    for members in classes.values():
        kept = [members[i] for i in spread_blocks(len(members), limit)]
        scale = sum(m.weight for m in members) / sum(k.weight for k in kept)
        chosen += [replace(k, weight=k.weight * scale) for k in kept]
    return chosen


@dataclass(frozen=True, slots=True)
class LaneAddresses:
    """Addresses without the offsets, and unmasked lanes, both of shape (blocks, warps, lanes).

    ``some`` marks the warps with an unmasked lane. Masked lanes of such a warp have the address of
    its first unmasked lane. Each iteration of the loops around the group takes further places along
    the axis of warps. If iterations are sampled, each represents ``weight`` iterations; the weight
    may differ between blocks.
    """

    addresses: IntArray
    active: BoolArray
    some: BoolArray
    weight: npt.NDArray[np.float64]


def _cost_lanes(
    group: AccessGroup, blocks: Sequence[tuple[int, ...]], launch: Launch, warp_size: int
) -> LaneAddresses:
    """Return the lanes from which the cost of a group is counted.

    For bulk copies these are only the threads that issue them, each as a warp of one lane. A warp
    issues a copy once, whichever of its threads are active. If the address depends on the thread,
    the copies of a warp are issued one after the other.
    """
    if not group.bulk:
        return lane_addresses(group, blocks, launch, warp_size)
    loops = frozenset(group.loops)
    own = replace(
        group, loops=(), terms=(),
        ranges=tuple((s, r) for s, r in group.ranges if s not in loops),
        conditions=tuple(c for c in group.conditions if not loops.intersection(c.symbols())),
    )  # fmt: skip
    issuing = np.flatnonzero(lane_addresses(own, blocks, launch, 1).active.any(axis=(0, 2)))
    if not _THREAD.intersection(Affine(0, group.terms).symbols()):
        issuing = issuing[np.unique(issuing // warp_size, return_index=True)[1]]
    return lane_addresses(group, blocks, launch, 1, threads=issuing)


_THREAD = frozenset((*AXES, *(f"threadIdx.{axis}" for axis in AXES), "laneid", "warpid"))
"""Coordinates in which the threads of a warp differ."""


def lane_addresses(
    group: AccessGroup,
    blocks: Sequence[tuple[int, ...]],
    launch: Launch,
    warp_size: int,
    first: int = 0,
    threads: IntArray | None = None,
) -> LaneAddresses:
    """Return the addresses that the lanes of some blocks access.

    ``first``: evaluate this number of iterations from the first on, instead of iterations spread
    over all. ``threads``: evaluate these threads of a block only; they must form whole warps.
    """
    nx, ny, _ = launch.block
    size = launch.threads_per_block
    linear = np.arange(-(-size // warp_size) * warp_size, dtype=np.int64)
    linear = linear if threads is None else threads
    lanes = len(linear)
    thread = np.stack([linear % nx, linear // nx % ny, linear // (nx * ny)], axis=1)
    iterations, weight = _iterations(group, blocks, launch, first)
    count = next(iter(iterations.values())).shape[1] if iterations else 1
    values: dict[Name, IntArray] = {
        symbol: counts[:, :, None] for symbol, counts in iterations.items()
    }
    shape = (len(blocks), count, lanes)
    active = np.broadcast_to(linear < size, shape)
    values |= _coordinates(blocks, thread, launch)
    for axis, extent in zip(AXES, launch.extent, strict=True):
        active = active & (values[axis] < extent)
    address, active = _apply_guards(group, values, active)
    addresses = np.broadcast_to(address, shape)
    by_warp = (len(blocks), -1, warp_size)
    shaped, lit = addresses.reshape(by_warp), active.reshape(by_warp)
    if not lit.all():
        first_lit = np.take_along_axis(shaped, lit.argmax(axis=2)[:, :, None], axis=2)
        shaped = np.where(lit, shaped, first_lit)
    return LaneAddresses(shaped, lit, np.asarray(lit.any(axis=2)), weight)


def _coordinates(
    blocks: Sequence[tuple[int, ...]], threads: IntArray, launch: Launch
) -> dict[Name, IntArray]:
    """Return coordinates of ``threads`` [n, 3] that broadcast to (blocks, iterations, n)."""
    values: dict[Name, IntArray] = {}
    for i, axis in enumerate(AXES):
        block = np.array([b[i] for b in blocks], dtype=np.int64)[:, None, None]
        thread = threads[:, i]
        position = thread + block * launch.block[i]
        values |= {axis: position, f"threadIdx.{axis}": thread, f"blockIdx.{axis}": block}
    return values


def _apply_guards(
    group: AccessGroup, values: Mapping[Name, IntArray], active: BoolArray
) -> tuple[IntArray, BoolArray]:
    """Return addresses without the offsets, and the lanes of ``active`` whose guards hold."""
    for symbol, (low, high) in group.ranges:
        active = active & (values[symbol] >= low) & (values[symbol] <= high)
    address, *conditions = group.forms(values)
    for condition in conditions:
        active = active & (condition != 0)
    return address, active


def _is_clipped(group: AccessGroup) -> bool:
    """Return True if boxes of bulk copies are clipped at the tensor's end, so that all pieces
    count."""
    loops = frozenset(group.loops)
    return group.bulk and any(loops.intersection(c.symbols()) for c in group.conditions)


def evaluated_iterations(group: AccessGroup) -> int:
    """Return the number of iterations that are evaluated of the loops around a group."""
    return min(prod(_counts(group)), _MAX_PIECES if _is_clipped(group) else _MAX_ITERATIONS)


def _iterations(
    group: AccessGroup, blocks: Sequence[tuple[int, ...]], launch: Launch, first: int
) -> tuple[dict[Counter, IntArray], npt.NDArray[np.float64]]:
    """Return the loop counters of the evaluated iterations, and the iterations that each
    represents.

    The counters have the shape (blocks or 1, iterations).
    """
    if not group.loops:
        return {}, np.ones(1)
    total = prod(_counts(group))
    picked = min(total, first) or evaluated_iterations(group)
    index, weight = np.arange(picked, dtype=np.int64)[None, :], np.array([total / picked])
    if picked < total and not first:
        if _leaves_early(group):
            index, weight = _active_iterations(group, blocks, launch, total, picked)
        else:
            # For example, 4 of 16 iterations are 2, 6, 10 and 14, each of which represents 4.
            index = (2 * index + 1) * total // (2 * picked)
    return _counters(group, index), weight


def _leaves_early(group: AccessGroup) -> bool:
    """Return True if some threads leave the loops around the group before others."""
    counters = frozenset(group.loops)
    return any(counters.intersection(c.symbols()) for c in group.conditions)


def _active_iterations(
    group: AccessGroup, blocks: Sequence[tuple[int, ...]], launch: Launch, total: int, picked: int
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return iterations in which threads of a block take part, chosen per block, and their weights.

    The function serves groups that some threads leave early, so that blocks differ in their
    iterations. Threads at the corners and in the middle of a block are evaluated.
    """
    count = min(total, _CANDIDATES)
    candidates = (2 * np.arange(count, dtype=np.int64) + 1) * total // (2 * count)
    threads = np.array(list(product(*(sorted({0, n // 2, n - 1}) for n in launch.block))))
    counters = _counters(group, candidates[None, :])
    values: dict[Name, IntArray] = {s: v[:, :, None] for s, v in counters.items()}
    values |= _coordinates(blocks, threads, launch)
    everyone = np.ones((len(blocks), count, len(threads)), np.bool_)
    active = _apply_guards(group, values, everyone)[1]
    some = np.asarray(active.any(axis=2))
    some |= ~np.asarray(some.any(axis=1, keepdims=True))  # other threads may take part
    number = some.sum(axis=1)
    ordered = np.argsort(~some, axis=1, kind="stable")
    places = (2 * np.arange(picked) + 1) * number[:, None] // (2 * picked)
    chosen = candidates[np.take_along_axis(ordered, places, axis=1)]
    return chosen, number * (total / count / picked)


def _counts(group: AccessGroup) -> list[int]:
    """Return the number of iterations of each loop around a group."""
    ranges = dict(group.ranges)
    return [ranges[s][1] - ranges[s][0] + 1 for s in group.loops]


def _counters(group: AccessGroup, index: IntArray) -> dict[Counter, IntArray]:
    """Return the loop counters of iterations that are numbered through all loops, innermost
    fastest."""
    # For example, iteration 7 of an outer loop and an inner loop of 5 iterations is outer 1, inner
    # 2.
    ranges, values = dict(group.ranges), {}
    for symbol, count in zip(reversed(group.loops), reversed(_counts(group)), strict=True):
        values[symbol] = ranges[symbol][0] + index % count
        index = index // count
    return values


def _cost_of_blocks(
    group: AccessGroup,
    addresses: IntArray,
    active: BoolArray,
    weights: npt.NDArray[np.float64],
    device: Device,
) -> WarpCost:
    """Return the cost of weighted blocks; arrays have the shape (blocks, warps, lanes)."""
    offsets = group.offsets
    blocks, warps, lanes = addresses.shape
    step = 1
    if warps * len(offsets) > 2 * _MAX_ROWS:
        step = warps * len(offsets) // _MAX_ROWS
    addresses, active = addresses[:, ::step], active[:, ::step]
    kept = addresses.shape[1]
    flat = (addresses.reshape(-1, lanes), active.reshape(-1, lanes))
    data = wavefronts(*flat, group.item_bytes, device).reshape(blocks, kept, 1)
    width = pipe_cycles(active, group.item_bytes, device)[:, :, None]
    shifts = _base_shifts(group.alignment, kept * len(offsets))
    counts = count_rows(flat[0], Moves(offsets, 1, shifts), device)
    tags = counts.tags.reshape(len(shifts), blocks, kept, len(offsets)) * device.l1_tag_cycles
    slowest = np.maximum(tags, np.maximum(data, width))
    scaled = weights * (warps / kept)

    def total(values: npt.NDArray[Any]) -> float:
        return float(values.reshape(blocks, -1).sum(axis=1) @ scaled)

    return WarpCost(
        instructions=float(weights.sum()) * warps * len(offsets),
        wavefronts=total(data) * len(offsets),
        tag_cycles=total(tags.sum(axis=0)) / len(shifts),
        cycles=total(slowest.sum(axis=0)) / len(shifts),
        sectors=total(counts.sectors),
        packets=total(count_packets(counts, group, device)),
        lanes=total(active.sum(axis=2)) * len(offsets),
        pages=total(counts.further_pages),
    )


class Moves(NamedTuple):
    """Rows of addresses are moved by each of ``offsets``, and for the tag stage by each of
    ``bases``.

    An item touches a sector at each of ``pieces`` bytes, a number for 0, 32, 64 and so on with
    sectors of 32 bytes. The tag stage is evaluated for one of ``every`` rows.
    """

    offsets: IntArray
    pieces: int
    bases: IntArray
    every: int = 1


class RowCounts(NamedTuple):
    """Counts of what rows of addresses touch, each row moved by each offset, offset fastest.

    ``places``, ``sectors`` and ``lines`` count distinct ones, and ``further_pages`` counts pages
    beyond the first. For example, 32 lanes at distances of 3 MiB access 32 pages of 2 MiB, 31 of
    them beyond the first. ``tags`` holds the cycles of the tag stage, of shape (bases, rows).
    """

    places: IntArray
    sectors: IntArray
    lines: IntArray
    further_pages: IntArray
    tags: IntArray


def count_rows(addresses: IntArray, moves: Moves, device: Device) -> RowCounts:
    """Count what rows of addresses touch, of shape (rows, lanes)."""
    count = _count_rows_compiled if available() else _count_rows
    return count(addresses, moves, device)


def _count_rows_compiled(addresses: IntArray, moves: Moves, device: Device) -> RowCounts:
    offsets, bases = len(moves.offsets), len(moves.bases)
    counts = np.empty((4, len(addresses) * offsets), np.int64)
    tags = np.empty((bases, -(-len(addresses) // moves.every) * offsets), np.int64)
    hashes = _bank_hashes(device.l1_tag_banks)
    packing = Packing()
    packing.add_array(counts)
    packing.add_array(tags)
    packing.add(*addresses.shape)
    packing.add_array(addresses)
    packing.add(offsets)
    packing.add_array(moves.offsets)
    packing.add(moves.pieces, device.sector_bytes, device.l1_line_bytes, device.tlb_page_bytes)
    packing.add(bases)
    packing.add_array(moves.bases)
    packing.add(moves.every, device.l1_tag_banks, len(hashes))
    packing.add_array(hashes)
    core().count_rows(packing.bytes())
    return RowCounts(counts[0], counts[1], counts[2], counts[3], tags)


def _count_rows(addresses: IntArray, moves: Moves, device: Device) -> RowCounts:
    lanes, sector = addresses.shape[1], device.sector_bytes
    moved = addresses[:, None, :] + moves.offsets[:, None]
    rows = np.sort(moved.reshape(-1, lanes), axis=1)
    pieces = np.arange(moves.pieces, dtype=np.int64) * sector
    touched = np.sort((rows[:, :, None] + pieces).reshape(len(rows), -1), axis=1)
    looked_up = np.sort(moved[:: moves.every].reshape(-1, lanes), axis=1)
    return RowCounts(
        _distinct(rows).sum(axis=1),
        _distinct(touched // sector).sum(axis=1),
        _distinct(rows // device.l1_line_bytes).sum(axis=1),
        _distinct(rows // device.tlb_page_bytes)[:, 1:].sum(axis=1),
        _tag_cycles(looked_up, moves.bases, device.l1_line_bytes, device.l1_tag_banks),
    )


def count_packets(counts: RowCounts, group: Written, device: Device) -> IntArray:
    """Count the packets from an SM to the L2 per warp instruction.

    A load sends one packet per line. A store sends one packet per sector, and one per line with its
    byte mask unless all its sectors are written as a whole. An atomic sends one packet per sector.
    """
    if group.serial:
        return counts.sectors
    # For example, 32 lanes access 32 consecutive floats: 1 line, 4 sectors of 32 bytes. A load
    # sends 1 packet and a store 4. A store of every second float writes 8 sectors in part, in 2
    # lines: 10.
    if group.direction is Direction.LOAD:
        return counts.lines
    whole = counts.places * group.item_bytes >= counts.sectors * device.sector_bytes
    packets: IntArray = counts.sectors + np.where(whole, 0, counts.lines)
    return packets


def pipe_cycles(active: BoolArray, item_bytes: int, device: Device) -> npt.NDArray[np.float64]:
    """Return the cycles of the width limit per warp; lanes lie along the last axis."""
    requested = active.sum(axis=-1) * item_bytes
    least = device.l1_access_cycles * (requested > 0)
    cycles: npt.NDArray[np.float64] = np.maximum(requested / device.l1_bytes_per_cycle, least)
    return cycles


def rows_cost(
    addresses: IntArray, active: BoolArray, group: Written, alignment: int, device: Device
) -> WarpCost:
    """Return the cost of warp instructions as they were executed; arrays have the shape (rows,
    lanes).

    The tag stage is evaluated for about 1024 of them, evenly spread, which represent the others.
    """
    item_bytes, every = group.item_bytes, max(1, len(addresses) // _MAX_ROWS)
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    filled = np.where(active, addresses, first)
    data = wavefronts(filled, active, item_bytes, device)
    width = pipe_cycles(active, item_bytes, device)
    bases = _base_shifts(alignment, -(-len(addresses) // every))
    pieces = -(-item_bytes // min(item_bytes, device.sector_bytes))
    counts = count_rows(filled, Moves(np.zeros(1, np.int64), pieces, bases, every), device)
    tags = counts.tags * device.l1_tag_cycles
    slowest = np.maximum(tags, np.maximum(data, width)[::every])
    count = float(len(addresses))
    return WarpCost(
        instructions=count,
        wavefronts=float(data.sum()),
        tag_cycles=float(tags.mean()) * count,
        cycles=float(slowest.mean()) * count,
        sectors=float(counts.sectors.sum()),
        packets=float(count_packets(counts, group, device).sum()),
        lanes=float(active.sum()),
        pages=float(counts.further_pages.sum()),
    )


def _base_shifts(alignment: int, rows: int) -> IntArray:
    """Return base addresses to average the tag hash over, since only their alignment is known.

    They are multiples of five alignments, so that they cycle through all four banks.
    """
    count = min(_MAX_BASES, max(1, _MAX_ROWS // rows))
    return 5 * alignment * np.arange(count, dtype=np.int64)


def _distinct(ordered: IntArray) -> BoolArray:
    """Mark the first occurrence of each value along sorted rows."""
    first = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    return first


def _fullest(bank: IntArray, counted: BoolArray, banks: int) -> IntArray:
    """Return the largest number of counted entries in one bank, per row."""
    rows = np.arange(len(bank), dtype=np.int64)[:, None] * banks
    flat = (rows + bank)[counted]
    counts = np.bincount(flat, minlength=len(bank) * banks)
    fullest: IntArray = counts.reshape(len(bank), banks).max(axis=1)
    return fullest


def shared_passes(
    addresses: IntArray,
    active: BoolArray,
    item_bytes: int,
    loads: bool,
    serial: bool,
    device: Device,
) -> npt.NDArray[np.float64]:
    """Return the wavefronts of shared memory per warp.

    Lanes of an atomic (``serial``) take turns, even on one address. Loads of 8 and 16 bytes pass in
    halves and quarters of a warp. Two of these merge into one pass if each lane and its neighbour,
    or each lane and its next neighbour but one, access the same address or nothing.
    """
    waves = wavefronts(addresses, active, item_bytes, device).astype(np.float64)
    merged = device.shared_merged_passes
    if loads and merged > 1 and item_bytes > device.shared_bank_bytes:
        alike = _pairs_agree(addresses, active)
        if alike.any():
            waves[alike] = wavefronts(addresses[alike], active[alike], item_bytes, device, merged)
    if not serial or not device.shared_atomic_cycles:
        return waves
    bank = addresses // device.shared_bank_bytes % device.shared_banks
    # For example, 32 lanes add to one address: 1 wavefront, and 31 further turns.
    turns = _fullest(bank, active, device.shared_banks)
    return waves + device.shared_atomic_cycles * np.maximum(turns - waves, 0)


def _pairs_agree(addresses: IntArray, active: BoolArray) -> BoolArray:
    """Return True per warp if all lanes n and n ^ 1, or all n and n ^ 2, access one address."""
    lanes = np.arange(addresses.shape[1])
    agree = np.zeros(len(addresses), dtype=bool)
    for distance in (1, 2):
        other = lanes ^ distance
        same = (addresses == addresses[:, other]) | ~(active & active[:, other])
        agree |= same.all(axis=1)
    return agree


def constant_passes(
    addresses: IntArray,
    active: BoolArray,
    item_bytes: int,
    loads: bool,
    serial: bool,
    device: Device,
) -> npt.NDArray[np.float64]:
    """Count the distinct addresses per warp; each is looked up once for all lanes that ask for it.

    Source: CUDA C++ Programming Guide, Constant Memory.
    """
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    ordered = np.sort(np.where(active, addresses, first), axis=1)
    looked_up = active.any(axis=1).astype(float)
    passes: npt.NDArray[np.float64] = _distinct(ordered).sum(axis=1) * looked_up
    return passes


def wavefronts(
    addresses: IntArray, active: BoolArray, item_bytes: int, device: Device, merged: int = 1
) -> IntArray:
    """Count the data-stage wavefronts per warp; ``addresses`` has the shape (warps, lanes).

    A pass has as many lanes as fill the banks, or ``merged`` times as many.
    """
    # For example, lanes at distances of 8 bytes access 4-byte items: lanes n and n + 16 use the
    # same of 32 banks, so the pass takes 2 wavefronts. At distances of 128 bytes all lanes use one
    # bank: 32.
    unit = max(item_bytes, device.shared_bank_bytes)
    banks = max(1, device.shared_banks * device.shared_bank_bytes // unit)
    lanes = next(n for n in range(banks * merged, 0, -1) if addresses.shape[1] % n == 0)
    count = _wavefronts_compiled if available() else _wavefronts
    return count(addresses, active, unit, banks, lanes)


def _wavefronts_compiled(
    addresses: IntArray, active: BoolArray, unit: int, banks: int, lanes: int
) -> IntArray:
    passes = np.empty(len(addresses), dtype=np.int64)
    packing = Packing()
    packing.add_array(passes)
    packing.add(*addresses.shape, lanes, unit, banks)
    packing.add_array(addresses)
    packing.add_array(active, np.bool_)
    core().count_wavefronts(packing.bytes())
    return passes


def _wavefronts(
    addresses: IntArray, active: BoolArray, unit: int, banks: int, lanes: int
) -> IntArray:
    items, lit = (addresses // unit).reshape(-1, lanes), active.reshape(-1, lanes)
    if not lit.all():
        items = np.where(lit, items, np.take_along_axis(items, lit.argmax(axis=1)[:, None], axis=1))
    items = np.sort(items, axis=1)
    fullest = _fullest(items % banks, _distinct(items), banks) * lit.any(axis=1)
    passes: IntArray = fullest.reshape(len(addresses), -1).sum(axis=1)
    return passes


def _tag_cycles(rows: IntArray, shifts: IntArray, line: int, banks: int) -> IntArray:
    """Return the tag-stage cycles per base address and warp; addresses ascend along ``rows``."""
    cycles: IntArray = np.empty((len(shifts), len(rows)), dtype=np.int64)
    for rest in distinct(shifts % line):  # most base addresses have the same offset in their line
        alike = shifts % line == rest
        whole = shifts[alike] // line
        lines = (rows + rest) // line
        first = _distinct(lines)
        hashes = _bank_hashes(banks)
        bank = hashes[lines[first] + whole[:, None] & len(hashes) - 1]
        row = first.nonzero()[0] + len(rows) * np.arange(len(whole))[:, None]
        counts = np.bincount(
            (row * banks + bank).ravel(), minlength=whole.size * rows.shape[0] * banks
        )
        cycles[alike] = counts.reshape(len(whole), len(rows), banks).max(axis=2)
    return cycles


@lru_cache(maxsize=16)
def _bank_hashes(banks: int) -> IntArray:
    """Return the tag bank of each line by the low bits of its number.

    The bank is the exclusive or of the digits of the number to the base of the number of banks.
    """
    # For example, with 4 banks line 27 = 0b01_10_11 lies in bank 1 ^ 2 ^ 3 = 0.
    digits = max(1, (banks - 1).bit_length())
    places = range(0, _HASH_BITS, digits)
    lines = np.arange(1 << places[-1] + digits, dtype=np.int64)
    hashed = np.zeros_like(lines)
    for digit in places:
        hashed ^= lines >> digit
    return hashed % banks
