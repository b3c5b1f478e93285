"""A limiter whose bound is next to another one's: which of them it is, the model cannot tell."""

import pytest
from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa
from perfassert.expect.check import evaluate, limiters_within_error


def predict(share):
    """A star stencil that the L1 limits, and whose DRAM takes that share of the L1's time."""
    device, launch = pa.device("a100"), pa.Launch.cover(DOMAIN, (16, 2, 16))
    bounds = pa.predict(star3d25pt(), launch, device).bounds
    slower = share * float(bounds["l1"]) / float(bounds["dram"])
    changed = device.replace(dram_bandwidth=device.dram_bandwidth / slower)
    return pa.predict(star3d25pt(), launch, changed)


@pytest.fixture(scope="module")
def close():
    prediction = predict(0.95)
    assert prediction.limiter == "l1"
    assert 0.05 < prediction.error_band("limiter").band < 0.3
    return prediction


def test_limiters_are_the_bounds_within_the_error_of_a_time(close):
    assert limiters_within_error(close) == ("l1", "dram")
    assert limiters_within_error(predict(0.6)) == ("l1",)


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("l1 | dram", "ok"), ("dram | l1 | l2", "ok"), ("!compute", "ok"),
        ("l1", "undecided"), ("dram", "undecided"), ("!dram", "undecided"),
        ("compute", "FAIL"), ("!l1 | dram", "FAIL"),
    ],
)  # fmt: skip
def test_three_verdicts(close, condition, verdict):
    (allowed,) = evaluate(close, {"limiter": condition}, "allow")
    assert allowed.verdict == verdict
    assert allowed.passed == (verdict != "FAIL")
    (strict,) = evaluate(close, {"limiter": condition})
    assert strict.passed == (verdict == "ok")


def test_undecided_fails_and_says_so(close):
    with pytest.raises(pa.ExpectationFailed) as caught:
        close.expect(limiter="l1", time="< 1 s")
    headline = str(caught.value).splitlines()[0]
    assert "limiter is undecided: l1 (or dram, within the model's error)" in headline
    assert 'undecided="allow"' in headline
    assert close.expect(limiter="l1", time="< 1 s", undecided="allow") is close


def test_what_lies_far_apart_is_decided():
    assert predict(0.6).expect(limiter="l1").limiter == "l1"
    with pytest.raises(pa.ExpectationFailed, match="limiter is l1, expected dram"):
        predict(0.6).expect(limiter="dram", undecided="allow")


def test_latency_is_the_only_limiter():
    field = pa.Field("a", shape=1 << 10)
    kernel = pa.Kernel.from_accesses("k", [field], ["a[x]"])
    prediction = pa.predict(kernel, pa.Launch.cover(1 << 10, 64), "a100")
    assert prediction.limiter in ("latency", "parallelism")
    assert limiters_within_error(prediction) == (prediction.limiter,)


@pytest.mark.parametrize("given", ["maybe", True, None, ""])
def test_what_becomes_of_it_is_fail_or_allow(close, given):
    with pytest.raises(pa.ExpectationError, match="'fail' or 'allow'"):
        close.expect(limiter="l1", undecided=given)


def test_undecided_alone_is_no_condition(close):
    with pytest.raises(pa.ExpectationError, match="no condition"):
        close.expect(undecided="allow")
