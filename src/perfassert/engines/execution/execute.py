"""Entry point of the execution engine: execute some blocks of a launch."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.engines.execution.compiled import available, run_compiled
from perfassert.engines.execution.interpreter import Interpreter
from perfassert.engines.execution.memory import GlobalMemory
from perfassert.engines.execution.plan import ExecutionLimits, ExecutionPlan
from perfassert.engines.execution.presets import ArgumentValue, Setting
from perfassert.engines.execution.reads import Reads, note_reads
from perfassert.engines.execution.result import Execution
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import MachineCode


def execute(
    code: MachineCode,
    launch: Launch,
    arguments: Sequence[ArgumentValue],
    blocks: Sequence[int],
    limits: ExecutionLimits | None = None,
    needed: frozenset[tuple[int, int]] | None = None,
    compiled: bool = True,
    memory: GlobalMemory | None = None,
    reads: Reads | None = None,
    touches: bool = True,
) -> Execution:
    """Execute ``blocks`` (linear indices, x fastest) concurrently.

    ``needed``: the (instruction, part) pairs whose values are computed, as returned by
    :func:`~perfassert.engines.execution.slicing.control_slice`; None for all. ``compiled``: use the
    compiled engine if it was built. The two engines have bit-identical results. ``memory``: buffers
    as an earlier execution with the same arguments left them; the execution changes them.
    ``reads``: collects the pages of buffers that are read. ``touches``: record the addresses of
    accesses whose values are not needed, too.
    """
    setting = Setting(code, launch, arguments, blocks, memory)
    plan = ExecutionPlan(setting, limits or ExecutionLimits(), needed, touches)
    done = run_compiled(plan) if compiled and available() else Interpreter(plan).run()
    if reads is not None:
        note_reads(reads, done, needed)
    return done
