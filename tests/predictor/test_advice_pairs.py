"""Pairs of kernels, before and after the advice is taken: before, it is among the first three;
after, it has gone or fallen, and the kernel is predicted to be faster."""

import pytest
from advice_pairs import PAIRS, N, predicted

import perfassert as pa


def made(make):
    try:
        return make()
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def speedup(prediction, optimizer):
    return max((a.speedup for a in prediction.advice if a.optimizer == optimizer), default=1.0)


@pytest.mark.parametrize("name", PAIRS)
def test_before_and_after(name):
    optimizer = name.partition(" (")[0]
    before, after = map(made, PAIRS[name])
    assert optimizer in [a.optimizer for a in before.advice[:3]], show(before)
    assert speedup(after, optimizer) < speedup(before, optimizer), show(after)
    assert after.time < before.time
    for prediction in (before, after):
        assert sum(prediction.stalls.values()) == pytest.approx(1, abs=1e-9)


def test_asynchronous_copy_needs_a_device_that_has_it():
    for device, found in (("a100", True), ("RTX-2080-Ti", False)):
        p = made(lambda device=device: predicted("through_registers", device=device))
        advice = [a.optimizer for a in p.advice]
        assert ("Asynchronous Copy" in advice) == found


def test_occupancy_that_hides_nothing_is_not_offered():
    launch, options = pa.Launch(1024, 256, args={"n": N}), ("-maxrregcount=128",)
    crowded = made(lambda: predicted("wide", launch, options=options))
    assert crowded.occupancy.limited_by == "registers"
    assert "Occupancy Increase" not in [a.optimizer for a in crowded.advice]


def show(prediction):
    return "\n".join(f"{a.optimizer} {a.speedup:.3f} {a.suggestion}" for a in prediction.advice)
