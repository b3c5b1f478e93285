"""Wider accesses of compiled code: neighbouring elements as one access of up to 16 bytes.

Neighbours are accessed in three ways: by instructions of one body, by iterations of a loop, and by
the lanes of a warp. Of the first, one instruction is left. Of the others, an iteration or a thread
takes several elements: its accesses are as much wider, what is computed of an element is computed
of each, and there are fewer iterations or blocks.

``b[i] = 2 * a[i]`` on bytes, by 256 threads of a block: with 16 of them in an access, a 16th of the
blocks has two accesses per thread and 16 products.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, AffineCall, Quotient, Symbol
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import (
    BodyItem,
    Edge,
    EdgeSource,
    InstructionGraph,
    ItemKind,
    Node,
)
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WIDEST_ACCESS_BYTES
from perfassert.kernel.names import Name
from perfassert.predictor.model import Model
from perfassert.predictor.rewrites.changed_graph import with_bodies, without
from perfassert.predictor.rewrites.relaunching import asks_for_grid

_THREAD, _BLOCK = "threadIdx.x", "blockIdx.x"
_WRAP = 1 << 32  # of 32-bit indices, beyond which no array reaches
_SERVING = frozenset({"branch", "barrier", "fence"})


@dataclass(frozen=True, slots=True)
class Widening:
    """Accesses, by number, each of which takes ``width`` neighbours at once.

    ``along``: the loop whose iterations, or the axis of the launch whose threads, access neighbours
    now; None: instructions do, all but the first of which are in ``joined``.
    """

    accesses: frozenset[int]
    width: int
    along: Name | None = None
    joined: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NarrowLaunch:
    """Bound kernel with its ``launch`` and its ``effective`` one.

    The blocks of the effective launch stand for iterations of a loop over the grid.
    """

    kernel: BoundKernel
    launch: Launch
    effective: Launch

    @property
    def strides(self) -> bool:
        """Ask if threads go on by the size of the grid, which the code reads."""
        return self.effective.blocks > self.launch.blocks and asks_for_grid(self.kernel)


def widening(site: NarrowLaunch, units: int) -> Widening | None:
    """Find wider accesses of a kernel; None if there are none or data decides what executes.

    Args:
        site: the kernel and its launch.
        units: compute units, each of which keeps a block at least.
    """
    kernel = site.kernel
    uneven = kernel.amount is not None and not site.strides
    if kernel.executed is not None or uneven or kernel.graph.channels:
        return None
    moving = {
        n: a
        for n, a in enumerate(kernel.bound)
        if a.space in ("global", "shared", "local") and a.bytes < WIDEST_ACCESS_BYTES
    }
    if any(a.atomic or a.pieces or a.touched is not None for a in moving.values()):
        return None
    return (
        _by_instructions(kernel, moving)
        or _by_iterations(kernel, moving)
        or _by_threads(site, moving, units)
    )


def widening_site(model: Model) -> NarrowLaunch | None:
    """Return what of a model can be widened; None of a kernel without code."""
    bound_launch = model.bound_launch
    if not isinstance(bound_launch.kernel, BoundKernel):
        return None
    return NarrowLaunch(bound_launch.kernel, model.launch, bound_launch.effective_launch)


def _by_instructions(kernel: BoundKernel, moving: Mapping[int, BoundAccess]) -> Widening | None:
    """Widen by joining instructions: complete groups of neighbours, of one direction and body."""
    bodies = {t: n.loop for n in kernel.graph.nodes for t in n.touches}
    kinds: dict[object, list[int]] = {}
    for n, a in moving.items():
        if a.space == "global":
            key = (a.field, a.direction, a.bytes, a.address.terms, a.conditions, bodies.get(n))
            kinds.setdefault(key, []).append(n)
    for width in _widths(a.bytes for n, a in moving.items()):
        joined: dict[int, int] = {}
        kept: set[int] = set()
        for numbers in kinds.values():
            size = width * moving[numbers[0]].bytes
            if size > WIDEST_ACCESS_BYTES or _steps(moving[numbers[0]], size):
                continue
            groups: dict[int, dict[int, int]] = {}
            for n in numbers:
                place, within = divmod(moving[n].address.constant, size)
                groups.setdefault(place, {}).setdefault(within, n)
            for own in groups.values():
                if len(own) == width:
                    loads = moving[numbers[0]].direction is Direction.LOAD
                    one = (min if loads else max)(own.values())
                    kept.add(one)
                    joined |= {n: one for n in own.values() if n != one}
        if joined:
            return Widening(frozenset(kept), width, None, joined)
    return None


def _by_iterations(kernel: BoundKernel, moving: Mapping[int, BoundAccess]) -> Widening | None:
    """Widen by unrolling a loop whose accesses advance by one element in each iteration."""
    for loop in kernel.graph.loops:
        inside = {t for n in kernel.graph.nodes if n.loop == loop.index for t in n.touches}
        own = {n: a for n, a in moving.items() if n in inside and a.loops}
        if not own or not _replicable(kernel.graph, loop.index):
            continue
        counter = next(iter(own.values())).loops[-1]
        if any(a.loops[-1:] != (counter,) for a in own.values()):
            continue
        chosen = {n: a for n, a in own.items() if counter in set(a.address.symbols())}
        trips = kernel.graph.trips(loop.index)
        for width in _widths(a.bytes for a in chosen.values()):
            if trips % width == 0 and all(
                a.space == "global"
                and _coefficient(a, counter) == a.bytes
                and not _steps(a, width * a.bytes, {counter})
                for a in chosen.values()
            ):
                return Widening(frozenset(chosen), width, counter)
    return None


def _by_threads(
    site: NarrowLaunch, moving: Mapping[int, BoundAccess], units: int
) -> Widening | None:
    """Widen by giving several threads' work to one: neighbours access neighbouring elements."""
    kernel = site.kernel
    bodies = {n.loop for n in kernel.graph.nodes if moving.keys() & set(n.touches)}
    if len(bodies) != 1 or (bodies != {-1}) != site.strides:
        return None
    if not _replicable(kernel.graph, *bodies):
        return None
    chosen = {n: a for n, a in moving.items() if _moves_with_threads(a)}
    everything = [a for a in kernel.bound if a.space in ("global", "shared", "local")]
    if len(chosen) < sum(map(_moves_with_threads, everything)):
        return None
    for width in _widths(a.bytes for a in chosen.values()):
        if site.effective.grid[0] >= width * units and all(
            a.space == "global"
            and not a.loops
            and _along_threads(a, site.effective) == a.bytes
            and not _steps(a, width * a.bytes, {"x", _THREAD, _BLOCK})
            for a in chosen.values()
        ):
            return Widening(frozenset(chosen), width, "x")
    return None


