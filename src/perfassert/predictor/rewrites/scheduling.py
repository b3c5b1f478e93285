"""Instructions of a body scheduled anew, as a compiler or author could.

The order keeps within dependences. No instruction passes a barrier, but for loads of what the
kernel never writes where that is asked for.

Loads come as early as they can and registers last, every other instruction as soon as its operands
are there. No instruction leaves the branch that decides whether it is executed. Registers are taken
to be renamed, so that only true dependences count. Accesses of one field keep their order where one
of them writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfassert.hardware.model import Device
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.graph import BodyItem, Edge, EdgeSource, InstructionGraph, ItemKind, Node
from perfassert.kernel.program import Program
from perfassert.predictor.rewrites.changed_graph import (
    OUTSIDE,
    inside,
    with_bodies,
    with_nodes,
    without,
)
from perfassert.predictor.rewrites.dependences import Dependences
from perfassert.predictor.rewrites.list_scheduling import (
    NONE,
    Step,
    greedy_order,
    limit_latencies,
    pass_on_waits,
    stall_counts,
    unexplained_stalls,
)
from perfassert.predictor.rewrites.next_iteration import loads_for_next
from perfassert.predictor.rewrites.register_pressure import Operands, max_live_values

_AHEAD = 4  # trips from which on loading for the next iteration is worth its first one


def reschedule(
    graph: InstructionGraph,
    loops: frozenset[int],
    device: Device,
    program: Program | None,
    bound: Sequence[BoundAccess],
    ahead: bool,
) -> InstructionGraph:
    """The bodies of these loops (:data:`OUTSIDE`: the rest) scheduled anew.

    ``ahead``: innermost loops load for the next iteration, unless that needs what this one loads;
    and loads of what the kernel never writes pass barriers.
    """
    work = _Scheduling(graph, device, program, bound)
    if ahead:
        work.look_ahead(loops)
    return work.graph_with(loops)


def registers_of_reordering(
    graph: InstructionGraph,
    loops: frozenset[int],
    device: Device,
    program: Program | None,
    bound: Sequence[BoundAccess],
) -> int:
    """Return the registers alive at most if bodies are scheduled anew with loads ahead."""
    work = _Scheduling(graph, device, program, bound)
    work.look_ahead(loops)
    work.graph_with(loops)
    return work.alive


def load_before_barriers(
    graph: InstructionGraph,
    device: Device,
    program: Program | None,
    bound: Sequence[BoundAccess],
) -> InstructionGraph:
    """Move loads of what the kernel has not written before ahead of barriers.

    The instructions that compute their addresses move along. Everything else keeps its order.
    """
    work = _Scheduling(graph, device, program, bound)
    work.passing, work.pinned = work.passing_loads(), True
    if not work.passing:
        return graph
    return work.graph_with(frozenset((OUTSIDE, *(loop.index for loop in graph.loops))))


def remove(
    graph: InstructionGraph,
    gone: frozenset[int],
    device: Device,
    program: Program,
    bound: Sequence[BoundAccess],
) -> InstructionGraph:
    """Remove these nodes from compiled code, which keeps its order and the stall counts it needs.

    An instruction that used the result of a removed one waits for its operands.
    """
    work = _Scheduling(graph, device, program, bound)
    work.gone = gone
    return without(work.graph_with(frozenset(graph.nodes[n].loop for n in gone)), gone)


@dataclass(eq=False)
class _Scheduling(Dependences):
    gone: frozenset[int] = frozenset()
    alive: int = 0  # values at once, in the new order
    pinned: bool = False  # what no load has to pass a barrier for keeps its place
    changed: dict[int, Node] = field(default_factory=dict)

    def graph_with(self, loops: frozenset[int]) -> InstructionGraph:
        graph = with_bodies(
            self.graph, lambda loop, body: self.body(body) if loop in loops else body
        )
        return with_nodes(graph, self.changed)

    def look_ahead(self, loops: Iterable[int]) -> None:
        """Let loads pass barriers, and come an iteration earlier."""
        self.passing = self.passing_loads()
        for loop in sorted(loops):
            if loop != OUTSIDE:
                self.load_ahead(loop)

    def load_ahead(self, loop: int) -> None:
        """Note loads whose results the next iteration of the loop may use."""
        body = self.graph.loops[loop].body
        nodes = [self.graph.nodes[i.number] for i in body if i.kind is ItemKind.NODE]
        fenced = any(n.fence for n in nodes)
        if len(nodes) != len(body) or any(n.signal for n in nodes):
            return
        if self.graph.trips(loop) < _AHEAD or (fenced and not self.passing):
            return
        loads = {n.index for n in nodes if self.is_load(n)}
        ahead = loads_for_next(nodes, loads, self.registers, self.program, self.control)
        self.ahead.update(dict.fromkeys(ahead & self.passing if fenced else ahead, loop))
        read = {item.number for item in self.last_readers(body)}
        self.ahead = {n: x for n, x in self.ahead.items() if x != loop or n in read}

    def operands(self, steps: Sequence[Step]) -> list[Operands]:
        """Return the registers that each step defines and uses."""
        result: list[Operands] = []
        for step in steps:
            nodes = list(map(self.registers, self.members(step)))
            result.append(
                ([name for d, _ in nodes for name in d], [name for _, u in nodes for name in u])
            )
        return result

    def last_readers(self, items: Sequence[BodyItem]) -> Mapping[BodyItem, BodyItem]:
        """Return, for each load ahead, the last item behind it that reads its registers."""
        last: dict[BodyItem, BodyItem] = {}
        loaded: dict[str, BodyItem] = {}
        for item in items:
            for node in inside(self.graph, [item]):
                defines, uses = self.registers(node)
                last.update({loaded[name]: item for name in uses if name in loaded})
                for name in defines:
                    loaded.pop(name, None)
                if node.index in self.ahead and item.kind is ItemKind.NODE:
                    loaded.update(dict.fromkeys(defines, item))
        return last

    def body(self, body: Sequence[BodyItem]) -> Sequence[BodyItem]:
        """Segments between barriers, each scheduled; a branch at the end stays there."""
        result: list[BodyItem] = []
        segment: list[BodyItem] = []
        for place, item in enumerate(body):
            last = place == len(body) - 1
            if self.ends_segment(item) or (last and self.branches(item)):
                result += [*self.segment(segment), item]
                segment = []
            else:
                segment.append(item)
        return [*result, *self.segment(segment)]

    def ends_segment(self, item: BodyItem) -> bool:
        """Return True if an item waits for other warps or starts the block.

        A barrier that loads may pass lies within a segment.
        """
        if self.passing and item.kind is ItemKind.NODE:
            node = self.graph.nodes[item.number]
            starts = node.fence and (not node.partial or node.program < 0)
            return starts or node.signal is not None
        nodes = inside(self.graph, [item])
        return any(n.fence or n.signal is not None for n in nodes)

    def segment(self, items: Sequence[BodyItem]) -> list[BodyItem]:
        if len(items) < 2:
            return list(items)
        items, readers = self.after_last_use(items)
        steps = [self.step(item) for item in items]
        self.depend(steps)
        for load, reader in readers.items():
            steps[load].waits.setdefault(reader, 1)
        limit_latencies(steps)
        if self.gone:
            self.remove(steps)
            return list(items)
        self.stay_in_branches(steps)
        self.stay_between_barriers(steps)
        order = self.early_order(steps) if self.pinned else greedy_order(steps)
        self.alive = max(self.alive, max_live_values(self.operands(steps), order))
        if self.ahead or order != list(range(len(steps))):
            self.settle([steps[n] for n in order], steps, unexplained_stalls(steps))
        return [steps[n].item for n in order]

    def after_last_use(
        self, items: Sequence[BodyItem]
    ) -> tuple[Sequence[BodyItem], Mapping[int, int]]:
        """Move loads for the next iteration behind the last reader of their registers.

        This reader uses what the previous iteration has loaded. The second result maps places of
        loads to those of their readers, both in the new order. Graphs by hand have no registers.
        """
        last = self.last_readers(items) if self.ahead and self.program is not None else {}
        behind: dict[BodyItem, list[BodyItem]] = {}
        for load, reader in last.items():
            behind.setdefault(reader, []).append(load)
        order = [i for item in items if item not in last for i in (item, *behind.get(item, ()))]
        place = {item: k for k, item in enumerate(order)}
        return order, {place[load]: place[reader] for load, reader in last.items()}

    def early_order(self, steps: Sequence[Step]) -> list[int]:
        """Order loads that pass a barrier, and what only computes for them, right behind their
        waits."""
        place = list(range(len(steps)))
        fences = [k for k, s in enumerate(steps) if s.node is not None and s.node.fence]
        needed: set[int] = set()
        for k in range(len(steps) - 1, -1, -1):
            node = steps[k].node
            if node is not None and (node.index in self.passing or k in needed):
                needed.add(k)
                needed.update(b for b in steps[k].waits if self.moves(steps[b]))
        for k in sorted(needed):
            place[k] = max((place[b] for b in steps[k].waits), default=-1)
        if not any(place[k] < f < k for k in needed for f in fences):
            return list(range(len(steps)))
        return sorted(range(len(steps)), key=lambda k: (place[k], k))

    def remove(self, steps: Sequence[Step]) -> None:
        """Settle what is left."""
        least = unexplained_stalls(steps)
        pass_on_waits(steps, frozenset(k for k, step in enumerate(steps) if self.is_gone(step)))
        self.settle([step for step in steps if not self.is_gone(step)], steps, least)
        inner = {n.index for s in steps for n in self.members(s)}
        for step in filter(self.is_gone, steps):
            assert step.node is not None
            beyond = tuple(
                edge
                for edge in step.node.edges
                if any(s.distance or s.producer not in inner for s in edge.sources)
            )
            self.changed[step.node.index] = step.node._replace(edges=beyond)

    def is_gone(self, step: Step) -> bool:
        return step.node is not None and step.node.index in self.gone

    def step(self, item: BodyItem) -> Step:
        if item.kind is ItemKind.NODE:
            node = self.graph.nodes[item.number]
            return Step(item, node, 1, max(1, node.stall))
        loop = self.graph.loops[item.number]
        once = sum(max(1, n.stall) for n in inside(self.graph, loop.body))
        cycles = max(1, once * self.graph.trips(item.number))
        return Step(item, None, cycles, cycles)

    def settle(
        self, order: Sequence[Step], steps: Sequence[Step], least: Mapping[int, int] = NONE
    ) -> None:
        """Stall counts, no shorter than the ``least`` of a node, and edges in their new order."""
        stalls = stall_counts(order, steps, least) if self.program is not None else {}
        inner = {n.index for s in steps for n in self.members(s)}
        for step in steps:
            if step.node is not None:
                own, edges = step.node, self.rewire(step.node, step, steps, inner)
                stall = stalls.get(own.index, own.stall)
                if (stall, edges) != (own.stall, own.edges):
                    self.changed[own.index] = own._replace(stall=stall, edges=edges)

    def rewire(
        self, node: Node, step: Step, steps: Sequence[Step], inner: set[int]
    ) -> tuple[Edge, ...]:
        """Edges to what it reads in the segment, and those that it had to what lies elsewhere."""
        kept = tuple(
            self.advance(edge)
            for edge in node.edges
            if any(s.distance or s.producer not in inner
                   or (s.producer not in self.gone and self.is_true_dependence(s.producer, node))
                   for s in edge.sources)
        )  # fmt: skip
        there = {s.producer for e in kept for s in e.sources}
        more = tuple(
            Edge((EdgeSource(p.index, node.loop, 0),))
            for before, cycles in step.waits.items()
            if cycles > 1 and before not in step.fixed and (p := steps[before].node) is not None
            and p.index not in there and p.produces
        )  # fmt: skip
        return *kept, *more

    def advance(self, edge: Edge) -> Edge:
        """A load for the next iteration was issued one earlier."""
        if not any(s.producer in self.ahead for s in edge.sources):
            return edge
        return Edge(
            tuple(
                replace(s, distance=s.distance + 1)
                if s.loop >= 0 and self.ahead.get(s.producer) == s.loop
                else s
                for s in edge.sources
            )
        )
