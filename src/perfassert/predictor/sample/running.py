"""Execution of a whole launch, for the final contents of its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.execution.reads import Reads
from perfassert.engines.execution.result import Execution
from perfassert.engines.execution.sample import origins
from perfassert.frontends.cuda.kernels import CompiledCode
from perfassert.hardware.model import Device
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Launch
from perfassert.predictor.sample.arguments import execution_arguments
from perfassert.predictor.sample.executed import bind_question
from perfassert.predictor.session import Session

_THREADS = 8192  # threads that are executed at a time, as the elements of arrays
_MAX_LIMIT_RATIO = 4  # times the limit: at this extrapolated cost, execution stops


@dataclass(frozen=True, slots=True)
class LaunchRun:
    """Result of an executed launch.

    ``contents``: final contents of the buffers without an unknown byte. ``failed``: why the
    execution is not usable, or ``""``. ``executed``: executed instructions, summed over lanes.
    """

    contents: Mapping[str, npt.NDArray[np.uint8]]
    failed: str = ""
    executed: int = 0


def run(
    kernel: CompiledKernel, launch: Launch, device: Device, lane_instructions: int
) -> LaunchRun:
    """Execute all blocks, in groups of blocks that run side by side.

    ``lane_instructions`` bounds the executed instructions, summed over lanes. A block that waits
    for a block of a later group never ends.
    """
    code = kernel.compiled
    assert isinstance(code, CompiledCode)
    built = code.build(device.arch)
    machine = built.executable()
    arguments = execution_arguments(built.program().parameters, launch)
    side_by_side = max(1, _THREADS // launch.threads_per_block)
    left = lane_instructions
    memory = None
    for first in range(0, launch.blocks, side_by_side):
        blocks = range(first, min(first + side_by_side, launch.blocks))
        limits = ExecutionLimits(lane_instructions=left, instructions=lane_instructions)
        done = execute(machine, launch, arguments, blocks, limits, memory=memory)
        left -= done.lane_instructions
        used = lane_instructions - left
        expected = used / blocks.stop * launch.blocks
        if failed := _failure_reason(
            done, left if expected < _MAX_LIMIT_RATIO * lane_instructions else 0
        ):
            return LaunchRun({}, failed, used)
        memory = done.memory
    if memory is None:
        return LaunchRun({})
    unknown = memory.unknowns()
    known = {name: c for name, c in memory.contents().items() if not unknown[name]}
    return LaunchRun(known, executed=lane_instructions - left)


def prediction_reads(kernel: CompiledKernel, launch: Launch, device: Device) -> Reads:
    """Return the pages of buffers that a prediction of the launch reads."""
    question = Session(budget=0).ask(kernel, launch, device)  # without a memo, every page is read
    reads = Reads()
    bind_question(question, reads)
    return reads


def _failure_reason(done: Execution, left: int) -> str:
    if done.lost:
        return "an instruction could not be followed"
    if left <= 0 or len(done.cut):
        return "it did not come to its end within the limit"
    branches = [mask for place, mask in done.guesses.items() if place in done.taken]
    if branches:
        return f"a branch depends on the content of {', '.join(origins(done, branches[0]))}"
    return ""
