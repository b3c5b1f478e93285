"""What the L2 exchanges with DRAM: waves, their layers, what does not fit (Warpspeed §4.4–4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfassert.engines.volume.on_chip import FieldBlocks
from perfassert.engines.volume.waves import FieldWave, Wave
from perfassert.hardware.model import Device
from perfassert.kernel.launch import Launch


@dataclass(frozen=True, slots=True)
class Dram:
    load: Mapping[str, Mapping[str, float]]
    store: Mapping[str, Mapping[str, float]]
    diagnostics: Mapping[str, float]


def dram_volumes(
    on_chip: Mapping[str, FieldBlocks],
    sampled: Sequence[Wave],
    launch: Launch,
    device: Device,
    l1_miss: Mapping[str, float],
) -> Dram:
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
    return Dram(load, store, diagnostics)


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


def duplicated(
    on_chip: Mapping[str, FieldBlocks],
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
