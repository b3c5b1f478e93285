"""Floating-point operations on arrays of words, bit for bit as the hardware computes them.

Single precision is computed in double precision, rounded to *odd* (Boldo and Melquiond, "Emulation
of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008), and then rounded once to single
precision. Fused multiply-adds and directed roundings are therefore exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.functions import FUNCTIONS, Doubles
from perfassert.engines.execution.words import (
    Detail,
    WordFunction,
    Words,
    compare_ordered,
    halves,
    wide,
)
from perfassert.kernel.machine import Function as Approximate
from perfassert.kernel.machine import Kind, Relation, Rounding

_SMALLEST = 2.0**-126  # smallest normal number in single precision
_SPLIT = float((1 << 27) + 1)
_EXPONENT = np.uint32(0x7F800000)


def _value(word: Words, flush: int) -> Doubles:
    single = word.view(np.float32).astype(np.float64)
    return (
        np.where(np.abs(single) < _SMALLEST, np.copysign(0.0, single), single) if flush else single
    )


def _odd_sum(a: Doubles, b: Doubles) -> Doubles:
    """Return a + b rounded to odd: the last bit is set if the sum is not exact."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    # For example, 1 + 2⁻⁶⁰ rounds to 1.0 with an error of 2⁻⁶⁰. The last bit of 1.0 is 0, so the
    # result is its neighbour towards the error, 1 + 2⁻⁵². Rounded up to single precision it gives 1
    # + 2⁻²³, as the exact sum would. 1.0 itself would stay 1.
    bits = total.view(np.uint64)
    towards = np.where((error > 0) == (total > 0), bits + np.uint64(1), bits - np.uint64(1))
    uneven = np.isfinite(total) & (error != 0) & (error == error) & (bits & np.uint64(1) == 0)
    return np.where(uneven, towards, bits).view(np.float64)


def _to_single(value: Doubles, rounding: int) -> npt.NDArray[np.float32]:
    """Round once to single precision."""
    nearest = value.astype(np.float32)
    if rounding == Rounding.NEAREST:
        return nearest
    back = nearest.astype(np.float64)
    low, high = np.float32(-np.inf), np.float32(np.inf)
    down = np.where(back > value, np.nextafter(nearest, low), nearest)
    up = np.where(back < value, np.nextafter(nearest, high), nearest)
    if rounding == Rounding.DOWN:
        return down
    if rounding == Rounding.UP:
        return up
    return np.where(value > 0, down, up)


def _finish(value: Doubles, detail: Detail) -> tuple[Words]:
    rounding, flush, saturate = detail
    result = _to_single(value, rounding)
    if flush:
        small = np.abs(result) < np.float32(_SMALLEST)
        result = np.where(small, np.copysign(np.float32(0), result), result)
    if saturate:
        result = np.where(result > 0, np.minimum(result, np.float32(1)), np.float32(0))
    word = np.ascontiguousarray(result, dtype=np.float32).view(np.uint32)
    return (np.where(result == result, word, np.uint32(0x7FFFFFFF)),)


def _float_add(detail: Detail, a: Words, b: Words) -> tuple[Words]:
    return _finish(_odd_sum(_value(a, detail[1]), _value(b, detail[1])), detail)


def _float_multiply(detail: Detail, a: Words, b: Words) -> tuple[Words]:
    return _finish(_value(a, detail[1]) * _value(b, detail[1]), detail)  # 48 bits: exact


def _float_fused(detail: Detail, a: Words, b: Words, c: Words) -> tuple[Words]:
    product = _value(a, detail[1]) * _value(b, detail[1])
    return _finish(_odd_sum(product, _value(c, detail[1])), detail)


def _compare(relation: int, unordered: int, a: Any, b: Any) -> Any:
    neither = (a != a) | (b != b)
    if relation == Relation.ORDERED:
        return ~neither
    if relation == Relation.UNORDERED:
        return neither
    if relation in (Relation.NEVER, Relation.ALWAYS):
        return np.broadcast_to(relation == Relation.ALWAYS, neither.shape)
    holds = compare_ordered(relation, a, b)
    return holds | neither if unordered else holds & ~neither


def _float_compare(detail: Detail, a: Words, b: Words) -> tuple[Any]:
    relation, unordered, flush = detail
    return (_compare(relation, unordered, _value(a, flush), _value(b, flush)),)


def _float_minimum(detail: Detail, a: Words, b: Words, least: Words) -> tuple[Any]:
    """Return the smaller operand, or the larger one; a number wins over a NaN, and −0 < 0."""
    first, second = _value(a, detail[0]), _value(b, detail[0])
    below = (first < second) | ((first == second) & np.signbit(first))
    chosen = np.where(below == (least != 0), first, second)
    chosen = np.where(first != first, second, np.where(second != second, first, chosen))
    return _finish(chosen, (Rounding.NEAREST, detail[0], 0))


