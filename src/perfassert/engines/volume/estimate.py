"""The volume engine: description + launch + device → volumes (Warpspeed §4, whole)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfassert.engines.volume.binding import bind_groups, shared_groups
from perfassert.engines.volume.contention import on_one_address
from perfassert.engines.volume.executed import (
    ExecutedGroup,
    block_footprint,
    executed_cost,
    executed_groups,
    executed_shared_cost,
    said,
)
from perfassert.engines.volume.executed_waves import with_executed
from perfassert.engines.volume.fetch_and_spill import (
    INSTRUCTIONS,
    SPILLS,
    Spills,
    fetched,
    spilled,
)
from perfassert.engines.volume.footprint import block_steps, field_runs
from perfassert.engines.volume.groups import AccessGroup, of
from perfassert.engines.volume.representatives import Representative, alike, representatives
from perfassert.engines.volume.reuse import touched_again
from perfassert.engines.volume.runs import Runs, shifted, size, to_granules
from perfassert.engines.volume.warps import WarpCost, shared_cost, warp_cost
from perfassert.engines.volume.waves import FieldWave, Wave, waves
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.access import Direction
from perfassert.kernel.description import Description
from perfassert.kernel.launch import Launch
from perfassert.prediction.volumes import Volume, Volumes
from perfassert.source import Assumption

_STREAMED_BELOW = 1.05
"""A field that a block requests less than so many times per sector counts as streamed."""


@dataclass(frozen=True, slots=True)
class VolumeEstimate:
    """Volumes, and what they rest on (``diagnostics``: plain numbers by name).

    ``requested``: bytes that loads ask the L1 for, by field; ``together``: numbers of the accesses
    of each group, which differ by a constant; ``assumptions``: what of them was sampled;
    ``meeting``: atomic operations on the address of global memory that has most of them;
    ``stack_miss``: the share of loads from local memory that leave the L1.
    """

    volumes: Volumes
    diagnostics: Mapping[str, float]
    accesses: Mapping[int, AccessCost]
    requested: Mapping[str, float]
    together: tuple[tuple[int, ...], ...]
    assumptions: tuple[Assumption, ...] = ()
    meeting: float = 0.0
    stack_miss: float = 0.0


@dataclass(frozen=True, slots=True)
class AccessCost:
    """Of one bound access, per warp instruction: cycles of the L1 or shared pipe, wavefronts,
    sectors asked for, lanes that take part."""

    cycles: float
    wavefronts: float
    sectors: float
    lanes: float


@dataclass(frozen=True, slots=True)
class _FieldBlocks:
    """One field between registers and L2, over the whole launch, in bytes."""

    load: WarpCost
    store: WarpCost
    compulsory: float
    lines: float
    redundant: float
    told: tuple[str, ...] = ()
    asked: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    """What warps ask for, by the numbers of the accesses."""


def estimate_volumes(
    kernel: Description,
    launch: Launch,
    device: Device,
    occupancy: Occupancy,
    started: Launch | None = None,
) -> VolumeEstimate:
    """Volumes of the whole launch on every level.

    ``started``: the launch as it is started, where ``launch`` is what its loops over the grid
    amount to; shared memory, spills and instructions are counted over it.

    Raises :class:`~perfassert.errors.AddressExpressionError` where an expression does not fit the
    launch.
    """
    fields = _by_field(bind_groups(kernel, launch))
    accesses: dict[int, AccessCost] = {}
    executed = _by_name(executed_groups(kernel, "global"))
    on_chip = {name: _field_blocks(g, launch, device, accesses) for name, g in fields.items()}
    on_chip |= {name: _executed_blocks(g, device, accesses) for name, g in executed.items()}
    shared = _shared(kernel, started or launch, device, accesses)
    l1_oversubscription = _l1_oversubscription(on_chip, launch, device, occupancy, kernel)
    miss = _l1_misses(
        fields, on_chip, launch, device, _l1_capacity(launch, device, occupancy, kernel)
    )
    concurrent = min(occupancy.resident_blocks * device.compute_units, launch.blocks)
    sampled = waves(fields, launch, device, concurrent)
    resident = occupancy.resident_blocks * device.compute_units
    sampled = with_executed(sampled, executed, launch, device, resident)
    dram = _dram(on_chip, sampled, launch, device, miss)
    spills = spilled(kernel, started or launch, device, occupancy)
    beside = _beside(kernel, started or launch, device, spills)
    make = _Maker(launch.threads, launch.threads * kernel.updates_per_thread)
    volumes = Volumes(
        l1_wavefronts=make(_per_field(on_chip, lambda f: _split(f, "wavefronts")), ""),
        l1_cycles=make(_per_field(on_chip, lambda f: _split(f, "cycles")), ""),
        shared_wavefronts=make(shared, ""),
        l2_load=make(_loaded(on_chip, miss) | beside["l2_load"], "B", ("compulsory", "capacity")),
        l2_store=make(_stored(on_chip, device) | beside["l2_store"], "B"),
        dram_load=make({**dram.load, **beside["dram_load"]}, "B", LOAD_PARTS),
        dram_store=make({**dram.store, **beside["dram_store"]}, "B"),
    )
    requested = {name: f.load.sectors * device.sector_bytes for name, f in on_chip.items()}
    diagnostics = {
        "l1_oversubscription": l1_oversubscription,
        **_counted(on_chip),
        "requested_bytes": sum(requested.values()),
        "streamed_share": _streamed_share(on_chip),
        "l2_duplicated_bytes": _effective_l2(on_chip, sampled, launch, device),
        **dram.diagnostics,
    }
    together = [g.members for groups in fields.values() for g in groups]
    together += [g.members for groups in executed.values() for g in groups]
    told = tuple(Assumption(text) for f in on_chip.values() for text in f.told)
    meeting = on_one_address(fields, executed, launch, device)
    if meeting:
        diagnostics["atomics_on_one_address"] = meeting
    return VolumeEstimate(
        volumes, diagnostics, accesses, requested, tuple(together), told, meeting, spills.missed
    )


def _loaded(
    on_chip: Mapping[str, _FieldBlocks], miss: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Between L1 and L2, where ``miss`` of what is asked for again of a field is lost."""
    loading = {name: f for name, f in on_chip.items() if f.load.instructions}
    return {
        name: {"compulsory": f.compulsory, "capacity": f.redundant * miss[name]}
        for name, f in loading.items()
    }


