"""Integer operations on arrays of 32-bit words.

They are pure functions ``(detail, *sources) → results`` whose shapes broadcast. Numpy does not
define shifts by 64 and more, nor sums beyond 64 bits, so these are implemented here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.kernel.machine import Kind, Relation

Words = npt.NDArray[np.uint32]
Detail = tuple[int, ...]
WordFunction = Callable[..., tuple[Any, ...]]
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def wide(low: Words, high: Words) -> npt.NDArray[np.uint64]:
    """Combine low and high words into 64-bit words."""
    return low.astype(np.uint64) | (high.astype(np.uint64) << _SHIFT)


def halves(value: npt.NDArray[np.uint64]) -> tuple[Words, Words]:
    """Return the low and the high words."""
    return (value & _LOW).astype(np.uint32), (value >> _SHIFT).astype(np.uint32)


def _move(detail: Detail, a: Words) -> tuple[Words]:
    return (a,)


def _add(detail: Detail, *sources: Words) -> tuple[Any, ...]:
    """Return sums of words; :func:`carries` computes carries as well, at a higher cost."""
    negated = detail[0] if detail else 0
    total: Any = np.uint32(0)
    for place, source in enumerate(sources):
        total = total - source if negated >> place & 1 else total + source
    return (total,)


def carries(detail: Detail, *sources: Words) -> tuple[Any, ...]:
    """Return the sum, True if it is 2³² or more, and True if it is 2³³ or more."""
    # For example, 2³² - 1 plus 1 gives 0, True, False.
    negated = detail[0] if detail else 0
    total: Any = np.uint64(0)
    for place, source in enumerate(sources):
        word = source.astype(np.uint64)
        total = total + (np.uint64(1 << 32) - word if negated >> place & 1 else word)
    over = total >> _SHIFT
    return (total & _LOW).astype(np.uint32), over >= 1, over >= 2


def _multiply(detail: Detail, a: Words, b: Words, c: Words, carry: Words) -> tuple[Words]:
    return (a * b + c + carry,)


def _multiply_wide(
    detail: Detail, a: Words, b: Words, low: Words, high: Words, carry: Words
) -> tuple[Any, ...]:
    if detail[0]:
        product = (a.view(np.int32).astype(np.int64) * b.view(np.int32)).view(np.uint64)
    else:
        product = a.astype(np.uint64) * b
    added = wide(low, high)
    total = product + added
    over = total < product
    result = total + carry
    return (*halves(result), over | (result < total))


_PAIRS: Mapping[int, Callable[[Any, Any], Any]] = {
    0x0: lambda b, c: np.uint32(0), 0x1: lambda b, c: ~(b | c), 0x2: lambda b, c: ~b & c,
    0x3: lambda b, c: ~b, 0x4: lambda b, c: b & ~c, 0x5: lambda b, c: ~c,
    0x6: lambda b, c: b ^ c, 0x7: lambda b, c: ~(b & c), 0x8: lambda b, c: b & c,
    0x9: lambda b, c: ~(b ^ c), 0xA: lambda b, c: c, 0xB: lambda b, c: ~b | c,
    0xC: lambda b, c: b, 0xD: lambda b, c: b | ~c, 0xE: lambda b, c: b | c,
    0xF: lambda b, c: np.uint32(0xFFFFFFFF),
}  # fmt: skip


def _logic(detail: Detail, a: Words, b: Words, c: Words) -> tuple[Any]:
    """Evaluate a function of three operands by Shannon's expansion in the first one."""
    # For example, table 0xCA is "b if a, else c": its low half 0xA, for bits with a = 0, is c, and
    # its high half 0xC is b. The result is (a & b) | (~a & c).
    zero, one = detail[0] & 15, detail[0] >> 4
    if zero == one:
        return (_PAIRS[zero](b, c),)
    if zero == 0:
        return (a & _PAIRS[one](b, c),)
    if zero ^ one == 15:
        return (a ^ _PAIRS[zero](b, c),)
    return ((a & _PAIRS[one](b, c)) | (~a & _PAIRS[zero](b, c)),)


