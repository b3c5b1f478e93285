"""Measured volumes in, time out."""

import pytest

import perfassert as pa
from perfassert.errors import KernelError, LaunchError
from perfassert.predictor.rewrites.measured_volumes import MEASURABLE

N = 1 << 24
LAUNCH = pa.Launch.cover(N, 256)
DEVICE = pa.device("a100")
COPY = pa.Kernel.from_accesses(
    "copy", [pa.Field("a", shape=(N,)), pa.Field("b", shape=(N,))], loads=["b[x]"], stores=["a[x]"]
)


def predict(**volumes):
    return pa.predict(COPY, LAUNCH, DEVICE, volumes=volumes or None)


def test_what_is_predicted_changes_nothing():
    plain = predict()
    same = predict(**{name: float(getattr(plain.volumes, name).total) for name in MEASURABLE})
    assert float(same.time) == pytest.approx(float(plain.time), rel=1e-6)
    assert same.volumes.to_dict() == plain.volumes.to_dict()


@pytest.mark.parametrize("factor", [1.5, 3])
def test_a_kernel_that_dram_limits_takes_as_long_as_its_bytes(factor):
    """From there on, where the DRAM alone is slower than all else: bytes over bandwidth."""
    plain = predict()
    total = float(plain.volumes.dram_load.total) * factor
    found = predict(dram_load=f"{total / N} B/update")
    moved = total + float(plain.volumes.dram_store.total)
    bandwidth = moved / float(found.bounds["dram"])
    assert found.limiter == "dram"
    assert bandwidth == pytest.approx(DEVICE.dram_bandwidth, rel=1e-6)  # reads and writes in turn
    assert float(found.time) == pytest.approx(float(found.bounds["dram"]), rel=0.02)


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ("8 B/update", 8 * N),
        ("8 B/thread", 8 * N),
        ("256 B/warp", 8 * N),
        ("2 KiB/block", 8 * N),
        ("128 MiB", 8 * N),
        (8.0 * N, 8 * N),
        (8 * N, 8 * N),
        (pa.Quantity("128 MiB"), 8 * N),
    ],
)
def test_granularities_are_of_the_whole_launch(given, total):
    assert float(predict(l2_load=given).volumes.l2_load.total) == total


def test_fields_and_parts_keep_their_shares():
    plain, half = predict().volumes.dram_load, predict(dram_load="4 B/update").volumes.dram_load
    assert float(half.total) == 4 * N
    assert sum(map(float, half.parts.values())) == pytest.approx(4 * N)
    assert sum(float(v.total) for v in half.fields.values()) == pytest.approx(4 * N)
    assert half.fields.keys() == plain.fields.keys()


def test_more_misses_take_longer_where_latency_counts():
    """With one block per unit, a load that hits the L2 arrives earlier than one from DRAM."""
    launch = pa.Launch.cover(N, 256, shared_bytes=160 * 1024)
    near, far = (
        pa.predict(COPY, launch, DEVICE, volumes={"dram_load": load})
        for load in ("0.01 B/update", "8 B/update")
    )
    assert float(near.time) < 0.7 * float(far.time)


def test_each_is_an_assumption():
    texts = [a.text for a in predict(dram_load="4 B/update", dram_store="0 B").assumptions]
    assert any(text.startswith("dram_load is given: 67.11 MB, predicted 134") for text in texts)
    assert any(text.startswith("dram_store is given: 0 B, predicted 134") for text in texts)


def test_a_volume_that_was_not_predicted():
    store = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=(N,))], stores=["a[x]"])
    found = pa.predict(store, LAUNCH, DEVICE, volumes={"dram_load": "2 B/update"})
    assert {k: float(v) for k, v in found.volumes.dram_load.parts.items()} == {"measured": 2.0 * N}


@pytest.mark.parametrize(
    ("volumes", "reason"),
    [
        ({"dram_lod": "8 B"}, "'dram_lod' cannot be given; did you mean 'dram_load'"),
        ({"l1_cycles": 8}, "'l1_cycles' cannot be given"),
        ({"dram_load": "8 us"}, "dram_load: '8 us' is not in bytes"),
        ({"dram_load": "8"}, "dram_load: '8' is not in bytes"),
        ({"dram_load": "8 Q"}, "dram_load: unknown unit 'Q'"),
        ({"dram_load": "-8 B"}, "dram_load must be finite and not below 0"),
        ({"dram_load": float("nan")}, "dram_load must be finite"),
        ({"dram_load": True}, "dram_load must be a number, not True; give bytes, or text"),
    ],
)
def test_what_is_wrong_is_named(volumes, reason):
    with pytest.raises(LaunchError, match=f"volumes: {reason}"):
        predict(**volumes)


def test_it_has_no_diagnosis_and_is_not_predicted_again():
    found = predict(dram_load="4 B/update")
    assert (dict(found.stalls), found.advice) == ({}, None)
    assert pa.Prediction.from_dict(found.to_dict()).time == found.time
    with pytest.raises(KernelError, match="has measured volumes"):
        pa.whatif(found, dram_bandwidth=2.0)
