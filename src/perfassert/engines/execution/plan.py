"""Plan of one execution: a launch's state, limits, and the operations whose results are needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

import numpy as np

from perfassert.engines.execution.presets import Setting
from perfassert.engines.execution.result import Execution
from perfassert.kernel.machine import WARP_LANES, Kind, MachineCode, MachineInstruction, Micro

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


Needed = Union[frozenset[tuple[int, int]], None]
"""The (instruction, part) pairs whose results are needed; None for all."""
Step = tuple[int, Micro, bool]
"""Part of an instruction, its operation, and True if the result is needed."""


class ExecutionPlan:
    """A launch, its limits, and the operations to execute.

    ``steps`` holds the steps of each instruction. ``needed`` lists the (instruction, part) pairs
    whose results are needed; None for all. ``touches``: the addresses of accesses whose results are
    not needed are recorded, too. ``key`` identifies the steps among those of the same code.
    """

    def __init__(
        self,
        setting: Setting,
        limits: ExecutionLimits,
        needed: Needed,
        touches: bool = True,
    ) -> None:
        self.setting = setting
        self.limits = limits
        self.key = needed, touches
        self.steps = planned_steps(setting.code, needed, touches)


def planned_steps(code: MachineCode, needed: Needed, touches: bool) -> tuple[tuple[Step, ...], ...]:
    """Return the steps of each instruction."""
    return code.found.once(
        (planned_steps, needed, touches),
        lambda: tuple(
            tuple(_steps(n, i, needed, touches)) for n, i in enumerate(code.instructions)
        ),
    )


def _steps(
    number: int, instruction: MachineInstruction, needed: Needed, touches: bool
) -> Iterator[Step]:
    for part, operation in enumerate(instruction.operations):
        wanted = needed is None or (number, part) in needed
        if wanted or acts_on_memory(operation, touches) or operation.kind in CONTROL:
            yield part, operation, wanted


def acts_on_memory(operation: Micro, touches: bool) -> bool:
    """Return True if an operation whose result is not needed is executed for its access.

    ``touches``: all accesses are recorded. What is not translated makes memory unknown in any case.
    """
    return operation.memory is not None and (touches or operation.kind is Kind.UNKNOWN)


def is_sure_to_be_cut(followed: Execution, needed: Needed, limits: ExecutionLimits) -> bool:
    """Return True if an execution for ``needed`` cannot end within its limits.

    ``followed``: that of the same blocks, for what decides the flow of control, as far as it came.
    """
    counted = np.array([bool(own) for own in planned_steps(followed.code, needed, True)])
    # Limits are looked at between runs of instructions. A run ends where an instruction would be
    # executed again, so that each lane executes each instruction once in the last run at most.
    threads = WARP_LANES * len(followed.executed)
    in_all = int(followed.lanes[:, counted].sum())
    return in_all - threads * int(counted.sum()) >= limits.lane_instructions
