"""Translation of SASS floating-point instructions and conversions to executable operations.

Approximate functions (``MUFU``) are assumed to be correctly rounded. On hardware, their last bits
may differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.frontends.machine.lower_integers import (
    join_predicates,
    write_joined_predicates,
)
from perfassert.frontends.machine.lowering_step import (
    Known,
    LoweringStep,
    Translation,
    Untranslated,
    knows,
    part_of_word,
)
from perfassert.kernel.machine import Function, Kind, Relation, Rounding

_ROUNDINGS = {"RM": Rounding.DOWN, "RP": Rounding.UP, "RZ": Rounding.ZERO,
              "FLOOR": Rounding.DOWN, "CEIL": Rounding.UP, "TRUNC": Rounding.ZERO}  # fmt: skip
_RELATIONS = Known({"F": Relation.NEVER, "LT": Relation.LT, "EQ": Relation.EQ, "LE": Relation.LE,
              "GT": Relation.GT, "NE": Relation.NE, "GE": Relation.GE, "NUM": Relation.ORDERED,
              "NAN": Relation.UNORDERED, "T": Relation.ALWAYS})  # fmt: skip
_EXTREMES = {"MAX": Relation.GT, "MIN": Relation.LT}
_FIRST_TABLE = 0b11111000  # truth table of a or (b and c): its bit 4a + 2b + c is the result
_NONE_TABLE = 0b00100010  # truth table of c and not b
_COMPARING = "F LT EQ LE GT NE GE NUM NAN T LTU EQU LEU GTU NEU GEU AND OR XOR"
_FUNCTIONS = Known({f.name: f for f in Function} | {
    "RCP64H": Function.RCP_HIGH, "RSQ64H": Function.RSQ_HIGH,
})  # fmt: skip
_INTEGERS = {f"{sign}{bits}": (bits, sign == "S") for sign in "US" for bits in (8, 16, 32, 64)}


def _style(i: LoweringStep) -> tuple[int, int, int]:
    rounding = next((_ROUNDINGS[m] for m in i.modifiers if m in _ROUNDINGS), Rounding.NEAREST)
    return rounding, int("FTZ" in i.modifiers), int("SAT" in i.modifiers)


def _arithmetic(kind: Kind, count: int) -> Translation:
    @knows("RM RP RZ FTZ SAT")
    def translation(i: LoweringStep) -> None:
        if len(i.operands) != count:
            raise Untranslated(i.instruction.text)
        i.emit(kind, (i.target,), tuple(i.single(p) for p in range(count)), _style(i))

    return translation


def _double(kind: Kind, count: int) -> Translation:
    @knows("RM RP RZ")
    def translation(i: LoweringStep) -> None:
        sources = tuple(word for p in range(count) for word in i.double(p))
        i.emit(kind, i.target_pair, sources, _style(i)[:1])

    return translation


def _comparison(i: LoweringStep) -> tuple[int, int]:
    name = i.modifiers[0]
    unordered = name.endswith("U") and name[:-1] in _RELATIONS
    relation = _RELATIONS[name[:-1] if unordered else name]
    return relation, int(unordered)


@knows(f"{_COMPARING} FTZ")
def _fsetp(i: LoweringStep) -> None:
    result = i.registers.temporary()
    detail = (*_comparison(i), int("FTZ" in i.modifiers))
    i.emit(Kind.FLOAT_COMPARE, (result,), (i.single(0), i.single(1)), detail)
    join_predicates(i, result, 2)


@knows(f"{_COMPARING} MAX MIN")
def _dsetp(i: LoweringStep) -> None:
    if i.modifiers[0] in _EXTREMES:
        _choose_double(i, _EXTREMES[i.modifiers[0]])
        return
    result = i.registers.temporary()
    i.emit(Kind.DOUBLE_COMPARE, (result,), (*i.double(0), *i.double(1)), _comparison(i))
    join_predicates(i, result, 2)


def _choose_double(i: LoweringStep, relation: Relation) -> None:
    """Translate ``DSETP.MAX P0, P1, A, B``, which ``fmax`` uses to select its result.

    P0 is true if the result is A: A is larger (``MIN``: smaller), or only B is NaN. P1 is true if
    both are NaN.
    """
    one, two = i.double(0), i.double(1)
    ahead = i.new(Kind.DOUBLE_COMPARE, (*one, *two), (relation, 0))
    number = i.new(Kind.DOUBLE_COMPARE, (*one, *one), (Relation.ORDERED, 0))
    alone = i.new(Kind.DOUBLE_COMPARE, (*two, *two), (Relation.UNORDERED, 0))
    inputs = ahead, number, alone
    results = (
        i.new(Kind.DECIDE, inputs, (_FIRST_TABLE,)),
        i.new(Kind.DECIDE, inputs, (_NONE_TABLE,)),
    )
    write_joined_predicates(i, results, 2)


@knows("")
def _fsel(i: LoweringStep) -> None:
    i.emit(Kind.SELECT, (i.target,), (i.single(0), i.single(1), i.predicate(2)))


@knows("FTZ")
def _fmnmx(i: LoweringStep) -> None:
    if len(i.operands) != 3:
        raise Untranslated(i.instruction.text)
    sources = (i.single(0), i.single(1), i.predicate(2))
    i.emit(Kind.FLOAT_MINIMUM, (i.target,), sources, (int("FTZ" in i.modifiers),))


def _mufu(i: LoweringStep) -> None:
    function = _FUNCTIONS[".".join(i.modifiers)]
    i.emit(Kind.FLOAT_FUNCTION, (i.target,), (i.single(0),), (function,))


@knows("DIVIDE")
def _fchk(i: LoweringStep) -> None:
    i.operands = i.all_operands  # P0, R1, R2: R1 is a source, not a second target
    i.emit(Kind.FLOAT_CHECK, (i.result(i.operands[0]),), (i.single(1), i.single(2)))


@knows(f"{' '.join(_INTEGERS)} F64 F32 RM RP RZ")
def _i2f(i: LoweringStep) -> None:
    bits, signed = next((_INTEGERS[m] for m in i.modifiers if m in _INTEGERS), (32, True))
    if i.operands[0].sign:
        raise Untranslated(i.instruction.text)
    source = i.pair(0) if bits == 64 else (_narrow(i, bits, signed), 0)
    double = "F64" in i.modifiers
    targets = i.target_pair if double else (i.target,)
    detail = (max(bits, 32), int(signed), 64 if double else 32, _style(i)[0])
    i.emit(Kind.FROM_INTEGER, targets, source, detail)


def _narrow(i: LoweringStep, bits: int, signed: bool) -> int:
    """Return a byte, half or word of the first operand as a 32-bit integer."""
    register, suffix = i.plain(0), i.operands[0].suffix
    if suffix.startswith((".B", ".H")):
        shift = part_of_word(suffix)
        register = i.new(Kind.SHIFT, (register, i.literal(shift), 0), (1, 0, 64, 0, 0))
    if bits == 32:
        return register
    return i.new(Kind.EXTEND, (register, i.literal(bits)), (int(signed), 0))


@knows(f"{' '.join(_INTEGERS)} F64 F32 TRUNC FLOOR CEIL FTZ NTZ")
def _f2i(i: LoweringStep) -> None:
    bits, signed = next((_INTEGERS[m] for m in i.modifiers if m in _INTEGERS), (32, True))
    double = "F64" in i.modifiers
    source = i.double(0) if double else (i.single(0), 0)
    rounding, flush, _ = _style(i)
    targets = i.target_pair if bits == 64 else (i.target,)
    i.emit(
        Kind.TO_INTEGER, targets, source, (64 if double else 32, bits, int(signed), rounding, flush)
    )  # fmt: skip


@knows("F64 F32 TRUNC FLOOR CEIL FTZ")
def _frnd(i: LoweringStep) -> None:
    if "F64" in i.modifiers:
        i.emit(Kind.DOUBLE_ROUND, i.target_pair, i.double(0), _style(i)[:1])
    else:
        i.emit(Kind.ROUND, (i.target,), (i.single(0),), _style(i)[:2])


@knows("F32 F64 RM RP RZ FTZ")
def _f2f(i: LoweringStep) -> None:
    kinds = [m for m in i.modifiers if m in ("F32", "F64")]
    if kinds == ["F32", "F64"]:
        i.emit(Kind.NARROW, (i.target,), i.double(0), _style(i)[:1])
    elif kinds == ["F64", "F32"]:
        i.emit(Kind.WIDEN, i.target_pair, (i.single(0),))
    else:
        raise Untranslated(i.instruction.text)


@knows("F32")
def _hadd2(i: LoweringStep) -> None:
    """Translate ``HADD2.F32 R, -RZ, R4.H0_H0``, which converts a half to a float."""
    zeros = [p for p, o in enumerate(i.operands) if o.name == "RZ"]
    if "F32" not in i.modifiers or len(i.operands) != 2 or len(zeros) != 1:
        raise Untranslated(i.instruction.text)
    place = 1 - zeros[0]
    operand = i.operands[place]
    if operand.sign or "|" in operand.text:
        raise Untranslated(i.instruction.text)
    i.emit(Kind.HALF_TO_FLOAT, (i.target,), (i.plain(place),), (int("H1" in operand.suffix),))


_BOTH: Mapping[str, Translation] = {
    "FADD": _arithmetic(Kind.FLOAT_ADD, 2), "FMUL": _arithmetic(Kind.FLOAT_MULTIPLY, 2),
    "FFMA": _arithmetic(Kind.FLOAT_FUSED, 3), "FSETP": _fsetp, "FSEL": _fsel, "FMNMX": _fmnmx,
    "I2F": _i2f, "F2I": _f2i, "I2FP": _i2f, "FRND": _frnd,
}  # fmt: skip
FLOAT: Mapping[str, Translation] = {
    **_BOTH,
    **{f"U{name}": translation for name, translation in _BOTH.items()},
    "DADD": _double(Kind.DOUBLE_ADD, 2), "DMUL": _double(Kind.DOUBLE_MULTIPLY, 2),
    "DFMA": _double(Kind.DOUBLE_FUSED, 3), "DSETP": _dsetp, "MUFU": _mufu, "FCHK": _fchk,
    "F2F": _f2f, "HADD2": _hadd2,
}  # fmt: skip
