"""Probabilities of orders, fitted and tested on pairs of made-up rows whose errors are known."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from perfassert.lab.validation.decisions import decisions_page
from perfassert.lab.validation.pairs import (
    Decisions,
    MeasuredPair,
    decide_other_devices,
    decide_other_half,
    decide_other_suites,
    fit_pair_errors,
    measured_pairs,
    merge_decisions,
    pair_errors_text,
)
from perfassert.predictor.judge.errors import PredictionKind
from perfassert.predictor.judge.pairs import ANY, PairError, PairKind

KIND = PairKind("compiled", "same", "l1")


def drawn(error, count, seed=3, suite="a"):
    """Pairs that are right as often as an error of pairs says."""
    numbers = np.random.default_rng(seed)
    distances = numbers.exponential(0.2, count)
    return [
        MeasuredPair(
            suite, ("d", "d"), KIND, distance, distance,
            bool(numbers.random() < error.probability(float(np.exp(distance)))), i % 2, False,
        )
        for i, distance in enumerate(distances)
    ]  # fmt: skip


def validated(name, count, wrong, kinds=("l1",), fitted=False, guessed=(), devices=("d",)):
    """A suite of one kernel whose predicted times are off by a factor of e^N(0, wrong)."""
    numbers = np.random.default_rng(len(name))
    measured = np.exp(numbers.normal(0, 0.5, count))
    predicted = measured * np.exp(numbers.normal(0, wrong, count)) * 1.7
    each = [PredictionKind("sm_80", "compiled", kinds[i % len(kinds)]) for i in range(count)]
    result = SimpleNamespace(
        spec=SimpleNamespace(name="time"), measured=measured, predicted=predicted,
        kinds=tuple(None if i in guessed else kind for i, kind in enumerate(each)),
        kernels=("k",) * count, groups=((),) * count, lines=tuple(range(count)),
        fitted=(fitted,) * count, devices=tuple(devices[i % len(devices)] for i in range(count)),
    )  # fmt: skip
    suite = SimpleNamespace(path=SimpleNamespace(stem=name), title=f"suite {name}")
    return SimpleNamespace(suite=suite, metrics=(result,), model_version="0")


@pytest.mark.parametrize("error", [PairError(0.05, 2.0), PairError(0.5, 8.0)])
def test_the_fit_recovers_the_odds(error):
    (fit, _) = sorted(fit_pair_errors(drawn(error, 20_000)), key=lambda f: f.kind.limiter == ANY)
    assert fit.kind == KIND
    assert fit.pairs == 20_000
    for factor in (1.05, 1.2, 1.6):
        assert fit.error.probability(factor) == pytest.approx(error.probability(factor), abs=0.02)


def test_an_error_that_is_common_to_all_rows_does_not_count():
    """The times are 1.7 times too long, but the order of each pair is right."""
    pairs = measured_pairs([validated("exact", 30, 0.0)])
    assert len(pairs) == 30 * 29 // 2
    assert all(pair.right for pair in pairs)


def test_guesses_and_ties_are_no_pairs():
    assert len(measured_pairs([validated("some", 12, 0.1, guessed=(0, 1))])) == 10 * 9 // 2


def test_one_kernel_on_two_devices_is_no_pair_of_variants():
    """Nobody chooses between them, so they do not say how sure the choice of a variant is."""
    pairs = measured_pairs([validated("boards", 10, 0.1, devices=("d", "e"))])
    assert Counter(pair.kind.kernel for pair in pairs) == {"same": 20, "other": 25}


def test_the_other_half_is_calibrated():
    """At least 90 % of orders decided with 90 % are right, and probabilities are about the
    shares."""
    judged = decide_other_half(measured_pairs([validated("space", 150, 0.15)]))["space"]
    assert judged.share_right > 0.9
    for _, _, count, mean, right in judged.bins():
        assert abs(mean - right) < 0.08 + 1 / np.sqrt(count)
    assert judged.brier < judged.naive_brier


def test_pairs_within_halves_share_no_row_with_the_other():
    pairs = measured_pairs([validated("space", 40, 0.1)])
    within = [sum(p.half == half for p in pairs) for half in (0, 1)]
    rows = [(1 + np.sqrt(1 + 8 * n)) / 2 for n in within]  # n = r (r − 1) / 2
    assert sum(rows) == 40


def test_rows_that_something_was_fitted_on_test_nothing():
    suites = [validated("seen", 60, 0.1, fitted=True), validated("new", 60, 0.1)]
    pairs = measured_pairs(suites)
    assert set(decide_other_half(pairs)) == set(decide_other_suites(pairs)) == {"new"}


def test_figures_of_decisions():
    decisions = Decisions(
        np.array([0.95, 0.95, 0.6, 0.99]), np.array([True, False, True, True]),
        np.log([1.5, 1.05, 1.2, 1.3]),
    )  # fmt: skip
    assert decisions.share_decided() == 0.75
    assert decisions.share_decided(0.1) == pytest.approx(2 / 3)
    assert decisions.share_right == pytest.approx(2 / 3)
    assert decisions.naive_brier == 0.25
    brier = (0.05**2 + 0.95**2 + 0.4**2 + 0.01**2) / 4
    assert decisions.brier == pytest.approx(brier)
    assert len(merge_decisions([decisions, decisions]).right) == 8


def test_times_within_a_percent_are_not_decided_by_the_rounded_table():
    """If all orders are right, the smallest error is fitted that the limit admits."""
    certain = [
        MeasuredPair("a", ("d", "d"), KIND, distance, distance, True, 0, False)
        for distance in np.linspace(0.001, 0.3, 200)
    ]
    assert all(fit.error.margin() >= 0.01 for fit in fit_pair_errors(certain))


def test_the_table_can_be_read(monkeypatch, tmp_path):
    from perfassert.predictor.judge import pairs as reader
    from perfassert.toml.tables import loads

    fits = fit_pair_errors(drawn(PairError(0.1, 2.0), 400))
    table = loads(pair_errors_text(fits, "0"))
    monkeypatch.setattr(reader, "read_fit", lambda name: table)
    reader._table.cache_clear()
    try:
        assert reader.pair_error(KIND) == next(f.error for f in fits if f.kind == KIND)
    finally:
        monkeypatch.undo()
        reader._table.cache_clear()


def test_pairs_of_a_device_are_judged_by_other_devices():
    """On one device all orders are right and on the other half of them: each expects the other."""
    right, wrong = validated("right", 40, 0.001, devices=("a",)), validated("wrong", 40, 9.0)
    judged = decide_other_devices(measured_pairs([right, wrong]))
    assert set(judged) == {"a", "d"}
    assert judged["a"].right.mean() > 0.98
    assert judged["a"].probability.mean() < 0.7
    assert judged["d"].right.mean() < 0.7
    assert judged["d"].probability.mean() > 0.98


def test_the_page_names_suites_and_shows_the_diagram():
    from datetime import date

    results = [validated("one", 60, 0.1, kinds=("l1", "dram")), validated("three", 60, 0.1)]
    assert "other devices" not in decisions_page(results, date(2026, 1, 2), "page.svg")[0]
    results.append(validated("four", 60, 0.1, devices=("elsewhere",)))
    text, picture = decisions_page(results, date(2026, 1, 2), "page.svg")
    assert "suite one" in text
    assert "| elsewhere" in text
    assert "suite three" in text
    assert "(page.svg)" in text
    assert picture.startswith(b"<?xml")
    assert b"</svg>" in picture
    assert decisions_page(results, date(2026, 1, 2), "page.svg") == (text, picture)
