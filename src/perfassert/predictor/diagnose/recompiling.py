"""Fewer spilled registers, proven: the source compiled again with other limits, and predicted.

A bound of 32 registers for blocks of 1,024 threads, ``__launch_bounds__(1024, 2)``, lets two blocks
reside on an SM of 65,536 registers and may spill a kernel that needs 60; with 64 one resides. Each
limit at which a block less resides is tried, whatever the source's launch bounds say.
"""

from __future__ import annotations

from typing import Any

from perfassert.engines.advisor.case import Proposal
from perfassert.errors import LaunchError
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.description import BoundKernel, Description
from perfassert.predictor.rewrites.whatif import Predict, is_cuda_source, predict_with

_MOST_TRIED = 4
_MOST_INSTRUCTIONS = 20_000
"""Compiling more than these takes long; advice says by simulation alone what they would gain."""


def more_registers(prediction: Any, predict: Predict, described: Description) -> Proposal | None:
    """The limit of registers by which the kernel is fastest, if it spills and more are there."""
    kernel, launch, device = prediction.origin
    if not described.spill_bytes or not is_cuda_source(kernel):
        return None
    assert isinstance(described, BoundKernel)
    assert described.program is not None
    if len(described.program.instructions) > _MOST_INSTRUCTIONS:
        return None
    best, fastest = None, prediction.time
    shared = described.shared_bytes + launch.shared_bytes
    limits = _limits(device, launch.threads_per_block, described.registers, shared)
    for registers in limits[:_MOST_TRIED]:
        options = (f"-maxrregcount={registers}", "-Xptxas=--override-directive-values")
        after = predict_with(prediction, predict, {"options": options})
        if after and after.time < fastest:
            best, fastest = (registers, options), after.time
    if best is None:
        return None
    registers, options = best
    return Proposal(
        f"{described.spill_bytes} bytes per thread are spilled to local memory: allow {registers} "
        f"registers instead of {described.registers} (__launch_bounds__, -maxrregcount)",
        float(prediction.time) / float(fastest),
        {"options": options},
        f"compiled with {options[0]}: {prediction.time} → {fastest}",
    )


def _limits(device: Device, threads: int, registers: int, shared_bytes: int) -> list[int]:
    """The most registers of a thread with which so many blocks reside, fewer blocks each time."""
    limits: list[int] = []
    resident = occupancy(device, threads, registers, shared_bytes).resident_blocks
    for more in range(registers + 1, device.max_registers_per_thread + 1):
        try:
            reside = occupancy(device, threads, more, shared_bytes).resident_blocks
        except LaunchError:  # not even one
            break
        if limits and reside == resident:
            limits[-1] = more
        else:
            limits.append(more)
        resident = reside
    return limits[::-1]
