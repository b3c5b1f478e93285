"""Results of a simulation: exact totals of its events, a profile by node, and a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfassert.engines.pipeline.configuration import Unit
from perfassert.errors import GraphError


def deadlock(node: int) -> GraphError:
    """Return the error of a simulation in which nothing can happen any more.

    ``node``: graph node at which a warp waits.
    """
    return GraphError(
        f"node {node} waits for a phase that is never complete: too few arrivals or copies "
        "on its channel, or warps that wait for one another"
    )


MOST_EVENTS = 2**20
"""Largest number of events of a trace, which are all kept in memory."""


def trace_full() -> GraphError:
    """Return the error of a traced window with more than :data:`MOST_EVENTS` events."""
    return GraphError(
        f"the trace has more than {MOST_EVENTS} events; give a shorter window, or fewer blocks"
    )


@dataclass(frozen=True, slots=True)
class EventTotals:
    """Exact totals of the events of a simulated SM.

    Cycles of warps are summed over all warps of all blocks. Except for ``resident``, they are
    counted for in-order issue only.

    Attributes:
        issued: operation class → instructions.
        busy: pipeline → cycles, summed over its copies.
        blocks_launched, blocks_retired: number of blocks.
        dependence: operation class → cycles of warps that waited for a value of that class;
            ``"barrier"``: cycles of warps that waited for their block.
        blamed: the cycles of ``dependence`` by node of the graph.
        pipeline: pipeline → cycles of warps that were ready, while the pipeline or the issue slot
            was not.
        not_selected: cycles of warps whose slot another warp took (with an issue width of one).
        drained: cycles of warps that had issued everything, while their block was not complete.
        resident: cycles of warps on the SM.
    """

    issued: Mapping[str, int]
    busy: Mapping[str, float]
    blocks_launched: int
    blocks_retired: int
    dependence: Mapping[str, float]
    blamed: Mapping[int, float]
    pipeline: Mapping[str, float]
    not_selected: float
    drained: float
    resident: float

    @property
    def completed(self) -> int:
        """Number of completed instructions, which are all that were issued."""
        return sum(self.issued.values())


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An event of a traced window of a simulation.

    Attributes:
        time: in cycles.
        kind: ``launched``, ``issued``, ``completed``, ``barrier`` (its last warp has arrived) or
            ``retired``.
        block: number of the block.
        warp: number of the warp in its block; 0 for an event of the whole block.
        node: index in the graph, or -1.
    """

    time: float
    kind: str
    block: int
    warp: int
    node: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """Result of :func:`perfassert.simulate`: one SM of the pipeline model.

    Attributes:
        cycles: until every node is complete.
        instructions: issued by all warps, barriers included.
        events: exact totals: issued and completed instructions, busy cycles by pipeline, blocks,
            and for in-order issue the cycles of the warps by cause.
        skipped: fraction of the instructions that fast-forward did not have to simulate.
        engine: ``"compiled"``, or ``"reference"`` if the extension was not built.
        trace: events of the requested window, sorted by time: ``time`` in cycles,
            ``kind``, ``block``, ``warp`` and ``node``.

    Example:
        >>> import perfassert as pa
        >>> g = pa.InstructionGraph.builder()
        >>> _ = g.op("fmadd", g.op("mem"))
        >>> latencies = {"mem": pa.Latency(23, 521), "fmadd": pa.Latency(1, 18)}
        >>> result = pa.simulate(g.build(), 2, 3, 1, latencies)
        >>> result.cycles, result.instructions, result.events.busy["mem"]
        (1686.0, 12, 138.0)
    """

    cycles: float
    instructions: int
    events: EventTotals
    skipped: float
    engine: str
    trace: tuple[TraceEvent, ...] = ()


@dataclass(slots=True)
class WaitTicks:
    """Ticks that warps spent at one node before they issued it, by cause.

    ``issued`` counts the issues. ``stall``: the stall count of the instruction before.
    ``not_selected``: another warp took the slot. ``pipe``: the pipeline was busy or its queue full.
    ``fence``: waiting at a barrier, or before it for earlier instructions. ``…_idle``: the part in
    which the scheduler issued nothing.
    """

    issued: int = 0
    stall: int = 0
    stall_idle: int = 0
    not_selected: int = 0
    pipe: int = 0
    pipe_idle: int = 0
    fence: int = 0
    fence_idle: int = 0

    def add(self, other: Sequence[int]) -> None:
        """Add counts in the order of the fields."""
        for name, value in zip(self.__slots__, other, strict=True):
            setattr(self, name, getattr(self, name) + value)


@dataclass(slots=True)
class StallProfile:
    """Time of the warps by graph node, and by (waiting node, producer).

    ``waits`` holds the ticks, and the part of them in which the scheduler issued nothing. The idle
    ticks of a scheduler during the whole wait before an issue are exact. They are divided between
    the stall count and the producer by the lengths of the two waits.
    """

    spent: dict[int, WaitTicks] = field(default_factory=dict)
    waits: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def at(self, node: int) -> WaitTicks:
        """Return the counts of a node."""
        return self.spent.setdefault(node, WaitTicks())

    def wait(self, use: int, producer: int, ticks: int, idle: int) -> None:
        """Add to the ticks that ``use`` waited for ``producer``."""
        before = self.waits.get((use, producer), (0, 0))
        self.waits[use, producer] = (before[0] + ticks, before[1] + idle)


@dataclass(slots=True)
class Duration:
    """The end of a run in ticks, and its instructions, of which so many were ``simulated``.

    ``half_time`` and ``half_count`` are the end and the instructions of the first half of a limited
    simulation, if it was cut short.
    """

    end: int = 0
    instructions: int = 0
    simulated: int = 0
    cut_short: bool = False
    half_time: int = 0
    half_count: int = 0


@dataclass(slots=True, kw_only=True)
class Totals(Duration):
    """Counts and ticks, by operation class and by pipeline; ``dependence`` is by graph node."""

    issued: Sequence[int]
    busy: Sequence[int]
    launched: int = 0
    retired: int = 0
    dependence: Sequence[int]
    pipeline: Sequence[int]
    not_selected: int = 0
    drained: int = 0
    resident: int = 0
    profile: StallProfile | None = None
    trace: list[TraceEvent] = field(default_factory=list)

    def simulation(self, unit: Unit, engine: str) -> Simulation:
        """Return the public result, in cycles."""
        ticks = unit.pipelines.ticks
        operations, names = unit.pipelines.operations, unit.pipelines.names
        count = self.instructions
        blamed = {node: d / ticks for node, d in enumerate(self.dependence) if d}
        events = EventTotals(
            issued=dict(zip(operations, self.issued, strict=True)),
            busy={n: b / ticks for n, b in zip(names, self.busy, strict=True)},
            blocks_launched=self.launched,
            blocks_retired=self.retired,
            dependence=self._by_operation(unit, blamed),
            blamed=blamed,
            pipeline={n: p / ticks for n, p in zip(names, self.pipeline, strict=True)},
            not_selected=self.not_selected / ticks,
            drained=self.drained / ticks,
            resident=self.resident / ticks,
        )
        skipped = 1 - self.simulated / count if count else 0.0
        return Simulation(self.end / ticks, count, events, skipped, engine, tuple(self.trace))

    @staticmethod
    def _by_operation(unit: Unit, blamed: Mapping[int, float]) -> dict[str, float]:
        operation = {node: cost.operation for node, cost in unit.node_costs}
        sums = dict.fromkeys(unit.pipelines.operations, 0.0)
        for node, cycles in blamed.items():
            sums[unit.pipelines.operations[operation[node]]] += cycles
        return sums
