"""Execution counts of warps in code whose execution depends on data, from executed blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perfassert.kernel.executed import SampleWork
from perfassert.kernel.graph import InstructionGraph
from perfassert.kernel.program import Program

FloatArray = npt.NDArray[np.float64]
_AGREES = 0.2
"""Largest relative difference at which a simulated block stands for executed ones."""


class Counts:
    """Execution counts of instructions by warp of the simulated block, the busiest warp first.

    A called function has a copy for each of its calls, all at the same addresses. What was executed
    there is divided among the copies as the calls were executed.
    """

    def __init__(self, program: Program, work: SampleWork | None, warps: int) -> None:
        self.program = program
        self.work = work
        self.warps = warps
        self.copies: dict[int, list[int]] = {}
        self.shares: dict[int, FloatArray | None] = {}
        for instruction in program.instructions if work is not None else ():
            self.copies.setdefault(instruction.address, []).append(instruction.index)
        self.fenced = {
            block.loop
            for block in program.blocks.values()
            if any(program.instructions[i].fence for i in range(block.start, block.stop))
        } if work is not None else set()  # fmt: skip

    def of(self, instruction: int) -> FloatArray | None:
        """Return the executions of an instruction by each warp; None if they are not known."""
        own = self.program.instructions[instruction]
        counts = None if self.work is None else self.work.counts.get(own.address)
        if counts is None or len(counts) != self.warps:
            return None
        executed = np.array(counts)
        copies = self.copies[own.address]
        if len(copies) == 1 or not executed.any():
            return executed
        if own.call not in self.shares:
            self.shares[own.call] = self._share_of_call(own.call, copies)
        share = self.shares[own.call]
        return None if share is None else executed * share

    def _share_of_call(self, call: int, copies: Sequence[int]) -> FloatArray | None:
        """Return a call's share of all calls, by warp; ``copies``: an instruction per call."""
        calls: dict[int, FloatArray] = {}
        for copy in copies:
            around = self.program.instructions[copy].call
            counts = None if around < 0 else self.of(around)
            if counts is None:
                return None
            calls[around] = counts
        whole = np.sum(list(calls.values()), axis=0)
        share: FloatArray = np.zeros(self.warps)
        np.divide(calls[call], whole, out=share, where=whole > 0)
        return share

    def per(self, instruction: int, loop: int) -> FloatArray | None:
        """Return the executions for each iteration of a loop around the instruction (-1: for each
        run of the kernel)."""
        header = self.program.loops[loop].header if loop >= 0 else self.program.order[0]
        own, around = self.of(instruction), self.of(self.program.blocks[header].start)
        if own is None or around is None:
            return None
        return np.divide(own, around, out=np.zeros_like(own), where=around > 0)

    def warps_of(self, instruction: int, loop: int) -> float | None:
        """Return the warps that execute the instruction, on average, per iteration of a loop."""
        shares = self.per(instruction, loop)
        return None if shares is None else float(np.minimum(shares, 1.0).sum())

    def busiest_warps(self, instruction: int, loop: int, place: float) -> frozenset[int] | None:
        """Return the warps that execute the instruction most often.

        As many as do so on average: one of them only in a part of the iterations, which ``place``,
        between 0 and 1, distinguishes.
        """
        shares, mean = self.per(instruction, loop), self.warps_of(instruction, loop)
        if shares is None or mean is None:
            return None
        count = int(mean) + (mean % 1 > place)
        order = np.argsort(-shares, kind="stable")
        return frozenset(order[:count].tolist())

    def trips(self, loop: int) -> tuple[int, ...] | None:
        """Iterations of each warp for each run of what is around the loop, in integers whose
        sum is right; None where a barrier keeps the warps together."""
        if self.meets(loop):
            return None
        own = self.program.loops[loop]
        per_run = self.per(self.program.blocks[own.header].start, own.parent)
        if per_run is None:
            return None
        ends = np.rint(np.cumsum(per_run)).astype(np.int64)
        return tuple(np.diff(ends, prepend=0).tolist())

    def meets(self, loop: int) -> bool:
        """Return True if a barrier is in the loop."""
        return any(loop in self.program.chain(inner) for inner in self.fenced)


def contradiction(
    graph: InstructionGraph, work: SampleWork | None, warps: int, share: float, idle: float
) -> str:
    """Return a text if executed blocks issue another number of instructions than the simulated.

    ``share``: so many blocks like that of the graph, for each one of the launch, do all the work;
    ``idle``: of the launch, blocks with nothing to do, as the shortest of the executed ones.
    """
    executed = 0.0 if work is None else sum(float(np.sum(n)) for n in work.counts.values())
    if work is None or not executed:
        return ""
    issued = sum(graph.executions(node, warps) for node in graph.nodes)
    mean = share * issued + idle * min(work.blocks) * executed
    if abs(mean / executed - 1) <= _AGREES:
        return ""
    return f"{mean:.4g} instructions of a block are simulated, executed ones have {executed:.4g}"
