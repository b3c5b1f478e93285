"""Atomics on global memory by kind and pattern, and retry loops, against closed forms."""

import numpy as np
import pytest

import perfassert as pa

BODIES = {
    "integer": ("int", "atomicAdd(place, i)"),
    "float": ("float", "atomicAdd(place, 1.5f)"),
    "double": ("double", "atomicAdd(place, 1.5)"),
    "increment": ("unsigned", "atomicInc(place, 17)"),
    "wide": ("unsigned long long", "atomicAdd(place, (unsigned long long)i)"),
    "result": ("float", "if (atomicAdd(place, 1.5f) == 3) place[1] = 0"),
    "exchange": ("int", "if (atomicExch(place, i) == 3) place[1] = 0"),
    "maximum": ("int", "atomicMax(out + 1, i); atomicInc((unsigned*)place, 17)"),
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
    assert "counts as an integer addition on one address" in found.confidence_reasons[0].text


@pytest.mark.parametrize("share", [1, 32])
@pytest.mark.parametrize("name", ["integer", "float", "double"])
def test_different_addresses_have_a_rate_of_the_whole_l2(added, name, share):
    gpu = pa.device(GPU).replace(l2_atomic_lane_cycles=0.5)
    one = gpu.l2_atomic_cycles if name == "integer" else gpu.l2_update_cycles
    cycles = N * 0.5 if share == 1 else share * one  # lanes that contend have no known rate
    bound = added(name, share, gpu).bounds["atomics"]
    assert float(bound) == pytest.approx(cycles / gpu.clock_hz, rel=1e-6)


def test_doubles_in_sectors_of_their_own_were_not_measured(tmp_path):
    (file := tmp_path / "stride.cu").write_text(
        'extern "C" __global__ void add(double* sums, int stride) {\n'
        "    atomicAdd(sums + stride * (blockIdx.x * blockDim.x + threadIdx.x), 1.0);\n}\n"
    )
    dense, apart = (
        pa.predict(pa.from_cuda(file, "add"), pa.Launch(4096, 256, {"stride": s}), GPU)
        for s in (1, 4)
    )
    assert dense.confidence != "guessed"
    assert apart.confidence == "guessed"


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


def test_few_lines_have_no_known_rate(tmp_path):
    """All warps add to the same 32 numbers, which lie in one line, or to 512."""
    (file := tmp_path / "few.cu").write_text(
        'extern "C" __global__ void add(int* sums, int distinct) {\n'
        "    atomicAdd(sums + (blockIdx.x * blockDim.x + threadIdx.x) % distinct, 1);\n}\n"
    )
    few, many = (
        pa.predict(pa.from_cuda(file, "add"), pa.Launch(4096, 256, {"distinct": n}), GPU)
        for n in (32, 512)
    )
    assert few.confidence == "guessed"
    assert many.confidence != "guessed"