def _widths(sizes: Iterable[int]) -> Iterator[int]:
    """Elements of an access, the most first."""
    width = WIDEST_ACCESS_BYTES // max(sizes, default=WIDEST_ACCESS_BYTES)
    while width > 1:
        yield width
        width //= 2


def _coefficient(access: BoundAccess, symbol: Symbol) -> int:
    return sum(c for s, c in access.address.terms if s == symbol)


def _moves_with_threads(access: BoundAccess) -> bool:
    return not {"x", _THREAD, _BLOCK}.isdisjoint(access.address.symbols())


def _along_threads(access: BoundAccess, launch: Launch) -> int:
    """Bytes from thread to thread, if they are the same from block to block; else 0."""
    apart, blocks = _coefficient(access, _THREAD), _coefficient(access, _BLOCK)
    return _coefficient(access, "x") + apart if blocks == apart * launch.block[0] else 0


def _steps(access: BoundAccess, size: int, besides: Collection[Symbol] = ()) -> bool:
    """Tell an access that leaves the alignment to ``size`` bytes; wrapped indices do not."""
    return any(
        c % size != 0 and symbol not in besides
        for symbol, c in access.address.terms
        if not (isinstance(symbol, (Quotient, AffineCall)) and c % _WRAP == 0)
    ) or bool(besides and access.address.constant % size)


def _replicable(graph: InstructionGraph, loop: int) -> bool:
    """Tell an innermost body in which warps neither meet nor part."""
    body = graph.body if loop < 0 else graph.loops[loop].body
    return all(
        item.kind is ItemKind.NODE
        and not graph.nodes[item.number].fence
        and graph.nodes[item.number].signal is None
        for item in body
    )


