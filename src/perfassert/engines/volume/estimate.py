"""Entry point of the volume engine: kernel, launch and device in, volumes out (Warpspeed §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perfassert.engines.volume.access_shapes import access_shapes
from perfassert.engines.volume.binding import space_groups
from perfassert.engines.volume.compulsory import compulsory_bytes
from perfassert.engines.volume.contention import NO_CONTENTION, Contention, find_contention
from perfassert.engines.volume.dram import dram_volumes, duplicated_bytes
from perfassert.engines.volume.executed import (
    executed_groups,
    executed_on_chip_cost,
)
from perfassert.engines.volume.executed_waves import with_executed
from perfassert.engines.volume.fetch_and_spill import (
    INSTRUCTIONS,
    SPILLS,
    Spills,
    fetched_bytes,
    spill_volumes,
)
from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.launch_groups import LaunchGroups, group_launch
from perfassert.engines.volume.on_chip import (
    AccessCost,
    FieldBlocks,
    executed_blocks,
    field_blocks,
    l1_behaviour,
    note,
)
from perfassert.engines.volume.reuse import AnyGroup
from perfassert.engines.volume.warps import Passes, constant_passes, on_chip_cost, shared_passes
from perfassert.engines.volume.waves import waves
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.access import Direction
from perfassert.kernel.description import Description
from perfassert.kernel.launch import Launch
from perfassert.prediction.volumes import Volume, Volumes
from perfassert.source import Assumption

_STREAMED_BELOW = 1.05
"""Requests per sector and block below which a field counts as streamed."""


@dataclass(frozen=True, slots=True)
class VolumeEstimate:
    """Volumes of a launch, and the quantities that they are computed from.

    ``diagnostics`` holds plain numbers by name. ``accesses`` holds costs per warp instruction, by
    number of the access. ``requested`` holds the bytes that loads ask for, by field. ``past_l1``
    holds the part of them that is read from the L2 even if the L1 holds it. ``groups`` holds the
    accesses, grouped if they differ by a constant. ``assumptions`` lists what was sampled.
    ``contention`` is that of atomics in global memory. ``stack_miss`` is the fraction of loads from
    local memory that miss the L1. ``per_activation`` holds the bytes that each activation of a DRAM
    row moves, by field and direction.
    """

    volumes: Volumes
    diagnostics: Mapping[str, float]
    accesses: Mapping[int, AccessCost]
    requested: Mapping[str, float]
    past_l1: Mapping[str, float]
    groups: tuple[AnyGroup, ...]
    assumptions: tuple[Assumption, ...] = ()
    contention: Contention = NO_CONTENTION
    stack_miss: float = 0.0
    per_activation: Mapping[tuple[str, Direction], float] = field(default_factory=dict)


def estimate_volumes(
    kernel: Description,
    launch: Launch,
    device: Device,
    occupancy: Occupancy,
    started: Launch | None = None,
) -> VolumeEstimate:
    """Estimate the volumes of the whole launch at each memory level.

    ``started``: the launch as it is started, if blocks loop over the grid and ``launch`` is the
    launch that these loops amount to. Shared memory, spills and instructions are counted over
    ``started``.

    Raises :class:`~perfassert.errors.AddressExpressionError` if an expression does not fit the
    launch.
    """
    groups = group_launch(kernel, launch, started or launch, device, occupancy)
    accesses: dict[int, AccessCost] = {}
    on_chip = {n: field_blocks(g, launch, device, accesses) for n, g in groups.fields.items()}
    on_chip |= {n: executed_blocks(g, device, accesses) for n, g in groups.executed.items()}
    in_shared = _space_groups(groups, "shared")
    shared = _on_chip(groups, in_shared, accesses, shared_passes)
    _on_chip(groups, _space_groups(groups, "constant"), accesses, constant_passes)
    l1 = l1_behaviour(groups, on_chip)
    evaluated = with_executed(waves(groups), groups)
    dram = dram_volumes(groups, on_chip, evaluated, l1.miss)
    compulsory = compulsory_bytes(groups, evaluated)
    spills = spill_volumes(groups)
    beside = _volumes_without_field(groups, spills)
    loaded = _l2_loads(on_chip, l1.miss)
    make = _Maker(launch.threads, launch.threads * kernel.updates_per_thread)
    volumes = Volumes(
        l1_wavefronts=make(_per_field(on_chip, lambda f: _split(f, "wavefronts")), ""),
        l1_cycles=make(_per_field(on_chip, lambda f: _split(f, "cycles")), ""),
        shared_wavefronts=make({"shared": shared} if shared else {}, ""),
        l2_load=make(loaded | beside["l2_load"], "B", ("compulsory", "capacity")),
        l2_store=make(_l2_stores(on_chip, device) | beside["l2_store"], "B"),
        dram_load=make({**dram.load, **beside["dram_load"]}, "B", LOAD_PARTS),
        dram_store=make({**dram.store, **beside["dram_store"]}, "B"),
    )
    for tied in (t for own in groups.fields.values() for g in own for t in g.tied):
        tied.forget_blocks()
    all_groups: list[AnyGroup] = [g for own in groups.fields.values() for g in own]
    all_groups += [g for own in groups.executed.values() for g in own]
    requested = {name: f.load.sectors * device.sector_bytes for name, f in on_chip.items()}
    past_l1 = {name: f.past_l1 for name, f in on_chip.items()}
    diagnostics = {
        "l1_oversubscription": l1.oversubscription,
        **_counts_on_chip(on_chip),
        "requested_bytes": sum(requested.values()),
        "streamed_share": _streamed_share(on_chip),
        "l2_duplicated_bytes": duplicated_bytes(groups, on_chip, evaluated),
        **dram.diagnostics,
        **{f"compulsory_{d.value}_bytes": b for d, b in compulsory.items()},
        **access_shapes(all_groups, in_shared, accesses, device),
    }
    assumptions = tuple(Assumption(text) for f in on_chip.values() for text in f.notes)
    contention = find_contention(groups)
    if contention.operations:
        diagnostics["atomics_on_one_address"] = contention.operations
    return VolumeEstimate(
        volumes,
        diagnostics,
        accesses,
        requested,
        past_l1,
        tuple(all_groups),
        assumptions,
        contention,
        spills.missed,
        dram.per_activation,
    )


def _l2_loads(
    on_chip: Mapping[str, FieldBlocks], miss: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return the bytes from L2 to L1 by field; ``miss`` is the miss rate of repeated requests."""
    loading = {name: f for name, f in on_chip.items() if f.load.instructions}
    return {
        name: {"compulsory": f.compulsory, "capacity": f.redundant * miss[name]}
        for name, f in loading.items()
    }


