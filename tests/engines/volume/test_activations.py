"""Bytes that an activation of a DRAM row moves: against enumeration, and closed forms."""

from itertools import islice

import brute_force
import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.activations import Window
from perfassert.engines.volume.launch_groups import group_launch
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.access import Direction

DEVICE = pa.device("RTX-3080")
RESIDENT = Occupancy(1.0, 6, 48, "threads")
LOADED, STORED = ("a", Direction.LOAD), ("b", Direction.STORE)


def copy(load, store, shape, dtype="float64"):
    fields = [pa.Field("a", dtype, shape=shape), pa.Field("b", dtype, shape=shape)]
    return pa.Kernel.from_accesses("copy", fields, [load], [store])


def window(kernel, launch, first, last, kept=0, device=DEVICE):
    """Return the window of blocks ``first`` to ``last``; the L2 also holds the writes of ``kept``
    more blocks on each side."""
    groups = group_launch(kernel, launch, launch, device, RESIDENT)
    return Window(groups, first, last, 1.0, 1 + 2 * kept / (last - first))


def blocks(launch, first, last):
    return list(islice(brute_force.block_order(launch.grid), max(first, 0), last))


def enumerated_fill(kernel, field, text, launch, first, last, grain, page):
    own = blocks(launch, first, last)
    touched = [brute_force.touched(kernel, field, [text], launch, own, g) for g in (grain, page)]
    return len(touched[0]) * grain / len(touched[1])