def _shift(detail: Detail, low: Words, amount: Words, high: Words) -> tuple[Words]:
    right, wrap, bits, signed, upper = detail
    places = (amount & np.uint32(bits - 1) if wrap else np.minimum(amount, bits)).astype(np.uint64)
    value = wide(low, high)
    if right and signed:
        shifted = (value.view(np.int64) >> np.minimum(places, 63).astype(np.int64)).view(np.uint64)
    elif right:
        shifted = np.where(places > 63, 0, value >> np.minimum(places, 63))
    else:
        shifted = np.where(places > 63, 0, value << np.minimum(places, 63))
    return (halves(shifted)[upper],)


def _select(detail: Detail, a: Words, b: Words, chosen: Words) -> tuple[Any]:
    return (np.where(chosen != 0, a, b),)


def compare_ordered(relation: int, a: Any, b: Any) -> Any:
    """Return ``a relation b`` for ordered operands."""
    if relation == Relation.LT:
        return a < b
    if relation == Relation.EQ:
        return a == b
    if relation == Relation.LE:
        return a <= b
    if relation == Relation.GT:
        return a > b
    if relation == Relation.NE:
        return a != b
    if relation == Relation.GE:
        return a >= b
    return (a == a) if relation == Relation.ALWAYS else (a != a)


def _compare(detail: Detail, a: Words, b: Words) -> tuple[Any]:
    relation, signed = detail
    if signed:
        return (compare_ordered(relation, a.view(np.int32), b.view(np.int32)),)
    return (compare_ordered(relation, a, b),)


_STRICT = {
    Relation.LT: Relation.LT, Relation.LE: Relation.LT, Relation.GT: Relation.GT,
    Relation.GE: Relation.GT, Relation.NE: Relation.NE, Relation.EQ: Relation.NEVER,
}  # fmt: skip


def _compare_extended(detail: Detail, a: Words, b: Words, below: Words) -> tuple[Any]:
    """Compare high words; if they are equal, the result is ``below``, the low words' comparison."""
    relation, signed = detail
    (strictly,) = _compare((_STRICT[Relation(relation)], signed), a, b)
    return (strictly | ((a == b) & (below != 0)),)


def _compare_wide(detail: Detail, a: Words, above: Words, b: Words, over: Words) -> tuple[Any]:
    relation, signed = detail
    first, second = wide(a, above), wide(b, over)
    if signed:
        return (compare_ordered(relation, first.view(np.int64), second.view(np.int64)),)
    return (compare_ordered(relation, first, second),)


def _decide(detail: Detail, a: Words, b: Words, c: Words) -> tuple[Any]:
    row = (a << np.uint32(2)) | (b << np.uint32(1)) | c
    return ((np.uint32(detail[0]) >> row) & np.uint32(1),)


def _minimum(detail: Detail, a: Words, b: Words, least: Words) -> tuple[Any]:
    first, second = (a.view(np.int32), b.view(np.int32)) if detail[0] else (a, b)
    return (np.where((first < second) == (least != 0), a, b),)


