"""Instruction dependence graphs with loops kept as loops (pipeline model §III.C).

A graph is an ordered tree of nodes and loops. It means the same as its instructions with each
loop's body repeated ``trips`` times. Only data edges, barriers and channels order instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Union

from perfassert.errors import GraphError, check_kind, close_matches, in_short
from perfassert.kernel.memo import Memo
from perfassert.quantity import to_boolean, to_integer, to_real
from perfassert.source import Assumption, SourceSpan

if TYPE_CHECKING:
    import networkx

BARRIER = "barrier"
SPACES = ("global", "shared", "local", "constant")
"""Memory spaces that a node may touch; textures and atomics on global memory touch ``"global"``."""
MOST_WARPS = 2**16
"""Most warps of a block in a graph: far more than any device has."""
_MAX_DISTANCE = 2**16
"""Most iterations for which a simulation keeps a value that a loop carries."""
Trips = Union[int, str]


@dataclass(frozen=True, slots=True)
class Latency:
    """Issue latency λ and completion latency Λ of an operation class, and the pipeline it occupies.

    Args:
        issue: λ in cycles: time for which an instruction occupies the pipeline. Below 1, the
            pipeline takes several instructions in a cycle.
        completion: Λ in cycles: time from the issue until the value can be used.
        pipeline: name of the pipeline; operations with the same name share it. Default (None): the
            name of the operation.
        scope: ``"unit"`` (the default): one pipeline for the SM. ``"scheduler"``: one for each warp
            scheduler.

    Raises:
        GraphError: a latency that is not a number above 0, or an unknown ``scope``.

    Example:
        >>> import perfassert as pa
        >>> g = pa.InstructionGraph.builder()
        >>> _ = g.op("fmadd", g.op("load"))
        >>> latencies = {"load": pa.Latency(23, 521, "global"), "fmadd": pa.Latency(1, 18)}
        >>> pa.simulate(g.build(), 1, 1, 1, latencies).cycles
        539.0

    Source:
        Cornelis and Lemeire, *The Pipeline Performance Model*.
    """

    issue: float
    completion: float
    pipeline: str | None = None
    scope: str = "unit"

    def __post_init__(self) -> None:
        for what, value in (("issue", self.issue), ("completion", self.completion)):
            number = to_real(value, f"{what} latency", GraphError, above=0)
            object.__setattr__(self, what, number)
        if self.pipeline is not None and not isinstance(self.pipeline, str):
            raise GraphError(f"pipeline must be a name, not {in_short(self.pipeline)}")
        if not isinstance(self.scope, str) or self.scope not in ("unit", "scheduler"):
            raise GraphError(f"scope must be 'unit' or 'scheduler', not {in_short(self.scope)}")


LatencyRule = Union[Latency, Callable[[int], Latency]]
"""A latency, or a function from the number of resident warps of an SM to one."""


@dataclass(frozen=True, slots=True)
class EdgeSource:
    """A possible producer of a value: ``distance`` iterations of ``loop`` earlier (0: this one).

    Loops around ``loop`` are in the same iteration for producer and consumer. Loops around the
    producer but inside ``loop`` are in their last iteration. ``loop`` is -1 if no loop encloses
    both.
    """

    producer: int
    loop: int
    distance: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that a node waits for: the first of ``sources`` whose iteration exists, if any."""

    # total = start; for i: total = total + a[i]. The addition (node 2 in loop 0) waits for
    # (EdgeSource(2, 0, 1), EdgeSource(0, -1, 0)): the addition one iteration earlier, or, in
    # iteration 0, node 0, which makes `start` before the loop.

    sources: tuple[EdgeSource, ...]


