"""Snippets that between them make the compiler emit as many opcodes as we know how to ask for.

Generated: every operation on every type it takes, one kernel for each group.
"""

INTEGER = {
    "int": ["a + b", "a - b", "a * b", "a / b", "a % b", "a / 7", "a & b", "a | b", "a ^ b", "~a",
            "a << b", "a >> b", "a < b ? a : b", "max(a, b)", "min(a, b)", "abs(a)", "a * b + c",
            "max(a + b, c)", "min(a + b, c)", "max(a, max(b, c))", "min(a, min(b, c))",
            "__clz(a)", "__ffs(a)", "__popc(a)", "__brev(a)", "__mulhi(a, b)", "__mul24(a, b)",
            "__sad(a, b, c)", "__byte_perm(a, b, c)", "__funnelshift_l(a, b, c)",
            "__funnelshift_rc(a, b, c)", "__dp4a(a, b, c)", "__dp2a_lo(make_short2(a, b), "
            "make_char4(a, b, c, a), c)", "__vabsdiffu4(a, b)", "__vmaxs2(a, b)", "__vadd2(a, b)",
            "__vminu4(a, b)", "__viaddmax_s32(a, b, c)", "__vimax3_s32(a, b, c)",
            "__viaddmin_s16x2(a, b, c)", "__vimin_s32_relu(a, b)", "(signed char) a", "(short) b",
            "(a & 0xff) + (b >> 16 & 0x7f)", "a == b && b < c || c == 3", "a * 12345"],
    "unsigned": ["a / b", "a % b", "a / 10", "a >> b", "__umulhi(a, b)", "min(a, b)", "max(a, b)",
                 "__usad(a, b, c)", "__dp4a(a, b, c)", "__funnelshift_r(a, b, c)",
                 "__viaddmax_u32(a, b, c)", "__vimax3_u32(a, b, c)", "(unsigned char) (a + b)"],
    "long long": ["a + b", "a - b", "a * b", "a / b", "a % b", "a << 3", "a >> b", "a & b",
    "~a ^ b",
                  "a < b ? c : a", "min(a, b)", "max(a, b)", "llabs(a)", "__clzll(a)",
                  "__popcll(a)", "__brevll(a)", "__ffsll(a)", "__mul64hi(a, b)", "a * b + c"],
    "unsigned long long": ["a / b", "a % b", "a >> b", "__umul64hi(a, b)", "min(a, b)"],
}  # fmt: skip
FLOATS = {
    "float": ["a + b", "a - b", "a * b", "a / b", "a * b + c", "-a", "fabsf(a)", "fminf(a, b)",
              "fmaxf(a, fmaxf(b, c))", "sqrtf(a)", "rsqrtf(a)", "1.0f / a", "__fdividef(a, b)",
              "expf(a)", "exp2f(a)", "logf(a)", "log2f(a)", "sinf(a)", "cosf(a)", "tanf(a)",
              "tanhf(a)", "powf(a, b)", "__sinf(a)", "__expf(a)", "floorf(a)", "ceilf(a)",
              "truncf(a)", "rintf(a)", "roundf(a)", "fmodf(a, b)", "remainderf(a, b)", "erff(a)",
              "a < b ? c : a", "copysignf(a, b)", "isnan(a) ? b : c", "ldexpf(a, (int) b)",
              "(float) (int) a", "(float) (unsigned) a", "(float) (long long) a",
              "(float) (char) b",
              "(float) (double) a * 2.0", "__saturatef(a)", "cbrtf(a)", "hypotf(a, b)",
              "__int_as_float(__float_as_int(a) + 1)", "a > b", "(a > b) == (b > c)",
              "fdimf(a, b)"],
    "double": ["a + b", "a * b", "a / b", "a * b + c", "sqrt(a)", "rsqrt(a)", "fabs(a)",
    "fmin(a, b)",
               "fmax(a, b)", "exp(a)", "log(a)", "sin(a)", "cos(a)", "pow(a, b)", "floor(a)",
               "rint(a)", "fmod(a, b)", "a < b ? c : a", "(double) (int) a", "(double) (float) a",
               "(double) (long long) a", "(double) (unsigned) b", "tanh(a)", "erf(a)", "cbrt(a)",
               "__hiloint2double(__double2loint(a), __double2hiint(b))", "trunc(a)"],
}  # fmt: skip
HALVES = {
    "__half": ["__hadd(a, b)", "__hsub(a, b)", "__hmul(a, b)", "__hfma(a, b, c)", "__hneg(a)",
               "__habs(a)", "__hmax(a, b)", "__hmin(a, b)", "__hlt(a, b) ? a : c", "hexp(a)",
               "hlog2(a)", "hsqrt(a)", "hrcp(a)", "hsin(a)", "hfloor(a)", "hrint(a)",
               "__float2half(__half2float(a))", "__int2half_rn(__half2int_rn(a))",
               "__hadd_sat(a, b)"],
    "__half2": ["__hadd2(a, b)", "__hmul2(a, b)", "__hfma2(a, b, c)", "__hmax2(a, b)",
                "__hgt2(a, b)", "h2exp2(a)", "__hfma2_relu(a, b, c)", "__lowhigh2highlow(a)",
                "__floats2half2_rn(__low2float(a), __high2float(b))", "__hbgt2(a, b) ? a : c"],
    "__nv_bfloat16": ["__hadd(a, b)", "__hfma(a, b, c)", "__hmax(a, b)", "__hlt(a, b) ? a : c",
                      "__float2bfloat16(__bfloat162float(a) * 2.0f)", "hexp(a)", "__hmul(a, b)"],
    "__nv_bfloat162": ["__hadd2(a, b)", "__hfma2(a, b, c)", "__hmul2(a, b)", "__hmin2(a, b)",
                       "__floats2bfloat162_rn(__low2float(a), __high2float(b))"],
}  # fmt: skip
ATOMIC = [
    (t, f"{f}(&{p}[i & 63], ({t}) v)")
    for t, functions in {
        "int": "atomicAdd atomicSub atomicMin atomicMax atomicAnd atomicOr atomicXor atomicExch",
        "unsigned": "atomicInc atomicDec atomicAdd atomicMin atomicExch",
        "unsigned long long": "atomicAdd atomicMin atomicMax atomicAnd atomicExch",
        "float": "atomicAdd atomicExch",
        "double": "atomicAdd",
    }.items()
    for f in functions.split()
    for p in ("global", "shared")
]
WARP = [
    "__shfl_sync(~0u, v, 3)", "__shfl_up_sync(~0u, v, 1)", "__shfl_down_sync(~0u, v, 2)",
    "__shfl_xor_sync(~0u, v, 4)", "__ballot_sync(~0u, v > 3)", "__any_sync(~0u, v)",
    "__all_sync(~0u, v)", "__activemask()", "__syncthreads_count(v)", "__syncthreads_or(v)",
    "__syncthreads_and(v)", "(__syncwarp(), v)", "(__threadfence(), v)",
    "(__threadfence_block(), v)", "(__threadfence_system(), v)", "(int) clock()",
    "(int) clock64()", "(__nanosleep(20), v)", "(int) __isShared(out)", "(int) __isGlobal(out)",
    "__match_any_sync(~0u, v)", "__match_all_sync(~0u, v, &pred)",
    "(int) __cvta_generic_to_shared(s)",
    "__uni(v)",
]  # fmt: skip
NEW_WARP = ["__reduce_add_sync(~0u, v)", "__reduce_max_sync(~0u, v)", "__reduce_or_sync(~0u, v)"]
"""From sm_80 on."""
LOADS = [
    "__ldg(in + i)", "__ldcg(in + i)", "__ldcs(in + i)", "__ldlu(in + i)", "__ldcv(in + i)",
    "((const volatile int*) in)[i]", "((const char*) in)[i]", "((const short*) in)[i]",
    "((const int4*) in)[i].w", "((const long long*) in)[i]", "table[i & 7]", "local[i & 15]",
    "s[i & 63]", "(int) tex1Dfetch<float>(t, i)", "(int) tex2D<float>(t, x, x)",
    "(int) tex3D<float>(t, x, x, x)", "(int) tex2DLayered<float>(t, x, x, 1)",
    "(int) tex2DLod<float>(t, x, x, x)", "(int) tex2Dgather<float4>(t, x, x, 1).x",
    "(int) tex2DGrad<float>(t, x, x, make_float2(x, x), make_float2(x, x))",
    "surf2Dread<int>(f, i, 3)", "surf1Dread<int>(f, i)",
]  # fmt: skip
ASSEMBLY = {
    75: ['asm volatile("prefetch.global.L2 [%0];" :: "l"(in));',
         'asm volatile("red.global.add.s32 [%0], 3;" :: "l"(out));',
         'asm volatile("bar.arrive 1, 64;");', 'asm volatile("bar.sync 1, 64;");',
         'asm volatile("membar.sys;");', 'asm volatile("fence.acq_rel.gpu;");',
         'asm volatile("{ .reg .pred p; isspacep.global p, %0; @p trap; }" :: "l"(in));',
         'asm volatile("{ .reg .b32 r; mov.u32 r, %%smid; st.global.b32 [%0], r; }" :: "l"(out));',
         'asm volatile("{ .reg .b32 r; mov.u32 r, %%lanemask_lt; st.global.b32 [%0], r; }"'
         ' :: "l"(out));',
         'asm volatile("{ .reg .b64 r; mov.u64 r, %%globaltimer; st.global.b64 [%0], r; }"'
         ' :: "l"(out));', 'asm volatile("brkpt;");', 'asm volatile("pmevent 1;");',
         'asm volatile("{ .reg .b32 a<4>; ldmatrix.sync.aligned.m8n8.x4.shared.b16 '
         '{a0, a1, a2, a3}, [%0]; st.global.v4.b32 [%1], {a0, a1, a2, a3}; }"'
         ' :: "r"(v), "l"(out));'],
    80: ['asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(v), "l"(in));',
         'asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 0;");',
         'asm volatile("mbarrier.init.shared.b64 [%0], 4;" :: "r"(v));',
         'asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(v));',
         'asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(v));',
         'asm volatile("{ .reg .b64 p; createpolicy.fractional.L2::evict_last.b64 p, 1.0; '
         'prefetch.global.L2::evict_last [%0]; }" :: "l"(in));',
         'asm volatile("discard.global.L2 [%0], 128;" :: "l"(out));'],
    90: ['asm volatile("barrier.cluster.arrive;"); asm volatile("barrier.cluster.wait;");',
         'asm volatile("{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, 1; '
         'st.shared::cluster.b32 [r], r; }" :: "r"(v));',
         'asm volatile("{ .reg .b32 r; .reg .pred p; elect.sync r|p, 0xffffffff; @p st.global.b32 '
         '[%0], r; }" :: "l"(out));',
         'asm volatile("griddepcontrol.wait;"); asm volatile("griddepcontrol.launch_dependents;");',
         'asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(v));',
         'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], '
         '[%1], 128, [%0];" :: "r"(v), "l"(in));',
         'asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%1], [%0], 128;" :: "r"(v), '
         '"l"(out));',
         'asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%1], '
         '[%0], 128;"'
         ' :: "r"(v), "l"(out));',
         'asm volatile("cp.async.bulk.prefetch.L2.global [%0], 128;" :: "l"(in));',
         'asm volatile("cp.async.bulk.commit_group;"); asm '
         'volatile("cp.async.bulk.wait_group 0;");',
         'asm '
         'volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes '
         '[%0], [%1, {%0, %0}], [%0];" :: "r"(v), "l"(in));',
         'asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%0, '
         '%0}], [%0];"'
         ' :: "r"(v), "l"(out));',
         'asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group '
         '[%1, {%0, %0}], [%0];" :: "r"(v), "l"(out));',
         'asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%1, {%0, %0}];" :: "r"(v), '
         '"l"(in));',
         'asm volatile("fence.proxy.async;");',
         'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(in));',
         'asm volatile("prefetch.tensormap [%0];" :: "l"(in));',
         'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%0};" :: "r"(v));',
         'asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %0, [%0];"'
         ' :: "r"(v));',
         'asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @p trap; }"'
         ' :: "r"(v));',
         'asm volatile("{ .reg .b32 r; mov.u32 r, %%cluster_ctarank; st.global.b32 [%0], r; }"'
         ' :: "l"(out));'],
    100: ['asm volatile("{ .reg .b64 r; add.rn.f32x2 r, %1, %1; fma.rn.f32x2 r, r, r, %1; '
          'mul.rn.f32x2 r, r, r; st.global.b64 [%0], r; }" :: "l"(out), "l"(in));',
          'asm volatile("{ .reg .f32 r, q; ld.global.f32 q, [%1]; max.f32 r, q, 1.0, 0.5; '
          'st.global.f32 [%0], r; }" :: "l"(out), "l"(in));',
          'asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::'
          'bytes.b128 [%0], [%0];" :: "r"(v));'],
}  # fmt: skip
MATRIX = {
    75: ["m16n8k8.row.col.f16.f16.f16.f16:2:2:1:2:r"],
    80: ["m16n8k16.row.col.f32.f16.f16.f32:4:4:2:4:f",
    "m16n8k16.row.col.f32.bf16.bf16.f32:4:4:2:4:f",
         "m16n8k8.row.col.f32.tf32.tf32.f32:4:4:2:4:f", "m16n8k32.row.col.s32.s8.s8.s32:4:4:2:4:r",
         "m8n8k4.row.col.f64.f64.f64.f64:2:1:1:2:d",
         "m16n8k256.row.col.s32.b1.b1.s32.and.popc:4:4:2:4:r"],
    89: ["m16n8k32.row.col.f32.e4m3.e5m2.f32:4:4:2:4:f"],
}  # fmt: skip
_HEAD = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ __constant__ int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int __uni(int v) { return __shfl_sync(~0u, v, 0) * 3 + 1; }
__device__ int __isOdd(int v) { return v & 1; }
"""


def source(arch):
    """CUDA text with one kernel for each group, and the kernels' names."""
    number = int("".join(filter(str.isdigit, arch)))
    kernels = {}
    for groups in (INTEGER, FLOATS, HALVES):
        for dtype, expressions in groups.items():
            if number < 80 and "bfloat" in dtype:
                continue
            kernels[_named(dtype)] = _arithmetic(dtype, expressions)
    kernels["atomics"] = _memory(
        [
            f"{{ {t} r = {e}; out[n++ * 64 + i] = (int) r; }}".replace(
                "global[", f"(({t}*) out)["
            ).replace("&shared[", f"&(({t}*) s)[")
            for t, e in ATOMIC
        ]
    )
    words = WARP + (NEW_WARP if number >= 80 else [])
    kernels["warps"] = _memory([f"out[n++ * 64 + i] = {e};" for e in words])
    kernels["loads"] = _memory([f"out[n++ * 64 + i] = {e};" for e in LOADS])
    lines = [line for least, own in ASSEMBLY.items() if number >= least for line in own]
    kernels["assembly"] = _memory(lines)
    shapes = [s for least, own in MATRIX.items() if number >= least for s in own]
    kernels["matrices"] = _memory([_matrix(s) for s in shapes])
    text = "".join(body.replace("KERNEL", name) for name, body in kernels.items())
    return _HEAD + text, tuple(kernels)


