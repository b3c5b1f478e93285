"""The kernel description that every front end makes and every engine reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Protocol

from perfassert.errors import KernelError
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.addresses import read_accesses
from perfassert.kernel.field import Field, item_bytes
from perfassert.kernel.graph import InstructionGraph, Latency
from perfassert.kernel.launch import Launch
from perfassert.source import Assumption

if TYPE_CHECKING:
    from perfassert.kernel.bound import BoundAccess
    from perfassert.kernel.program import Program


class Compiled(Protocol):
    """Code that becomes a description once device and launch are known."""

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[Kernel, Launch]:
        """The kernel with graph and bound accesses, and the launch that its volumes are those of:
        guards as a domain, grid-stride loops as a wider grid."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel, independent of device and launch. Compared by identity.

    ``flops`` per thread in ``dtype``; ``registers`` per thread; ``shared_bytes`` static, per
    block; ``updates_per_thread``: results that a thread makes (thread folding); ``ilp``:
    independent chains in the arithmetic of one update. ``graph`` is None where the description
    has address expressions only; ``latencies`` by operation class go before the device's.
    ``compiled``: where the rest comes from code, which is compiled for the device at hand and
    bound to a launch; ``bound``: the accesses of such code; ``spill_bytes``: a thread's stack.
    """

    name: str
    fields: Mapping[str, Field]
    accesses: tuple[Access, ...]
    flops: float = 0
    dtype: str = "float64"
    registers: int = 32
    shared_bytes: int = 0
    updates_per_thread: int = 1
    ilp: int = 1
    assumptions: tuple[Assumption, ...] = field(default=())
    graph: InstructionGraph | None = None
    latencies: Mapping[str, Latency | Callable[[int], Latency]] = field(default_factory=dict)
    compiled: Compiled | None = None
    bound: tuple[BoundAccess, ...] | None = None
    spill_bytes: int | None = None
    program: Program | None = None
    code_bytes: int = 0

    def __post_init__(self) -> None:
        item_bytes(self.dtype)
        for key, minimum in (
            ("registers", 1),
            ("shared_bytes", 0),
            ("updates_per_thread", 1),
            ("ilp", 1),
        ):
            value = getattr(self, key)
            try:
                whole = not isinstance(value, bool) and index(value) >= minimum
            except TypeError:
                whole = False
            if not whole:
                reason = f"must be a whole number of at least {minimum}, not {value!r}"
                raise KernelError(f"kernel {self.name!r}: {key} {reason}")
        if isinstance(self.flops, str) or not 0 <= self.flops < float("inf"):
            raise KernelError(f"kernel {self.name!r}: flops must be ≥ 0, not {self.flops!r}")

    @classmethod
    def from_accesses(
        cls,
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
        proxies: Mapping[str, str] | None = None,
    ) -> Kernel:
        """A kernel from address expressions such as ``"src[z, y, x + 1]"`` (Warpspeed §4).

        Raises :class:`~perfassert.errors.AddressExpressionError` with the column marked, or
        :class:`~perfassert.errors.KernelError`. ``proxies`` stand in for subscripts that depend
        on data, ``{"idx[x]": "x * 7 % n"}``; each becomes an assumption.
        """
        accesses, assumptions = read_accesses(fields, loads, stores, proxies or {})
        return cls(
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

    @classmethod
    def from_graph(
        cls,
        name: str,
        graph: InstructionGraph,
        latencies: Mapping[str, Latency | Callable[[int], Latency]] | None = None,
        registers: int = 32,
        shared_bytes: int = 0,
        fields: Sequence[Field] = (),
        flops: float = 0,
        dtype: str = "float32",
        updates_per_thread: int = 1,
        proxies: Mapping[str, str] | None = None,
    ) -> Kernel:
        """A kernel from an instruction graph: the pipeline model's own input (§III.C).

        ``latencies``: class → :class:`Latency`, or a function of the resident warps of a compute
        unit that gives one; classes left out take the device's. Nodes that name an ``access`` of
        one of ``fields`` in ``space`` ``"global"`` (or none) have volumes. Raises
        :class:`~perfassert.errors.KernelError`.
        """
        if not isinstance(graph, InstructionGraph):
            raise KernelError(f"kernel {name!r}: graph must be built, not {graph!r}")
        touching = [n for n in graph.nodes if n.touches_global]
        if proxies and not touching:
            raise KernelError(f"kernel {name!r}: proxies stand in for nothing, it has no access")
        accesses, assumptions = (
            read_accesses(
                fields,
                [n.access for n in touching if n.produces and n.access],
                [n.access for n in touching if not n.produces and n.access],
                proxies or {},
            )
            if touching
            else ((), ())
        )
        return cls(
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

    @property
    def loads(self) -> tuple[Access, ...]:
        """The accesses that read."""
        return tuple(a for a in self.accesses if a.direction is Direction.LOAD)

    @property
    def stores(self) -> tuple[Access, ...]:
        """The accesses that write."""
        return tuple(a for a in self.accesses if a.direction is Direction.STORE)
