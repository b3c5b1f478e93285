"""Plan of one execution: a launch's state, limits, and the operations whose results are needed."""

from __future__ import annotations

from dataclasses import dataclass

from perfassert.engines.execution.presets import Setting
from perfassert.kernel.machine import Kind, MachineInstruction, Micro

CONTROL = frozenset((
    Kind.BRANCH, Kind.BRANCH_DIVERGED, Kind.BRANCH_INDIRECT, Kind.EXIT, Kind.SYNC_WAIT,
    Kind.WARP_WAIT, Kind.BARRIER, Kind.BARRIER_REDUCE, Kind.YIELD, Kind.LOST,
))  # fmt: skip
"""Kinds that end a run of instructions."""


@dataclass(frozen=True, slots=True)
class ExecutionLimits:
    """Limits of an execution; warps are cut when one is exceeded.

    ``lane_instructions`` bounds the instructions of all lanes together. ``instructions`` bounds
    those of one warp. Only instructions that are executed for their results count. ``accesses``
    bounds the warp accesses whose addresses are stored (256 B each).
    """

    lane_instructions: int = 50_000_000
    instructions: int = 4_000_000
    accesses: int = 4_000_000


Step = tuple[int, Micro, bool]
"""Part of an instruction, its operation, and True if the result is needed."""


class ExecutionPlan:
    """A launch, its limits, and the operations to execute.

    ``steps`` holds the steps of each instruction. ``needed`` lists the (instruction, part) pairs
    whose results are needed; None for all.
    """

    def __init__(
        self, setting: Setting, limits: ExecutionLimits, needed: frozenset[tuple[int, int]] | None
    ) -> None:
        self.setting = setting
        self.limits = limits
        self.needed = needed
        instructions = setting.code.instructions
        self.steps = setting.code.found.once(
            (ExecutionPlan, needed),
            lambda: tuple(tuple(_steps(n, i, needed)) for n, i in enumerate(instructions)),
        )


def _steps(
    number: int, instruction: MachineInstruction, needed: frozenset[tuple[int, int]] | None
) -> list[Step]:
    steps = []
    for part, operation in enumerate(instruction.operations):
        wanted = needed is None or (number, part) in needed
        if wanted or operation.memory is not None or operation.kind in CONTROL:
            steps.append((part, operation, wanted))
    return steps
