"""Hash-consed symbolic integers: polynomials over coordinates, parameters and loop counters.

An :class:`Expression` is ``Σ coefficient · product of atoms``. Equal expressions are one object, so
that equality is ``is`` and results of operations can be cached. A function that is not a polynomial
(floor division, minimum, selection, bit operations) is an atom with expressions as arguments.
Arithmetic is that of the integers, without wrap-around at 2³²: addresses and sizes do not wrap in
correct kernels.

Example: with atoms 0 and 1 for ``x`` and ``n``, the expression ``n·x + 4·x + 5`` has the terms
``((), 5), ((0,), 4), ((0, 1), 1)``: pairs of a monomial (atoms in order) and its coefficient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from perfassert.kernel.affine import IntArray, apply
from perfassert.kernel.names import LIMITS, Name, never_negative

Monomial = tuple[int, ...]
_MAX_TERMS = 64  # of a sum: larger ones become one unknown, as do the next four
_MAX_DEGREE = 8
_MAX_BITS = 256  # of a coefficient
_MAX_DEPTH = 100  # of calls in calls
_MAX_SIZE = 4096  # nodes
_WIDE = 2**40  # coefficients of numbers that may leave 64 bits
_WORD = 2**32  # of registers: larger numbers are pairs


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """An indivisible part of an expression.

    ``function`` is empty for a variable, ``"data"`` for an unknown value, or the name of a function
    of ``arguments``.
    """

    index: int
    function: str
    name: Name
    arguments: tuple[Expression, ...]


class Expression:
    """A polynomial; only :class:`ExpressionPool` makes them, so that equal ones are identical."""

    __slots__ = ("atoms", "index", "terms")

    def __init__(self, index: int, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.index = index
        self.terms = terms
        self.atoms = frozenset(a for monomial, _ in terms for a in monomial)

    @property
    def constant(self) -> int | None:
        """The value of a constant expression; None if the expression is not constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def offset(self) -> int:
        """Return the constant term."""
        return self.terms[0][1] if self.terms and not self.terms[0][0] else 0