def widen(site: NarrowLaunch, how: Widening) -> NarrowLaunch | None:
    """Return the kernel and its launch with wider accesses.

    The result is None where a value computed from an element decides on addresses or on branches.

    Args:
        site: the kernel and its launch.
        how: what :func:`widening` has found.
    """
    kernel = site.kernel
    bound = tuple(
        _widen_access(a, how) if n in how.accesses else a for n, a in enumerate(kernel.bound)
    )
    if how.joined:
        graph = _with_joined(kernel.graph, how.joined)
        bound = tuple(
            replace(a, space="register") if n in how.joined else a for n, a in enumerate(bound)
        )
        return replace(site, kernel=replace(kernel, bound=bound, graph=graph))
    bodies = {n.loop for n in kernel.graph.nodes if how.accesses.intersection(n.touches)}
    if len(bodies) != 1:
        return None
    (loop,) = bodies
    replicated = _replicate(kernel.graph, how, loop)
    if replicated is None:
        return None
    graph = replicated
    assert how.along is not None
    bound = tuple(_with_fewer_steps(a, how.along, how.width) for a in bound)
    if loop >= 0:
        trips = -(-kernel.graph.trips(loop) // how.width)
        loops = tuple(
            replace(x, trips=trips, each=()) if x.index == loop else x for x in graph.loops
        )
        graph = replace(graph, loops=loops)
    kernel = replace(kernel, bound=bound, graph=graph, amount=None, longest=None)
    if how.along != "x":
        return replace(site, kernel=kernel)
    fewer = _with_fewer_blocks(site.effective, how.width)
    if site.strides:
        return NarrowLaunch(kernel, site.launch, fewer)
    return NarrowLaunch(replace(kernel, flops=kernel.flops * how.width), fewer, fewer)


def _with_fewer_blocks(launch: Launch, width: int) -> Launch:
    grid = (-(-launch.grid[0] // width), *launch.grid[1:])
    return Launch(grid, launch.block, launch.args, launch.shared_bytes, cluster=launch.cluster)


def _widen_access(access: BoundAccess, how: Widening) -> BoundAccess:
    size = access.bytes * how.width
    along: set[Name] = {"x", _THREAD, _BLOCK} if how.along == "x" else {how.along or ""}
    terms = tuple((s, c * how.width if s in along else c) for s, c in access.address.terms)
    constant = access.address.constant
    if how.joined:
        constant -= constant % size
    return replace(access, address=Affine(constant, terms), bytes=size)


def _with_fewer_steps(access: BoundAccess, symbol: Name, width: int) -> BoundAccess:
    """The access where its loop has fewer iterations, or the launch fewer threads."""
    if symbol not in access.ranges:
        return access
    low, high = access.ranges[symbol]
    return replace(access, ranges={**access.ranges, symbol: (low // width, high // width)})


def _with_joined(graph: InstructionGraph, joined: Mapping[int, int]) -> InstructionGraph:
    """Redirect the readers of a joined access to the access that stands for it.

    A store waits for the elements of all stores that it stands for.
    """
    by_access = {t: n.index for n in graph.nodes for t in n.touches}
    gone = {by_access[a]: by_access[b] for a, b in joined.items() if a in by_access}

    def source(s: EdgeSource) -> EdgeSource:
        return replace(s, producer=gone.get(s.producer, s.producer))

    edges = {
        n.index: tuple(Edge(tuple(map(source, e.sources))) for e in n.edges) for n in graph.nodes
    }
    for number, one in gone.items():
        edges[one] += edges.pop(number)
    nodes = tuple(n._replace(edges=edges.get(n.index, ())) for n in graph.nodes)
    return without(replace(graph, nodes=nodes), gone)


def _replicate(graph: InstructionGraph, how: Widening, loop: int) -> InstructionGraph | None:
    """Repeat the computation on one element for each element of the wide access."""
    wide = {n.index: n for n in graph.nodes if how.accesses.intersection(n.touches)}
    computed: dict[int, None] = {}
    items = graph.body if loop < 0 else graph.loops[loop].body
    loads = {n for n, node in wide.items() if node.produces}
    for item in items:
        node = graph.nodes[item.number]
        read = {s.producer for e in node.edges for s in e.sources}
        if node.index in wide or read.isdisjoint(loads | computed.keys()):
            continue
        if node.operation in _SERVING or node.touches:
            return None
        computed[node.index] = None
    numbers = {
        (n, copy): len(graph.nodes) + place * (how.width - 1) + copy - 1
        for place, n in enumerate(computed)
        for copy in range(1, how.width)
    }

    def source(s: EdgeSource, copy: int) -> EdgeSource:
        """A value that is handed on from iteration to iteration goes through all elements."""
        if s.producer not in computed:
            return s
        if s.distance == 0:
            return EdgeSource(numbers.get((s.producer, copy), s.producer), s.loop, 0)
        if copy:
            return EdgeSource(numbers.get((s.producer, copy - 1), s.producer), s.loop, 0)
        return EdgeSource(numbers[s.producer, how.width - 1], s.loop, s.distance)

    def copy_node(node: Node, copy: int) -> Node:
        edges = tuple(Edge(tuple(source(s, copy) for s in e.sources)) for e in node.edges)
        return node._replace(index=numbers.get((node.index, copy), node.index), edges=edges)

    def gathering(node: Node) -> Node:
        """A store waits for all of its elements; others for the last one."""
        more = tuple(
            Edge(tuple(source(s, copy) for s in e.sources))
            for copy in range(1, how.width)
            for e in node.edges
            if any(s.producer in computed for s in e.sources)
        )
        return node._replace(edges=(*node.edges, *more))

    copies = {
        n: [BodyItem(ItemKind.NODE, numbers[n, copy]) for copy in range(1, how.width)]
        for n in computed
    }
    nodes = [copy_node(n, 0) if n.index in computed else gathering(n) for n in graph.nodes]
    nodes += [copy_node(graph.nodes[n], copy) for n in computed for copy in range(1, how.width)]

    def with_copies(_: int, body: Iterable[BodyItem]) -> list[BodyItem]:
        return [
            made
            for item in body
            for made in (item, *(copies.get(item.number, ()) if item.kind is ItemKind.NODE else ()))
        ]

    return with_bodies(replace(graph, nodes=tuple(nodes)), with_copies)
