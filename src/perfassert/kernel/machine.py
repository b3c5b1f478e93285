"""Machine code as small executable operations, with no opcode of any instruction set left in it.

A front end makes it, and ``engines/execution`` runs it. A register holds a 32-bit word per lane.
Predicates are registers with words of 0 or 1. Literals, constants and special registers are
registers that are filled before the first instruction (:class:`Preset`). Register 0 is always 0. A
uniform register has the same word in all lanes of a warp.

:class:`Kind` defines what each operation computes, for both sides. ``targets`` and ``sources`` are
register numbers; a target of ``-1`` discards the result. An operation that cannot be expressed is
:attr:`Kind.UNKNOWN`: its targets are unknown from there on, never wrong.

Example: the guarded addition ``@P0 IADD R1, R2, 5``, with R1, R2, P0 in registers 1, 2, 3 and the
literal 5 in register 4, is a :class:`MachineInstruction` with ``guard=3`` and the operation
``Micro(Kind.ADD, targets=(1,), sources=(2, 4, 0), detail=(0,))``: no source is negated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, unique

from perfassert.kernel.memo import Memo
from perfassert.shipped import model_integer
from perfassert.source import SourceSpan

WARP_LANES = model_integer("warp_lanes")
SECTOR_BYTES = model_integer("sector_bytes")
"""Smallest part of a line that a cache loads."""
REGISTER_BYTES = model_integer("register_bytes")
"""Size of a register of one thread."""
POINTER_BYTES = model_integer("pointer_bytes")
WIDEST_ACCESS_BYTES = model_integer("widest_access_bytes")
"""Largest vector of the CUDA programming model, ``float4`` or ``double2``."""
ADDRESS_SOURCES = 4
"""First sources of a memory operation: two words of its address, two of what is added to it."""
FLOPS_PER_FMA = 2
"""Operations that a fused multiply-add counts as."""


@unique
class Kind(Enum):
    """Kind of a micro-operation; each value says what is computed, with ``detail`` in parentheses.

    ``a``, ``b``, ``c`` are the sources in order; a pair is two sources, ``low, high``. Floats are
    IEEE, rounded to nearest unless the detail names another :class:`Rounding`.
    """

    __hash__ = object.__hash__  # that of Enum is a function in Python

    MOVE = "a"
    ADD = "a + b + c + carries; carry if the sum ≥ 2³², if it ≥ 2³³ (bits of negated sources)"
    MULTIPLY = "low word of a · b + c + carry"
    MULTIPLY_WIDE = "pair a · b + pair c + carry, carry out (signed)"
    LOGIC = "bitwise function (table, bit 4a + 2b + c)"
    SHIFT = "funnel of low a, high c by b (right, wrap, bits, signed, high word wanted)"
    SELECT = "a where c, else b"
    COMPARE = "a relation b (relation, signed)"
    COMPARE_EXTENDED = "a relation b, c where equal (relation, signed)"
    COMPARE_WIDE = "pair relation pair (relation, signed)"
    DECIDE = "function of three predicates (table)"
    MINIMUM = "least of a, b where c, else the greatest (signed)"
    PERMUTE = "bytes of a, c chosen by the nibbles of b"
    COUNT_BITS = "number of set bits"
    FIND_BIT = "place of the highest bit unlike the sign (signed, from the left)"
    REVERSE_BITS = "bits in reverse order"
    BIT_FIELD = "b ones from bit a (wrap)"
    EXTEND = "low b bits of a (signed, wrap)"
    DOT = "c + Σ products of four bytes (signed a, signed b)"
    ABSOLUTE = "|a|, signed"
    FLOAT_ADD = "a + b (rounding, flush, saturate)"
    FLOAT_MULTIPLY = "a · b (rounding, flush, saturate)"
    FLOAT_FUSED = "a · b + c (rounding, flush, saturate)"
    FLOAT_COMPARE = "(relation, also when unordered, flush)"
    FLOAT_MINIMUM = "least of a, b where c, else the greatest (flush)"
    FLOAT_FUNCTION = "(function)"
    FLOAT_CHECK = "whether a / b needs the slow path"
    DOUBLE_ADD = "sum of pairs (rounding)"
    DOUBLE_MULTIPLY = "product of pairs (rounding)"
    DOUBLE_FUSED = "product and sum of pairs (rounding)"
    DOUBLE_COMPARE = "pairs (relation, also when unordered)"
    FROM_INTEGER = "pair → float (bits, signed, float bits, rounding)"
    TO_INTEGER = "pair → integer (float bits, bits, signed, rounding, flush)"
    ROUND = "float → float of whole value (rounding, flush)"
    DOUBLE_ROUND = "pair → pair of whole value (rounding)"
    NARROW = "double → float (rounding)"
    WIDEN = "float → double"
    HALF_TO_FLOAT = "half (which) → float"
    VOTE = "ballot and truth over active lanes (Voting)"
    SHUFFLE = "(Shuffling); predicate: the source is in range"
    MATCH = "lanes with the same a (all)"
    REDUCE = "over active lanes (Combining, signed)"
    FIRST = "a of the first active lane (for all lanes, whatever the guard)"
    LOAD = "words at an address (see MemoryOperand)"
    STORE = "words to an address"
    ATOMIC = "read, combine, write; lanes in order"
    MATRIX_LOAD = "rows of 16 bytes at each lane's address; result unknown"
    BRANCH = "to an instruction (target)"
    BRANCH_DIVERGED = "taken if active lanes are not all lanes left (target, when converged)"
    BRANCH_INDIRECT = "to the code address a + offset (offset, whether it is a return)"
    EXIT = "lanes end"
    SYNC_SET = "register ← mask of active lanes"
    SYNC_WAIT = "until all lanes of the mask in the register wait here or have ended"
    SYNC_LEAVE = "active lanes leave the mask in the register"
    WARP_WAIT = "until all lanes of mask a wait here or have ended"
    BARRIER = "until all threads of the block, or b of them, wait at barrier a (Arriving)"
    BARRIER_REDUCE = "as BARRIER; combines predicate c over the block (Combining)"
    YIELD = "other lanes of the warp may run"
    UNKNOWN = "targets, and the memory that it names as a whole, are not known"
    LOST = "lanes cannot be followed any further"


class Relation(IntEnum):
    """Relation of a comparison."""

    LT, EQ, LE, GT, NE, GE, NEVER, ALWAYS, ORDERED, UNORDERED = range(10)


class Rounding(IntEnum):
    """Rounding mode of a float operation: to nearest even, down, up, or towards zero."""

    NEAREST, DOWN, UP, ZERO = range(4)


class Function(IntEnum):
    """Function that the hardware approximates; block execution rounds its result correctly."""

    COS, SIN, EX2, LG2, RCP, RSQ, SQRT, TANH, RCP_HIGH, RSQ_HIGH = range(10)


class Voting(IntEnum):
    """Condition of a vote: the predicate is true in all lanes, in any lane, or equal in all."""

    ALL, ANY, EQUAL = range(3)


class Shuffling(IntEnum):
    """Source lane of a shuffle: a lane number, lanes below or above, or the exclusive or."""

    INDEX, UP, DOWN, BUTTERFLY = range(4)


class Combining(IntEnum):
    """Operation by which an atomic or a reduction combines two values.

    ``FLOAT_ADD`` adds floats; ``ADD`` adds integers.
    """

    ADD, MIN, MAX, INCREMENT, DECREMENT, AND, OR, XOR, EXCHANGE, COMPARE_SWAP, FLOAT_ADD = range(11)


class AtomicTurn(Enum):
    """Class of atomics that occupy one address of global memory for the same measured time."""

    ADDITION = "an integer addition"
    UPDATE = "a floating-point addition"
    UNKNOWN = ""


class Space(IntEnum):
    """Memory space of an address."""

    GLOBAL, SHARED, LOCAL, GENERIC, CONSTANT = range(5)


@dataclass(frozen=True, slots=True)
class MemoryOperand:
    """Memory of an operation: ``bytes`` per lane at the address ``a · scale + b + offset``.

    The first sources of the operation are the pairs ``a`` and ``b``, then the data. Only global and
    generic addresses use the high words of the pairs.

    Attributes:
        signed: True if narrow loads are sign-extended.
        bank: constant bank.
        combine: operation of an atomic; None for one that cannot be executed.
        combine_signed: True if it compares signed integers.
        returned: True if an atomic returns the value that it read.
        merged: True if lanes of an atomic on one address make one operation, which counts the lanes
            or is carried out by one of them.
        turn: class of an atomic on global memory by the time for which it occupies its address.
    """

    space: Space
    bytes: int
    offset: int = 0
    scale: int = 1
    signed: bool = False
    bank: int = 0
    combine: Combining | None = None
    combine_signed: bool = False
    asynchronous: bool = False
    returned: bool = True
    merged: bool = False
    turn: AtomicTurn = AtomicTurn.UNKNOWN


@dataclass(frozen=True, slots=True)
class Micro:
    """A micro-operation; :class:`Kind` defines what it computes."""

    kind: Kind
    targets: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    detail: tuple[int, ...] = ()
    memory: MemoryOperand | None = None


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """The micro-operations of one machine instruction, which have one guard.

    Attributes:
        address: byte address, equal to that of the program's instruction.
        operations: micro-operations, in order.
        guard: register of the guard; -1: none. Lanes in which it equals ``holds`` take part.
        inputs: values that analyses need: words, as moves without targets, and addresses, as memory
            operations without targets and data. An address of 0 bytes is no access.
        reads: registers that it needs besides those of its operations.
    """

    address: int
    operations: tuple[Micro, ...]
    guard: int = -1
    holds: int = 1
    span: SourceSpan | None = None
    text: str = ""
    inputs: tuple[Micro, ...] = ()
    reads: tuple[int, ...] = ()

    def written_registers(self) -> tuple[int, ...]:
        """Return the registers that it may write, in order."""
        return tuple(dict.fromkeys(t for o in self.operations for t in o.targets if t > 0))

    def read_registers(self) -> tuple[int, ...]:
        """Return the registers whose values before the instruction it needs, the guard first."""
        registers = dict.fromkeys((self.guard,) if self.guard > 0 else ())
        written: set[int] = set()
        for operation in self.operations:
            registers.update((s, None) for s in operation.sources if s not in written)
            written.update(operation.targets)
        for operation in self.inputs:
            registers.update((s, None) for s in operation.sources if s not in written)
        return tuple(r for r in dict.fromkeys((*registers, *self.reads)) if r > 0)


class PresetSource(Enum):
    """Source of the value that fills a register before the first instruction."""

    LITERAL = "literal"
    CONSTANT = "constant"
    SPECIAL = "special"
    ORDINARY = "ordinary"


@dataclass(frozen=True, slots=True)
class Preset:
    """A register that is filled before the first instruction.

    ``value``: the literal, or the byte offset in constant bank ``bank``. ``name``: name of a
    special register (``threadIdx.x``, ``laneid``, ``activemask``, …), whose value the engine may
    not know.

    An ordinary number is a random float that is neither large nor small. Its ``name`` is
    ``"float"``, or ``"double"``, of which ``bank`` is the number of the word. It differs between
    threads; ``value`` is its seed. Some ordinary numbers are negative if ``signed``.
    """

    register: int
    source: PresetSource
    value: int = 0
    bank: int = 0
    name: str = ""
    signed: bool = True


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """Place of a parameter in constant bank 0: ``offset`` and ``size`` in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class UnsetConstant:
    """Bytes of a constant bank that only the program fills, before the launch."""

    bank: int
    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class MachineCode:
    """The executable code of one kernel.

    Attributes:
        registers: number of registers.
        uniform: registers that hold one word per warp.
        presets: registers that are filled before the first instruction.
        entries: byte address → instruction, for indirect jumps.
        landings: instructions to which jump tables may lead.
        returns: instructions to which returns may lead.
        parameters: places of the kernel's parameters.
        banks: initialised constant banks.
        block, grid, stack: byte offsets of ``blockDim.x``, ``gridDim.x`` and the stack pointer in
            constant bank 0.
        shared_base: offset at which the shared memory of the kernel starts in its window.
        shared_bytes: static shared memory of a block, in bytes.
        local_bytes: stack of a thread, in bytes.
        unset: parts of the constant banks that have no value in the binary.
        names: names of hardware registers and predicates in the listing.
        found: what engines make of the code for any launch.
    """

    instructions: tuple[MachineInstruction, ...]
    registers: int
    uniform: frozenset[int]
    presets: tuple[Preset, ...]
    entries: Mapping[int, int]
    landings: frozenset[int]
    returns: frozenset[int]
    parameters: tuple[ParameterSlot, ...]
    banks: Mapping[int, bytes]
    block: int
    grid: int
    stack: int
    shared_base: int
    shared_bytes: int
    local_bytes: int
    unset: tuple[UnsetConstant, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    found: Memo = field(default_factory=Memo, init=False, repr=False)
