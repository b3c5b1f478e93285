"""Affine forms: integer expressions bound to a launch, with floor quotients.

``a % c`` becomes ``a − c · (a // c)``, so that quotients are the only non-affine part of
hand-written expressions; compiled code adds :class:`AffineCall`.
``threadIdx.a + blockDim.a · blockIdx.a`` is recognised as the global coordinate ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Union

import numpy as np
import numpy.typing as npt

from perfassert.kernel.expression import (
    AXES,
    COORDINATES,
    BinaryOperation,
    Constant,
    ExpressionTree,
    Variable,
)
from perfassert.kernel.names import Name

IntArray = npt.NDArray[np.int64]
Dimensions = Union[Mapping[str, int], Mapping[Name, int]]
"""Mapping that holds the extents of blocks and grid by name, such as ``"blockDim.x"``."""
Fail = Callable[[str, int, str], NoReturn]
"""Function that raises an error for (reason, column, text).

The column counts in ``text``; an empty ``text`` means that of the access.
"""


@dataclass(frozen=True, slots=True)
class Quotient:
    """A floor quotient, ``dividend // divisor``, with a divisor above 0."""

    dividend: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class AffineCall:
    """A function of affine forms that is not itself affine.

    Functions: ``min max & | ^ * // < == and or not select negative << halvings doublings``. An
    argument that is a condition holds if it is not 0.
    """

    function: str
    arguments: tuple[Affine, ...]


Symbol = Union[Name, Quotient, AffineCall]


def names_of(symbol: Symbol) -> frozenset[Name]:
    """Return the names that the value of a symbol depends on."""
    return frozenset(Affine(0, ((symbol, 1),)).symbols())


@dataclass(frozen=True, slots=True)
class Affine:
    """A form ``constant + Σ coefficient · symbol``; symbols are names, quotients, or calls."""

    constant: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    def scale(self, factor: int) -> Affine:
        """Return the form with constant and coefficients multiplied by ``factor``."""
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((s, c * factor) for s, c in self.terms))

    def symbols(self) -> Iterable[Name]:
        """Yield the names that the value depends on, also those inside quotients and functions."""
        for symbol, _ in self.terms:
            if isinstance(symbol, Quotient):
                yield from symbol.dividend.symbols()
            elif isinstance(symbol, AffineCall):
                for argument in symbol.arguments:
                    yield from argument.symbols()
            else:
                yield symbol


def below_zero(form: Affine) -> Affine:
    """Return the condition ``form < 0``: 1 if it holds, else 0."""
    return Affine(0, ((AffineCall("<", (form, Affine(0))), 1),))


def add(*forms: Affine) -> Affine:
    """Return the sum of forms, with equal symbols collected and zero terms dropped."""
    constant = 0
    terms: dict[Symbol, int] = {}
    for form in forms:
        constant += form.constant
        for symbol, coefficient in form.terms:
            terms[symbol] = terms.get(symbol, 0) + coefficient
    return Affine(constant, tuple((s, c) for s, c in terms.items() if c))


def bind(expression: ExpressionTree, names: Mapping[str, int], fail: Fail) -> Affine:
    """Return ``expression`` as an affine form, with the values of ``names`` filled in.

    ``names``: arguments, and dimensions of blocks and grid. ``fail`` is called for unknown names,
    products that are not affine, divisors that differ between threads, and division by zero.
    """
    if isinstance(expression, Constant):
        return Affine(expression.value)
    if isinstance(expression, Variable):
        if expression.name in COORDINATES:
            return Affine(0, ((expression.name, 1),))
        if expression.name in names:
            return Affine(names[expression.name])
        fail(_unknown_name(expression.name, names), expression.column, expression.text)
    left = bind(expression.left, names, fail)
    right = bind(expression.right, names, fail)
    operator = expression.operator
    if operator == "+":
        return add(left, right)
    if operator == "-":
        return add(left, right.scale(-1))
    if operator == "*":
        return _affine_product(left, right, expression, fail)
    if right.terms:
        fail("the divisor must be the same for all threads", expression.column, expression.text)
    if right.constant == 0:
        fail("division by zero", expression.column, expression.text)
    return _division(operator, left, right.constant, names)


