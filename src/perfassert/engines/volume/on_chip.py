"""Volumes between the SMs and the L1, and between the L1 and the L2 (Warpspeed §4.3, §4.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfassert.engines.volume.executed import (
    ExecutedGroup,
    block_footprint,
    executed_cost,
    sampling_notes,
    window_footprint,
)
from perfassert.engines.volume.footprint import block_steps, field_runs
from perfassert.engines.volume.groups import AccessGroup, of
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.representatives import Representative, alike, representatives
from perfassert.engines.volume.reuse import AnyGroup, Cache, CacheDemand, lost_bytes, touched_again
from perfassert.engines.volume.runs import Runs, shift_runs, size, to_granules
from perfassert.engines.volume.warps import WarpCost, warp_cost
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.launch import Launch


@dataclass(frozen=True, slots=True)
class FieldBlocks:
    """Volumes of one field between registers and L2 over the whole launch, in bytes.

    ``compulsory`` holds the bytes that each block asks for once, and all bytes of loads that bypass
    the L1. ``past_l1`` holds the bytes of the latter. ``redundant`` holds the bytes that the L1 is
    asked for again.
    """

    load: WarpCost
    store: WarpCost
    compulsory: float
    lines: float
    redundant: float
    past_l1: float = 0.0
    notes: tuple[str, ...] = ()
    asked: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    """Bytes that warps ask for, by the numbers of the accesses."""

    def loaded_bytes(self, miss: float) -> float:
        """Return the bytes from the L2 if the L1 misses this fraction of the repeated requests."""
        return self.compulsory + self.redundant * miss


@dataclass(frozen=True, slots=True)
class AccessCost:
    """Cost of one bound access per warp instruction.

    ``cycles`` are those of the L1 or shared pipe. ``packets`` go to the L2 if all sectors miss.
    ``lanes`` is the number of lanes that take part. ``pages`` counts pages beyond the first.
    ``executions`` is the number of warp instructions of the launch.
    """

    cycles: float
    wavefronts: float
    sectors: float
    packets: float
    lanes: float
    pages: float
    executions: float = 0.0


def note(accesses: dict[int, AccessCost], members: Iterable[int], cost: WarpCost) -> None:
    """Store the cost of a group's warp instructions for each of its members."""
    members = tuple(members)
    count = cost.instructions or 1.0
    for member in members:
        accesses[member] = AccessCost(
            cost.cycles / count,
            cost.wavefronts / count,
            cost.sectors / count,
            cost.packets / count,
            cost.lanes / count,
            cost.pages / count,
            cost.instructions / len(members),
        )


def field_blocks(
    groups: Sequence[AccessGroup], launch: Launch, device: Device, accesses: dict[int, AccessCost]
) -> FieldBlocks:
    """Return the volumes of one field; the cost of each access is stored in ``accesses``."""
    costs = {d: WarpCost() for d in Direction}
    copied = past_l1 = 0.0  # loaded bytes, repeated ones included: bulk copies; loads past the L1
    asked: dict[tuple[int, ...], float] = {}
    for group in groups:
        blocks = representatives([group], launch, device.l1_line_bytes)
        cost = warp_cost(group, blocks, launch, device)
        if group.bulk:
            cost = replace(cost, wavefronts=0.0, tag_cycles=0.0, cycles=0.0)
            copied += cost.sectors * device.sector_bytes * (group.direction is Direction.LOAD)
        elif group.past_l1 or group.atomic:
            past_l1 += cost.sectors * device.sector_bytes * (group.direction is Direction.LOAD)
        note(accesses, group.members, cost)
        costs[group.direction] = costs[group.direction].plus(cost)
        if group.atomic and group.direction is Direction.LOAD:
            costs[Direction.STORE] = costs[Direction.STORE].plus(_operands(cost))
        asked[group.members] = cost.sectors * device.sector_bytes
    loads = _loads(groups)
    compulsory, lines = _footprints(loads, launch, device) if loads else (0.0, 0.0)
    compulsory += copied + past_l1
    requested = costs[Direction.LOAD].sectors * device.sector_bytes
    return FieldBlocks(
        costs[Direction.LOAD],
        costs[Direction.STORE],
        compulsory,
        lines,
        max(0.0, requested - compulsory),
        past_l1,
        asked=asked,
    )


def executed_blocks(
    groups: Sequence[ExecutedGroup], device: Device, accesses: dict[int, AccessCost]
) -> FieldBlocks:
    """Return the volumes of one field whose addresses were executed."""
    costs = {d: WarpCost() for d in Direction}
    past_l1 = 0.0
    asked: dict[tuple[int, ...], float] = {}
    for group in groups:
        cost = executed_cost(group, device)
        if group.direction is Direction.LOAD and (group.past_l1 or group.atomic):
            past_l1 += cost.sectors * device.sector_bytes
        asked[group.members] = cost.sectors * device.sector_bytes
        note(accesses, group.members, cost)
        costs[group.direction] = costs[group.direction].plus(cost)
        if group.atomic and group.direction is Direction.LOAD:
            costs[Direction.STORE] = costs[Direction.STORE].plus(_operands(cost))
    loads = _executed_loads(groups)
    unique = block_footprint(loads, device.sector_bytes)
    lines = block_footprint(loads, device.l1_line_bytes)
    requested = costs[Direction.LOAD].sectors * device.sector_bytes
    return FieldBlocks(
        costs[Direction.LOAD],
        costs[Direction.STORE],
        unique.total + past_l1,
        lines.total,
        max(0.0, requested - (unique.total + past_l1)),
        past_l1,
        tuple(sampling_notes(groups, unique)),
        asked,
    )


