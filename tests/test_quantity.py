import math
import operator
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.quantity import parse_quantity, round_significant, to_integer, to_real


@pytest.mark.parametrize(
    ("text", "value", "unit", "per"),
    [
        ("60 us", 60e-6, "s", ""),
        ("60µs", 60e-6, "s", ""),
        ("60 μs", 60e-6, "s", ""),
        ("1.5e3 ns", 1.5e-6, "s", ""),
        ("1.4 TB/s", 1.4e12, "B/s", ""),
        ("2 GiB", 2 * 2**30, "B", ""),
        ("2 GB", 2e9, "B", ""),
        ("10 B/update", 10, "B", "update"),
        ("1.6 /update", 1.6, "", "update"),
        ("1410 MHz", 1.41e9, "Hz", ""),
        ("5 %", 0.05, "", ""),
        ("7 cycles", 7, "", ""),
        (".5", 0.5, "", ""),
        ("-1_000", -1000, "", ""),
    ],
)
def test_parse(text, value, unit, per):
    parsed = parse_quantity(text)
    assert parsed.value == pytest.approx(value, rel=1e-15)
    assert (parsed.unit, parsed.per) == (unit, per)


@pytest.mark.parametrize(
    "text", ["", "us", "1e999 %", "1 parsec", "1 B/fortnight", "1 2", "1 B/update x"]
)
def test_what_is_no_quantity(text):
    with pytest.raises(pa.UnitError):
        parse_quantity(text)


def test_a_text_without_unit_is_compared_with_what_has_none():
    """A limit whose unit was forgotten would be a minute, which every kernel keeps."""
    with pytest.raises(pa.UnitError, match="the units differ"):
        assert pa.Quantity(60e-6, "s") < "60"
    assert pa.Quantity(60e-6, "s") > "0"
    assert pa.Quantity(7) < "8"
    assert pa.Quantity(1.6, "", "update") < "2"


def test_prints_in_a_suitable_prefix():
    assert str(pa.Quantity(81.3e-6, "s")) == "81.3 us"
    assert str(pa.Quantity(2.445e9, "B")) == "2.445 GB"
    assert str(pa.Quantity(12.14, "B", "update")) == "12.14 B/update"
    assert str(pa.Quantity(0.0, "s")) == "0 s"
    assert str(pa.Quantity(999.96e-6, "s")) == "1 ms"
    assert str(pa.Quantity(float("inf"), "s")) == "inf s"
    assert f"{pa.Quantity(0.5, 's'):.3f}" == "0.500"


def test_compares_with_numbers_strings_and_quantities():
    time = pa.Quantity(50e-6, "s")
    assert time < "60 us"
    assert time >= "50 us"
    assert time == 50e-6
    assert time != "51 us"
    assert time < pa.Quantity("1 ms")
    assert time == pytest.approx(50.1e-6, rel=0.01)
    assert time != None  # noqa: E711 - the comparison itself is under test
    with pytest.raises(pa.UnitError):
        assert time < "60 B"
    with pytest.raises(pa.UnitError):
        assert pa.Quantity("1 B/update") < pa.Quantity("1 B")
    with pytest.raises(TypeError):
        assert time < object()


def test_is_a_float_that_survives_pickling_and_hashing():
    time = pa.Quantity(5e-6, "s")
    assert isinstance(time, float)
    assert time * 2 == 1e-5
    again = pickle.loads(pickle.dumps(time))
    assert (again, again.unit) == (time, "s")
    assert hash(time) == hash(5e-6)


def test_odd_constructions():
    with pytest.raises(pa.UnitError):
        pa.Quantity(1.0, "us")
    with pytest.raises(pa.UnitError):
        pa.Quantity("1 us", "s")


@given(st.floats(1e-12, 1e15))
def test_rounding_keeps_ten_digits(value):
    assert round_significant(value) == pytest.approx(value, rel=1e-9)
    assert round_significant(round_significant(value)) == round_significant(value)


SCALARS = [np.int8, np.int32, np.uint64, np.int64]


