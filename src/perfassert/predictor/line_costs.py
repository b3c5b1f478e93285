"""What each line of a compiled kernel costs, as far as one warp is concerned."""

from __future__ import annotations

from dataclasses import dataclass

from perfassert.kernel.description import BoundKernel, CompiledKernel
from perfassert.kernel.executed import Extremes, Issued, Work
from perfassert.kernel.program import Program
from perfassert.prediction.prediction import Prediction
from perfassert.predictor.time import launch_model
from perfassert.quantity import round_significant


@dataclass(frozen=True, slots=True)
class LineCost:
    """One source line. ``instructions``: issued by a warp that takes every branch that the model
    takes; ``wavefronts`` of L1 and shared memory, ``sectors`` that they request of the L2.
    ``executed``: what executed warps did, in words, where a sample of blocks was executed."""

    file: str
    line: int
    instructions: float
    wavefronts: float
    sectors: float
    executed: str = ""


def line_costs(prediction: Prediction) -> tuple[LineCost, ...]:
    """By file and line; none for what is not compiled code, or was not predicted here."""
    if prediction.origin is None or not isinstance(prediction.origin[0], CompiledKernel):
        return ()
    kernel, launch, device = prediction.origin
    case = launch_model(kernel, launch, device).case
    assert isinstance(case.kernel, BoundKernel)
    program = case.kernel.program
    graph = case.kernel.graph.bound(dict(launch.scalar_args()))
    sums: dict[tuple[str, int], list[float]] = {}
    for node in graph.nodes:
        span = program.instructions[node.program].span if node.program >= 0 else None
        if span is None or not span.line:
            continue
        line = sums.setdefault((span.file, span.line), [0.0, 0.0, 0.0])
        times = graph.times(node)
        known = [case.estimate.accesses[n] for n in node.touches if n in case.estimate.accesses]
        line[0] += times
        line[1] += times * sum(access.wavefronts for access in known)
        line[2] += times * sum(access.sectors for access in known)
    executed = _executed(program, case.kernel.work)
    found = []
    for at in sorted(sums):
        instructions, wavefronts, sectors = map(round_significant, sums[at])
        found.append(LineCost(*at, instructions, wavefronts, sectors, executed.get(at, "")))
    return tuple(found)


def _executed(program: Program, work: Work | None) -> dict[tuple[str, int], str]:
    """Of the instruction of each line that warps execute most, and the most sectors of any."""
    most: dict[tuple[str, int], Issued] = {}
    sectors: dict[tuple[str, int], Extremes] = {}
    for instruction in program.instructions if work is not None else ():
        one = None if work is None else work.issued.get(instruction.address)
        span = instruction.span
        if one is not None and span is not None:
            at = (span.file, span.line)
            most[at] = max(most.get(at, one), one, key=lambda x: x.executions[1])
            if one.sectors is not None:
                sectors[at] = max(sectors.get(at, one.sectors), one.sectors, key=lambda x: x[1])
    return {at: _told(one, sectors.get(at)) for at, one in most.items()}


def _told(one: Issued, sectors: Extremes | None) -> str:
    touched = f" and {_extremes(sectors)} sectors" if sectors else ""
    return (
        f"executed {_extremes(one.executions)} times by a warp, with {_extremes(one.lanes)} "
        f"active lanes{touched} each time (fewest/median/most)"
    )


def _extremes(values: Extremes) -> str:
    return "/".join(f"{n:.3g}" for n in values)
