"""Entry point of the pipeline engine: simulate one SM of the pipeline model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.program import compile_programs
from perfassert.engines.pipeline.results import Duration, Simulation, Totals
from perfassert.errors import GraphError, LaunchError, PerfAssertError, in_short
from perfassert.kernel.graph import MOST_WARPS, InstructionGraph, Latency, LatencyRule
from perfassert.quantity import to_boolean, to_integer

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
    """Simulate one SM that executes blocks of an instruction graph, without a device.

    Args:
        graph: an instruction graph whose trip counts are numbers.
        warps_per_block: warps of a block.
        blocks: blocks that the SM has to execute.
        resident_blocks: blocks that it holds at a time.
        latencies: operation class → :class:`Latency` in cycles, or a function of the resident warps
            that returns one; for all classes of the graph, ``"barrier"`` included.
        issue_order: ``"dataflow"`` (the default): a free pipeline takes any ready instruction.
            ``"in-order"``: each warp issues in program order, as hardware does.
        scheduler: ``"loose-round-robin"`` (the default) or ``"greedy-then-oldest"``.
        schedulers: warp schedulers of the SM. Default: 1.
        issue_width: instructions that a scheduler issues in a cycle, at whole cycles. Default
            (None): no limit, at any time.
        fast_forward: skip exact periods, which changes no result. Default: True.
        trace: ``(start, end)`` in cycles: list the events of this window, for which nothing is
            skipped; at most 2²⁰ of them. Default: none.

    Returns:
        A :class:`Simulation`: cycles, instructions, and totals of events.

    Raises:
        GraphError: an operation class without a latency, trip counts that are expressions, an
            argument that is impossible, a deadlock at a channel, a trace of too many events, or
            more instructions than can be simulated one by one.

    Example:
        >>> import perfassert as pa
        >>> g = pa.InstructionGraph.builder()
        >>> _ = g.op("store", g.op("load"), produces=False)
        >>> latencies = {"load": pa.Latency(4, 400, "mem"), "store": pa.Latency(4, 200, "mem")}
        >>> [pa.simulate(g.build(), warps, 1, 1, latencies).cycles for warps in (1, 64)]
        [404.0, 656.0]

    Source:
        Cornelis and Lemeire, *The Pipeline Performance Model*, Algorithm 1 (dataflow order).
        Rogers, O'Connor and Aamodt, MICRO 2012 (greedy-then-oldest).
    """
    unit = make_unit(
        graph, warps_per_block, blocks, resident_blocks, latencies,
        issue_order, scheduler, schedulers, issue_width,
    )  # fmt: skip
    window = (0, 0) if trace is None else _window(trace, unit.pipelines.ticks)
    return run_unit(unit, to_boolean(fast_forward, "fast_forward", GraphError), window)


def _window(trace: tuple[float, float], ticks: int) -> tuple[int, int]:
    try:
        start, end = (int(t * ticks) for t in trace)
    except (TypeError, ValueError, OverflowError):
        raise GraphError(f"trace must be (start, end) in cycles, not {in_short(trace)}") from None
    return start, end


def run_unit(unit: Unit, fast_forward: bool, window: tuple[int, int] = (0, 0)) -> Simulation:
    """Run a unit on the compiled engine, or on the reference engine if that was not built.

    Raises :class:`GraphError` if so many instructions would be simulated one by one that the run
    would take minutes.
    """
    from perfassert.engines.pipeline.compiled import available, fits, run_compiled

    if available() and fits(unit):
        most = _MOST_SIMULATED["in-order" if unit.in_order else "dataflow"]
        totals = run_compiled(unit, fast_forward, most, window)
        if totals.cut_short:
            raise _too_long(f"over {most}")
        return totals.simulation(unit, "compiled")
    count = sum(unit.programs[v].length for v in unit.variant) * unit.blocks
    if count > _REFERENCE_LONGEST:
        raise _too_long(f"{count}")
    from perfassert.engines.pipeline.reference import Reference

    return Reference(unit, window).run().simulation(unit, "reference")


def _too_long(count: str) -> GraphError:
    return GraphError(
        f"{count} instructions would have to be simulated one by one; "
        "give fewer blocks, or loops with fewer trips"
    )


def run_bounded(unit: Unit, limit: int) -> Duration:
    """Run at most about ``limit`` instructions; the duration says if they were cut short.

    If times do not fit into the compiled engine, only as many blocks run as the reference engine
    can simulate in a moment.

    Raises:
        LaunchError: a few blocks are too much for the reference engine.
        PerfAssertError: the compiled engine is not installed. The reference engine would be cut
            short earlier and give a different time.
    """
    from perfassert.engines.pipeline.compiled import fits, time_compiled

    _require_compiled()
    return time_compiled(unit, limit) if fits(unit) else _run_few(unit)


def content_of(unit: Unit, limit: int) -> bytes | None:
    """Return a key of all that :func:`run_bounded` depends on; None where it has no short one."""
    from perfassert.engines.pipeline import compiled

    return compiled.content_of(unit, limit) if compiled.fits(unit) else None


def profile_bounded(unit: Unit, limit: int) -> Totals:
    """Run as :func:`run_bounded`, with the time of the warps at each node."""
    from perfassert.engines.pipeline.compiled import fits, run_compiled

    _require_compiled()
    unit = replace(unit, profile=True)
    return run_compiled(unit, True, limit) if fits(unit) else _run_few(unit)


def _require_compiled() -> None:
    from perfassert.engines.pipeline.compiled import available

    if not available():
        raise PerfAssertError(MISSING_ENGINE)


def _run_few(unit: Unit) -> Totals:
    """Run as many blocks as the reference engine can simulate in a moment."""
    from perfassert.engines.pipeline.reference import Reference

    length = unit.block_length
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


MISSING_ENGINE = (
    "perfassert was installed without its compiled engine, which predictions need; install a wheel "
    "for this platform, or a C++17 compiler, then: pip install --force-reinstall --no-deps "
    "--no-cache-dir perfassert"
)
_MOST_SCHEDULERS = 2**10
_MOST_SIMULATED = {"in-order": 2**26, "dataflow": 2**23}  # a minute at most
_REFERENCE_INSTRUCTIONS = 30_000
_REFERENCE_LONGEST = 3_000_000
"""Largest number of instructions of a wave, which the reference engine keeps in memory."""


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
    """Check the arguments and compile the graph; ``queues``: places behind each pipeline."""
    if not isinstance(graph, InstructionGraph):
        raise GraphError(f"graph must be built with builder().build(), not {in_short(graph)}")
    blocks = to_integer(blocks, "blocks", GraphError, 1)
    resident_blocks = min(to_integer(resident_blocks, "resident_blocks", GraphError, 1), blocks)
    warps_per_block = to_integer(warps_per_block, "warps_per_block", GraphError, 1, MOST_WARPS)
    schedulers = to_integer(schedulers, "schedulers", GraphError, 1, _MOST_SCHEDULERS)
    if issue_width is not None:
        issue_width = to_integer(issue_width, "issue_width", GraphError, 1)
    if warps_per_block * resident_blocks > MOST_WARPS:
        raise GraphError(
            f"{resident_blocks} resident blocks of {warps_per_block} warps are more than the "
            f"{MOST_WARPS} warps that are simulated together"
        )
    for name, choice, known in (
        ("issue_order", issue_order, ORDERS),
        ("scheduler", scheduler, SCHEDULERS),
    ):
        if not isinstance(choice, str) or choice not in known:
            raise GraphError(f"{name} must be one of {', '.join(known)}, not {in_short(choice)}")
    if not isinstance(latencies, Mapping):
        raise GraphError(
            f"latencies must map operation classes to Latency, not {in_short(latencies)}"
        )
    resident_warps = warps_per_block * resident_blocks
    fixed = {
        name: rule(resident_warps) if callable(rule) else rule for name, rule in latencies.items()
    }
    for name, latency in fixed.items():
        if not isinstance(latency, Latency):
            raise GraphError(
                f"latency of {in_short(name)} must be a Latency, not {in_short(latency)}"
            )
    programs, variant, pipelines = compile_programs(graph, warps_per_block, fixed, queues or {})
    return Unit(
        programs=programs,
        variant=variant,
        pipelines=pipelines,
        blocks=blocks,
        resident=resident_blocks,
        in_order=issue_order == "in-order",
        oldest_first=scheduler == "greedy-then-oldest",
        schedulers=schedulers,
        width=issue_width or 0,
        channels=tuple(channel.arrivals for channel in graph.channels),
    )
