"""Instructions of a body scheduled anew, as a compiler or author could: within dependences, and
never past a barrier.

Loads come as early as they can and registers last, everything else as soon as its operands are
there. Registers are taken to be renamed, so that only true dependences count; accesses of one field
keep their order where one of them writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import accumulate
from types import MappingProxyType

from perfassert.errors import DeviceFileError
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.graph import BodyItem, Edge, EdgeSource, InstructionGraph, ItemKind, Node
from perfassert.kernel.program import Program
from perfassert.kernel.roles import node_space
from perfassert.predictor.changed_graph import (
    OUTSIDE,
    inside,
    with_bodies,
    with_nodes,
    without,
)

IN_FLIGHT = 16
"""Loads that may be on their way beside those of the code as it is: each needs a register."""
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

    ``ahead``: innermost loops load for the next iteration, unless that needs what this one loads.
    """
    work = _Scheduling(graph, device, program, bound)
    for loop in sorted(loops):
        if ahead and loop != OUTSIDE:
            work.load_ahead(loop)
    return work.graph_with(loops)


def remove(
    graph: InstructionGraph,
    gone: frozenset[int],
    device: Device,
    program: Program,
    bound: Sequence[BoundAccess],
) -> InstructionGraph:
    """Compiled code without these nodes, in its order and with the stall counts that are still
    needed. Who used the result of one waits for its operands."""
    work = _Scheduling(graph, device, program, bound, gone)
    return without(work.graph_with(frozenset(graph.nodes[n].loop for n in gone)), gone)


_NO_LEAST: Mapping[int, int] = MappingProxyType({})


@dataclass(slots=True)
class _Step:
    """An item of a body, with what it waits for: step → cycles after its issue.

    ``cycles`` that it takes to issue; ``length`` until the next item of the body is issued."""

    item: BodyItem
    node: Node | None
    cycles: int
    length: int
    waits: dict[int, int] = field(default_factory=dict)
    fixed: dict[int, int] = field(default_factory=dict)
    height: int = 0
    feeds: bool = False


