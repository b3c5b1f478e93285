"""Kernels of matrix instructions alone, on every device that has a rate: they reach it within 2 %.

``PERFASSERT_EXHAUSTIVE`` runs all devices and types; else one of each unit.
"""

import os

import pytest

import perfassert as pa
from perfassert.hardware.load import devices
from perfassert.hardware.matrix import BITS, MatrixVariant

UNROLLED, TRIPS = 32, 100
TIMES = 2  # as many of what one warp issues: the loop's end is not hidden in its last warp
EXHAUSTIVE = bool(os.environ.get("PERFASSERT_EXHAUSTIVE"))
# PTX: what stands behind mma.sync.aligned, registers of A, B and of the accumulator
SYNC = {
    "f16.f16": ("m16n8k16", "m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2),
    "f16.f32": ("m16n8k16", "m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4),
    "bf16.f32": ("m16n8k16", "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4),
    "tf32.f32": ("m16n8k8", "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4),
    "s8.s32": ("m16n8k32", "m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4),
    "s4.s32": ("m16n8k64", "m16n8k64.row.col.s32.s4.s4.s32", 4, 2, 4),
    "b1.s32": ("m16n8k256", "m16n8k256.row.col.s32.b1.b1.s32.and.popc", 4, 2, 4),
    "e4m3.f16": ("m16n8k32", "m16n8k32.row.col.f16.e4m3.e4m3.f16", 4, 2, 2),
    "e4m3.f32": ("m16n8k32", "m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 4),
    "f64.f64": ("m8n8k4", "m8n8k4.row.col.f64.f64.f64.f64", 1, 1, 2),
    "mxf8.f32": ("m16n8k32", "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col"
                 ".f32.e4m3.e4m3.f32.ue8m0", 4, 2, 4),
    "mxf4.f32": ("m16n8k64", "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col"
                 ".f32.e2m1.e2m1.f32.ue8m0", 4, 2, 4),
}  # fmt: skip
ACCUMULATORS = {"f32": ("f", "float"), "f64": ("d", "double")}
TURING = {
    "f16.f16": ("m16n8k8", "m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2),
    "f16.f32": ("m16n8k8", "m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4),
    "s8.s32": ("m8n8k16", "m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2),
    "s4.s32": ("m8n8k32", "m8n8k32.row.col.s32.s4.s4.s32", 1, 1, 2),
}
WGMMA = {"f16": "f16.f16", "bf16": "bf16.bf16", "tf32": "tf32.tf32", "e4m3": "e4m3.e4m3",
         "s8": "s8.s8"}  # fmt: skip
"""Types of A and B, by the name of the input."""
KINDS = {"f16": ("f16", 0), "bf16": ("f16", 1), "tf32": ("tf32", 2), "e4m3": ("f8f6f4", 0),
         "s8": ("i8", 1), "mxf8": ("mxf8f6f4.block_scale.scale_vec::1X", 0),
         "mxf4": ("mxf4.block_scale.scale_vec::2X", 1)}  # fmt: skip
"""Kind of ``tcgen05.mma`` and format of its descriptor, by input."""
NO_UNIT = {"sm_61", "sm_75"}
"""Where products of doubles are single instructions of FP64."""
EMULATED = {
    (arch, f"{kind}.s32") for arch in ("sm_90", "sm_100", "sm_120") for kind in ("s4", "b1")
}
EMULATED |= {
    ("sm_90", "e4m3.f32"),
    ("sm_100", "e4m3.f32"),
    ("sm_90", "e4m3.f16"),
    ("sm_100", "e4m3.f16"),
}
"""Types that ``mma.sync`` has, and no instruction of the machine."""
GONE = {("wgmma", "sm_100"), ("wgmma", "sm_120")}
"""Files of Blackwell extend Hopper's; what these say of ``wgmma`` no code can use."""


def rates():
    """(device, unit, types) of each rate that a shipped file has."""
    for device in map(pa.device, devices()):
        for key in device.matrix:
            unit, _, types = key.partition(".")
            known = TURING if device.arch == "sm_75" else SYNC
            if device.arch == "sm_70" or (unit, device.arch) in GONE:
                continue  # Volta: no compiler of today
            if unit == "tensor" and (types not in known or (device.arch, types) in EMULATED):
                continue
            yield device.name, unit, types


ALL = sorted(rates())
FEW = [("RTX-2080-Ti", "tensor", "f16.f16"), ("H100-SXM5-80GB", "wgmma", "e4m3.f32"),
       ("B200", "tensor", "f16.f32"), ("B200", "tcgen05", "bf16.f32")]  # fmt: skip


def registers(count, first=0):
    return ", ".join(f"%{i}" for i in range(first, first + count))


def synchronous(device, types, chains):
    """Chains of ``mma.sync`` in every warp, its variant and its source."""
    shape, said, a, b, c = (TURING if device.arch == "sm_75" else SYNC)[types]
    kind, one = ACCUMULATORS.get(types.partition(".")[2], ("r", "unsigned"))
    held, each = (kind, one) if kind == "d" else ("r", "unsigned")
    scales = ", {%99}, {0, 0}, {%99}, {0, 0}".replace("99", str(a + b + c)) if "mx" in types else ""
    parts = ", ".join(f"{{{registers(n, at)}}}" for n, at in ((c, 0), (a, c), (b, a + c), (c, 0)))
    inputs = ", ".join(f'"{held}"(in[{i}])' for i in range(a + b))
    inputs += ', "r"(seed)' if scales else ""
    body = ""
    for j in [*range(chains)] * (TIMES * UNROLLED // chains):
        outputs = ", ".join(f'"+{kind}"(c[{j}][{i}])' for i in range(c))
        body += (
            f'asm volatile("mma.sync.aligned.{said} {parts}{scales};" : {outputs} : {inputs});\n'
        )
    source = f"""extern "C" __global__ void multiply({one}* out, unsigned seed) {{
        {each} in[{a + b}];
        for (int i = 0; i < {a + b}; i++) in[i] = seed + i;
        {one} c[{chains}][{c}] = {{}};
        #pragma unroll 1
        for (int n = 0; n < {TRIPS}; n++) {{ {body} }}
        {one} sum = 0;
        for (int j = 0; j < {chains}; j++) for (int i = 0; i < {c}; i++) sum += c[j][i];
        out[threadIdx.x] = sum;
    }}"""
    return MatrixVariant.from_name(f"tensor.{shape}.{types}"), source


def of_a_group(types):
    """``wgmma`` of 64 × 256, A in registers, one after the other into the same accumulator."""
    kind, _, accumulator = types.partition(".")
    k = 256 // BITS[kind]
    variant = MatrixVariant.from_name(f"wgmma.m64n256k{k}.{types}")
    count = 64 if accumulator == "f16" else 128
    flag, one = ("f", "float") if accumulator == "f32" else ("r", "unsigned")
    scales = "" if kind == "s8" else ", 1, 1, 0" if kind in ("f16", "bf16") else ", 1, 1"
    said = f"wgmma.mma_async.sync.aligned.m64n256k{k}.{accumulator}.{WGMMA[kind]} "
    said += f"{{{registers(count)}}}, {{{registers(4, count)}}}, %{count + 4}, 1{scales};"
    outputs = ", ".join(f'"+{flag}"(c[{i}])' for i in range(count))
    inputs = ", ".join(f'"r"(in[{i}])' for i in range(4))
    body = f'asm volatile("{said}" : {outputs} : {inputs}, "l"(matrix));\n' * UNROLLED
    return (
        variant,
        f"""extern "C" __global__ void multiply({one}* out, unsigned seed) {{
        __shared__ __align__(1024) unsigned char tile[32768];
        unsigned long long matrix = (unsigned)__cvta_generic_to_shared(tile) >> 4 | 1ull << 62;
        unsigned in[4] = {{seed, seed + 1, seed + 2, seed + 3}};
        {one} c[{count}] = {{}};
        asm volatile("wgmma.fence.sync.aligned;");
        #pragma unroll 1
        for (int n = 0; n < {TRIPS}; n++) {{ {body}
            asm volatile("wgmma.commit_group.sync.aligned;"); }}
        asm volatile("wgmma.wait_group.sync.aligned 0;");
        {one} sum = 0;
        for (int i = 0; i < {count}; i++) sum += c[i];
        out[threadIdx.x] = sum;
    }}""",
    )


def of_one_thread(types):
    """``tcgen05.mma`` of 128 × 256, both operands in shared memory."""
    kind, _, accumulator = types.partition(".")
    said, form = KINDS[kind]
    k = 256 // BITS[kind]
    variant = MatrixVariant.from_name(f"tcgen05.m128n256k{k}.{types}.ss")
    sums = 0 if "mx" in kind else {"f32": 1, "f16": 0, "s32": 2}[accumulator]
    bits = sums << 4 | form << 7 | form << 10 | 256 // 8 << 17 | 128 // 16 << 24
    scales = " [%0], [%0]," if "mx" in kind else ""
    mma = f"tcgen05.mma.cta_group::1.kind::{said} [%0], %1, %1, %2,{scales} add;"
    body = (
        f'asm volatile("{{.reg .pred add; setp.ne.u32 add, 1, 0; {mma}}}"'
        f' :: "r"(memory), "l"(matrix), "r"({bits}u));\n'
    ) * UNROLLED
    return (
        variant,
        f"""extern "C" __global__ void multiply(unsigned* out, unsigned seed) {{
        __shared__ __align__(1024) unsigned char tile[65536 / 2];
        __shared__ unsigned memory;
        if (threadIdx.x < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned"
            ".shared::cta.b32 [%0], 256;" :: "r"((unsigned)__cvta_generic_to_shared(&memory)));
        __syncthreads();
        unsigned long long matrix = (unsigned)__cvta_generic_to_shared(tile) >> 4 | 1ull << 46;
        if (threadIdx.x == 0) {{
            #pragma unroll 1
            for (int n = 0; n < {TRIPS}; n++) {{ {body} }}
        }}
        out[threadIdx.x] = memory;
    }}""",
    )


def made(device, unit, types, chains=4):
    if unit == "tensor":
        return synchronous(device, types, chains)
    return of_a_group(types) if unit == "wgmma" else of_one_thread(types)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(("name", "unit", "types"), ALL if EXHAUSTIVE else FEW)
def test_products_alone_reach_the_documented_rate(tmp_path, name, unit, types):
    pytest.importorskip("nvidia.cu13")
    device = pa.device(name)
    variant, source = made(device, unit, types)
    (file := tmp_path / "multiply.cu").write_text(source)
    warps = 4 if unit != "tensor" else 16 if types == "f64.f64" else 8  # of Λ = 64, and few chains
    groups = TIMES * warps if unit == "tensor" else 1
    launch = pa.Launch(device.compute_units, 32 * warps, args={"seed": 1})
    found = pa.predict(pa.from_cuda(file), launch, device)
    rate = device.matrix[f"{unit}.{types}"]
    cycles = groups * UNROLLED * TRIPS * variant.multiply_adds / rate
    assert float(found.cycles) == pytest.approx(cycles, rel=0.02)
    assert found.confidence != "guessed"
