"""A whole launch on the execution engine: what its buffers hold afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.execution.presets import ArgumentValue
from perfassert.engines.execution.result import Execution
from perfassert.engines.execution.sample import origins
from perfassert.frontends.cuda.kernels import CompiledCode
from perfassert.hardware.model import Device
from perfassert.kernel.launch import Launch
from perfassert.predictor.arguments import execution_arguments

_THREADS = 8192  # that run side by side: wide enough that arrays pay off


@dataclass(frozen=True, slots=True)
class LaunchRun:
    """``contents``: what the buffers hold now whose content is known throughout; ``failed``: why
    the launch did not come to its end."""

    contents: Mapping[str, npt.NDArray[np.uint8]]
    failed: str = ""


def run(code: CompiledCode, launch: Launch, device: Device, lane_instructions: int) -> LaunchRun:
    """All blocks, some of them side by side and then the next; at most so many instructions of
    lanes. Blocks that wait for each other do not come to an end."""
    machine = code.executable(device.arch)
    arguments = execution_arguments(code.program(device.arch).parameters, launch)
    side_by_side = max(1, _THREADS // launch.threads_per_block)
    left = lane_instructions
    for first in range(0, launch.blocks, side_by_side):
        blocks = range(first, min(first + side_by_side, launch.blocks))
        limits = ExecutionLimits(lane_instructions=left, instructions=lane_instructions)
        done = execute(machine, launch, arguments, blocks, limits)
        left -= done.lane_instructions
        if failed := _failure_reason(done, left):
            return LaunchRun({}, failed)
        arguments = _after(arguments, done)
    return LaunchRun(
        {a.name: a.content for a in arguments if isinstance(a, Region) and a.content is not None}
    )


def _failure_reason(done: Execution, left: int) -> str:
    if done.lost:
        return "an instruction could not be followed"
    if left <= 0 or len(done.cut):
        return "it did not come to its end within the limit"
    branches = [mask for place, mask in done.guesses.items() if place in done.taken]
    if branches:
        return f"a branch depends on the content of {', '.join(origins(done, branches[0]))}"
    return ""


def _after(arguments: Sequence[ArgumentValue], done: Execution) -> list[ArgumentValue]:
    """The same arguments, with what the blocks left in memory; a buffer is unknown as a whole."""
    return [_region_after(a, done) if isinstance(a, Region) else a for a in arguments]


def _region_after(region: Region, done: Execution) -> Region:
    if region.content is None:
        return region
    known = not done.unknown.get(region.name)
    return replace(region, content=done.contents[region.name] if known else None)
