"""Cost of each line of a compiled kernel, as seen by one warp."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfassert.kernel.description import BoundKernel, CompiledKernel
from perfassert.kernel.executed import Extremes, IssueCounts, SampleWork
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import Program
from perfassert.predictor.answer import Answer
from perfassert.predictor.model import BoundLaunch, model_of
from perfassert.quantity import round_significant
from perfassert.source import SourceSpan

_MOVED = ("wavefronts", "sectors")
_NOTHING = (0.0, 0.0, 0.0)
_Cost = tuple[float, float, float]
_Sums = dict[tuple[str, int], _Cost]


@dataclass(frozen=True, slots=True)
class LineCost:
    """Cost of one source line.

    ``instructions``: issued by a warp that takes every branch that the model takes. ``wavefronts``:
    of L1 and shared memory. ``sectors``: requests of these to the L2. ``called``: the same three of
    functions that were inlined here. ``executed``: what executed warps did, in words, where a
    sample of blocks was executed.
    """

    file: str
    line: int
    instructions: float
    wavefronts: float
    sectors: float
    executed: str = ""
    called: _Cost = _NOTHING


def line_costs(prediction: Answer) -> tuple[LineCost, ...]:
    """Return costs by file and line; empty without compiled code or an origin."""
    if prediction.origin is None or not isinstance(prediction.origin[0], CompiledKernel):
        return ()
    launch, bound_launch = prediction.origin[1], model_of(prediction).bound_launch
    assert isinstance(bound_launch.kernel, BoundKernel)
    own, called = _charge_lines(bound_launch, bound_launch.kernel, launch)
    executed = _execution_texts(bound_launch.kernel.program, bound_launch.kernel.work)
    costs = []
    for at in sorted({*own, *called}):
        instructions, wavefronts, sectors = _round_cost(own.get(at, _NOTHING))
        below = _round_cost(called.get(at, _NOTHING))
        executions = executed.get(at, "")
        costs.append(LineCost(*at, instructions, wavefronts, sectors, executions, below))
    return tuple(costs)


def _charge_lines(
    bound_launch: BoundLaunch, kernel: BoundKernel, launch: Launch
) -> tuple[_Sums, _Sums]:
    """Return the costs of lines themselves, and the costs of code that was inlined into them."""
    graph = kernel.graph.bound(dict(launch.scalar_args()))
    own: _Sums = {}
    called: _Sums = {}
    for node in graph.nodes:
        if node.program < 0 or (span := kernel.program.instructions[node.program].span) is None:
            continue
        times = graph.times(node)
        known = [
            bound_launch.estimate.accesses[n]
            for n in node.touches
            if n in bound_launch.estimate.accesses
        ]
        wavefronts, sectors = (sum(getattr(a, metric) for a in known) for metric in _MOVED)
        cost = (times, times * wavefronts, times * sectors)
        _add(own, [span], cost)
        above = [s for s in kernel.program.instructions[node.program].inlined if s != span]
        _add(called, above, cost)
    return own, called


def _add(sums: _Sums, spans: Iterable[SourceSpan], cost: _Cost) -> None:
    for at in {(span.file, span.line) for span in spans if span.line}:
        sums[at] = _three(a + b for a, b in zip(sums.get(at, _NOTHING), cost, strict=True))


def _round_cost(cost: _Cost) -> _Cost:
    return _three(map(round_significant, cost))


def _three(values: Iterable[float]) -> _Cost:
    first, second, third = values
    return first, second, third


def _execution_texts(program: Program, work: SampleWork | None) -> dict[tuple[str, int], str]:
    """Return a text per line: counts of its most executed instruction, and its most sectors."""
    most: dict[tuple[str, int], IssueCounts] = {}
    sectors: dict[tuple[str, int], Extremes] = {}
    for instruction in program.instructions if work is not None else ():
        issued = None if work is None else work.issued.get(instruction.address)
        span = instruction.span
        if issued is not None and span is not None:
            at = (span.file, span.line)
            most[at] = max(most.get(at, issued), issued, key=lambda x: x.executions[1])
            if issued.sectors is not None:
                sectors[at] = max(
                    sectors.get(at, issued.sectors), issued.sectors, key=lambda x: x[1]
                )
    return {at: _execution_text(issued, sectors.get(at)) for at, issued in most.items()}


def _execution_text(issued: IssueCounts, sectors: Extremes | None) -> str:
    touched = f" and {_extremes(sectors)} sectors" if sectors else ""
    return (
        f"executed {_extremes(issued.executions)} times by a warp, with {_extremes(issued.lanes)} "
        f"active lanes{touched} each time (fewest/median/most)"
    )


def _extremes(values: Extremes) -> str:
    return "/".join(f"{n:.3g}" for n in values)
