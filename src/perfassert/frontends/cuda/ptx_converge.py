"""Where lanes that have parted meet again: PTX leaves that open, machine code says it.

A branch that may part lanes is followed by its immediate postdominator, where they wait for each
other; ``bssy B`` notes who is there before they part, ``bsync B`` waits for them, ``break B`` tells
that some do not come any more, as the compiler writes it in machine code, and ``bclear B`` forgets
them where one comes by again. Before lanes exchange data where they may have parted, ``warpsync``
waits for those that take part.

Lanes that stay in a loop meet in the same iteration, whatever leaves the loop meanwhile; those that
leave it meet behind it, and the note is taken before the first iteration. Ways that only lead out
of the kernel count for nothing: of several ends the one that is parted from in the fewest loops,
and first, is what the others are left for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import networkx as nx

from perfassert.frontends.cuda.control_flow import EXIT, Block, Flow, NaturalLoop
from perfassert.frontends.cuda.ptx import kernel_of
from perfassert.frontends.cuda.ptx_text import PtxInstruction, Routine

ENDS = ("ret", "exit", "trap")
_TOGETHER = ("shfl", "vote", "match", "redux", "elect")
_OUT = -2  # any end, where there is no block that is one


def converged(routine: Routine) -> Routine:
    """The same with markers; a jump to the end is an end."""
    routine = _ended(routine)
    flow = kernel_of(routine, ()).flow
    return _Writer(routine, flow, _plan(routine, flow)).routine()


def _ended(routine: Routine) -> Routine:
    code = routine.instructions
    ends = {
        label
        for label, place in routine.labels.items()
        if place < len(code) and code[place].parts[0] in ENDS and code[place].guard is None
    }
    changed = tuple(
        replace(i, opcode="exit", operands=()) if _jumps_to(i, ends) else i for i in code
    )
    return replace(routine, instructions=changed)


def _jumps_to(instruction: PtxInstruction, labels: set[str]) -> bool:
    return instruction.parts[0] == "bra" and "".join(instruction.operands[-1:]) in labels


@dataclass(frozen=True)
class _Plan:
    """``waits``: meeting block → barrier; ``branches``: block → barriers that are set before its
    last instruction; ``loops``: header → barriers that are set before it is entered; ``again``:
    meeting blocks in loops; ``apart``: blocks in which some lanes may be elsewhere; ``leaves``:
    edge out of loops → barriers that are not come to any more."""

    waits: Mapping[int, str]
    branches: Mapping[int, tuple[str, ...]]
    loops: Mapping[int, tuple[str, ...]]
    again: frozenset[int]
    apart: frozenset[int]
    leaves: Mapping[tuple[int, int], tuple[str, ...]]


def _plan(routine: Routine, flow: Flow) -> _Plan:
    parted = _parted(routine, flow)
    graph = _graph(flow)
    waits: dict[int, str] = {}
    branches: dict[int, tuple[str, ...]] = {}
    loops: dict[int, tuple[str, ...]] = {}
    leaves: dict[tuple[int, int], tuple[str, ...]] = {}
    apart: set[int] = set()
    for point, blocks in sorted(parted.items()):
        barrier = waits.setdefault(point, f"B{len(waits)}")
        outermost = _outermost(flow, graph, blocks, point)
        places = dict.fromkeys(_place(flow, b, point) for b in outermost)
        for place, header in places:
            into = loops if header else branches
            into[place] = (*into.get(place, ()), barrier)
        between = {n for b in blocks for n in {b, *_between(graph, b, point)}}
        apart |= {n for b in blocks for n in _between(graph, b, point)}
        for edge in _out_of(flow, point, between):
            leaves[edge] = (*leaves.get(edge, ()), barrier)
    again = frozenset(p for p in waits if flow.blocks[p].loop >= 0)
    return _Plan(waits, branches, loops, again, frozenset(apart), leaves)


def _parted(routine: Routine, flow: Flow) -> dict[int, list[int]]:
    """Meeting block → the branches whose lanes meet there."""
    outside = _meetings(flow)
    inside = [_meetings_in(flow, loop) for loop in flow.loops]
    found: dict[int, list[int]] = {}
    for number in flow.order:
        block = flow.blocks[number]
        if not _may_part(routine, block):
            continue
        targets = {e.target for e in block.edges}
        point = outside.get(number)
        for loop in reversed(flow.chain(block.loop)):
            if len(targets & flow.loops[loop].blocks) > 1:
                point = inside[loop].get(number)
                break
        if point is not None:
            found.setdefault(point, []).append(number)
    return found


def _meetings_in(flow: Flow, loop: NaturalLoop) -> dict[int, int]:
    """As :func:`_meetings`, in one iteration; at its end they meet at the header."""
    graph = _graph(flow).subgraph(loop.blocks).copy()
    for latch in loop.latches:
        graph.remove_edge(latch, loop.header)
        graph.add_edge(latch, _OUT)
    backward = graph.reverse(copy=True)
    tree = nx.immediate_dominators(backward, _OUT)
    return {b: loop.header if p == _OUT else p for b, p in tree.items() if b != _OUT}


def _out_of(flow: Flow, point: int, between: set[int]) -> list[tuple[int, int]]:
    """Edges out of the innermost loop around a meeting point, of lanes that others wait for."""
    loop = flow.blocks[point].loop
    if loop < 0:
        return []
    blocks = flow.loops[loop].blocks
    return [
        (n, e.target)
        for n in sorted(between & blocks)
        for e in flow.blocks[n].edges
        if e.target not in blocks and e.target != EXIT
    ]


def _between(graph: nx.DiGraph, block: int, point: int) -> set[int]:
    """What is executed after a branch and before the meeting point."""
    rest = graph.subgraph(n for n in graph if n != point)
    return {n for after in rest.successors(block) for n in {after, *nx.descendants(rest, after)}}


def _may_part(routine: Routine, block: Block) -> bool:
    last = routine.instructions[block.stop - 1]
    if last.parts[0] not in ("bra", "brx") or "uni" in last.parts:
        return False
    return len({e.target for e in block.edges} - {EXIT}) > 1


def _graph(flow: Flow) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(flow.blocks)
    graph.add_edges_from(
        (e.source, e.target) for b in flow.blocks.values() for e in b.edges if e.target != EXIT
    )
    return graph


def _meetings(flow: Flow) -> dict[int, int]:
    """Block → the block where what parts at its end meets again."""
    found: dict[int, int] = {}
    graph = _graph(flow)
    while len(graph):
        ends = [n for n in graph if not graph.out_degree(n)]
        reach = {n: nx.ancestors(graph, n) | {n} for n in ends}
        if ends:
            main = _main(flow, reach)
            members = reach[main]
        else:
            leaving = [n for n in graph if any(e.target == EXIT for e in flow.blocks[n].edges)]
            main = _OUT
            graph.add_edges_from((n, main) for n in leaving)
            members = nx.ancestors(graph, main) if leaving else set()
            if not members:
                return found
        backward = graph.subgraph({*members, main}).reverse(copy=True)
        for block, point in nx.immediate_dominators(backward, main).items():
            if block not in (main, point) and point != _OUT:
                found[block] = point
        graph.remove_nodes_from({*members, main})
    return found


def _main(flow: Flow, reach: Mapping[int, set[int]]) -> int:
    """Of two ends, the one whose way parts from that to the other in fewer loops, or earlier."""
    best, *others = reach
    for end in others:
        mine, its = _turn(flow, reach[best], end), _turn(flow, reach[end], best)
        if (*mine, -len(reach[end]), -end) < (*its, -len(reach[best]), -best):
            best = end
    return best


def _turn(flow: Flow, other: set[int], end: int) -> tuple[int, int]:
    """Where the way to an end parts for good from that to another: in how many loops, and behind
    how many dominators."""
    block = end
    while block in flow.dominator:
        above = flow.dominator[block]
        if above in other:
            return len(flow.chain(flow.blocks[above].loop)), _depth(flow, above)
        block = above
    return 0, 0


def _depth(flow: Flow, block: int) -> int:
    count = 0
    while block in flow.dominator:
        block = flow.dominator[block]
        count += 1
    return count


def _outermost(flow: Flow, graph: nx.DiGraph, blocks: list[int], point: int) -> list[int]:
    """Those that no other one of them leads to without the meeting point between."""
    return [
        b
        for b in blocks
        if not any(
            a != b and flow.dominates(a, b) and not _comes_back(graph, point, b, a) for a in blocks
        )
    ]


def _comes_back(graph: nx.DiGraph, point: int, block: int, around: int) -> bool:
    """Whether ``block`` is reached from the meeting point without passing ``around``."""
    rest = graph.subgraph(n for n in graph if n != around)
    return point in rest and nx.has_path(rest, point, block)


def _place(flow: Flow, block: int, point: int) -> tuple[int, bool]:
    """Before the outermost loop around a branch that does not hold the meeting point; else before
    the branch itself."""
    for loop in flow.chain(flow.blocks[block].loop):
        if point not in flow.loops[loop].blocks:
            return flow.loops[loop].header, True
    return block, False


class _Writer:
    """The instructions again, with markers and the labels that they need."""

    def __init__(self, routine: Routine, flow: Flow, plan: _Plan) -> None:
        self.own = routine
        self.flow = flow
        self.plan = plan
        self.out: list[PtxInstruction] = []
        self.labels: dict[str, int] = {}
        self.tables = dict(routine.tables)
        self.at: dict[int, list[str]] = {}
        for label, place in routine.labels.items():
            self.at.setdefault(place, []).append(label)
        self.block_of = {b.start: b for b in flow.blocks.values()}
        self.inside = {x.header: x.blocks for x in flow.loops}

    def routine(self) -> Routine:
        block: Block | None = None
        for instruction in self.own.instructions:
            here = self.block_of.get(instruction.index)
            if here is not None:
                self.start(here, block, instruction.line)
                block = here
            elif instruction.index in self.at:
                block = None  # code that nobody reaches
            self.mark(instruction.index)
            if block is not None and instruction.index == block.stop - 1:
                for barrier in self.plan.branches.get(block.index, ()):
                    self.add("bssy", (barrier,), instruction.line)
                self.leave(block, instruction)
            self.copy(instruction, block)
        self.mark(len(self.own.instructions))
        return replace(
            self.own, instructions=tuple(self.out), labels=self.labels, tables=self.tables
        )

    def add(
        self,
        opcode: str,
        operands: tuple[str, ...],
        line: int,
        guard: tuple[str, bool] | None = None,
    ) -> None:
        self.out.append(PtxInstruction(len(self.out), line, opcode, operands, guard))

    def mark(self, index: int) -> None:
        """Labels that stand here and have no place yet."""
        for label in self.at.get(index, ()):
            self.labels.setdefault(label, len(self.out))

    def start(self, block: Block, before: Block | None, line: int) -> None:
        """What is executed before a block: on the way into a loop, then by all that meet here."""
        barriers = self.plan.loops.get(block.index, ())
        if barriers:
            if before is not None and before.index in self.inside[block.index]:
                self.add("bra.uni", (_head(block.index),), line)
            self.labels[_entry(block.index)] = len(self.out)
            self.wait(block, line)
            for barrier in barriers:
                self.add("bssy", (barrier,), line)
            self.labels[_head(block.index)] = len(self.out)
        self.mark(block.start)
        self.wait(block, line)

    def wait(self, block: Block, line: int) -> None:
        if block.index in self.plan.waits:
            self.add("bsync", (self.plan.waits[block.index],), line)
        if block.index in self.plan.again:
            self.add("bclear", (self.plan.waits[block.index],), line)

    def leave(self, block: Block, last: PtxInstruction) -> None:
        """Under the guard that lanes go by; through a table of jumps, nobody tells."""
        if last.parts[0] == "brx":
            return
        jumps = last.parts[0] == "bra"
        for edge in block.edges:
            guard = last.guard if jumps else None
            if guard is not None and not edge.taken:
                guard = (guard[0], not guard[1])
            for barrier in self.plan.leaves.get((block.index, edge.target), ()):
                self.add("break", (barrier,), last.line, guard)

    def copy(self, instruction: PtxInstruction, block: Block | None) -> None:
        """Jumps into a loop from outside go to what is before it."""
        operands = instruction.operands
        root = instruction.parts[0]
        if root in ("bra", "brx") and operands and block is not None:
            name = operands[-1] if root == "bra" else operands[1]
            if name in self.tables:
                own = f"{name}${len(self.out)}"
                self.tables[own] = tuple(self.target(t, block) for t in self.tables[name])
            else:
                own = self.target(name, block)
            operands = tuple(own if o == name else o for o in operands)
        together = root in _TOGETHER and "sync" in instruction.parts and operands
        if together and block is not None and block.index in self.plan.apart:
            self.out.append(replace(instruction, index=len(self.out), opcode="warpsync",
                                    operands=operands[-1:]))  # fmt: skip
        self.out.append(replace(instruction, index=len(self.out), operands=operands))

    def target(self, label: str, source: Block) -> str:
        there = self.block_of.get(self.own.labels.get(label, -1))
        if there is None or there.index not in self.plan.loops:
            return label
        return label if source.index in self.inside[there.index] else _entry(there.index)


def _entry(block: int) -> str:
    return f"$entry{block}"


def _head(block: int) -> str:
    return f"$head{block}"
