"""Bands: calibrated so that nine of ten further errors stay below, whoever measured them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perfassert.lab.validation.bands import bands, bands_text, hold_out, left_out_factors
from perfassert.predictor.judge import errors
from perfassert.predictor.judge.errors import PredictionKind, error_band

DRAM = PredictionKind("sm_80", "compiled", "dram")
TRAITS = {
    "registers": 32.0,
    "code_bytes": 1024.0,
    "wave_footprint_bytes": 1e6,
    "stores_per_load": 0.5,
}


def validated(name, wrong, kind=DRAM, fitted=False, traits=None, device="A100"):
    """A suite whose times are too long by those shares."""
    count = len(wrong)
    measured = np.arange(1.0, count + 1)
    result = SimpleNamespace(
        spec=SimpleNamespace(name="time"), kinds=(kind,) * count, groups=((),) * count,
        measured=measured, predicted=measured * (1 + np.asarray(wrong)),
        fitted=(fitted,) * count, traits=tuple(traits or [TRAITS] * count),
        devices=(device,) * count,
    )  # fmt: skip
    suite = SimpleNamespace(path=SimpleNamespace(stem=name), title=name)
    return SimpleNamespace(suite=suite, metrics=(result,))


def band_of(kind, *suites):
    return next(b for b in bands(suites) if b.kind == kind and b.metric == "time")


def test_the_quantile_of_one_suite():
    """The band is the 18th of 19 errors: 0.9 · 20 / 19 of them, which a 20th error does not exceed
    with 90 %."""
    wrong = np.arange(1, 20) / 100
    assert band_of(DRAM, validated("a", wrong)).error == pytest.approx(0.18)


def test_nine_of_ten_further_errors_are_below():
    numbers = np.random.default_rng(5)
    held = [
        numbers.exponential(0.1)
        <= band_of(DRAM, validated("a", numbers.exponential(0.1, 29))).error
        for _ in range(600)
    ]
    assert 0.87 < np.mean(held) < 0.94  # ± 3 standard errors around 0.9 and the rounding


def test_a_suite_of_many_rows_counts_as_much_as_one_of_few():
    few, many = validated("few", [0.5] * 10), validated("many", [0.01] * 990)
    assert band_of(DRAM, few, many).error == pytest.approx(0.5)
    assert band_of(DRAM, few, many).suite == "few, many"


def test_rows_that_were_fitted_on_count_only_without_others():
    fitted, unseen = validated("a", [0.9] * 20, fitted=True), validated("b", [0.1] * 20)
    assert band_of(DRAM, fitted, unseen).error == pytest.approx(0.1)
    assert band_of(DRAM, fitted).fitted


def test_similar_kinds_stand_for_one_that_was_not_measured():
    kinds = {b.kind for b in bands([validated("a", [0.1] * 20)]) if b.metric == "time"}
    assert kinds == {DRAM, replace(DRAM, arch="any"), PredictionKind("any", "compiled", "any")}


def shares(held):
    groups = {row.group for row in held}
    return {name: np.mean([row.inside for row in held if row.group == name]) for name in groups}


def test_held_out_rows_have_no_part_in_their_bands():
    """The band of each of two suites comes from the other one, and that of each of two devices."""
    exact, rough = validated("exact", [0.01] * 20), validated("rough", [0.3] * 20, device="V100")
    assert shares(hold_out([exact, rough], "suite")) == {"exact": 1, "rough": 0}
    more = validated("more", [0.005] * 20, device="V100")
    assert shares(hold_out([exact, rough, more], "suite")) == {"exact": 1, "rough": 0, "more": 1}
    assert shares(hold_out([exact, rough, more], "device")) == {"A100": 1, "V100": 0.5}


def test_held_out_bands_are_widened_by_what_the_others_ask_for():
    """Among the other two suites one needs three times the other's band, so that the third has
    three times the wider one."""
    suites = validated("a", [0.1] * 20), validated("b", [0.3] * 20), validated("c", [0.8] * 20)
    held = hold_out(suites, "suite")
    assert all(row.band == pytest.approx(0.9) for row in held if row.group == "c")


def test_a_held_out_kernel_beyond_what_the_others_measured_has_the_band_of_similar_ones():
    near = validated("near", [0.1] * 20)
    other = validated("other", [0.4] * 20, replace(DRAM, arch="sm_90"))
    large = validated("large", [0.3] * 20, traits=[{**TRAITS, "registers": 168.0}] * 20)
    held = [row for row in hold_out([near, other, large], "suite") if row.group == "large"]
    assert all(row.inside and row.band >= 0.4 for row in held)


@pytest.fixture
def measured(monkeypatch):
    """Tables of known errors of these suites."""
    tomllib = pytest.importorskip("tomllib")

    def measure(*suites, factors=False):
        text = bands_text(bands(suites), "0", left_out_factors(suites) if factors else ())
        monkeypatch.setattr(errors, "read_fit", lambda _: tomllib.loads(text))
        forget()

    def forget():
        errors._table.cache_clear()
        errors._error_of_like.cache_clear()
        errors._left_out_factors.cache_clear()
        errors._widest.cache_clear()

    yield measure
    monkeypatch.undo()
    forget()


def test_a_kernel_beyond_what_was_measured_is_not_measured(measured):
    rows = [{**TRAITS, "registers": float(n)} for n in range(20, 40)]
    measured(
        validated("a", [0.1] * 20, traits=rows),
        validated("b", [0.4] * 20, replace(DRAM, arch="sm_90")),
    )
    near = error_band("time", DRAM, {**TRAITS, "registers": 50.0})
    far = error_band("time", DRAM, {**TRAITS, "registers": 168.0})
    assert near.error == near.band == pytest.approx(0.1)
    assert not far.measured
    assert far.error == far.band == pytest.approx(0.4)  # of the same limiter anywhere
    assert far.outside == "168 registers per thread, at most 39 were measured"


def test_a_kind_that_was_not_measured_has_the_band_of_its_limiter(measured):
    measured(validated("a", [0.1] * 20), validated("b", [0.4] * 20, replace(DRAM, limiter="l1")))
    elsewhere = error_band("time", replace(DRAM, arch="sm_90"), TRAITS)
    assert (elsewhere.suite, elsewhere.outside) == ("", "")
    assert elsewhere.error == elsewhere.band == pytest.approx(0.1)
    issue = error_band("time", PredictionKind("sm_90", "compiled", "issue"), TRAITS)
    assert issue.band == pytest.approx(0.4)


def test_bands_are_as_wide_as_left_out_suites_ask_for():
    """Two suites of one kind, one twice as wrong: its rows need twice the other's band. A third
    kind has its limiter's band of the others, and is not known better."""
    far = replace(DRAM, arch="sm_90")
    suites = (
        validated("near", [0.1] * 20), validated("rough", [0.2] * 20),
        validated("far", [0.3] * 30, far),
    )  # fmt: skip
    factors = {f.measured: f for f in left_out_factors(suites)}
    assert (factors[True].rows, factors[True].factor) == (40, pytest.approx(2.0))
    assert (factors[False].rows, factors[False].factor) == (30, pytest.approx(2.0))  # 1.5 alone
    assert next(left_out_factors(suites[:2])).factor == pytest.approx(2.0)
    assert not list(left_out_factors((suites[0], validated("few", [0.1] * 9))))


def test_factors_of_left_out_suites_widen_the_bands(measured):
    suites = (
        validated("near", [0.1] * 20), validated("rough", [0.2] * 20),
        validated("far", [0.3] * 30, replace(DRAM, arch="sm_90")),
    )  # fmt: skip
    measured(*suites, factors=True)
    assert error_band("time", DRAM, TRAITS).error == pytest.approx(0.4)  # twice that of both
    elsewhere = error_band("time", replace(DRAM, arch="sm_70"), TRAITS)
    assert not elsewhere.measured
    assert elsewhere.error == pytest.approx(0.6)  # twice that of all three