@dataclass(frozen=True, slots=True)
class Channel:
    """Synchronization of the warps of a block in phases.

    A channel is an mbarrier, a ring buffer of mbarriers, or a named barrier. A phase is complete
    when ``arrivals`` warps have arrived and the copies that their arrivals expect are complete.
    """

    name: str
    arrivals: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Action of a node on the channel with number ``channel``.

    A warp's n-th arrival (from 0) belongs to phase n, and so do the copies that follow it. Its n-th
    wait ends when phase n − ``lead`` is complete, or at once if that number is negative. A node
    that both arrives and waits waits for the phase of its arrival. An arrival or a copy counts when
    its node is complete; the arrival of a node that also waits counts when it is issued.
    ``expects``: copies for which the phase of an arrival waits.
    """

    # A producer fills two buffers in turns and waits with lead = 2 for them to be free: waits 0 and
    # 1 end at once, since both buffers are empty; wait 2 ends with phase 0, the first release.

    channel: int
    arrives: bool = False
    waits: bool = False
    copies: bool = False
    lead: int = 0
    expects: int = 0


class Node(NamedTuple):
    """An instruction of the graph.

    Attributes:
        index: its place among the nodes, in program order.
        operation: operation class, which has a latency.
        name: unique name, or empty.
        edges: values that it waits for.
        produces: False for a store: it is complete λ after its issue, else Λ after.
        loop: number of the innermost loop around it; -1: none.
        warps: numbers of the warps of a block that execute it; None: all.
        fence: True for a barrier; later instructions wait for it.
        partial: True for a barrier that waits for the completion of its edges only.
        access: address expression of the memory that it touches.
        space: memory space of the access.
        span: place in a source text.
        stall: cycles until its warp may issue the next instruction, in compiled code.
        touches: numbers of the bound accesses of the kernel, in compiled code.
        program: number of the instruction in the compiled program, or -1.
        demands: (server of the memory system, cycles for which it is occupied), in order.
        rests_on: what was assumed about its class, or about whether it is executed.
        signal: action on a channel. A node that waits there is a partial fence for its warp.
        holds: True if its warp issues nothing before it is complete.
        sleep: nanoseconds after which it is complete; 0: by the latency of its class.
        latency: latency that overrides that of its class.
        fetches: True if it fetches code.
    """

    index: int  # type: ignore[assignment]  # in the place of tuple's method
    operation: str
    name: str
    edges: tuple[Edge, ...]
    produces: bool = True
    loop: int = -1
    warps: frozenset[int] | None = None
    fence: bool = False
    partial: bool = False
    access: str | None = None
    space: str | None = None
    span: SourceSpan | None = None
    stall: int = 0
    touches: tuple[int, ...] = ()
    program: int = -1
    demands: tuple[tuple[str, float], ...] = ()
    rests_on: tuple[Assumption, ...] = ()
    signal: Signal | None = None
    holds: bool = False
    sleep: int = 0
    latency: Latency | None = None
    fetches: bool = False

    @property
    def touches_global(self) -> bool:
        """True if it names an access to global memory."""
        return self.access is not None and self.space in (None, "global")

    @property
    def instruction(self) -> int:
        """Number of its instruction in the compiled program; of a user-built graph, ``index``."""
        return self.program if self.program >= 0 else self.index

    def __str__(self) -> str:
        return f"node {self.name or self.index} ({self.operation})"


class ItemKind(str, Enum):
    """Kind of an entry of a body: a node or a loop."""

    __hash__ = str.__hash__  # that of Enum is a function in Python

    NODE = "node"
    LOOP = "loop"


class BodyItem(NamedTuple):
    """Reference by ``number`` to a node or loop in the body of a loop or graph."""

    kind: ItemKind
    number: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: ``trips`` executions of ``body``.

    ``rests_on``: what was assumed about the trips. ``each``: trips of each warp of a block, of
    which ``trips`` is the mean; empty if all warps have the same number.
    """

    index: int
    parent: int
    trips: Trips
    body: tuple[BodyItem, ...]
    rests_on: tuple[Assumption, ...] = ()
    each: tuple[int, ...] = ()


class Nested(Protocol):
    """Anything that may lie in a loop; ``parent`` is the number of that loop, or negative."""

    @property
    def parent(self) -> int:
        """Number of the innermost loop around it; negative if there is none."""


def loop_chain(loops: Sequence[Nested], loop: int) -> tuple[int, ...]:
    """Return the numbers of a loop and of the loops around it, outermost first.

    A negative number gives an empty tuple.
    """
    chain: list[int] = []
    while loop >= 0:
        chain.append(loop)
        loop = loops[loop].parent
    return tuple(reversed(chain))


