"""``simulate``: one compute unit of the pipeline model, alone."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.program import compile_programs
from perfassert.engines.pipeline.reference import Reference
from perfassert.engines.pipeline.results import Simulation, Totals
from perfassert.errors import GraphError, LaunchError
from perfassert.kernel.graph import InstructionGraph, Latency, LatencyRule

ORDERS = ("dataflow", "in-order")
SCHEDULERS = ("loose-round-robin", "greedy-then-oldest")


def simulate(
    graph: InstructionGraph,
    warps_per_block: int,
    blocks: int,
    resident_blocks: int,
    latencies: Mapping[str, LatencyRule],
    issue_order: str = "dataflow",
    scheduler: str = "loose-round-robin",
    schedulers: int = 1,
    issue_width: int | None = None,
    fast_forward: bool = True,
    trace: tuple[float, float] | None = None,
) -> Simulation:
    """Simulate ``blocks`` blocks of which ``resident_blocks`` are resident.

    ``latencies``: class → :class:`Latency`, or a function of the resident warps that gives one.
    ``issue_order="dataflow"`` is the paper's Algorithm 1; ``"in-order"`` issues each warp in
    program order. ``issue_width``: instructions per scheduler and cycle, at whole cycles; without
    it there is no limit. ``fast_forward`` skips exact periods and changes no result. ``trace``:
    events between two times in cycles, for which nothing is skipped.

    Raises :class:`~perfassert.errors.GraphError` for an operation class without a latency or
    impossible arguments.
    """
    unit = make_unit(
        graph, warps_per_block, blocks, resident_blocks, latencies,
        issue_order, scheduler, schedulers, issue_width,
    )  # fmt: skip
    if trace is not None:
        try:
            start, end = (int(t * unit.pipelines.ticks) for t in trace)
        except (TypeError, ValueError, OverflowError):
            raise GraphError(f"trace must be (start, end) in cycles, not {trace!r}") from None
        return run_unit(unit, fast_forward, (start, end))
    return run_unit(unit, fast_forward)


def run_unit(unit: Unit, fast_forward: bool, window: tuple[int, int] = (0, 0)) -> Simulation:
    """Run on the compiled engine, or on its reference where there is none."""
    from perfassert.engines.pipeline.compiled import available, fits, run_compiled

    if available() and fits(unit):
        return run_compiled(unit, fast_forward, window=window).simulation(unit, "compiled")
    return Reference(unit, window).run().simulation(unit, "reference")


def run_bounded(unit: Unit, limit: int) -> Totals:
    """Run at most about ``limit`` instructions; the totals say if they were cut short.

    Without the compiled engine, or where times do not fit into it, only as many blocks run as the
    reference can take in a moment. Raises :class:`LaunchError` where a few are too much for it.
    """
    from dataclasses import replace

    from perfassert.engines.pipeline.compiled import available, fits, run_compiled

    if available() and fits(unit):
        return run_compiled(unit, True, limit)
    length = sum(unit.programs[v].length for v in unit.variant)
    if length * unit.resident > _REFERENCE_LONGEST:
        raise LaunchError(
            f"a block would run {length} instructions, more than can be simulated; is an argument "
            "or a trip count wrong?"
        )
    waves = max(2, _REFERENCE_INSTRUCTIONS // max(1, length * unit.resident))
    blocks = min(unit.blocks, waves * unit.resident)
    totals = Reference(replace(unit, blocks=blocks)).run()
    if blocks < unit.blocks:
        half = Reference(replace(unit, blocks=-(-blocks // 2))).run()
        totals.cut_short = True
        totals.half_time, totals.half_count = half.end, half.simulated
    return totals


_REFERENCE_INSTRUCTIONS = 30_000
_REFERENCE_LONGEST = 3_000_000
"""Instructions of a wave, which the reference keeps all in memory."""


def make_unit(
    graph: InstructionGraph,
    warps_per_block: int,
    blocks: int,
    resident_blocks: int,
    latencies: Mapping[str, LatencyRule],
    issue_order: str,
    scheduler: str,
    schedulers: int,
    issue_width: int | None,
    queues: Mapping[str, int] | None = None,
) -> Unit:
    """Check the arguments and compile the graph; ``queues``: places behind a pipeline."""
    if not isinstance(graph, InstructionGraph):
        raise GraphError(f"graph must be built with builder().build(), not {graph!r}")
    counts = {
        "warps_per_block": warps_per_block,
        "blocks": blocks,
        "resident_blocks": resident_blocks,
        "schedulers": schedulers,
    }
    if issue_width is not None:
        counts["issue_width"] = issue_width
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise GraphError(f"{name} must be a whole number of at least 1, not {value!r}")
    for name, choice, known in (
        ("issue_order", issue_order, ORDERS),
        ("scheduler", scheduler, SCHEDULERS),
    ):
        if choice not in known:
            raise GraphError(f"{name} must be one of {', '.join(known)}, not {choice!r}")
    resident_warps = warps_per_block * min(blocks, resident_blocks)
    fixed = {
        name: rule(resident_warps) if callable(rule) else rule for name, rule in latencies.items()
    }
    for name, latency in fixed.items():
        if not isinstance(latency, Latency):
            raise GraphError(f"latency of {name!r} must be a Latency, not {latency!r}")
    programs, variant, pipelines = compile_programs(graph, warps_per_block, fixed, queues or {})
    return Unit(
        programs=programs,
        variant=variant,
        pipelines=pipelines,
        blocks=blocks,
        resident=min(resident_blocks, blocks),
        in_order=issue_order == "in-order",
        oldest_first=scheduler == "greedy-then-oldest",
        schedulers=schedulers,
        width=issue_width or 0,
        channels=tuple(channel.arrivals for channel in graph.channels),
    )
