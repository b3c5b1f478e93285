"""Conditions: what they mean, what they refuse, what a failure shows."""

import json
import pickle
from itertools import pairwise

import pytest
from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa
from perfassert.expect.condition import OPTIMIZERS, parse_condition
from perfassert.expect.metrics import METRICS, metric
from perfassert.prediction.prediction import LIMITERS

GIVEN = {"time": 81e-6, "dram_load": 12.0, "occupancy": 0.75, "registers": 32.0}


@pytest.fixture(scope="module")
def prediction():
    return pa.predict(star3d25pt(), pa.Launch.cover(DOMAIN, (16, 2, 16)), "a100")


@pytest.mark.parametrize(
    ("name", "condition", "holds"),
    [
        ("time", "< 82 us", True),
        ("time", "<81 us", False),
        ("time", "<= 81 us", True),
        ("time", "≤ 0.081 ms", True),
        ("time", "> 81 us", False),
        ("time", ">= 81us", True),
        ("time", "== 81 us", True),
        ("time", 81e-6, True),
        ("time", pa.Quantity("81 us"), True),
        ("time", "80 us ± 2 %", True),
        ("time", "80 us +- 1 %", False),
        ("time", "81 us ± 0 %", True),
        ("dram_load", "12 B / update ± 1 %", True),
        ("time", "80 us +/- 1 us", True),
        ("time", "80 us -5 % +1 %", False),
        ("time", "80 us -1 % +5 %", True),
        ("time", "80 us -1 ns +2 us", True),
        ("time", "80 .. 82 us", True),
        ("time", "80 us .. 81 us", True),
        ("time", "81.1us..82us", False),
        ("dram_load", "12 B/update ± 5 %", True),
        ("dram_load", "<= 11 B/updates", False),
        ("occupancy", ">= 75 %", True),
        ("occupancy", ">= 0.75", True),
        ("occupancy", "70 % .. 80 %", True),
        ("occupancy", 0.5, False),
        ("registers", "<= 32", True),
        ("registers", 32, True),
    ],
)
def test_meaning(name, condition, holds):
    assert parse_condition(metric(name), condition).holds(GIVEN[name]) is holds


@pytest.mark.parametrize(
    ("name", "condition", "actual", "holds"),
    [
        ("limiter", "dram", ("dram",), True),
        ("limiter", "l1 | l2", ("dram",), False),
        ("limiter", "!latency", ("dram",), True),
        ("limiter", "!dram | l2", ("dram",), False),
        ("limiter", "DRAM", ("dram",), True),
        ("advice", "Loop Unrolling", ("Fast Math", "Loop Unrolling"), False),
        ("advice", "in top 3: Loop Unrolling", ("Fast Math", "Loop Unrolling"), True),
        ("advice", "in top 1: loop unrolling", ("Loop Unrolling",), True),
        ("advice", "!in top 2: Loop Unrolling", (), None),
    ],
)
def test_names(name, condition, actual, holds):
    if holds is None:
        with pytest.raises(pa.PerfAssertError):
            parse_condition(metric(name), condition)
    else:
        assert parse_condition(metric(name), condition).holds(actual) is holds


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({}, "no condition"),
        ({"tim": "< 1 us"}, "unknown metric 'tim'; did you mean 'time'"),
        ({"zzz": 1}, "known: time"),
        ({"time": "60 us"}, "needs an operator, a tolerance or a range"),
        ({"time": "< 60"}, "time needs a unit of 's', not none"),
        ({"occupancy": "< 50"}, "more than all of it; write 50 %"),
        ({"time": "< 60 B"}, "time needs a unit of 's', not 'B'"),
        ({"time": "< 60 parsec"}, "unknown unit 'parsec'"),
        ({"time": "< 60 us/update"}, "has no value per update"),
        ({"time": "< fast"}, "not a number"),
        ({"time": "60 us ± 5 B"}, "different units"),
        ({"time": "60 us ± 5"}, "needs a unit or %"),
        ({"time": "60 us ± -5 %"}, "not negative"),
        ({"time": "70 us .. 60 us"}, "range is empty"),
        ({"time": "< 60 %"}, "percentage is allowed only in a tolerance"),
        ({"time": True}, "give a number or a string"),
        ({"time": None}, "give a number or a string"),
        ({"time": float("nan")}, "give a number or a string"),
        ({"time": pa.Quantity("1 B")}, "its unit should be s"),
        ({"dram_load": "< 1 B/lup"}, "unknown denominator '/lup'"),
        ({"dram_load": "1 B .. 2 B/update"}, "same unit"),
        ({"limiter": "dramm"}, "unknown name 'dramm'; did you mean 'dram'"),
        ({"limiter": ""}, "give names"),
        ({"limiter": 3}, "give names"),
        ({"advice": "Loop Rolling"}, "did you mean 'Loop Unrolling'"),
        ({"advice": "in top 0: Fast Math"}, "starts at 1"),
        ({"spill_bytes": "== 0 B"}, "cannot have it; it needs compiled code"),
    ],
)
def test_senseless_conditions_never_pass(prediction, conditions, reason):
    with pytest.raises(pa.PerfAssertError) as caught:
        prediction.expect(**conditions)
    assert reason in str(caught.value)
    assert not isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("conditions", [{"advice": "Loop Unrolling"}, {"advice_speedup": "> 1.1"}])
