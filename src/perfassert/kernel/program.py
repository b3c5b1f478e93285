"""Compiled code as a description: instructions, flow of control, accesses as closed forms.

Values are expressions of :mod:`~perfassert.kernel.expression_pool`, over the names of
:mod:`perfassert.kernel.names`. The description holds for every launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfassert.kernel.access import Direction
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.graph import loop_chain
from perfassert.kernel.machine import AtomicTurn
from perfassert.kernel.memo import Memo
from perfassert.kernel.names import Argument, Name
from perfassert.kernel.roles import CountedWait, Role
from perfassert.source import Assumption, SourceSpan

CLUSTER = "shared memory of the cluster"
"""The field that stands for what lies in shared memory of another block."""


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """What one instruction touches: ``address`` in bytes from the start of ``field``.

    ``bytes`` per thread. ``unresolved`` says why the address has no closed form, else empty.
    ``merged``: lanes of an atomic on one address are one operation, that counts them. ``turn``: how
    long an atomic keeps its address. ``rests_on``: what was assumed about the address.
    """

    field: str
    space: str
    direction: Direction
    bytes: int
    address: Expression
    atomic: bool = False
    unresolved: str = ""
    text: str = ""
    merged: bool = False
    turn: AtomicTurn = AtomicTurn.UNKNOWN
    rests_on: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True)
class BarrierUse:
    """What an instruction does at a barrier besides the block's plain one.

    ``kind``: ``"shared"``, an mbarrier ``barrier`` bytes into shared memory; ``"named"``, that of
    this number; ``"cluster"``. ``copies``: a bulk copy that completes there. ``parity`` that is
    waited for, in the highest bit; ``threads`` that meet at a named one (None: all); ``bytes`` of
    copies that an arrival expects; ``late``: it arrives when the matrix instructions before it are
    complete; ``gathers``: when the asynchronous copies before it are.
    """

    kind: str
    barrier: Expression
    arrives: bool = False
    waits: bool = False
    copies: bool = False
    parity: Expression | None = None
    threads: Expression | None = None
    bytes: Expression | None = None
    late: bool = False
    gathers: bool = False


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """A copy between global and shared memory that one instruction starts.

    ``address``: of the tensor map where there are ``coordinates`` (innermost first), else of
    ``size`` bytes in ``field``. ``tensor``: the parameter in which the tensor map lies.
    ``unresolved`` says what has no closed form, else empty. ``multicast``: to shared memory of all
    blocks of the cluster.
    """

    direction: Direction
    address: Expression
    coordinates: tuple[Expression, ...]
    size: Expression | None
    field: str = ""
    unresolved: str = ""
    multicast: bool = False
    tensor: Argument | None = None


@dataclass(frozen=True, slots=True)
class ProgramInstruction:
    """One instruction; ``operation`` is its class in the device's operation table.

    ``stall``: cycles until the warp may issue the next one; ``sets``, ``frees``: the barrier that
    is cleared when the result is written, when the operands are read (-1: none); ``waits``:
    barriers that must be clear before issue. ``defines``, ``uses``: registers and predicates.
    ``address``: bytes from the start of the kernel's code; copies of a called function share it.
    ``predicate``: the one that guards it, as in ``"P0"`` and ``"!P0"``; ``""``: always executed.
    ``opcode``, ``text``: to be shown; what they mean is in ``operation``, ``roles``, ``counted``,
    and in ``meets``: the barrier at which it arrives or waits. ``closes``: the counted barrier of
    which it completes a group of matrix instructions (-1: none). ``sleeps``: nanoseconds. ``call``:
    the call that a copy of a function is of (-1: none).
    """

    index: int
    operation: str
    opcode: str
    text: str
    span: SourceSpan | None
    inlined: tuple[SourceSpan, ...]
    function: str
    stall: int
    sets: int
    frees: int
    waits: tuple[int, ...]
    defines: tuple[str, ...]
    uses: tuple[str, ...]
    guard: Expression | None
    accesses: tuple[MemoryAccess, ...]
    fence: bool = False
    address: int = -1
    predicate: str = ""
    rests_on: tuple[Assumption, ...] = ()
    roles: frozenset[Role] = frozenset()
    counted: tuple[CountedWait, ...] = ()
    meets: BarrierUse | None = None
    closes: int = -1
    bulk: BulkCopy | None = None
    sleeps: Expression | None = None
    call: int = -1


@dataclass(frozen=True, slots=True)
class ProgramBlock:
    """Instructions ``start`` to ``stop`` (exclusive); ``condition`` within its loop's iteration.

    ``skipped``: never executed as far as the model is concerned (a slow path), with the reason.
    ``successors``: blocks that control may go to, jump targets first.
    """

    index: int
    start: int
    stop: int
    loop: int
    condition: Expression
    skipped: str = ""
    successors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramLoop:
    """A natural loop. ``trips``: how often the header is entered, None where unknown.

    ``entry``: condition in the region around it; ``last``: blocks that run in the last iteration
    too (None: all). ``name``: ``"file.cu:7"``, with ``"#2"`` for the second loop on that line.
    """

    index: int
    parent: int
    header: int
    blocks: frozenset[int]
    entry: Expression
    trips: Expression | None
    reason: str
    last: frozenset[int] | None
    span: SourceSpan | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A number or pointer in a structure; ``name``: its path, as in ``"box.low[2]"``.

    ``offset`` and ``size`` in bytes; ``dtype`` is of the value, or of what a pointer points to.
    """

    name: str
    offset: int
    size: int
    pointer: bool = False
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: name, whether it is a pointer, size in bytes.

    ``members``: of a structure whose layout is known.
    """

    name: str
    pointer: bool
    size: int
    dtype: str | None = None
    members: tuple[Member, ...] = ()

    def at(self, offset: int) -> str:
        """What lies at a byte of it, as fields and messages call it."""
        member = next((m for m in self.members if m.offset == offset), None)
        if member is not None:
            return f"{self.name}.{member.name}"
        return f"{self.name}+{offset}" if offset else self.name


@dataclass(frozen=True, eq=False)
class Program:
    """The compiled kernel; ``order``: blocks in reverse postorder.

    ``loaded``: by the name of an unknown, the address that it was loaded from; ``sizes``: bytes of
    the fields that are variables in global memory, ``tables``: those that hold coefficients of the
    compiler's functions; ``found``: what is found out about it once.
    """

    arch: str
    symbols: ExpressionPool
    instructions: tuple[ProgramInstruction, ...]
    blocks: Mapping[int, ProgramBlock]
    order: tuple[int, ...]
    loops: tuple[ProgramLoop, ...]
    parameters: tuple[Parameter, ...]
    code_bytes: int
    assumptions: tuple[Assumption, ...]
    loaded: Mapping[Name, Expression] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()
    found: Memo = field(default_factory=Memo, repr=False)

    def chain(self, loop: int) -> tuple[int, ...]:
        """The loop and those around it, outermost first."""
        return loop_chain(self.loops, loop)
