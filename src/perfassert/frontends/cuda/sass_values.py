"""What SASS instructions compute, as far as addresses, guards and trip counts need it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from perfassert.frontends.cuda.sass import Operand
from perfassert.frontends.cuda.sass_logic import LOGIC
from perfassert.frontends.cuda.sass_step import Step, signed
from perfassert.kernel.symbols import Symbols, Value


def _mov(i: Step) -> Mapping[str, Value]:
    return i.result(i[0])


def _load_constant(i: Step) -> Mapping[str, Value]:
    """``LDC``, ``ULDC``: one to four words of a constant bank."""
    operand = i.operands[0]
    words = 2 if "64" in i.modifiers else 4 if "128" in i.modifiers else 1
    prefix = i.target.rstrip("0123456789")
    if i.target[-1] == "Z":
        return {}
    first = int(i.target[len(prefix) :])
    values = {}
    for w in range(words):
        shifted = Operand(
            operand.kind, operand.name, operand.sign, operand.suffix, operand.bank,
            operand.value + 4 * w, operand.parts, operand.text,
        )  # fmt: skip
        values[f"{prefix}{first + w}"] = i.code.constant(shifted)
    return values


def _imad(i: Step) -> Mapping[str, Value]:
    s = i.s
    if "X" in i.modifiers:
        return {}
    if "MOV" in i.modifiers:
        return i.result(i[2])
    product = s.mul(i[0], i[1])
    low = s.add(product, i[2])
    if "HI" not in i.modifiers and "WIDE" not in i.modifiers:
        return i.result(low)
    divided = _by_inverse(s, i[0], i[1]) if "HI" in i.modifiers else None
    if divided is not None:
        return i.result(divided)
    if "U32" in i.modifiers:
        product = s.mul(s.unsigned(i[0]), s.unsigned(i[1]))
    high = s.add(i.high(2), s.div(s.add(product, i[2]), s.number(2**32)))
    if "HI" in i.modifiers:
        return i.result(high)
    if i.target[-1] == "Z":
        return {}
    second = i.following(i.target)
    counted = "U32" in i.modifiers and i.high(2) is s.zero and s.nonnegative(i[2])
    return {i.target: low, second: high} if counted or i[2] is s.zero else {i.target: low}


# An integer division is x · ⌊2³² / d⌋ ≫ 32, corrected twice; the inverse is 1 / d as a float,
# rounded down. Only what a division does with it is given a meaning.


def _to_float(i: Step) -> Mapping[str, Value]:
    return i.result(i.s.call("float", i[0]) if "RP" in i.modifiers else None)


def _reciprocal(i: Step) -> Mapping[str, Value]:
    atom = i.s.lone_atom(i[0])
    if "RCP" not in i.modifiers or atom is None or atom.function != "float":
        return {}
    return i.result(i.s.call("reciprocal", *atom.arguments))


_ROUND_DOWN = 0xFFFFFFE
"""Added to the bits of the reciprocal, for a factor of 2³² a little too small."""


def _from_float(i: Step) -> Mapping[str, Value]:
    atom = i.s.lone_atom(i.s.add(i[0], i.s.number(-_ROUND_DOWN)))
    if atom is None or atom.function != "reciprocal":
        return {}
    return i.result(i.s.call("inverse", *atom.arguments))


def _by_inverse(s: Symbols, left: Value, right: Value) -> Value | None:
    """The high word of a product with the inverse of ``d``: the quotient, or a better inverse."""
    for inverse, other in ((left, right), (right, left)):
        atom = s.lone_atom(inverse)
        if atom is None or atom.function != "inverse":
            continue
        divisor = atom.arguments[0]
        if other is s.scale(s.mul(inverse, divisor), -1):
            return inverse
        return s.div(other, divisor)
    return None


def _iadd3(i: Step) -> Mapping[str, Value]:
    if "X" in i.modifiers:
        return {}
    return i.result(i.s.add(i[0], i[1], i[2]))


def _iadd(i: Step) -> Mapping[str, Value]:
    return {} if "X" in i.modifiers else i.result(i.s.add(i[0], i[1]))


def _lea(i: Step) -> Mapping[str, Value]:
    s = i.s
    if "X" in i.modifiers:
        return {}
    if "HI" in i.modifiers:
        if "SX32" in i.modifiers:
            amount = i.operands[2].value
            return i.result(s.add(s.shift_right(i[0], s.number(32 - amount)), i[1]))
        amount = i.operands[3].value
        if i[2] is not s.zero:
            return {}
        return i.result(s.add(s.logical_right(i[0], 32 - amount), i[1]))
    amount = i.operands[2].value if len(i.operands) > 2 else 0
    return i.result(s.add(s.scale(i[0], 1 << (amount & 31)), i[1]))


def _sel(i: Step) -> Mapping[str, Value]:
    return i.result(i.s.select(i[2], i[0], i[1]))


def _minmax(i: Step) -> Mapping[str, Value]:
    least = i[2].constant
    if least is None:
        return {}
    return i.result((i.s.minimum if least else i.s.maximum)(i[0], i[1]))


def _add_minmax(i: Step) -> Mapping[str, Value]:
    """``VIADDMNMX``: the smaller or larger one of a sum and a third operand."""
    least = i[3].constant
    if least is None:
        return {}
    return i.result((i.s.minimum if least else i.s.maximum)(i.s.add(i[0], i[1]), i[2]))


def _iabs(i: Step) -> Mapping[str, Value]:
    return i.result(i.s.maximum(i[0], i.s.scale(i[0], -1)))


def _s2r(i: Step) -> Mapping[str, Value]:
    value = i[0]
    if i.instruction.base == "CS2R" and i.target[-1] != "Z":
        return {i.target: value, i.following(i.target): i.s.zero}
    return i.result(value)


def _hfma2(i: Step) -> Mapping[str, Value]:
    """``HFMA2.MMA R, -RZ, RZ, a, b`` builds an integer out of two halves."""
    registers = [o for o in i.operands if o.kind == "register"]
    if len(i.operands) != 4 or any(o.name != "RZ" for o in registers) or len(registers) != 2:
        return {}
    halves = [_half(o) for o in i.operands[2:]]
    word = halves[0] << 16 | halves[1]
    return i.result(i.s.number(signed(word)))


def _half(operand: Operand) -> int:
    text = operand.text.replace("+INF", "inf").replace("-INF", "-inf").replace("QNAN", "nan")
    value = float(operand.value) if operand.kind == "number" else float(text)
    packed: int = struct.unpack("<H", struct.pack("<e", value))[0]
    return packed


def _elect(i: Step) -> Mapping[str, Value]:
    """The lowest lane of those that are active, which are taken to be all."""
    first = i.s.compare("==", i.s.variable("laneid"), i.s.zero)
    return {p: first for p in i.predicates if p[-1] != "T"}


def _voted(i: Step) -> Mapping[str, Value]:
    """Whether all lanes, or any, say so: in each lane what it says itself, as a uniform instruction
    that not all exclude, or any one demands, is executed by warps with such a lane."""
    if i.target or len(i.predicates) != 1 or not i.operands:
        return {}
    return {i.predicates[0]: i[0]}


def _granted(i: Step) -> Mapping[str, Value]:
    """A wait that is over, registers that were granted: who asks in a loop asks once, and waits."""
    return {p: i.s.one for p in i.predicates if p[-1] != "T"}


SEMANTICS: Mapping[str, Callable[[Step], Mapping[str, Value]]] = {
    **LOGIC,
    "VOTEU": _voted, "ELECT": _elect, "SYNCS": _granted, "USETMAXREG": _granted,
    "UTCATOMSWS": _granted,
    "I2F": _to_float, "UI2F": _to_float, "MUFU": _reciprocal, "F2I": _from_float,
    "MOV": _mov, "UMOV": _mov, "MOV32I": _mov, "R2UR": _mov, "I2I": _mov, "I2IP": _mov,
    "LDC": _load_constant, "ULDC": _load_constant, "LDCU": _load_constant,
    "IMAD": _imad, "UIMAD": _imad, "IADD3": _iadd3, "UIADD3": _iadd3, "IADD": _iadd,
    "VIADD": _iadd, "UIADD": _iadd, "LEA": _lea, "ULEA": _lea,
    "SEL": _sel, "USEL": _sel, "IMNMX": _minmax, "VIMNMX": _minmax,
    "UIMNMX": _minmax, "UVIMNMX": _minmax, "VIADDMNMX": _add_minmax, "UVIADD": _iadd,
    "IABS": _iabs, "S2R": _s2r, "S2UR": _s2r, "CS2R": _s2r, "HFMA2": _hfma2,
}  # fmt: skip