def _l2_stores(on_chip: Mapping[str, FieldBlocks], device: Device) -> dict[str, dict[str, float]]:
    storing = {name: f for name, f in on_chip.items() if f.store.sectors or f.store.instructions}
    return _per_field(storing, lambda f: {"written_through": f.store.sectors * device.sector_bytes})


def _counts_on_chip(on_chip: Mapping[str, FieldBlocks]) -> dict[str, float]:
    both = [cost for f in on_chip.values() for cost in (f.load, f.store)]
    return {
        "l1_tag_cycles": sum(cost.tag_cycles for cost in both),
        "warp_memory_instructions": sum(cost.instructions for cost in both),
    }


def _volumes_without_field(
    groups: LaunchGroups, spills: Spills
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the volumes of spilled registers and of code, which belong to no field."""
    moved = {
        "l2_load": spills.load,
        "l2_store": spills.store,
        "dram_load": spills.reload,
        "dram_store": spills.evicted,
    }
    beside = {k: {SPILLS: {"spills": v}} if v else {} for k, v in moved.items()}
    code = fetched_bytes(groups)
    if code:
        beside["l2_load"][INSTRUCTIONS] = {"instructions": code}
    return beside


def _space_groups(groups: LaunchGroups, space: str) -> list[AnyGroup]:
    """Return the accesses to a space other than global memory, such as shared memory."""
    return [
        *space_groups(groups.kernel, groups.started, space),
        *executed_groups(groups.kernel, space),
    ]


def _on_chip(
    launch_groups: LaunchGroups,
    space_groups: Sequence[AnyGroup],
    accesses: dict[int, AccessCost],
    passes: Passes,
) -> dict[str, float]:
    """Return wavefronts of shared memory, or passes of the constant cache, by direction."""
    launch, device = launch_groups.started, launch_groups.device
    parts: dict[str, float] = {}
    for group in space_groups:
        if isinstance(group, AccessGroup):
            cost = on_chip_cost(group, passes, launch, device)
        else:
            cost = executed_on_chip_cost(group, passes, device)
        note(accesses, group.members, cost)
        name = "loads" if group.direction is Direction.LOAD else "stores"
        parts[name] = parts.get(name, 0.0) + cost.wavefronts
    return parts


LOAD_PARTS = ("compulsory", "overlap_y", "overlap_z", "capacity", "store_fill")


@dataclass(frozen=True, slots=True)
class _Maker:
    threads: int
    updates: int

    def __call__(
        self,
        fields: Mapping[str, Mapping[str, float]],
        unit: str,
        keys: Sequence[str] = (),
    ) -> Volume:
        """Return a volume from parts per field; parts in ``keys`` that no field has are 0."""
        parts = dict.fromkeys(keys, 0.0)
        for own in fields.values():
            for key, value in own.items():
                parts[key] = parts.get(key, 0.0) + value
        each = {
            name: Volume.make(own, unit, self.threads, self.updates) for name, own in fields.items()
        }
        return Volume.make(parts, unit, self.threads, self.updates, each)


def _per_field(
    on_chip: Mapping[str, FieldBlocks], parts: Callable[[FieldBlocks], dict[str, float]]
) -> dict[str, dict[str, float]]:
    return {name: parts(f) for name, f in on_chip.items()}


def _split(field: FieldBlocks, quantity: str) -> dict[str, float]:
    both = {"loads": getattr(field.load, quantity), "stores": getattr(field.store, quantity)}
    return {key: value for key, value in both.items() if value}


def _streamed_share(on_chip: Mapping[str, FieldBlocks]) -> float:
    """Return the fraction of the L2-to-L1 footprint in fields that a block uses once."""
    # For example, a block asks for 1,000 bytes of ``a`` once, and for 500 bytes of ``b`` twice:
    # ``a`` is streamed, and the fraction is 1000 / 1500 = 2/3.
    total = sum(f.compulsory for f in on_chip.values())
    once = sum(
        f.compulsory
        for f in on_chip.values()
        if f.compulsory and (f.compulsory + f.redundant) < _STREAMED_BELOW * f.compulsory
    )
    return once / total if total else 0.0