def _unknown_name(name: str, names: Mapping[str, int]) -> str:
    from perfassert.errors import close_matches

    own = [n for n in names if "." not in n]
    hint = close_matches(name, [*own, *COORDINATES])
    return f"unknown name {name!r}{hint or '; give it in Launch.args'}"


def _affine_product(left: Affine, right: Affine, node: BinaryOperation, fail: Fail) -> Affine:
    if left.terms and right.terms:
        fail("a product of two coordinates is not affine", node.column, node.text)
    return right.scale(left.constant) if right.terms else left.scale(right.constant)


def _division(operator: str, dividend: Affine, divisor: int, names: Dimensions) -> Affine:
    sign = 1 if divisor > 0 else -1
    whole = quotient(_global(dividend.scale(sign), names), divisor * sign)
    if operator == "//":
        return whole
    return add(dividend, whole.scale(-divisor))


def quotient(dividend: Affine, divisor: int) -> Affine:
    """Return the floor quotient of a form and a divisor above 0.

    Terms that the divisor divides are taken out of the quotient.
    """
    # (8x + 2y + 7) // 4 = 2x + 1 + (2y + 3) // 4: 8x goes out whole, 7 leaves its remainder 3.
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


def _global(form: Affine, names: Dimensions) -> Affine:
    """Replace ``c · threadIdx.a + c · blockDim.a · blockIdx.a`` by ``c · a``."""
    terms = dict(form.terms)
    for axis in AXES:
        thread = terms.get(f"threadIdx.{axis}", 0)
        block = terms.get(f"blockIdx.{axis}", 0)
        if thread and block == thread * names[f"blockDim.{axis}"]:
            del terms[f"threadIdx.{axis}"], terms[f"blockIdx.{axis}"]
            terms[axis] = terms.get(axis, 0) + thread
    return Affine(form.constant, tuple((s, c) for s, c in terms.items() if c))


def with_global_coordinates(form: Affine, names: Dimensions) -> Affine:
    """Return ``form`` with pairs of thread and block index replaced by the global coordinate."""
    return _global(form, names)


def split_axis(form: Affine, axis: str, block: int) -> Affine:
    """Replace the global coordinate ``axis`` by ``threadIdx + block · blockIdx``, also inside
    quotients and functions; ``block``: threads of a block along the axis."""
    parts: list[Affine] = [Affine(form.constant)]
    for symbol, coefficient in form.terms:
        if isinstance(symbol, Quotient):
            symbol = Quotient(split_axis(symbol.dividend, axis, block), symbol.divisor)
            parts.append(Affine(0, ((symbol, coefficient),)))
        elif isinstance(symbol, AffineCall):
            inner = tuple(split_axis(a, axis, block) for a in symbol.arguments)
            parts.append(Affine(0, ((AffineCall(symbol.function, inner), coefficient),)))
        elif symbol == axis:
            whole = ((f"threadIdx.{axis}", 1), (f"blockIdx.{axis}", block))
            parts.append(Affine(0, whole).scale(coefficient))
        else:
            parts.append(Affine(0, ((symbol, coefficient),)))
    return add(*parts)


Bounds = tuple[int, int]


def interval(
    form: Affine, ranges: Mapping[Name, Bounds], known: dict[int, Bounds] | None = None
) -> Bounds:
    """Return inclusive bounds of the value for names in ``ranges`` (inclusive).

    The bounds are exact for affine forms; with quotients or functions they may be too wide.
    ``known`` takes the bounds of symbols by their identity, for further forms with these ranges.
    """
    known = {} if known is None else known
    low = high = form.constant
    for symbol, coefficient in form.terms:
        if isinstance(symbol, (Quotient, AffineCall)):
            ends = known.get(id(symbol)) or _interval_of(symbol, ranges, known)
        else:
            ends = ranges[symbol]
        low += min(coefficient * ends[0], coefficient * ends[1])
        high += max(coefficient * ends[0], coefficient * ends[1])
    return low, high


