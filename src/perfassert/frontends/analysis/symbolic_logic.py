"""Bitwise functions of three operands, by truth table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfassert.kernel.expression_pool import Expression, ExpressionPool


def bitwise(s: ExpressionPool, table: int, values: Sequence[Expression]) -> Expression:
    """Return the function with the row ``4a + 2b + c`` of ``table`` for each bit.

    Functions that address computations are made of are simplified; any other one is a sum modulo 2
    of products (its algebraic normal form).
    """
    for place, value in enumerate(values):
        number = value.constant
        if number in (0, -1):
            left, right = [v for p, v in enumerate(values) if p != place]
            return _TWO[_cofactor(table, place, int(number != 0))](s, left, right)
    a, b, c = values
    for place, (left, right) in enumerate(((b, c), (a, c), (a, b))):
        zeros, ones = _cofactor(table, place, 0), _cofactor(table, place, 1)
        if zeros == ones:
            return _TWO[zeros](s, left, right)
    three = _THREE.get(table)
    return _normal_form(s, table, a, b, c) if three is None else three(s, a, b, c)


def _cofactor(table: int, place: int, bit: int) -> int:
    """Return the function of the other two operands where this one is ``bit``; row 2x + y."""
    weights = (4, 2, 1)
    x, y = (w for p, w in enumerate(weights) if p != place)
    rows = ((i >> 1) * x + (i & 1) * y + bit * weights[place] for i in range(4))
    return sum((table >> row & 1) << i for i, row in enumerate(rows))


def _normal_form(
    s: ExpressionPool, table: int, a: Expression, b: Expression, c: Expression
) -> Expression:
    rows = [table >> row & 1 for row in range(8)]
    for bit in (1, 2, 4):
        for row in range(8):
            if row & bit:
                rows[row] ^= rows[row ^ bit]
    result = s.number(-rows[0])
    for row in range(1, 8):
        if rows[row]:
            product = s.number(-1)
            for bit, value in ((4, a), (2, b), (1, c)):
                product = s.bit_and(product, value) if row & bit else product
            result = s.bit_xor(result, product)
    return result


def _not(s: ExpressionPool, value: Expression) -> Expression:
    return s.bit_xor(value, s.number(-1))


_TWO: dict[int, Callable[[ExpressionPool, Expression, Expression], Expression]] = {
    0x0: lambda s, a, b: s.zero,
    0x1: lambda s, a, b: _not(s, s.bit_or(a, b)),
    0x2: lambda s, a, b: s.bit_and(_not(s, a), b),
    0x3: lambda s, a, b: _not(s, a),
    0x4: lambda s, a, b: s.bit_and(a, _not(s, b)),
    0x5: lambda s, a, b: _not(s, b),
    0x6: lambda s, a, b: s.bit_xor(a, b),
    0x7: lambda s, a, b: _not(s, s.bit_and(a, b)),
    0x8: lambda s, a, b: s.bit_and(a, b),
    0x9: lambda s, a, b: _not(s, s.bit_xor(a, b)),
    0xA: lambda s, a, b: b,
    0xB: lambda s, a, b: s.bit_or(_not(s, a), b),
    0xC: lambda s, a, b: a,
    0xD: lambda s, a, b: s.bit_or(a, _not(s, b)),
    0xE: lambda s, a, b: s.bit_or(a, b),
    0xF: lambda s, a, b: s.number(-1),
}
"""Functions of two operands; row 2a + b."""
_THREE: dict[int, Callable[[ExpressionPool, Expression, Expression, Expression], Expression]] = {
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
    0xCA: lambda s, a, b, c: _select_bits(s, a, b, c),
    0xAC: lambda s, a, b, c: _select_bits(s, a, c, b),
    0xE2: lambda s, a, b, c: _select_bits(s, b, a, c),
    0xB8: lambda s, a, b, c: _select_bits(s, b, c, a),
    0xE4: lambda s, a, b, c: _select_bits(s, c, a, b),
    0xD8: lambda s, a, b, c: _select_bits(s, c, b, a),
}
"""Functions of three operands that have a shorter form than the normal one."""


def _select_bits(
    s: ExpressionPool, mask: Expression, ones: Expression, zeros: Expression
) -> Expression:
    """Return the bits of ``ones`` where the mask has them, else those of ``zeros``."""
    return s.bit_or(s.bit_and(ones, mask), s.bit_and(zeros, _not(s, mask)))


def predicate_function(s: ExpressionPool, table: int, inputs: Sequence[Expression]) -> Expression:
    """Return a function of predicates by its table, the first input the highest bit of a row.

    It is expanded in an input that decides for one of its values, as ``a`` does in ``a and …``;
    where there is none, in the first one.
    """
    rows = 1 << len(inputs)
    table &= (1 << rows) - 1
    if table in (0, (1 << rows) - 1):
        return s.one if table else s.zero
    halves = [_halves(table, place, len(inputs)) for place in range(len(inputs))]
    for place, (value, (zeros, ones)) in enumerate(zip(inputs, halves, strict=True)):
        number = value.constant
        if number is not None or zeros == ones:
            others = [v for p, v in enumerate(inputs) if p != place]
            return predicate_function(s, ones if number else zeros, others)
    full = (1 << rows // 2) - 1
    simple = (p for p, h in enumerate(halves) if not {0, full}.isdisjoint(h))
    place = next(simple, 0)
    zeros, ones = halves[place]
    others = [v for p, v in enumerate(inputs) if p != place]
    no, yes = (predicate_function(s, half, others) for half in (zeros, ones))
    value, negated = inputs[place], s.logical_not(inputs[place])
    if ones == full:
        return s.logical_or(value, no)
    if zeros == full:
        return s.logical_or(negated, yes)
    return s.logical_or(s.logical_and(value, yes), s.logical_and(negated, no))


def _halves(table: int, place: int, count: int) -> tuple[int, int]:
    """Return the functions of the other inputs where this one is 0, and where it is 1."""
    bit = count - 1 - place
    halves = [0, 0]
    rows = [0, 0]
    for row in range(1 << count):
        own = row >> bit & 1
        halves[own] |= (table >> row & 1) << rows[own]
        rows[own] += 1
    return halves[0], halves[1]