def _float_function(detail: Detail, a: Words) -> tuple[Words]:
    function = detail[0]
    if function in (Approximate.RCP_HIGH, Approximate.RSQ_HIGH):
        return _high_function(function, a)
    value = FUNCTIONS[Approximate(function)](_value(a, 1))
    return _finish(value, (Rounding.NEAREST, 0, 0))


def _high_function(function: int, a: Words) -> tuple[Words]:
    """Return the high word of a double's reciprocal, or reciprocal root, from its high word."""
    x = wide(np.zeros_like(a), a).view(np.float64)
    value = 1.0 / (np.sqrt(x) if function == Approximate.RSQ_HIGH else x)
    return (_pair(value)[1],)


def _float_check(detail: Detail, a: Words, b: Words) -> tuple[Any]:
    """Return True if the steps of the quotient a / b could overflow or underflow."""
    top = ((a & _EXPONENT) >> np.uint32(23)).astype(np.int32)
    bottom = ((b & _EXPONENT) >> np.uint32(23)).astype(np.int32)
    extreme = (bottom == 0) | (bottom >= 252) | (top == 255)
    return (extreme | ((top != 0) & (np.abs(top - bottom) > 124)),)


def _double(low: Words, high: Words) -> Doubles:
    return wide(low, high).view(np.float64)


def _pair(value: Doubles) -> tuple[Words, Words]:
    result = np.ascontiguousarray(value).view(np.uint64)
    return halves(np.where(value == value, result, np.uint64(0x7FF8000000000000)))


def _double_add(detail: Detail, a: Words, x: Words, b: Words, y: Words) -> tuple[Words, Words]:
    first, second = _double(a, x), _double(b, y)
    if detail[0] == Rounding.NEAREST:
        return _pair(first + second)
    total = _multiply_add(first, np.ones_like(first), second, detail[0])
    return _pair(np.where(total == 0, first + second, total))  # keeps the sign of a zero


def _double_multiply(detail: Detail, a: Words, x: Words, b: Words, y: Words) -> tuple[Words, Words]:
    first, second = _double(a, x), _double(b, y)
    if detail[0] == Rounding.NEAREST:
        return _pair(first * second)
    product = _multiply_add(first, second, np.zeros_like(first), detail[0])
    return _pair(np.where(product == 0, first * second, product))  # keeps the sign of a zero


def _double_fused(
    detail: Detail, a: Words, x: Words, b: Words, y: Words, c: Words, z: Words
) -> tuple[Words, Words]:
    return _pair(_multiply_add(_double(a, x), _double(b, y), _double(c, z), detail[0]))


def _multiply_add(first: Doubles, second: Doubles, third: Doubles, rounding: int) -> Doubles:
    """Compute a fused multiply-add of doubles.

    The product is computed exactly in two parts (Dekker). The sum of the smaller part and the error
    of adding the larger part is rounded to odd, and the total is rounded once. If a part overflows
    or underflows, beyond about 2^±960, the result is the rounded product plus the addend, rounded
    to nearest.
    """
    # For example, (1 + 2⁻³⁰)² = 1 + 2⁻²⁹ + 2⁻⁶⁰ has the parts 1 + 2⁻²⁹ (``product``) and 2⁻⁶⁰
    # (``error``). With an addend of -1 the rounded product would give 2⁻²⁹. The fused result is
    # 2⁻²⁹ + 2⁻⁶⁰.
    product = first * second
    large, other = first * _SPLIT, second * _SPLIT
    top, head = large - (large - first), other - (other - second)
    rest, tail = first - top, second - head
    error = ((top * head - product) + top * tail + rest * head) + rest * tail
    total = product + third
    part = total - product
    below = (product - (total - part)) + (third - part)
    remainder = _odd_sum(error, below)
    result = total + remainder
    left = remainder - (result - total)  # has the sign of the exact result minus ``result``
    plain = product + third
    nearest = np.where(np.isfinite(result) & np.isfinite(error), result, plain)
    return _round_towards(nearest, np.where(nearest == result, left, 0.0), rounding)


def _round_towards(nearest: Doubles, left: Doubles, rounding: int) -> Doubles:
    """Return the neighbour of a rounded value in the direction of a rounding mode.

    ``left`` has the sign of the rounding error.
    """
    down = np.where(left < 0, np.nextafter(nearest, -np.inf), nearest)
    up = np.where(left > 0, np.nextafter(nearest, np.inf), nearest)
    chosen = {
        Rounding.NEAREST: nearest, Rounding.DOWN: down, Rounding.UP: up,
        Rounding.ZERO: np.where(nearest > 0, down, up),
    }  # fmt: skip
    return chosen[Rounding(rounding)]


