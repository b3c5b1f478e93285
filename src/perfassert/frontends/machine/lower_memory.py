"""Translation of SASS memory instructions to executable operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from perfassert.frontends.machine.barriers import barrier_operands
from perfassert.frontends.machine.bulk_copies import copy_operands
from perfassert.frontends.machine.lowering_step import LoweringStep, Untranslated, Words, require
from perfassert.frontends.machine.matrix import descriptor_operands
from perfassert.frontends.machine.sass import Instruction, Operand
from perfassert.kernel.machine import (
    ADDRESS_SOURCES,
    AtomicTurn,
    Combining,
    Kind,
    MemoryOperand,
    Micro,
    Relation,
    Space,
)
from perfassert.shipped import model_integer

_MATRIX_ROW_BYTES = model_integer("matrix_row_bytes")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32}
_SPACES = {"G": Space.GLOBAL, "S": Space.SHARED, "L": Space.LOCAL}
_COMBINES = {"ADD": Combining.ADD, "MIN": Combining.MIN, "MAX": Combining.MAX,
             "INC": Combining.INCREMENT, "DEC": Combining.DECREMENT, "AND": Combining.AND,
             "OR": Combining.OR, "XOR": Combining.XOR, "EXCH": Combining.EXCHANGE,
             "CAS": Combining.COMPARE_SWAP, "CAST": Combining.COMPARE_SWAP}  # fmt: skip
_KINDS = {"ST": Kind.STORE, "ATOM": Kind.ATOMIC, "RED": Kind.ATOMIC}
_FLOATS = frozenset(("F32", "F16x2", "F64", "BF16_V2", "F16", "F32x2"))


def _space(i: LoweringStep) -> Space:
    """Return the space that the opcode names, such as global for ``LDG``, or else generic."""
    base = i.instruction.base
    if base in ("RED", "REDG"):
        return Space.GLOBAL
    if base in ("LDSM", "STSM"):
        return Space.SHARED
    return _SPACES.get(base[-1] if base[:-1] in ("LD", "ST", "ATOM") else "", Space.GENERIC)


def _bytes(i: LoweringStep) -> int:
    return next((_BYTES[m] for m in i.modifiers if m in _BYTES), 4)


def _address_operands(
    i: LoweringStep, operand: Operand, wide: bool
) -> tuple[tuple[int, ...], int, int]:
    """Return pairs ``a`` and ``b``, offset and scale of the address ``a · scale + b + offset``."""
    lanes = [0, 0]
    warp = [0, 0]
    offset, scale = 0, 1
    for part in operand.parts:
        if part.kind == "number":
            offset += part.value
        elif part.kind == "register" and not part.sign:
            words = i.words_of(part, 2) if part.name not in ("RZ", "URZ") else (0, 0)
            pair = [words[0], words[1] if wide and ".U32" not in part.suffix else 0]
            factor = part.suffix.partition(".X")[2]
            if part.name.startswith("U"):
                warp = pair
            else:
                lanes = pair
                scale = int(factor) if factor.isdecimal() else 1
        else:
            raise Untranslated(operand.text)
    return (*lanes, *warp), offset, scale


def _memory_operands(i: LoweringStep) -> Words[Operand]:
    return Words(o for o in i.all_operands if o.kind == "memory")


def _load(i: LoweringStep) -> None:
    space, size = _space(i), _bytes(i)
    wide = space in (Space.GLOBAL, Space.GENERIC)
    sources, offset, scale = _address_operands(i, _memory_operands(i)[0], wide)
    signed = any(m in ("S8", "S16") for m in i.modifiers)
    memory = MemoryOperand(space, size, offset, scale, signed)
    targets = i.target_words(max(size // 4, 1))
    i.operations.append(Micro(Kind.LOAD, targets, sources, (), memory))


def _store(i: LoweringStep) -> None:
    space, size = _space(i), _bytes(i)
    wide = space in (Space.GLOBAL, Space.GENERIC)
    operand = _memory_operands(i)[0]
    sources, offset, scale = _address_operands(i, operand, wide)
    place = require(p for p, o in enumerate(i.operands) if o is operand) + 1
    data = i.data(place, max(size // 4, 1))
    memory = MemoryOperand(space, size, offset, scale)
    i.operations.append(Micro(Kind.STORE, (), (*sources, *data), (), memory))


def _load_constant(i: LoweringStep) -> None:
    operand = i.operands[0]
    size = _bytes(i)
    words = max(size // 4, 1)
    targets = i.target_words(words)
    if operand.kind != "constant" or operand.bank < 0:
        raise Untranslated(operand.text)
    if not operand.parts and operand.value % 4 == 0 and size >= 4:
        for n, target in enumerate(targets):
            source = i.registers.constant(operand.bank, operand.value + 4 * n)
            i.emit(Kind.MOVE, (target,), (source,))
        return
    signed = any(m in ("S8", "S16") for m in i.modifiers)
    if not operand.parts and operand.value % 4 + size <= 4:
        word = i.registers.constant(operand.bank, operand.value & ~3)
        shift = i.literal(8 * (operand.value % 4))
        part = i.new(Kind.SHIFT, (word, shift, 0), (1, 0, 64, 0, 0))
        i.emit(Kind.EXTEND, targets, (part, i.literal(8 * size)), (int(signed), 0))
        return
    if len(operand.parts) > 1 or any(p.kind != "register" for p in operand.parts):
        raise Untranslated(operand.text)
    index = i.registers.number_of(operand.parts[0].name) if operand.parts else 0
    memory = MemoryOperand(Space.CONSTANT, size, operand.value, 1, signed, operand.bank)
    i.operations.append(Micro(Kind.LOAD, targets, (index, 0, 0, 0), (), memory))


def _atomic(i: LoweringStep) -> None:
    """Translate ``ATOM``, which returns the old value, and ``RED``, which returns nothing."""
    base = i.instruction.base
    space = _space(i)
    combine, exact = _combine(i)
    wide = space in (Space.GLOBAL, Space.GENERIC)
    operand = _memory_operands(i)[0]
    sources, offset, scale = _address_operands(i, operand, wide)
    words = 2 if any(m in ("64", "U64", "S64", "F64") for m in i.modifiers) else 1
    place = require(p for p, o in enumerate(i.operands) if o is operand) + 1
    data: tuple[int, ...]
    if "POPC" in i.modifiers:
        combine, data = Combining.ADD, (i.literal(1),)
    else:
        count = 2 if combine is Combining.COMPARE_SWAP else 1
        data = tuple(w for n in range(count) for w in i.data(place + n, words))
    returned = not base.startswith("RED")
    memory = MemoryOperand(
        space, 4 * words, offset, scale,
        combine=combine if exact else None,
        combine_signed=any(m in ("S32", "S64") for m in i.modifiers),
        returned=returned, merged=not {"POPC", "CAST"}.isdisjoint(i.modifiers),
        turn=AtomicTurn.UNKNOWN if returned else _atomic_turn(i, combine, words),
    )  # fmt: skip
    if "CAST" in i.modifiers:
        old = tuple(i.registers.temporary() for _ in range(words))
        i.operations.append(Micro(Kind.ATOMIC, old, (*sources, *data), (), memory))
        # True or 1 if the value was exchanged: a predicate, or a number in ``words`` registers
        target, *upper = i.predicates or i.target_words(words)
        same = Kind.COMPARE if words == 1 else Kind.COMPARE_WIDE
        i.emit(same, (target,), (*old, *data[:words]), (Relation.EQ, 0))
        for word in upper:
            i.emit(Kind.MOVE, (word,), (0,))
        return
    targets = i.target_words(words) if returned else (-1,) * words
    i.operations.append(Micro(Kind.ATOMIC, targets, (*sources, *data), (), memory))


def _combine(i: LoweringStep) -> tuple[Combining, bool]:
    """Return the operation of an atomic access, and True if the engine can execute it."""
    combine = require(_COMBINES[m] for m in i.modifiers if m in _COMBINES)
    floats = _FLOATS.intersection(i.modifiers)
    if floats == {"F32"} and combine is Combining.ADD:
        return Combining.FLOAT_ADD, True
    return combine, not floats


def _atomic_turn(i: LoweringStep, combine: Combining, words: int) -> AtomicTurn:
    """Return how long an atomic without a result occupies its address, as a class of times.

    An integer increment takes as long as a floating-point addition.
    """
    floats = _FLOATS.intersection(i.modifiers)
    if combine in (Combining.ADD, Combining.FLOAT_ADD):
        if floats:
            return AtomicTurn.UPDATE if floats <= {"F32", "F64"} else AtomicTurn.UNKNOWN
        return AtomicTurn.ADDITION if words == 1 else AtomicTurn.UNKNOWN
    if combine in (Combining.INCREMENT, Combining.DECREMENT) and words == 1:
        return AtomicTurn.UPDATE
    return AtomicTurn.UNKNOWN


def _copy(i: LoweringStep) -> None:
    """Translate ``LDGSTS``, a copy from global to shared memory."""
    target, source = _memory_operands(i)
    size = _bytes(i)
    words = tuple(i.registers.temporary() for _ in range(size // 4))
    origin, offset, scale = _address_operands(i, source, True)
    memory = MemoryOperand(Space.GLOBAL, size, offset, scale, asynchronous=True)
    if any(o.kind == "predicate" and o.name[-1] != "T" for o in i.all_operands):
        raise Untranslated(i.instruction.text)
    i.operations.append(Micro(Kind.LOAD, words, origin, (), memory))
    place, offset, scale = _address_operands(i, target, False)
    memory = MemoryOperand(Space.SHARED, size, offset, scale, asynchronous=True)
    i.operations.append(Micro(Kind.STORE, (), (*place, *words), (), memory))


def _cache_control(i: LoweringStep) -> None:
    """Translate ``CCTL``: a prefetch (``PF1``, ``PF2``) is a load of a byte, others do nothing."""
    if not {"PF1", "PF2"}.isdisjoint(i.modifiers):
        sources, offset, scale = _address_operands(i, _memory_operands(i)[0], True)
        memory = MemoryOperand(Space.GLOBAL, 1, offset, scale)
        i.operations.append(Micro(Kind.LOAD, (i.registers.temporary(),), sources, (), memory))


def _load_matrix(i: LoweringStep) -> None:
    """Translate ``LDSM``, in which each of the first 8, 16 or 32 lanes addresses 16 bytes."""
    sources, offset, scale = _address_operands(i, _memory_operands(i)[0], False)
    count = _matrices(i)
    memory = MemoryOperand(Space.SHARED, _MATRIX_ROW_BYTES, offset, scale)
    targets = i.target_words(count)
    i.operations.append(Micro(Kind.MATRIX_LOAD, targets, sources, (8 * count,), memory))


MEMORY: Mapping[str, Callable[[LoweringStep], None]] = {
    **dict.fromkeys(("LDG", "LDS", "LDL", "LD"), _load),
    **dict.fromkeys(("STG", "STS", "STL", "ST"), _store),
    **dict.fromkeys(("LDC", "ULDC", "LDCU"), _load_constant),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS", "RED", "REDG"), _atomic),
    "CCTL": _cache_control,
    "LDGSTS": _copy,
    "LDSM": _load_matrix,
}


def sleep_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the operand for the duration of a ``NANOSLEEP``."""
    return instruction.operands[-1:] if instruction.base == "NANOSLEEP" else ()


