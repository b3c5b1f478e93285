"""Symbolic words and pairs of words, exact modulo 2³² and 2⁶⁴.

A register holds an expression ``e`` that its word is congruent to: sums, products and bit
operations of low words need no more. The high word of a 64-bit ``e`` is ``e // 2³²``, so that

    pair(low, high) = low + 2³² · (high − low // 2³²)

is ``e`` again whichever registers the halves went through, and a carry
``(a + b) // 2³² − a // 2³² − b // 2³²`` cancels against the high words that it is added to.
Example: ``IADD3 R2, P0, R4, R6`` and ``IADD3.X R3, R5, R7, P0`` of two pairs A and B leave
``A + B`` in R2, ``A // 2³² + B // 2³² + carry = (A + B) // 2³²`` in R3.

Where the number that a word means must be known (comparisons, right shifts, wide products), it is
the expression itself if that is sure to fit, the exact ``e − 2³² · (e // 2³²)`` if ``e`` has 64
bits, else it is *assumed* to fit: :attr:`Words.ranges` lists what was assumed. Correct kernels keep
indices within their types; executed blocks check what follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from perfassert.kernel.expression_pool import Atom, Expression, ExpressionPool
from perfassert.kernel.names import LIMITS, LoopCounter

WORD = 1 << 32
_HALF = 1 << 31
_INFINITE = 1 << 200
_INDEX = (1 << 41) + (1 << 12)
"""Bound on thread numbers: no thread of any launch has a number as large."""
_MIXES = 1 << 28
"""Bound on the steps of an index; factors that mix bits are larger."""
_SPLITS = 3  # times that a pair is divided by cases


class Range(NamedTuple):
    """``value`` was taken to be at least ``low`` and at most ``high``."""

    value: Expression
    low: int
    high: int


class Words:
    """Arithmetic of symbolic words and pairs of words.

    ``uniform``: registers that hold one word per warp; ``wide``: atoms that have 64 bits;
    ``ranges``: what was assumed so far, each range once; ``alike``: what was assumed to be the same
    in all lanes of a warp, by its index.
    """

    def __init__(self, symbols: ExpressionPool, uniform: frozenset[int] = frozenset()) -> None:
        self.s = symbols
        self.uniform = uniform
        self.wide: set[int] = set()
        self.ranges: dict[tuple[int, int, int], Range] = {}
        self.alike: dict[int, Expression] = {}
        self._is_wide: dict[int, bool] = {}
        self._bounds: dict[int, tuple[int, int]] = {}
        self._pairs: dict[tuple[int, int], Expression] = {}
        self._low: dict[int, tuple[str, Expression, Expression]] = {}
        self._signs: dict[int, Expression] = {}  # what a word of ones or zeros is the sign of

    # Numbers that words mean

    def as_signed(self, value: Expression) -> Expression:
        """The word as a signed number."""
        number = value.constant
        if number is not None:
            return self.s.number((number + _HALF) % WORD - _HALF)
        low, high = self.bounds(value)
        if low >= -_HALF and high < _HALF:
            return value
        if self.has_64_bits(value) or self._wraps(value):
            return self._wrap(value, _HALF)
        return self.assume(value, -_HALF, _HALF - 1)

    def as_unsigned(self, value: Expression) -> Expression:
        """The word as an unsigned number."""
        number = value.constant
        if number is not None:
            return self.s.number(number % WORD)
        if self._fits(value):
            return value
        if self.s.remainder_divisor(value) is not None:
            return self._index(value)
        if self.has_64_bits(value) or self._wraps(value):
            return self._wrap(value, 0)
        return self._index(value)

    def factor(self, value: Expression, other: Expression) -> Expression:
        """The word as an unsigned number that is multiplied by another one.

        One that may be below 0 is often the low half of an extended sign, whose product with the
        high half is added later; but not where a quotient is a product with a magic number.
        """
        number = other.constant
        magic = number is not None and number % WORD >= _MIXES
        if magic or self.bounds(value)[0] >= 0 or value.constant is not None:
            return self.as_unsigned(value)
        return self.exact_unsigned(value)

    def _is_index(self, value: Expression) -> bool:
        """Return True if the value may number threads: no magic-number product does."""
        low, high = self.bounds(value)
        return low >= 0 and high < _INDEX and not self._wraps(value)

    def _wraps(self, value: Expression) -> bool:
        """Return True if the expression exceeds 32 bits on purpose, as that of a hash does."""
        return any(abs(c) >= _MIXES for m, c in value.terms if m)

    def exact_unsigned(self, value: Expression) -> Expression:
        """The word as an unsigned number; nothing is assumed of what may be below 0."""
        return self._wrap(value, 0)

    def counted_down(self, value: Expression) -> bool:
        """Return True if what is subtracted may be more, as in ``min(i - 1u, n)``."""
        return value.constant is None and value.offset() < 0 and self.bounds(value)[0] < 0

    def _fits(self, value: Expression) -> bool:
        low, high = self.bounds(value)
        return low >= 0 and high < WORD

    def _index(self, value: Expression) -> Expression:
        return self.assume(value, 0, WORD - 1)

    def _wrap(self, value: Expression, offset: int) -> Expression:
        s = self.s
        rounds = self.high(s.add(value, s.number(offset)))
        return s.sub(value, s.scale(rounds, WORD))

    def assume(self, value: Expression, low: int, high: int) -> Expression:
        """The value, noted to lie in a range."""
        least, most = self.bounds(value)
        if least < low or most > high:
            self.ranges.setdefault((value.index, low, high), Range(value, low, high))
        return value

    def close(self, closed: Callable[[Expression], Expression]) -> None:
        """Put the closed forms of a loop into what was assumed in it."""
        for key, (value, low, high) in list(self.ranges.items()):
            self.ranges[key] = Range(closed(value), low, high)
        for index, value in list(self.alike.items()):
            self.alike[index] = closed(value)

    def assume_alike(self, value: Expression) -> Expression:
        """The value, noted to be the same in all lanes of a warp."""
        return self.alike.setdefault(value.index, value)

    def has_64_bits(self, value: Expression) -> bool:
        """Return True if the expression is the low half of a pair, as far as one can tell."""
        known = self._is_wide.get(value.index)
        if known is None:
            atoms = (self.s.atoms[a] for a in value.atoms)
            known = self._is_wide[value.index] = any(map(self._wide_atom, atoms))
        return known

    def _wide_atom(self, atom: Atom) -> bool:
        if not atom.function:
            return atom.index in self.wide
        if atom.function in _CONDITIONS or self._is_high(atom):
            return False
        parts = atom.arguments[1:] if atom.function == "select" else atom.arguments
        return any(map(self.has_64_bits, parts))

    def mark_wide(self, value: Expression) -> Expression:
        """A product of 64 bits; what numbers threads is one of 32."""
        if not self._is_index(value):
            self._is_wide[value.index] = True
        return value

    # Parts

    def low_bits(self, value: Expression, bits: int) -> Expression:
        """The remainder by ``2^bits``."""
        low, high = self.bounds(value)
        return (
            value if low >= 0 and not high >> bits else self.s.mod(value, self.s.number(1 << bits))
        )

    def word(self, value: Expression) -> Expression:
        """The expression less what is a multiple of 2³²."""
        if all(c % WORD for m, c in value.terms if m) and -_HALF <= value.offset() < _HALF:
            return value
        terms = {m: c for m, c in value.terms if c % WORD}
        if () in terms:
            terms[()] = (terms[()] + _HALF) % WORD - _HALF
        return self.s.polynomial(terms)

    def high(self, value: Expression) -> Expression:
        """The high word of a 64-bit expression."""
        low, high = self.bounds(value)
        if low >= 0 and high < WORD:
            return self.s.zero
        if self._is_index(value) and not self.has_64_bits(value):
            self._index(value)
            return self.s.zero
        return self.s.div(value, self.s.number(WORD))

    def pair(self, low: Expression, high: Expression) -> Expression:
        """The 64-bit expression of two words."""
        key = (low.index, high.index)
        value = self._pairs.get(key)
        if value is None:
            value = self._pairs[key] = self._pair(low, high, _SPLITS)
        return value

    def address(self, low: Expression, high: Expression) -> Expression:
        """The 64-bit expression of an address; of loaded words the first one stands for both."""
        loaded = self.s.depends_on_data(low) and self.s.depends_on_data(high)
        return low if loaded else self.pair(low, high)

    def _pair(self, low: Expression, high: Expression, splits: int) -> Expression:
        s, number = self.s, high.constant
        if number is not None and not self.has_64_bits(low):  # extended with zeros
            return s.add(self.as_unsigned(low), s.number(number * WORD))
        rest = s.scale(s.sub(high, self.high(low)), WORD)
        number = rest.constant
        if number is not None:  # of the highest bits only the sign counts
            return s.add(low, s.number((number + (1 << 63)) % (1 << 64) - (1 << 63)))
        chosen = self._choice(rest) if splits else None
        if chosen is None:
            return s.add(low, rest)
        yes, no = (
            self._pair(self._assume_condition(low, c), self._assume_condition(high, c), splits - 1)
            for c in (chosen, s.logical_not(chosen))
        )
        return self.select(chosen, yes, no)

    def _is_high(self, atom: Atom) -> bool:
        return atom.function == "//" and atom.arguments[1].constant == WORD

    def _choice(self, rest: Expression) -> Expression | None:
        """Return a condition by which one of two pairs was chosen half by half."""
        for index in sorted(rest.atoms):
            atom = self.s.atoms[index]
            if atom.function == "select":
                return atom.arguments[0]
            if self._is_high(atom):
                inner = (self.s.atoms[a] for a in sorted(self.s.free_atoms(atom.arguments[0])))
                for chosen in inner:
                    if chosen.function == "select":
                        return chosen.arguments[0]
        return None

    def _assume_condition(self, value: Expression, condition: Expression) -> Expression:
        facts = frozenset(part.index for part in self.s.conjuncts(condition))
        return self.s.assuming(value, facts)

    # Operations that need numbers

    def carry(self, terms: Sequence[tuple[Expression, bool]]) -> Expression:
        """Return how often 2³² goes into a sum of unsigned words, of which some are negated."""
        s = self.s
        total, rounds = s.zero, s.zero
        for value, negated in terms:
            if negated:  # 2³² − word
                total, rounds = s.sub(total, value), s.add(rounds, self.high(value), s.one)
            else:
                total, rounds = s.add(total, value), s.sub(rounds, self.high(value))
        plain = any(not negated for _, negated in terms)  # of 2³² − 1 at most, others of 2³²
        return self.with_bounds(s.add(self.high(total), rounds), 0, len(terms) - plain)

    def with_bounds(self, value: Expression, low: int, high: int) -> Expression:
        """The value, which is known to lie in a range."""
        least, most = self.bounds(value)
        self._bounds[value.index] = max(least, low), min(most, high)
        return value

    def note_low_words(
        self, comparison: Expression, relation: str, left: Expression, right: Expression
    ) -> None:
        """Note that ``comparison`` compares these unsigned words, perhaps low words of pairs."""
        if comparison.constant is None:
            self._low[comparison.index] = relation, left, right

    def low_words(
        self, comparison: Expression, relation: str
    ) -> tuple[Expression, Expression] | None:
        """The words that ``comparison`` relates so, from left to right."""
        known, left, right = self._low.get(comparison.index, ("", comparison, comparison))
        if known == relation:
            return left, right
        return (right, left) if known and _MIRRORED[known] == relation else None

    def shift_right(self, value: Expression, amount: Expression) -> Expression:
        """``value // 2^amount``."""
        number = amount.constant
        low, high = self.bounds(value)
        if number is not None and low >> number == high >> number:
            return self.s.number(low >> number)
        return self.s.shift_right(value, amount)

    def sign_word(self, value: Expression) -> Expression:
        """32 times the sign of a word: the high word of the extended number."""
        if self.bounds(value)[0] >= 0:
            self.assume(value, 0, _HALF - 1)
            return self.s.zero
        sign = self.high(value)
        self._signs[sign.index] = value
        return sign

    def logical_right(self, value: Expression, amount: Expression) -> Expression:
        """The word's bits shifted right, zeros coming in."""
        s, number = self.s, amount.constant
        sign = self._sign(value)
        if number is not None and sign is not None and 0 <= number < 32:
            return s.scale(sign, (1 << 32 - number) - 1)
        if number == 31 and not self.has_64_bits(value):
            return s.negative(self.as_signed(value))
        return self.shift_right(self.as_unsigned(value), amount)

    def _sign(self, value: Expression) -> Expression | None:
        """Return 1 if the value is a word of ones, 0 if it is 0; None for any other value."""
        signed = self._signs.get(value.index)
        if signed is not None:
            return self.s.negative(signed)
        negated = self.s.scale(value, -1)
        return negated if self.bounds(negated) == (0, 1) else None

    def compare(self, relation: str, left: Expression, right: Expression) -> Expression:
        """Compare unsigned words. Words below 0 are above all others: ``0 <= x < n`` is one
        comparison, and so is ``-4 < x < 0``."""
        s = self.s
        if left.constant is not None and right.constant is None:
            return self.compare(_MIRRORED[relation], right, left)
        plain = relation in ("==", "!=") or self.bounds(left)[0] >= 0
        if plain or left.constant is not None or self.has_64_bits(left):
            return s.compare(relation, self.as_unsigned(left), self.as_unsigned(right))
        number = right.constant
        above = number is not None and (number + _HALF) % WORD < _HALF
        if not above and left.offset() >= 0:
            return s.compare(relation, self.as_unsigned(left), self.as_unsigned(right))
        left = self.as_signed(left)
        result = s.compare(
            relation, left, self.as_signed(right) if above else self.as_unsigned(right)
        )
        inside = s.compare(">=", left, s.zero)
        if relation[0] == ">":
            inside = s.logical_not(inside)
        return (
            s.logical_or(inside, result)
            if above == (relation[0] == "<")
            else s.logical_and(inside, result)
        )

    def compare_pairs(
        self, relation: str, left: Expression, right: Expression, signed: bool
    ) -> Expression:
        """Compare numbers of 64 bits; as unsigned numbers, those below 0 are above all others."""
        s = self.s
        if signed or relation in ("==", "!="):
            pairs = (self.assume(v, -_HALF * WORD, _HALF * WORD - 1) for v in (left, right))
            return s.compare(relation, *pairs)
        result = s.compare(relation, left, self.assume(right, 0, _HALF * WORD - 1))
        self.assume(left, -_HALF * WORD, _HALF * WORD - 1)
        if left.offset() >= 0:
            self.assume(left, 0, _HALF * WORD - 1)
            return result
        inside = s.compare(">=", left, s.zero)
        return (
            s.logical_and(inside, result)
            if relation[0] == "<"
            else s.logical_or(s.logical_not(inside), result)
        )

    def select(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """``condition ? yes : no``; ``a < b ? a : b`` is the smaller one."""
        s = self.s
        atom, extremes = s.lone_atom(condition), (s.minimum, s.maximum)
        if atom is not None and atom.function == "not":
            atom, extremes = s.lone_atom(atom.arguments[0]), (s.maximum, s.minimum)
        if atom is not None and atom.function == "<":
            differences = (s.sub(yes, no), s.sub(no, yes))
            for extreme, difference in zip(extremes, differences, strict=True):
                if atom.arguments[0] is difference:
                    return extreme(yes, no)
        return s.select(condition, yes, no)

    # Bounds

    def bounds(self, value: Expression) -> tuple[int, int]:
        """The least and the greatest that the value may be on any launch."""
        bounds = self._bounds.get(value.index)
        if bounds is None:
            low = high = 0
            for monomial, coefficient in value.terms:
                least = most = coefficient
                for index in monomial:
                    ends = self._atom_bounds(self.s.atoms[index])
                    products = [a * b for a in (least, most) for b in ends]
                    least, most = min(products), max(products)
                low, high = low + least, high + most
            divisor = self.s.remainder_divisor(value)
            if divisor is not None and (divisor.constant or 0) > 0:
                low, high = 0, (divisor.constant or 0) - 1
            bounds = self._bounds[value.index] = (max(low, -_INFINITE), min(high, _INFINITE))
        return bounds

    def _atom_bounds(self, atom: Atom) -> tuple[int, int]:
        if not atom.function:
            if atom.index in self.wide:
                return -(1 << 63), 1 << 63
            if isinstance(atom.name, LoopCounter):
                return 0, _HALF
            return LIMITS.get(atom.name, _ANY)
        if atom.function in _CONDITIONS:
            return 0, 1
        known = _BOUNDS.get(atom.function)
        if known is None:
            return _ANY if atom.function == "data" else (-_INFINITE, _INFINITE)
        return known([self.bounds(a) for a in atom.arguments])


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_ANY = (-_HALF, WORD - 1)
_CONDITIONS = frozenset(("<", "==", "not", "and", "or", "negative"))
_Ends = tuple[int, int]


def _of_quotient(ends: list[_Ends]) -> _Ends:
    (low, high), (least, most) = ends
    if least == most and least > 0:
        return low // least, high // least
    return (0, high) if low >= 0 and least >= 0 else (-_INFINITE, _INFINITE)


def _of_bits(ends: list[_Ends]) -> _Ends:
    if any(low < 0 for low, _ in ends):
        return -_INFINITE, _INFINITE
    return 0, (1 << max(high for _, high in ends).bit_length()) - 1


_BOUNDS: dict[str, Callable[[list[_Ends]], _Ends]] = {
    "//": _of_quotient, "^": _of_bits, "|": _of_bits,
    "&": _of_bits,
    "min": lambda e: (min(low for low, _ in e), min(h for _, h in e)),
    "max": lambda e: (max(low for low, _ in e), max(h for _, h in e)),
    "select": lambda e: (min(low for low, _ in e[1:]), max(h for _, h in e[1:])),
    "<<": lambda e: (0, 1 << 63), "halvings": lambda e: (0, 64), "doublings": lambda e: (0, 64),
    "inverse": lambda e: (0, WORD - 1),
}  # fmt: skip
