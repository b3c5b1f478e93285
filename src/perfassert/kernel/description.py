"""The kernel description that every front end makes and every engine reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from perfassert.errors import GraphError, KernelError, check_kind, in_short
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.addresses import read_accesses
from perfassert.kernel.content import Encoded
from perfassert.kernel.executed import Executed, SampleWork
from perfassert.kernel.expression import COORDINATES, DIMENSIONS, variables
from perfassert.kernel.field import Field, item_bytes
from perfassert.kernel.fixed import FixedMapping
from perfassert.kernel.graph import InstructionGraph, Latency, LatencyRule
from perfassert.kernel.integers import integer_names
from perfassert.kernel.launch import Launch
from perfassert.kernel.memo import Memo
from perfassert.kernel.parameters import check_arguments
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
        """Return the kernel bound to a launch, and the effective launch to which its volumes refer.

        The bound kernel has an instruction graph and bound accesses. In the effective launch,
        guards of the code are a domain, and grid-stride loops are a larger grid.
        """


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Kernel(ABC):
    """A kernel, independent of device and launch; every entry point makes one.

    Use :meth:`from_accesses`, :meth:`from_graph`, or a front end such as
    :func:`perfassert.from_cuda`. Kernels are immutable and compared by identity.

    Attributes:
        name: shown in reports.
        updates_per_thread: results that one thread makes (thread folding). A volume per update is
            divided by threads times this number. Default: 1.

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
        check_kind(self.name, str, "a kernel's name", KernelError)
        _check_counts(self, (("updates_per_thread", 1),))

    def content(self) -> tuple[object, ...]:
        """Return the fields but ``found``, in which engines keep their results.

        See :mod:`perfassert.kernel.content`.
        """
        return tuple(getattr(self, f.name) for f in fields(self) if f.name != "found")

    @property
    def compiled(self) -> CompilableCode | None:
        """Code that is bound once the launch is known; None for a kernel without code."""
        return None

    @abstractmethod
    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[Description, Launch]:
        """Return the description for one launch, and the launch to which its volumes refer.

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

        A code generator knows these before it emits any code. An expression is parsed, never
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
            KernelError: a name that is no text, no access at all, an unknown ``dtype``, an assumed
                value that nothing uses, or an invalid count.

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
        """Describe a kernel by an instruction graph, which is the input of the pipeline model.

        Args:
            name: shown in reports.
            graph: what ``InstructionGraph.builder().build()`` gives.
            latencies: operation class → :class:`Latency`, or a function from the resident warps of
                an SM to one; other classes have the device's latencies. Default: none.
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
            latencies=latencies or {},
        )


def _named_accesses(graph: InstructionGraph) -> tuple[list[str], list[str]]:
    """Return the accesses of global memory that nodes name, as (loads, stores)."""
    touching = [(n.access, n.produces) for n in graph.nodes if n.touches_global and n.access]
    loads, stores = ([text for text, load in touching if load is side] for side in (True, False))
    return loads, stores


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CompiledKernel(Kernel):
    """A kernel given as code, which is compiled for a device and bound to a launch.

    ``spelled_out`` replaces the arguments that callers of a code generator give by the parameters
    of its code; a launch that already has these is not changed. ``overrides``: values that replace
    those of the compiled code, by the name of the attribute of the bound kernel.
    """

    kind = KernelKind.COMPILED

    compiled: CompilableCode = field()  # else the property of Kernel is its default
    spelled_out: Callable[[Launch], Launch] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def spell_out(self, launch: Launch) -> Launch:
        """Return the launch with the arguments that the code has."""
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
    """Description of a kernel for engines: the attributes that every kind of kernel has.

    The properties below are defaults; subclasses that have such an attribute define a field of the
    same name.

    Attributes:
        fields: arrays and pointers by name.
        flops: floating-point operations of a thread, of type ``dtype``.
        registers: registers of a thread.
        shared_bytes: static shared memory of a block, in bytes.
        spill_bytes: stack of a thread, in bytes; None if the kernel is not compiled.
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
        object.__setattr__(self, "fields", FixedMapping(self.fields))
        item_bytes(self.dtype)
        _check_counts(self, (("registers", 1), ("shared_bytes", 0)))
        what = f"kernel {in_short(self.name)}: flops"
        flops = to_real(self.flops, what, KernelError, minimum=0)
        if flops > LARGEST:
            raise KernelError(f"{what} must be at most {LARGEST}, not {in_short(flops)}")
        object.__setattr__(self, "flops", float(flops))

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[Description, Launch]:
        """Return the description and the launch unchanged: no code has to be bound."""
        return self, launch

    @property
    def program(self) -> Program | None:
        """Machine code; None if the kernel is not compiled."""
        return None

    @property
    def bound(self) -> tuple[BoundAccess, ...]:
        """Accesses of machine code; none if the kernel is not compiled."""
        return ()

    @property
    def code_bytes(self) -> int:
        """Size of the machine code in bytes; 0 if the kernel is not compiled."""
        return 0

    @property
    def arithmetic(self) -> str:
        """Operation class of most flops; empty if it is that of ``dtype``."""
        return ""

    @property
    def latencies(self) -> Mapping[str, LatencyRule]:
        """Latencies by operation class that the user gives; they override those of the device."""
        return {}

    @property
    def working(self) -> int | None:
        """Number of blocks whose work adds up to that of the launch.

        None: the number of blocks that have an unmasked thread.
        """
        return None

    @property
    def work(self) -> SampleWork | None:
        """Differences in work between executed blocks; None if no block was executed."""
        return None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WrittenKernel(Description):
    """A description that users write; its accesses are expressions.

    ``found``: results of engines, kept for later predictions.
    """

    spill_bytes: None = field(default=None, init=False)
    accesses: tuple[Access, ...]
    found: Memo = field(default_factory=Memo, init=False, repr=False)

    @property
    def loads(self) -> tuple[Access, ...]:
        """The accesses that load."""
        return tuple(a for a in self.accesses if a.direction is Direction.LOAD)

    @property
    def stores(self) -> tuple[Access, ...]:
        """The accesses that store."""
        return tuple(a for a in self.accesses if a.direction is Direction.STORE)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of integers in ``Launch.args`` that the kernel uses."""
        return _names_in_subscripts(self.accesses)

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[Description, Launch]:
        """Return the description and the launch unchanged, whose arguments are checked.

        Raises:
            LaunchError: an argument that it uses and that is no integer.
        """
        parameters = self.found.once(check_arguments, lambda: self.parameters)
        check_arguments(self.name, parameters, launch)
        return self, launch

    def encode(self, folders: bool) -> Encoded:
        """Return the encoding of the kernel, made once.

        Args:
            folders: see :func:`~perfassert.kernel.content.content_digest`.
        """
        return self.found.once((Encoded, folders), lambda: Encoded(self, folders))