def test_measured_volumes_have_no_advice(conditions):
    launch = pa.Launch.cover(DOMAIN, (16, 2, 16))
    measured = pa.predict(star3d25pt(), launch, "a100", volumes={"dram_load": "8 B/update"})
    with pytest.raises(pa.ExpectationError, match="cannot have it; no advice was computed"):
        measured.expect(**conditions)


def test_passing_returns_the_prediction(prediction):
    assert prediction.expect(time="< 1 s", limiter="l1 | dram", occupancy=1.0) is prediction
    for name in METRICS:
        if name not in ("advice", "advice_speedup", "spill_bytes", "instructions", "limiter",
                        "roofline_limiter", "confidence"):  # fmt: skip
            unit = METRICS[name].unit
            prediction.expect(**{name: f">= 0 {unit}"})


def test_per_granularity(prediction):
    total = float(prediction.volumes.dram_load.total)
    for per, count in (
        ("thread", prediction.threads),
        ("update", prediction.updates),
        ("warp", prediction.warps),
        ("block", prediction.blocks),
    ):
        prediction.expect(dram_load=f"{total / count!r} B/{per} ± 0.001 %")


def test_the_failure_is_one_table(prediction):
    with pytest.raises(pa.ExpectationFailed) as caught:
        prediction.expect(time="< 1 ms", dram_load="10 B/update ± 5 %", l1_cycles="> 1 /update")
    headline, *rest = str(caught.value).splitlines()
    more = f"{100 * (float(prediction.time) / 1e-3 - 1):+.1f} %"
    assert headline.startswith(f"time is {prediction.time}, expected < 1 ms ({more}); dram_load is")
    text = "\n".join(rest)
    for heading in ("metric", "expected", "predicted", "difference", "margin", "verdict"):
        assert heading in rest[1]
    assert text.count("FAIL") == 2
    assert "model ±" in text
    assert "time of each limiter alone" in text
    assert "compulsory" in text
    assert "overlap_z" in text


def test_assumptions_stand_below_the_table():
    fields = [pa.Field("a", shape=(1024,)), pa.Field("i", "int32", (1024,))]
    kernel = pa.Kernel.from_accesses("g", fields, loads=["a[i[x]]"], assume={"i[x]": "x"})
    prediction = pa.predict(kernel, pa.Launch.cover(1024, 64), "a100")
    with pytest.raises(pa.ExpectationFailed, match=r"assumed:\n- i\[x\] is taken to be x"):
        prediction.expect(time="> 1 s")


def test_parts_and_fields_sum_to_the_total(prediction):
    for name in ("dram_load", "dram_store", "l2_load", "l2_store", "l1_wavefronts", "l1_cycles"):
        volume = getattr(prediction.volumes, name)
        total = float(volume.total)
        assert sum(map(float, volume.parts.values())) == pytest.approx(total, rel=1e-9)
        fields = sum(float(f.total) for f in volume.fields.values())
        assert fields == pytest.approx(total, rel=1e-9)
    assert set(prediction.volumes.dram_load.parts) == {
        "compulsory", "overlap_y", "overlap_z", "capacity", "store_fill",
    }  # fmt: skip
    assert set(prediction.volumes.l2_load.parts) == {"compulsory", "capacity"}


def test_round_trip_through_json(prediction):
    data = json.loads(json.dumps(prediction.to_dict()))
    again = pa.Prediction.from_dict(data)
    assert again == prediction
    assert again.to_json() == prediction.to_json()
    assert str(again.time) == str(prediction.time)


def test_predictions_are_reproducible_and_immutable(prediction):
    again = pa.predict(star3d25pt(), pa.Launch.cover(DOMAIN, (16, 2, 16)), "a100")
    assert again.to_dict() == prediction.to_dict()
    with pytest.raises(AttributeError):
        prediction.limiter = "l2"
    with pytest.raises(TypeError):
        prediction.bounds["dram"] = 0
    assert pickle.loads(pickle.dumps(prediction)) == prediction
    assert len({prediction, again}) == 1


def test_the_slowest_limiter_decides(prediction):
    assert set(prediction.bounds) <= set(LIMITERS)
    assert prediction.limiter == max(prediction.bounds, key=prediction.bounds.get)
    assert prediction.time >= max(prediction.bounds.values())
    assert prediction.roofline_time <= prediction.time
    assert len(OPTIMIZERS) == 16


@pytest.mark.parametrize("key", ["dram_bandwidth", "l2_bandwidth", "clock_hz", "l2_bytes"])
def test_more_of_anything_is_hardly_ever_slower(key):
    """List scheduling has anomalies; derived costs are rounded. Bounds are monotone without."""
    kernel, launch = star3d25pt(), pa.Launch.cover(DOMAIN, (32, 8, 2))
    device = pa.device("a100")
    times = [
        pa.predict(kernel, launch, device.replace(**{key: getattr(device, key) * f})).time
        for f in (1, 2, 3)
    ]
    assert all(later <= earlier * 1.001 for earlier, later in pairwise(times))