class TestNumbersOfUsers:
    """Tests that numpy's numbers are accepted as Python's, and that other values are errors."""

    @pytest.mark.parametrize("kind", SCALARS)
    def test_integers_of_numpy(self, kind):
        made = to_integer(kind(100), "registers", pa.KernelError, 1)
        assert (made, type(made)) == (100, int)

    @pytest.mark.parametrize("kind", [np.float32, np.float64, *SCALARS, Decimal, Fraction])
    def test_reals(self, kind):
        made = to_real(kind(3), "flops", pa.KernelError)
        assert made == 3
        assert type(made) in (int, float)

    @pytest.mark.parametrize(
        ("value", "wanted"),
        [
            (True, "an integer, not True"), ("3", "an integer, not '3'"),
            (2.0, "an integer, not 2.0"), (0, "at least 1, not 0"), (None, "an integer"),
            (2**63, "at most 9223372036854775807"), (np.float32(2), "an integer"),
            (np.bool_(True), "an integer"), (np.array([1, 2]), "an integer"),
        ],
    )  # fmt: skip
    def test_no_integers(self, value, wanted):
        with pytest.raises(pa.LaunchError, match=f"^blocks must be {re.escape(wanted)}"):
            to_integer(value, "blocks", pa.LaunchError, 1)

    @pytest.mark.parametrize(
        ("value", "wanted"),
        [
            ("3", "a number above 0, not '3'"), (math.nan, "finite above 0, not nan"),
            (math.inf, "finite above 0"), (10**400, "finite above 0"), (0, "above 0, not 0"),
            (False, "a number above 0"), (1j, "a number above 0"), (np.array([1.0]), "a number"),
            (np.bool_(True), "a number"), (Decimal("nan"), "finite"),
        ],
    )  # fmt: skip
    def test_no_reals(self, value, wanted):
        with pytest.raises(pa.KernelError, match=f"^flops must be {re.escape(wanted)}"):
            to_real(value, "flops", pa.KernelError, above=0)

    def test_a_number_that_python_does_not_print(self):
        with pytest.raises(pa.LaunchError, match="at most 9223372036854775807, not a int"):
            to_integer(10**5000, "blocks", pa.LaunchError)

    def test_a_quantity_of_numpy(self):
        assert pa.Quantity(np.float32(0.5), "s") == np.float64(0.5)
        assert pa.Quantity(np.int16(5)) < np.int64(6)
        assert pa.Quantity(5.0) < 10**400
        with pytest.raises(pa.UnitError, match="no granularity"):
            pa.Quantity(1.0, "B", "parsec")


class TestArithmetic:
    """Results are plain floats; what has none is an error that shows both sides."""

    TIME, ZERO, BYTES = pa.Quantity("2 s"), pa.Quantity("0 s"), pa.Quantity("3 B")
    PER_THREAD = pa.Quantity("3 B/thread")

    def test_results(self):
        results = {
            "a + b": self.TIME + self.TIME, "1 + a": 1 + self.TIME, "a - b": self.TIME - 0.5,
            "a / B": self.BYTES / self.TIME, "a % 1": self.TIME % 1.5, "a // 1": self.TIME // 1.5,
            "a ** 2": self.TIME**2, "2 ** a": 2**self.TIME, "a * b": 3 * self.TIME,
            "sum": sum([self.TIME, self.TIME]),
        }  # fmt: skip
        assert results == {
            "a + b": 4, "1 + a": 3, "a - b": 1.5, "a / B": 1.5, "a % 1": 0.5, "a // 1": 1,
            "a ** 2": 4, "2 ** a": 4, "a * b": 6, "sum": 4,
        }  # fmt: skip
        assert {type(value) for value in results.values()} == {float}
        assert divmod(self.TIME, 1.5) == (1, 0.5)
        assert math.isnan(self.TIME + math.nan)
        assert self.TIME / math.inf == 0

    @pytest.mark.parametrize(
        ("compute", "message"),
        [
            (lambda q, z: q / 0, "2 s / 0: .*zero"),
            (lambda q, z: q / z, "2 s / 0 s: .*zero"),
            (lambda q, z: 1 / z, "1 / 0 s: .*zero"),
            (lambda q, z: q % 0, "2 s % 0: .*(zero|modulo)"),
            (lambda q, z: q // 0.0, "2 s // 0.0: .*zero"),
            (lambda q, z: divmod(q, 0), r"divmod\(2 s, 0\): .+"),
            (lambda q, z: z**-1, r"0 s \*\* -1: .*negative"),
            (lambda q, z: q**10_000, r"2 s \*\* 10000: .+"),
            (lambda q, z: q * 10**400, r"2 s \* 1000.* int too large"),
            (lambda q, z: 10**400 - q, r"1000.* - 2 s: int too large"),
        ],
    )
    def test_what_has_no_result(self, compute, message):
        with pytest.raises(pa.UnitError, match=message):
            compute(self.TIME, self.ZERO)

    @pytest.mark.parametrize("sign", ["+", "-", "%"])
    def test_units_that_differ(self, sign):
        compute = {"+": operator.add, "-": operator.sub, "%": operator.mod}[sign]
        for other in (self.BYTES, pa.Quantity(4)):
            with pytest.raises(pa.UnitError, match=rf"2 s \{sign} .*: the units differ"):
                compute(self.TIME, other)
        with pytest.raises(pa.UnitError, match="the units differ"):
            compute(self.BYTES, self.PER_THREAD)
        assert type(compute(self.TIME, 4)) is float

    def test_text_is_no_number(self):
        with pytest.raises(TypeError):
            self.TIME / "2 s"
