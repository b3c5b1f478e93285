"""What one warp instruction costs the L1 cache: wavefronts, tag cycles, sectors (Warpspeed §4.2).

Rules, fitted to hardware counters of 144 access patterns on A100
(see ``docs/explanation/volumes.md``):

* *data stage*: passes over all banks of the data store, which is that of shared memory (32 banks of
  4 bytes: a warp of 4-byte items in one pass, of 8-byte items in two); each pass with an unmasked
  lane takes as many wavefronts as its fullest bank has distinct items;
* *tag stage*: a few banks, the bank of a line being the XOR of the digits of its number (of 2 bits
  for four banks); as many cycles as the fullest bank has distinct lines;
* *width*: bytes requested over the pipe's width, at least the pipe's cycles for one access.

The paper's rule that addresses more than 1024 B apart do not pair is the tag stage's hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, Protocol

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
_MAX_ROWS = 1024  # warps that are evaluated; of more, some stand for the others
_MAX_BASES = 16  # base addresses that the tag hash is averaged over
_MAX_ITERATIONS = 24  # of the loops around an access, evenly spread
_FEWEST_BLOCKS = 64  # of each class, where blocks run loops more or less often
_CANDIDATES = 512  # of these, where some threads leave the loops before others
_MAX_PIECES = 4096  # of boxes that end with their tensor


@dataclass(frozen=True, slots=True)
class WarpCost:
    """Totals over the whole launch for one access group.

    ``instructions``: warp instructions executed; ``wavefronts``: data stage; ``cycles``: the
    slowest of the stages; ``sectors``: distinct sectors per warp instruction, summed; ``packets``:
    of their way to the L2 (:func:`count_packets`); ``lanes``: those that take part, summed;
    ``pages``: of memory that their lanes lie in, beyond one for each instruction.
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
        """The sum, the other one weighted."""
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
    """What tells how an access goes to the L2."""

    @property
    def direction(self) -> Direction: ...
    @property
    def item_bytes(self) -> int: ...
    @property
    def serial(self) -> bool: ...


