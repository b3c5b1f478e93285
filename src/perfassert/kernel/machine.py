"""Machine code as small executable operations, with no opcode of any instruction set left in it.

A front end writes it, ``engines/execution`` runs it. A register holds a 32-bit word per lane;
predicates are words of 0 or 1, and so are literals, constants and special registers, which are
registers that are filled before the first instruction (:class:`Preset`). Register 0 is always 0.
A uniform register has the same word in all lanes of a warp.

What :class:`Kind` says an operation computes is the contract between both sides. ``targets`` and
``sources`` are register numbers, ``-1`` as a target discards. An operation that cannot be
expressed is :attr:`Kind.UNKNOWN`: its targets are unknown from there on, never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, unique

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
    """What a micro-operation does; ``detail`` in parentheses.

    ``a b c`` are its sources in order, a pair is ``low, high``. Floats are IEEE, rounded to
    nearest unless the detail names another :class:`Rounding`.
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
    """Of comparisons."""

    LT, EQ, LE, GT, NE, GE, NEVER, ALWAYS, ORDERED, UNORDERED = range(10)


class Rounding(IntEnum):
    """To nearest even, down, up, towards zero."""

    NEAREST, DOWN, UP, ZERO = range(4)


class Function(IntEnum):
    """Approximate functions of the hardware, here correctly rounded."""

    COS, SIN, EX2, LG2, RCP, RSQ, SQRT, TANH, RCP_HIGH, RSQ_HIGH = range(10)


class Voting(IntEnum):
    """What a vote's predicate says."""

    ALL, ANY, EQUAL = range(3)


class Shuffling(IntEnum):
    """Where a shuffle's value comes from."""

    INDEX, UP, DOWN, BUTTERFLY = range(4)


class Combining(IntEnum):
    """What an atomic or a reduction makes of two values; float sums are of ``FLOAT_ADD``."""

    ADD, MIN, MAX, INCREMENT, DECREMENT, AND, OR, XOR, EXCHANGE, COMPARE_SWAP, FLOAT_ADD = range(11)


class AtomicTurn(Enum):
    """Kind of atomic by how long it occupies one address of global memory: what measurements
    distinguish."""

    ADDITION = "an integer addition"
    UPDATE = "a floating-point addition"
    UNKNOWN = ""


class Space(IntEnum):
    """Where an address lies."""

    GLOBAL, SHARED, LOCAL, GENERIC, CONSTANT = range(5)


@dataclass(frozen=True, slots=True)
class MemoryOperand:
    """What a memory operation touches: ``bytes`` per lane at ``a · scale + b + offset``.

    Its first sources are the pairs ``a`` and ``b`` (for all but global and generic addresses only
    the low words count), then the data. ``signed``: narrow loads are sign-extended. ``bank`` of
    constants. ``combine``: of atomics, None for one that no executor knows; ``returned``: they give
    back what they read; ``merged``: lanes on one address are one operation, that counts them or
    that one of them carries out. ``turn``: of atomics in global memory, how long each keeps its
    address.
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
    """One micro-operation; see :class:`Kind`."""

    kind: Kind
    targets: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    detail: tuple[int, ...] = ()
    memory: MemoryOperand | None = None


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """Micro-operations under one guard: register ``guard``, lanes where it equals ``holds``.

    ``address``: as the program's instructions have it. ``inputs``: what analyses ask for: words, as
    moves without targets, and addresses, as memory operations without targets and data; one of no
    bytes is no access. ``reads``: registers that it needs besides those of its operations.
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
        """Registers that it may write, in order."""
        return tuple(dict.fromkeys(t for o in self.operations for t in o.targets if t > 0))

    def read_registers(self) -> tuple[int, ...]:
        """Registers of which it needs the value that they have before it, the guard first."""
        registers = dict.fromkeys((self.guard,) if self.guard > 0 else ())
        written: set[int] = set()
        for operation in self.operations:
            registers.update((s, None) for s in operation.sources if s not in written)
            written.update(operation.targets)
        for operation in self.inputs:
            registers.update((s, None) for s in operation.sources if s not in written)
        return tuple(r for r in dict.fromkeys((*registers, *self.reads)) if r > 0)


class PresetSource(Enum):
    """What fills a register before the first instruction."""

    LITERAL = "literal"
    CONSTANT = "constant"
    SPECIAL = "special"
    ORDINARY = "ordinary"


@dataclass(frozen=True, slots=True)
class Preset:
    """A register filled at the start.

    ``value``: the literal, or the byte offset in constant bank ``bank``; ``name``: of a special
    one (``threadIdx.x``, ``laneid``, ``activemask``, …), whose value the engine knows or doesn't.
    An ordinary number is a ``"float"``, or the word ``bank`` of a ``"double"``, neither large nor
    small, another one in every thread and for every ``value``; not all are positive if ``signed``.
    """

    register: int
    source: PresetSource
    value: int = 0
    bank: int = 0
    name: str = ""
    signed: bool = True


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """Where a parameter lies in constant bank 0, in bytes."""

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
    """A kernel that can be executed.

    ``registers``: how many there are, ``uniform``: which hold one word per warp, ``names``: what
    the listing calls those that are registers and predicates of the hardware; ``entries``:
    byte address → instruction, for indirect jumps; ``landings``, ``returns``: the instructions
    that tables of jumps and returns may lead to; ``banks``: initialised constant banks, ``unset``:
    what of them has no value in the binary; ``block``, ``grid``, ``stack``: offsets of
    ``blockDim.x``, ``gridDim.x`` and of the stack pointer in bank 0; ``shared_base``: where the
    block's own shared memory starts in its window.
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
