"""Tests that instructions outside the slice change no counts and no addresses."""

from pathlib import Path

import numpy as np
import pytest
from engines.execution.machine import compiled, launched

from perfassert.engines.execution.plan import ExecutionLimits, is_sure_to_be_cut
from perfassert.engines.execution.slicing import control_slice

pytestmark = pytest.mark.usefixtures("engine")
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "kernels"
F32, I32 = np.float32, np.int32


def zeros(n, dtype=F32):
    return np.zeros(n, dtype)


def integers(n, below, seed=0):
    return np.random.default_rng(seed).integers(0, below, n).astype(I32)


CASES = [
    (EXAMPLES / "saxpy.cu", "saxpy", 8, 128, [1000, 2.0, zeros(1000), zeros(1000)], 0),
    (EXAMPLES / "matmul.cu", "matmul", (4, 4), (16, 16),
     [zeros(4096), zeros(4096), zeros(4096), 64], 0),
    (EXAMPLES / "gather.cu", "gather", 8, 128,
     [zeros(500), integers(1000, 500), zeros(1000), 1000], 0),
    (EXAMPLES / "reduction.cu", "block_sums", 3, 256, [zeros(2000), zeros(3), 2000], 0),
    (HERE / "integers.cu", "bitonic_sort", 2, 128, [integers(256, 99)], 512),
    (HERE / "integers.cu", "compact", 1, 256,
     [integers(900, 99), zeros(900, I32), zeros(1, I32), 900], 0),
    (HERE / "integers.cu", "spmv_integer", 4, 64, [
        integers(9, 40).cumsum().astype(I32), integers(400, 8), integers(400, 9), integers(8, 9),
        zeros(8, I32), 8], 0),
    (HERE / "integers.cu", "prefix_sum", 3, 256,
     [integers(700, 99), zeros(700, I32), zeros(3, I32), 700], 0),
]  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
@pytest.mark.parametrize("case", CASES, ids=[c[1] for c in CASES])
@pytest.mark.exhaustive(one_in=3)
def test_counts_and_addresses_are_those_of_the_whole_code(case, arch):
    path, kernel, grid, block, arguments, shared = case
    code = compiled(path, kernel, arch)
    needed = control_slice(code)
    whole = launched(code, grid, block, arguments, shared)
    part = launched(code, grid, block, arguments, shared, needed=needed)
    assert len(needed) < sum(len(i.operations) for i in code.instructions)
    assert (whole.lanes == part.lanes).all()
    assert (whole.executed == part.executed).all()
    assert not part.guesses
    assert len(whole.touches) == len(part.touches) > 0
    for a, b in zip(whole.touches, part.touches, strict=True):
        assert (a.instruction, a.part, a.guessed) == (b.instruction, b.part, b.guessed)
        assert (a.lanes == b.lanes).all()
        assert (a.addresses == b.addresses).all()


@pytest.mark.parametrize("case", CASES, ids=[c[1] for c in CASES])
@pytest.mark.exhaustive(one_in=3)
def test_flow_of_control_without_addresses_is_that_of_the_whole_code(case):
    path, kernel, grid, block, arguments, shared = case
    code = compiled(path, kernel, "sm_90")
    deciding = control_slice(code, addresses=False)
    assert deciding <= control_slice(code)
    whole = launched(code, grid, block, arguments, shared)
    part = launched(code, grid, block, arguments, shared, needed=deciding, touches=False)
    assert (whole.lanes == part.lanes).all()
    assert (whole.executed == part.executed).all()
    assert whole.taken.keys() == part.taken.keys()
    assert all((whole.taken[place] == counts).all() for place, counts in part.taken.items())
    assert {(t.instruction, t.part) for t in part.touches} <= deciding


SQUARE = zeros(1 << 18)
LONG = [
    (EXAMPLES / "matmul.cu", "matmul", 1, (16, 16), [SQUARE, SQUARE, SQUARE, 512]),
    (EXAMPLES / "reduction.cu", "block_sums", 1, 256, [zeros(200_000), zeros(1), 200_000]),
    (HERE / "integers.cu", "spmv_integer", 1, 64,
     [np.array([0, 9000, 18_000], I32), integers(18_000, 8), integers(18_000, 9), integers(8, 9),
      zeros(2, I32), 2]),
]  # fmt: skip


@pytest.mark.parametrize("case", LONG, ids=[c[1] for c in LONG])
def test_what_is_sure_to_be_cut_is_cut(case):
    path, kernel, *how = case
    code = compiled(path, kernel, "sm_80")
    needed, deciding = control_slice(code), control_slice(code, addresses=False)
    in_all = launched(code, *how).lane_instructions
    found = []
    for most in (in_all * share // 32 for share in (1, 2, 4, 8, 16, 24, 32, 40)):
        limits = ExecutionLimits(lane_instructions=most)
        for other in (ExecutionLimits(), ExecutionLimits(in_all // 4)):
            followed = launched(code, *how, limits=other, needed=deciding, touches=False)
            found.append(is_sure_to_be_cut(followed, needed, limits))
            assert len(launched(code, *how, limits=limits, needed=needed).cut) or not found[-1]
    assert found[0]
    assert not found[-1]


def test_what_feeds_only_a_store_is_left_out():
    code = compiled(EXAMPLES / "saxpy.cu", "saxpy", "sm_80")
    kept = {code.instructions[i].text.split()[0] for i, _ in control_slice(code)}
    assert "FFMA" not in kept
    assert "ISETP.GE.AND" in kept
