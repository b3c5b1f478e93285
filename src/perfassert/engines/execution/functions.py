"""Approximate functions of the hardware, in double precision; the caller rounds to single.

The functions use only sums, products, quotients and roots, which IEEE 754 defines to the last bit.
The compiled engine takes the same steps (``core/functions.hpp``), so both engines agree on every
machine. Functions of libraries would not guarantee that. Series are nested, ``1 + x/1 · (1 + x/2 ·
(1 + …))``, up to terms below 2⁻⁵⁶.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from perfassert.kernel.machine import Function

Doubles = npt.NDArray[np.float64]
_LN_2 = math.log(2)
_LOG2_E = math.log2(math.e)
_ROOT_HALF = math.sqrt(0.5)
_RANGE = 2000.0  # largest exponent; far beyond those of single precision


def _reciprocal(x: Doubles) -> Doubles:
    return 1.0 / x


def _reciprocal_root(x: Doubles) -> Doubles:
    return 1.0 / np.sqrt(x)


def _power_of_two(x: Doubles) -> Doubles:
    bounded = np.where(x > _RANGE, _RANGE, np.where(x < -_RANGE, -_RANGE, x))
    whole = np.rint(bounded)
    # For example, 2^3.25 = 2^3 · e^y with y = 0.25 · ln 2 = 0.173.
    y = (bounded - whole) * _LN_2
    total = np.ones_like(y)
    for term in range(14, 0, -1):
        total = 1.0 + y * total / term
    number = np.where(whole == whole, whole, 0.0)
    return np.ldexp(total, number.astype(np.int32))


def _logarithm(x: Doubles) -> Doubles:
    """Return log₂ of x = 2ᵉ·m with m around 1, as e + 2 artanh((m − 1)/(m + 1)) / ln 2."""
    normal = (x > 0) & (x < np.inf)
    # For example, 5 = 2³ · 0.625. The mantissa is below √½, so it becomes 1.25, and e = 2.
    mantissa, exponent = np.frexp(np.where(normal, x, 1.0))
    low = mantissa < _ROOT_HALF
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = np.zeros_like(s)
    for power in range(25, 0, -2):
        total = 1.0 / power + square * total
    value = (exponent - low) + 2.0 * s * total / _LN_2
    ends = np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan))
    return np.where(normal, value, ends)


def _shifted_sine(x: Doubles, quarter: float) -> Doubles:
    """Return the sine of ``x`` revolutions plus ``quarter`` quarters of a revolution."""
    # For example, x = 0.3 is the nearest quarter, 1, plus 0.05 revolutions, y = 0.314. The sine of
    # the whole is the cosine of y, 0.951.
    part = x - np.rint(x)
    nearest = np.rint(part * 4.0)
    y = (part - nearest * 0.25) * math.tau
    square = y * y
    sine = np.ones_like(y)
    cosine = np.ones_like(y)
    for n in range(18, 0, -2):
        sine = 1.0 - square * sine / (n * (n + 1.0))
        cosine = 1.0 - square * cosine / (n * (n - 1.0))
    turn = nearest + quarter
    turn = turn - np.floor(turn * 0.25) * 4.0
    value = np.where((turn == 1.0) | (turn == 3.0), cosine, y * sine)
    return np.where(turn >= 2.0, -value, value)


def _sine(x: Doubles) -> Doubles:
    return _shifted_sine(x, 0.0)


def _cosine(x: Doubles) -> Doubles:
    return _shifted_sine(x, 1.0)


def _tangent(x: Doubles) -> Doubles:
    """Return the hyperbolic tangent, (e²ˣ − 1)/(e²ˣ + 1).

    For small x a series avoids cancellation in e²ˣ − 1.
    """
    size = np.abs(x)
    bounded = np.where(size > 40.0, 40.0, size)
    y = 2.0 * np.where(bounded < 0.35, bounded, 0.0)
    total = np.ones_like(y)
    for term in range(18, 1, -1):
        total = 1.0 + y * total / term
    little = y * total
    large = _power_of_two(2.0 * bounded * _LOG2_E)
    value = np.where(bounded < 0.35, little / (little + 2.0), 1.0 - 2.0 / (large + 1.0))
    return np.copysign(value, x)


FUNCTIONS: Mapping[Function, Callable[[Doubles], Doubles]] = {
    Function.RCP: _reciprocal, Function.RSQ: _reciprocal_root, Function.SQRT: np.sqrt,
    Function.EX2: _power_of_two, Function.LG2: _logarithm, Function.SIN: _sine,
    Function.COS: _cosine, Function.TANH: _tangent,
}  # fmt: skip
