"""What SASS instructions on bits and predicates compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perfassert.frontends.cuda.sass_step import Step
from perfassert.kernel.program import CLUSTER
from perfassert.kernel.symbols import Symbols, Value


def _lop3(i: Step) -> Mapping[str, Value]:
    lut = i.operands[3].value
    value = _truth(i.s, lut, [i[0], i[1], i[2]])
    if value is None:
        return {}
    result = {} if i.target in ("RZ", "URZ") else {i.target: value}
    some = i.s.compare("!=", value, i.s.zero)
    if len(i.operands) > 4:  # a predicate behind the table is joined
        join = i.s.both if "PAND" in i.modifiers else i.s.either
        some = join(some, i[4])
    return {**result, **{p: some for p in i.predicates if p[-1] != "T"}}


_TWO = {
    0x0: lambda s, a, b: s.zero,
    0x8: lambda s, a, b: s.bit_and(a, b),
    0xE: lambda s, a, b: s.bit_or(a, b),
    0x6: lambda s, a, b: s.bit_xor(a, b),
    0xC: lambda s, a, b: a,
    0xA: lambda s, a, b: b,
    0x4: lambda s, a, b: s.bit_and(a, s.bit_xor(b, s.number(-1))),
    0x2: lambda s, a, b: s.bit_and(s.bit_xor(a, s.number(-1)), b),
    0x3: lambda s, a, b: s.bit_xor(a, s.number(-1)),
    0x5: lambda s, a, b: s.bit_xor(b, s.number(-1)),
    0xF: lambda s, a, b: s.number(-1),
}
"""Functions of two operands by truth table; bit 2a + b."""
_THREE: dict[int, Callable[[Symbols, Value, Value, Value], Value]] = {
    0x80: lambda s, a, b, c: s.bit_and(s.bit_and(a, b), c),
    0xFE: lambda s, a, b, c: s.bit_or(s.bit_or(a, b), c),
    0x96: lambda s, a, b, c: s.bit_xor(s.bit_xor(a, b), c),
    0xF8: lambda s, a, b, c: s.bit_or(a, s.bit_and(b, c)),
    0xEA: lambda s, a, b, c: s.bit_or(s.bit_and(a, b), c),
    0xEC: lambda s, a, b, c: s.bit_or(s.bit_and(a, c), b),
    0xA8: lambda s, a, b, c: s.bit_and(s.bit_or(a, b), c),
    0xE0: lambda s, a, b, c: s.bit_and(a, s.bit_or(b, c)),
    0xC8: lambda s, a, b, c: s.bit_and(s.bit_or(a, c), b),
    0x78: lambda s, a, b, c: s.bit_xor(a, s.bit_and(b, c)),
    0x6C: lambda s, a, b, c: s.bit_xor(b, s.bit_and(a, c)),
    0x6A: lambda s, a, b, c: s.bit_xor(c, s.bit_and(a, b)),
    0x48: lambda s, a, b, c: s.bit_and(b, s.bit_xor(a, c)),
    0x60: lambda s, a, b, c: s.bit_and(a, s.bit_xor(b, c)),
    0x28: lambda s, a, b, c: s.bit_and(c, s.bit_xor(a, b)),
    0x1E: lambda s, a, b, c: s.bit_xor(a, s.bit_or(b, c)),
    0x36: lambda s, a, b, c: s.bit_xor(b, s.bit_or(a, c)),
    0x56: lambda s, a, b, c: s.bit_xor(c, s.bit_or(a, b)),
    0xF6: lambda s, a, b, c: s.bit_or(a, s.bit_xor(b, c)),
    0xCA: lambda s, a, b, c: _chosen(s, a, b, c),
    0xAC: lambda s, a, b, c: _chosen(s, a, c, b),
    0xE2: lambda s, a, b, c: _chosen(s, b, a, c),
    0xB8: lambda s, a, b, c: _chosen(s, b, c, a),
    0xE4: lambda s, a, b, c: _chosen(s, c, a, b),
    0xD8: lambda s, a, b, c: _chosen(s, c, b, a),
}


def _chosen(s: Symbols, mask: Value, ones: Value, zeros: Value) -> Value:
    """Bits of ``ones`` where the mask has them, else of ``zeros``."""
    kept = s.bit_and(zeros, s.bit_xor(mask, s.number(-1)))
    return s.bit_or(s.bit_and(ones, mask), kept)


def _truth(s: Symbols, lut: int, values: Sequence[Value]) -> Value | None:
    """A bitwise function of three operands by its table (bit 4a + 2b + c)."""
    a, b, c = values
    for place, value in enumerate(values):
        number = value.constant
        if number not in (0, -1):
            continue
        bit = 1 if number else 0
        weights = (4, 2, 1)
        kept = [w for p, w in enumerate(weights) if p != place]
        table = 0
        for x in (0, 1):
            for y in (0, 1):
                row = x * kept[0] + y * kept[1] + bit * weights[place]
                table |= (lut >> row & 1) << (2 * x + y)
        left, right = [v for p, v in enumerate(values) if p != place]
        function = _TWO.get(table)
        return None if function is None else function(s, left, right)
    three = _THREE.get(lut)
    return None if three is None else three(s, a, b, c)


def _shf(i: Step) -> Mapping[str, Value]:
    s, m = i.s, i.modifiers
    if m[0] == "L":
        return {} if ("HI" in m and i[2] is not s.zero) or "U64" in m else i.result(
            s.shift_left(i[0], i[1]))  # fmt: skip
    if "HI" in m and i[0] is s.zero:
        amount = i[1].constant
        if "S32" in m:
            if amount == 31:
                return i.result(s.scale(s.negative(i[2]), -1))
            return i.result(s.shift_right(i[2], i[1]))
        if amount is not None:
            return i.result(s.logical_right(i[2], amount))
        return i.result(s.shift_right(i[2], i[1]))
    if "U64" in m or "S64" in m:
        return {} if "HI" in m else i.result(s.shift_right(i[0], i[1]))
    return {}


_RANK_ON_TOP = 0x654  # bytes: three of the address, the block's number above them
_RELATIONS = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}


def _below_too(s: Symbols, relation: str, left: Value, right: Value, signed: Value) -> Value:
    """As unsigned numbers, those below 0 are above all others: ``0 <= x < n`` in one comparison."""
    if right.constant is None or right.constant < 0 or s.nonnegative(left):
        return signed
    above = s.compare(">=", left, s.zero)
    if relation in (">=", ">"):
        return s.either(s.negated(above), signed)
    return s.both(above, signed) if relation in ("<", "<=") else signed


def _isetp(i: Step) -> Mapping[str, Value]:
    s = i.s
    if "EX" in i.modifiers:  # the high words decide; the low ones have been compared before
        result = i[3]
    else:
        relation = _RELATIONS.get(i.modifiers[0])
        if relation is None:
            return {}
        result = s.compare(relation, i[0], i[1])
        if "U32" in i.modifiers and i[0].offset() < 0:
            result = _below_too(s, relation, i[0], i[1], result)
    extra = i[2]
    join = s.either if "OR" in i.modifiers else s.both if "AND" in i.modifiers else None
    if join is None:
        return {}
    values = (join(result, extra), join(s.negated(result), extra))
    return {p: v for p, v in zip(i.predicates, values, strict=True) if p[-1] != "T"}


def _plop3(i: Step) -> Mapping[str, Value]:
    s = i.s
    inputs = [i[0], i[1], i[2]]
    tables = [o.value for o in i.operands if o.kind == "number"][:2]
    result = {}
    for predicate, lut in zip(i.predicates, tables, strict=False):
        if predicate[-1] != "T":
            result[predicate] = _combined(s, lut, inputs)
    return result


def _combined(s: Symbols, lut: int, inputs: Sequence[Value]) -> Value:
    """A function of three predicates by its table, as a disjunction of its rows."""
    result = s.zero
    for row in range(8):
        if not lut >> row & 1:
            continue
        term = s.one
        for bit, value in zip((4, 2, 1), inputs, strict=True):
            term = s.both(term, value if row & bit else s.negated(value))
        result = s.either(result, term)
    full = all(lut >> row & 1 for row in range(8))
    return s.one if full else result


def _prmt(i: Step) -> Mapping[str, Value]:
    s = i.s
    selector = i[1].constant
    if selector in (0x3210, 0x7610, 0x9910):
        return i.result(i[0])
    if selector == 0x5410 and i[2] is s.zero:
        return i.result(s.mod(i[0], s.number(2**16)))
    if selector == _RANK_ON_TOP:  # what ``mapa`` comes to
        return i.result(s.add(i[2], s.unknown(CLUSTER)))
    return {}


def _sgxt(i: Step) -> Mapping[str, Value]:
    """The low bits as a number; without ``.U32`` the highest of them is its sign."""
    width, s = i[1].constant, i.s
    if width is None or not width & 31:
        return i.result(i[0])
    whole = 1 << (width & 31)
    if "U32" in i.modifiers:
        return i.result(s.mod(i[0], s.number(whole)))
    half = whole >> 1
    if half == 1:
        return i.result(s.scale(s.mod(i[0], s.number(2)), -1))
    return i.result(s.add(s.mod(s.add(i[0], s.number(half)), s.number(whole)), s.number(-half)))


def _packed(i: Step) -> Mapping[str, Value]:
    """``P2R R0, PR, RZ, 0x7f``: predicates as bits."""
    s, mask = i.s, i.operands[-1].value
    bits = (s.select(i.read(f"P{n}"), s.number(1 << n), s.zero) for n in range(7) if mask >> n & 1)
    return i.result(s.add(i[1], *bits))


LOGIC: Mapping[str, Callable[[Step], Mapping[str, Value]]] = {
    "ISETP": _isetp, "LOP3": _lop3, "P2R": _packed, "PLOP3": _plop3, "PRMT": _prmt,
    "SGXT": _sgxt, "SHF": _shf, "UISETP": _isetp, "ULOP3": _lop3, "UPLOP3": _plop3,
    "UPRMT": _prmt, "USHF": _shf,
}  # fmt: skip
"""By opcode."""