def _permute(detail: Detail, a: Words, selector: Words, c: Words) -> tuple[Any]:
    # For example, the selector 0x3210 returns a, and 0x0123 returns a with its bytes reversed. A
    # nibble of 8 + n replicates the sign of byte n.
    source = wide(a, c)
    result: Any = np.uint32(0)
    for byte in range(4):
        nibble = (selector >> np.uint32(4 * byte)) & np.uint32(15)
        places = ((nibble & np.uint32(7)) * np.uint32(8)).astype(np.uint64)
        chosen = ((source >> places) & np.uint64(0xFF)).astype(np.uint32)
        sign = np.where(chosen & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        chosen = np.where(nibble & np.uint32(8), sign, chosen)
        result = result | (chosen << np.uint32(8 * byte))
    return (result,)


def count_bits(a: Words) -> Words:
    """Count the set bits of each word."""
    # For example, 0b1011 becomes the counts of pairs, 01 and 10 (1 and 2), and their sum of 3.
    a = a - ((a >> np.uint32(1)) & np.uint32(0x55555555))
    a = (a & np.uint32(0x33333333)) + ((a >> np.uint32(2)) & np.uint32(0x33333333))
    a = (a + (a >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return (a * np.uint32(0x01010101)) >> np.uint32(24)


def _count_bits(detail: Detail, a: Words) -> tuple[Words]:
    return (count_bits(a),)


def _find_bit(detail: Detail, a: Words) -> tuple[Any]:
    signed, from_left = detail
    # For example, 20 = 0b10100 has its highest bit at place 4. For a negative number the highest 0
    # counts: -3, ~(-3) = 2, has place 1.
    value = np.where(a >> np.uint32(31), ~a, a) if signed else a
    place = np.frexp(value.astype(np.float64))[1] - 1  # exact: a word has 32 bits
    position = (31 - place) if from_left else place
    return (np.where(value == 0, np.uint32(0xFFFFFFFF), position.astype(np.uint32)),)


def _reverse_bits(detail: Detail, a: Words) -> tuple[Any]:
    for width, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        a = ((a >> np.uint32(width)) & np.uint32(mask)) | (
            (a & np.uint32(mask)) << np.uint32(width)
        )  # fmt: skip
    return ((a >> np.uint32(16)) | (a << np.uint32(16)),)


def _bit_field(detail: Detail, start: Words, count: Words) -> tuple[Words]:
    limit = np.uint32(31)
    first = start & limit if detail[0] else np.minimum(start, 32)
    ones = count & limit if detail[0] else np.minimum(count, 32)
    # For example, start 4 and count 3 give (2³ - 1) << 4 = 0x70.
    mask = (np.uint64(1) << ones.astype(np.uint64)) - np.uint64(1)
    return (halves(mask << first.astype(np.uint64))[0],)


def _extend(detail: Detail, a: Words, width: Words) -> tuple[Any]:
    signed, wrap = detail
    bits = (width & np.uint32(31) if wrap else np.minimum(width, 32)).astype(np.uint64)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    kept = a.astype(np.uint64) & mask
    if signed:
        sign = (kept >> np.maximum(bits, 1) - np.uint64(1)) & np.uint64(1)
        kept = np.where((sign != 0) & (bits > 0), kept | ~mask, kept)
    return (halves(kept)[0],)


def _dot(detail: Detail, a: Words, b: Words, c: Words) -> tuple[Words]:
    total: Any = c
    for byte in range(4):
        parts = []
        for word, signed in ((a, detail[0]), (b, detail[1])):
            part = (word >> np.uint32(8 * byte)) & np.uint32(0xFF)
            parts.append(part - ((part & np.uint32(0x80)) << np.uint32(1)) if signed else part)
        total = total + parts[0] * parts[1]
    return (total,)


def _absolute(detail: Detail, a: Words) -> tuple[Any]:
    return (np.where(a >> np.uint32(31), np.uint32(0) - a, a),)


INTEGER: Mapping[Kind, WordFunction] = {
    Kind.MOVE: _move, Kind.ADD: _add, Kind.MULTIPLY: _multiply,
    Kind.MULTIPLY_WIDE: _multiply_wide, Kind.LOGIC: _logic, Kind.SHIFT: _shift,
    Kind.SELECT: _select, Kind.COMPARE: _compare, Kind.COMPARE_EXTENDED: _compare_extended,
    Kind.COMPARE_WIDE: _compare_wide, Kind.DECIDE: _decide, Kind.MINIMUM: _minimum,
    Kind.PERMUTE: _permute, Kind.COUNT_BITS: _count_bits, Kind.FIND_BIT: _find_bit,
    Kind.REVERSE_BITS: _reverse_bits, Kind.BIT_FIELD: _bit_field, Kind.EXTEND: _extend,
    Kind.DOT: _dot, Kind.ABSOLUTE: _absolute,
}  # fmt: skip