def warp_cost(
    group: AccessGroup, blocks: Sequence[Representative], launch: Launch, device: Device
) -> WarpCost:
    """Cost of the group's instructions over all warps of the launch."""
    warps = -(-launch.threads_per_block // device.warp_size)
    limit = max(1, _MAX_ROWS // (warps * len(group.offsets)))
    if _leaves_early(group):  # blocks differ in their iterations
        limit = max(limit, _FEWEST_BLOCKS)
    chosen = _choose_blocks(blocks, limit)
    lanes = _cost_lanes(group, [b.block for b in chosen], launch, device.warp_size)
    weights = np.array([b.weight for b in chosen]) * lanes.weight
    counts = lanes.some.sum(axis=1)
    total = WarpCost()
    for count in distinct(counts[counts > 0]):  # blocks with as many warps have arrays in common
        alike = counts == count
        shape = (int(alike.sum()), int(count), lanes.addresses.shape[2])
        addresses = lanes.addresses[alike][lanes.some[alike]].reshape(shape)
        active = lanes.active[alike][lanes.some[alike]].reshape(shape)
        total = total.plus(_cost_of_blocks(group, addresses, active, weights[alike], device))
    return total


Passes = Callable[[IntArray, BoolArray, int, bool, bool, Device], npt.NDArray[np.float64]]
"""Per warp, from addresses and active lanes of shape (warps, lanes), bytes of an item, whether it
loads, and whether the lanes of an atomic take turns."""


def on_chip_cost(group: AccessGroup, passes: Passes, launch: Launch, device: Device) -> WarpCost:
    """Cost of instructions on shared or constant memory over the launch.

    A block in the middle stands for all.
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
    """A block that no mask cuts, where there is one."""
    x, y, z = (-(-e // b) // 2 for e, b in zip(launch.extent, launch.block, strict=True))
    return (x, y, z)


def _choose_blocks(blocks: Sequence[Representative], limit: int) -> list[Representative]:
    """At most ``limit`` blocks of every class by mask and guards, which take over the class's
    weight."""
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
    """Addresses less the offsets, and unmasked lanes, both of shape (blocks, warps, lanes).

    ``some``: the warps with an unmasked lane; its address stands in for the masked ones'. Every
    iteration of the loops around the group has warps of its own; where they are too many some
    stand for ``weight`` each, by block.
    """

    addresses: IntArray
    active: BoolArray
    some: BoolArray
    weight: npt.NDArray[np.float64]


def _cost_lanes(
    group: AccessGroup, blocks: Sequence[tuple[int, ...]], launch: Launch, warp_size: int
) -> LaneAddresses:
    """The lanes that the cost of a group is counted from: of bulk copies only the threads that
    issue them, each as a warp of its own. A warp issues a copy once, whichever of its threads are
    there; what differs from thread to thread is issued for one after the other."""
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
    """What the lanes of some blocks access; ``first``: in so many iterations from the first one on,
    not in some that are spread over all; ``threads``: only these of a block, whole warps."""
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
    """Coordinates of ``threads`` [n, 3] of blocks, that broadcast to (blocks, iterations, n)."""
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
    """Addresses less the offsets, and ``active`` narrowed by what guards the group."""
    for symbol, (low, high) in group.ranges:
        active = active & (values[symbol] >= low) & (values[symbol] <= high)
    address, *conditions = group.forms(values)
    for condition in conditions:
        active = active & (condition != 0)
    return address, active


def _is_clipped(group: AccessGroup) -> bool:
    """Whether boxes of bulk copies end with their tensor, so that every piece counts."""
    loops = frozenset(group.loops)
    return group.bulk and any(loops.intersection(c.symbols()) for c in group.conditions)


def _iterations(
    group: AccessGroup, blocks: Sequence[tuple[int, ...]], launch: Launch, first: int
) -> tuple[dict[Counter, IntArray], npt.NDArray[np.float64]]:
    """Loop counters of the iterations that are looked at, of shape (blocks or 1, iterations), and
    how many each stands for."""
    if not group.loops:
        return {}, np.ones(1)
    total = prod(_counts(group))
    picked = min(total, first or (_MAX_PIECES if _is_clipped(group) else _MAX_ITERATIONS))
    index, weight = np.arange(picked, dtype=np.int64)[None, :], np.array([total / picked])
    if picked < total and not first:
        if _leaves_early(group):
            index, weight = _active_iterations(group, blocks, launch, total, picked)
        else:
            index = (2 * index + 1) * total // (2 * picked)
    return _counters(group, index), weight


def _leaves_early(group: AccessGroup) -> bool:
    """Tell a group some of whose threads leave the loops around it before others."""
    counters = frozenset(group.loops)
    return any(counters.intersection(c.symbols()) for c in group.conditions)


def _active_iterations(
    group: AccessGroup, blocks: Sequence[tuple[int, ...]], launch: Launch, total: int, picked: int
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Iterations of each block in which a thread at a corner or in the middle takes part, where
    some leave the loops early: those of one block are others than those of the next."""
    count = min(total, _CANDIDATES)
    candidates = (2 * np.arange(count, dtype=np.int64) + 1) * total // (2 * count)
    threads = np.array(list(product(*(sorted({0, n // 2, n - 1}) for n in launch.block))))
    counters = _counters(group, candidates[None, :])
    values: dict[Name, IntArray] = {s: v[:, :, None] for s, v in counters.items()}
    values |= _coordinates(blocks, threads, launch)
    everyone = np.ones((len(blocks), count, len(threads)), np.bool_)
    active = _apply_guards(group, values, everyone)[1]
    some = np.asarray(active.any(axis=2))
    some |= ~np.asarray(some.any(axis=1, keepdims=True))  # threads elsewhere may
    number = some.sum(axis=1)
    ordered = np.argsort(~some, axis=1, kind="stable")
    places = (2 * np.arange(picked) + 1) * number[:, None] // (2 * picked)
    chosen = candidates[np.take_along_axis(ordered, places, axis=1)]
    return chosen, number * (total / count / picked)


def _counts(group: AccessGroup) -> list[int]:
    """Iterations of each loop around a group."""
    ranges = dict(group.ranges)
    return [ranges[s][1] - ranges[s][0] + 1 for s in group.loops]


def _counters(group: AccessGroup, index: IntArray) -> dict[Counter, IntArray]:
    """Values of the loops' counters in iterations that are numbered through all loops."""
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
    """The cost of blocks with a weight each; arrays have the shape (blocks, warps, lanes)."""
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
    rows = np.sort((addresses[:, :, None] + offsets[:, None]).reshape(-1, lanes), axis=1)
    sectors = _distinct(rows // device.sector_bytes)
    packets = count_packets(rows, sectors.sum(axis=1), group, device)
    shifts = _base_shifts(group.alignment, kept * len(offsets))
    looked_up = tag_cycles(rows, shifts, device).reshape(len(shifts), blocks, kept, len(offsets))
    tags = looked_up * device.l1_tag_cycles
    slowest = np.maximum(tags, np.maximum(data, width))
    scaled = weights * (warps / kept)

    def total(counts: npt.NDArray[Any]) -> float:
        return float(counts.reshape(blocks, -1).sum(axis=1) @ scaled)

    return WarpCost(
        instructions=float(weights.sum()) * warps * len(offsets),
        wavefronts=total(data) * len(offsets),
        tag_cycles=total(tags.sum(axis=0)) / len(shifts),
        cycles=total(slowest.sum(axis=0)) / len(shifts),
        sectors=total(sectors),
        packets=total(packets),
        lanes=total(active.sum(axis=2)) * len(offsets),
        pages=total(_further_pages(rows, device)),
    )


def count_packets(rows: IntArray, sectors: IntArray, group: Written, device: Device) -> IntArray:
    """Packets from an SM to the L2 for each warp instruction, addresses sorted along ``rows``.

    A load asks for each line. A store sends each sector, and for each line which bytes of it count,
    unless its sectors are written as a whole. An atomic sends each sector.
    """
    if group.serial:
        return sectors
    lines: IntArray = _distinct(rows // device.l1_line_bytes).sum(axis=1)
    if group.direction is Direction.LOAD:
        return lines
    whole = _distinct(rows).sum(axis=1) * group.item_bytes >= sectors * device.sector_bytes
    packets: IntArray = sectors + np.where(whole, 0, lines)
    return packets


def _further_pages(rows: IntArray, device: Device) -> IntArray:
    """Pages of each warp instruction but the first, addresses sorted along ``rows``: lanes that are
    3 MiB apart lie in 32 of 2 MiB, those of a row of floats in one."""
    further: IntArray = _distinct(rows // device.tlb_page_bytes)[:, 1:].sum(axis=1)
    return further


def pipe_cycles(active: BoolArray, item_bytes: int, device: Device) -> npt.NDArray[np.float64]:
    """Cycles of the width limit per warp; arrays have the lanes along their last axis."""
    requested = active.sum(axis=-1) * item_bytes
    least = device.l1_access_cycles * (requested > 0)
    cycles: npt.NDArray[np.float64] = np.maximum(requested / device.l1_bytes_per_cycle, least)
    return cycles


def rows_cost(
    addresses: IntArray, active: BoolArray, group: Written, alignment: int, device: Device
) -> WarpCost:
    """The cost of warp instructions as they were executed; arrays have the shape (rows, lanes).

    The tag stage is evaluated for about 1024 of them, evenly spread, which stand for the others.
    """
    item_bytes = group.item_bytes
    kept = slice(None, None, max(1, len(addresses) // _MAX_ROWS))
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    filled = np.where(active, addresses, first)
    data = wavefronts(filled, active, item_bytes, device)
    width = pipe_cycles(active, item_bytes, device)
    ordered = np.sort(filled, axis=1)
    shifts = _base_shifts(alignment, len(ordered[kept]))
    tags = tag_cycles(ordered[kept], shifts, device) * device.l1_tag_cycles
    slowest = np.maximum(tags, np.maximum(data, width)[kept])
    pieces = np.arange(0, item_bytes, min(item_bytes, device.sector_bytes), dtype=np.int64)
    touched = np.sort((ordered[:, :, None] + pieces).reshape(len(ordered), -1), axis=1)
    sectors = _distinct(touched // device.sector_bytes).sum(axis=1)
    count = float(len(addresses))
    return WarpCost(
        instructions=count,
        wavefronts=float(data.sum()),
        tag_cycles=float(tags.mean()) * count,
        cycles=float(slowest.mean()) * count,
        sectors=float(sectors.sum()),
        packets=float(count_packets(ordered, sectors, group, device).sum()),
        lanes=float(active.sum()),
        pages=float(_further_pages(ordered, device).sum()),
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


def shared_passes(
    addresses: IntArray,
    active: BoolArray,
    item_bytes: int,
    loads: bool,
    serial: bool,
    device: Device,
) -> npt.NDArray[np.float64]:
    """Wavefronts of shared memory per warp; lanes of an atomic take turns, on one address, too.

    Loads of 8 and 16 bytes pass in halves and quarters of a warp. Two of these are one pass if each
    lane's neighbour, or each lane's next but one, wants the same or nothing.
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
    turns = _fullest(bank, active, device.shared_banks)
    return waves + device.shared_atomic_cycles * np.maximum(turns - waves, 0)


def _pairs_agree(addresses: IntArray, active: BoolArray) -> BoolArray:
    """Per warp: whether all lanes n and n ^ 1, or all lanes n and n ^ 2, are at one address."""
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
    """Distinct addresses per warp: each of them is looked up by itself, for all lanes that ask for
    it (CUDA C++ Programming Guide, Constant Memory)."""
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    ordered = np.sort(np.where(active, addresses, first), axis=1)
    looked_up = active.any(axis=1).astype(float)
    passes: npt.NDArray[np.float64] = _distinct(ordered).sum(axis=1) * looked_up
    return passes


def wavefronts(
    addresses: IntArray, active: BoolArray, item_bytes: int, device: Device, merged: int = 1
) -> IntArray:
    """Data-stage wavefronts per warp; ``addresses`` of shape (warps, lanes).

    A pass is of as many lanes as fill the banks, or of ``merged`` times as many.
    """
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


def tag_cycles(rows: IntArray, shifts: IntArray, device: Device) -> IntArray:
    """Tag-stage cycles per base address and warp; addresses sorted along ``rows``."""
    count = _tag_cycles_compiled if available() else _tag_cycles
    return count(rows, shifts, device.l1_line_bytes, device.l1_tag_banks)


def _tag_cycles_compiled(rows: IntArray, shifts: IntArray, line: int, banks: int) -> IntArray:
    cycles = np.empty((len(shifts), len(rows)), dtype=np.int64)
    hashes = _bank_hashes(banks)
    packing = Packing()
    packing.add_array(cycles)
    packing.add(*rows.shape, line)
    packing.add_array(rows)
    packing.add(len(shifts))
    packing.add_array(shifts)
    packing.add(banks, len(hashes))
    packing.add_array(hashes)
    core().count_tag_cycles(packing.bytes())
    return cycles


def _tag_cycles(rows: IntArray, shifts: IntArray, line: int, banks: int) -> IntArray:
    cycles: IntArray = np.empty((len(shifts), len(rows)), dtype=np.int64)
    for rest in distinct(shifts % line):  # where lines begin: the same for most base addresses
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
    """The tag bank of each line, by the low bits of its number: the digits to the base of the
    number of banks, exclusive-ored."""
    digits = max(1, (banks - 1).bit_length())
    places = range(0, _HASH_BITS, digits)
    lines = np.arange(1 << places[-1] + digits, dtype=np.int64)
    hashed = np.zeros_like(lines)
    for digit in places:
        hashed ^= lines >> digit
    return hashed % banks
