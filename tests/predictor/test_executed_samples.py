"""Tests that executed blocks supply trip counts and addresses without closed forms."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.execution.sample import consecutive_blocks
from perfassert.frontends.toolchain import tools
from perfassert.hardware.load import device
from perfassert.kernel.executed import WorkingBlocks, spread_blocks
from perfassert.predictor.access_costs import access_costs
from perfassert.predictor.diagnose.line_costs import line_costs
from perfassert.predictor.sample.executed import sample_blocks
from perfassert.report import explain
from perfassert.report.explain import executed_lines

pytestmark = pytest.mark.exhaustive(one_in=4)

KERNELS = Path(__file__).with_name("irregular.cu")
N = 1 << 14


@pytest.fixture
def predicted():
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")

    def predict(kernel, args, arch="A100-SXM4-40GB"):
        return pa.predict(pa.from_cuda(KERNELS, kernel=kernel), launch(args), arch)

    return predict


def launch(args):
    sized = {} if "out" in args else {"n": N}
    return pa.Launch(N // 128, 128, args={**sized, **args})


def guesses(prediction, kind):
    return [a.text for a in prediction.assumptions if a.stands_for == kind]


@pytest.mark.parametrize("gpu", ["A100-SXM4-40GB", "H100-SXM5-80GB"])
def test_a_recurrence_without_a_closed_form_is_counted(predicted, gpu):
    found = predicted("thirds", {"n": 1000}, gpu)
    assert not guesses(found, "trip count")
    assert any("runs 7 times on average" in a.text for a in found.assumptions)


def rows(lengths):
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)


def test_what_nobody_described_is_a_guess_that_names_the_buffer(predicted):
    found = predicted("rows_of_csr", {})
    assert any("on the content of rows: describe it by pa.Buffer" in t
               for t in guesses(found, "trip count"))  # fmt: skip


def test_rows_of_a_matrix_are_counted(predicted):
    pointers = rows(np.full(N, 5))
    columns = np.zeros(5 * N, np.int32)
    found = predicted("rows_of_csr", {"rows": pointers, "columns": columns})
    assert not guesses(found, "trip count")
    assert not guesses(found, "address")
    assert any("a loop runs 5 times on average" in a.text for a in found.assumptions)


def test_longer_rows_take_longer_and_skewed_ones_longest(predicted):
    columns = pa.Buffer(40 * N, fill="random(0, n)")
    times = [
        predicted("rows_of_csr", {"rows": described, "columns": columns}).time
        for described in (
            pa.Buffer(N + 1, fill="csr_rows(nnz_per_row=4, skew='banded')"),
            pa.Buffer(N + 1, fill="csr_rows(nnz_per_row=16, skew='banded')"),
            pa.Buffer(N + 1, fill="csr_rows(nnz_per_row=16, skew='power-law')"),
        )
    ]
    assert times[0] < times[1] < times[2]


def test_an_index_that_is_in_order_costs_less_than_a_random_one(predicted):
    def loaded(fill):
        args = {"in": pa.Buffer(N), "index": pa.Buffer(N, fill=fill)}
        found = predicted("gather", args)
        assert not guesses(found, "address")
        return float(found.volumes.l2_load.fields["in"].total)

    in_order, alike, scattered = (loaded(f) for f in ("arange", "constant 7", "permutation"))
    assert in_order == pytest.approx(4 * N, rel=0.01)
    assert alike < in_order / 10
    assert 6 * in_order < scattered <= 8 * in_order


def test_what_leaves_a_buffer_is_told_with_its_line(predicted):
    found = predicted("gather", {"in": pa.Buffer(N // 2), "index": pa.Buffer(N, fill="arange")})
    (told,) = [a for a in found.assumptions if "leave in" in a.text]
    assert told.span.line == 22
    assert "the first by address 32768" in told.text


@pytest.mark.parametrize("n", [1 << 12, 1 << 17])
def test_one_block_tells_of_on_chip_memory_where_more_cannot_be_executed(n):
    """Short loops are executed in all blocks, long ones in one: both count exactly."""
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    blocks, warps = 128, 4
    args = {"n": n, "in": pa.Buffer(blocks * n), "out": pa.Buffer(blocks * 32 * warps)}
    code = pa.from_cuda(KERNELS, kernel="in_turn")
    found = pa.predict(code, pa.Launch(blocks, 32 * warps, args=args), "A100-SXM4-40GB")
    assert found.confidence != "guessed", found.confidence_reasons
    rounds = n // (2 * 32 * warps)
    assert float(found.volumes.shared_wavefronts.total) == blocks * warps * rounds * 3 * 8
    assert float(found.volumes.l2_load.fields["in"].total) == blocks * n * 4
    assert float(found.volumes.dram_load.fields["in"].total) == blocks * n * 4


def test_one_block_does_not_stand_for_blocks_that_do_more(predicted):
    """A few others are executed to their ends, too; 128 blocks have 234 rounds in all."""
    rounds = {"ROUNDS": "(1 + blockIdx.x / 50)"}
    code = pa.from_cuda(KERNELS, kernel="in_turn", defines=rounds)
    args = {"n": 1 << 17, "in": pa.Buffer(1 << 26), "out": pa.Buffer(1 << 14)}
    found = pa.predict(code, pa.Launch(128, 128, args=args), "A100-SXM4-40GB")
    assert found.confidence != "guessed"
    exact = 234 * 4 * 512 * 3 * 8  # wavefronts: rounds, warps, iterations, as in the test above
    assert float(found.volumes.shared_wavefronts.total) == pytest.approx(exact, rel=0.05)
    assert any("counted in 5 executed blocks of 128 (± " in a.text for a in found.assumptions)


def test_one_block_does_not_stand_for_blocks_that_data_tells_apart(predicted):
    """A single block does not represent blocks that data distinguish."""
    steps = pa.Buffer(N // 32, fill="constant 100000000")
    found = predicted(
        "steps_to_a_barrier", {"steps": steps, "in": pa.Buffer(N), "out": pa.Buffer(N)}
    )
    (said,) = guesses(found, "trip count")
    assert "executed, it had not ended" in said


def test_a_loop_that_never_ends_says_so(predicted):
    found = predicted("spins", {"flag": None, "out": pa.Buffer(2, fill="constant 0")})
    said = " ".join(guesses(found, "trip count"))
    assert "executed, it had not ended" in said


def test_constant_memory_that_the_program_fills_is_unknown_not_zero(predicted):
    found = predicted("counted_by_a_constant", {"in": None, "out": None})
    (said,) = guesses(found, "trip count")
    assert "__constant__ memory without a value" in said


def test_a_small_launch_is_executed_whole_and_counts_exactly():
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    lengths = np.arange(N) % 3 + 1
    args = {"rows": rows(lengths), "columns": np.zeros(int(lengths.sum()), np.int32)}
    code = pa.from_cuda(KERNELS, kernel="rows_of_csr").compiled.build("sm_80")
    blocks = WorkingBlocks((N // 128, 1, 1), (N // 128, 1, 1))
    found = sample_blocks(code, code.program(), launch(args), blocks)
    assert (found.blocks, found.of) == (N // 128, N // 128)  # all: they cost little
    (loop,) = found.loops.values()
    assert (loop.fewest, loop.most, loop.mean) == (3, 3, 3.0)  # of warps: the longest row counts
    assert loop.share == 1.0
    assert loop.known


@pytest.mark.parametrize(("total", "count"), [(10, 10), (100, 7), (1000, 64), (8192, 64), (37, 30)])
def test_a_sample_takes_one_block_of_each_stretch_at_every_residue(total, count):
    blocks = np.array(spread_blocks(total, count))
    assert len(blocks) == count
    assert (np.diff(blocks) > 0).all()
    assert blocks[-1] < total
    assert np.diff(blocks).max() <= 2 * (total // count) + 1
    if total // count >= 8:
        assert set(blocks % 2) == {0, 1}


def test_what_is_executed_in_a_row_is_all_or_a_wave_or_stretches_of_one():
    assert consecutive_blocks(50, 20, 60) == tuple(range(50))
    assert consecutive_blocks(100, 20, 45) == tuple(range(20, 60))
    part = consecutive_blocks(1000, 400, 80)
    assert len(part) == 80
    assert (part[0], part[-1]) == (300, 699)
    assert (np.diff(part) == 1).sum() == 72


def test_lines_say_how_often_warps_execute_them(predicted):
    pointers = rows(np.arange(N) // 32 % 3 * 4 + 1)  # 1, 5 or 9 entries, the same in a warp
    columns = np.zeros(int(pointers[-1]), np.int32)
    kernel = pa.from_cuda(KERNELS, kernel="rows_of_csr")
    started = launch({"rows": pointers, "columns": columns})
    _, _, issued = access_costs(kernel, started, device("a100"))
    program = kernel.compiled.program("sm_80")
    found = executed_lines(program, issued)
    loop = found["irregular.cu:16"]
    assert loop.executions == (1, 5, 9)
    assert loop.lanes == (32, 32, 32)
    assert loop.sectors[2] > 1
    assert found["irregular.cu:17"].executions == (1, 1, 1)
    report = str(explain.text("k", program, {}, (), None, issued))
    assert "fewest/median/most" in report
    assert "1/5/9" in report
    costs = {c.line: c.executed for c in line_costs(predicted("rows_of_csr", dict(started.args)))}
    assert "executed 1/5/9 times by a warp, with 32/32/32 active lanes and " in costs[16]
    most = "/".join(f"{n:.3g}" for n in loop.sectors)
    assert f" and {most} sectors each time (fewest/median/most)" in costs[16]


def test_lines_of_closed_forms_say_nothing(predicted):
    kernel = pa.from_cuda(KERNELS.parents[2] / "examples" / "kernels" / "saxpy.cu", kernel="saxpy")
    assert access_costs(kernel, pa.Launch(4, 128, args={"n": 500}), device("a100"))[2] == {}


def test_blocks_whose_order_counts_may_be_those_without_work(predicted):
    """Every second of many blocks is looked at; here only one between them loads anything."""
    threads = 256 * 512
    mask = np.zeros(threads, np.uint8)
    mask[512:552] = 1
    first = np.arange(threads, dtype=np.int32) % 7 + 1
    args = {
        "mask": pa.Buffer(threads, "uint8", data=mask), "in": pa.Buffer(threads), "n": threads,
        "first": pa.Buffer(threads, "int32", data=first),
    }  # fmt: skip
    kernel = pa.from_cuda(KERNELS, kernel="few_blocks_work")
    p = pa.predict(kernel, pa.Launch(256, 512, args=args), "a100")
    assert 0 < float(p.volumes.dram_store.fields["out"].total) < threads


SKIPPED = """
extern "C" __global__ void skipped(const int* lengths, const float* values, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int length = lengths[i];
    if (length >= 16) {
        float sum = 0;
        for (int k = 0; k < 5 * length; ++k) sum += values[(i * 7 + k * k) % n];
        out[i] = sum;
    }
}
"""


@pytest.mark.parametrize("known", [1, N * 4 // 256])
def test_how_often_a_loop_is_entered_is_a_guess_where_the_branch_before_it_is(tmp_path, known):
    """Only the first ``known`` pages of ``lengths`` are known.

    Most blocks do not enter the loop for lack of a value, which does not show what they would do.
    """
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "skipped.cu").write_text(SKIPPED)
    content = np.full(known * 64, 20, np.int32)
    lengths = pa.Buffer(N * 4, "uint8", data=content.view(np.uint8), pages=np.arange(known))
    args = {"lengths": lengths, "values": pa.Buffer(N), "out": pa.Buffer(N), "n": N}
    found = pa.predict(pa.from_cuda(file), pa.Launch(N // 128, 128, args), "a100")
    all_known = known * 64 == N
    assert (found.confidence == "guessed") is not all_known
    assert any("lengths" in text for text in guesses(found, "trip count")) is not all_known