@dataclass(frozen=True, eq=False)
class InstructionGraph:
    """Dependence graph of a warp's instructions, with loops kept as loops.

    Build one with :meth:`builder`; its parts are immutable. A loop means the same as its body
    repeated. Only data edges, barriers and channels order instructions.

    Attributes:
        nodes: the instructions, in program order.
        loops: the loops, by number; each has its trip count and body.
        body: top level of the program, in order: nodes and loops by number.
        channels: where warps of a block synchronize in phases: mbarriers and named barriers.

    Example:
        >>> import perfassert as pa
        >>> g = pa.InstructionGraph.builder()
        >>> with g.loop(trips="n // 32") as body:
        ...     element = g.op("load")
        ...     _ = g.op("fadd", element, body.carried("sum"), name="sum")
        >>> graph = g.build().bound({"n": 1024})
        >>> len(graph.nodes), graph.trips(0)
        (2, 32)

    Source:
        Cornelis and Lemeire, *The Pipeline Performance Model*, §III.C.
    """

    nodes: tuple[Node, ...]
    loops: tuple[Loop, ...]
    body: tuple[BodyItem, ...]
    channels: tuple[Channel, ...] = ()

    @cached_property
    def _times(self) -> dict[int, int]:
        """Cache of executions by loop: the product of the trips around its body."""
        return {}

    @cached_property
    def outlines(self) -> Memo:
        """Cache of what follows from neither costs nor trips; see :func:`replace_costs`."""
        return Memo()

    @staticmethod
    def builder() -> GraphBuilder:
        """Start an empty graph: a builder to which nodes, loops and barriers are added."""
        return GraphBuilder()

    def chain(self, loop: int) -> tuple[int, ...]:
        """Numbers of a loop and of those around it, outermost first.

        Args:
            loop: number of the loop; a negative one has no chain.
        """
        return loop_chain(self.loops, loop)

    def trips(self, loop: int) -> int:
        """Return the trip count of a loop as a number.

        Args:
            loop: number of the loop.

        Raises:
            GraphError: it is still an expression over launch arguments; see :meth:`bound`.
        """
        trips = self.loops[loop].trips
        if isinstance(trips, str):
            raise GraphError(
                f"loop {loop}: trips {in_short(trips)} need launch arguments; bind the graph"
            )
        return trips

    def times(self, node: Node) -> int:
        """Return the executions of a node by a warp that takes part: the product of loop trips.

        Args:
            node: one of :attr:`nodes`.
        """
        if node.loop not in self._times:
            self._times[node.loop] = prod(map(self.trips, self.chain(node.loop)))
        return self._times[node.loop]

    def executions(self, node: Node, warps: int) -> int:
        """Return the executions of a node by all warps of a block together.

        Args:
            node: one of :attr:`nodes`.
            warps: warps of the block.
        """
        return (warps if node.warps is None else len(node.warps)) * self.times(node)

    def trips_of(self, loop: int, warp: int) -> int:
        """Return the trip count of a loop in one warp of a block.

        Args:
            loop: number of the loop.
            warp: number of the warp in its block, from 0.
        """
        each = self.loops[loop].each
        return each[warp] if each else self.trips(loop)

    def bound(self, names: Mapping[str, int]) -> InstructionGraph:
        """Return the graph with trip counts as numbers, evaluated over launch arguments.

        Args:
            names: argument → integer, as in ``Launch.args``.

        Raises:
            GraphError: an unknown name, or a trip count below 0.
        """
        loops = tuple(
            replace(loop, trips=_trips(loop, names)) if isinstance(loop.trips, str) else loop
            for loop in self.loops
        )
        return replace_costs(self, loops=loops)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """Convert to a ``networkx.MultiDiGraph``.

        Nodes have ``operation``, ``name`` and ``loop``; edges have ``loop`` and ``distance`` (0:
        the same iteration).

        Example:
            >>> import perfassert as pa
            >>> g = pa.InstructionGraph.builder()
            >>> _ = g.op("fmadd", g.op("load"), g.op("load"))
            >>> sorted(g.build().to_networkx().edges())
            [(0, 2), (1, 2)]
        """
        import networkx

        graph = networkx.MultiDiGraph()
        for node in self.nodes:
            label = node.name or str(node.index)
            graph.add_node(node.index, operation=node.operation, name=label, loop=node.loop)
        for node in self.nodes:
            for edge in node.edges:
                for source in edge.sources:
                    graph.add_edge(
                        source.producer, node.index, loop=source.loop, distance=source.distance
                    )
        return graph


