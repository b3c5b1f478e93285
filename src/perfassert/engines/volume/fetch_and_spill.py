"""Volumes of compiled code that belong to no field: spilled registers, and the code itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perfassert.engines.volume.binding import space_groups
from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.reuse import miss_share
from perfassert.engines.volume.warps import lane_addresses, middle_block
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import BodyItem, InstructionGraph, ItemKind
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import REGISTER_BYTES

SPILLS = "(spills)"
INSTRUCTIONS = "(instructions)"
"""Names of these volumes, which are listed with the fields; no kernel parameter is named so."""


@dataclass(frozen=True, slots=True)
class Spills:
    """Bytes that local memory moves.

    ``load`` and ``store`` cross between L1 and L2. ``reload`` and ``evicted`` are the parts of them
    that also cross between L2 and DRAM. ``missed`` is the fraction of loads that miss the L1.
    """

    load: float = 0.0
    store: float = 0.0
    reload: float = 0.0
    evicted: float = 0.0
    missed: float = 0.0


def spill_volumes(groups: LaunchGroups) -> Spills:
    """Compute the bytes that spills to local memory move over the launch.

    The blocks of an SM use the same stacks one after the other. Loads hit the L1 if all stacks fit
    into it. Nothing is evicted from the L2 if all stacks fit into it.
    """
    kernel, launch, device = groups.kernel, groups.started, groups.device
    moved = dict.fromkeys(Direction, 0.0)
    for group in space_groups(kernel, launch, "local"):
        moved[group.direction] += _sectors(group, launch, device) * device.sector_bytes
    blocks = min(groups.resident_blocks, launch.blocks)
    stacks = (kernel.spill_bytes or 0) * launch.threads_per_block * blocks
    own = groups.l1_bytes * min(device.compute_units, blocks)
    missed, evicted = miss_share(stacks / own), float(stacks > device.l2_bytes)
    lost = max(0.0, 1 - device.l2_bytes / stacks) if missed else 0.0
    load, store = moved[Direction.LOAD] * missed, moved[Direction.STORE]
    return Spills(load, store, load * lost, store * evicted, missed)


def _sectors(group: AccessGroup, launch: Launch, device: Device) -> float:
    """Count the sectors of the group's warp instructions, as if all blocks were the middle one."""
    lanes = lane_addresses(group, [middle_block(launch)], launch, device.warp_size)
    first = (lanes.addresses[lanes.some] + group.offsets[0]) // REGISTER_BYTES
    if not first.size:
        return 0.0
    # For example, word 3 of 32 threads lies in words 96 to 127 of the warp's stacks, 4 sectors of
    # 32 bytes.
    words = first[:, :, None] + np.arange(-(-group.item_bytes // REGISTER_BYTES), dtype=np.int64)
    lane = np.arange(device.warp_size, dtype=np.int64)[:, None]
    sectors = (words * device.warp_size + lane) * REGISTER_BYTES // device.sector_bytes
    lit = lanes.active[lanes.some].nonzero()
    warp = np.repeat(lit[0], words.shape[2])
    touched = int(np.unique(np.stack((warp, sectors[lit].ravel())), axis=1).shape[1])
    return touched * float(lanes.weight.mean()) * launch.blocks * len(group.offsets)


def fetched_bytes(groups: LaunchGroups) -> float:
    """Return the bytes of code that are fetched from the L2 over the launch.

    Code that fits into the instruction cache of an SM is fetched once and not counted. Otherwise
    each block fetches the missing part of the code once. A loop that does not fit is fetched again
    in each iteration.
    """
    kernel, launch, device = groups.kernel, groups.started, groups.device
    if not isinstance(kernel, BoundKernel):
        return 0.0
    per_block = sum(p.runs * p.missed * p.bytes for p in passes(kernel.graph, kernel, device))
    return per_block * device.instruction_fetch_share * launch.blocks


@dataclass(frozen=True, slots=True)
class Pass:
    """A piece of code that is executed in sequence and does not fit into the instruction cache.

    It is the body of ``loop``, or the code outside of all loops (-1), without inner loops that are
    passes themselves. ``runs``: executions of the pass per block. ``bytes``: size of the code.
    ``missed``: the fraction of the bytes that is fetched again in each run.
    """

    loop: int
    body: tuple[BodyItem, ...]
    runs: int
    bytes: float
    missed: float


def passes(graph: InstructionGraph, kernel: BoundKernel, device: Device) -> tuple[Pass, ...]:
    """Return the passes of a kernel's code; none if the code fits into the instruction cache."""
    if kernel.code_bytes <= device.instruction_cache_bytes:
        return ()
    each = kernel.code_bytes / max(1, len(set(instructions(kernel.graph, kernel.graph.body))))
    return tuple(_Passes(graph, each, device.instruction_cache_bytes).of(-1, graph.body, 1))


def instructions(graph: InstructionGraph, body: Sequence[BodyItem]) -> Iterator[int]:
    """Yield the instruction of each node in a body and in the loops of the body."""
    for item in body:
        if item.kind is ItemKind.NODE:
            yield graph.nodes[item.number].program
        else:
            yield from instructions(graph, graph.loops[item.number].body)


class _Passes:
    """Generator of the passes of a block whose warps execute the code together."""

    def __init__(self, graph: InstructionGraph, bytes_each: float, capacity: int) -> None:
        self.graph = graph
        self.capacity = capacity
        self.bytes_each = bytes_each

    def of(self, loop: int, body: tuple[BodyItem, ...], runs: int) -> Iterator[Pass]:
        """Yield the passes of a body that is executed ``runs`` times."""
        # For example, a cache holds 1,000 bytes. A loop of 10 iterations and 1,500 bytes in a
        # kernel of 2,000 bytes is a pass with 10 runs. The other 500 bytes are a pass with 1 run,
        # since the whole kernel does not fit either.
        own: list[BodyItem] = []
        for item in body:
            if item.kind is ItemKind.LOOP and self.size(inner := self.body(item)) > self.capacity:
                yield from self.of(item.number, inner, runs * self.graph.trips(item.number))
            else:
                own.append(item)
        missed = miss_share(self.size(body) / self.capacity)
        if missed:
            yield Pass(loop, tuple(own), runs, self.size(own), missed)

    def size(self, body: Sequence[BodyItem]) -> float:
        return len(set(instructions(self.graph, body))) * self.bytes_each

    def body(self, loop: BodyItem) -> tuple[BodyItem, ...]:
        return self.graph.loops[loop.number].body
