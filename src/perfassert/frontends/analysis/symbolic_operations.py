"""Transfer functions on symbolic words, one per kind of machine operation.

The same contract as the executors' (:class:`~perfassert.kernel.machine.Kind`). A function gets the
values of an operation's sources and returns those of its targets; None, or a target left out, is
not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Union

from perfassert.frontends.analysis.symbolic_logic import bitwise, predicate_function
from perfassert.frontends.analysis.symbolic_words import WORD, Words
from perfassert.frontends.machine.lowering_step import XOR
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.machine import (
    WARP_LANES,
    Function,
    Kind,
    Micro,
    Relation,
    Rounding,
    Shuffling,
)
from perfassert.kernel.program import CLUSTER

Results = Sequence[Union[Expression, None]]
Transfer = Callable[["Words", Micro, Sequence[Expression]], Results]
_RELATIONS = {
    Relation.LT: "<", Relation.EQ: "==", Relation.LE: "<=", Relation.GT: ">", Relation.NE: "!=",
    Relation.GE: ">=",
}  # fmt: skip
_STRICT = {"<": "<", "<=": "<", ">": ">", ">=": ">", "!=": "!="}
_NO_LIMIT = (1 << 64) - 1  # the largest number of 64 bits
_WHOLE_WARP = WARP_LANES - 1  # operand of a shuffle: the largest lane, without segments
_THREAD = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_BLOCK = ("blockDim.x", "blockDim.y", "blockDim.z")


def _move(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    return v


def _add(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    s = w.s
    negated = o.detail[0] if o.detail else 0
    terms = [(value, bool(negated >> place & 1)) for place, value in enumerate(v)]
    total = w.word(s.add(*(s.scale(value, -1) if minus else value for value, minus in terms)))
    if all(target < 0 for target in o.targets[1:]):
        return (total,)
    carry = w.carry([term for term in terms if term != (s.zero, False)])
    if len(o.targets) < 3 or o.targets[2] < 0:
        return total, w.assume(carry, 0, 1)
    second = s.compare(">=", w.assume(carry, 0, 2), s.number(2))
    return total, w.with_bounds(s.sub(carry, second), 0, 1), second


def _multiply(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    return (w.word(w.s.add(w.s.mul(v[0], v[1]), *v[2:])),)


def _multiply_wide(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    s = w.s
    if o.targets[0] < 0:
        quotient = _by_inverse(w, v[0], v[1])
        if quotient is not None:
            return None, quotient
    if o.detail[0]:
        left, right = w.as_signed(v[0]), w.as_signed(v[1])
    else:
        left, right = w.factor(v[0], v[1]), w.factor(v[1], v[0])
    total = s.add(s.mul(left, right), w.pair(v[2], v[3]), *v[4:])
    low = w.word(total)
    return low if o.targets[0] < 0 else w.mark_wide(low), w.word(w.high(total))


def _by_inverse(w: Words, left: Expression, right: Expression) -> Expression | None:
    """The high word of a product with the inverse of ``d``: the quotient, or a better inverse."""
    s = w.s
    for inverse, other in ((left, right), (right, left)):
        atom = s.lone_atom(inverse)
        if atom is None or atom.function != "inverse":
            continue
        divisor = atom.arguments[0]
        if other is w.word(s.scale(s.mul(inverse, divisor), -1)):
            return inverse
        return s.div(w.as_unsigned(other), w.assume(divisor, 1, WORD - 1))
    return None


# An integer division is x · ⌊2³² / d⌋ ≫ 32, corrected twice; the inverse is 1 / d as a float,
# rounded down. Only what a division does with it is given a meaning.

_ROUND_DOWN = 0xFFFFFFE
"""Added to the bits of the reciprocal, for a factor of 2³² a little too small."""


def _from_integer(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    bits, _, width, rounding = o.detail
    known = (bits, width, rounding) == (32, 32, Rounding.UP)
    return (w.s.call("float", w.as_unsigned(v[0])) if known else None,)


def _float_function(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    atom = w.s.lone_atom(v[0])
    if o.detail[0] != Function.RCP or atom is None or atom.function != "float":
        return ()
    return (w.s.call("reciprocal", *atom.arguments),)


def _to_integer(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    atom = w.s.lone_atom(w.s.add(v[0], w.s.number(-_ROUND_DOWN)))
    if atom is None or atom.function != "reciprocal":
        return ()
    return (w.s.call("inverse", *atom.arguments),)


# Bits


def _logic(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    if o.detail[0] == XOR and v[1] is w.s.one and v[2] is w.s.zero and w.bounds(v[0]) == (0, 1):
        return (w.s.logical_not(v[0]),)
    return (w.word(bitwise(w.s, o.detail[0], v)),)


def _shift(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    right, wraps, bits, signed, upper = o.detail
    low, amount, high = v
    number = amount.constant
    if number is None:
        w.assume(amount, 0, bits - 1)
    else:
        number = number % bits if wraps else min(number % WORD, bits)
        amount = w.s.number(number)
    if not right:
        return (_shifted_left(w, low, amount, high, upper),)
    if upper:
        return (_shifted_right(w, high, amount, bool(signed)),)
    if number is not None and number > 32:
        rest = w.s.number(number - 32)
        return (_shifted_right(w, high, rest, bool(signed)),)
    whole = w.pair(low, high)
    if number is None and not signed:
        w.assume(whole, 0, _NO_LIMIT)
    return (w.word(w.s.shift_right(whole, amount)),)


def _shifted_left(
    w: Words, low: Expression, amount: Expression, high: Expression, upper: int
) -> Expression:
    number = amount.constant
    if number is not None and number >= 64:
        return w.s.zero
    if upper and number and high is w.s.zero and number < 32 and w.bounds(low)[0] < 0:
        return w.word(w.logical_right(low, w.s.number(32 - number)))
    if upper:
        moved = w.s.shift_left(w.pair(low, high), amount)
        if number is not None and number >= _MOSTLY_RIGHT:
            return w.word(w.s.div(moved, w.s.number(WORD)))
        return w.word(w.high(moved))
    if number is not None and number >= 32:
        return w.s.zero
    return w.word(w.s.shift_left(low, amount))


_MOSTLY_RIGHT = 16
"""Bits by which no index is multiplied: the high word of more is a shift to the right."""


def _shifted_right(w: Words, value: Expression, amount: Expression, signed: bool) -> Expression:
    number = amount.constant
    if not signed:
        out = number is not None and number >= 32
        return w.s.zero if out else w.word(w.logical_right(value, amount))
    value = w.as_signed(value)
    if number is not None and number >= 31:
        return w.word(w.sign_word(value))
    return w.word(w.shift_right(value, amount))


def _permute(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    """Return bytes of the words, in runs that follow one another in one of them."""
    s, selector = w.s, v[1].constant
    if selector is None:
        return ()
    if selector == _RANK_ON_TOP:  # what ``mapa`` comes to
        return (s.add(v[2], s.unknown(CLUSTER)),)
    nibbles = [selector >> 4 * place & 15 for place in range(4)]
    result, place = s.zero, 0
    while place < 4:
        first = nibbles[place]
        count = 1
        while place + count < 4 and nibbles[place + count] == first + count and first + count != 4:
            count += 1
        if first & 8:
            return ()
        bits, source = 8 * count, v[0] if first < 4 else v[2]
        after = nibbles[place + count :]
        sign = 8 | (first + count - 1)
        if after and all(n == sign for n in after):  # its sign goes on above it
            part = _sign_extend(w, s.div(source, s.number(1 << 8 * (first & 3))), bits)
            count = 4 - place
        elif count == 4:
            part = source
        else:
            part = w.low_bits(s.div(source, s.number(1 << 8 * (first & 3))), bits)
        result = s.add(result, s.scale(part, 1 << 8 * place))
        place += count
    return (w.word(result),)


_RANK_ON_TOP = 0x654  # bytes: three of the address, the block's number above them


def _sign_extend(w: Words, value: Expression, bits: int) -> Expression:
    """The low bits as a signed number."""
    half = w.s.number(1 << bits - 1)
    return w.s.sub(w.low_bits(w.s.add(value, half), bits), half)


def _extend(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    signed, wraps = o.detail
    width = v[1].constant
    if width is None:
        return ()
    width = width % 32 if wraps else min(width % WORD, 32)
    if width == 32:
        return (v[0],)
    if width == 0:
        return (w.s.zero,)
    if not signed:
        return (w.low_bits(v[0], width),)
    if width == 1:
        return (w.s.scale(w.s.mod(v[0], w.s.number(2)), -1),)
    return (_sign_extend(w, v[0], width),)


def _dot(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    total = v[2]
    for byte in range(4):
        parts = (w.s.div(word, w.s.number(1 << 8 * byte)) for word in v[:2])
        left, right = (
            _sign_extend(w, part, 8) if signed else w.low_bits(part, 8)
            for part, signed in zip(parts, o.detail, strict=True)
        )
        total = w.s.add(total, w.s.mul(left, right))
    return (w.word(total),)


def _bit_field(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    start, count = (value.constant for value in v)
    if start is None or count is None:
        return ()
    start, count = (n % 32 if o.detail[0] else min(n % WORD, 32) for n in (start, count))
    return (w.word(w.s.number(((1 << count) - 1) << start)),)


def _absolute(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    number = w.as_signed(v[0])
    return (w.s.maximum(number, w.s.scale(number, -1)),)


def _count(function: Callable[[int, Micro], int]) -> Transfer:
    """Return the transfer of a function of bits, whose result is known only for a number."""

    def transfer(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
        number = v[0].constant
        return () if number is None else (w.word(w.s.number(function(number % WORD, o))),)

    return transfer


def _reverse_bits(number: int, o: Micro) -> int:
    return int(f"{number:032b}"[::-1], 2)


def _highest(number: int, o: Micro) -> int:
    signed, from_left = o.detail
    if signed and number >> 31:
        number ^= WORD - 1
    place = number.bit_length() - 1
    return (31 - place if from_left else place) if number else -1


# Choices and predicates


def _select(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    yes, no, condition = v
    if w.has_64_bits(yes) or w.has_64_bits(no):
        return (w.s.select(condition, yes, no),)
    return (w.select(condition, yes, no),)


def _decide(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    return (predicate_function(w.s, o.detail[0], v),)


def _compare(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    relation, signed = o.detail
    name = _RELATIONS.get(Relation(relation))
    if name is None:
        return (w.s.one if relation == Relation.ALWAYS else w.s.zero,)
    if signed:
        return (w.s.compare(name, w.as_signed(v[0]), w.as_signed(v[1])),)
    result = w.compare(name, v[0], v[1])
    w.note_low_words(result, name, v[0], v[1])
    return (result,)


def _compare_extended(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    """Compare extended numbers: high words decide unless they are equal. If the low words that
    ``below`` compares in the same way are known, pairs are compared."""
    s = w.s
    high, other, below = v
    name = _RELATIONS[Relation(o.detail[0])]
    low = w.low_words(below, name)
    if low is not None:
        pairs = w.pair(low[0], high), w.pair(low[1], other)
        return (w.compare_pairs(name, *pairs, signed=bool(o.detail[1])),)
    sign = w.as_signed if o.detail[1] else w.as_unsigned
    difference = s.sub(sign(high), sign(other))
    equal = s.logical_and(s.compare("==", difference, s.zero), below)
    if name == "==":
        return (equal,)
    return (s.logical_or(s.compare(_STRICT[name], difference, s.zero), equal),)


def _compare_wide(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    s = w.s
    relation, signed = o.detail
    name = _RELATIONS.get(Relation(relation))
    if name is None:
        return (s.one if relation == Relation.ALWAYS else s.zero,)
    pairs = w.pair(v[0], v[1]), w.pair(v[2], v[3])
    return (w.compare_pairs(name, *pairs, signed=bool(signed)),)


def _minimum(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    """Compute a minimum or maximum; unsigned words counted down below 0 are the largest."""
    s, (left, right, least) = w.s, v
    if o.detail[0]:
        left, right = w.as_signed(left), w.as_signed(right)
        return (s.select(least, s.minimum(left, right), s.maximum(left, right)),)
    if w.counted_down(left):
        left, right = right, left
    below = s.zero
    if w.counted_down(right):
        right = w.as_signed(right)
        below = s.compare("<", right, s.zero)
    else:
        right = w.as_unsigned(right)
    left = w.exact_unsigned(left) if w.counted_down(left) else w.as_unsigned(left)
    smaller = s.select(below, left, s.minimum(left, right))
    larger = s.select(below, s.add(right, s.number(WORD)), s.maximum(left, right))
    result = s.select(least, smaller, larger)
    return (result if below is s.zero else w.with_bounds(result, 0, WORD - 1),)


# Of warps: what is uniform is the same in all lanes


def _first(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    """Return the lowest lane's value if it depends on the lane: all lanes are taken as active."""
    s = w.s
    lane = _atom_of(s.variable("laneid"))
    return (s.substitute(w.assume_alike(v[0]), {lane: s.zero}, {}),)


