"""Chains of matrix instructions, each of which waits for the one before: cycles as published.

``PERFASSERT_EXHAUSTIVE`` runs all rows; else one of each unit.
"""

import os

import pytest
from test_matrix_rates import TRIPS, UNROLLED, synchronous

import perfassert as pa
from perfassert.hardware.matrix import MatrixVariant

EXHAUSTIVE = bool(os.environ.get("PERFASSERT_EXHAUSTIVE"))
# Cycles of one mma.sync in a chain of one warp. A100: arXiv 2206.02874, table 3; H100: raw logs of
# Johnsonms/NVIDIA-Hopper-Benchmark @374a9f1; RTX 3090: 0xD0GF00D/DocumentSASS (sm_86); RTX 5090:
# SASS studies of sm_120, plain and block-scaled; B200: as measured on a B300
ONE_WARP = {
    ("A100-SXM4-40GB", "f16.f32"): 24.7,
    ("A100-SXM4-40GB", "f16.f16"): 24.4,
    ("A100-SXM4-40GB", "tf32.f32"): 25.0,
    ("A100-SXM4-40GB", "s8.s32"): 24.7,
    ("A100-SXM4-40GB", "s4.s32"): 26.1,
    ("A100-SXM4-40GB", "b1.s32"): 26.0,
    ("H100-SXM5-80GB", "f16.f32"): 24.09,
    ("H100-SXM5-80GB", "tf32.f32"): 24.1,
    ("H100-SXM5-80GB", "s8.s32"): 24.05,
    ("RTX-3090", "f16.f16"): 24.0,
    ("RTX-3090", "f16.f32"): 33.5,
    ("RTX-3090", "f64.f64"): 38.5,
    ("RTX-5090", "f16.f32"): 35.0,
    ("RTX-5090", "e4m3.f32"): 34.7,
    ("RTX-5090", "mxf8.f32"): 29.0,
    ("RTX-5090", "mxf4.f32"): 29.0,
    ("B200", "f16.f32"): 20.09,
}
# arXiv 2501.12084, table 9, H800: cycles of one wgmma in a chain; A in shared memory, in registers
GROUP = {256: (128, 128), 128: (64, 64), 64: (32, 32), 32: (24, 16), 16: (20, 13), 8: (18, 13)}
# SemiAnalysisAI/microbench-blackwell @9a068d8: from the issue of one tcgen05.mma and its commit to
# the end of the wait, by m and n, both operands in shared memory
ROUND_TRIP = {(128, 64): 168, (128, 128): 200, (128, 256): 264, (64, 64): 152, (64, 128): 184}
OF_THE_LOOP = 50
"""Cycles of what else is in our loop: moves to uniform registers, a compare, branches."""


def predicted(folder, source, threads, device):
    pytest.importorskip("nvidia.cu13")
    (file := folder / "multiply.cu").write_text(source)
    launch = pa.Launch(device.compute_units, threads, args={"seed": 1})
    return pa.predict(pa.from_cuda(file), launch, device)


@pytest.mark.parametrize(
    ("name", "types"),
    ONE_WARP if EXHAUSTIVE else [("A100-SXM4-40GB", "b1.s32"), ("RTX-5090", "mxf8.f32")],
)
def test_one_warp_waits_as_long_as_measured(tmp_path, name, types):
    device = pa.device(name)
    variant, source = synchronous(device, types, 1)
    found = predicted(tmp_path, source, 32, device)
    count = source.count("mma.sync") * TRIPS
    assert float(found.cycles) / count == pytest.approx(ONE_WARP[name, types], rel=0.06)
    chain = device.operation(variant.name).completion
    assert float(found.cycles) / count == pytest.approx(chain, rel=0.02)
    assert found.confidence != "guessed"


