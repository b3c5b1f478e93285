"""Program of one warp: an instruction graph compiled for the simulator.

Nodes that the warp does not execute are removed, and so are loops without iterations. Latencies are
integers of ticks. Each dynamic instruction has a number in program order, which follows from its
loop counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


class ProgramNode(NamedTuple):
    """A node of a program.

    ``issue``, ``completion`` and ``stall`` are in ticks. ``demands`` lists (server, ticks), which
    follow one another and take ``served`` ticks at least. ``sources`` lists (producer, loop,
    distance) per edge. ``signal`` is the effect on a channel, which alone depends on how often
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
class WarpProgram:
    """Instructions of one warp: nodes and loops in program order, ``length`` dynamic instructions.

    A loop is after the one around it. ``slowest`` is the largest number of ticks of an instruction.
    ``graph_nodes`` is the largest number of a node in the graph, plus one. ``found`` holds what
    follows from the program alone. Programs are compared by identity.
    """

    nodes: tuple[ProgramNode, ...]
    loops: tuple[WarpLoop, ...]
    body: tuple[BodyItem, ...]
    length: int
    slowest: int = field(init=False)
    graph_nodes: int = field(init=False)
    found: Memo = field(init=False, default_factory=Memo, repr=False)

    def __post_init__(self) -> None:
        times = [n.issue + n.completion + n.served for n in self.nodes]
        object.__setattr__(self, "slowest", max(times, default=0))
        numbers = [n.graph_node for n in self.nodes]
        object.__setattr__(self, "graph_nodes", 1 + max(numbers, default=-1))

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
    for node in graph.nodes:
        if node.latency is None and node.operation not in latencies:
            from perfassert.errors import close_matches

            hint = close_matches(node.operation, latencies)
            raise GraphError(f"{node}: operation class {node.operation!r} has no latency{hint}")
        if node.warps is not None and max(node.warps) >= warps_per_block:
            raise GraphError(
                f"{node}: only() names warp {max(node.warps)}, a block has {warps_per_block}"
            )
    used = {_class_of(node): node.latency or latencies[node.operation] for node in graph.nodes}
    servers = dict.fromkeys(d for node in graph.nodes for d in node.demands)
    pipelines = _pipelines(used, tuple(servers), queues)
    programs: dict[tuple[frozenset[int], tuple[int, ...]], int] = {}
    made: list[WarpProgram] = []
    variant = []
    everywhere = frozenset(n.index for n in graph.nodes if n.warps is None)
    partial = [n for n in graph.nodes if n.warps is not None]
    for warp in range(warps_per_block):
        present = everywhere.union(n.index for n in partial if n.warps and warp in n.warps)
        key = present, tuple(graph.trips_of(loop.index, warp) for loop in graph.loops if loop.each)
        if key not in programs:
            programs[key] = len(made)
            made.append(_Compiler(graph, present, used, pipelines, warp).program())
        variant.append(programs[key])
    check_arrivals(graph, [made[v] for v in variant])
    return tuple(made), tuple(variant), pipelines


def with_trips(
    programs: Sequence[WarpProgram], variant: Sequence[int], graph: InstructionGraph
) -> tuple[WarpProgram, ...]:
    """Return the programs of a graph whose loops run as often as those of ``graph``, at least once.

    ``variant``: number of the program of each warp of a block.
    """
    # An inner loop of a loop that does not run is in no program, so that trips are above 0.
    return tuple(
        _lay_out(
            graph,
            program.nodes,
            [replace(x, trips=graph.trips_of(x.graph_loop, warp)) for x in program.loops],
            program.body,
        )
        for program, warp in zip(programs, map(variant.index, range(len(programs))), strict=True)
    )


def _lay_out(
    graph: InstructionGraph,
    nodes: tuple[ProgramNode, ...],
    loops: list[WarpLoop],
    body: tuple[BodyItem, ...],
) -> WarpProgram:
    """Return the program with what depends on trips: lengths, places and phases of channels."""

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
    length = place(body)
    signals = program_signals(graph, nodes, loops, body)
    if signals:
        nodes = tuple(n._replace(signal=signals.get(i)) for i, n in enumerate(nodes))
    return WarpProgram(nodes, tuple(loops), body, length)


