"""A graph without some of its instructions, with shared work, with copies that need no register."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from perfassert.engines.advisor.code import Code
from perfassert.kernel.graph import BodyItem, Edge, EdgeSource, InstructionGraph, ItemKind, Node
from perfassert.kernel.roles import space_of

OUTSIDE = -1


def copies_of_loops(code: Code, graph: InstructionGraph) -> dict[int, list[int]]:
    """Loops of the graph by the loop of the code that they are copies of, where it is still one;
    in the order of the nodes."""
    by_loop: dict[int, dict[int, None]] = {}
    for node in graph.nodes:
        if node.instruction >= len(code.instructions):
            continue
        own, here = code.chain(code.instructions[node.instruction].loop), graph.chain(node.loop)
        if len(own) == len(here):
            for a, b in zip(own, here, strict=True):
                by_loop.setdefault(a, {}).setdefault(b)
    return {loop: list(copies) for loop, copies in by_loop.items()}


def with_nodes(graph: InstructionGraph, changed: Mapping[int, Node]) -> InstructionGraph:
    """The graph with other nodes of the same numbers."""
    return replace(graph, nodes=tuple(changed.get(n.index, n) for n in graph.nodes))


def with_bodies(
    graph: InstructionGraph, make_items: Callable[[int, Sequence[BodyItem]], Sequence[BodyItem]]
) -> InstructionGraph:
    """The graph with the bodies that ``make_items`` returns for a loop and its body.

    :data:`OUTSIDE` stands for the body outside of all loops.
    """
    loops = tuple(replace(x, body=tuple(make_items(x.index, x.body))) for x in graph.loops)
    return replace(graph, loops=loops, body=tuple(make_items(OUTSIDE, graph.body)))


def without(graph: InstructionGraph, gone: Collection[int]) -> InstructionGraph:
    """Without these nodes. What they waited for, the next one of their body waits for."""
    changed: dict[int, Node] = {}

    def remaining_items(_: int, body: Sequence[BodyItem]) -> Sequence[BodyItem]:
        kept: list[BodyItem] = []
        waiting: list[Edge] = []
        for item in body:
            if item.kind is ItemKind.NODE and item.number in gone:
                waiting += graph.nodes[item.number].edges
                continue
            kept.append(item)
            if waiting and item.kind is ItemKind.NODE:
                node = graph.nodes[item.number]
                changed[item.number] = replace(node, edges=(*node.edges, *waiting))
                waiting = []
        return kept

    return with_nodes(with_bodies(graph, remaining_items), changed)


def inside(graph: InstructionGraph, body: Sequence[BodyItem]) -> Iterator[Node]:
    """All nodes of a body and of the loops in it."""
    for item in body:
        if item.kind is ItemKind.NODE:
            yield graph.nodes[item.number]
        else:
            yield from inside(graph, graph.loops[item.number].body)


def balance_warps(graph: InstructionGraph, warps: int) -> InstructionGraph:
    """All warps of a block do the same: what only some do is shared among all.

    Loops that only some warps run have as many fewer iterations, of single instructions as many
    are left. Warps that meet at channels have tasks of their own and stay as they are.
    """
    if graph.channels:
        return graph
    own = {
        x.index: len(set().union(*sets))
        for x in graph.loops
        if (sets := [n.warps or () for n in inside(graph, x.body) if not n.fence]) and all(sets)
    }
    outermost = {x for x in own if graph.loops[x].parent not in own}
    loops = tuple(
        replace(x, each=(), trips=max(1, round(graph.trips(x.index) * own[x.index] / warps)))
        if x.index in outermost
        else replace(x, each=())
        for x in graph.loops
    )
    shared = {n.index for loop in outermost for n in inside(graph, graph.loops[loop].body)}
    gone = _others_share(graph, shared, warps)
    nodes = tuple(replace(n, warps=None) for n in graph.nodes)
    return without(replace(graph, nodes=nodes, loops=loops), gone)


def end_alone(graph: InstructionGraph, warps: int) -> InstructionGraph:
    """From where only one warp of a block touches memory any more, it waits for no other, and the
    others are done. The graph itself where no barrier is saved."""
    if graph.channels:
        return graph
    body, everyone = graph.body, frozenset(range(warps))
    working = frozenset[int]()
    first = len(body)
    for place in range(len(body) - 1, -1, -1):
        members = list(inside(graph, body[place : place + 1]))
        if body[place].kind is ItemKind.NODE and members[0].fence:
            first = place
            continue
        fenced = any(n.fence for n in members)
        working |= everyone if fenced else _touching_memory(members, everyone)
        if len(working) > 1:
            break
    tail = list(inside(graph, body[first + 1 :]))
    if len(working) < 1 or not any(n.fence for n in tail):
        return graph
    last = _touching_memory(tail, everyone)
    alone = {n.index: replace(n, warps=last) for n in tail}
    gone = {n.index for n in tail if n.fence or not last <= (n.warps or everyone)}
    return without(with_nodes(graph, alone), gone)


def _touching_memory(nodes: Iterable[Node], everyone: frozenset[int]) -> frozenset[int]:
    """Warps that do; for those that it is masked for, an access has another class."""
    sets = (n.warps or everyone for n in nodes if n.touches or space_of(n.operation))
    return frozenset().union(*sets)


def _others_share(graph: InstructionGraph, shared: Collection[int], warps: int) -> frozenset[int]:
    """Single instructions of some warps that no warp executes once all take part."""
    gone: set[int] = set()
    owed = 0.0
    for n in graph.nodes:
        if n.warps is None or n.index in shared:
            continue
        owed += len(n.warps) / warps
        if owed < 1:
            gone.add(n.index)
        else:
            owed -= 1
    return frozenset(gone)


def asynchronous(graph: InstructionGraph, pairs: Mapping[int, int]) -> InstructionGraph:
    """Stores to shared memory become part of the loads that they are given with: the next barrier
    waits for these, in a loop for those of the iteration before."""
    loads: dict[int, list[int]] = {}
    for n in graph.nodes:
        loads.setdefault(n.instruction, []).append(n.index)
    changed: dict[int, Node] = {}

    def remaining_items(loop: int, body: Sequence[BodyItem]) -> Sequence[BodyItem]:
        kept: list[BodyItem] = []
        copied: list[int] = []
        for item in body:
            node = graph.nodes[item.number] if item.kind is ItemKind.NODE else None
            if node is not None and node.instruction in pairs:
                given = loads.get(pairs[node.instruction], ())
                own = [p for p in given if graph.nodes[p].loop == loop]
                copied += own
                if own:
                    continue
            if node is not None and node.fence and copied:
                waits = [Edge((EdgeSource(p, loop, int(loop >= 0)),)) for p in copied]
                changed[node.index] = replace(node, edges=(*node.edges, *waits))
                copied = []
            kept.append(item)
        return kept

    return with_nodes(with_bodies(graph, remaining_items), changed)