def _double_compare(detail: Detail, a: Words, x: Words, b: Words, y: Words) -> tuple[Any]:
    return (_compare(detail[0], detail[1], _double(a, x), _double(b, y)),)


def _from_integer(detail: Detail, low: Words, high: Words) -> tuple[Any, ...]:
    bits, signed, size, rounding = detail
    if bits == 64:
        value = wide(low, high)
        negative = (value >> np.uint64(63) != 0) & bool(signed)
        size_of = np.where(negative, np.uint64(0) - value, value)
        sticky = (size_of & np.uint64(0x7FF) != 0).astype(np.uint64)
        large = ((size_of >> np.uint64(11)) | sticky).astype(np.float64) * 2048.0
        number = np.where(size_of < np.uint64(1 << 53), size_of.astype(np.float64), large)
        number = np.where(negative, -number, number)
        if size == 64:
            exact = value.view(np.int64) if signed else value
            return _pair(exact.astype(np.float64))
    else:
        number = (low.view(np.int32) if signed else low).astype(np.float64)
    return _pair(number) if size == 64 else _finish(number, (rounding, 0, 0))


_WHOLE = {Rounding.NEAREST: np.rint, Rounding.DOWN: np.floor, Rounding.UP: np.ceil,
          Rounding.ZERO: np.trunc}  # fmt: skip


def _to_integer(detail: Detail, low: Words, high: Words) -> tuple[Any, ...]:
    """Convert to an integer; values out of range give the nearest end of the range.

    NaN gives 0, or 2⁶³ in 64 bits.
    """
    size, bits, signed, rounding, flush = detail
    # For example, to signed 32 bits rounded to zero: 2.7 → 2, -3e9 → -2³¹, NaN → 0.
    value = _double(low, high) if size == 64 else _value(low, flush)
    whole = _WHOLE[Rounding(rounding)](value)
    least = -(2 ** (bits - 1)) if signed else 0
    most = 2 ** (bits - signed) - 1
    inside = (whole > least) & (whole < float(most))
    kept = np.where(inside, whole, 0.0)
    kind = np.int64 if signed else np.uint64
    result = kept.astype(kind).view(np.uint64)
    result = np.where(whole >= float(most), np.uint64(most), result)
    result = np.where(whole <= least, np.uint64(least & (1 << 64) - 1), result)
    result = np.where(whole != whole, np.uint64(1 << 63 if bits == 64 else 0), result)
    words = halves(result)
    return words if bits == 64 else words[:1]


def _round(detail: Detail, a: Words) -> tuple[Words]:
    whole = _WHOLE[Rounding(detail[0])](_value(a, detail[1]))
    return _finish(whole, (Rounding.NEAREST, 0, 0))


def _double_round(detail: Detail, low: Words, high: Words) -> tuple[Words, Words]:
    return _pair(_WHOLE[Rounding(detail[0])](_double(low, high)))


def _narrow(detail: Detail, low: Words, high: Words) -> tuple[Words]:
    return _finish(_double(low, high), (detail[0], 0, 0))


def _widen(detail: Detail, a: Words) -> tuple[Words, Words]:
    return _pair(_value(a, 0))


def _half_to_float(detail: Detail, a: Words) -> tuple[Words]:
    half = ((a >> np.uint32(16 * detail[0])) & np.uint32(0xFFFF)).astype(np.uint16)
    return _finish(half.view(np.float16).astype(np.float64), (Rounding.NEAREST, 0, 0))


FLOAT: Mapping[Kind, WordFunction] = {
    Kind.FLOAT_ADD: _float_add, Kind.FLOAT_MULTIPLY: _float_multiply,
    Kind.FLOAT_FUSED: _float_fused, Kind.FLOAT_COMPARE: _float_compare,
    Kind.FLOAT_MINIMUM: _float_minimum, Kind.FLOAT_FUNCTION: _float_function,
    Kind.FLOAT_CHECK: _float_check, Kind.DOUBLE_ADD: _double_add,
    Kind.DOUBLE_MULTIPLY: _double_multiply, Kind.DOUBLE_FUSED: _double_fused,
    Kind.DOUBLE_COMPARE: _double_compare, Kind.FROM_INTEGER: _from_integer,
    Kind.TO_INTEGER: _to_integer, Kind.ROUND: _round, Kind.DOUBLE_ROUND: _double_round,
    Kind.NARROW: _narrow, Kind.WIDEN: _widen, Kind.HALF_TO_FLOAT: _half_to_float,
}  # fmt: skip
