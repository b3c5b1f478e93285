"""Program of one warp: an instruction graph compiled for the simulator.

Nodes that the warp does not execute are removed, and so are loops without iterations. Latencies are
integers of ticks. Each dynamic instruction has a number in program order, which follows from its
loop counters.

A program is an outline with costs and trips. Outlines are kept with the graph: launches that
execute the same instructions share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import NamedTuple, Union

from perfassert.engines.pipeline.phases import ProgramSignal, program_signals
from perfassert.errors import GraphError
from perfassert.kernel.graph import (
    BodyItem,
    InstructionGraph,
    ItemKind,
    Latency,
    Node,
    loop_chain,
)
from perfassert.kernel.memo import Memo

NO_LOOP = -1  # index
SERVER = -1  # in place of a warp's number
_MAX_PIPELINES = 64  # the compiled engine stores a scheduler's active pipelines in one word


class OutlineNode(NamedTuple):
    """A node without its cost.

    ``stall`` is in cycles. ``sources`` lists (producer, loop, distance) per edge.
    """

    graph_node: int
    loop: int
    fence: bool
    partial: bool
    stall: int
    sources: tuple[tuple[tuple[int, int, int], ...], ...]


class NodeCost(NamedTuple):
    """Cost of a node, which many nodes may share; ``issue`` and ``completion`` are in ticks.

    ``demands`` lists (server, ticks), which follow one another and take ``served`` ticks at least.
    """

    operation: int
    pipeline: int
    issue: int
    completion: int
    produces: bool
    demands: tuple[tuple[int, int], ...]
    served: int


class ProgramNode(NamedTuple):
    """A node of a program, with its cost.

    ``stall`` is in ticks. ``signal`` is the effect on a channel, which alone depends on how often
    loops run.
    """

    graph_node: int
    operation: int
    pipeline: int
    issue: int
    completion: int
    loop: int
    fence: bool
    partial: bool
    stall: int
    produces: bool
    demands: tuple[tuple[int, int], ...]
    served: int
    sources: tuple[tuple[tuple[int, int, int], ...], ...]
    signal: ProgramSignal | None = None


@dataclass(frozen=True, slots=True)
class WarpLoop:
    """A loop with ``length`` dynamic instructions per iteration.

    ``graph_loop`` is its number in the graph, ``offset`` its place in an iteration of its parent.
    """

    graph_loop: int
    parent: int
    trips: int
    body: tuple[BodyItem, ...]
    length: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ProgramOutline:
    """Nodes and loops of one warp in program order, with what each node waits for.

    It has neither costs nor trips, which are 0 in its loops. A loop is after the one around it.
    ``places``: node of the graph → its place. ``graph_nodes`` is the largest number of a node in
    the graph, plus one. ``found`` holds what follows from the outline alone.
    """

    nodes: tuple[OutlineNode, ...]
    loops: tuple[WarpLoop, ...]
    body: tuple[BodyItem, ...]
    places: Mapping[int, int]
    graph_nodes: int = field(init=False)
    found: Memo = field(init=False, default_factory=Memo, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph_nodes", 1 + max(self.places, default=-1))


@dataclass(frozen=True, slots=True, eq=False)
class WarpProgram:
    """Instructions of one warp: an outline with a cost for each node, ``length`` dynamic ones.

    ``signals``: effects of nodes on channels. ``ticks``: of a cycle. ``slowest`` is the largest
    number of ticks of an instruction. ``found`` holds what follows from the program alone. Programs
    are compared by identity.
    """

    outline: ProgramOutline
    costs: tuple[NodeCost, ...]
    loops: tuple[WarpLoop, ...]
    signals: Mapping[int, ProgramSignal]
    length: int
    ticks: int
    slowest: int = field(init=False)
    found: Memo = field(init=False, default_factory=Memo, repr=False)

    def __post_init__(self) -> None:
        times = [cost.issue + cost.completion + cost.served for cost in self.costs]
        object.__setattr__(self, "slowest", max(times, default=0))

    @property
    def body(self) -> tuple[BodyItem, ...]:
        """Top level of the program."""
        return self.outline.body

    @property
    def nodes(self) -> tuple[ProgramNode, ...]:
        """The nodes with their costs, in program order."""
        return self.found.once("nodes", lambda: tuple(self._nodes()))

    def _nodes(self) -> Iterator[ProgramNode]:
        for index, (node, cost) in enumerate(zip(self.outline.nodes, self.costs, strict=True)):
            yield ProgramNode(
                node.graph_node,
                cost.operation,
                cost.pipeline,
                cost.issue,
                cost.completion,
                node.loop,
                node.fence,
                node.partial,
                node.stall * self.ticks,
                cost.produces,
                cost.demands,
                cost.served,
                node.sources,
                self.signals.get(index),
            )

    def with_later_completions(self, growth: Mapping[int, int]) -> WarpProgram:
        """Return the program in which nodes of the graph are complete so many ticks later."""
        costs = list(self.costs)
        for number, ticks in growth.items():
            place = self.outline.places.get(number)
            if place is not None:
                cost = costs[place]
                costs[place] = cost._replace(completion=cost.completion + ticks)
        return replace(self, costs=tuple(costs))

    def chain(self, loop: int) -> tuple[int, ...]:
        """Return the loop and the loops around it, outermost first."""
        return loop_chain(self.loops, loop)


@dataclass(frozen=True, slots=True)
class Pipelines:
    """Names and scopes of the pipelines, operation classes, and ticks per cycle.

    ``depths`` holds the places of the queue behind each pipeline (0: none). ``SERVER`` marks a
    server: nothing is issued to it, but instructions pass through it.
    """

    names: tuple[str, ...]
    per_scheduler: tuple[bool, ...]
    operations: tuple[str, ...]
    ticks: int
    depths: tuple[int, ...]


def compile_programs(
    graph: InstructionGraph,
    warps_per_block: int,
    latencies: Mapping[str, Latency],
    queues: Mapping[str, int],
) -> tuple[tuple[WarpProgram, ...], tuple[int, ...], Pipelines]:
    """Return the programs, the number of the program of each warp of a block, and the pipelines.

    ``queues``: pipeline → places of the queue between the pipeline and the first server.

    Raises :class:`GraphError` for an operation class without a latency.
    """
    partial = _partial_nodes(graph)
    for index in partial:
        node = graph.nodes[index]
        if node.warps and max(node.warps) >= warps_per_block:
            raise GraphError(
                f"{node}: only() names warp {max(node.warps)}, a block has {warps_per_block}"
            )
    kinds = [(n.operation, n.latency, n.demands, n.produces) for n in graph.nodes]
    pipelines, costs = _costs(graph, dict.fromkeys(kinds), latencies, queues)
    programs: dict[tuple[tuple[bool, ...], tuple[int, ...]], int] = {}
    made: list[WarpProgram] = []
    variant = []
    alike = not partial and not any(loop.each for loop in graph.loops)
    for warp in range(1 if alike else warps_per_block):
        present = tuple(warp in (graph.nodes[index].warps or ()) for index in partial)
        key = present, tuple(graph.trips_of(loop.index, warp) for loop in graph.loops)
        if key not in programs:
            programs[key] = len(made)
            outline = _outline(graph, present, tuple(trips > 0 for trips in key[1]))
            own = tuple([costs[kinds[node.graph_node]] for node in outline.nodes])
            made.append(_lay_out(graph, outline, own, pipelines.ticks, warp))
        variant.append(programs[key])
    variant *= warps_per_block // len(variant)
    check_arrivals(graph, [made[v] for v in variant])
    return tuple(made), tuple(variant), pipelines


def _partial_nodes(graph: InstructionGraph) -> tuple[int, ...]:
    """Return the nodes that only some warps execute."""
    nodes = graph.nodes
    return graph.outlines.once(
        "partial", lambda: tuple(n.index for n in nodes if n.warps is not None)
    )


def with_trips(
    programs: Sequence[WarpProgram], variant: Sequence[int], graph: InstructionGraph
) -> tuple[WarpProgram, ...]:
    """Return the programs of a graph whose loops run as often as those of ``graph``, at least once.

    ``variant``: number of the program of each warp of a block.
    """
    # An inner loop of a loop that does not run is in no program, so that trips are above 0.
    return tuple(
        _lay_out(graph, program.outline, program.costs, program.ticks, warp)
        for program, warp in zip(programs, map(variant.index, range(len(programs))), strict=True)
    )


def _lay_out(
    graph: InstructionGraph,
    outline: ProgramOutline,
    costs: tuple[NodeCost, ...],
    ticks: int,
    warp: int,
) -> WarpProgram:
    """Return the program with what depends on trips: lengths, places and phases of channels."""
    loops = [replace(x, trips=graph.trips_of(x.graph_loop, warp)) for x in outline.loops]

    # For example, a node, a loop of 10 iterations with 3 nodes, and a node: the loop has offset 1.
    # The dynamic length is 32.
    def place(items: Sequence[BodyItem]) -> int:
        length = 0
        for kind, index in items:
            if kind is ItemKind.NODE:
                length += 1
            else:
                loops[index] = loop = replace(loops[index], offset=length)
                length += loop.trips * loop.length
        return length

    for number in reversed(range(len(loops))):
        loops[number] = replace(loops[number], length=place(loops[number].body))
    length = place(outline.body)
    signals = program_signals(graph, outline.nodes, loops, outline.body)
    return WarpProgram(outline, costs, tuple(loops), signals, length, ticks)


def check_arrivals(graph: InstructionGraph, warps: Sequence[WarpProgram]) -> None:
    """Raise :class:`GraphError` if more warps arrive at a channel than complete a phase."""
    for number, channel in enumerate(graph.channels):
        arriving = sum(
            any(s.arrives and s.channel == number for s in p.signals.values()) for p in warps
        )
        if arriving > channel.arrivals:
            raise GraphError(
                f"channel {channel.name!r}: {arriving} warps arrive, "
                f"{channel.arrivals} complete a phase"
            )


_Kind = tuple[str, Union[Latency, None], tuple[tuple[str, float], ...], bool]
"""All that the cost of a node follows from: class, latency of its own, demands, if it produces."""


def _costs(
    graph: InstructionGraph,
    kinds: Iterable[_Kind],
    latencies: Mapping[str, Latency],
    queues: Mapping[str, int],
) -> tuple[Pipelines, dict[_Kind, NodeCost]]:
    """Return the pipelines that nodes of these kinds use, and the cost of each kind."""
    used: dict[tuple[str, Latency | None], Latency] = {}
    servers: dict[tuple[str, float], None] = {}
    for operation, own, demands, _ in kinds:
        latency = own or latencies.get(operation)
        if latency is None:
            from perfassert.errors import close_matches

            node = next(n for n in graph.nodes if n.operation == operation and n.latency is None)
            hint = close_matches(operation, latencies)
            raise GraphError(f"{node}: operation class {operation!r} has no latency{hint}")
        used[operation, own] = latency
        servers.update(dict.fromkeys(demands))
    pipelines = _pipelines(used, tuple(servers), queues)
    names, operations = pipelines.names, pipelines.operations

    def to_ticks(cycles: float) -> int:
        value = exact(cycles)
        return value.numerator * (pipelines.ticks // value.denominator)

    def cost(kind: _Kind) -> NodeCost:
        operation, own, demands, produces = kind
        latency = used[operation, own]
        issue, completion = to_ticks(latency.issue), to_ticks(latency.completion)
        if not produces:  # complete λ after its issue, or when the first server is done
            completion = 0 if demands else issue
        served = tuple([(names.index(server), to_ticks(cycles)) for server, cycles in demands])
        return NodeCost(
            operations.index(operation),
            names.index(latency.pipeline or operation),
            issue,
            completion,
            produces,
            served,
            sum([needed for _, needed in served]),
        )

    return pipelines, {kind: cost(kind) for kind in kinds}


def _pipelines(
    used: Mapping[tuple[str, Latency | None], Latency],
    demands: Sequence[tuple[str, float]],
    queues: Mapping[str, int],
) -> Pipelines:
    scopes: dict[str, bool] = {}
    denominators = [1]
    for (operation, _), latency in used.items():
        name = latency.pipeline or operation
        scoped = latency.scope == "scheduler"
        if scopes.setdefault(name, scoped) != scoped:
            raise GraphError(f"pipeline {name!r} has two scopes; operation {operation!r}")
        denominators += [exact(v).denominator for v in (latency.issue, latency.completion)]
    depths = {name: queues.get(name, 0) for name in scopes}
    for server, cycles in demands:
        if depths.setdefault(server, SERVER) != SERVER:
            raise GraphError(f"{server!r} is a pipeline and cannot be a server too")
        scopes[server] = False
        denominators.append(exact(cycles).denominator)
    if len(scopes) > _MAX_PIPELINES:
        raise GraphError(f"{len(scopes)} pipelines are more than the {_MAX_PIPELINES} supported")
    # For example, latencies of 0.5, 0.25 and 3 cycles have the denominators 2, 4 and 1: 4 ticks per
    # cycle.
    ticks = lcm(*denominators)
    return Pipelines(
        tuple(scopes), tuple(scopes.values()), tuple(dict.fromkeys(name for name, _ in used)),
        ticks, tuple(depths.values()),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def exact(value: float) -> Fraction:
    """Return the fraction of the decimal that was written: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def _outline(
    graph: InstructionGraph, present: tuple[bool, ...], runs: tuple[bool, ...]
) -> ProgramOutline:
    """Return the outline of warps that execute the same nodes.

    ``present``: which of the nodes that only some warps execute; ``runs``: which loops.
    """
    return graph.outlines.once((present, runs), lambda: _Outlining(graph, present, runs).outline())


