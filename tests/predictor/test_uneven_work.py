"""Data that makes warps and blocks differ: shares of branches, imbalance, and the time."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=3)

KERNELS = Path(__file__).with_name("data_dependent.cu")
ROWS = 1 << 14


@pytest.fixture(autouse=True)
def toolchain():
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")


def product(lengths, kernel="csr_scalar", gpu="2080ti"):
    rows = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    n, nnz = len(lengths), int(rows[-1])
    columns = np.random.default_rng(1).integers(0, n, nnz).astype(np.int32)
    args = {
        "n": n, "rows": rows, "columns": columns, "values": pa.Buffer(nnz), "x": pa.Buffer(n),
        "y": pa.Buffer(n),
    }  # fmt: skip
    threads = n * (32 if kernel == "csr_vector" else 1)
    launch = pa.Launch(threads // 128, 128, args=args)
    return pa.predict(pa.from_cuda(KERNELS, kernel=kernel), launch, gpu)


def power_law():
    lengths = np.minimum(np.random.default_rng(2).zipf(1.7, ROWS), 400)
    return lengths, np.full(ROWS, round(lengths.mean()))


def test_a_power_law_and_a_band_with_as_many_entries_differ_as_they_must():
    lengths, even = power_law()
    skewed, banded = product(lengths), product(even)
    assert banded.diagnostics["uneven_blocks"] == 1.0
    assert skewed.diagnostics["uneven_blocks"] > 1.2
    assert skewed.time > 3 * banded.time  # the longest row has 400 entries, its warp waits for it
    assert skewed.limiter in ("latency", "parallelism")  # a few warps are waited for
    assert banded.limiter in ("l1", "l2", "dram")
    assert skewed.confidence != "guessed"


def test_a_warp_for_each_row_evens_out_what_a_thread_for_each_row_does_not():
    lengths, _ = power_law()
    assert product(lengths, "csr_vector").time < product(lengths).time


def test_a_heavy_row_costs_its_own_time_and_no_other_block_waits_for_it():
    light = np.full(ROWS, 8)
    heavy = light.copy()
    heavy[5] = 1600
    found, twice = product(heavy), np.where(heavy > 8, 3200, 8)
    assert found.limiter == "parallelism"
    assert product(twice).time == pytest.approx(2 * found.time, rel=0.15)
    assert found.time > 10 * product(light).time


def test_a_branch_that_few_take_costs_little_and_is_no_guess():
    """Edges to visited vertices: what the other side stores is not stored."""
    n = 1 << 12
    rows = (np.arange(n + 1) * 8).astype(np.int32)
    edges = np.random.default_rng(3).integers(0, n, 8 * n).astype(np.int32)

    def predicted(visited):
        distance = np.where(np.random.default_rng(4).random(n) < visited, 1, -1).astype(np.int32)
        args = {
            "n": n, "frontier": np.arange(n, dtype=np.int32), "rows": rows, "edges": edges,
            "distance": distance, "next": pa.Buffer(n, fill="constant 0"),
        }  # fmt: skip
        launch = pa.Launch(n // 128, 128, args=args)
        return pa.predict(pa.from_cuda(KERNELS, kernel="bfs"), launch, "2080ti")

    all_new, some_new, none_new = predicted(0.0), predicted(0.9), predicted(1.0)
    for found in (all_new, some_new, none_new):
        assert not [a for a in found.assumptions if a.stands_for]
    stored = [p.volumes.l2_store.total for p in (none_new, some_new, all_new)]
    assert stored[0] == 0
    assert stored[0] < stored[1] < stored[2]
    issuing = [float(p.bounds["issue"]) for p in (none_new, all_new)]
    assert issuing[0] < issuing[1]


GUARDED = """
extern "C" __global__ void count(const int* lengths, float* out, int nx, int ny)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= nx || y >= ny) return;
    float sum = 0;
    for (int k = 0; k < lengths[x]; ++k) sum = sum * 1.5f + k;
    out[y * nx + x] = sum;
}
"""


@pytest.mark.parametrize("sides", [(300, 1), (20, 15)])
def test_blocks_with_nothing_to_do_change_neither_volumes_nor_the_time_of_the_others(
    tmp_path, sides
):
    """Trips are data: 8 blocks that are executed stand for all those that the guards let through,
    not for the whole grid."""
    (file := tmp_path / "count.cu").write_text(GUARDED)
    (x, y), block = sides, 256
    lengths = np.random.default_rng(1).integers(1000, 3000, x * block).astype(np.int32)
    args = {"lengths": lengths, "out": pa.Buffer(x * y * block), "nx": x * block, "ny": y}
    kernel, gpu = pa.from_cuda(file), pa.device("2080ti")
    tight, wide = (
        pa.predict(kernel, pa.Launch(grid, block, args), gpu) for grid in ((x, y), (50 * x, 3 * y))
    )
    for metric in ("l2_load", "l2_store", "dram_load"):
        found, expected = (float(getattr(p.volumes, metric).total) for p in (wide, tight))
        assert found == pytest.approx(expected, rel=0.01)
    idle = 149 * x * y * gpu.block_launch_cycles / gpu.compute_units / gpu.clock_hz
    assert 0.98 * float(tight.time) <= float(wide.time) <= 1.02 * float(tight.time) + idle


LONG = """
extern "C" __global__ void burst(const int* lengths, float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < lengths[blockIdx.x]; ++k) sum = sum * 1.5f + k;
    out[i] = sum;
}
"""


@pytest.mark.parametrize(("every", "guessed"), [(4, True), (1, False)])
def test_few_blocks_that_do_most_of_the_work_make_a_sample_a_guess(tmp_path, every, guessed):
    """Eight blocks can be executed: two of them with work, if one of four blocks has some."""
    (file := tmp_path / "burst.cu").write_text(LONG)
    blocks = 4096
    lengths = np.where(np.arange(blocks) % every, 1, 20_000).astype(np.int32)
    launch = pa.Launch(blocks, 256, {"lengths": lengths, "out": pa.Buffer(256 * blocks)})
    found = pa.predict(pa.from_cuda(file), launch, "2080ti")
    texts = [a.text for a in found.assumptions if a.stands_for == "sample"]
    assert bool(texts) is guessed
    assert (found.confidence == "guessed") is guessed
    assert not guessed or "blocks differ in work: the mean of 8 executed blocks" in texts[0]
