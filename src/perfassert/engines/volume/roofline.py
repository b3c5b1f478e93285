"""The multi-limiter roofline (Warpspeed §2): every limiter's own time; the slowest decides."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.engines.volume.fetch_and_spill import INSTRUCTIONS
from perfassert.hardware.entries import Scope
from perfassert.hardware.model import Device
from perfassert.kernel.description import Description
from perfassert.kernel.launch import Launch
from perfassert.prediction.volumes import Volumes

_FLOPS_PER_LANE = 2  # a fused multiply-add counts two


def roofline(
    kernel: Description, launch: Launch, device: Device, volumes: Volumes, arithmetic: str
) -> Mapping[str, float]:
    """Seconds that each of ``dram l2 l1 compute`` would take alone.

    All compute units are counted, as in the paper. L2 and DRAM serve loads and stores with one
    bandwidth each; fetching instructions takes no time. ``compute`` takes every two flops for one
    fused multiply-add of the operation class ``arithmetic``.
    """
    unit_cycles = device.compute_units * device.clock_hz
    dram = float(volumes.dram_load.total) + float(volumes.dram_store.total)
    l2 = float(volumes.l2_load.total) + float(volumes.l2_store.total)
    code = volumes.l2_load.fields.get(INSTRUCTIONS)
    l2 -= float(code.total) if code else 0.0
    return {
        "dram": dram / device.dram_bandwidth,
        "l2": l2 / device.l2_bandwidth,
        "l1": float(volumes.l1_cycles.total) / unit_cycles,
        "compute": kernel.flops * launch.threads / peak_flops(device, arithmetic),
    }


def peak_flops(device: Device, arithmetic: str) -> float:
    """Flops per second of the whole device with instructions of class ``arithmetic``."""
    operation = device.operation(arithmetic)
    per_scheduler = device.pipelines[operation.pipeline] is Scope.SCHEDULER
    copies = device.schedulers_per_unit if per_scheduler else 1
    per_cycle = _FLOPS_PER_LANE * device.warp_size * copies / operation.issue
    return per_cycle * device.compute_units * device.clock_hz
