"""A graph without some of its instructions, with shared work, with copies that need no register."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from perfassert.engines.advisor.code import Code
from perfassert.kernel.graph import (
    BodyItem,
    Edge,
    EdgeSource,
    InstructionGraph,
    ItemKind,
    Loop,
    Node,
)
from perfassert.kernel.program import Program
from perfassert.kernel.roles import space_of

OUTSIDE = -1  # in place of a loop's number


def copies_of_loops(code: Code, graph: InstructionGraph) -> dict[int, list[int]]:
    """Return the loops of the graph, by the loop of the code that they are copies of.

    Code loops that are no longer loops are left out. The copies are in the order of the nodes.
    """
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
    """Return the graph without nodes ``gone``; the next node of a body inherits their waits."""
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
                changed[item.number] = node._replace(edges=(*node.edges, *waiting))
                waiting = []
        return kept

    return with_nodes(with_bodies(graph, remaining_items), changed)


def inside(graph: InstructionGraph, body: Sequence[BodyItem]) -> Iterator[Node]:
    """Yield the nodes of a body and of the loops in it."""
    for item in body:
        if item.kind is ItemKind.NODE:
            yield graph.nodes[item.number]
        else:
            yield from inside(graph, graph.loops[item.number].body)


def node_registers(node: Node, program: Program | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers that a node defines and uses.

    A predicated instruction also uses the old values of its results. Nodes of a graph without code
    count as their own registers.
    """
    if program is None or node.program < 0:
        read = {s.producer for e in node.edges for s in e.sources if not s.distance}
        return (str(node.index),), tuple(map(str, sorted(read)))
    i = program.instructions[node.program]
    return i.defines, (*i.uses, *i.defines) if i.predicate else i.uses


def balance_warps(graph: InstructionGraph, warps: int, program: Program | None) -> InstructionGraph:
    """Return a graph in which the work of some warps of a block is divided among all warps.

    A loop that only some warps run gets proportionally fewer iterations. Of single instructions
    that only some warps execute, proportionally fewer are left, but no fewer than depend on each
    other. Loops that pass values on through shared memory are not changed, nor is a graph with
    channels, whose warps have different tasks.
    """
    if graph.channels:
        return graph
    own = {
        x.index: len(set().union(*sets))
        for x in graph.loops
        if (sets := [n.warps or () for n in inside(graph, x.body) if not n.fence]) and all(sets)
    }
    serial = {x for x in own if {"shared_load", "shared_store"} <= _operations(graph, x)}
    outermost = {x for x in own if graph.loops[x].parent not in own and x not in serial}
    loops = tuple(
        replace(x, each=(), trips=max(1, round(graph.trips(x.index) * own[x.index] / warps)))
        if x.index in outermost
        else (x if x.index in serial else replace(x, each=()))
        for x in graph.loops
    )
    shared = {n.index for loop in outermost for n in inside(graph, graph.loops[loop].body)}
    kept = {n.index for loop in serial for n in inside(graph, graph.loops[loop].body)}
    gone = _redundant_instructions(graph, shared | kept, warps, program)
    nodes = tuple(n if n.index in kept else n._replace(warps=None) for n in graph.nodes)
    return without(replace(graph, nodes=nodes, loops=loops), gone)


def _operations(graph: InstructionGraph, loop: int) -> set[str]:
    return {n.operation for n in inside(graph, graph.loops[loop].body)}


def work_alone(graph: InstructionGraph, warps: int) -> InstructionGraph:
    """Remove the barriers that no pair of warps needs.

    A barrier is gone if only one and the same warp touches memory before and after it. From where
    only one does to the end, the others are done. The graph itself is returned where no barrier is
    saved.
    """
    if graph.channels:
        return graph
    everyone = frozenset(range(warps))
    loops = [x for x in graph.loops if x.parent < 0]
    lone = [x for x in loops if len(_touching_memory(inside(graph, x.body), everyone)) == 1]
    changed = graph
    for loop in lone:
        changed = _wait_once(changed, loop)
    return _without_lone_barriers(changed, everyone)