def _stored(on_chip: Mapping[str, _FieldBlocks], device: Device) -> dict[str, dict[str, float]]:
    storing = {name: f for name, f in on_chip.items() if f.store.instructions}
    return _per_field(storing, lambda f: {"written_through": f.store.sectors * device.sector_bytes})


def _counted(on_chip: Mapping[str, _FieldBlocks]) -> dict[str, float]:
    both = [cost for f in on_chip.values() for cost in (f.load, f.store)]
    return {
        "l1_tag_cycles": sum(cost.tag_cycles for cost in both),
        "warp_memory_instructions": sum(cost.instructions for cost in both),
    }


def _beside(
    kernel: Description, launch: Launch, device: Device, spills: Spills
) -> dict[str, dict[str, dict[str, float]]]:
    """What crosses beside the fields' data, by volume: spilled registers and code."""
    moved = {
        "l2_load": spills.load,
        "l2_store": spills.store,
        "dram_load": spills.reload,
        "dram_store": spills.evicted,
    }
    found = {k: {SPILLS: {"spills": v}} if v else {} for k, v in moved.items()}
    code = fetched(kernel, launch, device)
    if code:
        found["l2_load"][INSTRUCTIONS] = {"instructions": code}
    return found


def _shared(
    kernel: Description, launch: Launch, device: Device, accesses: dict[int, AccessCost]
) -> dict[str, dict[str, float]]:
    """Wavefronts of shared memory, loads and stores apart."""
    parts: dict[str, float] = {}
    for group in shared_groups(kernel, launch):
        cost = shared_cost(group, launch, device)
        _note(accesses, group.members, cost)
        name = "loads" if group.direction is Direction.LOAD else "stores"
        parts[name] = parts.get(name, 0.0) + cost.wavefronts
    for own in executed_groups(kernel, "shared"):
        cost = executed_shared_cost(own, device)
        _note(accesses, own.members, cost)
        name = "loads" if own.direction is Direction.LOAD else "stores"
        parts[name] = parts.get(name, 0.0) + cost.wavefronts
    return {"shared": parts} if parts else {}


