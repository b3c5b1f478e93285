"""Closed forms of registers that a loop changes from their own value, over its counter ``k``.

* ``r' = r + a + b · k``: ``r = r₀ + a · k + b · k (k − 1) / 2``;
* ``r' = r + t(k + 1) − t(k)``: ``r = r₀ + t(k) − t(0)``;
* ``r' = 2ˢ · r + c``: with the fixed point ``f = −c / (2ˢ − 1)``, ``r = (r₀ − f) · 2ˢᵏ + f``;
* ``r' = (r + c) // 2ˢ``: with ``f = c / (2ˢ − 1)``, ``r = (r₀ − f) // 2ˢᵏ + f``;
* a place in a ring of ``S``, from which it goes on by ``c`` places, one or, in a loop that is
  unrolled, several: ``r = m + d · ((c · k + o) mod S)``;
* the parity of such rounds, which changes once in ``S`` times: ``r = r₀ + d · (k // S mod 2)``.

The last two are found by executing the step from a known start until it comes back.
"""

from __future__ import annotations

from perfassert.kernel.expression_pool import Expression, ExpressionPool


def closed_form(
    s: ExpressionPool,
    atom: int,
    value: Expression,
    first: Expression,
    counter: Expression,
    mark: int,
) -> Expression | None:
    """Return the closed form of ``atom``: ``first`` at first, then ``value`` of the one before.

    Unknowns with numbers from ``mark`` on were loaded in the loop, again in each iteration.
    """
    k = counter.terms[0][0][0]
    linear = s.linear_in(value, atom)
    if linear is None:
        halved = _halving_form(s, atom, value, first, counter)
        return _cyclic(s, atom, value, first, counter) if halved is None else halved
    factor, step = linear
    varies = s.free_atoms(step)
    if any(a >= mark and s.atoms[a].function == "data" for a in varies):
        return None
    if varies and (cyclic := _cyclic(s, atom, value, first, counter)) is not None:
        return cyclic
    if factor.constant == 1:
        if k not in varies:
            return s.add(first, s.mul(counter, step))
        summed = _telescoping_form(s, step, first, counter)
        return _quadratic(s, step, first, counter) if summed is None else summed
    shift = _power_of_two(factor.constant)
    fixed = _fixed_point(step, shift)
    if fixed is None:
        return None
    grown = s.shift_left(s.add(first, s.number(fixed)), s.scale(counter, shift))
    return s.add(grown, s.number(-fixed))


_LONGEST = 64
"""Largest number of places of a ring that are followed."""


