"""Tests that sensitivities are those of predictions with changed values."""

import pytest

import perfassert as pa
from perfassert.sensitivity.examples import EXAMPLES, example
from perfassert.sensitivity.sensitivity import STEP, assumed_keys, device_value, sensitivities

pytestmark = pytest.mark.exhaustive(one_in=3)

DEVICE = "RTX-3090"


@pytest.fixture(scope="module")
def device():
    return pa.device(DEVICE)


def times(device):
    cases = (example(name, device.warp_size) for name in EXAMPLES)
    return {c.kernel.name: float(pa.predict(c.kernel, c.launch, device).time) for c in cases}


def test_the_largest_change_of_an_example(device):
    (found,) = sensitivities(device, ["values.dram_bandwidth"])
    now = times(device)
    changes = {
        name: abs(time / now[name] - 1)
        for factor in (1 + STEP, 1 / (1 + STEP))
        for name, time in times(
            device.replace(dram_bandwidth=device.dram_bandwidth * factor)
        ).items()
        if factor < 1  # slower memory moves more than faster memory
    }
    # Predicted times are rounded to ten digits.
    assert found.change == pytest.approx(max(changes.values()), rel=1e-8)
    assert changes[found.kernel] == max(changes.values())
    assert 0.15 < found.change < 0.21  # a streaming kernel follows its bandwidth


def test_order_and_what_cannot_be_told(device):
    keys = [
        "values.launch_overhead",
        "operations.tensor_fp64.issue",
        "values.warp_size",
        "operations.sfu.completion",
        "values.l1_tag_banks",
        "values.clock_hz",
    ]
    found = sensitivities(device, keys)
    changes = {s.key: s.change for s in found}
    assert found[0].key == "values.clock_hz"
    assert changes["values.launch_overhead"] is None  # 0 has no larger and smaller
    assert changes["operations.tensor_fp64.issue"] is None  # in no example
    numbers = [s.change for s in found if s.change is not None]
    assert numbers == sorted(numbers, reverse=True)
    assert [s.change for s in found[-3:]] == [None, None, None]


def test_whole_numbers_and_multiples(device):
    """A queue of one more; lines of twice the size."""
    found = {
        s.key: s
        for s in sensitivities(device, ["values.memory_queue_depth", "values.sector_bytes"])
    }
    assert found["values.memory_queue_depth"].change
    assert found["values.sector_bytes"].change


def test_what_is_assumed(device):
    keys = assumed_keys(device)
    assert "values.clock_hz" in keys
    assert "values.warp_size" not in keys
    assert all(device_value(device, key) >= 0 for key in keys)
    assert not any(key.startswith("curves.") for key in keys)


def test_examples_cover_what_kernels_are_made_of(device):
    """The examples have each limiter about which a device file can be wrong."""
    limiters, operations = set(), set()
    for name in EXAMPLES:
        case = example(name, device.warp_size)
        operations |= case.operations
        limiters.add(pa.predict(case.kernel, case.launch, device).limiter)
    assert {"dram", "shared", "latency"} <= limiters
    assert operations >= {
        *("fp32", "fp64", "imad", "int32", "sfu", "tensor", "shuffle", "barrier"),
        *("global_load", "global_store", "shared_load", "shared_store"),
        *("atomic_global", "atomic_shared", "constant_load"),
    }
