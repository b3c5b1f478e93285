"""Single and double precision against exact fractions: every rounding, fused and not."""

from fractions import Fraction

import numpy as np
import pytest

from perfassert.engines.execution.floats import FLOAT
from perfassert.engines.execution.functions import FUNCTIONS
from perfassert.kernel.machine import Function, Kind, Rounding

COUNT = 3000


def operands(kind, count, seed):
    """Numbers whose exponents are close enough for sums to be rounded."""
    generator = np.random.default_rng(seed)
    mantissas = generator.uniform(1, 2, (3, count)) * generator.choice([-1, 1], (3, count))
    exponents = generator.integers(-12, 12, (3, count))
    exponents[2] += exponents[0] + exponents[1] + generator.integers(-30, 5, count)
    return np.ldexp(mantissas, exponents).astype(kind)


def check(exact, found, rounding, kind):
    """``found`` is the neighbour of ``exact`` that the rounding names."""
    got = Fraction(float(found))
    below = Fraction(float(np.nextafter(kind(found), kind(-np.inf))))
    above = Fraction(float(np.nextafter(kind(found), kind(np.inf))))
    if rounding == Rounding.UP:
        assert below < exact <= got
    elif rounding == Rounding.DOWN:
        assert got <= exact < above
    elif rounding == Rounding.ZERO:
        assert abs(got) <= abs(exact)
        assert abs(exact) < max(abs(below), abs(above))
    else:
        assert abs(exact - got) <= min(abs(exact - below), abs(exact - above))


@pytest.mark.parametrize("rounding", list(Rounding))
def test_single_precision_is_rounded_once(rounding):
    a, b, c = operands(np.float32, COUNT, int(rounding))
    words = [x.view(np.uint32) for x in (a, b, c)]
    detail = (int(rounding), 0, 0)
    results = {
        kind: FLOAT[kind](detail, *words[:count])[0].view(np.float32)
        for kind, count in ((Kind.FLOAT_ADD, 2), (Kind.FLOAT_MULTIPLY, 2), (Kind.FLOAT_FUSED, 3))
    }
    for i in range(COUNT):
        x, y, z = (Fraction(float(v[i])) for v in (a, b, c))
        for kind, exact in ((Kind.FLOAT_ADD, x + y), (Kind.FLOAT_MULTIPLY, x * y),
                            (Kind.FLOAT_FUSED, x * y + z)):  # fmt: skip
            if exact:
                check(exact, results[kind][i], rounding, np.float32)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_double_precision_is_rounded_once(rounding):
    numbers = operands(np.float64, COUNT, 9 + int(rounding))
    words = [
        w.astype(np.uint32)
        for x in numbers
        for w in (x.view(np.uint64) & 0xFFFFFFFF, x.view(np.uint64) >> 32)
    ]
    for kind, count, exact in ((Kind.DOUBLE_ADD, 2, lambda x, y, z: x + y),
                               (Kind.DOUBLE_MULTIPLY, 2, lambda x, y, z: x * y),
                               (Kind.DOUBLE_FUSED, 3, lambda x, y, z: x * y + z)):  # fmt: skip
        low, high = FLOAT[kind]((int(rounding),), *words[: 2 * count])
        result = (low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)).view(np.float64)
        for i in range(COUNT):
            value = exact(*(Fraction(float(v[i])) for v in numbers))
            check(value, result[i], rounding, np.float64)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_zeros_keep_their_signs(rounding):
    high = (
        np.array([0, 1 << 31, 0, 1 << 31], np.uint32),
        np.array([0, 0, 1 << 31, 1 << 31], np.uint32),
    )
    a, b, low = *high, np.zeros(4, np.uint32)
    _, product = FLOAT[Kind.DOUBLE_MULTIPLY]((int(rounding),), low, a, low, b)
    assert (product >> 31).tolist() == [0, 1, 1, 0]
    _, total = FLOAT[Kind.DOUBLE_ADD]((int(rounding),), low, a, low, b)
    assert (total >> 31)[[0, 3]].tolist() == [0, 1]


def test_approximate_functions_are_good_to_more_than_single_precision():
    """Sines and cosines take revolutions: the compiler multiplies by 1 / 2π before."""
    generator = np.random.default_rng(4)
    x = np.concatenate([generator.uniform(-140, 140, 5000), generator.uniform(-1, 1, 5000)])
    turn = 2 * np.pi * (x - np.rint(x))
    expected = {
        Function.EX2: np.exp2(x), Function.TANH: np.tanh(x), Function.SIN: np.sin(turn),
        Function.COS: np.cos(turn), Function.LG2: np.log2(abs(x)), Function.RCP: 1 / x,
        Function.RSQ: 1 / np.sqrt(abs(x)), Function.SQRT: np.sqrt(abs(x)),
    }  # fmt: skip
    assert expected.keys() == FUNCTIONS.keys()
    for function, values in expected.items():
        positive = function in (Function.LG2, Function.RSQ, Function.SQRT)
        found = FUNCTIONS[function](abs(x) if positive else x)
        assert np.allclose(found, values, rtol=2.0**-46, atol=2.0**-50), function


@pytest.mark.parametrize(
    ("function", "ends"),
    [
        (Function.EX2, {np.inf: np.inf, -np.inf: 0.0, 3.0: 8.0, 0.0: 1.0}),
        (Function.LG2, {0.0: -np.inf, np.inf: np.inf, 8.0: 3.0, -1.0: np.nan}),
        (Function.SIN, {0.25: 1.0, 1e30: 0.0, 0.5: 0.0, np.inf: np.nan, -0.25: -1.0}),
        (Function.COS, {0.25: 0.0, 1e30: 1.0, 0.5: -1.0, np.inf: np.nan, -1.0: 1.0}),
        (Function.TANH, {np.inf: 1.0, -np.inf: -1.0, 0.0: 0.0}),
    ],
)
def test_approximate_functions_are_exact_where_the_result_is(function, ends):
    with np.errstate(all="ignore"):
        found = FUNCTIONS[function](np.array([*ends, np.nan]))
    assert np.array_equal(found, [*ends.values(), np.nan], equal_nan=True)