def enumerated_completion(kernel, text, launch, first, last, kept):
    """Ratio of a window's sectors with its neighbours' writes to those without, in the same
    lines."""
    own, around = blocks(launch, first, last), blocks(launch, first - kept, last + kept)
    at_once = brute_force.touched(kernel, "b", [text], launch, own, 32)
    later = brute_force.touched(kernel, "b", [text], launch, around, 32)
    lines = {sector // 4 for sector in at_once}
    return len({sector for sector in later if sector // 4 in lines}) / len(at_once)


PATTERNS = {
    "rows": ("a[y, x]", "b[y, x]"),
    "swapped": ("a[x, y]", "b[x, y]"),
    "transposed": ("a[x, y]", "b[y, x]"),
    "every third": ("a[y, 3 * x]", "b[y, 3 * x]"),
    "blocks apart": (
        "a[y, threadIdx.x + 48 * blockIdx.x]",
        "b[y, threadIdx.x + 48 * blockIdx.x]",
    ),
    "two rows at a time": ("a[y // 2, x + 128 * (y % 2)]", "b[y // 2, x + 128 * (y % 2)]"),
}
LAUNCHES = (
    pa.Launch(grid=(8, 8), block=(16, 16)),
    pa.Launch(grid=(4, 32), block=(32, 4)),
    pa.Launch.cover(domain=(120, 100), block=(16, 8)),
)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("first", "last", "kept"), [(0, 1, 0), (3, 12, 4), (9, 30, 9)])
def test_window_counts_what_enumeration_does(pattern, launch, first, last, kept):
    load, store = PATTERNS[pattern]
    kernel = copy(load, store, (128, 512))
    own = window(kernel, launch, first, last, kept)
    limits = (DEVICE.dram_granularity, DEVICE.dram_page_bytes)

    def limited(fill):
        return min(max(fill, limits[0]), limits[1])

    page = DEVICE.dram_page_bytes
    read = enumerated_fill(kernel, "a", load, launch, first, last, DEVICE.dram_granularity, page)
    written = enumerated_fill(kernel, "b", store, launch, first, last, 32, page)
    written *= enumerated_completion(kernel, store, launch, first, last, kept)
    assert own.bytes_per_activation(*LOADED) == pytest.approx(limited(read))
    assert own.bytes_per_activation(*STORED) == pytest.approx(limited(written))


def rows(n):
    return copy("a[y, x]", "b[y, x]", (n, n), "float32"), pa.Launch((n // 16, n // 16), (16, 16))


def swapped(n):
    return copy("a[x, y]", "b[x, y]", (n, n), "float32"), pa.Launch((n // 16, n // 16), (16, 16))


@pytest.mark.parametrize("n", [512, 2048, 8192])
def test_swapped_indices_activate_a_row_for_every_64_bytes(n):
    """Half lines are read as such, and written with their other half while the L2 holds them."""
    own = window(*swapped(n), n // 16, n // 16 + 24, kept=n // 16)
    assert own.bytes_per_activation(*LOADED) == 64
    assert own.bytes_per_activation(*STORED) == 128


def test_half_lines_are_written_alone_where_the_l2_has_lost_the_other_half():
    own = window(*swapped(2048), 128, 152, kept=100)
    assert own.bytes_per_activation(*STORED) == 64


@pytest.mark.parametrize("count", [4, 16, 32])
def test_rows_are_read_as_far_as_the_window_reaches(count):
    """The blocks of a window touch 64 bytes each of a row of 2 KiB."""
    own = window(*rows(512), 64, 64 + count)
    assert own.bytes_per_activation(*LOADED) == 64 * count
    assert own.bytes_per_activation(*STORED) == 64 * count


def test_activations_bound_the_time_of_scattered_accesses():
    n = 8192
    prediction = pa.predict(*swapped(n), DEVICE.replace(l2_packet_cycles=0))
    count = 4 * n * n * (1 / 64 + 1 / 128)
    assert prediction.diagnostics["dram_activations"] == pytest.approx(count, rel=0.05)
    least = prediction.diagnostics["dram_activations"] * DEVICE.dram_activate / DEVICE.dram_channels
    assert prediction.bounds["dram"] == pytest.approx(least, rel=1e-6)
    assert prediction.time >= least
    assert prediction.limiter == "dram"


def test_rows_are_bound_by_their_bytes():
    n = 8192
    without = DEVICE.replace(dram_activate=0)
    assert pa.predict(*rows(n), DEVICE).time == pa.predict(*rows(n), without).time


def test_no_activations_where_the_file_says_nothing_of_them():
    without = DEVICE.replace(dram_activate=0)
    prediction = pa.predict(*swapped(2048), without)
    assert "dram_activations" not in prediction.diagnostics
    bytes_ = prediction.volumes.dram_load.total + prediction.volumes.dram_store.total
    assert prediction.bounds["dram"] == pytest.approx(bytes_ / DEVICE.dram_bandwidth)


def test_activations_need_channels_and_pages():
    with pytest.raises(pa.DeviceFileError, match="dram_channels: is needed"):
        DEVICE.replace(dram_channels=0)


def test_measured_volumes_scale_the_activations():
    kernel, launch = swapped(4096)
    whole = pa.predict(kernel, launch, DEVICE)
    half = {name: 0.5 * getattr(whole.volumes, name).total for name in ("dram_load", "dram_store")}
    given = pa.predict(kernel, launch, DEVICE, volumes=half)
    assert given.bounds["dram"] == pytest.approx(whole.bounds["dram"] / 2)


LOOPS = """
extern "C" __global__ void sum_rows(const float* a, float* b, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[row * n + k];
    b[row] = sum;
}
extern "C" __global__ void sum_columns(const float* a, float* b, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[k * n + column];
    b[column] = sum;
}
extern "C" __global__ void sum_from(const int* start, int step, const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[start[i] + k * step];
    b[i] = sum;
}
"""


@pytest.mark.parametrize(("kernel", "each"), [("sum_rows", 32), ("sum_columns", 2048)])
def test_blocks_that_loop_are_in_the_same_iterations(kernel, each, tmp_path):
    """All 4,096 rows are read at the same time, so that each sector is an activation; a row that
    all blocks read together fills its pages."""
    (tmp_path / "sums.cu").write_text(LOOPS)
    n = 4096
    launch = pa.Launch(n // 64, 64, {"n": n})
    try:
        code = pa.from_cuda(tmp_path / "sums.cu", kernel)
        prediction = pa.predict(code, launch, DEVICE)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    loads = 4 * n * n / each
    assert prediction.diagnostics["dram_activations"] == pytest.approx(loads, rel=0.01)


@pytest.mark.parametrize(("apart", "step", "each"), [(1024, 1, 32), (1, 4096, 512)])
def test_executed_blocks_that_loop_are_in_the_same_iterations(apart, step, each, tmp_path):
    """The same sums whose addresses the program reads from memory, so that blocks are executed. Of
    those that read a row together the two that were executed side by side fill a quarter page."""
    (tmp_path / "sums.cu").write_text(LOOPS)
    rows, n = 4096, 1024
    start = (np.arange(rows) * apart).astype(np.int32)
    buffers = {"start": pa.Buffer(data=start), "a": pa.Buffer((rows * n,)), "b": pa.Buffer((rows,))}
    try:
        code = pa.from_cuda(tmp_path / "sums.cu", "sum_from")
        launch = pa.Launch(rows // 64, 64, {**buffers, "n": n, "step": step})
        prediction = pa.predict(code, launch, DEVICE)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    loads = 4 * rows * n / each
    assert prediction.diagnostics["dram_activations"] == pytest.approx(loads, rel=0.05)


def test_a_window_without_work_activates_nothing():
    """Most blocks of the wave do nothing: those in its middle tell nothing of the others."""
    n = 1 << 14
    kernel = copy("a[x]", "b[x]", (n,), "float32")
    own = window(kernel, pa.Launch.cover(n, 256), n // 256, n // 256 + 4)
    assert own.bytes_per_activation(*LOADED) == DEVICE.dram_page_bytes
