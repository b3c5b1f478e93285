"""The kernel description that every front end makes and every engine reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from perfassert.errors import KernelError, check_kind, in_short
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.addresses import read_accesses
from perfassert.kernel.executed import Executed, SampleWork
from perfassert.kernel.field import Field, item_bytes
from perfassert.kernel.graph import InstructionGraph, Latency, LatencyRule
from perfassert.kernel.launch import Launch
from perfassert.kernel.memo import Memo
from perfassert.kernel.roles import space_of
from perfassert.kernel_kind import KernelKind
from perfassert.quantity import LARGEST, to_integer, to_real
from perfassert.source import Assumption

if TYPE_CHECKING:
    from perfassert.kernel.bound import BoundAccess
    from perfassert.kernel.program import Program


class CompilableCode(Protocol):
    """Code that becomes a description once device and launch are known."""

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[BoundKernel, Launch]:
        """The kernel with graph and bound accesses, and the launch that its volumes are those of:
        guards as a domain, grid-stride loops as a wider grid."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Kernel(ABC):
    """A kernel, independent of device and launch; every entry point makes one.

    Use :meth:`from_accesses`, :meth:`from_graph`, or a front end such as
    :func:`perfassert.from_cuda`. Kernels are immutable and compared by identity.

    Attributes:
        name: shown in reports.
        updates_per_thread: results that one thread makes (thread folding); the denominator of
            ``/update`` is threads times this. Default: 1.

    Example:
        >>> import perfassert as pa
        >>> copy = pa.Kernel.from_accesses(
        ...     name="copy",
        ...     fields=[pa.Field("a", shape=(1 << 20,)), pa.Field("b", shape=(1 << 20,))],
        ...     loads=["a[x]"],
        ...     stores=["b[x]"],
        ... )
        >>> prediction = pa.predict(copy, pa.Launch.cover(1 << 20, block=256), "a100")
        >>> prediction.volumes.l2_load.per_thread
        8 B/thread
    """

    kind: ClassVar[KernelKind]

    name: str
    updates_per_thread: int = 1

    def __post_init__(self) -> None:
        _check_counts(self, (("updates_per_thread", 1),))

    def content(self) -> tuple[object, ...]:
        """See :mod:`perfassert.kernel.content`: every field but what engines keep."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name != "found")

    @property
    def compiled(self) -> CompilableCode | None:
        """Code that is bound to a launch when one is known, of a kernel that has some."""
        return None

    @abstractmethod
    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[Description, Launch]:
        """Description for one launch, and the launch that its volumes are those of.

        Args:
            launch: grid, block and arguments.
            arch: architecture to compile for: ``"sm_80"``.
            warp_size: threads of a warp.
        """

    @staticmethod
    def from_accesses(
        name: str,
        fields: Sequence[Field],
        loads: Sequence[str] = (),
        stores: Sequence[str] = (),
        flops: float = 0,
        dtype: str = "float64",
        registers: int = 32,
        shared_bytes: int = 0,
        updates_per_thread: int = 1,
        ilp: int = 1,
        assume: Mapping[str, str] | None = None,
    ) -> AccessKernel:
        """Describe a kernel by address expressions such as ``"src[z, y, x + 1]"``.

        That is all a code generator knows before it emits text. An expression is parsed, never
        evaluated as Python. Variables are ``x y z`` (global thread coordinates), ``threadIdx.x``,
        ``blockIdx.x``, ``blockDim.x``, ``gridDim.x`` and their ``.y .z``, and the names in
        ``Launch.args``; operators are ``+ - * // %`` over integers, rounding as in Python.

        Args:
            name: shown in reports.
            fields: the arrays; their names must differ.
            loads: address expressions, one for each load instruction of a thread. Default: none.
            stores: address expressions, one for each store instruction of a thread. Default: none.
            flops: floating-point operations of a thread; a fused multiply-add counts two. Default:
                0.
            dtype: type in which the arithmetic is done. Default: ``"float64"``.
            registers: of a thread, as ``nvcc -Xptxas -v`` prints them. Default: 32.
            shared_bytes: static shared memory of a block, in bytes. Default: 0.
            updates_per_thread: results that one thread makes. Default: 1.
            ilp: independent chains in the arithmetic of one update. Default: 1.
            assume: assumed values of subscripts that depend on data, ``{"idx[x]": "x * 7 % n"}``;
                each becomes an assumption of the prediction. Default: none.

        Returns:
            A kernel whose volumes follow from its addresses. Its instruction graph is a sketch of
            an index, loads, arithmetic and stores.

        Raises:
            AddressExpressionError: an expression that cannot be parsed; a caret marks the column.
            KernelError: no access at all, an unknown ``dtype``, an assumed value that nothing uses,
                or an invalid count.

        Example:
            >>> import perfassert as pa
            >>> a, idx = pa.Field("a", shape=4096), pa.Field("idx", "int32", shape=4096)
            >>> gather = pa.Kernel.from_accesses(
            ...     "gather",
            ...     fields=[a, idx],
            ...     loads=["idx[x]", "a[idx[x]]"],
            ...     assume={"idx[x]": "x * 7 % n"},
            ... )
            >>> prediction = pa.predict(gather, pa.Launch(16, 256, args={"n": 4096}), "a100")
            >>> print(prediction.assumptions[0])
            idx[x] is taken to be x * 7 % n (loads[1])

        Source:
            Ernst et al., *Analytical performance estimation during code generation on modern GPUs*
            (Warpspeed, arXiv 2204.14242), §4.
        """
        accesses, assumptions = read_accesses(
            fields, loads, stores, {} if assume is None else assume
        )
        return AccessKernel(
            name=name,
            fields={f.name: f for f in fields},
            accesses=accesses,
            flops=flops,
            dtype=dtype,
            registers=registers,
            shared_bytes=shared_bytes,
            updates_per_thread=updates_per_thread,
            ilp=ilp,
            assumptions=assumptions,
        )

    @staticmethod
    def from_graph(
        name: str,
        graph: InstructionGraph,
        latencies: Mapping[str, LatencyRule] | None = None,
        registers: int = 32,
        shared_bytes: int = 0,
        fields: Sequence[Field] = (),
        flops: float = 0,
        dtype: str = "float32",
        updates_per_thread: int = 1,
        assume: Mapping[str, str] | None = None,
    ) -> GraphKernel:
        """Describe a kernel by an instruction graph: the pipeline model's own input.

        Args:
            name: shown in reports.
            graph: what ``InstructionGraph.builder().build()`` gives.
            latencies: operation class → :class:`Latency`, or a function of the resident warps of an
                SM that gives one; classes left out take the device's. Default: none.
            registers: of a thread. Default: 32.
            shared_bytes: static shared memory of a block, in bytes. Default: 0.
            fields: the arrays that the ``access`` of nodes refers to. Nodes that name one in global
                memory give the kernel its volumes. Default: none.
            flops: floating-point operations of a thread. Default: 0.
            dtype: type in which the arithmetic is done. Default: ``"float32"``.
            updates_per_thread: results that one thread makes. Default: 1.
            assume: assumed values of subscripts that depend on data, as in :meth:`from_accesses`.

        Returns:
            A kernel whose number of instructions is exact.

        Raises:
            AddressExpressionError: the ``access`` of a node cannot be parsed.
            KernelError: no graph, assume without an access, an unknown ``dtype``, or an invalid
                count.

        Example:
            >>> import perfassert as pa
            >>> g = pa.InstructionGraph.builder()
            >>> total = g.op("fmadd", g.op("load"), g.op("load"))
            >>> _ = g.op("store", total, produces=False)
            >>> kernel = pa.Kernel.from_graph("saxpy", g.build(), registers=20)
            >>> pa.predict(kernel, pa.Launch(108, 256), "a100").resources.instructions
            3456.0

        Source:
            Cornelis and Lemeire, *The Pipeline Performance Model*, §III.C.
        """
        if not isinstance(graph, InstructionGraph):
            raise KernelError(
                f"kernel {in_short(name)}: graph must be built, not {in_short(graph)}"
            )
        check_kind({} if latencies is None else latencies, Mapping, "latencies", KernelError)
        accesses: tuple[Access, ...] = ()
        assumptions: tuple[Assumption, ...] = ()
        if any(n.touches_global for n in graph.nodes):
            accesses, assumptions = read_accesses(
                fields, *_named_accesses(graph), {} if assume is None else assume
            )
        elif assume:
            raise KernelError(
                f"kernel {in_short(name)}: assume: it has no access whose values could be assumed"
            )
        return GraphKernel(
            name=name,
            fields={f.name: f for f in fields},
            accesses=accesses,
            flops=flops,
            dtype=dtype,
            registers=registers,
            shared_bytes=shared_bytes,
            updates_per_thread=updates_per_thread,
            assumptions=assumptions,
            graph=graph,
            latencies=dict(latencies or {}),
        )


def _named_accesses(graph: InstructionGraph) -> tuple[list[str], list[str]]:
    """The accesses of global memory that nodes name: loads and stores."""
    touching = [(n.access, n.produces) for n in graph.nodes if n.touches_global and n.access]
    loads, stores = ([text for text, load in touching if load is side] for side in (True, False))
    return loads, stores


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CompiledKernel(Kernel):
    """Code, which is compiled for the device at hand and says the rest when a launch is known.

    ``spelled_out`` makes of arguments as a generator's caller gives them those that its code has;
    a launch that has these already stays as it is. ``overrides``: what is said to be otherwise than
    the compiler made it, by the name of the attribute of the bound kernel.
    """

    kind = KernelKind.COMPILED

    compiled: CompilableCode = field()  # else the property of Kernel is its default
    spelled_out: Callable[[Launch], Launch] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def spell_out(self, launch: Launch) -> Launch:
        """The launch with the arguments that the code has."""
        return launch if self.spelled_out is None else self.spelled_out(launch)

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[BoundKernel, Launch]:
        """See :meth:`CompilableCode.bind`."""
        bound, effective_launch = self.compiled.bind(self.spell_out(launch), arch, warp_size)
        return self.override(bound), effective_launch

    def override(self, bound: BoundKernel) -> BoundKernel:
        """Return the bound kernel with the overrides."""
        return replace(bound, **self.overrides) if self.overrides else bound


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Description(Kernel):
    """What engines read of every kernel.

    ``flops`` per thread in ``dtype``; ``registers`` per thread; ``shared_bytes`` static, per
    block; ``spill_bytes``: a thread's stack, which only compiled kernels have. The properties are
    defaults of what only some kernels have, whose classes have fields of these names.
    """

    fields: Mapping[str, Field]
    flops: float = 0
    dtype: str = "float64"
    registers: int = 32
    shared_bytes: int = 0
    spill_bytes: int | None = None
    assumptions: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        Kernel.__post_init__(self)
        item_bytes(self.dtype)
        _check_counts(self, (("registers", 1), ("shared_bytes", 0)))
        what = f"kernel {in_short(self.name)}: flops"
        flops = to_real(self.flops, what, KernelError, minimum=0)
        if flops > LARGEST:
            raise KernelError(f"{what} must be at most {LARGEST}, not {in_short(flops)}")
        object.__setattr__(self, "flops", float(flops))

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[Description, Launch]:
        """Itself."""
        return self, launch

    @property
    def program(self) -> Program | None:
        """Machine code."""
        return None

    @property
    def bound(self) -> tuple[BoundAccess, ...]:
        """Accesses of machine code."""
        return ()

    @property
    def code_bytes(self) -> int:
        """Size of the machine code."""
        return 0

    @property
    def arithmetic(self) -> str:
        """Operation class of most flops, where it is not that of the dtype."""
        return ""

    @property
    def latencies(self) -> Mapping[str, LatencyRule]:
        """Latencies by operation class that the kernel's author gives."""
        return {}

    @property
    def working(self) -> int | None:
        """Blocks that the launch's work amounts to; None: those with an unmasked thread."""
        return None

    @property
    def work(self) -> SampleWork | None:
        """How executed blocks differ."""
        return None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WrittenKernel(Description):
    """A description by hand; its accesses are expressions. ``found``: what engines keep of it."""

    spill_bytes: None = field(default=None, init=False)
    accesses: tuple[Access, ...]
    found: Memo = field(default_factory=Memo, init=False, repr=False)

    @property
    def loads(self) -> tuple[Access, ...]:
        """The accesses that read."""
        return tuple(a for a in self.accesses if a.direction is Direction.LOAD)

    @property
    def stores(self) -> tuple[Access, ...]:
        """The accesses that write."""
        return tuple(a for a in self.accesses if a.direction is Direction.STORE)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AccessKernel(WrittenKernel):
    """Address expressions alone. ``ilp``: independent chains in the arithmetic of one update."""

    kind = KernelKind.DESCRIBED

    ilp: int = 1

    def __post_init__(self) -> None:
        Description.__post_init__(self)
        _check_counts(self, (("ilp", 1),))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GraphKernel(WrittenKernel):
    """A graph by hand; ``latencies`` by operation class go before the device's."""

    kind = KernelKind.GRAPH

    graph: InstructionGraph
    latencies: Mapping[str, LatencyRule] = field(default_factory=dict)

    def content(self) -> tuple[object, ...]:
        """See :mod:`perfassert.kernel.content`: functions count by their values."""
        latencies = {
            name: tuple(map(rule, _RESIDENT_WARPS)) if callable(rule) else rule
            for name, rule in self.latencies.items()
        }
        return (*Kernel.content(replace(self, latencies={})), latencies)

    def with_spaces(self) -> InstructionGraph:
        """The graph with spaces by pipelines, where neither a node nor its class says what it
        touches."""
        spaces = {
            name: _PIPELINES[rule.pipeline]
            for name, rule in self.latencies.items()
            if isinstance(rule, Latency) and rule.pipeline in _PIPELINES and space_of(name) is None
        }
        if not spaces:
            return self.graph
        nodes = (
            n if n.space or n.access else n._replace(space=spaces.get(n.operation))
            for n in self.graph.nodes
        )
        return replace(self.graph, nodes=tuple(nodes))


