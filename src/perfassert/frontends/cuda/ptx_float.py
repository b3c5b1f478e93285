"""Floating-point PTX instructions and conversions as executable operations.

Approximate functions and divisions are taken to be correctly rounded, which the hardware's are not
in the last bit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from perfassert.frontends.cuda.ptx_integer import RELATIONS, write_predicates
from perfassert.frontends.cuda.ptx_step import SIGN, PtxStep, Words
from perfassert.frontends.cuda.semantics_step import XOR
from perfassert.kernel.machine import Function, Kind, Relation, Rounding

FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32", "f32x2"))
_ROUNDINGS = {
    "rn": Rounding.NEAREST, "rz": Rounding.ZERO, "rm": Rounding.DOWN, "rp": Rounding.UP,
    "rni": Rounding.NEAREST, "rzi": Rounding.ZERO, "rmi": Rounding.DOWN, "rpi": Rounding.UP,
}  # fmt: skip
_FUNCTIONS = {"rcp": Function.RCP, "rsqrt": Function.RSQ, "sqrt": Function.SQRT,
              "ex2": Function.EX2, "lg2": Function.LG2, "sin": Function.SIN,
              "cos": Function.COS, "tanh": Function.TANH}  # fmt: skip
_TURN = struct.unpack("<I", struct.pack("<f", 0.15915494309189535))[0]  # 1 / 2π: of one turn
_ONE = 0x3FF0000000000000
_HALF_TYPES = ("f16", "bf16")


def _rounding(i: PtxStep) -> Rounding:
    return next((_ROUNDINGS[p] for p in i.parts if p in _ROUNDINGS), Rounding.NEAREST)


def _style(i: PtxStep) -> Words:
    return (_rounding(i), int(i.has("ftz")), int(i.has("sat")))


def _opposite(i: PtxStep, words: Words) -> Words:
    return (*words[:-1], i.new(Kind.LOGIC, (words[-1], i.literal(SIGN), 0), (XOR,)))


def _size(i: PtxStep, words: Words) -> Words:
    return (*words[:-1], i.masked(words[-1], SIGN - 1))


def _checked(i: PtxStep) -> None:
    """Single and double precision, rounded as the engine can."""
    if i.type not in ("f32", "f64") or (i.type == "f64" and _rounding(i) is not Rounding.NEAREST):
        raise i.refuse()


def _arithmetic(single: Kind, double: Kind, count: int) -> Callable[[PtxStep], None]:
    def translation(i: PtxStep) -> None:
        _checked(i)
        operands = [i.words(p + 1) for p in range(count)]
        if i.parts[0] == "sub":
            operands[1] = _opposite(i, operands[1])
        sources = tuple(word for operand in operands for word in operand)
        if i.type == "f64":
            i.write(i.several(2, double, sources))
        else:
            i.write((i.new(single, sources, _style(i)),))

    return translation


def _signed(change: Callable[[PtxStep, Words], Words]) -> Callable[[PtxStep], None]:
    def translation(i: PtxStep) -> None:
        _checked(i)
        words = change(i, i.words(1))
        i.write(_flushed(i, words) if i.has("ftz") else words)

    return translation


def _flushed(i: PtxStep, words: Words) -> Words:
    """By a product with 1."""
    one = i.literal(0x3F800000)
    return (i.new(Kind.FLOAT_MULTIPLY, (words[0], one), (Rounding.NEAREST, 1, 0)),)


def _copied_sign(i: PtxStep) -> None:
    _checked(i)
    sign, size = i.words(1), i.words(2)
    table = 0xE4  # a where c, else b
    top = i.new(Kind.LOGIC, (sign[-1], size[-1], i.literal(SIGN)), (table,))
    i.write((*size[:-1], top))


def _extreme(i: PtxStep) -> None:
    _checked(i)
    if i.has("NaN", "xorsign") or len(i.operands) != 3:
        raise i.refuse()
    a, b = i.words(1), i.words(2)
    least = i.parts[0] == "min"
    if i.type == "f32":
        sources = (*a, *b, i.literal(int(least)))
        i.write((i.new(Kind.FLOAT_MINIMUM, sources, (int(i.has("ftz")),)),))
        return
    relation = Relation.LT if least else Relation.GT
    before = i.new(Kind.DOUBLE_COMPARE, (*a, *b), (relation, 0))
    none = i.new(Kind.DOUBLE_COMPARE, (*b, *b), (Relation.UNORDERED, 0))
    i.write(i.chosen(a, i.chosen(a, b, none), before))


def _wide(i: PtxStep, place: int) -> Words:
    """An operand in double precision."""
    words = i.words(place)
    if i.type == "f64":
        return words
    return i.several(2, Kind.WIDEN, _flushed(i, words) if i.has("ftz") else words)


def _quotient(i: PtxStep) -> None:
    """Double precision holds enough for the quotient of singles to be rounded once more."""
    _checked(i)
    _finish(i, i.several(2, Kind.DOUBLE_DIVIDE, (*_wide(i, 1), *_wide(i, 2))))


def _finish(i: PtxStep, double: Words) -> None:
    if _rounding(i) is not Rounding.NEAREST:
        raise i.refuse()
    if i.type == "f64":
        i.write(double)
        return
    single = (i.new(Kind.NARROW, double, (Rounding.NEAREST,)),)
    i.write(_flushed(i, single) if i.has("ftz") else single)


def _root(i: PtxStep) -> None:
    _checked(i)
    _finish(i, i.several(2, Kind.DOUBLE_ROOT, _wide(i, 1)))


def _reciprocal(i: PtxStep) -> None:
    _checked(i)
    if i.has("approx") and i.type == "f32":
        _function(i)
        return
    one = (i.literal(_ONE), i.literal(_ONE >> 32))
    _finish(i, i.several(2, Kind.DOUBLE_DIVIDE, (*one, *_wide(i, 1))))


def _function(i: PtxStep) -> None:
    if i.type != "f32":
        raise i.refuse()
    word = i.word(1)
    if i.parts[0] in ("sin", "cos"):
        word = i.new(Kind.FLOAT_MULTIPLY, (word, i.literal(_TURN)), (Rounding.NEAREST, 0, 0))
    i.write((i.new(Kind.FLOAT_FUNCTION, (word,), (_FUNCTIONS[i.parts[0]],)),))


def _setp(i: PtxStep) -> None:
    write_predicates(i, _compared(i, i.parts[1]))


def _set(i: PtxStep) -> None:
    target = i.parts[-2]
    if len(i.operands) != 3 or target not in ("u32", "s32", "f32"):
        raise i.refuse()
    one = i.literal(0x3F800000 if target == "f32" else -1)
    i.write(i.chosen((one,), (0,), _compared(i, i.parts[1])), target)


def _compared(i: PtxStep, name: str) -> int:
    if i.type not in ("f32", "f64"):
        raise i.refuse()
    relation, unordered = _relation(name)
    sources = (*i.words(1), *i.words(2))
    if i.type == "f64":
        return i.new(Kind.DOUBLE_COMPARE, sources, (relation, unordered))
    return i.new(Kind.FLOAT_COMPARE, sources, (relation, unordered, int(i.has("ftz"))))


def _relation(name: str) -> tuple[Relation, int]:
    """``lt``, and ``ltu`` where it also holds if one is not a number."""
    if name in ("num", "nan"):
        return (Relation.ORDERED if name == "num" else Relation.UNORDERED), 0
    return (RELATIONS[name], 0) if name in RELATIONS else (RELATIONS[name[:-1]], 1)


def _slct(i: PtxStep) -> None:
    kind = i.parts[-2]
    ge = i.new(Kind.FLOAT_COMPARE, (i.word(3), 0), (Relation.GE, 0, int(i.has("ftz"))))
    i.write(i.chosen(i.words(1, kind), i.words(2, kind), ge), kind)


def _test(i: PtxStep) -> None:
    _checked(i)
    if i.type != "f32" or i.parts[1] not in ("finite", "infinite", "number", "notanumber"):
        raise i.refuse()
    size = _size(i, i.words(1))[0]
    infinity = i.literal(0x7F800000)
    relation = {"finite": Relation.LT, "infinite": Relation.EQ, "number": Relation.LE,
                "notanumber": Relation.GT}[i.parts[1]]  # fmt: skip
    i.write((i.new(Kind.COMPARE, (size, infinity), (relation, 0)),), "pred")


def converted(i: PtxStep) -> None:
    """``cvt`` with a float at either end, or between integers."""
    target, source = i.parts[-2:]
    if source in FLOATS:
        _from_float(i, target, source)
    elif target in FLOATS:
        _from_integer(i, target, source)
    else:
        _between_integers(i, target, source)


def _between_integers(i: PtxStep, target: str, source: str) -> None:
    if i.has("sat", "pack"):
        raise i.refuse()
    words = i.words(1, source)
    bits, wanted = i.bits, int(target[1:])
    if wanted < bits and wanted < 32:
        word = i.new(Kind.EXTEND, (words[0], i.literal(wanted)), (int(target[0] == "s"), 0))
        i.write((word,), target)
    elif wanted < bits:
        i.write(words[:1], target)
    else:  # extended by the sign of what is converted
        i.write(words, f"{source[0]}{wanted}")


def _from_integer(i: PtxStep, target: str, source: str) -> None:
    if target not in ("f32", "f64") or i.has("sat"):
        raise i.refuse()
    words = (*i.words(1, source), 0)[:2]
    double = target == "f64"
    detail = (64 if i.bits == 64 else 32, int(source[0] == "s"), 64 if double else 32, _rounding(i))
    if double and i.bits == 64 and detail[3] != Rounding.NEAREST:
        raise i.refuse()
    i.write(i.several(2 if double else 1, Kind.FROM_INTEGER, words, detail), target)


def _from_float(i: PtxStep, target: str, source: str) -> None:
    if source in _HALF_TYPES:
        _from_half(i, target, source)
    elif source not in ("f32", "f64"):
        raise i.refuse()
    elif target in ("f32", "f64"):
        _between_floats(i, target, source)
    elif target in FLOATS:
        raise i.refuse()
    else:
        bits, signed = int(target[1:]), int(target[0] == "s")
        if bits < 32:
            raise i.refuse()
        words = (*i.words(1, source), 0)[:2]
        detail = (64 if source == "f64" else 32, bits, signed, _rounding(i), int(i.has("ftz")))
        i.write(i.several(bits // 32, Kind.TO_INTEGER, words, detail), target)


def _from_half(i: PtxStep, target: str, source: str) -> None:
    if target != "f32" or i.has("sat"):
        raise i.refuse()
    word = i.word(1, "b16")
    if source == "bf16":
        i.write(i.left((word,), i.literal(16)), target)
    else:
        i.write((i.new(Kind.HALF_TO_FLOAT, (word,), (0,)),), target)


def _between_floats(i: PtxStep, target: str, source: str) -> None:
    whole = i.has("rni", "rzi", "rmi", "rpi")
    words = i.words(1, source)
    if i.has("sat") or (whole and source == "f64"):
        raise i.refuse()
    if whole:
        i.write((i.new(Kind.ROUND, words, _style(i)[:2]),), target)
    elif source == target:
        i.write(_flushed(i, words) if i.has("ftz") else words, target)
    elif target == "f64":
        i.write(i.several(2, Kind.WIDEN, words), target)
    else:
        single = (i.new(Kind.NARROW, words, (_rounding(i),)),)
        i.write(_flushed(i, single) if i.has("ftz") else single, target)


_FUSED = _arithmetic(Kind.FLOAT_FUSED, Kind.DOUBLE_FUSED, 3)
_SUM = _arithmetic(Kind.FLOAT_ADD, Kind.DOUBLE_ADD, 2)
FLOAT: Mapping[str, Callable[[PtxStep], None]] = {
    "add": _SUM, "sub": _SUM, "mul": _arithmetic(Kind.FLOAT_MULTIPLY, Kind.DOUBLE_MULTIPLY, 2),
    "fma": _FUSED, "mad": _FUSED, "neg": _signed(_opposite), "abs": _signed(_size),
    "copysign": _copied_sign, "min": _extreme, "max": _extreme, "div": _quotient, "sqrt": _root,
    "rcp": _reciprocal, "rsqrt": _function, "ex2": _function, "lg2": _function, "sin": _function,
    "cos": _function, "tanh": _function, "setp": _setp, "set": _set, "slct": _slct,
    "testp": _test,
}  # fmt: skip
