"""Basic blocks, dominators, natural loops and their nesting, of any instruction list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfassert.frontends.machine.dominators import (
    Successors,
    immediate_dominators,
    postorder,
    reachable,
    reverse,
)
from perfassert.kernel.graph import loop_chain

EXIT = -1  # in place of a block's number


@dataclass(frozen=True, slots=True)
class Jump:
    """Jump at the end of an instruction, as its possible targets.

    ``targets``: instruction indices, :data:`EXIT` for the end of the thread; ``conditional``:
    the instruction after it may follow too.
    """

    targets: tuple[int, ...]
    conditional: bool


@dataclass(frozen=True, slots=True)
class ControlEdge:
    """Edge from one block to another; ``taken``: by the jump at its end, or by falling through."""

    source: int
    target: int
    taken: bool


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions ``start`` to ``stop`` (exclusive); ``loop``: the innermost one, or -1."""

    index: int
    start: int
    stop: int
    edges: tuple[ControlEdge, ...]
    loop: int


@dataclass(frozen=True, slots=True)
class NaturalLoop:
    """Blocks that a back edge encloses; ``latches`` end in an edge to the header."""

    index: int
    parent: int
    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """The control-flow graph of one kernel; only blocks that can be reached.

    ``order``: reverse postorder; ``dominator`` and ``postdominator``: immediate ones by block
    (the entry and the exits have none).
    """

    blocks: Mapping[int, BasicBlock]
    order: tuple[int, ...]
    loops: tuple[NaturalLoop, ...]
    dominator: Mapping[int, int]
    postdominator: Mapping[int, int]
    predecessors: Mapping[int, tuple[ControlEdge, ...]]
    irreducible: frozenset[int]

    def dominates(self, a: int, b: int) -> bool:
        """Return True if every path to ``b`` passes through ``a``."""
        return is_above(a, b, self.dominator)

    def postdominates(self, a: int, b: int) -> bool:
        """Return True if every path from ``b`` to the end passes through ``a``."""
        return is_above(a, b, self.postdominator)

    def chain(self, loop: int) -> tuple[int, ...]:
        """The loop and those around it, outermost first."""
        return loop_chain(self.loops, loop)


def is_above(a: int, b: int, tree: Mapping[int, int]) -> bool:
    """Return True if ``a`` is ``b`` or an ancestor of it in a tree of immediate dominators."""
    while b != a:
        if b not in tree or tree[b] == b:
            return False
        b = tree[b]
    return True


def analyse(count: int, jumps: Mapping[int, Jump], labels: Sequence[int] = ()) -> Flow:
    """Return the flow of ``count`` instructions that starts at the first one."""
    # Of 5 instructions, a conditional jump 1 → 4 and a jump 3 → 1 make blocks 0, 1, 2–3 and 4, of
    # which 1 dominates 2–3 and 4; the edge from 2–3 back to 1 makes a loop of 1 and 2–3.
    leaders = {0, *(label for label in labels if 0 <= label < count)}
    for index, jump in jumps.items():
        leaders.update(t for t in jump.targets if 0 <= t < count)
        if index + 1 < count:
            leaders.add(index + 1)
    starts = sorted(leaders)
    number = {start: i for i, start in enumerate(starts)}
    edges: dict[int, list[ControlEdge]] = {}
    for i in range(len(starts)):
        stop = starts[i + 1] if i + 1 < len(starts) else count
        edges[i] = _edges(i, stop, jumps.get(stop - 1), number, count)
    following = {i: list(dict.fromkeys(e.target for e in own)) for i, own in edges.items()}
    following[EXIT] = []
    order = tuple(n for n in reversed(postorder(following, 0)) if n != EXIT)
    reached = {*order}
    successors = {n: following[n] for n in (*order, EXIT)}
    dominator = immediate_dominators(successors, 0)
    dominator.pop(EXIT, None)
    loops, irreducible = _loops(successors, order, dominator)
    innermost = dict.fromkeys(reached, -1)
    for loop in loops:  # outer loops come first
        for block in loop.blocks:
            innermost[block] = loop.index
    ends = [*starts, count]
    blocks = {
        i: BasicBlock(i, starts[i], ends[i + 1], tuple(edges[i]), innermost[i])
        for i in sorted(reached)
    }
    predecessors: dict[int, list[ControlEdge]] = {i: [] for i in reached}
    for made in blocks.values():
        for edge in made.edges:
            if edge.target != EXIT:
                predecessors[edge.target].append(edge)
    return Flow(
        blocks, order, loops, dominator, immediate_postdominators(successors),
        {b: tuple(e) for b, e in predecessors.items()}, irreducible,
    )  # fmt: skip


def _edges(
    block: int, stop: int, jump: Jump | None, number: Mapping[int, int], count: int
) -> list[ControlEdge]:
    following = number[stop] if stop < count else EXIT
    if jump is None:
        return [ControlEdge(block, following, False)]
    targets = dict.fromkeys(number.get(t, EXIT) for t in jump.targets)
    edges = [ControlEdge(block, t, True) for t in targets]
    if jump.conditional:
        edges.append(ControlEdge(block, following, False))
    return edges


def immediate_postdominators(successors: Successors) -> dict[int, int]:
    """Return the immediate postdominators; endless loops are given an edge to :data:`EXIT`."""
    backward = reverse(successors)
    leaving = reachable(backward, EXIT)
    for node in sorted({*successors} - leaving):
        endless = reachable(successors, node)
        if node == min(endless) and all(node in reachable(successors, n) for n in endless):
            backward[EXIT].append(node)
    return immediate_dominators(backward, EXIT)


def _loops(
    successors: Successors, order: Sequence[int], dominator: Mapping[int, int]
) -> tuple[tuple[NaturalLoop, ...], frozenset[int]]:
    """Return natural loops, those with the same header merged; outer before inner."""
    position = {block: i for i, block in enumerate(order)}
    latches: dict[int, list[int]] = {}
    irreducible = set()
    for source in order:
        for target in successors[source]:
            if target != EXIT and position[target] <= position[source]:
                if is_above(target, source, dominator):
                    latches.setdefault(target, []).append(source)
                else:
                    irreducible.add(target)
    bodies, predecessors = {}, reverse(successors)
    for header, ends in latches.items():
        body = {header}
        stack = list(ends)
        while stack:
            block = stack.pop()
            if block not in body:
                body.add(block)
                stack.extend(predecessors[block])
        bodies[header] = frozenset(body)
    headers = sorted(bodies, key=lambda h: (-len(bodies[h]), position[h]))
    loops: list[NaturalLoop] = []
    for header in headers:
        around = [x for x in loops if header in x.blocks]
        parent = min(around, key=lambda x: len(x.blocks)).index if around else -1
        loops.append(
            NaturalLoop(len(loops), parent, header, bodies[header], tuple(sorted(latches[header])))
        )
    return tuple(loops), frozenset(irreducible)
