"""Tests of the confidence in the order of two predictions."""

from dataclasses import replace
from math import log

import pytest
from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa
from perfassert.predictor.judge.pairs import (
    PairError,
    PairKind,
    TimedLaunch,
    examples_of_pair,
    pair_error,
    pair_kind,
    probability,
)
from perfassert.source import Assumption

ERROR = PairError(scale=0.1, power=2.0)


def predict(block, device="a100"):
    return pa.predict(star3d25pt(), pa.Launch.cover(DOMAIN, block), device)


def test_odds_grow_as_a_power_of_the_distance():
    """(1 + 0.3 / 0.1)² = 16 to 1 for times that differ by e^0.3."""
    assert ERROR.probability(1.0) == 0.5
    assert ERROR.probability(2.718281828459045**0.3) == pytest.approx(16 / 17)


def test_what_is_likely_one_way_is_unlikely_the_other():
    for factor in (1.001, 1.2, 7.0):
        assert ERROR.probability(factor) + ERROR.probability(1 / factor) == pytest.approx(1.0)


def test_the_margin_is_where_the_order_is_as_sure_as_asked():
    for confidence in (0.6, 0.9, 0.99):
        assert ERROR.probability(1 + ERROR.margin(confidence)) == pytest.approx(confidence)


def test_kinds():
    compiled = TimedLaunch("k", True, "l1", 1.0)
    assert pair_kind(compiled, compiled) == PairKind("compiled", "same", "l1")
    other = TimedLaunch("j", False, "dram", 1.0)
    assert pair_kind(compiled, other) == PairKind("compiled", "other", "other")


@pytest.mark.parametrize("way", ["compiled", "described"])
@pytest.mark.parametrize("kernel", ["same", "other"])
@pytest.mark.parametrize("limiter", ["dram", "atomics", "other"])
def test_every_kind_has_an_error(way, kernel, limiter):
    kind = PairKind(way, kernel, limiter)
    assert next(examples_of_pair(kind)) == kind
    assert 0.01 <= pair_error(kind).margin() < 1.0


def test_nothing_within_a_percent_is_decided():
    one = TimedLaunch("k", False, "latency", 1.0)
    assert probability(one, replace(one, seconds=1.0099)) < 0.9


def test_two_block_shapes_of_one_kernel():
    """14 % apart: far within the error of a time, but one is slower all the same."""
    fast, slow = predict((16, 4, 16)), predict((32, 4, 8))
    likely = fast.probability_faster(slow)
    assert likely > 0.9
    assert slow.probability_faster(fast) == pytest.approx(1 - likely)
    assert fast.probability_faster(fast) == 0.5
    assert log(float(slow.time) / float(fast.time)) < 0.3


def test_two_devices_are_an_error():
    with pytest.raises(pa.RankingError, match="two devices"):
        predict((16, 4, 16)).probability_faster(predict((16, 4, 16), "v100"))


def test_a_prediction_read_from_a_file_has_the_same():
    fast, slow = predict((16, 4, 16)), predict((32, 4, 8))
    again = pa.Prediction.from_dict(fast.to_dict())
    assert again.probability_faster(slow) == fast.probability_faster(slow)


def test_where_one_is_guessed_nobody_knows():
    fast, slow = predict((16, 4, 16)), predict((32, 4, 8))
    reason = Assumption("a trip count is assumed")
    guessed = replace(slow, confidence="guessed", confidence_reasons=(reason,))
    assert fast.probability_faster(guessed) is None
    assert guessed.probability_faster(fast) is None


def test_where_both_rest_on_the_same_guess_it_does_not_tell_them_apart():
    fast, slow = predict((16, 4, 16)), predict((32, 4, 8))
    reason = Assumption("a trip count is assumed")
    one, two = (
        replace(p, confidence="guessed", confidence_reasons=(reason,)) for p in (fast, slow)
    )
    assert one.probability_faster(two) == fast.probability_faster(slow)


def test_two_versions_of_the_model_are_not_compared():
    fast, slow = predict((16, 4, 16)), predict((32, 4, 8))
    assert fast.probability_faster(replace(slow, model_version="8")) is None
