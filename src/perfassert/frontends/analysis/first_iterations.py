"""Closed forms for the first iteration of a loop in which a condition holds.

A loop that goes on while ``a + b · k < 0``, with its counter ``k`` = 0, 1, 2, …, is left in
iteration ``⌈−a / b⌉``. Numbers that are halved or doubled have closed forms, too.
"""

from __future__ import annotations

from perfassert.kernel.expression_pool import Atom, Expression, ExpressionPool, Monomial

_NEVER = 2**31 - 1
"""Iteration that stands for never: the exit's condition does not hold in any."""


class FirstTrue:
    """Search for the first iteration in which a condition among the values of ``symbols`` holds."""

    def __init__(self, symbols: ExpressionPool) -> None:
        self.symbols = symbols

    def of(
        self, condition: Expression, counter: Expression, several: bool
    ) -> tuple[Expression | None, bool]:
        """Return the first iteration ≥ 0 in which ``condition`` holds; True if all is decided.

        Of ``several`` exits one may never be taken, if what decides it is the same in all
        iterations; an only one is taken at last.
        """
        s = self.symbols
        firsts = [
            self._first_of_all(part, counter, several)
            for part in (s.conjuncts(condition, "or") or (condition,))
        ]
        known = [first for first in firsts if first is not None]
        if not known:
            return None, condition is s.zero
        result = known[0]
        for first in known[1:]:
            result = s.minimum(result, first)
        return result, len(known) == len(firsts)

    def _first_of_all(
        self, condition: Expression, counter: Expression, several: bool
    ) -> Expression | None:
        """Return the first iteration in which all parts hold, if they are sure to stay true."""
        s = self.symbols
        k = counter.terms[0][0][0]
        if condition is s.zero or s.depends_on_data(condition):
            return None
        parts = s.conjuncts(condition)
        varying = [p for p in parts if k in s.free_atoms(p)]
        fixed = self.symbols.all_of(p for p in parts if k not in s.free_atoms(p))
        if not varying:
            if fixed is s.one:
                return s.zero
            return s.select(fixed, s.zero, s.number(_NEVER)) if several else None
        firsts = [self._first(part, counter, k) for part in varying]
        stays = [s.lone_atom(p) for p in varying]
        if len(varying) > 1 and not all(a and self._monotonic(a) for a in stays):
            return None
        result = firsts[0]
        for first in firsts:
            if first is None or result is None:
                return None
            result = s.maximum(result, first)
        if several and result is not None:
            result = s.select(fixed, result, s.number(_NEVER))
        return result

    def _monotonic(self, atom: Atom) -> bool:
        """Return True if the condition is a comparison of sizes, once true always true."""
        if atom.function == "not":
            inner = self.symbols.lone_atom(atom.arguments[0])
            return inner is not None and inner.function == "<"
        return atom.function == "<"

    def _first(self, part: Expression, counter: Expression, k: int) -> Expression | None:
        s = self.symbols
        atom = s.lone_atom(part)
        negated = atom is not None and atom.function == "not"
        if atom is not None and negated:
            atom = s.lone_atom(atom.arguments[0])
        if atom is None or atom.function not in ("<", "=="):
            return None
        difference = s.sub(atom.arguments[0], atom.arguments[1])
        linear = s.linear_in(difference, k)
        if linear is None:
            return self._first_shifted(difference, atom.function, negated, k)
        slope, start = linear
        falling = _sign(slope, s) < 0
        if atom.function == "==":
            if negated:
                return s.compare("==", start, s.zero)  # left in the second iteration at last
            quotient = s.div(s.scale(start, -1), slope) if not falling else s.div(
                start, s.scale(slope, -1))  # fmt: skip
            return quotient
        if _sign(slope, s) == 0:
            return None
        if negated and not falling:  # start + slope·k ≥ 0; 4k − 10: k = ⌈10 / 4⌉ = 3
            return s.maximum(s.zero, _ceil_div(s, s.scale(start, -1), slope))
        if not negated and falling:  # start + slope·k < 0, slope < 0; 10 − 4k: k = 10 // 4 + 1 = 3
            return s.maximum(s.zero, s.add(s.div(start, s.scale(slope, -1)), s.one))
        return None

    def _first_shifted(
        self, difference: Expression, relation: str, negated: bool, k: int
    ) -> Expression | None:
        """Loops that halve or double a number: of ``difference < 0``, ``= 0``, or not, the one
        term that varies with the counter crosses the others."""
        s = self.symbols
        varying = [(m, c) for m, c in difference.terms if any(
            k in s.free_atoms(s.polynomial({(a,): 1})) for a in m)]  # fmt: skip
        if len(varying) != 1 or (abs(varying[0][1]) != 1 and not self._grown(varying[0][0], k)):
            return None
        ((monomial, factor),) = varying
        rest = s.sub(difference, s.polynomial({monomial: factor}))
        if factor < 0:
            rest = s.scale(rest, -1)
        term = s.polynomial({monomial: abs(factor)})
        # now the loop is left once sign · (term + rest) < 0, not < 0, = 0, or not = 0
        below: Expression | None = None  # left once the term is below it
        above: Expression | None = None  # left once the term is not below it
        if relation == "<" and (factor > 0) != negated:
            below = s.scale(rest, -1)
            if negated:
                below = s.add(below, s.one)
        elif relation == "<":
            above = s.scale(rest, -1)
            if not negated:
                above = s.add(above, s.one)
        elif not negated and rest.constant in (0, -1):  # who halves a number comes by 1
            below = s.sub(s.one, rest)
        if below is not None:
            return self._first_halved(term, below, k, exactly=relation == "==")
        return None if above is None else self._first_grown(term, above, k)

    def _first_halved(
        self, term: Expression, bound: Expression, k: int, exactly: bool
    ) -> Expression | None:
        """Return the first k with ``v // (c · 2ˢᵏ)`` below ``bound``; ``exactly``: 1 below."""
        s = self.symbols
        atom = s.lone_atom(term)
        if atom is None or atom.function != "//" or k in s.free_atoms(atom.arguments[0]):
            return None
        step = self._shift_step(atom.arguments[1], k)
        if step is None or (exactly and bound is not s.one and step[1] > 1):
            return None
        start = s.div(atom.arguments[0], s.number(step[0]))
        return s.call("halvings", start, bound, s.number(step[1]))

    def _first_grown(self, term: Expression, bound: Expression, k: int) -> Expression | None:
        """Return the first k at which ``c · 2ˢᵏ`` is no longer below ``bound``."""
        s = self.symbols
        step = self._shift_step(term, k)
        if step is None:
            return None
        return s.call("doublings", s.number(step[0]), bound, s.number(step[1]))

    def _grown(self, monomial: Monomial, k: int) -> bool:
        return self._shift_step(self.symbols.polynomial({monomial: 1}), k) is not None

    def _shift_step(self, power: Expression, k: int) -> tuple[int, int] | None:
        """Return ``(c, s)`` if ``power`` is ``c · 2^(s · k)``."""
        s = self.symbols
        if len(power.terms) != 1 or len(power.terms[0][0]) != 1 or power.terms[0][1] < 1:
            return None
        ((monomial, factor),) = power.terms
        atom = s.atoms[monomial[0]]
        if atom.function != "<<" or atom.arguments[0] is not s.one:
            return None
        linear = s.linear_in(atom.arguments[1], k)
        if linear is None or linear[0].constant is None or linear[1].constant is None:
            return None
        if linear[0].constant < 1 or linear[1].constant < 0:
            return None
        return factor << linear[1].constant, linear[0].constant


def _ceil_div(s: ExpressionPool, dividend: Expression, divisor: Expression) -> Expression:
    return s.scale(s.div(s.scale(dividend, -1), divisor), -1)


def _sign(value: Expression, s: ExpressionPool) -> int:
    """The sign of a step whose factors are taken not to be negative; 0 for mixed signs."""
    signs = {(c > 0) - (c < 0) for _, c in value.terms}
    return signs.pop() if len(signs) == 1 else 0
