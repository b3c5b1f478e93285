"""Advice on kernels whose trips and addresses are up to data: from what executed warps did."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.advisor.stall_elimination import Coalescing
from perfassert.predictor.diagnose.diagnose import advisor_case

pytestmark = pytest.mark.exhaustive(one_in=4)

KERNELS = Path(__file__).with_name("irregular.cu")
N = 1 << 16
WARPS, SECTOR = 8, 8  # of a block; elements of a sector


def predicted(kernel, args=None, launch=None):
    launch = launch or pa.Launch(N // (32 * WARPS), 32 * WARPS, args=args)
    try:
        return pa.predict(pa.from_cuda(KERNELS, kernel=kernel), launch, "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def advice(prediction, optimizer):
    return next((a for a in prediction.advice if a.optimizer == optimizer), None)


def gathered(index):
    return predicted(
        "gather", {"in": pa.Buffer(8 * N), "index": index, "out": pa.Buffer(N), "n": N}
    )


def spread(sectors):
    """Return an index with which each warp reads elements of ``sectors`` sectors."""
    warp, lane = np.divmod(np.arange(N), 32)
    order = np.random.default_rng(1).permutation(32)  # which lane has which does not count
    place = order[lane] % sectors * SECTOR + order[lane] // sectors % SECTOR
    return (warp * 32 * SECTOR + place).astype(np.int32)


def sectors_of_a_warp(index):
    return np.mean([len(np.unique(warp // SECTOR)) for warp in index.reshape(-1, 32)])


@pytest.mark.parametrize("sectors", [8, 16, 32])
def test_coalescing_counts_the_sectors_that_data_leads_to(sectors):
    index = spread(sectors)
    assert sectors_of_a_warp(index) == sectors
    found = advice(gathered(index), "Coalescing")
    assert f"a warp touches {sectors} sectors where 4 would do" in found.suggestion
    assert "irregular.cu:22" in found.suggestion


def test_coalescing_is_worth_more_the_more_sectors_there_are():
    predictions = [gathered(spread(sectors)) for sectors in (4, 8, 16, 32)]
    assert sectors_of_a_warp(spread(4)) == 4
    assert advice(predictions[0], "Coalescing") is None
    worth = [advice(p, "Coalescing").speedup for p in predictions[1:]]
    assert worth == sorted(set(worth))


def by_few(index):
    args = {"in": pa.Buffer(N), "index": index, "out": pa.Buffer(N // 8), "n": N}
    return predicted("gather_by_few", args)


def test_an_address_that_was_assumed_is_not_advised_on():
    guessed = gathered(pa.Buffer(N, "int32"))
    assert "address" in {a.stands_for for a in guessed.confidence_reasons}
    assert not {"Coalescing", "Memory Transaction Reduction"} & {
        a.optimizer for a in guessed.advice
    }


def test_tables_of_mathematical_functions_are_not_advised_on():
    """Nobody knows where each thread looks up its value."""
    side = 1024
    launch = pa.Launch((side // 32, side // 32), (32, 8), args={"n": side})
    p = predicted("transposed_waves", launch=launch)
    case = advisor_case(p, pa.predict)
    table = [n for n, facts in case.accesses.items() if facts.assumed]
    assert p.volumes.l2_load.fields["global __cudart_sin_cos_coeffs"]
    assert table
    assert Coalescing().match(case) is None
    assert "Coalescing" not in {a.optimizer for a in p.advice}


def test_the_best_that_could_be_is_that_of_the_lanes_that_take_part():
    """Four lanes of a warp: a sector each where one would do, and no two read the same element."""
    apart = by_few((np.arange(N // 8) * SECTOR).astype(np.int32))
    assert "a warp touches 4 sectors where 1 would do" in advice(apart, "Coalescing").suggestion
    together = by_few(np.arange(N // 8, dtype=np.int32))
    assert advice(together, "Coalescing") is None
    for found in (apart, together):
        reduction = advice(found, "Memory Transaction Reduction")
        assert reduction is None or "the same element" not in reduction.suggestion


def balanced(steps):
    return predicted(
        "steps_to_a_barrier", {"steps": steps, "in": pa.Buffer(N), "out": pa.Buffer(N)}
    )


def of_warps(first, others):
    """Return trips with which one warp of each block has others than the rest."""
    return np.tile([first, *(others,) * (WARPS - 1)], N // (32 * WARPS)).astype(np.int32)


@pytest.mark.parametrize(("first", "others"), [(64 + 7 * 16, 48), (64 + 7 * 48, 16)])
def test_warp_balance_takes_the_trips_that_data_decides(first, others):
    """The speedup is that of even warps, and at most the longest warp's trips over the mean."""
    found, even = balanced(of_warps(first, others)), balanced(of_warps(64, 64))
    assert of_warps(first, others).sum() == of_warps(64, 64).sum()
    worth = advice(found, "Warp Balance").speedup
    assert "Warp Balance" in {a.optimizer for a in found.advice[:2]}  # unrolling gains as well
    assert worth == pytest.approx(float(found.time) / float(even.time), rel=0.05)
    assert worth <= first / 64
    assert advice(even, "Warp Balance") is None
    assert even.time < found.time < first / 64 * even.time


def test_warps_that_nobody_described_are_taken_for_alike():
    unknown = balanced(pa.Buffer(N // 32, "int32"))
    assert unknown.confidence == "guessed"
    assert advice(unknown, "Warp Balance") is None
