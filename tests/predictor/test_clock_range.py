"""Boards of one model run at different clocks: how far a time may lie above and below for that."""

import pytest

import perfassert as pa
from perfassert.expect.check import evaluate

N = 1 << 22
SLOW, FAST = 1.0e9, 2.0e9


def device(**changes):
    """An A40, which DRAM does not limit unless the kernel streams."""
    return pa.device("a40").replace(slowest_clock_hz=SLOW, fastest_clock_hz=FAST, **changes)


def kernel(flops):
    field = pa.Field("a", "float32", shape=(N,))
    return pa.Kernel.from_accesses("k", [field], ["a[x]"], flops=flops, dtype="float32")


def predict(flops, target):
    return pa.predict(kernel(flops), pa.Launch.cover(N, 256), target)


def test_arithmetic_takes_as_many_cycles_at_any_clock():
    target = device()
    band = predict(3_000, target).error_band("time")
    assert band.above == pytest.approx(target.clock_hz / SLOW - 1, rel=0.01)
    assert band.below == pytest.approx(1 - target.clock_hz / FAST, rel=0.01)


def test_dram_takes_as_long_at_any_clock():
    target = device()
    prediction = predict(0, target)
    assert prediction.limiter == "dram"
    band, bounds = prediction.error_band("time"), prediction.bounds
    slowest = max(float(t) for name, t in bounds.items() if name != "dram")
    busy = float(prediction.cycles) / target.clock_hz
    at_slowest = max(busy, slowest * target.clock_hz / SLOW)
    assert band.above == pytest.approx(at_slowest / busy - 1, abs=1e-3)
    assert band.below == pytest.approx(1 - float(bounds["dram"]) / busy, abs=1e-3)


@pytest.mark.parametrize("name", ["a100", "rtx3090"])
def test_a_device_without_a_range_has_none(name):
    band = predict(100, pa.device(name)).error_band("time")
    assert (band.above, band.below) == (0.0, 0.0)
    assert "clock" not in band.describe()


def test_a_clock_that_is_given_is_known():
    a4000 = pa.device("a4000")
    assert a4000.slowest_clock_hz < a4000.clock_hz < a4000.fastest_clock_hz
    fixed = a4000.replace(clock_hz=1.4e9)
    assert (fixed.slowest_clock_hz, fixed.fastest_clock_hz) == (0.0, 0.0)


@pytest.mark.parametrize("clocks", [{"slowest_clock_hz": 3e9}, {"fastest_clock_hz": 1e9}])
def test_the_range_holds_the_clock(clocks):
    with pytest.raises(pa.DeviceFileError, match="clock_hz"):
        pa.device("a40").replace(**clocks)


def test_an_expectation_is_tight_on_the_side_that_the_clock_may_move():
    """A bound from above by 20 % more than the time: within what the slowest board takes."""
    target = pa.device("a40").replace(slowest_clock_hz=SLOW)
    prediction = predict(3_000, target)
    band = prediction.error_band("time").band
    room = 0.5 * (band + target.clock_hz / SLOW - 1) + 0.5 * band
    above, below = float(prediction.time) / (1 - room), float(prediction.time) / (1 + room)
    upper, lower = (
        evaluate(prediction, {"time": f"{sign} {bound} s"})[0].verdict
        for sign, bound in (("<", above), (">", below))
    )
    assert (upper, lower) == ("ok, tight", "ok")


def test_the_range_survives_a_report():
    prediction = predict(3_000, device())
    assert pa.Prediction.from_dict(prediction.to_dict()) == prediction
    assert ", clock -13/+74 %" in prediction.error_band("time").describe()
