"""The engine's door: execute some blocks of a launch."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.engines.execution.interpreter import Interpreter, Limits
from perfassert.engines.execution.presets import Argument, Setting
from perfassert.engines.execution.result import Execution
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import MachineCode


def execute(
    code: MachineCode,
    launch: Launch,
    arguments: Sequence[Argument],
    blocks: Sequence[int],
    limits: Limits | None = None,
    needed: frozenset[tuple[int, int]] | None = None,
) -> Execution:
    """Execute ``blocks`` (linear indices, x fastest) side by side.

    ``needed``: the (instruction, part) whose values are wanted, as
    :func:`~perfassert.engines.execution.slicing.control_slice` finds them; None: all.
    """
    setting = Setting(code, launch, arguments, blocks)
    return Interpreter(setting, limits or Limits(), needed).run()
