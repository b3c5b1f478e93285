"""Description of compiled code: instructions, control flow, accesses as closed forms.

Values are expressions of :mod:`~perfassert.kernel.expression_pool` over the names of
:mod:`perfassert.kernel.names`. The description is valid for every launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfassert.kernel.access import Direction
from perfassert.kernel.graph import loop_chain
from perfassert.kernel.machine import AtomicTurn
from perfassert.kernel.memo import Memo
from perfassert.kernel.names import Argument, Name
from perfassert.kernel.roles import CountedWait, Role
from perfassert.source import Assumption, SourceSpan

if TYPE_CHECKING:
    from perfassert.kernel.expression_pool import Expression, ExpressionPool

CLUSTER = "shared memory of the cluster"
"""Field of accesses to the shared memory of other blocks of the cluster."""


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A memory access of one instruction, valid for every launch.

    Attributes:
        bytes: bytes that each thread accesses.
        address: bytes from the start of ``field``.
        unresolved: reason why the address has no closed form; empty if it has one.
        merged: True if the lanes of an atomic that access one address make one operation.
        turn: class of an atomic by the time for which it occupies its address.
        rests_on: what was assumed about the address.
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
    """Action of an instruction at a barrier other than the plain barrier of the block.

    Attributes:
        kind: ``"shared"`` for an mbarrier, ``"named"``, or ``"cluster"``.
        barrier: byte offset of an mbarrier in shared memory, or number of a named barrier.
        arrives, waits: True if the instruction arrives, waits.
        copies: True for a bulk copy that completes at the barrier.
        parity: parity of the phase that is waited for, in the highest bit.
        threads: threads that synchronize at a named barrier; None: all.
        bytes: bytes of copies that an arrival expects.
        late: True if it arrives when earlier matrix instructions are complete.
        gathers: True if it arrives when earlier asynchronous copies are complete.
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

    Attributes:
        direction: ``LOAD`` from global memory or ``STORE`` to it.
        address: address of the tensor map if there are ``coordinates``; else the offset of ``size``
            bytes in ``field``.
        coordinates: coordinates of the box in the tensor, innermost first.
        unresolved: the part that has no closed form; empty if all parts have one.
        multicast: True for a copy to the shared memory of all blocks of the cluster.
        tensor: parameter in which the tensor map lies.
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
    """An instruction of compiled code.

    ``opcode`` and ``text`` are for reports only. Their meaning is in ``operation``, ``roles``,
    ``counted`` and ``meets``.

    Attributes:
        operation: class in the device's operation table.
        stall: cycles until the warp may issue the next instruction.
        sets: scoreboard barrier that is cleared when the result is written; -1: none.
        frees: scoreboard barrier that is cleared when the operands are read; -1: none.
        waits: scoreboard barriers that must be clear before it is issued.
        defines, uses: registers and predicates that it writes and reads.
        guard: condition under which it is executed; None: always.
        address: bytes from the start of the kernel's code; copies of a called function share it.
        predicate: predicate of the guard, as in ``"P0"`` and ``"!P0"``; empty: always executed.
        counted: waits for groups of a barrier.
        meets: barrier at which it arrives or waits.
        closes: counted barrier of which it completes a group of matrix instructions; -1: none.
        sleeps: nanoseconds for which the warp sleeps.
        call: number of the call to which this copy of a function belongs; -1: none.
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
    """A basic block: the instructions from ``start`` to ``stop`` (exclusive).

    Attributes:
        loop: number of the innermost loop around it; -1: none.
        condition: condition under which an iteration of that loop executes it.
        skipped: reason why the model takes it as never executed (a slow path); empty otherwise.
        successors: numbers of the blocks that may be executed next, jump targets first.
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
    """A natural loop of compiled code.

    Attributes:
        entry: condition under which the region around the loop enters it.
        trips: executions of the header per entry; None if unknown.
        reason: reason why the trip count is unknown.
        last: blocks that are also executed in the last iteration; None: all.
        name: ``"file.cu:7"``, with ``"#2"`` for the second loop on that line.
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
    """A number or pointer in a structure.

    ``name``: its path, as in ``"box.low[2]"``. ``offset`` and ``size``: in bytes. ``dtype``: type
    of the number, or of the elements to which a pointer points.
    """

    name: str
    offset: int
    size: int
    pointer: bool = False
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter; ``size`` in bytes.

    ``members``: numbers and pointers in a structure whose layout is known.
    """

    name: str
    pointer: bool
    size: int
    dtype: str | None = None
    members: tuple[Member, ...] = ()

    def at(self, offset: int) -> str:
        """Return the name that fields and messages use for the value at a byte of the parameter."""
        member = next((m for m in self.members if m.offset == offset), None)
        if member is not None:
            return f"{self.name}.{member.name}"
        return f"{self.name}+{offset}" if offset else self.name


@dataclass(frozen=True, eq=False)
class Program:
    """The compiled kernel.

    Attributes:
        order: numbers of the blocks in reverse postorder.
        loaded: name of an unknown value → the address from which it was loaded.
        sizes: bytes of fields that are variables in global memory.
        tables: fields that hold coefficients of the compiler's library functions.
        found: results of analyses, each computed once.
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
        """Return the numbers of a loop and of the loops around it, outermost first."""
        return loop_chain(self.loops, loop)
