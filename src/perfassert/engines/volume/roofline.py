"""Multi-limiter roofline (Warpspeed §2): the time of each limiter; the largest is the bound."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.engines.volume.fetch_and_spill import INSTRUCTIONS
from perfassert.hardware.entries import Scope
from perfassert.hardware.matrix import MatrixVariant
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.description import Description
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import FLOPS_PER_FMA
from perfassert.prediction.volumes import Volumes
from perfassert.shipped import model_number

_MIXED = model_number("mixed_dram_share")


def roofline(
    kernel: Description,
    launch: Launch,
    device: Device,
    volumes: Volumes,
    arithmetic: str,
    active: int | None = None,
    per_activation: Mapping[tuple[str, Direction], float] | None = None,
) -> Mapping[str, float]:
    """Compute the seconds that each of ``dram l2 l1 compute`` would take alone.

    As in the paper, all SMs are counted. DRAM is the exception: ``active`` SMs ask for its data.
    ``per_activation`` is that of :func:`dram_seconds`. The L2 serves loads and stores with one
    bandwidth, and fetching instructions takes no time. ``compute`` counts each two flops as one
    fused multiply-add of the operation class ``arithmetic``.
    """
    unit_cycles = device.compute_units * device.clock_hz
    l2 = float(volumes.l2_load.total) + float(volumes.l2_store.total)
    code = volumes.l2_load.fields.get(INSTRUCTIONS)
    l2 -= float(code.total) if code else 0.0
    return {
        "dram": dram_seconds(volumes, device, active or device.compute_units, per_activation or {}),
        "l2": l2 / device.l2_bandwidth,
        "l1": float(volumes.l1_cycles.total) / unit_cycles,
        "compute": kernel.flops * launch.threads / peak_flops(device, arithmetic),
    }


def dram_seconds(
    volumes: Volumes,
    device: Device,
    active: int,
    per_activation: Mapping[tuple[str, Direction], float],
) -> float:
    """Compute the seconds that DRAM takes to move its bytes, or to activate the rows that they lie
    in.

    Alternating reads and writes are slower than either alone, fully so if the rarer kind has at
    least a tenth of the bytes. ``active`` SMs ask for no more bytes than their L2 ports carry.
    ``per_activation``: bytes that each activation moves, by field and direction.
    """
    load, store = float(volumes.dram_load.total), float(volumes.dram_store.total)
    total = load + store
    if not total:
        return 0.0
    # For example, 5 % stores: ``mixed`` is 0.5, and the bandwidth lies halfway between that of one
    # kind alone and the mixed one.
    mixed = min(1.0, min(load, store) / total / _MIXED)
    bandwidth = device.dram_bandwidth * (1 + (1 - mixed) * (device.dram_alone_factor - 1))
    moving = total / min(bandwidth, active * device.l2_port_bytes_per_cycle * device.clock_hz)
    return max(moving, _activation_seconds(volumes, device, per_activation))


def _activation_seconds(
    volumes: Volumes, device: Device, per_activation: Mapping[tuple[str, Direction], float]
) -> float:
    """Compute the seconds that all channels together take for the activations."""
    count = 0.0
    for (name, direction), each in per_activation.items():
        volume = volumes.dram_load if direction is Direction.LOAD else volumes.dram_store
        if name in volume.fields:
            count += float(volume.fields[name].total) / each
    return count * device.dram_activate / device.dram_channels if count else 0.0


def peak_flops(device: Device, arithmetic: str) -> float:
    """Return the flops per second of the whole device with instructions of class ``arithmetic``."""
    operation = device.operation(arithmetic)
    scope = device.pipelines[operation.pipeline]
    copies = device.schedulers_per_unit if scope is Scope.SCHEDULER else 1
    variant = MatrixVariant.from_name(arithmetic)
    each = variant.of_one_warp(scope) if variant else device.warp_size
    per_cycle = FLOPS_PER_FMA * each * copies / operation.issue
    return per_cycle * device.compute_units * device.clock_hz
