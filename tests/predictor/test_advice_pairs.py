"""Pairs of kernels, before and after the advice is taken: before, it is among the first three;
after, it has gone or fallen, and the kernel is predicted to be faster."""

from pathlib import Path

import pytest

import perfassert as pa

SOURCE = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
N = 1 << 20
STREAM = pa.Launch(N // 256, 256, args={"n": N})
DIVIDED = pa.Launch(N // 256, 256, args={"n": N, "d": 7})
FEW = pa.Launch(216, 64, args={"n": N})


def predicted(name, launch=STREAM, device="a100", **settings):
    try:
        return pa.predict(pa.from_cuda(SOURCE, kernel=name, **settings), launch, device)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def plane(block):
    width = 1024
    return pa.Launch.cover((width, width), block, args={"width": width})


def square(block):
    nx = ny = 4096
    return pa.Launch.cover((nx, ny), block, args={"nx": nx, "ny": ny})


PAIRS = {
    "Register Reuse": (
        lambda: predicted("many_values", options=("-maxrregcount=32",)),
        lambda: predicted("many_values"),
    ),
    "Strength Reduction": (
        lambda: predicted("double_constant"),
        lambda: predicted("float_constant"),
    ),
    "Strength Reduction (division)": (
        lambda: predicted("runtime_division", DIVIDED),
        lambda: predicted("constant_division", DIVIDED),
    ),
    "Function Split": (
        lambda: predicted("long_code", device="RTX-2080-Ti"),
        lambda: predicted("long_code", device="RTX-2080-Ti", defines={"STEPS": 16}),
    ),
    "Fast Math": (lambda: predicted("precise"), lambda: predicted("approximate")),
    "Warp Balance": (lambda: predicted("imbalanced"), lambda: predicted("balanced")),
    "Memory Transaction Reduction": (
        lambda: predicted("global_table"),
        lambda: predicted("constant_table"),
    ),
    "Loop Unrolling": (lambda: predicted("rolled", FEW), lambda: predicted("unrolled", FEW)),
    "Code Reordering": (
        lambda: predicted("gather_at_once", FEW),
        lambda: predicted("gather_ahead", FEW),
    ),
    "Function Inlining": (lambda: predicted("calls"), lambda: predicted("inlines")),
    "Block Increase": (
        lambda: predicted("work", pa.Launch(16, 1024, args={"n": N})),
        lambda: predicted("work", pa.Launch(128, 128, args={"n": N})),
    ),
    "Thread Increase": (
        lambda: predicted("plane", plane((4, 4))),
        lambda: predicted("plane", plane((32, 8))),
    ),
    "Coalescing": (lambda: predicted("strided"), lambda: predicted("contiguous")),
    "Shared Bank Conflict Removal": (
        lambda: predicted("conflicts"),
        lambda: predicted("padded"),
    ),
    "Block Shape": (
        lambda: predicted("smooth", square((4, 64))),
        lambda: predicted("smooth", square((64, 4))),
    ),
}


def speedup(prediction, optimizer):
    return max((a.speedup for a in prediction.advice if a.optimizer == optimizer), default=1.0)


@pytest.mark.parametrize("name", PAIRS)
def test_before_and_after(name):
    optimizer = name.partition(" (")[0]
    before, after = (make() for make in PAIRS[name])
    assert optimizer in [a.optimizer for a in before.advice[:3]], show(before)
    assert speedup(after, optimizer) < speedup(before, optimizer), show(after)
    if optimizer != "Function Split":  # fetching is not part of the time
        assert after.time < before.time
    for prediction in (before, after):
        assert sum(prediction.stalls.values()) == pytest.approx(1, abs=1e-9)


def test_asynchronous_copy_needs_a_device_that_has_it():
    for device, found in (("a100", True), ("RTX-2080-Ti", False)):
        advice = [a.optimizer for a in predicted("through_registers", device=device).advice]
        assert ("Asynchronous Copy" in advice) == found


def test_occupancy_that_hides_nothing_is_not_offered():
    crowded = predicted("wide", pa.Launch(1024, 256, args={"n": N}), options=("-maxrregcount=128",))
    assert crowded.occupancy.limited_by == "registers"
    assert "Occupancy Increase" not in [a.optimizer for a in crowded.advice]


def show(prediction):
    return "\n".join(f"{a.optimizer} {a.speedup:.3f} {a.suggestion}" for a in prediction.advice)
