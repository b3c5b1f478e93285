"""Atomics on global memory by kind and pattern, and retry loops, against closed forms."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.kernel.executed import meeting

pytestmark = pytest.mark.exhaustive(one_in=4)

BODIES = {
    "integer": ("int", "atomicAdd(place, i)"),
    "float": ("float", "atomicAdd(place, 1.5f)"),
    "double": ("double", "atomicAdd(place, 1.5)"),
    "increment": ("unsigned", "atomicInc(place, 17)"),
    "wide": ("unsigned long long", "atomicAdd(place, (unsigned long long)i)"),
    "result": ("float", "if (atomicAdd(place, 1.5f) == 3) place[1] = 0"),
    "exchange": ("int", "if (atomicExch(place, i) == 3) place[1] = 0"),
    "maximum": ("int", "atomicMax(out + 64, i); atomicInc((unsigned*)place, 17)"),
}
MEASURED = {"integer", "float", "double", "increment", "maximum"}
HEAD = """
extern "C" __global__ void add_{name}({type}* out, int n, int share) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ {type}* place = out + i / share; {body}; }}
}}
"""
N = 1 << 16
GPU = "RTX-3080"


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    file = tmp_path_factory.mktemp("atomics") / "atomics.cu"
    texts = (HEAD.format(name=n, type=t, body=b) for n, (t, b) in BODIES.items())
    file.write_text("".join(texts))

    def predict(name, share=N, device=GPU):
        launch = pa.Launch.cover(N, 256, args={"n": N, "share": share})
        return pa.predict(pa.from_cuda(file, f"add_{name}"), launch, device)

    return predict


@pytest.mark.parametrize("name", BODIES)
def test_on_one_address_each_kind_takes_its_own_turns(added, name):
    gpu = pa.device(GPU)
    each = gpu.l2_atomic_cycles if name == "integer" else gpu.l2_update_cycles
    found = added(name)
    assert found.limiter == "atomics"
    assert float(found.bounds["atomics"]) == pytest.approx(N * each / gpu.clock_hz, rel=1e-6)
    assert (found.confidence == "guessed") is (name not in MEASURED)


def test_where_no_rate_is_known_it_is_announced(added):
    unknown = pa.device(GPU).replace(l2_update_cycles=0.0)
    found = added("float", device=unknown)
    turns = N * unknown.l2_atomic_cycles / unknown.clock_hz
    assert float(found.bounds["atomics"]) == pytest.approx(turns, rel=1e-6)
    assert found.confidence == "guessed"
    assert "counts as an integer addition in one sector" in found.confidence_reasons[0].text


@pytest.mark.parametrize("share", [1, 32])
@pytest.mark.parametrize("name", ["integer", "float", "double"])
def test_different_addresses_have_a_rate_of_the_whole_l2(added, name, share):
    """If each thread adds to another address, all slices of the L2 work at the same time.

    Else a warp takes turns on its address, with the warps whose addresses are in the same slice.
    """
    gpu = pa.device(GPU)
    one = gpu.l2_atomic_cycles if name == "integer" else gpu.l2_update_cycles
    size = 8 if name == "double" else 4
    each = gpu.l2_double_cycles if name == "double" else gpu.l2_atomic_cycles / 8
    in_a_slice = share * max(gpu.l2_atomic_cycles, each) * gpu.l2_slice_bytes / size
    in_all = max(each / gpu.l2_slices, gpu.l2_atomic_lane_cycles)
    cycles = N * in_all if share == 1 else max(32 / size * share * one, in_a_slice)
    bound = added(name, share, gpu).bounds["atomics"]
    assert float(bound) == pytest.approx(cycles / gpu.clock_hz, rel=1e-6)


@pytest.mark.parametrize("count", [1, 32, 64, 128, 256, 4096, 1 << 16])
@pytest.mark.parametrize("name", ["float", "double"])
def test_a_small_target_keeps_few_slices_busy(tmp_path, name, count):
    """256 bytes lie in one slice, a KiB in two; on one address additions take turns."""
    (file := tmp_path / "sums.cu").write_text(
        f'extern "C" __global__ void add({name}* sums, int count) {{\n'
        "    atomicAdd(sums + (blockIdx.x * blockDim.x + threadIdx.x) % count, 1.5);\n}\n"
    )
    gpu = pa.device(GPU)
    found = pa.predict(pa.from_cuda(file, "add"), pa.Launch(N // 256, 256, {"count": count}), gpu)
    size, each = (8, gpu.l2_double_cycles) if name == "double" else (4, gpu.l2_atomic_cycles / 8)
    parts = range(max(1, size * count // 256))
    slices = min(gpu.l2_slices, len({(part // 4, part % 2) for part in parts}))
    served = max(each / slices, gpu.l2_atomic_lane_cycles)
    cycles = N * (gpu.l2_update_cycles if count == 1 else served)
    assert float(found.bounds["atomics"]) == pytest.approx(cycles / gpu.clock_hz, rel=1e-6)
    assert found.confidence != "guessed"


def test_one_full_address_beside_a_wide_target_keeps_no_slice_from_the_others(tmp_path):
    """A counter that every block adds to lies in one slice; the sums beside it lie in all."""
    (file := tmp_path / "sums.cu").write_text(
        'extern "C" __global__ void add(float* sums, float* count) {\n'
        "    atomicAdd(sums + blockIdx.x * blockDim.x + threadIdx.x, 1.f);\n"
        "    if (threadIdx.x == 0) atomicAdd(count, 1.f);\n}\n"
    )
    gpu, blocks = pa.device(GPU), 1 << 14
    found = pa.predict(pa.from_cuda(file, "add"), pa.Launch(blocks, 256), gpu)
    lanes, turns = blocks * 256 * gpu.l2_atomic_lane_cycles, blocks * gpu.l2_update_cycles
    expected = max(lanes, turns) / gpu.clock_hz
    assert float(found.bounds["atomics"]) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("apart", [1, 2, 8])
def test_single_lanes_that_add_to_numbers_of_one_sector_wait_for_each_other(tmp_path, apart):
    """A sum for each of 16 rows: half of the turns are in one sector if the sums lie side by side,
    a sixteenth if each has a sector of its own, which then waits for others of its slice."""
    (file := tmp_path / "rows.cu").write_text(
        'extern "C" __global__ void add(float* sums, int apart) {\n'
        "    if (threadIdx.x == 0) atomicAdd(sums + blockIdx.x % 16 * apart, 1.5f);\n}\n"
    )
    gpu, blocks = pa.device(GPU), 1 << 12
    found = pa.predict(pa.from_cuda(file, "add"), pa.Launch(blocks, 32, {"apart": apart}), gpu)
    turns, in_a_slice = blocks / 16, min(16, 64 // apart)
    cycles = turns * max(8 // apart * gpu.l2_update_cycles, in_a_slice * gpu.l2_atomic_cycles)
    assert float(found.bounds["atomics"]) == pytest.approx(cycles / gpu.clock_hz, rel=1e-6)


def turns_by_sector(rows):
    """Count turns by sector for warp instructions, each a list of addresses.

    A sector is served as often as its most frequent address has lanes.
    """
    turns = Counter()
    for row in rows:
        for sector in {a // 32 for a in row}:
            turns[sector] += max(Counter(a for a in row if a // 32 == sector).values())
    return turns


@given(st.data())
def test_turns_are_those_of_sectors_one_by_one(data):
    blocks = data.draw(st.integers(1, 3))
    address = st.integers(0, 40).map(lambda n: 4096 + 8 * n)
    rows = data.draw(st.lists(st.lists(address, min_size=1, max_size=6), min_size=1, max_size=8))
    addresses = np.array([row + [0] * (6 - len(row)) for row in rows])
    lanes = np.array([[True] * len(row) + [False] * (6 - len(row)) for row in rows])
    block = np.sort(data.draw(st.permutations([i % blocks for i in range(len(rows))])))
    met = meeting(addresses, lanes, block, blocks, blocks)
    assert met.turns == turns_by_sector(rows)
    assert met.operations == Counter(a for row in rows for a in row)
    assert met.part_operations == Counter(a // 256 for row in rows for a in row)
    in_parts = Counter()
    for sector, count in met.turns.items():
        in_parts[sector // 8] += count
    assert met.part_turns == in_parts


@pytest.mark.parametrize(("kernel", "each"), [("steps", 1), ("one", 240)])
@pytest.mark.parametrize("blocks", [128, 129, 1000])
def test_sampled_iterations_count_again_where_they_meet(tmp_path, kernel, each, blocks):
    """Each iteration adds to other places, or all iterations add to the same one."""
    file = tmp_path / "loops.cu"
    file.write_text(
        'extern "C" __global__ void steps(int* a, int n) {'
        " for (int k = 0; k < n; k++) atomicAdd(a + k * 1024 + threadIdx.x, 1); }"
        'extern "C" __global__ void one(int* a, int n) {'
        " for (int k = 0; k < n; k++) atomicAdd(a + threadIdx.x, k); }"
    )
    args = {"a": pa.Buffer(240 * 1024, "int32"), "n": 240}
    found = pa.predict(pa.from_cuda(file, kernel), pa.Launch(blocks, 1024, args=args), GPU)
    assert found.diagnostics["atomics_on_one_address"] == pytest.approx(blocks * each)


def test_turns_of_a_slice_are_those_of_its_sectors(tmp_path):
    """A histogram whose neighbours differ: 256 bins lie in two slices, which serve each warp's
    sectors one after the other. An H200 takes 3,042 us for it."""
    (file := tmp_path / "bins.cu").write_text(
        'extern "C" __global__ void count(unsigned* bins) {\n'
        "    atomicAdd(bins + (blockIdx.x * blockDim.x + threadIdx.x) * 37 % 256, 1u);\n}\n"
    )
    gpu = pa.device("h200")
    found = pa.predict(pa.from_cuda(file, "count"), pa.Launch(N // 256, 256), gpu)
    turns = Counter()
    for warp in range(N // 32):
        row = [4 * (37 * i % 256) for i in range(32 * warp, 32 * warp + 32)]
        for sector, count in turns_by_sector([row]).items():
            turns[32 * sector // 256 % 2] += count
    cycles = max(turns.values()) * gpu.l2_atomic_cycles
    assert float(found.bounds["atomics"]) == pytest.approx(cycles / gpu.clock_hz, rel=1e-6)
    assert found.confidence != "guessed"


LOOP = """
extern "C" __global__ void retry(const int* bins, const int* values, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int* place = out + bins[i];
    int seen = *place, expected;
    do { expected = seen; seen = atomicCAS(place, expected, expected + values[i]); }
    while (seen != expected);
}
"""


def attempts_of_one_warp(bins):
    """Lane by lane: of the lanes left, the first on each address succeeds and the others retry."""
    content, seen = {}, dict.fromkeys(range(len(bins)), 0)
    attempts, iterations = 0, 0
    left = list(range(len(bins)))
    while left:
        iterations += 1
        retry = []
        for lane in left:
            attempts += 1
            current = content.get(bins[lane], 0)
            if current == seen[lane]:
                content[bins[lane]] = current + 1
            else:
                seen[lane] = current
                retry.append(lane)
        left = retry
    return iterations, attempts


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("addresses", [1, 2, 5, 32])
def test_a_retry_loop_needs_an_iteration_for_each_lane_on_the_fullest_address(tmp_path, addresses):
    """m lanes on one address take m iterations and m (m + 1) / 2 attempts."""
    (file := tmp_path / "retry.cu").write_text(LOOP)
    bins = np.random.default_rng(addresses).integers(0, addresses, 32).astype(np.int32)
    counts = np.bincount(bins)
    iterations, attempts = attempts_of_one_warp(bins.tolist())
    assert iterations == counts.max()
    assert attempts == (counts * (counts + 1) // 2).sum()
    args = {"bins": bins, "values": np.ones(32, np.int32), "out": np.zeros(32, np.int32)}
    found = pa.predict(pa.from_cuda(file, "retry"), pa.Launch(1, 32, args), GPU)
    most = max(int(c) * (int(c) + 1) // 2 for c in counts)
    assert found.diagnostics["atomics_on_one_address"] == most
