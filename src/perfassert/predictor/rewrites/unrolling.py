"""Loops unrolled: copies of a body one after the other, with the edges that iterations had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from perfassert.kernel.graph import (
    BodyItem,
    Edge,
    EdgeSource,
    InstructionGraph,
    ItemKind,
    Loop,
    Node,
)
from perfassert.predictor.rewrites.changed_graph import OUTSIDE

_MOST = 8  # copies of a body: more need more registers than there are
_OTHERWISE = 4  # where no number of copies divides the trips


def unroll_loops(graph: InstructionGraph, loops: frozenset[int]) -> InstructionGraph:
    """Return the innermost of these loops unrolled.

    Loops that run once or wait for other warps in every iteration stay.
    """
    counts = {loop: unroll_factor(graph, loop) for loop in sorted(loops)}
    counts = {loop: count for loop, count in counts.items() if count > 1}
    return _Unrolling(graph, counts).graph() if counts else graph


def unroll_factor(graph: InstructionGraph, loop: int) -> int:
    """Copies of the body; 1 where it stays as it is."""
    body = graph.loops[loop].body
    inner = any(item.kind is ItemKind.LOOP for item in body)
    if inner or any(graph.nodes[i.number].fence or graph.nodes[i.number].signal for i in body):
        return 1
    trips = graph.trips(loop)
    divisors = [n for n in range(min(_MOST, trips), 1, -1) if trips % n == 0]
    return divisors[0] if divisors and divisors[0] > 2 else min(_OTHERWISE, max(1, trips))


class _Unrolling:
    """Unrolling of loops of one graph.

    ``counts``: copies of the bodies by loop. ``first``: number of the second copy's first node.
    """

    def __init__(self, graph: InstructionGraph, counts: Mapping[int, int]) -> None:
        self.before = graph
        self.counts = counts
        self.bodies = {loop: [item.number for item in graph.loops[loop].body] for loop in counts}
        self.place = {n: (x, k) for x, body in self.bodies.items() for k, n in enumerate(body)}
        more = [(count - 1) * len(self.bodies[x]) for x, count in counts.items()]
        ends = accumulate(more, initial=len(graph.nodes))
        self.first = dict(zip(counts, ends, strict=False))

    def graph(self) -> InstructionGraph:
        nodes = [self.node(n, 0) for n in self.before.nodes]
        for loop, count in self.counts.items():
            for copy in range(1, count):
                nodes += [self.node(self.before.nodes[n], copy) for n in self.bodies[loop]]
        loops = tuple(self.shorter(x) if x.index in self.counts else x for x in self.before.loops)
        return replace(self.before, nodes=tuple(nodes), loops=loops)

    def shorter(self, loop: Loop) -> Loop:
        """Return the unrolled loop; a remainder of trips counts as one whole iteration."""
        count = self.counts[loop.index]
        body = [n for copy in range(count) for n in self.copies(loop.index, copy)]
        trips = -(-self.before.trips(loop.index) // count)
        each = tuple(-(-n // count) for n in loop.each)
        items = tuple(BodyItem(ItemKind.NODE, n) for n in body)
        return replace(loop, trips=trips, each=each, body=items)

    def copies(self, loop: int, copy: int) -> list[int]:
        """Return the node numbers of a copy of the body; only the last copy branches back."""
        body = self.bodies[loop]
        last = self.before.nodes[body[-1]]
        branches = last.operation == "branch" and copy < self.counts[loop] - 1
        return [self.number(n, copy) for n in (body[:-1] if branches else body)]

    def number(self, node: int, copy: int) -> int:
        if not copy:
            return node
        loop, place = self.place[node]
        return self.first[loop] + (copy - 1) * len(self.bodies[loop]) + place

    def node(self, node: Node, copy: int) -> Node:
        read = any(s.producer in self.place for e in node.edges for s in e.sources)
        if not read:
            return node._replace(index=self.number(node.index, copy)) if copy else node
        own = self.place[node.index][0] if node.index in self.place else OUTSIDE
        edges = tuple(
            Edge(tuple(self.source(source, own, copy) for source in edge.sources))
            for edge in node.edges
        )
        return node._replace(index=self.number(node.index, copy), edges=edges)

    def source(self, source: EdgeSource, own: int, copy: int) -> EdgeSource:
        """Return the source that copy ``copy`` of a node in loop ``own`` reads."""
        producer, loop, distance = source.producer, source.loop, source.distance
        if producer not in self.place:
            return source
        around = self.place[producer][0]
        count = self.counts[around]
        if around != own or loop != own:
            return EdgeSource(self.number(producer, count - 1), loop, distance)
        earlier = copy - distance
        return EdgeSource(self.number(producer, earlier % count), loop, -(earlier // count))