def _interval_of(
    symbol: Quotient | AffineCall, ranges: Mapping[Name, Bounds], known: dict[int, Bounds]
) -> Bounds:
    if isinstance(symbol, Quotient):
        low, high = interval(symbol.dividend, ranges, known)
        ends = low // symbol.divisor, high // symbol.divisor
    else:
        arguments = [interval(a, ranges, known) for a in symbol.arguments]
        ends = call_interval(symbol.function, arguments)
    known[id(symbol)] = ends
    return ends


_ANYTHING = (-(2**40), 2**40)


def call_interval(function: str, bounds: list[tuple[int, int]]) -> tuple[int, int]:
    """Return inclusive bounds of a function's value from those of its arguments."""
    if function in ("<", "==", "and", "or", "not", "negative"):
        decided = _decide(function, bounds)
        return (0, 1) if decided is None else (int(decided), int(decided))
    if function == "min":
        return (min(b[0] for b in bounds), min(b[1] for b in bounds))
    if function == "max":
        return (max(b[0] for b in bounds), max(b[1] for b in bounds))
    if function == "select":
        if (chosen := _truth(bounds[0])) is not None:
            return bounds[1] if chosen else bounds[2]
        return (min(bounds[1][0], bounds[2][0]), max(bounds[1][1], bounds[2][1]))
    corners: list[int] = []
    if function == "*":
        corners = [a * b for a in bounds[0] for b in bounds[1]]
    elif function == "//" and bounds[1][0] > 0:
        corners = [a // b for a in bounds[0] for b in bounds[1]]
    elif function in ("|", "^", "&") and min(b[0] for b in bounds) >= 0:
        # 0…9 and 0…6: `&` is at most 6; `|` and `^` have no more bits than 9, so at most 15.
        top = max(b[1] for b in bounds) if function != "&" else min(b[1] for b in bounds)
        corners = [0, top if function == "&" else (1 << top.bit_length()) - 1]
    elif function == "<<" and bounds[1][0] >= 0 and bounds[1][1] < 40:
        corners = [a << b for a in bounds[0] for b in bounds[1]]
    return (min(corners), max(corners)) if corners else _ANYTHING


def _truth(bounds: tuple[int, int]) -> bool | None:
    """Return True if a value within the bounds is not 0, False if it is 0, None if undecided."""
    low, high = bounds
    return True if low > 0 or high < 0 else False if low == high else None


def _decide(function: str, bounds: list[tuple[int, int]]) -> bool | None:
    """Return the truth of a condition over values within these bounds; None if undecided."""
    low, high = bounds[0]
    if function == "negative":
        return True if high < 0 else False if low >= 0 else None
    if function == "<":
        return True if high < bounds[1][0] else False if low >= bounds[1][1] else None
    if function == "==":
        if high < bounds[1][0] or low > bounds[1][1]:
            return False
        return True if low == high == bounds[1][0] == bounds[1][1] else None
    known = [_truth(b) for b in bounds]
    if function == "not":
        return None if known[0] is None else not known[0]
    absorbing = function == "or"
    if absorbing in known:
        return absorbing
    return None if None in known else not absorbing


def evaluate(form_terms: Mapping[Symbol, int], values: Mapping[Name, IntArray]) -> IntArray:
    """Compute ``Σ coefficient · symbol`` for arrays of coordinates that broadcast together."""
    return Forms([Affine(0, tuple(form_terms.items()))])(values)[0]


_Sum = tuple[int, tuple[tuple[int, int], ...]]  # a constant, and (step, coefficient) of each term


class Forms:
    """Forms that are evaluated together, many times: each common subexpression once per call."""

    # The forms 3 · (x // 2) and x + (x // 2) become two steps, x and x // 2, and two sums over the
    # numbers of steps: 3 · step 1, and step 0 + step 1.

    def __init__(self, forms: Iterable[Affine]) -> None:
        self._numbers: dict[Symbol, int] = {}
        self._steps: list[tuple[Symbol, tuple[_Sum, ...]]] = []  # inner ones first
        self._sums = [self._sum(form) for form in forms]

    def _sum(self, form: Affine) -> _Sum:
        return form.constant, tuple((self._number(s), c) for s, c in form.terms)

    def _number(self, symbol: Symbol) -> int:
        number = self._numbers.get(symbol)
        if number is None:
            inner: tuple[Affine, ...] = ()
            if isinstance(symbol, Quotient):
                inner = (symbol.dividend,)
            elif isinstance(symbol, AffineCall):
                inner = symbol.arguments
            sums = tuple(map(self._sum, inner))
            number = self._numbers[symbol] = len(self._steps)
            self._steps.append((symbol, sums))
        return number

    def __call__(self, values: Mapping[Name, IntArray]) -> list[IntArray]:
        """Compute the forms for arrays of coordinates that broadcast together."""
        done: list[IntArray] = []
        for symbol, sums in self._steps:
            if isinstance(symbol, Quotient):
                done.append(_evaluate_sum(sums[0], done) // symbol.divisor)
            elif isinstance(symbol, AffineCall):
                done.append(apply(symbol.function, [_evaluate_sum(s, done) for s in sums]))
            else:
                done.append(values[symbol])
        return [_evaluate_sum(s, done) for s in self._sums]


def _evaluate_sum(terms: _Sum, done: Sequence[IntArray]) -> IntArray:
    total: IntArray | None = None
    for step, coefficient in terms[1]:
        value = done[step] if coefficient == 1 else coefficient * done[step]
        total = value if total is None else total + value
    if total is None:
        return np.asarray(terms[0], dtype=np.int64)
    return total + terms[0] if terms[0] else total


def apply(function: str, arguments: Sequence[IntArray]) -> IntArray:
    """Compute a function of :class:`AffineCall` on arrays of integers; conditions are 0 or 1.

    ``halvings(v, b, s)`` is the smallest k with v // 2^(s·k) < b. ``doublings(c, b, s)`` is the
    smallest k with c · 2^(s·k) ≥ b.
    """
    if function == "select":
        return np.where(arguments[0] != 0, arguments[1], arguments[2])
    if function == "//":
        divisor = np.where(arguments[1] == 0, 1, arguments[1])
        return np.asarray(arguments[0] // divisor, dtype=np.int64)
    if function in ("halvings", "doublings"):
        start, bound, step = arguments
        return _shifts(function == "halvings", start, bound, int(np.max(step)))
    result = arguments[0]
    if function in ("not", "negative"):
        return np.asarray((result == 0) if function == "not" else (result < 0), dtype=np.int64)
    for other in arguments[1:]:
        result = _FUNCTIONS[function](result, other)
    return np.asarray(result, dtype=np.int64)


def _shifts(halving: bool, start: IntArray, bound: IntArray, step: int) -> IntArray:
    """Count the shifts of ``start`` by ``step`` bits until it is below ``bound`` (``halving``), or
    no longer below it."""
    # halvings(13, 2, 1): 13, 6, 3, 1 → 3 shifts. doublings(3, 20, 1): 3, 6, 12, 24 → 3 shifts.
    count: IntArray = np.zeros(np.broadcast(start, bound).shape, dtype=np.int64)
    going = np.ones(count.shape, dtype=np.bool_)
    for k in range(0, _BITS - 1, max(step, 1)):
        fits = np.abs(start) < 1 << (_BITS - 1 - k)  # what is shifted out of the word is large
        going = going & ((start >> k >= bound) if halving else fits & (start << k < bound))
        if not going.any():
            break
        count = count + going
    return count


_BITS = 64  # of an address
_FUNCTIONS: dict[str, Callable[..., IntArray]] = {
    "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "*": np.multiply, "<<": np.left_shift,
    "<": np.less, "==": np.equal, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