class _Scheduling:
    def __init__(
        self,
        graph: InstructionGraph,
        device: Device,
        program: Program | None,
        bound: Sequence[BoundAccess],
        gone: frozenset[int] = frozenset(),
    ) -> None:
        self.gone = gone
        self.graph = graph
        self.device = device
        self.program = program
        self.bound = bound
        self.changed: dict[int, Node] = {}
        self.ahead: dict[int, int] = {}  # node → loop in which it loads for the next iteration

    def graph_with(self, loops: frozenset[int]) -> InstructionGraph:
        graph = with_bodies(
            self.graph, lambda loop, body: self.body(body) if loop in loops else body
        )
        return with_nodes(graph, self.changed)

    def load_ahead(self, loop: int) -> None:
        """Note loads whose results the next iteration of the loop may use."""
        body = self.graph.loops[loop].body
        nodes = [self.graph.nodes[i.number] for i in body if i.kind is ItemKind.NODE]
        straight = len(nodes) == len(body) and not any(n.fence or n.signal for n in nodes)
        if not straight or self.graph.trips(loop) < _AHEAD:
            return
        loads = {n.index for n in nodes if self.is_load(n)}
        tainted: set[str] = set()
        for _ in range(2):  # the second time with what the first left in registers
            for n in nodes:
                defines, uses = self.registers(n)
                if n.index in loads and tainted.isdisjoint(uses):
                    tainted.update(defines)
                elif not tainted.isdisjoint(uses):
                    loads.discard(n.index)
                    tainted.update(defines)
        self.ahead.update(dict.fromkeys(loads, loop))

    def is_load(self, node: Node) -> bool:
        return node.produces and node_space(node) == "global" and not self.writes(node)

    def writes(self, node: Node) -> bool:
        accesses = [self.bound[i] for i in node.touches if i < len(self.bound)]
        stores = any(a.direction is Direction.STORE or a.atomic for a in accesses)
        return stores or node.operation.startswith("atomic") or node.operation.endswith("store")

    def registers(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What it defines and uses; under a predicate, the old value too. Nodes of a graph by hand
        are their own registers."""
        if self.program is None or node.program < 0:
            read = {s.producer for e in node.edges for s in e.sources if not s.distance}
            return (str(node.index),), tuple(map(str, sorted(read)))
        i = self.program.instructions[node.program]
        return i.defines, (*i.uses, *i.defines) if i.predicate else i.uses

    def completion(self, node: Node) -> int:
        try:
            return max(1, round(self.device.operation(node.operation).completion))
        except DeviceFileError:
            return max(1, node.stall)

    def body(self, body: Sequence[BodyItem]) -> Sequence[BodyItem]:
        """Segments between barriers, each scheduled; a branch at the end stays there."""
        result: list[BodyItem] = []
        segment: list[BodyItem] = []
        for place, item in enumerate(body):
            last = place == len(body) - 1
            if self.waits_for_others(item) or (last and self.branches(item)):
                result += [*self.segment(segment), item]
                segment = []
            else:
                segment.append(item)
        return [*result, *self.segment(segment)]

    def waits_for_others(self, item: BodyItem) -> bool:
        nodes = inside(self.graph, [item])
        return any(n.fence or n.signal is not None for n in nodes)

    def branches(self, item: BodyItem) -> bool:
        return item.kind is ItemKind.NODE and self.graph.nodes[item.number].operation == "branch"

    def segment(self, items: Sequence[BodyItem]) -> list[BodyItem]:
        if len(items) < 2:
            return list(items)
        steps = [self.step(item) for item in items]
        self.depend(steps)
        if self.gone:
            self.remove(steps)
            return list(items)
        order = _greedy_order(steps)
        self.settle([steps[n] for n in order], steps)
        return [steps[n].item for n in order]

    def remove(self, steps: Sequence[_Step]) -> None:
        """Settle what is left. No stall count of the compiler is longer than what it is for, so
        that no fixed latency is longer than the distance at which it left definition and use."""
        place = [0, *accumulate(step.length for step in steps)]
        for k, step in enumerate(steps):
            step.fixed = {b: min(cycles, place[k] - place[b]) for b, cycles in step.fixed.items()}
        needed = _stalls(steps, steps)
        least = {
            s.node.index: s.node.stall
            for s in steps
            if s.node is not None and needed.get(s.node.index, 0) < s.node.stall
        }
        for step in steps:
            for before in [b for b in step.waits if self.is_gone(steps[b])]:
                del step.waits[before]
                step.fixed.pop(before, None)
                for own, theirs in ((step.waits, steps[before].waits),
                                    (step.fixed, steps[before].fixed)):  # fmt: skip
                    for source, cycles in theirs.items():
                        own[source] = max(own.get(source, 0), cycles)
        self.settle([step for step in steps if not self.is_gone(step)], steps, least)
        inner = {n.index for s in steps for n in self.members(s)}
        for step in filter(self.is_gone, steps):
            assert step.node is not None
            beyond = tuple(
                edge
                for edge in step.node.edges
                if any(s.distance or s.producer not in inner for s in edge.sources)
            )
            self.changed[step.node.index] = replace(step.node, edges=beyond)

    def is_gone(self, step: _Step) -> bool:
        return step.node is not None and step.node.index in self.gone

    def step(self, item: BodyItem) -> _Step:
        if item.kind is ItemKind.NODE:
            node = self.graph.nodes[item.number]
            return _Step(item, node, 1, max(1, node.stall))
        loop = self.graph.loops[item.number]
        once = sum(max(1, n.stall) for n in inside(self.graph, loop.body))
        cycles = max(1, once * self.graph.trips(item.number))
        return _Step(item, None, cycles, cycles)

    def depend(self, steps: Sequence[_Step]) -> None:
        """Who waits for whom: registers, memory, and what the graph says."""
        place = {n.index: k for k, s in enumerate(steps) for n in self.members(s)}
        defined: dict[str, tuple[int, Node]] = {}
        memory: dict[tuple[str, str], list[tuple[int, bool]]] = {}
        for k, step in enumerate(steps):
            own: dict[str, Node] = {}
            for node in self.members(step):
                defines, uses = self.registers(node)
                for name in uses:
                    if name in defined and name not in own:
                        self.wait(steps, k, *defined[name])
                own.update(dict.fromkeys(defines, node))
                for edge in node.edges:
                    self.follow(steps, k, node, edge, place)
                for key, writes in self.touched_memory(node):
                    for before, wrote in memory.get(key, ()):
                        if before != k and (wrote or writes):
                            step.waits.setdefault(before, 1)
                    memory.setdefault(key, []).append((k, writes))
            defined.update((name, (k, node)) for name, node in own.items())

    def members(self, step: _Step) -> Iterator[Node]:
        return inside(self.graph, [step.item])

    def touched_memory(self, node: Node) -> Iterator[tuple[tuple[str, str], bool]]:
        """Memory whose order matters: global by field, shared as a whole; branches and stores."""
        writes = self.writes(node)
        for number in node.touches if self.bound else ():
            access = self.bound[number]
            yield (access.space, access.field if access.space == "global" else ""), writes
        if writes or node.operation == "branch":
            yield ("control", ""), node.operation == "branch"

    def wait(self, steps: Sequence[_Step], k: int, before: int, node: Node) -> None:
        """For a register: of a load as long as memory takes, else for a fixed time."""
        if before == k or self.ahead.get(node.index, OUTSIDE) >= 0:
            return
        instruction = self.program.instructions[node.program] if self.program else None
        varies = instruction is None or instruction.sets >= 0
        cycles = self.far(node) if varies else self.completion(node)
        steps[k].waits[before] = max(steps[k].waits.get(before, 0), cycles)
        if not varies:
            steps[k].fixed[before] = max(steps[k].fixed.get(before, 0), cycles)

    def far(self, node: Node) -> int:
        return round(self.device.l2_latency) if self.is_load(node) else self.completion(node)

    def follow(
        self, steps: Sequence[_Step], k: int, node: Node, edge: Edge, place: Mapping[int, int]
    ) -> None:
        """An edge of the graph; one that only stands for a register read or a barrier that others
        share is left out, if both lie here."""
        for source in edge.sources:
            before = place.get(source.producer, k)
            if before < k and source.distance == 0 and self.true(source.producer, node):
                self.wait(steps, k, before, self.graph.nodes[source.producer])

    def true(self, producer: int, node: Node) -> bool:
        """Whether a wait is for a result that is used, as far as registers tell."""
        defines, _ = self.registers(self.graph.nodes[producer])
        if self.program is None or not defines:
            own = self.graph.nodes[producer]
            frees = self.program is not None and own.program >= 0 and not own.produces
            return not frees
        return not set(defines).isdisjoint(self.registers(node)[1])

    def settle(
        self, order: Sequence[_Step], steps: Sequence[_Step], least: Mapping[int, int] = _NO_LEAST
    ) -> None:
        """Stall counts, no shorter than the ``least`` of a node, and edges in their new order."""
        stalls = _stalls(order, steps, least) if self.program is not None else {}
        inner = {n.index for s in steps for n in self.members(s)}
        for step in steps:
            if step.node is not None:
                own, edges = step.node, self.rewire(step.node, step, steps, inner)
                stall = stalls.get(own.index, own.stall)
                if (stall, edges) != (own.stall, own.edges):
                    self.changed[own.index] = replace(own, stall=stall, edges=edges)

    def rewire(
        self, node: Node, step: _Step, steps: Sequence[_Step], inner: set[int]
    ) -> tuple[Edge, ...]:
        """Edges to what it reads in the segment, and those that it had to what lies elsewhere."""
        kept = tuple(
            self.advance(edge)
            for edge in node.edges
            if any(s.distance or s.producer not in inner
                   or (s.producer not in self.gone and self.true(s.producer, node))
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


def _stalls(
    order: Sequence[_Step], steps: Sequence[_Step], least: Mapping[int, int] = _NO_LEAST
) -> dict[int, int]:
    """Cycles from each node to what follows it, by its number."""
    place = {id(s): n for n, s in enumerate(steps)}
    issue: dict[int, int] = {}
    stalls: dict[int, int] = {}
    now, before = 0, None
    for step in order:
        own = 1 if before is None else least.get(before.index, 1)
        at = max([now + own, *(issue[p] + c for p, c in step.fixed.items())])
        if before is not None:
            stalls[before.index] = at - now
        issue[place[id(step)]] = at
        now, before = at, step.node
    return stalls


def _greedy_order(steps: Sequence[_Step]) -> list[int]:
    """Greedy: what loads need first, as long as registers are left, then the longest way to the
    end."""
    users: list[list[int]] = [[] for _ in steps]
    for k, step in enumerate(steps):
        for before in step.waits:
            users[before].append(k)
    for k in range(len(steps) - 1, -1, -1):
        step = steps[k]
        step.height = step.cycles + max(
            (steps[u].waits[k] + steps[u].height for u in users[k]), default=0
        )
        step.feeds = _loads(step) or any(steps[u].feeds for u in users[k] if steps[u].node)
    return _Greedy(steps, users).order()


def _loads(step: _Step) -> bool:
    return step.node is not None and step.node.produces and node_space(step.node) == "global"


class _Greedy:
    """List scheduling of one segment; ``left``: what steps still wait for, ``unread``: who is still
    to read what was loaded."""

    def __init__(self, steps: Sequence[_Step], users: Sequence[Sequence[int]]) -> None:
        self.steps = steps
        self.users = users
        self.left = [len(step.waits) for step in steps]
        self.unread = [len(u) if _loads(s) else 0 for s, u in zip(steps, users, strict=True)]
        self.at = [0] * len(steps)
        self.first: list[tuple[int, int]] = []
        self.others: list[tuple[int, int]] = []
        self.later = [(0, k) for k, n in enumerate(self.left) if not n]
        self.live = 0
        self.most = self.most_live_loads() + IN_FLIGHT

    def most_live_loads(self) -> int:
        """Loads that are unread at a time in the order as it is."""
        unread = list(self.unread)
        live = most = 0
        for k, step in enumerate(self.steps):
            for before in step.waits:
                if unread[before]:
                    unread[before] -= 1
                    live -= not unread[before]
            live += bool(unread[k])
            most = max(most, live)
        return most

    def order(self) -> list[int]:
        result: list[int] = []
        now = 0
        while self.first or self.others or self.later:
            while self.later and self.later[0][0] <= now:
                _, k = heappop(self.later)
                heap = self.first if self.steps[k].feeds else self.others
                heappush(heap, (-self.steps[k].height, k))
            chosen = self.next()
            if chosen is None:
                now = self.later[0][0]
                continue
            result.append(chosen)
            self.issue(chosen, now)
            now += self.steps[chosen].cycles
        return result

    def next(self) -> int | None:
        """What comes now; None: wait. A loop waits for what loads need, if that is to come."""
        full = self.live >= self.most
        if self.first and not (full and (self.others or self.later)):
            return heappop(self.first)[1]
        loop = bool(self.others) and self.steps[self.others[0][1]].node is None
        if self.others and not (
            loop and not full and any(self.steps[k].feeds for _, k in self.later)
        ):
            return heappop(self.others)[1]
        return None if self.later else heappop(self.first or self.others)[1]

    def issue(self, k: int, now: int) -> None:
        for before in self.steps[k].waits:
            if self.unread[before]:
                self.unread[before] -= 1
                self.live -= not self.unread[before]
        self.live += bool(self.unread[k])
        for user in self.users[k]:
            self.at[user] = max(self.at[user], now + self.steps[user].waits[k])
            self.left[user] -= 1
            if not self.left[user]:
                heappush(self.later, (self.at[user], user))