class _Outlining:
    def __init__(
        self, graph: InstructionGraph, present: tuple[bool, ...], runs: tuple[bool, ...]
    ) -> None:
        self.graph = graph
        self.runs = runs
        others = zip(_partial_nodes(graph), present, strict=True)
        self.absent = {index for index, is_present in others if not is_present}
        self.order: list[int] = []
        self.kept: list[int] = []
        self.bodies: dict[int, list[BodyItem]] = {}

    def outline(self) -> ProgramOutline:
        body = self.walk(self.graph.body)
        node_index = {n: i for i, n in enumerate(self.order)}
        loop_index = {loop: i for i, loop in enumerate(self.kept)} | {NO_LOOP: NO_LOOP}

        def renumber(items: Sequence[BodyItem]) -> tuple[BodyItem, ...]:
            return tuple(
                BodyItem(kind, (node_index if kind is ItemKind.NODE else loop_index)[number])
                for kind, number in items
            )

        loops = tuple(
            WarpLoop(
                loop, loop_index[self.graph.loops[loop].parent], 0, renumber(self.bodies[loop])
            )
            for loop in self.kept
        )
        nodes = tuple(self.nodes(node_index, loop_index))
        return ProgramOutline(nodes, loops, renumber(body), node_index)

    def walk(self, items: Sequence[BodyItem]) -> list[BodyItem]:
        """Return the items that exist for the warp, in order."""
        kept: list[BodyItem] = []
        for item in items:
            kind, index = item
            if kind is ItemKind.NODE:
                if index not in self.absent:
                    self.order.append(index)
                    kept.append(item)
                continue
            place = len(self.kept)
            self.kept.append(index)
            inner = self.walk(self.graph.loops[index].body) if self.runs[index] else []
            if inner:
                self.bodies[index] = inner
                kept.append(item)
            else:
                del self.kept[place:]
        return kept

    def nodes(
        self, node_index: Mapping[int, int], loop_index: Mapping[int, int]
    ) -> Iterator[OutlineNode]:
        for index in self.order:
            node: Node = self.graph.nodes[index]
            sources = []
            for edge in node.edges:
                existing = tuple(
                    [
                        (node_index[s.producer], loop_index[s.loop], s.distance)
                        for s in edge.sources
                        if s.producer in node_index
                    ]
                )
                if existing:
                    sources.append(existing)
            yield OutlineNode(
                index, loop_index[node.loop], node.fence, node.partial, node.stall, tuple(sources)
            )
