"""Launches whose blocks differ: every block is paid for, whatever the guards are."""

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from described import missing
from random_kernels.guarded import guarded

import perfassert as pa
from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.volume.warps import wavefronts
from perfassert.kernel.machine import Space
from perfassert.predictor.sample.arguments import execution_arguments
from perfassert.predictor.session import DEFAULT
from perfassert.source import CORRECTED

pytestmark = pytest.mark.exhaustive(one_in=8)

A100 = pa.device("a100")
TOGETHER = 20  # kernels in a file


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


@lru_cache(maxsize=2)
def kernels(seed, first):
    """Twenty kernels by number, compiled together."""
    drawn = [guarded(seed, n) for n in range(first, first + TOGETHER)]
    folder = tempfile.mkdtemp()
    path = Path(folder, "guarded.cu")
    path.write_text("\n".join(g.text for g in drawn))
    return {n: (pa.from_cuda(path, g.name), g.launch) for n, g in enumerate(drawn, first)}


def executed(kernel, launch):
    """Execute all blocks of a launch to their ends, and return the execution."""
    question = DEFAULT.ask(kernel, launch, A100)
    parameters = DEFAULT.bound_launch(question).kernel.program.parameters
    arguments = execution_arguments(parameters, question.arguments)
    blocks, limits = tuple(range(launch.blocks)), ExecutionLimits(4_000_000_000)
    run = execute(question.code.executable(), question.arguments, arguments, blocks, limits)
    assert not len(run.cut)
    assert not run.guesses
    return run


def instructions(run):
    """Sum the instructions of all warps.

    Threads that leave a loop one after the other arrive at its end one by one, which is one
    instruction in a graph.
    """
    arrives = np.array(["BSYNC" in i.text for i in run.code.instructions])
    return run.executed[:, ~arrives].sum() + np.minimum(run.executed[:, arrives], 1).sum()


