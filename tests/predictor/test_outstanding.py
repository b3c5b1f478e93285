"""Tests that a warp waits for the slowest line, and that hits behind a miss add no latency."""

import pytest

import perfassert as pa

N = 1 << 22
DEVICE = pa.device("a100").replace(
    block_launch_cycles=0, block_drain_cycles=0, dram_latency_growth=0, dram_latency_spread=0.3
)


def one_warp(loads, device=DEVICE):
    """Cycles of one warp that loads so, alone on the device."""
    names = [name for name in "abcdefgh" if any(load.startswith(name) for load in loads)]
    fields = [pa.Field(name, "float32", (N,), halo=8) for name in names]
    kernel = pa.Kernel.from_accesses("loads", fields, loads=loads, registers=32)
    return float(pa.predict(kernel, pa.Launch(1, 32), device).cycles)


def later(arrays):
    """(n − 1) / (n + 1) of 2 lines each, less that of one load."""
    n = 2 * arrays
    return DEVICE.dram_latency * 0.3 * ((n - 1) / (n + 1) - 1 / 3)


@pytest.mark.parametrize("arrays", [2, 3, 4, 8])
def test_more_arrays_wait_for_the_slowest_line(arrays):
    loads = [f"{name}[x]" for name in "abcdefgh"[:arrays]]
    spread, even = (one_warp(loads, DEVICE.replace(dram_latency_spread=s)) for s in (0.3, 0))
    assert spread - even == pytest.approx(later(arrays), abs=0.2)


def test_one_array_does_not():
    assert one_warp(["a[x]"]) == one_warp(["a[x]"], DEVICE.replace(dram_latency_spread=0))


def test_hits_behind_a_miss_take_issue_and_unit_only():
    """A further load of the same line takes its issue, and no latency of the L1."""
    few, many = (one_warp([f"a[x + {i}]" for i in range(n)]) for n in (1, 8))
    assert many - few < 7 * DEVICE.l1_latency / 4
    assert many > few
    slow = DEVICE.replace(l1_latency=2 * DEVICE.l1_latency)
    assert one_warp([f"a[x + {i}]" for i in range(8)], slow) == pytest.approx(many, rel=0.01)


CODE = """
extern "C" __global__ void again(const float* a, float* b, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < {steps}; ++k) b[i + k * n] = a[i] + k;
}}
extern "C" __global__ void walk(const float* a, float* b, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[i * {pitch} + k];
    b[i] = sum;
}}
extern "C" __global__ void same(const float* a, float* b, int n)
{{
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[k];
    b[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}}"""


def slower(folder, kernel, steps, pitch="n", threads=32, **latency):
    """Cycles that one warp takes longer if a latency is so much longer."""
    pytest.importorskip("nvidia.cu13")
    (file := folder / "loads.cu").write_text(CODE.format(steps=steps, pitch=pitch))
    sizes = {"a": 32 * (steps + 1), "b": 32 * 64}
    args = {**{name: pa.Buffer(size, "float32") for name, size in sizes.items()}, "n": steps}
    code, launch = pa.from_cuda(file, kernel), pa.Launch(1, threads, args)
    even = DEVICE.replace(dram_latency_spread=0)
    changed = {key: getattr(even, key) + more for key, more in latency.items()}
    before, after = (pa.predict(code, launch, d) for d in (even, even.replace(**changed)))
    return float(after.cycles) - float(before.cycles)


def test_what_a_warp_has_waited_for_is_in_the_l1(tmp_path):
    """Stores may change what is loaded, so it is loaded 32 times: once from DRAM."""
    assert slower(tmp_path, "again", 32, dram_latency=1000) == pytest.approx(1000, rel=0.07)
    assert slower(tmp_path, "again", 32, l1_latency=100) == pytest.approx(31 * 100, rel=0.01)


def test_a_row_for_each_thread_waits_for_each_of_its_sectors(tmp_path):
    assert slower(tmp_path, "walk", 64, dram_latency=1000) == pytest.approx(8 * 1000, rel=0.02)
    assert slower(tmp_path, "walk", 64, l1_latency=100) == pytest.approx(56 * 100, rel=0.02)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_warps_that_read_the_same_in_step_wait_for_it_together(tmp_path, threads):
    """Whoever is behind hits, and so catches up with the first one, which waits for memory."""
    more = slower(tmp_path, "same", 64, threads=threads, dram_latency=1000)
    assert more == pytest.approx(8 * 1000, rel=0.05)


def test_rows_that_begin_elsewhere_in_their_sectors_wait_in_nearly_every_iteration(tmp_path):
    """In each iteration, four of the lanes come to another sector."""
    seen, waits = set(), 0
    for k in range(64):
        sectors = {4 * (65 * lane + k) // 32 for lane in range(32)}
        waits += not sectors <= seen
        seen |= sectors
    assert waits > 50
    more = slower(tmp_path, "walk", 64, "(n + 1)", dram_latency=1000)
    assert more == pytest.approx(waits * 1000, rel=0.02)