def _names_in_subscripts(accesses: Iterable[Access]) -> frozenset[str]:
    """Return the names of subscripts that are no coordinates or extents of blocks and grid."""
    names = {v.name for a in accesses for s in a.subscripts for v in variables(s)}
    return frozenset(names.difference(COORDINATES, DIMENSIONS))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AccessKernel(WrittenKernel):
    """A kernel described by address expressions.

    ``ilp``: independent chains of instructions in the arithmetic of one update.
    """

    kind = KernelKind.DESCRIBED

    ilp: int = 1

    def __post_init__(self) -> None:
        Description.__post_init__(self)
        _check_counts(self, (("ilp", 1),))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GraphKernel(WrittenKernel):
    """A kernel described by a user-built instruction graph.

    ``latencies``, by operation class, override those of the device.
    """

    kind = KernelKind.GRAPH

    graph: InstructionGraph
    latencies: Mapping[str, LatencyRule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Description.__post_init__(self)
        object.__setattr__(self, "latencies", FixedMapping(self.latencies))

    @property
    def parameters(self) -> frozenset[str]:
        """Names of integers in ``Launch.args`` that accesses and trip counts use."""
        trips = [loop.trips for loop in self.graph.loops if isinstance(loop.trips, str)]
        names = (integer_names(text, GraphError) for text in trips)
        return _names_in_subscripts(self.accesses).union(*names)

    def encode(self, folders: bool) -> Encoded:
        """Return the encoding of the kernel, made anew if functions give latencies.

        Args:
            folders: see :func:`~perfassert.kernel.content.content_digest`.
        """
        if any(map(callable, self.latencies.values())):
            return Encoded(self, folders)
        return WrittenKernel.encode(self, folders)

    def content(self) -> tuple[object, ...]:
        """Return the fields, with each latency function replaced by its values for 1 to 64 warps.

        See :mod:`perfassert.kernel.content`.
        """
        latencies = {
            name: tuple(map(rule, _RESIDENT_WARPS)) if callable(rule) else rule
            for name, rule in self.latencies.items()
        }
        return (*Kernel.content(replace(self, latencies={})), latencies)

    def with_spaces(self) -> InstructionGraph:
        """Return the graph with a memory space for each node of a memory pipeline.

        A node gets the space of the pipeline that its latency names. Nodes that have a space or an
        access, and classes that imply a space, are not changed.
        """
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
"""Memory space of each memory pipeline of the paper, which calls shared memory *local* (OpenCL)."""


@dataclass(frozen=True, slots=True)
class LongestBlocks:
    """The blocks of a launch with the longest warps: the ``graph`` of one, and their ``count``."""

    graph: InstructionGraph
    count: int


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BoundKernel(Description):
    """Compiled code bound to one launch.

    Attributes:
        graph: instructions of the representative block.
        bound: accesses to memory; nodes of the graph refer to them by number.
        program: the code from which the kernel was bound.
        code_bytes: size of the code.
        working: number of representative blocks whose work adds up to that of the launch. None if
            blocks do not differ: the number of blocks that have an unmasked thread.
        amount: the same number by instructions, not rounded.
        idle: warp instructions of blocks that have no work.
        longest: blocks that take longer than the representative one, if any.
        standing: coordinates of the representative block in the grid.
        executed: results of sampled block execution; None if no block was executed.
        rare: sides of conditional jumps that are assumed never to be executed, as (address of the
            jump, True if it jumps).
        arithmetic: operation class of most flops; empty if it is that of ``dtype``.
    """

    kind = KernelKind.COMPILED

    spill_bytes: int
    graph: InstructionGraph
    # Without field(), the properties of Description would be the defaults of these fields.
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
        """Return the fields but the code and the executed blocks, from which the others follow.

        See :mod:`perfassert.kernel.content`.
        """
        left_out = ("program", "executed", "found")
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in left_out)

    @property
    def work(self) -> SampleWork | None:
        """Differences in work between executed blocks; None if no block was executed."""
        return None if self.executed is None else self.executed.work


def _check_counts(kernel: Kernel, counts: Iterable[tuple[str, int]]) -> None:
    """Convert attributes to integers; raise :class:`KernelError` for one below its minimum."""
    for key, minimum in counts:
        what = f"kernel {in_short(kernel.name)}: {key}"
        number = to_integer(getattr(kernel, key), what, KernelError, minimum)
        object.__setattr__(kernel, key, number)