def _named(dtype):
    return "on_" + dtype.strip("_").replace(" ", "_")


def _arithmetic(dtype, expressions):
    lines = "\n".join(f"    out[{n} * 64 + i] = {e};" for n, e in enumerate(expressions))
    uniform = "\n".join(f"    out[{n} * 64] = {e};" for n, e in enumerate(expressions))
    return f"""
extern "C" __global__ void KERNEL({dtype}* out, const {dtype}* in, {dtype} p, {dtype} q) {{
    int i = threadIdx.x;
    {{ {dtype} a = in[i], b = in[i + 64], c = in[i + 128];
{lines}
    }}
    {{ {dtype} a = p, b = q, c = p;  // the same for all threads: uniform registers
{uniform}
    }}
}}
"""


def _memory(lines):
    body = "\n".join(f"    {line}" for line in lines)
    return f"""
extern "C" __global__ void KERNEL(int* out, const int* in, cudaTextureObject_t t,
                                  cudaSurfaceObject_t f, float x) {{
    __shared__ long long s[64];
    int i = threadIdx.x, n = 0, v = in[i], pred = 0, local[16];
    for (int k = 0; k < 16; k++) local[k] = in[k * v];
    s[i & 63] = v + local[i & 15];
{body}
    out[i] = pred;
}}
"""


def _matrix(shape):
    """``shape:d:a:b:c:type``: an ``mma`` with so many registers in each operand."""
    name, d, a, b, c, kind = shape.split(":")
    wide = {"d": "double", "f": "float", "r": "int"}[kind]
    first = int(d)
    lists, at = [], 0
    for count in (d, a, b, c):
        names = ", ".join(f"%{at + k}" for k in range(int(count)))
        lists.append(f"{{{names}}}")
        at += int(count)
    outs = ", ".join(f'"={kind}"(r[{k}])' for k in range(first))
    inner = "d" if kind == "d" else "r"
    given = "((const double*) in)[i]" if kind == "d" else "v"
    into = [f'"{inner}"({given})'] * (int(a) + int(b))
    into += [f'"{kind}"(({wide}) v)'] * int(c)
    operation = f"mma.sync.aligned.{name}"
    return (f'{{ {wide} r[4]; asm volatile("{operation} {", ".join(lists)};" : {outs} : '
            f'{", ".join(into)}); for (int k = 0; k < {first}; k++) out[n++ * 64 + i] = '
            "(int) r[k]; }")  # fmt: skip