def _note(accesses: dict[int, AccessCost], members: Iterable[int], cost: WarpCost) -> None:
    for member in members:
        count = cost.instructions or 1.0
        accesses[member] = AccessCost(
            cost.cycles / count, cost.wavefronts / count, cost.sectors / count, cost.lanes / count
        )


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
        """A volume from parts per field; parts that no field has are 0 if in ``keys``."""
        parts = dict.fromkeys(keys, 0.0)
        for own in fields.values():
            for key, value in own.items():
                parts[key] = parts.get(key, 0.0) + value
        each = {
            name: Volume.make(own, unit, self.threads, self.updates) for name, own in fields.items()
        }
        return Volume.make(parts, unit, self.threads, self.updates, each)


def _by_field(groups: Sequence[AccessGroup]) -> dict[str, list[AccessGroup]]:
    fields: dict[str, list[AccessGroup]] = {}
    for group in groups:
        fields.setdefault(group.field, []).append(group)
    return fields


def _by_name(groups: Sequence[ExecutedGroup]) -> dict[str, list[ExecutedGroup]]:
    fields: dict[str, list[ExecutedGroup]] = {}
    for group in groups:
        fields.setdefault(group.field, []).append(group)
    return fields


def _field_blocks(
    groups: Sequence[AccessGroup], launch: Launch, device: Device, accesses: dict[int, AccessCost]
) -> _FieldBlocks:
    costs = {d: WarpCost() for d in Direction}
    copied = 0.0  # in bulk: bytes of every box, however often
    asked: dict[tuple[int, ...], float] = {}
    for group in groups:
        blocks = representatives([group], launch, device.l1_line_bytes)
        cost = warp_cost(group, blocks, launch, device)
        if group.bulk:
            cost = replace(cost, wavefronts=0.0, tag_cycles=0.0, cycles=0.0)
            copied += cost.sectors * device.sector_bytes * (group.direction is Direction.LOAD)
        _note(accesses, group.members, cost)
        costs[group.direction] = costs[group.direction].plus(cost)
        asked[group.members] = cost.sectors * device.sector_bytes
    loads = [g for g in of(Direction.LOAD, groups) if not g.bulk]
    compulsory, lines = _footprints(loads, launch, device) if loads else (0.0, 0.0)
    compulsory += copied
    requested = costs[Direction.LOAD].sectors * device.sector_bytes
    return _FieldBlocks(
        costs[Direction.LOAD],
        costs[Direction.STORE],
        compulsory,
        lines,
        max(0.0, requested - compulsory),
        asked=asked,
    )


def _executed_blocks(
    groups: Sequence[ExecutedGroup], device: Device, accesses: dict[int, AccessCost]
) -> _FieldBlocks:
    """The same of a field whose addresses were executed."""
    costs = {d: WarpCost() for d in Direction}
    for group in groups:
        cost = executed_cost(group, device)
        _note(accesses, group.members, cost)
        costs[group.direction] = costs[group.direction].plus(cost)
    loads = [g for g in groups if g.direction is Direction.LOAD]
    unique = block_footprint(loads, device.sector_bytes)
    lines = block_footprint(loads, device.l1_line_bytes)
    requested = costs[Direction.LOAD].sectors * device.sector_bytes
    return _FieldBlocks(
        costs[Direction.LOAD],
        costs[Direction.STORE],
        unique.total,
        lines.total,
        max(0.0, requested - unique.total),
        tuple(said(groups, unique)),
    )


