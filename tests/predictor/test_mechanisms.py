"""Mechanisms of single devices against closed forms; each is off where its key is not given."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=8)

SHARED = """
extern "C" __global__ void chase(float* out) {
    __shared__ float held[4096];
    volatile float* words = held;
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < 64; i++) sum += words[STRIDE * (threadIdx.x % 32) + i];
    out[threadIdx.x] = sum;
}
"""


def device(**values):
    off = {"l1_fill_cycles": 0.0, "shared_access_cycles": 0.0, "block_dispatch_cycles": 0.0,
           "l2_atomic_cycles": 0.0, "shared_atomic_cycles": 0.0}  # fmt: skip
    return pa.device("a100").replace(**(off | values))


def read(pattern, n=1 << 20):
    field = pa.Field("a", "float64", (n,))
    return pa.Kernel.from_accesses("read", [field], [pattern], dtype="float64")


def copy(n):
    fields = [pa.Field(name, "float64", (n,)) for name in "ab"]
    return pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])


@pytest.mark.parametrize("threads", [32, 64])
def test_small_blocks_wait_for_the_device_to_start_them(threads):
    n = 1 << 22
    launch = pa.Launch.cover(n, threads)
    found = pa.predict(copy(n), launch, device(block_dispatch_cycles=100.0))
    assert float(found.cycles) == pytest.approx(100 * launch.blocks, rel=1e-3)
    assert found.limiter == "parallelism"
    assert float(found.bounds["parallelism"]) == pytest.approx(100 * launch.blocks / 1.41e9)
    other = pa.predict(copy(n), launch, device())
    assert other.time < found.time
    assert other.limiter != "parallelism"


def test_large_blocks_do_not():
    n = 1 << 22
    launch = pa.Launch.cover(n, 1024)
    found = [pa.predict(copy(n), launch, device(block_dispatch_cycles=c)) for c in (0.0, 2.0)]
    assert found[0].time == found[1].time


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (4, 4)])
def test_a_shared_access_has_a_least_time(tmp_path, stride, wavefronts):
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "chase.cu").write_text(SHARED)
    kernel = pa.from_cuda(file, defines={"STRIDE": stride})
    launch = pa.Launch(108 * 8, 1024)
    plain, floored = (
        float(pa.predict(kernel, launch, device(shared_access_cycles=c)).bounds["shared"])
        for c in (0.0, 2.0)
    )
    assert floored / plain == pytest.approx(max(2, wavefronts) / wavefronts, rel=0.02)


@pytest.mark.parametrize("fill", [0.0, 1.0, 2.0])
def test_sectors_that_miss_take_the_load_store_unit(fill):
    """A warp that reads 32 doubles takes two cycles of the data stage, and fills eight sectors."""
    n = 108 * 64 * 32
    fast = device(l1_fill_cycles=fill, l2_port_bytes_per_cycle=1e6, l2_bandwidth=1e18)
    found = pa.predict(read("a[x]", n), pa.Launch.cover(n, 1024), fast)
    loads = n / 32 / 108
    assert float(found.bounds["l1"]) * fast.clock_hz == pytest.approx(
        loads * (2 + 8 * fill), rel=0.01
    )


@pytest.mark.parametrize("cycles", [0.8, 1.0, 1.5])
@pytest.mark.parametrize("lines", [4, 16, 32])
def test_tags_are_looked_up_one_after_the_other(lines, cycles):
    """A warp that touches so many lines, with a single bank of tags."""
    each = 32 // lines
    kernel = read(f"a[16 * (x // {each}) + x % {each}]", 1 << 20)
    launch = pa.Launch.cover(1 << 15, 256)
    found = pa.predict(kernel, launch, device(l1_tag_banks=1, l1_tag_cycles=cycles))
    data = float(found.volumes.l1_wavefronts.total)
    assert float(found.volumes.l1_cycles.total) == max(data, lines * cycles * (1 << 10))


def test_latencies_of_l2_and_dram_are_times():
    slow = pa.device("a100").replace(clock_hz=705e6)
    fast = pa.device("a100")
    assert slow.dram_latency == fast.dram_latency / 2
    assert slow.l2_latency == fast.l2_latency / 2
    assert slow.l1_latency == fast.l1_latency
    assert (
        slow.operation("atomic_global").completion * 2 == fast.operation("atomic_global").completion
    )
    assert pa.device("a100").replace(clock_hz=705e6, dram_latency=400.0).dram_latency == 400


VALIDATION = Path(__file__).parents[2] / "validation" / "kernels"
N = 1 << 17


def adding(addresses, gpu):
    pytest.importorskip("nvidia.cu13")
    kernel = pa.from_cuda(VALIDATION / "atomics.cu", kernel="add_global")
    counts = pa.Buffer(addresses, "uint32")
    args = {"counts": counts, "addresses": addresses, "n": N}
    return pa.predict(kernel, pa.Launch.cover(N, 256, args), gpu)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("cycles", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("addresses", [1, 2, 100, 1000, N])
def test_atomics_in_one_sector_take_turns(addresses, cycles):
    gpu = device(l2_atomic_cycles=cycles)
    found = adding(addresses, gpu)
    rows = np.arange(N).reshape(-1, 32) % addresses
    sector = rows // 8
    places = np.stack([np.arange(len(rows)).repeat(32), sector.ravel(), rows.ravel()], axis=1)
    (row, sector, _), lanes = (a := np.unique(places, axis=0, return_counts=True))[0].T, a[1]
    sectors, which = np.unique(np.stack([row, sector], axis=1), axis=0, return_inverse=True)
    fullest = np.zeros(len(sectors), int)
    np.maximum.at(fullest, which.reshape(-1), lanes)
    operations = np.bincount(sectors[:, 1], fullest).max()
    turns = operations * cycles / gpu.clock_hz
    assert float(found.bounds.get("atomics", 0.0)) == pytest.approx(turns, rel=0.01)
    assert float(found.time) >= turns * (1 - 1e-9)
    assert (found.limiter == "atomics") == (turns > 0.5 * float(found.time))
    assert found.limiter == "atomics" or not cycles or addresses > 2


def test_the_rate_on_one_address_does_not_depend_on_the_number_of_units():
    """NVBench of 2**26 zeros: 36.16 ms on 68 units, 36.27 ms on 28 (see the device files)."""
    one = pa.device("RTX-3090")
    few = one.replace(compute_units=28)
    assert float(adding(1, few).time) == pytest.approx(float(adding(1, one).time), rel=0.01)


@pytest.mark.parametrize("cycles", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("addresses", [1, 2, 8, 32, 96])
def test_lanes_of_a_shared_atomic_take_turns(addresses, cycles):
    pytest.importorskip("nvidia.cu13")
    kernel = pa.from_cuda(VALIDATION / "atomics.cu", kernel="add_shared")
    launch = pa.Launch(1024, 192, {"addresses": addresses})  # 192 = 2 * 96: whole warps
    found = pa.predict(kernel, launch, device(shared_atomic_cycles=cycles))
    passes = 1 + cycles * (32 / min(addresses, 32) - 1)
    each = float(found.volumes.shared_wavefronts.total) / (1024 * 6)
    assert each == pytest.approx(64 * passes + 2, rel=1e-6)


SKEW = {
    "uniform": lambda draw: draw.integers(0, 256, N),
    "skewed": lambda draw: np.minimum(draw.geometric(0.5, N) - 1, 255),
    "one bin": lambda draw: np.zeros(N),
}


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("kernel", "gpu", "guessed"), [
    ("histogram_global", "a100", {"uniform", "skewed"}),
    ("histogram_global", "RTX-2080-Ti", {"uniform", "skewed"}),
    ("histogram_shared", "RTX-2080-Ti", set()),
])  # fmt: skip
def test_a_skewed_histogram_takes_longer(kernel, gpu, guessed):
    """Executed: the fullest bin, within what a sample of blocks can say. What bins in one sector
    take is not known."""
    pytest.importorskip("nvidia.cu13")
    made = pa.from_cuda(VALIDATION / "histograms.cu", kernel=kernel)
    times = []
    for name, make in SKEW.items():
        data = make(np.random.default_rng(1)).astype(np.uint32)
        found = pa.predict(made, pa.Launch(108, 256, {"in": data, "n": N}), gpu)
        assert (found.confidence == "guessed") is (name in guessed)
        times.append(float(found.time))
        if kernel == "histogram_global":
            fullest = np.bincount(data).max()
            met = found.diagnostics["atomics_on_one_address"]
            assert met == pytest.approx(fullest, rel=0.05)
    assert times[0] < times[1] < times[2]


def test_counting_in_shared_memory_is_merged_where_the_hardware_does():
    """From sm_80 on ``atomicAdd(p, 1)`` counts lanes, whatever their addresses: no replays."""
    pytest.importorskip("nvidia.cu13")
    made = pa.from_cuda(VALIDATION / "histograms.cu", kernel="histogram_shared")
    zeros = np.zeros(N, np.uint32)
    found = pa.predict(made, pa.Launch(108, 256, {"in": zeros, "n": N}), "a100")
    assert float(found.volumes.shared_wavefronts.total) < 2 * N / 32
    other = pa.predict(made, pa.Launch(108, 256, {"in": zeros, "n": N}), "RTX-2080-Ti")
    assert float(other.volumes.shared_wavefronts.total) > N


def test_a_retry_loop_is_the_turns_of_its_lanes(tmp_path):
    """A float in shared memory is added by compare and swap: each pass serves one lane."""
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "sum.cu").write_text(
        'extern "C" __global__ void sum(float* out, const float* in) {\n'
        "    __shared__ float all;\n    if (threadIdx.x == 0) all = 0;\n    __syncthreads();\n"
        "    atomicAdd(&all, in[threadIdx.x]);\n    __syncthreads();\n"
        "    out[blockIdx.x] = all;\n}\n"
    )
    made, launch = pa.from_cuda(file), pa.Launch(108, 32, {"in": np.ones(32, np.float32)})
    plain, serial = (
        pa.predict(made, launch, device(shared_atomic_cycles=c)).volumes.shared_wavefronts.total
        for c in (0.0, 1.0)
    )
    assert serial == plain
    assert float(plain) >= 32 * 108


CODE = """
extern "C" __global__ void longer(float* out, float s, int n) {
    float t = s + threadIdx.x;
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        #pragma unroll
        for (int j = 0; j < 256; j++) t = t * s + (j + 0.5f);
    }
    out[threadIdx.x + blockDim.x * blockIdx.x] = t;
}
"""


def longer(tmp_path, launch, **values):
    """Predict a kernel whose loop does not fit into 4 KiB."""
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "longer.cu").write_text(CODE)
    values = {"instruction_cache_bytes": 4096, "instruction_fetch_share": 1.0, **values}
    return pa.predict(pa.from_cuda(file), launch, device(**values))


def code_read(prediction):
    return float(prediction.volumes.l2_load.fields["(instructions)"].total) / 108


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("trips", [4, 16])
@pytest.mark.parametrize("threads", [64, 256])
@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_code_beyond_the_cache_takes_bandwidth(tmp_path, rate, trips, threads):
    """Warps take longer to fetch the loop than to execute it; each scheduler fetches it."""
    launch = pa.Launch(108 * 4, threads, {"s": 1.5, "n": trips})
    found = longer(tmp_path, launch, instruction_fetch_bytes_per_cycle=rate)
    streams = min(threads // 32, 4)
    assert float(found.cycles) == pytest.approx(code_read(found) * streams / rate, rel=0.03)
    assert found.limiter == "issue"
    assert found.stalls["instruction_fetch"] > 0.3
    split = next(a for a in found.advice if a.optimizer == "Function Split")
    fits = longer(tmp_path, launch, instruction_fetch_bytes_per_cycle=0.0)
    assert split.speedup == pytest.approx(float(found.time) / float(fits.time), rel=1e-6)
    assert split.context["estimate"] == "simulation"


def test_the_start_of_a_long_loop_is_waited_for(tmp_path):
    """In m = 1 − exp(−x), the missed share, x is the code that an iteration reads, in cache
    sizes."""
    wide = {"l2_latency": 1e4, "dram_latency": 2e4}

    def waited(trips):
        launch = pa.Launch(108, 32, {"s": 1.5, "n": trips})
        found, fits = (
            longer(tmp_path, launch, instruction_fetch_bytes_per_cycle=rate, **wide)
            for rate in (1e6, 0.0)
        )
        return code_read(found), float(found.cycles) - float(fits.cycles)

    (less, short), (more, long) = waited(20), waited(60)
    missed = 1 - np.exp(-(more - less) / 40 / 4096)
    assert missed > 0.05
    assert long - short == pytest.approx(40 * missed * 1e4, rel=0.01)


def test_code_that_fits_takes_no_time(tmp_path):
    launch = pa.Launch(108, 256, {"s": 1.5, "n": 8})
    found, none = (
        longer(
            tmp_path, launch, instruction_fetch_bytes_per_cycle=rate, instruction_cache_bytes=size
        )
        for rate, size in ((0.25, 1 << 17), (0.0, 4096))
    )
    assert found.time == none.time
    assert "instruction_fetch" not in found.stalls


CONSTANTS = Path(__file__).parents[1] / "frontends" / "kernels" / "constants.cu"


@pytest.mark.parametrize("each", [1, 2, 8, 32])
def test_constants_are_looked_up_once_for_each_address(each):
    """A warp whose lanes ask for 32 / each words takes as many turns at the constant cache."""
    pytest.importorskip("nvidia.cu13")
    kernel = pa.from_cuda(CONSTANTS, "spread", defines={"EACH": each})
    blocks, warps, rounds, passes = 108 * 8, 8, 256, 32 // each
    found = pa.predict(kernel, pa.Launch(blocks, 32 * warps, args={"n": rounds}), "a100")
    clock = pa.device("a100").clock_hz
    turns = blocks * warps * rounds * passes / 108
    if passes >= 8:
        assert float(found.cycles) == pytest.approx(turns, rel=0.03)
    assert float(found.bounds["compute"]) * clock >= turns * 0.99
    assert found.confidence != "guessed"


def looked_up(indices):
    kernel = pa.from_cuda(CONSTANTS, "looked_up")
    launch = pa.Launch(108 * 64, 256, args={"x": indices, "y": pa.Buffer(108 * 64 * 256)})
    return pa.predict(kernel, launch, "a100")


def test_what_data_looks_up_in_constants_is_counted_or_guessed():
    pytest.importorskip("nvidia.cu13")
    numbers = np.arange(108 * 64 * 256, dtype=np.int32)
    together, apart = looked_up(numbers // 256), looked_up(numbers)
    assert "guessed" not in (together.confidence, apart.confidence)
    assert float(apart.bounds["compute"]) > 4 * float(together.bounds["compute"])
    unknown = pa.predict(pa.from_cuda(CONSTANTS, "looked_up"), pa.Launch(108 * 64, 256), "a100")
    assert unknown.confidence == "guessed"