def _cyclic(
    s: ExpressionPool, atom: int, value: Expression, first: Expression, counter: Expression
) -> Expression | None:
    """Solve a step that depends on the register alone, or on the counter as rounds of a ring do."""
    start, k = first.constant, counter.terms[0][0][0]
    atoms = [a for a in s.free_atoms(value) if not s.atoms[a].function]
    if start is None or not set(atoms) <= {atom, k}:
        return None
    values = [start]
    for i in range(2 * _LONGEST):
        following = s.substitute(value, {atom: s.number(values[-1]), k: s.number(i)}, {}).constant
        if following is None or abs(following - start) > 2 * _LONGEST * _LONGEST:
            return None
        values.append(following)
        if following == start and values[-2] != start:
            break
    orbit, places = values[:-1], len(values) - 1
    if k not in atoms and values[-1] == start and 1 < places <= _LONGEST:
        low = min(orbit)
        apart = max((max(orbit) - low) // (places - 1), 1)
        first_place, step = (start - low) // apart, (orbit[1] - start) // apart % places
        ring = [(first_place + step * i) % places for i in range(places)]
        if orbit == [low + apart * at for at in ring]:
            place = s.mod(s.add(s.scale(counter, step), s.number(first_place)), s.number(places))
            return s.add(s.number(low), s.scale(place, apart))
    half = next((i for i, v in enumerate(values) if v != start), 0)
    moved = values[half]
    later = s.substitute(value, {k: s.add(counter, s.number(half))}, {}) if half else None
    if later is not value or orbit != [start] * half + [moved] * half:
        return None
    rounds = s.mod(s.div(counter, s.number(half)), s.number(2))
    return s.add(first, s.scale(rounds, moved - start))


def entered_ring(
    s: ExpressionPool, atom: int, value: Expression, first: Expression, counter: Expression
) -> tuple[Expression, Expression] | None:
    """Return, for a ring that is entered from outside, as in −1, 0, 1, 2, 0, 1, …, the register and
    its next value. Only the next value is a place in a ring."""
    k, start = counter.terms[0][0][0], first.constant
    if start is None or k in s.free_atoms(value):
        return None
    entry = s.substitute(value, {atom: first}, {})
    ring = None if entry.constant in (None, start) else _cyclic(s, atom, value, entry, counter)
    if ring is None:
        return None
    before = s.substitute(ring, {k: s.add(counter, s.number(-1))}, {})
    return s.select(s.compare("==", counter, s.zero), first, before), ring


def _telescoping_form(
    s: ExpressionPool, step: Expression, first: Expression, counter: Expression
) -> Expression | None:
    """Solve a step ``t(k + 1) − t(k)``, like that of a high word, as ``r₀ + t(k) − t(0)``."""
    k = counter.terms[0][0][0]
    last = s.polynomial(
        {m: -c for m, c in step.terms if c < 0 and k in s.free_atoms(s.polynomial({m: 1}))}
    )
    if last is s.zero:
        return None
    following = s.substitute(last, {k: s.add(counter, s.one)}, {})
    rest = s.sub(s.add(step, last), following)
    if k in s.free_atoms(rest):
        return None
    start = s.substitute(last, {k: s.zero}, {})
    return s.add(first, last, s.scale(start, -1), s.mul(counter, rest))


def _quadratic(
    s: ExpressionPool, step: Expression, first: Expression, counter: Expression
) -> Expression | None:
    linear = s.linear_in(step, counter.terms[0][0][0])
    if linear is None:
        return None
    b, a = linear
    pairs = s.div(s.mul(counter, s.add(counter, s.number(-1))), s.number(2))
    return s.add(first, s.mul(counter, a), s.mul(b, pairs))


def _halving_form(
    s: ExpressionPool, atom: int, value: Expression, first: Expression, counter: Expression
) -> Expression | None:
    whole = s.number(value.offset())
    wrapped = s.lone_atom(s.sub(value, whole))
    if wrapped is None or wrapped.function != "//":
        return None
    divisor = wrapped.arguments[1]
    shift = _power_of_two(divisor.constant)
    inner = s.add(wrapped.arguments[0], s.mul(whole, divisor))
    own = s.polynomial({(atom,): 1})
    offset = s.number(inner.offset())
    dividend = s.add(own, offset)
    fixed = _fixed_point(offset, shift)
    if fixed is None:
        return None
    if inner is not dividend:
        if shift != 1 or inner is not s.add(dividend, s.negative(dividend)):
            return None
        if not fixed:  # towards 0, as C divides
            return s.shift_right(s.maximum(first, s.zero), counter)
    start = s.add(first, s.number(-fixed))
    return s.add(s.shift_right(start, s.scale(counter, shift)), s.number(fixed))


def _fixed_point(offset: Expression, shift: int) -> int | None:
    """``c / (2ˢ − 1)``, where it is an integer."""
    number = offset.constant
    if not shift or number is None or number % ((1 << shift) - 1):
        return None
    return number // ((1 << shift) - 1)


def _power_of_two(value: int | None) -> int:
    """``s`` of ``2ˢ``, s ≥ 1; 0 for anything else."""
    return value.bit_length() - 1 if value and value > 1 and value & (value - 1) == 0 else 0