def inputs(i: LoweringStep) -> tuple[Micro, ...]:
    """Return the operands of barriers, bulk copies, descriptors and sleeps, or else the accesses.

    Analyses need their values. For ``LDGSTS``, the access to global memory comes first.
    """
    instruction = i.instruction
    own = (
        *barrier_operands(instruction), *copy_operands(instruction),
        *descriptor_operands(instruction), *sleep_operands(instruction),
    )  # fmt: skip
    if own:
        return tuple(_input(i, operand) for operand in own)
    if instruction.base in (*MEMORY, "STSM") and any(o.kind is Kind.UNKNOWN for o in i.operations):
        return tuple(_untranslated_access(i, operand) for operand in reversed(_memory_operands(i)))
    accesses = (o for o in i.operations if o.memory is not None and o.kind is not Kind.UNKNOWN)
    return tuple(replace(o, targets=(), sources=o.sources[:ADDRESS_SOURCES]) for o in accesses)


def _untranslated_access(i: LoweringStep, operand: Operand) -> Micro:
    """Return the access of an instruction that has no translation."""
    base = i.instruction.base
    space, size = _space(i), _bytes(i)
    detail: tuple[int, ...] = ()
    kind = next((k for start, k in _KINDS.items() if base.startswith(start)), Kind.LOAD)
    if base == "STSM":
        detail, size = (8 * _matrices(i),), _MATRIX_ROW_BYTES
    if base == "LDGSTS":
        first = operand is _memory_operands(i)[0]
        space, kind = (Space.SHARED, Kind.STORE) if first else (Space.GLOBAL, Kind.LOAD)
    try:
        sources, offset, scale = _address_operands(
            i, operand, space in (Space.GLOBAL, Space.GENERIC)
        )
    except Untranslated:
        sources, offset, scale = (_unknown_word(i, operand), 0, 0, 0), 0, 1
    memory = MemoryOperand(space, size, offset, scale, returned=not base.startswith("RED"))
    return Micro(kind, (), sources, detail, memory)


def _input(i: LoweringStep, operand: Operand) -> Micro:
    """Return an operand's word, or its address in shared memory as a load of no bytes."""
    try:
        if operand.kind != "memory":
            i.operands = Words((operand,))
            return Micro(Kind.MOVE, (), (i.word(0),))
        sources, offset, scale = _address_operands(i, operand, False)
        return Micro(Kind.LOAD, (), sources, (), MemoryOperand(Space.SHARED, 0, offset, scale))
    except Untranslated:
        return Micro(Kind.MOVE, (), (_unknown_word(i, operand),))


def _unknown_word(i: LoweringStep, operand: Operand) -> int:
    """Return a register with unknown content."""
    return i.registers.special(f"operand {operand.text}")


def _matrices(i: LoweringStep) -> int:
    return int(i.modifiers[-1]) if i.modifiers[-1] in ("2", "4") else 1
