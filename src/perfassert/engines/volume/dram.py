"""Volumes between L2 and DRAM: waves, their layers, and capacity misses (Warpspeed §4.4–4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from perfassert.engines.volume.activations import wave_activations
from perfassert.engines.volume.footprint import field_runs
from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.on_chip import FieldBlocks
from perfassert.engines.volume.reuse import AnyGroup, Cache, CacheDemand, lost_bytes, touched_again
from perfassert.engines.volume.runs import size, to_granules
from perfassert.engines.volume.waves import FieldWave, Wave
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Dram:
    """Bytes between L2 and DRAM over the launch, by field and cause.

    ``per_activation``: bytes that each activation of a DRAM row moves, by field and direction. It
    is empty if the device file has no cost of an activation.
    """

    load: Mapping[str, Mapping[str, float]]
    store: Mapping[str, Mapping[str, float]]
    diagnostics: Mapping[str, float]
    per_activation: Mapping[tuple[str, Direction], float]


def dram_volumes(
    groups: LaunchGroups,
    on_chip: Mapping[str, FieldBlocks],
    waves: Sequence[Wave],
    l1_miss: Mapping[str, float],
) -> Dram:
    """Compute the volumes of the evaluated waves, scaled to the launch (§4.4.2, §4.5).

    The bytes of one field in one wave are::

        load  = first reads of the wave      compulsory = loads' footprint - overlap_y - overlap_z
              + overlap with earlier blocks  overlap_y * layer_miss_y + overlap_z * layer_miss_z
              + reads that the L2 has lost   capacity
              + fills of partly written sectors and of evicted stores   store_fill
        store = stores' footprint            compulsory
              + stores evicted and written again   capacity

    ``docs/explanation/volumes.md`` derives the terms. ``docs/explanation/model.md`` shows the
    numbers of a stencil.
    """
    load: dict[str, dict[str, float]] = {}
    store: dict[str, dict[str, float]] = {}
    diagnostics: dict[str, float] = {}
    bytes_moved: dict[tuple[str, Direction], float] = {}
    activations: dict[tuple[str, Direction], float] = {}
    for wave in waves:
        layer_misses = _layer_misses(wave, groups.device)
        traffic = _WaveTraffic(groups, on_chip, wave, l1_miss, layer_misses)
        moved: dict[tuple[str, Direction], float] = {}
        for name, field in wave.fields.items():
            if parts := traffic.load_parts(name, field):
                _accumulate(load.setdefault(name, {}), parts, wave.weight)
                moved[name, Direction.LOAD] = sum(parts.values())
            if parts := traffic.store_parts(name, field):
                _accumulate(store.setdefault(name, {}), parts, wave.weight)
                moved[name, Direction.STORE] = sum(parts.values())
        _accumulate(bytes_moved, moved, wave.weight)
        _accumulate(activations, wave_activations(groups, wave, moved), wave.weight)
        diagnostics = _wave_diagnostics(wave, layer_misses)
    if activations:
        diagnostics["dram_activations"] = sum(activations.values())
    per_activation = {key: bytes_moved[key] / count for key, count in activations.items()}
    return Dram(load, store, diagnostics, per_activation)


def _wave_diagnostics(wave: Wave, layer_misses: tuple[float, float]) -> dict[str, float]:
    return {
        "wave_footprint_bytes": wave.footprint,
        "wave_threads": float(wave.threads),
        "wave_tlb_pages": float(wave.pages),
        "layer_y_bytes": wave.layer_y,
        "layer_z_bytes": wave.layer_z,
        "layer_y_miss": layer_misses[0],
        "layer_z_miss": layer_misses[1],
    }


class _WaveTraffic:
    """Bytes that one wave moves between L2 and DRAM.

    All blocks of the wave are assumed to execute the same iterations of their loops at a time.
    """

    def __init__(
        self,
        groups: LaunchGroups,
        on_chip: Mapping[str, FieldBlocks],
        wave: Wave,
        l1_miss: Mapping[str, float],
        layer_misses: tuple[float, float],
    ) -> None:
        self.groups, self.on_chip, self.wave = groups, on_chip, wave
        fields, share = wave.fields, wave.threads / groups.launch.threads
        sector = groups.device.sector_bytes
        self.new = {name: _new_reads(field, layer_misses) for name, field in fields.items()}
        requested = {n: share * on_chip[n].loaded_bytes(l1_miss[n]) for n in fields}
        repeated = {n: max(0.0, requested[n] - sum(self.new[n].values())) for n in fields}
        self.reloaded = self._bytes_lost(Direction.LOAD, requested, repeated)
        written = {n: share * on_chip[n].store.sectors * sector for n in fields}
        repeated = {n: max(0.0, written[n] - field.store) for n, field in fields.items()}
        self.evicted_stores = self._bytes_lost(Direction.STORE, written, repeated)

    def load_parts(self, name: str, field: FieldWave) -> dict[str, float]:
        """Return the bytes from DRAM to L2 by cause; empty if nothing of the field is loaded."""
        evicted = self.evicted_stores[name] if field.store else 0.0
        if not (self.on_chip[name].load.instructions or field.load or field.partial or evicted):
            return {}
        capacity = self.reloaded[name] if field.load else 0.0
        return {**self.new[name], "capacity": capacity, "store_fill": field.partial + evicted}

    def store_parts(self, name: str, field: FieldWave) -> dict[str, float]:
        """Return the bytes from L2 to DRAM by cause; empty if nothing of the field is stored."""
        if not field.store:
            return {}
        return {"compulsory": field.store, "capacity": self.evicted_stores[name]}

    def _bytes_lost(
        self, direction: Direction, requested: Mapping[str, float], repeated: Mapping[str, float]
    ) -> dict[str, float]:
        """Return the bytes of ``repeated``, by field, that the L2 loses before they are used again.

        ``requested``: all bytes that the wave asks the L2 for, by field.
        """
        load = direction is Direction.LOAD
        device = self.groups.device
        curve = device.curves["l2_load" if load else "l2_store"]
        cache = Cache(curve, device.l2_effective_bytes)
        unique = sum(f.load if load else f.store for f in self.wave.fields.values())
        nests = touched_again(
            self.groups.fields,
            self._by_access(direction, requested),
            self._space_needed,
            direction,
            cache.capacity,
        )
        whole = CacheDemand(self.wave.footprint, self.wave.footprint)
        return lost_bytes(repeated, unique, cache, whole, nests)

    def _by_access(
        self, direction: Direction, requested: Mapping[str, float]
    ) -> dict[tuple[int, ...], float]:
        """Split the bytes ``requested`` of the L2 among the groups of a field.

        Each group gets the same fraction of the bytes that its warps ask for.
        """
        requests: dict[tuple[int, ...], float] = {}
        for name, groups in self.groups.fields.items():
            # For example, warps ask for 300 and 100 bytes in two groups of a field, and 200 bytes
            # reach the L2: 150 bytes belong to the first group and 50 to the second.
            own = self.on_chip[name].asked
            members = [g.members for g in groups if g.direction is direction]
            whole = sum(own[m] for m in members)
            requests |= {m: own[m] / whole * requested[name] for m in members if whole}
        return requests

    def _space_needed(self, groups: Sequence[AnyGroup]) -> tuple[float, CacheDemand]:
        launch, device = self.groups.launch, self.groups.device
        bound = [group for group in groups if isinstance(group, AccessGroup)]
        runs = field_runs(bound, self.wave.blocks, launch, device.sector_bytes)
        grain = device.dram_granularity
        touched = float(size(to_granules(runs, grain)) * grain)
        lines = float(size(to_granules(runs, device.l1_line_bytes)) * device.l1_line_bytes)
        return touched, CacheDemand(touched, lines)


def _new_reads(field: FieldWave, layer_misses: tuple[float, float]) -> dict[str, float]:
    """Return the bytes that a wave reads from DRAM once, by cause: first reads and lost layers."""
    return {
        "compulsory": field.load - field.overlap_y - field.overlap_z,
        "overlap_y": field.overlap_y * layer_misses[0],
        "overlap_z": field.overlap_z * layer_misses[1],
    }


def _accumulate(into: dict[_Key, float], parts: Mapping[_Key, float], weight: float) -> None:
    for key, value in parts.items():
        into[key] = into.get(key, 0.0) + weight * value


def _layer_misses(wave: Wave, device: Device) -> tuple[float, float]:
    """Return the fractions of the y and z overlaps that the L2 has lost (layer conditions)."""
    # For example, a layer of 6,144 bytes and a wave of 8,192 bytes with an overlap of 4,096 need
    # 6,144 + 8,192 - 4,096 = 10,240 bytes of the L2. An L2 of 20,480 bytes is asked for half of
    # that.
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
    """Return the bytes of a wave that a split L2 holds in more than one partition.

    A sector that ``k`` blocks read, each attached to one of ``P`` partitions, is expected in ``P ·
    (1 − (1 − 1/P)^k)`` partitions. ``k`` is the mean over the wave.
    """
    wave = sampled[-1]
    footprint = sum(f.load for f in wave.fields.values())
    read = sum(f.compulsory for f in on_chip.values()) * wave.threads / groups.launch.threads
    partitions = groups.device.l2_partitions
    if not footprint or partitions == 1:
        return 0.0
    # For example, 2 partitions and 2 readers per sector: 2 * (1 - 1/4) = 1.5 copies, so half of the
    # footprint is held twice.
    sharers = max(1.0, read / footprint)
    copies = partitions * (1 - float((1 - 1 / partitions) ** sharers))
    return footprint * (copies - 1)