def group(n, shared):
    """``wgmma`` of 64 × ``n`` × 16, all into the same accumulators."""
    count = n // 2
    places = ", ".join(f"%{i}" for i in range(count))
    first = f"%{count}" if shared else "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
    second = f"%{count + (1 if shared else 4)}"
    said = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{places}}}, {first}, {second}, "
    said += "1, 1, 1, 0, 0;" if shared else "1, 1, 1, 0;"
    outputs = ", ".join(f'"+f"(c[{i}])' for i in range(count))
    inputs = '"l"(matrix)' if shared else ", ".join(f'"r"(in[{i}])' for i in range(4))
    body = f'asm volatile("{said}" : {outputs} : {inputs}, "l"(matrix));\n' * UNROLLED
    return f"""extern "C" __global__ void multiply(float* out, unsigned seed) {{
        __shared__ __align__(1024) unsigned char tile[16384];
        unsigned long long matrix = (unsigned)__cvta_generic_to_shared(tile) >> 4 | 1ull << 62;
        unsigned in[4] = {{seed, seed + 1, seed + 2, seed + 3}};
        float c[{count}] = {{}};
        asm volatile("wgmma.fence.sync.aligned;");
        #pragma unroll 1
        for (int n = 0; n < {TRIPS}; n++) {{ {body}
            asm volatile("wgmma.commit_group.sync.aligned;"); }}
        asm volatile("wgmma.wait_group.sync.aligned 0;");
        float sum = {"in[0] + in[1] + in[2] + in[3]" if shared else "0"};
        for (int i = 0; i < {count}; i++) sum += c[i];
        out[threadIdx.x] = sum;
    }}"""


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n", GROUP if EXHAUSTIVE else [32])
def test_a_warp_group_goes_on_without_a_gap(tmp_path, n, shared):
    device = pa.device("h100")
    found = predicted(tmp_path, group(n, shared), 128, device)
    measured = GROUP[n][0 if shared else 1]
    assert float(found.cycles) / (UNROLLED * TRIPS) == pytest.approx(measured, rel=0.02)


def round_trip(m, n):
    """Return a kernel with one thread: a product, its commit, and the wait for it, repeated."""
    bits = 1 << 4 | n // 8 << 17 | m // 16 << 24
    mma = "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, add;"
    return f"""extern "C" __global__ void multiply(unsigned* out, unsigned seed) {{
        __shared__ __align__(1024) unsigned char tile[65536 / 2];
        __shared__ unsigned memory;
        __shared__ alignas(8) unsigned long long done;
        const unsigned barrier = (unsigned)__cvta_generic_to_shared(&done);
        if (threadIdx.x < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned"
            ".shared::cta.b32 [%0], 256;" :: "r"((unsigned)__cvta_generic_to_shared(&memory)));
        if (threadIdx.x == 0)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier));
        __syncthreads();
        unsigned long long matrix = (unsigned)__cvta_generic_to_shared(tile) >> 4 | 1ull << 46;
        const unsigned sums = memory;
        if (threadIdx.x == 0) {{
            #pragma unroll 1
            for (int n = 0; n < {TRIPS}; n++) {{
                asm volatile("{{.reg .pred add; setp.ne.u32 add, 1, 0; {mma}}}"
                             :: "r"(sums), "l"(matrix), "r"({bits}u));
                asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one"
                             ".shared::cluster.b64 [%0];" :: "r"(barrier));
                asm volatile("{{\\n.reg .pred done;\\nagain:\\n"
                    "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"
                    "@!done bra again;\\n}}" :: "r"(barrier), "r"(n & 1));
            }}
        }}
        out[threadIdx.x] = memory;
    }}"""


@pytest.mark.parametrize(("m", "n"), ROUND_TRIP if EXHAUSTIVE else [(128, 256)])
def test_a_product_of_one_thread_is_seen_complete(tmp_path, m, n):
    device = pa.device("b200")
    found = predicted(tmp_path, round_trip(m, n), 128, device)
    rest = float(found.cycles) / TRIPS - ROUND_TRIP[m, n]
    assert OF_THE_LOOP <= rest <= OF_THE_LOOP + 0.1 * ROUND_TRIP[m, n]


@pytest.mark.parametrize(("chains", "warps"), [(1, 1), (4, 8)])
def test_volta_by_hand(chains, warps):
    """No compiler of today makes its code: steps of HMMA.884, in a chain and at the full rate."""
    device = pa.device("v100-pcie-32gb")
    g = pa.InstructionGraph.builder()
    with g.loop(1000) as body:
        for i in range(chains):
            g.op("tensor.m8n8k4.f16.f32", body.carried(f"sum{i}"), name=f"sum{i}")
    kernel = pa.Kernel.from_graph("multiply", g.build())
    found = pa.predict(kernel, pa.Launch(device.compute_units, 32 * warps), device)
    step = MatrixVariant.from_name("tensor.m8n8k4.f16.f32").multiply_adds
    rate = device.matrix["tensor.f16.f32"]
    chain = device.operation("tensor").completion
    cycles = max(1000 * chain, 1000 * chains * warps * step / rate)
    assert float(found.cycles) == pytest.approx(cycles, rel=0.02)