_RESIDENT_WARPS = range(1, 65)
_PIPELINES = {"global": "global", "shared": "shared", "local": "shared"}
"""What memory pipelines of the paper stand for; OpenCL calls shared memory local."""


@dataclass(frozen=True, slots=True)
class LongestBlocks:
    """Blocks with the longest warps of a launch: the ``graph`` of one, and how many there are."""

    graph: InstructionGraph
    count: int


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BoundKernel(Description):
    """Compiled code for one launch; ``bound``: its accesses, whose numbers the graph's nodes
    have; ``program``: the code that it was made of; ``working``: blocks like the one of the graph
    that the launch's work amounts to, where blocks differ (None: those with an unmasked thread),
    ``amount`` the same by its instructions, and not rounded; ``idle``: instructions of the others;
    ``longest``: blocks that take longer;
    ``standing``: the block of the grid that the graph is of; ``executed``: what a sample of blocks
    found, where data decides what they do, and ``rare``: sides of jumps that are taken never to be
    executed; ``arithmetic``: the operation class of most flops, where it is not that of the
    dtype."""

    kind = KernelKind.COMPILED

    spill_bytes: int
    graph: InstructionGraph
    # Without field() the properties of Description would be defaults of these.
    bound: tuple[BoundAccess, ...] = field()
    program: Program = field()
    code_bytes: int = field()
    working: int | None = None
    amount: float | None = None
    idle: float = 0.0
    longest: LongestBlocks | None = None
    standing: tuple[int, ...] = (0, 0, 0)
    executed: Executed | None = None
    rare: frozenset[tuple[int, bool]] = frozenset()
    arithmetic: str = ""

    def __post_init__(self) -> None:
        Description.__post_init__(self)
        _check_counts(self, (("spill_bytes", 0),))

    def content(self) -> tuple[object, ...]:
        """See :mod:`perfassert.kernel.content`; the code does not enter."""
        left_out = ("program", "executed", "found")
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in left_out)

    @property
    def work(self) -> SampleWork | None:
        """How executed blocks differ."""
        return None if self.executed is None else self.executed.work


def _check_counts(kernel: Kernel, counts: Iterable[tuple[str, int]]) -> None:
    """Make integers of at least so much of them."""
    for key, minimum in counts:
        what = f"kernel {in_short(kernel.name)}: {key}"
        number = to_integer(getattr(kernel, key), what, KernelError, minimum)
        object.__setattr__(kernel, key, number)