def _vote(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    """Return, for a vote of all or any lanes, each lane's own predicate. A uniform instruction that
    not all lanes exclude, or that any lane demands, is executed by warps with such a lane."""
    plain = o.targets[0] < 0 and o.targets[1] in w.uniform
    return (None, w.assume_alike(v[0])) if plain else ()


def _shuffle(w: Words, o: Micro, v: Sequence[Expression]) -> Results:
    """Return the value of a named lane, with that lane's thread. All lanes are taken as active.

    ``__shfl_sync(mask, threadIdx.x / 32, 0)``, by which a warp says that it is uniform, is
    ``threadIdx.x / 32`` where rows of the block are whole warps, or where there is one row.
    """
    s, lane = w.s, v[1].constant
    if o.detail[0] != Shuffling.INDEX or v[2].constant != _WHOLE_WARP or lane is None:
        return ()
    lane %= WARP_LANES
    own = {_atom_of(s.variable("laneid")): s.number(lane)}
    threads = [s.variable(name) for name in _THREAD]
    free = s.free_atoms(v[0])
    if not free.isdisjoint(map(_atom_of, threads)):
        own |= dict(zip(map(_atom_of, threads), _thread_of_lane(s, lane), strict=True))
    return (s.substitute(v[0], own, {}), s.one)


def _thread_of_lane(s: ExpressionPool, lane: int) -> tuple[Expression, ...]:
    """``threadIdx`` of a lane of one's own warp."""
    x, y, z = (s.variable(name) for name in _THREAD)
    width, rows, layers = (s.variable(name) for name in _BLOCK)
    warp, more = s.number(WARP_LANES), s.sub(s.mul(rows, layers), s.one)

    def at_lane(number: Expression) -> Expression:
        return s.add(s.sub(number, s.mod(number, warp)), s.number(lane))

    in_rows = s.compare("==", s.mul(s.mod(width, warp), more), s.zero)
    place = at_lane(s.add(x, s.mul(width, s.add(y, s.mul(rows, z)))))
    row = s.div(place, width)
    return (
        s.select(in_rows, at_lane(x), s.mod(place, width)),
        s.select(in_rows, y, s.mod(row, rows)),
        s.select(in_rows, z, s.div(row, rows)),
    )


def _atom_of(variable: Expression) -> int:
    """The atom of a variable."""
    return variable.terms[0][0][0]


TRANSFERS: Mapping[Kind, Transfer] = {
    Kind.MOVE: _move, Kind.ADD: _add, Kind.MULTIPLY: _multiply,
    Kind.MULTIPLY_WIDE: _multiply_wide, Kind.LOGIC: _logic, Kind.SHIFT: _shift,
    Kind.PERMUTE: _permute, Kind.EXTEND: _extend, Kind.BIT_FIELD: _bit_field, Kind.DOT: _dot,
    Kind.ABSOLUTE: _absolute, Kind.COUNT_BITS: _count(lambda n, o: n.bit_count()),
    Kind.REVERSE_BITS: _count(_reverse_bits), Kind.FIND_BIT: _count(_highest),
    Kind.SELECT: _select, Kind.DECIDE: _decide,
    Kind.COMPARE: _compare, Kind.COMPARE_EXTENDED: _compare_extended,
    Kind.COMPARE_WIDE: _compare_wide, Kind.MINIMUM: _minimum, Kind.FIRST: _first,
    Kind.VOTE: _vote, Kind.SHUFFLE: _shuffle,
    Kind.FROM_INTEGER: _from_integer, Kind.FLOAT_FUNCTION: _float_function,
    Kind.TO_INTEGER: _to_integer,
}  # fmt: skip
"""Kinds that have none give values that depend on data, or none at all."""