def _footprints(
    loads: Sequence[AccessGroup], launch: Launch, device: Device
) -> tuple[float, float]:
    """Bytes in sectors and in lines that every block touches, summed over the blocks.

    Blocks of one affine group differ only by a shift, so one footprint serves all of a mask class.
    """
    compulsory = lines = 0.0
    same_shape: dict[tuple[bool, ...], tuple[Representative, Runs]] = {}
    same = alike(loads, launch)
    for block in representatives(loads, launch, device.l1_line_bytes):
        if same and block.partial in same_shape:
            first, runs = same_shape[block.partial]
            runs = shifted(runs, _distance(loads[0], first, block, launch))
        else:
            runs = field_runs(loads, [block.box], launch, device.sector_bytes)
            same_shape[block.partial] = (block, runs)
        sectors = size(to_granules(runs, device.sector_bytes)) * device.sector_bytes
        compulsory += block.weight * sectors
        lines += block.weight * size(to_granules(runs, device.l1_line_bytes)) * device.l1_line_bytes
    return compulsory, lines


def _distance(group: AccessGroup, a: Representative, b: Representative, launch: Launch) -> int:
    """Bytes from the footprint of block ``a`` to that of block ``b``."""
    steps = block_steps(group, launch)
    return sum(s * (j - i) for s, i, j in zip(steps, a.block, b.block, strict=True))


def _per_field(
    on_chip: Mapping[str, _FieldBlocks], parts: Callable[[_FieldBlocks], dict[str, float]]
) -> dict[str, dict[str, float]]:
    return {name: parts(f) for name, f in on_chip.items()}


def _split(field: _FieldBlocks, what: str) -> dict[str, float]:
    both = {"loads": getattr(field.load, what), "stores": getattr(field.store, what)}
    return {key: value for key, value in both.items() if value}


def _l1_oversubscription(
    on_chip: Mapping[str, _FieldBlocks],
    launch: Launch,
    device: Device,
    occupancy: Occupancy,
    kernel: Description,
) -> float:
    """Lines that one block's loads allocate, over the L1 (less shared memory)."""
    capacity = _l1_capacity(launch, device, occupancy, kernel)
    allocated = sum(f.lines for f in on_chip.values()) / launch.blocks
    return device.curves["l1_load"].oversubscription(allocated, capacity)


