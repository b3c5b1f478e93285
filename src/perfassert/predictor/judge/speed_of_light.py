"""Speed of light of a launch: a time that no run on its device can beat, however scheduled.

The slower of two that may overlap: DRAM moves every compulsory sector once at its nominal
bandwidth, and each pipeline of floating-point and matrix units issues what the launch gives it at
the documented rate, on all SMs at the highest clock. ``docs/explanation/speed-of-light.md`` says
what that assumes.
"""

from __future__ import annotations

from collections import defaultdict

from perfassert.hardware.entries import SYNONYMS, Scope
from perfassert.hardware.matrix import MatrixVariant
from perfassert.hardware.model import Device
from perfassert.predictor.model import BoundLaunch, Model

FLOATING_POINT = ("fp16", "fp32", "fp64", "sfu", "tensor", "tensor_fp64")
"""Operation classes of floating-point and matrix units; a fused multiply-add is one operation."""


def speed_of_light(model: Model) -> float:
    """Least seconds of a launch; 0 where it neither moves nor computes anything."""
    device = model.bound_launch.device  # at the nominal clock
    return max(_dram_seconds(model.bound_launch, device), _arithmetic_seconds(model, device))


def _dram_seconds(bound_launch: BoundLaunch, device: Device) -> float:
    """Return the seconds of compulsory bytes at peak DRAM bandwidth, at most the DRAM volumes."""
    diagnostics, volumes = bound_launch.estimate.diagnostics, bound_launch.estimate.volumes
    load = min(diagnostics["compulsory_load_bytes"], float(volumes.dram_load.total))
    store = min(diagnostics["compulsory_store_bytes"], float(volumes.dram_store.total))
    return (load + store) / device.peak_dram_bandwidth


def _arithmetic_seconds(model: Model, device: Device) -> float:
    """Return the seconds of the busiest arithmetic pipeline if all SMs share the work evenly."""
    kernel, busy = model.bound_launch.kernel, defaultdict[str, float](float)
    needs = {
        name: (device.operation(name).pipeline, least_cycles(name, device))
        for name in {node.operation for node in model.graph.nodes}
        if name not in kernel.latencies and _computes(name)  # else not the device's operation
    }
    for node in model.graph.nodes:
        if node.operation in needs:
            pipeline, cycles = needs[node.operation]
            executions = model.graph.executions(node, model.warps) * model.bound_launch.working
            busy[pipeline] += executions * cycles
    longest = max(busy.values(), default=0.0)
    return longest / device.compute_units / device.peak_clock_hz


def _computes(operation: str) -> bool:
    name = SYNONYMS.get(operation, operation)
    return name in FLOATING_POINT or MatrixVariant.from_name(name) is not None


def least_cycles(name: str, device: Device) -> float:
    """Return the cycles of an SM per warp instruction of the class, if all its pipelines issue.

    The cycles are the issue time λ; those of matrix instructions are at most the work of one warp
    over the rate of the units.
    """
    operation, variant = device.operation(name), MatrixVariant.from_name(name)
    scope = device.pipelines[operation.pipeline]
    cycles = operation.issue / (device.schedulers_per_unit if scope is Scope.SCHEDULER else 1)
    rate = device.matrix.get(variant.rate) if variant is not None else None
    if variant is None or not rate:
        return cycles
    return min(cycles, variant.of_one_warp(Scope.SCHEDULER) / rate)
