"""What the L2 exchanges with DRAM: waves, their layers, what does not fit (Warpspeed §4.4–4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfassert.engines.volume.footprint import field_runs
from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.on_chip import FieldBlocks
from perfassert.engines.volume.reuse import lost_bytes, touched_again
from perfassert.engines.volume.runs import size, to_granules
from perfassert.engines.volume.waves import FieldWave, Wave
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction


@dataclass(frozen=True, slots=True)
class Dram:
    """Bytes by field and part, over the launch."""

    load: Mapping[str, Mapping[str, float]]
    store: Mapping[str, Mapping[str, float]]
    diagnostics: Mapping[str, float]


def dram_volumes(
    groups: LaunchGroups,
    on_chip: Mapping[str, FieldBlocks],
    sampled: Sequence[Wave],
    l1_miss: Mapping[str, float],
) -> Dram:
    """Volumes of the sampled waves, scaled to the launch (§4.4.2, §4.5)."""
    launch, device = groups.launch, groups.device
    load: dict[str, dict[str, float]] = {}
    store: dict[str, dict[str, float]] = {}
    diagnostics: dict[str, float] = {}
    for wave in sampled:
        share = wave.threads / launch.threads
        misses = _layer_misses(wave, device)
        reuse = _Reuse(groups, on_chip, wave)
        read = {name: _first_reads(part, misses) for name, part in wave.fields.items()}
        asked = {n: share * on_chip[n].loaded_bytes(l1_miss[n]) for n in wave.fields}
        again = {n: max(0.0, asked[n] - sum(read[n].values())) for n in wave.fields}
        missed = reuse.lost_bytes(Direction.LOAD, asked, again)
        written = {n: share * on_chip[n].store.sectors * device.sector_bytes for n in wave.fields}
        again = {n: max(0.0, written[n] - p.store) for n, p in wave.fields.items()}
        evicted = reuse.lost_bytes(Direction.STORE, written, again)
        for name, part in wave.fields.items():
            early = evicted[name] if part.store else 0.0
            if on_chip[name].load.instructions or part.partial or early:
                parts = {
                    **read[name],
                    "capacity": missed[name] if part.load else 0.0,
                    "store_fill": part.partial + early,
                }
                _accumulate(load.setdefault(name, {}), parts, wave.weight)
            if part.store:
                parts = {"compulsory": part.store, "capacity": early}
                _accumulate(store.setdefault(name, {}), parts, wave.weight)
        diagnostics = {"wave_footprint_bytes": wave.footprint, **_wave_diagnostics(wave, misses)}
    return Dram(load, store, diagnostics)


def _wave_diagnostics(wave: Wave, layer_misses: tuple[float, float]) -> dict[str, float]:
    return {
        "wave_threads": float(wave.threads),
        "wave_tlb_pages": float(wave.pages),
        "layer_y_bytes": wave.layer_y,
        "layer_z_bytes": wave.layer_z,
        "layer_y_miss": layer_misses[0],
        "layer_z_miss": layer_misses[1],
    }


def _first_reads(part: FieldWave, layer_misses: tuple[float, float]) -> dict[str, float]:
    """What a wave reads of a field for the first time."""
    return {
        "compulsory": part.load - part.overlap_y - part.overlap_z,
        "overlap_y": part.overlap_y * layer_misses[0],
        "overlap_z": part.overlap_z * layer_misses[1],
    }


@dataclass(frozen=True, slots=True)
class _Reuse:
    """What blocks of one wave ask the L2 for more than once.

    They are taken to be in the same iterations of their loops.
    """

    groups: LaunchGroups
    on_chip: Mapping[str, FieldBlocks]
    wave: Wave

    def lost_bytes(
        self, direction: Direction, asked: Mapping[str, float], again: Mapping[str, float]
    ) -> dict[str, float]:
        """Of ``again``, by field, what the L2 does not hold any more, out of all that is asked."""
        load = direction is Direction.LOAD
        curve = self.groups.device.curves["l2_load" if load else "l2_store"]
        capacity = self.groups.device.l2_effective_bytes
        unique = sum(f.load if load else f.store for f in self.wave.fields.values())

        def miss(footprint: float) -> float:
            return curve.miss(curve.oversubscription(footprint, capacity))

        within = touched_again(
            self.groups.fields, self._by_access(direction, asked), self._space_needed, direction
        )
        return lost_bytes(again, unique, miss(self.wave.footprint), miss, within)

    def _by_access(
        self, direction: Direction, asked: Mapping[str, float]
    ) -> dict[tuple[int, ...], float]:
        """What reaches the L2 of each group's requests: of all groups of a field the same share."""
        requests: dict[tuple[int, ...], float] = {}
        for name, groups in self.groups.fields.items():
            own = self.on_chip[name].asked
            members = [g.members for g in groups if g.direction is direction]
            whole = sum(own[m] for m in members)
            requests |= {m: own[m] / whole * asked[name] for m in members if whole}
        return requests

    def _space_needed(self, groups: Sequence[AccessGroup]) -> tuple[float, float]:
        launch, device = self.groups.launch, self.groups.device
        runs = field_runs(groups, self.wave.blocks, launch, device.sector_bytes)
        grain = device.dram_granularity
        touched = float(size(to_granules(runs, grain)) * grain)
        return touched, touched


def _accumulate(into: dict[str, float], parts: Mapping[str, float], weight: float) -> None:
    for key, value in parts.items():
        into[key] = into.get(key, 0.0) + weight * value


def _layer_misses(wave: Wave, device: Device) -> tuple[float, float]:
    """Layer conditions: the share of each overlap that is no longer cached."""
    curve = device.curves["l2_layer"]
    overlap_y = sum(f.overlap_y for f in wave.fields.values())
    overlap_z = sum(f.overlap_z for f in wave.fields.values())
    capacity = device.l2_effective_bytes
    return (
        curve.miss((wave.layer_y + wave.footprint - overlap_y) / capacity),
        curve.miss((wave.layer_z + wave.footprint - overlap_z) / capacity),
    )


def duplicated_bytes(
    groups: LaunchGroups, on_chip: Mapping[str, FieldBlocks], sampled: Sequence[Wave]
) -> float:
    """Bytes of a wave that a split L2 holds in more than one partition.

    A sector that ``k`` blocks read, each attached to one of ``P`` partitions, is expected in
    ``P · (1 − (1 − 1/P)^k)`` of them; ``k`` is the mean over the wave.
    """
    wave = sampled[-1]
    footprint = sum(f.load for f in wave.fields.values())
    read = sum(f.compulsory for f in on_chip.values()) * wave.threads / groups.launch.threads
    partitions = groups.device.l2_partitions
    if not footprint or partitions == 1:
        return 0.0
    sharers = max(1.0, read / footprint)
    copies = partitions * (1 - float((1 - 1 / partitions) ** sharers))
    return footprint * (copies - 1)