def _l1_capacity(
    launch: Launch, device: Device, occupancy: Occupancy, kernel: Description
) -> float:
    """The L1 less the shared memory of resident blocks."""
    shared = (kernel.shared_bytes + launch.shared_bytes) * occupancy.resident_blocks
    return max(device.l1_bytes - shared, device.l1_bytes // 8)


def _l1_misses(
    fields: Mapping[str, Sequence[AccessGroup]],
    on_chip: Mapping[str, _FieldBlocks],
    launch: Launch,
    device: Device,
    capacity: float,
) -> dict[str, float]:
    """By field, the share of what a block asks for again that the L1 does not have any more."""
    curve = device.curves["l1_load"]
    all_lines = sum(f.lines for f in on_chip.values()) / launch.blocks
    far = curve.miss(curve.oversubscription(all_lines, capacity))
    found = {name: far * f.redundant for name, f in on_chip.items()}
    loads = {
        name: [g for g in of(Direction.LOAD, groups) if not g.bulk]
        for name, groups in fields.items()
    }
    asked = {members: b for f in on_chip.values() for members, b in f.asked.items()}
    within = touched_again(loads, asked, lambda g: _footprints(g, launch, device), launch.blocks)
    for near in within:
        miss = curve.miss(curve.oversubscription(near.needed, capacity))
        for name, again in near.bytes.items():
            found[name] += (min(miss, far) - far) * again
    return {
        name: min(1.0, max(0.0, found[name] / f.redundant)) if f.redundant else far
        for name, f in on_chip.items()
    }


@dataclass(frozen=True, slots=True)
class _Dram:
    load: Mapping[str, Mapping[str, float]]
    store: Mapping[str, Mapping[str, float]]
    diagnostics: Mapping[str, float]


def _dram(
    on_chip: Mapping[str, _FieldBlocks],
    sampled: Sequence[Wave],
    launch: Launch,
    device: Device,
    l1_miss: Mapping[str, float],
) -> _Dram:
    """Volumes of the sampled waves, scaled to the launch (§4.4.2, §4.5)."""
    load: dict[str, dict[str, float]] = {}
    store: dict[str, dict[str, float]] = {}
    diagnostics: dict[str, float] = {}
    for wave in sampled:
        share = wave.threads / launch.threads
        misses = _layer_misses(wave, device)
        footprint = sum(f.load + f.store for f in wave.fields.values())
        load_miss, store_miss = (
            curve.miss(curve.oversubscription(footprint, device.l2_effective_bytes))
            for curve in (device.curves["l2_load"], device.curves["l2_store"])
        )
        for name, part in wave.fields.items():
            chip = on_chip[name]
            written = chip.store.sectors * device.sector_bytes * share
            evicted = max(0.0, written - part.store) * store_miss if part.store else 0.0
            if chip.load.instructions or part.partial or evicted:
                requested = (chip.compulsory + chip.redundant * l1_miss[name]) * share
                parts = _read(part, requested, misses, load_miss)
                parts["store_fill"] = part.partial + evicted
                _accumulate(load.setdefault(name, {}), parts, wave.weight)
            if part.store:
                parts = {"compulsory": part.store, "capacity": evicted}
                _accumulate(store.setdefault(name, {}), parts, wave.weight)
        diagnostics = {"wave_footprint_bytes": footprint, **_described(wave, misses)}
    return _Dram(load, store, diagnostics)


def _described(wave: Wave, layer_misses: tuple[float, float]) -> dict[str, float]:
    return {
        "wave_threads": float(wave.threads),
        "wave_tlb_pages": float(wave.pages),
        "layer_y_bytes": wave.layer_y,
        "layer_z_bytes": wave.layer_z,
        "layer_y_miss": layer_misses[0],
        "layer_z_miss": layer_misses[1],
    }


def _read(
    part: FieldWave, requested: float, layer_misses: tuple[float, float], miss: float
) -> dict[str, float]:
    """What a wave reads of a field that it asks the L2 for ``requested`` bytes of."""
    again_y, again_z = part.overlap_y * layer_misses[0], part.overlap_z * layer_misses[1]
    fresh = part.load - part.overlap_y - part.overlap_z
    repeated = max(0.0, requested - (fresh + again_y + again_z))
    return {
        "compulsory": fresh,
        "overlap_y": again_y,
        "overlap_z": again_z,
        "capacity": repeated * miss if part.load else 0.0,
    }


def _accumulate(into: dict[str, float], parts: Mapping[str, float], weight: float) -> None:
    for key, value in parts.items():
        into[key] = into.get(key, 0.0) + weight * value


def _layer_misses(wave: Wave, device: Device) -> tuple[float, float]:
    """Layer conditions: the share of each overlap that is no longer cached."""
    new = sum(f.load + f.store for f in wave.fields.values())
    curve = device.curves["l2_layer"]
    overlap_y = sum(f.overlap_y for f in wave.fields.values())
    overlap_z = sum(f.overlap_z for f in wave.fields.values())
    capacity = device.l2_effective_bytes
    return (
        curve.miss((wave.layer_y + new - overlap_y) / capacity),
        curve.miss((wave.layer_z + new - overlap_z) / capacity),
    )


def _streamed_share(on_chip: Mapping[str, _FieldBlocks]) -> float:
    """Share of the L2-to-L1 footprint in fields that a block uses once."""
    total = sum(f.compulsory for f in on_chip.values())
    once = sum(
        f.compulsory
        for f in on_chip.values()
        if f.compulsory and (f.compulsory + f.redundant) < _STREAMED_BELOW * f.compulsory
    )
    return once / total if total else 0.0


def _effective_l2(
    on_chip: Mapping[str, _FieldBlocks],
    sampled: Sequence[Wave],
    launch: Launch,
    device: Device,
) -> float:
    """Bytes of a wave that a split L2 holds in more than one partition.

    A sector that ``k`` blocks read, each attached to one of ``P`` partitions, is expected in
    ``P · (1 − (1 − 1/P)^k)`` of them; ``k`` is the mean over the wave.
    """
    wave = sampled[-1]
    footprint = sum(f.load for f in wave.fields.values())
    read = sum(f.compulsory for f in on_chip.values()) * wave.threads / launch.threads
    if not footprint or device.l2_partitions == 1:
        return 0.0
    sharers = max(1.0, read / footprint)
    copies = device.l2_partitions * (1 - float((1 - 1 / device.l2_partitions) ** sharers))
    return footprint * (copies - 1)