def _wait_once(graph: InstructionGraph, loop: Loop) -> InstructionGraph:
    """A loop that waits before or after all that it touches waits once, before or behind it."""
    body = [n for n in inside(graph, loop.body) if n.fence or _touches_memory(n)]
    fences = [n for n in body if n.fence]
    if len(fences) != 1 or fences[0].loop != loop.index or fences[0] not in (body[0], body[-1]):
        return graph
    barrier = BodyItem(ItemKind.NODE, fences[0].index)
    here = BodyItem(ItemKind.LOOP, loop.index)
    both = (barrier, here) if fences[0] is body[0] else (here, barrier)

    def move(around: int, items: Sequence[BodyItem]) -> Sequence[BodyItem]:
        if around == loop.index:
            return [item for item in items if item != barrier]
        return [part for item in items for part in (both if item == here else (item,))]

    outside = fences[0]._replace(loop=loop.parent, edges=())
    return with_nodes(with_bodies(graph, move), {outside.index: outside})


def _without_lone_barriers(graph: InstructionGraph, everyone: frozenset[int]) -> InstructionGraph:
    """Remove barriers before and after which only one and the same warp touches memory."""
    phases = [_Phase(frozenset(), [], frozenset())]
    for item in graph.body:
        members = list(inside(graph, [item]))
        working = _touching_memory(members, everyone)
        barriers = frozenset(n.index for n in members if n.fence)
        if barriers:  # one, or those of a loop
            phases.append(_Phase(working, members, barriers))
        else:
            last = phases[-1]
            phases[-1] = last._replace(working=last.working | working, nodes=last.nodes + members)
    gone, around = set[int](), phases[0].working
    for phase in phases[1:]:
        if len(around) == 1 and len(around | phase.working) == 1:
            gone |= phase.barriers
        else:
            around = phase.working
    if not gone:
        return graph
    last_warp = phases[-1].working
    alone: dict[int, Node] = {}
    for phase in reversed(phases[1:]):
        if len(last_warp | phase.working) != 1:
            break
        last_warp |= phase.working
        alone |= {n.index: n._replace(warps=last_warp) for n in phase.nodes if not n.fence}
        gone |= {n.index for n in phase.nodes if not last_warp <= (n.warps or everyone)}
    return without(with_nodes(graph, alone), gone)


class _Phase(NamedTuple):
    """Nodes from one barrier up to the next, with the warps that touch memory there."""

    working: frozenset[int]
    nodes: list[Node]
    barriers: frozenset[int]


def _touching_memory(nodes: Iterable[Node], everyone: frozenset[int]) -> frozenset[int]:
    """Warps that do; for those that it is masked for, an access has another class."""
    return frozenset().union(*(n.warps or everyone for n in nodes if _touches_memory(n)))


def _touches_memory(node: Node) -> bool:
    return bool(node.touches) or space_of(node.operation) is not None


def _redundant_instructions(
    graph: InstructionGraph, shared: Collection[int], warps: int, program: Program | None
) -> frozenset[int]:
    """Single instructions of some warps that no warp executes once all take part."""
    gone: set[int] = set()
    groups: dict[frozenset[int], list[Node]] = {}
    for n in (*graph.nodes, None):
        if n is None or n.fence:
            for own, members in groups.items():
                chain = _longest_chain(members, program)
                others = [m.index for m in members if m.index not in chain]
                share = round(len(members) * len(own) / warps)
                gone.update(others[max(0, share - len(chain)) :])
            groups = {}
        elif n.warps and n.index not in shared:
            groups.setdefault(n.warps, []).append(n)
    return frozenset(gone)


def _longest_chain(nodes: Sequence[Node], program: Program | None) -> frozenset[int]:
    """Return the longest chain of instructions, each of which needs its predecessor's result."""
    computed: dict[str, int] = {}  # by register, which of the nodes
    before: list[int] = []  # the last of the longest chain that each needs, or -1
    length: list[int] = []
    for k, n in enumerate(nodes):
        defines, uses = node_registers(n, program)
        needed = (computed[name] for name in uses if name in computed)
        before.append(max(needed, key=length.__getitem__, default=-1))
        length.append(1 + (length[before[k]] if before[k] >= 0 else 0))
        computed.update(dict.fromkeys(defines, k))
    chain: set[int] = set()
    k = max(range(len(nodes)), key=length.__getitem__)
    while k >= 0:
        chain.add(nodes[k].index)
        k = before[k]
    return frozenset(chain)


def asynchronous(graph: InstructionGraph, pairs: Mapping[int, int]) -> InstructionGraph:
    """Make stores to shared memory part of the loads that they are given with.

    The next barrier waits for these loads, in a loop for those of the iteration before.
    """
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
                changed[node.index] = node._replace(edges=(*node.edges, *waits))
                copied = []
            kept.append(item)
        return kept

    return with_nodes(with_bodies(graph, remaining_items), changed)