def check_arrivals(graph: InstructionGraph, warps: Sequence[WarpProgram]) -> None:
    """Raise :class:`GraphError` if more warps arrive at a channel than complete a phase."""
    for number, channel in enumerate(graph.channels):
        arriving = sum(
            any(n.signal and n.signal.arrives and n.signal.channel == number for n in p.nodes)
            for p in warps
        )
        if arriving > channel.arrivals:
            raise GraphError(
                f"channel {channel.name!r}: {arriving} warps arrive, "
                f"{channel.arrivals} complete a phase"
            )


_Class = tuple[str, Union[Latency, None]]
"""An operation class, with the latency of a node if it differs from that of the class."""


def _class_of(node: Node) -> _Class:
    return node.operation, node.latency


def _pipelines(
    used: Mapping[_Class, Latency],
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


class _Compiler:
    """Compiler of the program of ``warp``.

    All warps with the same nodes (``present``) and the same trip counts share the program.
    """

    def __init__(
        self,
        graph: InstructionGraph,
        present: frozenset[int],
        used: Mapping[_Class, Latency],
        pipelines: Pipelines,
        warp: int,
    ) -> None:
        self.graph = graph
        self.warp = warp
        self.present = present
        self.pipelines = pipelines
        ticks = pipelines.ticks
        self.classes = {
            one: (
                pipelines.operations.index(one[0]),
                pipelines.names.index(latency.pipeline or one[0]),
                int(exact(latency.issue) * ticks),
                int(exact(latency.completion) * ticks),
            )
            for one, latency in used.items()
        }
        self.demands: dict[tuple[str, float], tuple[int, int]] = {}
        self.order: list[int] = []
        self.kept: list[int] = []
        self.bodies: dict[int, list[BodyItem]] = {}

    def program(self) -> WarpProgram:
        body = self.walk(self.graph.body)
        node_index = {n: i for i, n in enumerate(self.order)}
        loop_index = {loop: i for i, loop in enumerate(self.kept)} | {NO_LOOP: NO_LOOP}

        def renumber(items: Sequence[BodyItem]) -> tuple[BodyItem, ...]:
            return tuple(
                BodyItem(kind, (node_index if kind is ItemKind.NODE else loop_index)[number])
                for kind, number in items
            )

        nodes = tuple(self.nodes(node_index, loop_index))
        loops = [
            WarpLoop(
                loop,
                loop_index[self.graph.loops[loop].parent],
                self.graph.trips_of(loop, self.warp),
                renumber(self.bodies[loop]),
            )
            for loop in self.kept
        ]
        return _lay_out(self.graph, nodes, loops, renumber(body))

    def walk(self, items: Sequence[BodyItem]) -> list[BodyItem]:
        """Return the items that exist for the warp, in order."""
        kept: list[BodyItem] = []
        for item in items:
            kind, index = item
            if kind is ItemKind.NODE:
                if index in self.present:
                    self.order.append(index)
                    kept.append(item)
                continue
            place = len(self.kept)
            self.kept.append(index)
            runs = self.graph.trips_of(index, self.warp) > 0
            inner = self.walk(self.graph.loops[index].body) if runs else []
            if inner:
                self.bodies[index] = inner
                kept.append(item)
            else:
                del self.kept[place:]
        return kept

    def nodes(
        self, node_index: Mapping[int, int], loop_index: Mapping[int, int]
    ) -> Iterator[ProgramNode]:
        ticks, all_nodes = self.pipelines.ticks, self.graph.nodes
        for index in self.order:
            node: Node = all_nodes[index]
            operation, pipeline, issue, completion = self.classes[_class_of(node)]
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
            demands = tuple(map(self.demand, node.demands)) if node.demands else ()
            if not node.produces:  # complete λ after its issue, or when the first server is done
                completion = 0 if demands else issue
            yield ProgramNode(
                index,
                operation,
                pipeline,
                issue,
                completion,
                loop_index[node.loop],
                node.fence,
                node.partial,
                node.stall * ticks,
                node.produces,
                demands,
                sum([served for _, served in demands]),
                tuple(sources),
            )

    def demand(self, demand: tuple[str, float]) -> tuple[int, int]:
        """Return the number of the server and the ticks."""
        if demand not in self.demands:
            server, cycles = demand
            ticks = int(exact(cycles) * self.pipelines.ticks)
            self.demands[demand] = self.pipelines.names.index(server), ticks
        return self.demands[demand]