def replace_costs(graph: InstructionGraph, **parts: Any) -> InstructionGraph:
    """Return the graph with other costs of its nodes, trips or channels, and the same outlines.

    What nodes do, touch and wait for, which warps execute them, and how loops are nested has to be
    the same: only latency, demands and ``produces`` of a node may differ.
    """
    made = replace(graph, **parts)
    made.__dict__["outlines"] = graph.outlines  # in the place of the cached property
    return made


def _trips(loop: Loop, names: Mapping[str, int]) -> int:
    from perfassert.kernel.integers import evaluate_integer

    value = evaluate_integer(str(loop.trips), names, GraphError, "give it in Launch.args")
    if value < 0:
        raise GraphError(f"loop {loop.index}: trips {in_short(loop.trips)} = {value} are negative")
    return value


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The value that a node makes, as returned by :meth:`GraphBuilder.op`."""

    builder: GraphBuilder = field(repr=False)
    index: int


@dataclass(frozen=True, slots=True)
class ChannelRef:
    """A channel of a graph under construction, as returned by :meth:`GraphBuilder.channel`."""

    builder: GraphBuilder = field(repr=False)
    index: int


@dataclass(frozen=True, slots=True)
class CarriedRef:
    """A value from ``distance`` iterations earlier; resolved when the graph is built."""

    builder: GraphBuilder = field(repr=False)
    loop: int
    name: str
    distance: int
    init: NodeRef | CarriedRef | None


NodeOutput = Union[NodeRef, CarriedRef]


@dataclass
class _Draft:
    """A node under construction, whose inputs are not yet edges."""

    node: Node
    inputs: tuple[NodeOutput, ...]


@dataclass
class _LoopDraft:
    """A loop under construction; ``first``: number of the first node after it was opened."""

    parent: int
    trips: Trips
    first: int
    body: list[BodyItem] = field(default_factory=list)


class LoopBody:
    """Body of a loop under construction, bound by ``with g.loop(...) as body``.

    Args:
        builder: the graph under construction.
        index: number of the loop.
    """

    def __init__(self, builder: GraphBuilder, index: int) -> None:
        self._builder = builder
        self._index = index

    def carried(self, name: str, init: NodeOutput | None = None, distance: int = 1) -> CarriedRef:
        """Return the value of a node from an earlier iteration of this loop.

        Args:
            name: of the node. It may be added later. In a nested loop, the value is that of the
                last iteration.
            init: value in the first iterations: a node before the loop, or a value that an outer
                loop carries. Default (None): the first iterations wait for nothing.
            distance: how many iterations earlier, at most 65,536. Default: 1.

        Raises:
            GraphError: the loop is closed, or ``init`` is not from before the loop.
        """
        check_kind(name, str, "carried(): name", GraphError)
        what = f"carried {in_short(name)}: distance"
        distance = to_integer(distance, what, GraphError, 1, _MAX_DISTANCE)
        if self._index not in self._builder.open_loops:
            raise GraphError(f"carried {in_short(name)}: its loop is closed")
        if init is not None:
            self._builder.check_initial(name, init, self._index)
        return CarriedRef(self._builder, self._index, name, distance, init)


class _LoopContext:
    def __init__(self, builder: GraphBuilder, trips: Trips) -> None:
        self._builder = builder
        self._trips = trips

    def __enter__(self) -> LoopBody:
        return LoopBody(self._builder, self._builder.open_loop(self._trips))

    def __exit__(self, *_: object) -> None:
        self._builder.close_loop()


class _OnlyContext:
    def __init__(self, builder: GraphBuilder, warps: frozenset[int]) -> None:
        self._builder = builder
        self._warps = warps
        self._outer: frozenset[int] | None = None

    def __enter__(self) -> None:
        self._outer = self._builder.warps
        inner = self._warps if self._outer is None else self._warps & self._outer
        self._builder.warps = inner

    def __exit__(self, *_: object) -> None:
        self._builder.warps = self._outer


class GraphBuilder:
    """Builder of an instruction graph; takes nodes, loops and barriers in program order.

    :meth:`InstructionGraph.builder` makes one; :meth:`build` finishes it.

    Example:
        >>> import perfassert as pa
        >>> g = pa.InstructionGraph.builder()
        >>> start = g.op("index")
        >>> with g.loop(trips=4) as body:
        ...     tile = g.op("load", body.carried("next", init=start))
        ...     _ = g.op("index", body.carried("next", init=start), name="next")
        ...     _ = g.op("shared_store", tile, produces=False)
        ...     _ = g.barrier()
        >>> with g.only(warps=range(2)):
        ...     _ = g.op("store", g.op("shared_load"), produces=False)
        >>> graph = g.build()
        >>> [node.operation for node in graph.nodes]
        ['index', 'load', 'index', 'shared_store', 'barrier', 'shared_load', 'store']
        >>> graph.executions(graph.nodes[1], warps=8), graph.executions(graph.nodes[-1], warps=8)
        (32, 2)
    """

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._loops: list[_LoopDraft] = []
        self._body: list[BodyItem] = []
        self._names: dict[str, int] = {}
        self._channels: list[Channel] = []
        self.open_loops: list[int] = []
        self.warps: frozenset[int] | None = None

    def op(
        self,
        operation: str,
        *inputs: NodeOutput,
        name: str = "",
        produces: bool = True,
        access: str | None = None,
        space: str | None = None,
        span: SourceSpan | None = None,
        completes: ChannelRef | None = None,
    ) -> NodeRef:
        """Add an instruction, and return its value for later nodes to use.

        Args:
            operation: operation class: a key of the kernel's ``latencies``, else one of the device.
            *inputs: values that it waits for: of earlier nodes, or carried ones.
            name: unique in the graph; needed for what a loop carries. Default: none.
            produces: False for a store: it is complete λ after its issue, else Λ after. Default:
                True.
            access: address expression of the memory that it touches: ``"src[y, x + 1]"``. Default:
                none.
            space: memory space that it touches: ``"global"``, ``"shared"``, ``"local"`` or
                ``"constant"``. An access to another space than global has no volumes. Default
                (None): global if ``access`` is given, else that of the operation class.
            span: place in a source text, for reports. Default: none.
            completes: channel whose phase waits for this copy: one of the copies that the warp's
                last arrival expects. Default: none.

        Raises:
            GraphError: no operation class, a name used twice, an unknown ``space``, or an input
                that is no value of this graph.
        """
        if not isinstance(operation, str) or not operation:
            raise GraphError(f"an operation is a class name, not {in_short(operation)}")
        if operation == BARRIER:
            raise GraphError("add barriers with barrier(), not op()")
        for what, text in (("name", name), ("access", access), ("space", space)):
            check_kind("" if text is None else text, str, f"op(): {what}", GraphError)
        if space is not None and space not in SPACES:
            near = close_matches(space, SPACES) or f"; spaces: {', '.join(SPACES)}"
            raise GraphError(f"op(): unknown space {in_short(space)}{near}")
        produces = to_boolean(produces, "op(): produces", GraphError)
        copied = None if completes is None else Signal(self._channel(completes), copies=True)
        return self._add(
            operation, inputs, name=name, produces=produces, access=access, space=space, span=span,
            signal=copied,
        )  # fmt: skip

    def barrier(self, *nodes: NodeOutput, span: SourceSpan | None = None) -> NodeRef:
        """Add a barrier of the block, of class ``"barrier"``; everything later waits for it.

        It is complete for all warps Λ after the last of them has issued it.

        Args:
            *nodes: values whose completion it waits for; it waits only for the issue of other
                nodes. Default (none): it waits for the completion of all earlier nodes.
            span: place in a source text, for reports. Default: none.

        Raises:
            GraphError: under :meth:`only`, where warps diverge.
        """
        if self.warps is not None:
            raise GraphError(f"barrier (node {len(self._drafts)}) under only(): divergent code")
        return self._add(BARRIER, nodes, fence=True, partial=bool(nodes), span=span)

    def channel(self, arrivals: int, name: str = "") -> ChannelRef:
        """Add a channel of the block, at which warps synchronize in phases.

        Args:
            arrivals: how many warps complete a phase.
            name: for messages. Default: its number.

        Raises:
            GraphError: fewer than one arrival.
        """
        check_kind(name, str, "channel(): name", GraphError)
        arrivals = to_integer(
            arrivals, f"channel {in_short(name)}: arrivals", GraphError, minimum=1
        )
        index = len(self._channels)
        self._channels.append(Channel(name or str(index), arrivals))
        return ChannelRef(self, index)

    def arrive(
        self, channel: ChannelRef, *inputs: NodeOutput, expects: int = 0, operation: str = "arrive"
    ) -> NodeRef:
        """Add an arrival at the channel's next phase.

        Args:
            channel: what :meth:`channel` returned.
            *inputs: values that it waits for.
            expects: copies that the phase also waits for. Default: 0.
            operation: its operation class. Default: ``"arrive"``.

        Raises:
            GraphError: the channel belongs to another graph.
        """
        expects = to_integer(expects, "arrive: expects", GraphError, minimum=0)
        signal = Signal(self._channel(channel), arrives=True, expects=expects)
        return self._add(operation, inputs, produces=False, signal=signal)

    def wait(
        self, channel: ChannelRef, *inputs: NodeOutput, lead: int = 0, operation: str = "wait"
    ) -> NodeRef:
        """Add a wait for the channel's next phase; everything later in the warp waits for it.

        It is complete Λ after that phase.

        Args:
            channel: what :meth:`channel` returned.
            *inputs: values that it also waits for.
            lead: phases by which waits lag: the n-th wait is for phase n − ``lead``, so that the
                first ``lead`` waits end at once. Default: 0.
            operation: its operation class. Default: ``"wait"``.

        Raises:
            GraphError: the channel belongs to another graph.
        """
        lead = to_integer(lead, "wait: lead", GraphError, minimum=0)
        signal = Signal(self._channel(channel), waits=True, lead=lead)
        return self._add(operation, inputs, fence=True, partial=True, signal=signal)

    def meet(self, channel: ChannelRef, *inputs: NodeOutput, operation: str = BARRIER) -> NodeRef:
        """Add an arrival and a wait for its phase, as at a named barrier.

        Args:
            channel: what :meth:`channel` returned.
            *inputs: values that it also waits for.
            operation: its operation class. Default: ``"barrier"``.

        Raises:
            GraphError: the channel belongs to another graph.
        """
        signal = Signal(self._channel(channel), arrives=True, waits=True)
        return self._add(operation, inputs, fence=True, partial=True, signal=signal)

    def loop(self, trips: Trips) -> _LoopContext:
        """Open a loop: ``with g.loop(trips) as body``; nodes added inside are its body.

        Args:
            trips: iterations: a number, or an expression over ``Launch.args`` with ``+ - * // %``.

        Raises:
            GraphError: neither an expression nor an integer of at least 0.
        """
        if not isinstance(trips, str):
            trips = to_integer(trips, f"loop {len(self._loops)}: trips", GraphError, minimum=0)
        return _LoopContext(self, trips)

    def only(self, warps: Iterable[int]) -> _OnlyContext:
        """Restrict nodes to some warps of the block: ``with g.only(warps=range(4))``.

        If two are nested, the inner nodes are for the warps common to both.

        Args:
            warps: their numbers in the block, from 0.

        Raises:
            GraphError: no warp, or a number below 0.
        """
        try:
            members = list(islice(warps, MOST_WARPS + 1))
        except TypeError:
            raise GraphError(
                f"only(): warps must be several numbers, not {in_short(warps)}"
            ) from None
        if not members:
            raise GraphError("only(): warps must be one or several integers")
        chosen = frozenset(
            to_integer(w, "only(): a warp's number", GraphError, 0, MOST_WARPS - 1) for w in members
        )
        return _OnlyContext(self, chosen)

    def build(self) -> InstructionGraph:
        """Finish the graph.

        Raises:
            GraphError: no node, a loop that is still open, or a carried value that no node makes.
        """
        if self.open_loops:
            raise GraphError(f"loop {self.open_loops[-1]} is still open")
        if not self._drafts:
            raise GraphError("the graph has no node")
        loops = tuple(
            Loop(i, draft.parent, draft.trips, tuple(draft.body))
            for i, draft in enumerate(self._loops)
        )
        graph = InstructionGraph(
            tuple(d.node for d in self._drafts), loops, tuple(self._body), tuple(self._channels)
        )
        nodes = tuple(
            d.node._replace(edges=tuple(self._edge(graph, d.node, v) for v in d.inputs))
            for d in self._drafts
        )
        return replace(graph, nodes=nodes)

    def open_loop(self, trips: Trips) -> int:
        """Open a loop; used by ``with g.loop(...)``.

        Args:
            trips: as for :meth:`loop`.
        """
        index = len(self._loops)
        parent = self.open_loops[-1] if self.open_loops else -1
        self._items().append(BodyItem(ItemKind.LOOP, index))
        self._loops.append(_LoopDraft(parent, trips, len(self._drafts)))
        self.open_loops.append(index)
        return index

    def close_loop(self) -> None:
        """Close the innermost loop; used by ``with g.loop(...)``."""
        self.open_loops.pop()

    def check_initial(self, name: str, init: NodeOutput, loop: int) -> None:
        """Raise :class:`GraphError` unless a carried value's ``init`` is from before the loop.

        Args:
            name: of the carried value.
            init: its value in the first iterations.
            loop: number of the loop.
        """
        self._check_input(init, f"carried {in_short(name)}")
        if isinstance(init, CarriedRef):
            if init.loop == loop or init.loop not in self.open_loops:
                raise GraphError(
                    f"carried {in_short(name)}: init must come from a loop around this one"
                )
        elif init.index >= self._loops[loop].first:
            node = self._drafts[init.index].node
            where = f"carried {in_short(name)}: init is {node}"
            raise GraphError(f"{where}, not a node before the loop")

    def _items(self) -> list[BodyItem]:
        return self._loops[self.open_loops[-1]].body if self.open_loops else self._body

    def _add(self, operation: str, inputs: tuple[NodeOutput, ...], **more: object) -> NodeRef:
        index = len(self._drafts)
        name = more.get("name", "")
        if name and name in self._names:
            raise GraphError(f"node name {in_short(name)} is used twice")
        for value in inputs:
            self._check_input(value, f"node {name or index} ({operation})")
        if name:
            self._names[str(name)] = index
        loop = self.open_loops[-1] if self.open_loops else -1
        settings = {"name": "", **more}
        node = Node(index, operation, edges=(), loop=loop, warps=self.warps, **settings)  # type: ignore[arg-type]
        self._drafts.append(_Draft(node, inputs))
        self._items().append(BodyItem(ItemKind.NODE, index))
        return NodeRef(self, index)

    def _channel(self, channel: object) -> int:
        if not isinstance(channel, ChannelRef) or channel.builder is not self:
            raise GraphError(
                f"a channel is what channel() of this graph gives, not {in_short(channel)}"
            )
        return channel.index

    def _check_input(self, value: object, where: str) -> None:
        if not isinstance(value, (NodeRef, CarriedRef)):
            raise GraphError(
                f"{where}: an input must be a node or a carried value, not {in_short(value)}"
            )
        if value.builder is not self:
            raise GraphError(f"{where}: an input belongs to another graph")
        if isinstance(value, CarriedRef) and value.loop not in self.open_loops:
            raise GraphError(f"{where}: carried {in_short(value.name)} is used outside its loop")

    def _edge(self, graph: InstructionGraph, consumer: Node, value: NodeOutput) -> Edge:
        return Edge(tuple(self._sources(graph, consumer, value)))

    def _sources(
        self, graph: InstructionGraph, consumer: Node, value: NodeOutput | None
    ) -> Iterator[EdgeSource]:
        while isinstance(value, CarriedRef):
            producer = self._names.get(value.name)
            if producer is None:
                raise GraphError(
                    f"{consumer}: carried {in_short(value.name)}: no node has that name"
                )
            if value.loop not in graph.chain(graph.nodes[producer].loop):
                where = f"{graph.nodes[producer]} does not lie in loop {value.loop}"
                raise GraphError(f"{consumer}: carried {in_short(value.name)}: {where}")
            yield EdgeSource(producer, value.loop, value.distance)
            value = value.init
        if value is not None:
            shared = set(graph.chain(graph.nodes[value.index].loop))
            around = [loop for loop in graph.chain(consumer.loop) if loop in shared]
            yield EdgeSource(value.index, around[-1] if around else -1, 0)