class ExpressionPool:
    """Pool of all expressions of one kernel, which makes each distinct expression once."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._values: dict[tuple[tuple[Monomial, int], ...], Expression] = {}
        self._atoms: dict[tuple[str, Name, tuple[int, ...]], Expression] = {}
        self._products: dict[tuple[int, int], Expression] = {}
        self._within: dict[int, frozenset[int]] = {}
        self._extent: list[tuple[int, int]] = []  # depth and written-out size of every atom
        self._wide: dict[int, bool] = {}
        self._signs: dict[int, bool] = {}
        self._assuming: dict[tuple[int, frozenset[int]], Expression] = {}
        self.zero = self.number(0)
        self.one = self.number(1)

    # Making expressions

    def polynomial(self, terms: Mapping[Monomial, int]) -> Expression:
        """Return the expression ``Σ coefficient · product of atoms``."""
        key = tuple(sorted((m, c) for m, c in terms.items() if c))
        value = self._values.get(key)
        if value is None:
            if any(c.bit_length() > _MAX_BITS for _, c in key):
                value = self.unknown(f"a number of too many bits, {len(self._values)}")
            else:
                value = Expression(len(self._values), key)
            self._values[key] = value
        return value

    def number(self, value: int) -> Expression:
        """Return a constant expression."""
        return self.polynomial({(): value})

    def variable(self, name: Name) -> Expression:
        """Return the expression of a coordinate, a parameter or a loop counter."""
        return self._atom("", name, ())

    def unknown(self, name: str, *arguments: Expression) -> Expression:
        """Return an unknown value, which depends on data or could not be followed.

        ``name`` gives the reason. Three ``arguments`` are a condition that depends on data, and the
        two values between which it selects.
        """
        return self._atom("data", name, arguments)

    def call(self, function: str, *arguments: Expression) -> Expression:
        """Return a function of expressions as an atom, without simplification."""
        return self._atom(function, "", arguments)

    def _atom(self, function: str, name: Name, arguments: tuple[Expression, ...]) -> Expression:
        key = (function, name, tuple(a.index for a in arguments))
        value = self._atoms.get(key)
        if value is None:
            depth, size = self._measure(function, arguments)
            if depth > _MAX_DEPTH or size > _MAX_SIZE:
                # Later passes walk expressions recursively, and walk a shared part each time.
                name = name or f"an expression too large to follow, {len(self.atoms)}"
                value = self._atoms[key] = self._atom("data", name, ())
                return value
            self._extent.append((depth, size))
            atom = Atom(len(self.atoms), function, name, arguments)
            self.atoms.append(atom)
            value = self._atoms[key] = self.polynomial({(atom.index,): 1})
        return value

    def _measure(self, function: str, arguments: tuple[Expression, ...]) -> tuple[int, int]:
        inner = [self._extent[a] for v in arguments for m, _ in v.terms for a in m]
        depth = 1 + max((d for d, _ in inner), default=0)
        return depth, 1 if function == "data" else 1 + sum(s for _, s in inner)

    def wide(self, value: Expression) -> bool:
        """Return True if a coefficient is 2⁴⁰ or more, as in hashes, whose arithmetic wraps."""
        wide = self._wide.get(value.index)
        if wide is None:
            wide = any(abs(c) >= _WIDE for _, c in value.terms) or any(
                self.wide(argument)
                for a in value.atoms
                if self.atoms[a].function != "data"
                for argument in self.atoms[a].arguments
            )
            self._wide[value.index] = wide
        return wide

    # Arithmetic

    def add(self, *values: Expression) -> Expression:
        """Return the sum of values."""
        terms: dict[Monomial, int] = {}
        for value in values:
            for monomial, coefficient in value.terms:
                terms[monomial] = terms.get(monomial, 0) + coefficient
        return self._limit_terms(terms)

    def sub(self, left: Expression, right: Expression) -> Expression:
        """Return ``left − right``."""
        return self.add(left, self.scale(right, -1))

    def scale(self, value: Expression, factor: int) -> Expression:
        """Return ``factor · value``."""
        if factor == 1:
            return value
        return self.polynomial({m: c * factor for m, c in value.terms})

    def mul(self, left: Expression, right: Expression) -> Expression:
        """Return the product."""
        for factor, rest in ((left, right), (right, left)):
            number = factor.constant
            if number is not None:
                return self.scale(rest, number)
        key = (min(left.index, right.index), max(left.index, right.index))
        product = self._products.get(key)
        if product is None and _degree(left) + _degree(right) > _MAX_DEGREE:
            product = self._products[key] = self.unknown("a power", left, right)
        if product is None:
            terms: dict[Monomial, int] = {}
            for m, c in left.terms:
                for n, d in right.terms:
                    monomial = tuple(sorted(m + n))
                    terms[monomial] = terms.get(monomial, 0) + c * d
            product = self._products[key] = self._limit_terms(terms)
        return product

    def _limit_terms(self, terms: dict[Monomial, int]) -> Expression:
        if len(terms) <= _MAX_TERMS:
            return self.polynomial(terms)
        return self.unknown(f"an expression of {len(terms)} terms", self.polynomial(terms))

    def div(self, dividend: Expression, divisor: Expression) -> Expression:
        """Return the floor quotient; multiples of a constant divisor are taken out of it.

        A quotient of a quotient by powers of two becomes one quotient.
        """
        number = divisor.constant
        if number == 1:
            return dividend
        inner = self.lone_atom(dividend)
        shifted = inner is not None and inner.function == "//" and self._power(inner.arguments[1])
        if inner and shifted and (self._power(divisor) or (number is not None and number > 0)):
            return self.div(inner.arguments[0], self.mul(inner.arguments[1], divisor))
        if number is None or number <= 0:
            if dividend is self.zero:
                return self.zero
            return self.call("//", dividend, divisor)
        # (8x + 2y + 5) // 4: `whole` = 2x + 1, `rest` = 2y + 1; 5 is divided into 1 and 1.
        whole, rest = {}, {}
        for monomial, coefficient in dividend.terms:
            if coefficient % number == 0:
                whole[monomial] = coefficient // number
            elif not monomial or (number >= _WORD and abs(coefficient) > number):
                whole[monomial], rest[monomial] = divmod(coefficient, number)
            else:
                rest[monomial] = coefficient
        if not any(rest):  # a constant remainder below the divisor
            return self.polynomial(whole)
        return self.add(self.polynomial(whole), self._quotient(self.polynomial(rest), number))

    def _quotient(self, dividend: Expression, divisor: int) -> Expression:
        """Simplify a floor quotient by a constant.

        Compilers write ``x // d`` as ``(M · x) // 2ᵏ`` with a large M; ``x // d`` is recovered. A
        quotient of a quotient becomes one quotient.
        """
        # (6x + 4) // 8 → (3x + 2) // 4. (0xAAAAAAAB · x) // 2³³ → x // 3. (x // 4) // 3 → x // 12.
        factor = gcd(*(c for _, c in dividend.terms))
        common = gcd(factor, divisor)
        if common > 1:
            inside = self.polynomial({m: c // common for m, c in dividend.terms})
            return self.div(inside, self.number(divisor // common))
        plain = divided_by(factor, divisor)
        if plain:
            inside = self.polynomial({m: c // factor for m, c in dividend.terms})
            return self.div(inside, self.number(plain))
        if _is_atom(dividend):
            atom = self.atoms[dividend.terms[0][0][0]]
            inner = atom.arguments[1].constant if atom.function == "//" else None
            if inner:
                return self.div(atom.arguments[0], self.number(inner * divisor))
        return self.call("//", dividend, self.number(divisor))

    def _power(self, value: Expression) -> bool:
        """Return True if the value is a constant above 0 times powers ``1 << n`` of unknown n."""
        if len(value.terms) != 1 or value.terms[0][1] < 1:
            return False
        factors = value.terms[0][0]
        return bool(factors) and all(self.atoms[a].function == "<<" for a in factors)

    def mod(self, value: Expression, divisor: Expression) -> Expression:
        """Return the floor remainder, as value − divisor · quotient."""
        return self.sub(value, self.mul(divisor, self.div(value, divisor)))

    def minimum(self, left: Expression, right: Expression) -> Expression:
        """Return the smaller of two values."""
        return self._extreme("min", left, right)

    def maximum(self, left: Expression, right: Expression) -> Expression:
        """Return the larger of two values."""
        return self._extreme("max", left, right)

    def _extreme(self, function: str, left: Expression, right: Expression) -> Expression:
        if left is right:
            return left
        difference = self.sub(left, right)
        if difference.constant is not None:
            return left if (difference.constant < 0) == (function == "min") else right
        for more, one, other in ((difference, left, right), (None, right, left)):
            if self.nonnegative(more or self.sub(right, left)):
                return one if function == "max" else other
        common = self._common(left, right)
        if common is not self.zero:
            return self.add(common, self._extreme(function, self.sub(left, common),
                                                  self.sub(right, common)))  # fmt: skip
        if right.index < left.index:
            left, right = right, left
        return self.call(function, left, right)

    def bit_and(self, left: Expression, right: Expression) -> Expression:
        """Return the bitwise and, as remainder or multiple if the mask is a run of ones.

        Other masks remain bit operations.
        """
        # x & 15 = x mod 16. x & −8 = 8 · (x // 8). x & 24, ones at bits 3, 4: 8 · (x // 8) mod 32.
        for value, mask in ((left, right), (right, left)):
            number = mask.constant
            if number is None:
                continue
            if number == 0:
                return self.zero
            if number == -1:
                return value
            own = value.constant
            if own is not None:
                return self.number(own & number)
            if number > 0 and number & (number + 1) == 0:
                return self.mod(value, self.number(number + 1))
            limit = self.power_of_two_bound(value)
            if limit and (limit - 1) & ~number == 0:
                return value  # it has no bit that the mask clears
            low = number & -number
            top = number + low if number > 0 else 0
            run = top & (top - 1) == 0 if number > 0 else number == -low
            if run:  # a run of ones: bits below `low` cleared
                cleared = self.mul(self.number(low), self.div(value, self.number(low)))
                return self.mod(cleared, self.number(top)) if top and top < 2**29 else cleared
        return self._bits("&", left, right)

    def bit_or(self, left: Expression, right: Expression) -> Expression:
        """Return the bitwise or; it is a sum if the operands have no bit in common."""
        # 8x | (y mod 8) = 8x + y mod 8: the multiple of 8 has no bit below 8.
        if left is self.zero or right is self.zero:
            return self.add(left, right)
        for value, other in ((left, right), (right, left)):
            below = self.power_of_two_bound(other)
            if below and all(c % below == 0 for _, c in value.terms):
                return self.add(value, other)
        return self._bits("|", left, right)

    def bit_xor(self, left: Expression, right: Expression) -> Expression:
        """Return the exclusive or.

        ``x ^ −1`` is ``−x − 1``. ``a ^ (a ^ b)`` is ``b``: compilers exchange two registers by
        exclusive ors.
        """
        if left is right:
            return self.zero
        for value, other in ((left, right), (right, left)):
            parts = self._xor_operands(value)
            if len(parts) == 2 and other in parts:
                return parts[1] if parts[0] is other else parts[0]
        for value, other in ((left, right), (right, left)):
            if other.constant == -1:
                return self.add(self.scale(value, -1), self.number(-1))
            if other is self.zero:
                return value
        return self._bits("^", left, right)

    def _xor_operands(self, value: Expression) -> tuple[Expression, ...]:
        atom = self.lone_atom(value)
        return atom.arguments if atom is not None and atom.function == "^" else ()

    def _bits(self, function: str, left: Expression, right: Expression) -> Expression:
        if left is right:
            return left
        a, b = left.constant, right.constant
        if a is not None and b is not None:
            return self.number(a & b if function == "&" else a | b if function == "|" else a ^ b)
        if right.index < left.index:
            left, right = right, left
        return self.call(function, left, right)

    def power_of_two_bound(self, value: Expression) -> int:
        """Return a power of two above the value, which is then at least 0; 0 if none is known."""
        number = value.constant
        if number is not None:
            return 1 << number.bit_length() if number >= 0 else 0
        if len(value.terms) == 2:  # x − d · (x // d) is below d
            for (m, c), (n, d) in (value.terms, value.terms[::-1]):
                if len(n) == 1 and self.atoms[n[0]].function == "//" and c == 1:
                    inner, divisor = self.atoms[n[0]].arguments
                    if divisor.constant == -d and inner is self.polynomial({m: 1}):
                        return 1 << (-d - 1).bit_length()
        return _MAXIMA.get(self.atoms[value.terms[0][0][0]].name, 0) if _is_atom(value) else 0

    def shift_left(self, value: Expression, amount: Expression) -> Expression:
        """Return ``value · 2^amount``; 0 for a constant amount of 64 or more."""
        number = amount.constant
        if number is None:
            return self.mul(value, self.call("<<", self.one, amount))
        if number < 0:
            return self.unknown(f"a shift by {number}", value)
        return self.scale(value, 1 << number) if number < 64 else self.zero

    def shift_right(self, value: Expression, amount: Expression) -> Expression:
        """Return ``value // 2^amount``: the arithmetic shift, and the logical one if value ≥ 0."""
        number = amount.constant
        if number is None:
            return self.div(value, self.call("<<", self.one, amount))
        if number < 0:
            return self.unknown(f"a shift by {number}", value)
        return self.div(value, self.number(1 << min(number, 64)))

    def negative(self, value: Expression) -> Expression:
        """Return the sign bit: 1 if the value is below 0, else 0."""
        number = value.constant
        if number is not None:
            return self.one if number < 0 else self.zero
        return self.zero if self.nonnegative(value) else self.call("negative", value)

    # Conditions: values that are 0 or 1

    def compare(self, relation: str, left: Expression, right: Expression) -> Expression:
        """Return the condition ``left relation right``; relations are ``< <= > >= == !=``."""
        if relation in (">", "<="):
            left, right = right, left
            relation = "<" if relation == ">" else ">="
        if relation in (">=", "!="):
            return self.logical_not(self.compare("<" if relation == ">=" else "==", left, right))
        difference = self.sub(left, right)
        number = difference.constant
        if number is not None:
            return self.one if (number < 0 if relation == "<" else number == 0) else self.zero
        if relation == "<" and self.nonnegative(difference):
            return self.zero
        if relation == "<" and self._below_divisor(difference):
            return self.one
        if relation == "==" and difference.terms[-1][1] < 0:
            difference = self.scale(difference, -1)
        parts = self._split_extremes(relation, difference)
        return self.call(relation, difference, self.zero) if parts is None else parts

    def _split_extremes(self, relation: str, difference: Expression) -> Expression | None:
        """Write ``max(a, b) < c`` as ``a < c and b < c``; None if there is nothing to split.

        Compilers merge guards into such a comparison. ``difference`` is compared with 0.
        """
        # max(x, y) − n < 0: factor 1, rest −n, so x − n < 0 and y − n < 0. min(x, y) − n < 0: or.
        if relation == "==":
            return self._all_zero(difference)
        for monomial, factor in difference.terms:
            atom = self.atoms[monomial[0]] if len(monomial) == 1 else None
            if atom is None or not self._parts_below(atom, factor, difference):
                continue
            rest = self.sub(difference, self.polynomial({monomial: factor}))
            left, right = (
                self.compare("<", self.add(rest, self.scale(a, factor)), self.zero)
                for a in atom.arguments
            )
            least = (atom.function == "min") == (factor > 0)
            return self.logical_or(left, right) if least else self.logical_and(left, right)
        return None

    def _parts_below(self, atom: Atom, factor: int, difference: Expression) -> bool:
        """Return True if a comparison with 0 can be split into one for each argument of the atom.

        Of several minima and maxima none is split, since each would double the comparisons.
        ``a | b`` is below a power of two if both a and b are.
        """
        if atom.function in ("min", "max"):
            extremes = [a for a in difference.atoms if self.atoms[a].function in ("min", "max")]
            return len(extremes) == 1
        limit = -difference.offset()
        return (
            atom.function == "|" and factor == 1 and len(difference.terms) == 2
            and limit > 0 and limit & (limit - 1) == 0 and self._atom_nonnegative(atom)
        )  # fmt: skip

    def _all_zero(self, difference: Expression) -> Expression | None:
        """Simplify ``difference == 0``; None if no rule applies.

        ``a | b == 0`` becomes ``a == 0 and b == 0``; ``x // d == 0`` becomes ``x < d``. Conditions
        that are packed into a word, ``2 · p + 8 · q == 0``, become ``not p and not q``.
        """
        packed = [self._packed_condition(monomial, factor) for monomial, factor in difference.terms]
        if None not in packed:
            return self.all_of(self.logical_not(p) for p in packed if p is not None)
        if len(difference.terms) != 1 or len(difference.terms[0][0]) != 1:
            return None
        atom = self.atoms[difference.terms[0][0][0]]
        if atom.function == "|":
            left, right = (self.compare("==", a, self.zero) for a in atom.arguments)
            return self.logical_and(left, right)
        divided = atom.function == "//" and (atom.arguments[1].constant or 0) > 0
        if divided and self.nonnegative(atom.arguments[0]):
            return self.compare("<", *atom.arguments)
        return None

    def _packed_condition(self, monomial: Monomial, factor: int) -> Expression | None:
        """Return the condition of which a term is a positive multiple; None if it is of none."""
        if len(monomial) != 1 or factor <= 0 or self.atoms[monomial[0]].function not in _TRUTHS:
            return None
        return self.polynomial({monomial: 1})

    def _remainders(self, value: Expression) -> Iterator[tuple[Expression, Expression]]:
        """Yield the remainders ``x − d · (x // d)`` that the value may contain, with divisors d.

        The caller checks whether the value contains them.
        """
        # The term −4 · (x // 16) belongs to (x // 4) mod 4 = x // 4 − 4 · (x // 16), divisor 4.
        for monomial, coefficient in value.terms:
            for index in monomial:
                atom = self.atoms[index]
                if atom.function != "//" or coefficient >= 0:
                    continue
                dividend, divisor = atom.arguments
                number = divisor.constant
                if number is None:
                    product = self.mul(divisor, self.polynomial({(index,): 1}))
                    yield self.sub(dividend, product), divisor
                elif len(monomial) == 1 and number % -coefficient == 0:
                    inner = self.div(dividend, self.number(number // -coefficient))
                    rest = self.add(inner, self.polynomial({monomial: coefficient}))
                    yield rest, self.number(-coefficient)

    def _below_divisor(self, difference: Expression) -> bool:
        """Return True if ``difference`` is a remainder minus its divisor, hence below 0."""
        return any(
            difference is self.sub(rest, divisor) for rest, divisor in self._remainders(difference)
        )

    def remainder_divisor(self, value: Expression) -> Expression | None:
        """Return ``d`` if the value is ``x − d · (x // d)``, else None."""
        return next((d for rest, d in self._remainders(value) if rest is value), None)

    def nonnegative(self, value: Expression) -> bool:
        """Return True if the value is proven to be at least 0, as indices and counters are."""
        nonnegative = self._signs.get(value.index)
        if nonnegative is None:
            self._signs[value.index] = False  # while it is being decided
            nonnegative = all(
                c > 0 and all(self._atom_nonnegative(self.atoms[a]) for a in m)
                for m, c in value.terms
            )
            if not nonnegative:  # a remainder is at least 0, whatever its dividend
                left = [self.sub(value, rest) for rest, _ in self._remainders(value)]
                nonnegative = any(
                    len(v.terms) < len(value.terms) and self.nonnegative(v) for v in left
                )
            self._signs[value.index] = nonnegative
        return nonnegative

    def _atom_nonnegative(self, atom: Atom) -> bool:
        if not atom.function:
            return never_negative(atom.name)
        if atom.function in ("//", "min", "^", "|"):
            return all(map(self.nonnegative, atom.arguments))
        if atom.function in ("max", "&"):
            return any(map(self.nonnegative, atom.arguments))
        if atom.function == "select":
            return all(map(self.nonnegative, atom.arguments[1:]))
        return atom.function in _CONDITIONS

    def logical_not(self, condition: Expression) -> Expression:
        """Return ``not condition``."""
        number = condition.constant
        if number is not None:
            return self.zero if number else self.one
        if _is_atom(condition):
            atom = self.atoms[condition.terms[0][0][0]]
            if atom.function == "not":
                return atom.arguments[0]
        return self.call("not", condition)

    def logical_and(self, left: Expression, right: Expression) -> Expression:
        """Return the conjunction of two conditions."""
        return self._junction("and", self.zero, self.one, left, right)

    def all_of(self, conditions: Iterable[Expression]) -> Expression:
        """Return the conjunction of any number of conditions; of none, 1."""
        result = self.one
        for condition in conditions:
            result = self.logical_and(result, condition)
        return result

    def logical_or(self, left: Expression, right: Expression) -> Expression:
        """Return the disjunction of two conditions."""
        return self._junction("or", self.one, self.zero, left, right)

    def _junction(
        self,
        function: str,
        absorbing: Expression,
        neutral: Expression,
        left: Expression,
        right: Expression,
    ) -> Expression:
        if left is absorbing or right is absorbing:
            return absorbing
        if left is neutral or left is right:
            return right
        if right is neutral:
            return left
        if self.logical_not(left) is right:
            return absorbing
        parts: dict[int, Expression] = {}
        for side in (left, right):
            for part in self.conjuncts(side, function):
                parts[part.index] = part
        for part in parts.values():
            if self.logical_not(part).index in parts:
                return absorbing
        ordered = [parts[i] for i in sorted(parts)]
        if len(ordered) == 1:
            return ordered[0]
        return self.call(function, *ordered)

    def conjuncts(self, condition: Expression, function: str = "and") -> tuple[Expression, ...]:
        """Return the parts of a conjunction, or of a disjunction if ``function`` is ``"or"``.

        A negated disjunction is a conjunction of negated parts, and vice versa.
        """
        # not (p or q): the conjuncts are `not p` and `not q`.
        if not _is_atom(condition):
            return () if condition.constant == (1 if function == "and" else 0) else (condition,)
        atom = self.atoms[condition.terms[0][0][0]]
        if atom.function == function:
            return atom.arguments
        if atom.function == "not" and _is_atom(atom.arguments[0]):
            inner = self.atoms[atom.arguments[0].terms[0][0][0]]
            if inner.function == ("or" if function == "and" else "and"):
                return tuple(
                    part
                    for a in inner.arguments
                    for part in self.conjuncts(self.logical_not(a), function)
                )
        return (condition,)

    def select(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """Return ``condition ? yes : no``; terms of both values are taken out of the selection."""
        # p ? a + 4 : a + 8 = a + (p ? 4 : 8): `a` may be a pointer that both sides add.
        number = condition.constant
        if number is not None:
            return yes if number else no
        if yes is no:
            return yes
        if yes is self.one and no is self.zero:
            return condition
        if yes is self.zero and no is self.one:
            return self.logical_not(condition)
        if self._divides(condition, no):
            return no
        common = self._common(yes, no)
        if common is not self.zero:
            return self.add(common, self.select(condition, self.sub(yes, common),
                                                self.sub(no, common)))  # fmt: skip
        return self.call("select", condition, yes, no)

    def _common(self, left: Expression, right: Expression) -> Expression:
        """Return the sum of the terms that both values have, such as the pointer of an address."""
        return self.polynomial(dict(set(left.terms) & set(right.terms)))

    def _divides(self, condition: Expression, value: Expression) -> bool:
        """Return True if the condition is ``d == 0`` for a divisor d in ``value``.

        Such a condition never holds in a correct kernel.
        """
        zero = self.lone_atom(condition)
        if zero is None or zero.function != "==" or zero.arguments[1] is not self.zero:
            return False
        x = zero.arguments[0]
        divisors = (x, self.maximum(x, self.scale(x, -1)))
        return any(
            self.atoms[a].function == "//" and self.atoms[a].arguments[1] in divisors
            for a in self.free_atoms(value)
        )

    # Reading values

    def free_atoms(self, value: Expression) -> frozenset[int]:
        """Return the atoms on which the value depends, also those inside arguments of functions."""
        atoms = self._within.get(value.index)
        if atoms is None:
            all_atoms = set(value.atoms)
            for atom in value.atoms:
                for argument in self.atoms[atom].arguments:
                    all_atoms |= self.free_atoms(argument)
            atoms = self._within[value.index] = frozenset(all_atoms)
        return atoms

    def unknowns(self, value: Expression) -> Iterator[Atom]:
        """Yield the unknown atoms on which a value depends."""
        for index in sorted(self.free_atoms(value)):
            if self.atoms[index].function == "data":
                yield self.atoms[index]

    def depends_on_data(self, value: Expression) -> bool:
        """Return True if the value depends on an unknown atom."""
        return any(True for _ in self.unknowns(value))

    def lone_atom(self, value: Expression) -> Atom | None:
        """Return the atom if the value is a single atom, else None."""
        return self.atoms[value.terms[0][0][0]] if _is_atom(value) else None

    def linear_in(self, value: Expression, atom: int) -> tuple[Expression, Expression] | None:
        """Return ``(coefficient, rest)`` with value = coefficient · atom + rest.

        None if the value is not linear in the atom, or if the atom occurs inside a function.
        """
        # n·x + 4x + y is linear in x: (n + 4, y). x·x and x + x // 2 are not.
        factor: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in value.terms:
            count = monomial.count(atom)
            if count > 1:
                return None
            if count:
                others = tuple(a for a in monomial if a != atom)
                factor[others] = coefficient
            else:
                rest[monomial] = coefficient
        result = self.polynomial(factor), self.polynomial(rest)
        if any(atom in self.free_atoms(part) for part in result):
            return None
        return result

    def substitute(
        self, value: Expression, replacement: Mapping[int, Expression], memo: dict[int, Expression]
    ) -> Expression:
        """Return ``value`` with atoms replaced by expressions, and simplified again.

        ``memo`` caches results; it may be reused only for the same ``replacement``.
        """
        if not replacement or self.free_atoms(value).isdisjoint(replacement):
            return value
        known = memo.get(value.index)
        if known is not None:
            return known
        parts = []
        for monomial, coefficient in value.terms:
            term = self.number(coefficient)
            for atom in monomial:
                term = self.mul(term, self._substitute_atom(atom, replacement, memo))
            parts.append(term)
        result = memo[value.index] = self.add(*parts)
        return result

    def _substitute_atom(
        self, index: int, replacement: Mapping[int, Expression], memo: dict[int, Expression]
    ) -> Expression:
        if index in replacement:
            return replacement[index]
        atom = self.atoms[index]
        arguments = tuple(self.substitute(a, replacement, memo) for a in atom.arguments)
        if all(a is b for a, b in zip(arguments, atom.arguments, strict=True)):
            return self._atom(atom.function, atom.name, atom.arguments)
        return self.rebuild(atom, arguments)

    def assuming(self, value: Expression, facts: frozenset[int]) -> Expression:
        """Simplify ``value`` for the case that conditions hold; ``facts``: their indices.

        Selections and comparisons that the facts decide are replaced by their results.
        """
        if not facts:
            return value
        key = (value.index, facts)
        result = self._assuming.get(key)
        if result is None:
            replacement = {
                a: decided
                for a in self.free_atoms(value)
                if (decided := self._decide(self.atoms[a], facts)) is not None
            }
            result = value
            if replacement:
                result = self.assuming(self.substitute(value, replacement, {}), facts)
            self._assuming[key] = result
        return result

    def _decide(self, atom: Atom, facts: frozenset[int]) -> Expression | None:
        """Return the value of an atom that the facts decide, else None.

        They may decide a condition, a selection, or a quotient that they state to be 0.
        """
        if atom.function == "select" or (atom.function == "data" and len(atom.arguments) == 3):
            choice, yes, no = atom.arguments
            if self._is_implied(choice, facts):
                return yes
            return no if self._is_implied(self.logical_not(choice), facts) else None
        own = self.polynomial({(atom.index,): 1})
        if atom.function == "//":
            zero = self._atoms.get(("==", "", (own.index, self.zero.index)))
            return self.zero if zero is not None and zero.index in facts else None
        if atom.function not in ("<", "=="):
            return None
        if own.index in facts:
            return self.one
        return self.zero if self.logical_not(own).index in facts else None

    def _is_implied(self, condition: Expression, facts: frozenset[int]) -> bool:
        return all(part.index in facts for part in self.conjuncts(condition))

    def evaluate(
        self,
        value: Expression,
        names: Mapping[Name, IntArray],
        memo: dict[int, IntArray] | None = None,
    ) -> IntArray | Atom:
        """Compute the value for arrays of variables that broadcast together.

        Returns an atom instead if ``names`` has no value for it. Unknowns are looked up by their
        name. ``memo`` caches results; it may be reused only for the same ``names``.
        """
        for index in self.free_atoms(value):
            atom = self.atoms[index]
            if atom.function in ("", "data") and atom.name not in names:
                return atom
        return self._compute(value, names, {} if memo is None else memo)

    def _compute(
        self, value: Expression, names: Mapping[Name, IntArray], memo: dict[int, IntArray]
    ) -> IntArray:
        known = memo.get(value.index)
        if known is not None:
            return known
        total: IntArray = np.zeros((), dtype=np.int64)
        for monomial, coefficient in value.terms:
            term: IntArray = np.asarray(coefficient, dtype=np.int64)
            for index in monomial:
                atom = self.atoms[index]
                if atom.function in ("", "data"):
                    term = term * names[atom.name]
                else:
                    inner = [self._compute(a, names, memo) for a in atom.arguments]
                    term = term * apply(atom.function, inner)
            total = total + term
        memo[value.index] = total
        return total

    def rebuild(self, atom: Atom, arguments: tuple[Expression, ...]) -> Expression:
        """Return the atom's function of other arguments, simplified."""
        simplifying = {
            "//": self.div, "min": self.minimum, "max": self.maximum, "&": self.bit_and,
            "|": self.bit_or, "^": self.bit_xor, "not": self.logical_not, "select": self.select,
        }.get(atom.function)  # fmt: skip
        if simplifying is not None:
            return simplifying(*arguments)  # type: ignore[operator, no-any-return]
        if atom.function == "negative":
            return self.negative(*arguments)
        if atom.function in ("<", "=="):
            return self.compare(atom.function, *arguments)
        if atom.function in ("and", "or"):
            combine = self.logical_and if atom.function == "and" else self.logical_or
            result = arguments[0]
            for argument in arguments[1:]:
                result = combine(result, argument)
            return result
        if atom.function == "<<":
            return self.shift_left(*arguments)
        return self._atom(atom.function, atom.name, arguments)


_POWERS = ("threadIdx.x", "threadIdx.y", "threadIdx.z", "laneid")
_MAXIMA: dict[Name, int] = {name: LIMITS[name][1] + 1 for name in _POWERS}
"""Power of two above the largest value of each of these coordinates."""
_TRUTHS = ("<", "==", "not", "and", "or", "negative")
_CONDITIONS = (*_TRUTHS, "<<", "halvings", "doublings")


def _degree(value: Expression) -> int:
    return max((len(m) for m, _ in value.terms), default=0)


def _is_atom(value: Expression) -> bool:
    return len(value.terms) == 1 and value.terms[0][1] == 1 and len(value.terms[0][0]) == 1


def divided_by(factor: int, divisor: int) -> int:
    """Return ``d`` with ``(factor · x) // divisor == x // d`` for all 0 ≤ x < 2³¹, or 0.

    Granlund and Montgomery (1994): d exists if ``0 < factor · d − divisor ≤ divisor / 2³¹``.
    """
    # factor 0xAAAAAAAB, divisor 2³³: d = ⌈2³³ / 0xAAAAAAAB⌉ = 3, and 3 · factor − 2³³ = 1.
    if divisor & (divisor - 1) or factor < 2**16:
        return 0
    d = -(-divisor // factor)
    excess = factor * d - divisor
    return d if 0 < excess << 31 <= divisor else 0