def _operands(cost: WarpCost) -> WarpCost:
    """Return the cost of the operands that an atomic sends to the L2, in addition to its result."""
    return WarpCost(sectors=cost.sectors)


def _footprints(
    loads: Sequence[AccessGroup], launch: Launch, device: Device
) -> tuple[float, float]:
    """Return the bytes in sectors and in lines that each block touches, summed over the blocks.

    Blocks of one affine group differ by a shift only, so one footprint serves all blocks that are
    cut by the mask along the same axes.
    """
    compulsory = lines = 0.0
    same_shape: dict[tuple[bool, ...], tuple[Representative, Runs]] = {}
    same = alike(loads, launch)
    for block in representatives(loads, launch, device.l1_line_bytes):
        if same and block.partial in same_shape:
            first, runs = same_shape[block.partial]
            runs = shift_runs(runs, _distance(loads[0], first, block, launch))
        else:
            runs = field_runs(loads, [block.box], launch, device.sector_bytes)
            same_shape[block.partial] = (block, runs)
        sectors = size(to_granules(runs, device.sector_bytes)) * device.sector_bytes
        compulsory += block.weight * sectors
        lines += block.weight * size(to_granules(runs, device.l1_line_bytes)) * device.l1_line_bytes
    return compulsory, lines


def _distance(group: AccessGroup, a: Representative, b: Representative, launch: Launch) -> int:
    """Return the bytes from the footprint of block ``a`` to that of block ``b``."""
    steps = block_steps(group, launch)
    return sum(s * (j - i) for s, i, j in zip(steps, a.block, b.block, strict=True))


@dataclass(frozen=True, slots=True)
class L1:
    """Behaviour of an SM's L1 for the loads of a block.

    ``oversubscription``: bytes in allocated lines, divided by the L1 without shared memory.
    ``miss``: by field, the fraction of repeated requests that miss.
    """

    oversubscription: float
    miss: Mapping[str, float]


def l1_behaviour(groups: LaunchGroups, on_chip: Mapping[str, FieldBlocks]) -> L1:
    """Compute the fraction of the loads that miss the L1."""
    launch, device = groups.launch, groups.device
    capacity = groups.l1_bytes
    cache = Cache(device.curves["l1_load"], capacity)
    loads = {name: _loads(own) for name, own in groups.fields.items()}
    executed = {name: _executed_loads(own) for name, own in groups.executed.items()}

    def space_needed(loads: Sequence[AnyGroup]) -> tuple[float, CacheDemand]:
        executed = [g for g in loads if isinstance(g, ExecutedGroup)]
        bound = [g for g in loads if isinstance(g, AccessGroup)]
        sectors, lines = _footprints(bound, launch, device) if bound else (0.0, 0.0)
        if executed:
            sectors += window_footprint(executed, device.sector_bytes)
            lines += window_footprint(executed, device.l1_line_bytes)
        own = lines / launch.blocks
        return sectors, CacheDemand(own, own * groups.differing_blocks(bound))

    allocated = {name: f.lines / launch.blocks for name, f in on_chip.items()}
    shared = sum(
        lines * groups.differing_blocks(loads.get(name, ())) for name, lines in allocated.items()
    )
    whole = CacheDemand(sum(allocated.values()), shared)
    asked = {members: b for f in on_chip.values() for members, b in f.asked.items()}
    redundant = {name: f.redundant for name, f in on_chip.items()}
    lost = lost_bytes(
        redundant,
        sum(f.compulsory for f in on_chip.values()),
        cache,
        whole,
        touched_again(
            {**loads, **executed},
            asked,
            space_needed,
            Direction.LOAD,
            capacity,
            groups.share_of_instructions,
        ),
    )
    far = cache.lost_within(whole)
    misses = {n: min(1.0, lost[n] / again) if again else far for n, again in redundant.items()}
    return L1(cache.curve.oversubscription(whole.own, capacity), misses)


def _loads(groups: Sequence[AccessGroup]) -> list[AccessGroup]:
    """Return the loads that go through the L1."""
    return [g for g in of(Direction.LOAD, groups) if not (g.bulk or g.past_l1 or g.atomic)]


def _executed_loads(groups: Sequence[ExecutedGroup]) -> list[ExecutedGroup]:
    loads = (g for g in groups if g.direction is Direction.LOAD)
    return [g for g in loads if not (g.past_l1 or g.atomic)]
