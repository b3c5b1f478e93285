"""Expressions bound to a launch: affine forms with floor quotients, exact integers.

``a % c`` becomes ``a − c · (a // c)``, so a quotient is the only thing that is not affine.
``threadIdx.a + blockDim.a · blockIdx.a`` is recognised as the global coordinate ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, Union

from perfassert.kernel.expression import (
    AXES,
    COORDINATES,
    Constant,
    Expression,
    Operation,
    Variable,
)

Fail = Callable[[str, int, str], NoReturn]
"""Raises an error for (reason, column, text in which the column counts; "" for the access's)."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """``dividend // divisor`` (floor), divisor above 0."""

    dividend: Affine
    divisor: int


Symbol = Union[str, Quotient]


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant + Σ coefficient · symbol``; symbols are coordinates or quotients."""

    constant: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    def scaled(self, factor: int) -> Affine:
        """Every coefficient times ``factor``."""
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((s, c * factor) for s, c in self.terms))

    def symbols(self) -> Iterable[str]:
        """The coordinates that the value depends on, through quotients too."""
        for symbol, _ in self.terms:
            if isinstance(symbol, Quotient):
                yield from symbol.dividend.symbols()
            else:
                yield symbol


def add(*forms: Affine) -> Affine:
    """The sum, with equal symbols collected and zero terms dropped."""
    constant = 0
    terms: dict[Symbol, int] = {}
    for form in forms:
        constant += form.constant
        for symbol, coefficient in form.terms:
            terms[symbol] = terms.get(symbol, 0) + coefficient
    return Affine(constant, tuple((s, c) for s, c in terms.items() if c))


def bind(expression: Expression, names: Mapping[str, int], fail: Fail) -> Affine:
    """``expression`` with ``names`` (arguments, block and grid dimensions) filled in.

    ``fail`` is called for unknown names, products that are not affine, division by zero.
    """
    if isinstance(expression, Constant):
        return Affine(expression.value)
    if isinstance(expression, Variable):
        if expression.name in COORDINATES:
            return Affine(0, ((expression.name, 1),))
        if expression.name in names:
            return Affine(names[expression.name])
        fail(_unknown(expression.name, names), expression.column, expression.text)
    left = bind(expression.left, names, fail)
    right = bind(expression.right, names, fail)
    operator = expression.operator
    if operator == "+":
        return add(left, right)
    if operator == "-":
        return add(left, right.scaled(-1))
    if operator == "*":
        return _product(left, right, expression, fail)
    if right.terms:
        fail("the divisor must be the same for all threads", expression.column, expression.text)
    if right.constant == 0:
        fail("division by zero", expression.column, expression.text)
    return _division(operator, left, right.constant, names)


def _unknown(name: str, names: Mapping[str, int]) -> str:
    from perfassert.errors import close_matches

    own = [n for n in names if "." not in n]
    hint = close_matches(name, [*own, *COORDINATES])
    return f"unknown name {name!r}{hint or '; give it in Launch.args'}"


def _product(left: Affine, right: Affine, node: Operation, fail: Fail) -> Affine:
    if left.terms and right.terms:
        fail("a product of two coordinates is not affine", node.column, node.text)
    return right.scaled(left.constant) if right.terms else left.scaled(right.constant)


def _division(operator: str, dividend: Affine, divisor: int, names: Mapping[str, int]) -> Affine:
    sign = 1 if divisor > 0 else -1
    quotient = _quotient(_global(dividend.scaled(sign), names), divisor * sign)
    if operator == "//":
        return quotient
    return add(dividend, quotient.scaled(-divisor))


def _quotient(dividend: Affine, divisor: int) -> Affine:
    """Whole multiples of the divisor leave the quotient: ``(4x + 5) // 4 = x + 1 + 1 // 4``."""
    whole = Affine(
        dividend.constant // divisor,
        tuple((s, c // divisor) for s, c in dividend.terms if c % divisor == 0),
    )
    rest = Affine(
        dividend.constant % divisor, tuple((s, c) for s, c in dividend.terms if c % divisor)
    )
    if not rest.terms:
        return whole
    return add(whole, Affine(0, ((Quotient(rest, divisor), 1),)))


def _global(form: Affine, names: Mapping[str, int]) -> Affine:
    """``c · threadIdx.a + c · blockDim.a · blockIdx.a`` → ``c · a``."""
    terms = dict(form.terms)
    for axis in AXES:
        thread = terms.get(f"threadIdx.{axis}", 0)
        block = terms.get(f"blockIdx.{axis}", 0)
        if thread and block == thread * names[f"blockDim.{axis}"]:
            del terms[f"threadIdx.{axis}"], terms[f"blockIdx.{axis}"]
            terms[axis] = terms.get(axis, 0) + thread
    return Affine(form.constant, tuple((s, c) for s, c in terms.items() if c))


def with_global_coordinates(form: Affine, names: Mapping[str, int]) -> Affine:
    """``form`` with global coordinates wherever thread and block indices make one."""
    return _global(form, names)


def split_axis(form: Affine, axis: str, block: int) -> Affine:
    """Write the global coordinate ``axis`` as ``threadIdx + block · blockIdx``, everywhere."""
    parts: list[Affine] = [Affine(form.constant)]
    for symbol, coefficient in form.terms:
        if isinstance(symbol, Quotient):
            symbol = Quotient(split_axis(symbol.dividend, axis, block), symbol.divisor)
            parts.append(Affine(0, ((symbol, coefficient),)))
        elif symbol == axis:
            whole = ((f"threadIdx.{axis}", 1), (f"blockIdx.{axis}", block))
            parts.append(Affine(0, whole).scaled(coefficient))
        else:
            parts.append(Affine(0, ((symbol, coefficient),)))
    return add(*parts)


def interval(form: Affine, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Bounds of the value for coordinates in ``ranges`` (inclusive); exact without quotients."""
    low = high = form.constant
    for symbol, coefficient in form.terms:
        if isinstance(symbol, Quotient):
            bounds = interval(symbol.dividend, ranges)
            ends = (bounds[0] // symbol.divisor, bounds[1] // symbol.divisor)
        else:
            ends = ranges[symbol]
        low += min(coefficient * ends[0], coefficient * ends[1])
        high += max(coefficient * ends[0], coefficient * ends[1])
    return low, high
