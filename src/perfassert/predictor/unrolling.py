"""Loops unrolled: copies of a body one after the other, with the edges that iterations had."""

from __future__ import annotations

from dataclasses import replace

from perfassert.kernel.graph import (
    BodyItem,
    Edge,
    InstructionGraph,
    ItemKind,
    Loop,
    Node,
    Source,
)

_MOST = 8  # copies of a body: more need more registers than there are
_OTHERWISE = 4  # where no number of copies divides the trips


def unrolled(graph: InstructionGraph, loops: frozenset[int]) -> InstructionGraph:
    """The innermost ones of these loops unrolled; those that run once or wait for other warps in
    every iteration stay."""
    for loop in sorted(loops):
        count = factor(graph, loop)
        if count > 1:
            graph = _Unrolling(graph, loop, count).graph()
    return graph


def factor(graph: InstructionGraph, loop: int) -> int:
    """Copies of the body; 1 where it stays as it is."""
    body = graph.loops[loop].body
    inner = any(item.kind is ItemKind.LOOP for item in body)
    if inner or any(graph.nodes[i.number].fence or graph.nodes[i.number].signal for i in body):
        return 1
    trips = graph.trips(loop)
    divisors = [n for n in range(min(_MOST, trips), 1, -1) if trips % n == 0]
    return divisors[0] if divisors and divisors[0] > 2 else min(_OTHERWISE, max(1, trips))


class _Unrolling:
    def __init__(self, graph: InstructionGraph, loop: int, count: int) -> None:
        self.before = graph
        self.loop = loop
        self.count = count
        self.body = [item.number for item in graph.loops[loop].body]
        self.place = {n: k for k, n in enumerate(self.body)}

    def graph(self) -> InstructionGraph:
        before, count = self.before, self.count
        nodes = [self.node(n, 0 if n.index in self.place else None) for n in before.nodes]
        body = list(self.copies(0))
        for copy in range(1, count):
            nodes += [
                replace(self.node(before.nodes[n], copy), index=self.number(n, copy))
                for n in self.body
            ]
            body += self.copies(copy)
        loops = tuple(self.shorter(x, body) if x.index == self.loop else x for x in before.loops)
        return replace(before, nodes=tuple(nodes), loops=loops)

    def shorter(self, loop: Loop, body: list[int]) -> Loop:
        """What trips leave over is rounded up to a whole iteration."""
        items = tuple(BodyItem(ItemKind.NODE, n) for n in body)
        trips = -(-self.before.trips(loop.index) // self.count)
        each = tuple(-(-n // self.count) for n in loop.each)
        return replace(loop, trips=trips, each=each, body=items)

    def copies(self, copy: int) -> list[int]:
        """Only the last one branches back."""
        last = self.before.nodes[self.body[-1]]
        branches = last.operation == "branch" and copy < self.count - 1
        return [self.number(n, copy) for n in (self.body[:-1] if branches else self.body)]

    def number(self, node: int, copy: int) -> int:
        if not copy:
            return node
        return len(self.before.nodes) + (copy - 1) * len(self.body) + self.place[node]

    def node(self, node: Node, copy: int | None) -> Node:
        if not copy and not any(s.producer in self.place for e in node.edges for s in e.sources):
            return node
        edges = tuple(
            Edge(tuple(self.source(source, copy) for source in edge.sources)) for edge in node.edges
        )
        return replace(node, edges=edges)

    def source(self, source: Source, copy: int | None) -> Source:
        """What a node of that copy, or outside of the loop (None), reads."""
        producer, loop, distance = source.producer, source.loop, source.distance
        if producer not in self.place:
            return source
        if copy is None or loop != self.loop:
            return Source(self.number(producer, self.count - 1), loop, distance)
        earlier = copy - distance
        place = self.number(producer, earlier % self.count)
        return Source(place, loop, -(earlier // self.count))