def traffic(run):
    """Return wavefronts in L1, and distinct bytes loaded from and stored to DRAM, of all warps."""
    waves, loaded, stored = 0.0, set(), set()
    for touch in run.touches:
        if touch.memory.space in (Space.GLOBAL, Space.GENERIC):
            first = np.take_along_axis(
                touch.addresses, touch.lanes.argmax(axis=1)[:, None], axis=1
            )  # fmt: skip
            filled = np.where(touch.lanes, touch.addresses, first).astype(np.int64)
            waves += wavefronts(filled, touch.lanes, 4, A100).sum()
            stores = "STG" in run.code.instructions[touch.instruction].text
            size = A100.sector_bytes if stores else A100.dram_granularity
            (stored if stores else loaded).update(np.unique(filled // size * size).tolist())
    return waves, A100.dram_granularity * len(loaded), A100.sector_bytes * len(stored)


MISPREDICTED = {(1, 126), (1, 135), (1, 137), (1, 169), (2, 23), (2, 42), (2, 43)}
"""Random programs of 400 whose counts are beyond the tolerance, found when all were run at once:
loads again of what a wave before has loaded, or guards of two conditions on one axis."""
BEYOND = pytest.mark.xfail(reason="a count is beyond the tolerance", strict=True)


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        pytest.param(seed, n, marks=[BEYOND] * ((seed, n) in MISPREDICTED))
        for seed in (1, 2)
        for n in range(200)
    ],
)
@pytest.mark.exhaustive(one_in=50)
def test_work_and_traffic_are_those_of_all_blocks(seed, number):
    kernel, launch = kernels(seed, number // TOGETHER * TOGETHER)[number]
    prediction = pa.predict(kernel, launch, A100)
    run = executed(kernel, launch)
    assert prediction.confidence != "guessed"
    texts = [a.text for a in prediction.assumptions]
    assert not any(text.startswith(CORRECTED) for text in texts)
    merged = any("blocks decide" in text for text in texts)
    tolerance = 0.1 if merged else 0.01
    assert prediction.resources.instructions == pytest.approx(instructions(run), rel=tolerance)
    longest = run.executed.sum(axis=1).max() - 40  # BSYNC of each thread
    slots = A100.compute_units * A100.schedulers_per_unit
    least = max(longest, prediction.resources.instructions / slots) / A100.clock_hz
    assert float(prediction.time) >= least
    volumes, (waves, loaded, stored) = prediction.volumes, traffic(run)
    assert float(volumes.dram_store.total) == pytest.approx(stored, rel=tolerance)
    # Of 138 kernels 133 are within a hundredth; others load again what a wave before has loaded,
    # or are guarded by two conditions on one axis.
    assert float(volumes.l1_wavefronts.total) == pytest.approx(waves, rel=0.1)
    assert float(volumes.dram_load.total) == pytest.approx(loaded, rel=0.1, abs=1024)


HEAVY = """
extern "C" __global__ void heavy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (%s) for (int k = 0; k < n; ++k) v = v * v + 1;
    y[i] = v;
}
"""
CONDITIONS = {
    "blockIdx.x % 4 == 3": 1024, "blockIdx.x % 4 == 2": 1024, "blockIdx.x % 4 == 1": 1024,
    "blockIdx.x % 8 == 3": 512, "blockIdx.x % 12 == 7": 341, "blockIdx.x % 97 == 13": 43,
    "blockIdx.x == 1234": 1, "blockIdx.x == gridDim.x - 1": 1, "blockIdx.x * 7 % 10 == 3": 410,
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_blocks_that_do_ten_thousand_iterations_are_not_missed(condition, tmp_path):
    """Four cycles each, and a unit issues one multiply-add of a scheduler in two of them."""
    (tmp_path / "heavy.cu").write_text(HEAVY % condition)
    kernel = pa.from_cuda(tmp_path / "heavy.cu", "heavy")
    buffer, n, heavy = pa.Buffer((4096 * 256,)), 10_000, CONDITIONS[condition]
    launch = pa.Launch(4096, 256, {"x": buffer, "y": buffer, "n": n})
    prediction = pa.predict(kernel, launch, A100)
    assert prediction.confidence != "guessed"
    alone = 4 * n / A100.clock_hz
    together = heavy * 8 * n * 2 / (A100.compute_units * 4) / A100.clock_hz
    assert float(prediction.time) >= max(alone, together)
    assert prediction.resources.instructions >= heavy * 8 * n


def test_a_block_that_takes_long_beside_many_that_do_more_work_together(tmp_path):
    text = HEAVY % "true"
    text = text.replace("k < n", "k < (blockIdx.x == 77 ? 50 * n : n)")
    (tmp_path / "heavy.cu").write_text(text)
    kernel = pa.from_cuda(tmp_path / "heavy.cu", "heavy")
    buffer, n = pa.Buffer((4096 * 256,)), 200
    launch = pa.Launch(4096, 256, {"x": buffer, "y": buffer, "n": n})
    prediction = pa.predict(kernel, launch, A100)
    assert float(prediction.time) >= 50 * 4 * n / A100.clock_hz


def test_what_a_thread_reads_by_the_number_of_its_warp(tmp_path):
    """``threadIdx.x / 32`` is a shift to the right by the high word of one to the left."""
    (tmp_path / "warp.cu").write_text(
        'extern "C" __global__ void warps(const float* a, float* out) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x; float v = 0;\n"
        "#pragma unroll 1\n"
        "    for (int k = threadIdx.x / 32; k < 17; ++k) v += a[i + k];\n"
        "    out[i] = v; }\n"
    )
    kernel = pa.from_cuda(tmp_path / "warp.cu", "warps")
    launch = pa.Launch(64, 256, [pa.Buffer((1 << 20,))] * 2)
    prediction = pa.predict(kernel, launch, A100)
    assert not any(a.text.startswith(CORRECTED) for a in prediction.assumptions)
    assert prediction.resources.instructions == instructions(executed(kernel, launch))


TRIANGLES = r"""
#define KERNEL extern "C" __global__ void
#define PLACE int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x; \
    float s = 0;
KERNEL lower(const float* A, const float* B, float* C, int N) { PLACE
    if (i < j) return;
    for (int k = j; k <= i; ++k) s += A[i * N + k] * B[k * N + j];
    C[i * N + j] = s; }
KERNEL upper(const float* A, const float* B, float* C, int N) { PLACE
    if (i > j) return;
    for (int k = i; k <= j; ++k) s += A[i * N + k] * B[k * N + j];
    C[i * N + j] = s; }
KERNEL banded(const float* A, const float* B, float* C, int N) { PLACE
    for (int k = max(i, j) - 8; k < min(min(i, j) + 8, N); ++k)
        if (k >= 0) s += A[i * N + k] * B[k * N + j];
    C[i * N + j] = s; }
"""


@pytest.mark.parametrize("kernel", ["lower", "upper", "banded"])
@pytest.mark.parametrize("size", [256, 512])
@pytest.mark.exhaustive(one_in=3)
def test_the_l1_serves_loops_that_are_no_boxes(tmp_path, kernel, size):
    """Wavefronts of every access of every block, at the addresses that were executed."""
    (tmp_path / "triangles.cu").write_text(TRIANGLES)
    made = pa.from_cuda(tmp_path / "triangles.cu", kernel)
    matrix = pa.Buffer((size * size,))
    args = {"A": matrix, "B": matrix, "C": matrix, "N": size}
    launch = pa.Launch((size // 16, size // 16), (16, 16), args)
    prediction, run = pa.predict(made, launch, A100), executed(made, launch)
    waves, _, _ = traffic(run)
    assert float(prediction.volumes.l1_wavefronts.total) == pytest.approx(waves, rel=0.05)
    assert prediction.resources.instructions == pytest.approx(instructions(run), rel=0.05)


PARTS = """
extern "C" __global__ void parts(const float* a, float* all, float* few, int w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y + gridDim.y * blockIdx.z;
    float v = a[j * w + i];
    all[j * w + i] = v;
    if (%s) few[j * w + i] = v;
}
"""
SHARES = {
    "blockIdx.x < 100": lambda x, y, z: 100 / x, "blockIdx.x == 17": lambda x, y, z: 1 / x,
    "blockIdx.y < 3": lambda x, y, z: 3 / y, "blockIdx.x >= gridDim.x - 2": lambda x, y, z: 2 / x,
}  # fmt: skip


@pytest.mark.parametrize("condition", SHARES)
@pytest.mark.parametrize("grid", [(4000, 20), (1000, 40), (120, 40, 30), (3000, 20, 9)])
@pytest.mark.exhaustive(one_in=4)
def test_a_part_of_every_row_or_plane_is_stored_as_often_as_it_is(tmp_path, condition, grid):
    """The blocks that run at once are those of some rows; a guard along a row cuts each of them."""
    (tmp_path / "parts.cu").write_text(PARTS % condition)
    kernel, width = pa.from_cuda(tmp_path / "parts.cu", "parts"), grid[0] * 128
    launch = pa.Launch(grid, 128)
    buffer = pa.Buffer((launch.blocks * 128,))
    args = {"a": buffer, "all": buffer, "few": buffer, "w": width}
    stored = pa.predict(kernel, pa.Launch(grid, 128, args), A100).volumes.dram_store.fields
    share = SHARES[condition](*launch.grid)
    assert float(stored["all"].total) == 4 * 128 * launch.blocks
    assert float(stored["few"].total) == pytest.approx(4 * 128 * launch.blocks * share, rel=0.002)


def test_what_follows_a_loop_over_the_grid_is_stored(tmp_path):
    """A loop that steps over whole rows makes the grid wider; its sums are stored in a part."""
    (tmp_path / "sums.cu").write_text(
        'extern "C" __global__ void sums(const float* a, float* out, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x, w = gridDim.x * blockDim.x;\n"
        "    float v = 0; a += w * blockIdx.y;\n"
        "#pragma unroll 1\n"
        "    for (int k = 0; k < n; ++k) v += a[k * w + i];\n"
        "    out[blockIdx.y * w + i] = v; }\n"
    )
    kernel = pa.from_cuda(tmp_path / "sums.cu", "sums")
    buffer = pa.Buffer((1 << 22,))
    launch = pa.Launch((97, 19), 128, {"a": buffer, "out": buffer, "n": 32})
    stored = pa.predict(kernel, launch, A100).volumes.dram_store
    assert float(stored.total) == 4 * launch.threads


ROWS = """
extern "C" __global__ void product(const int* __restrict__ rows, const int* __restrict__ columns,
                                   const float* values, const float* x, float* y)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = rows[r]; k < rows[r + 1]; ++k) s += values[k] * x[columns[k]];
    y[r] = s;
}
"""


@pytest.mark.parametrize("exponent", [1.2, 3.0])
@pytest.mark.exhaustive(one_in=2)
def test_a_sample_is_as_large_as_its_error_asks_for(tmp_path, exponent):
    """Rows of very uneven length: more blocks are executed, and what is left of the error is said;
    even ones need no more than before."""
    (tmp_path / "rows.cu").write_text(ROWS)
    draw, n = np.random.default_rng(3), 512 * 128
    lengths = np.minimum((draw.pareto(exponent, n) * 6 + 1).astype(np.int64), 3000)
    rows = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = draw.integers(0, n, rows[-1]).astype(np.int32)
    buffers = [pa.Buffer(data=rows), pa.Buffer(data=columns), pa.Buffer((int(rows[-1]),))]
    launch = pa.Launch(512, 128, [*buffers, pa.Buffer((n,)), pa.Buffer((n,))])
    kernel = pa.from_cuda(tmp_path / "rows.cu", "product")
    prediction, run = pa.predict(kernel, launch, A100), executed(kernel, launch)
    sample = DEFAULT.bound_launch(DEFAULT.ask(kernel, launch, A100)).kernel.executed
    text = [a.text for a in prediction.assumptions if "may be off by" in a.text]
    assert bool(text) == (sample.work_error > 0.1) == (exponent < 2)
    assert sample.blocks > 100
    off = prediction.resources.instructions / instructions(run) - 1
    assert abs(off) <= max(sample.work_error, 0.05)


STRIDES = """
extern "C" __global__ void spread(const int* stride, const float* x, float* y)
{
    int s = stride[blockIdx.x];
    float t = 0;
    for (int k = 0; k < 16; k++) t += x[threadIdx.x * s + k * 8192 + blockIdx.x * 131072];
    y[blockIdx.x * blockDim.x + threadIdx.x] = t;
}
"""


def test_a_sample_is_as_large_as_the_error_of_its_traffic_asks_for(tmp_path):
    """Blocks execute the same instructions, and touch 16 to 128 sectors with each load."""
    (tmp_path / "strides.cu").write_text(STRIDES)
    blocks, threads = 8192, 128
    stride = np.minimum(np.random.default_rng(0).zipf(1.5, blocks), 32).astype(np.int32)
    buffers = [pa.Buffer(data=stride), pa.Buffer((blocks << 17,)), pa.Buffer((blocks * threads,))]
    launch = pa.Launch(blocks, threads, buffers)
    kernel = pa.from_cuda(tmp_path / "strides.cu", "spread")
    prediction = pa.predict(kernel, launch, A100)
    sample = DEFAULT.bound_launch(DEFAULT.ask(kernel, launch, A100)).kernel.executed
    assert sample.work_error == 0 < sample.traffic_error <= 0.1
    sectors = sum(len(np.unique(np.arange(threads) * s // 8)) for s in stride) * 16
    loads = float(prediction.volumes.l2_load.fields["x"].total)
    assert loads == pytest.approx(32 * sectors, rel=sample.traffic_error)
