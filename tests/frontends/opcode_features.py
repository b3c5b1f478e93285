"""Inline PTX for what ``sm_90a``, ``sm_100a``, ``sm_103a`` and ``sm_120a`` have: bulk copies and
their barriers, warp-group and fifth-generation matrix instructions, tensor memory, block scales.

Shapes and operands are those of NVIDIA's PTX ISA. ``%0`` is an integer, ``%1`` a pointer, ``%2`` a
float, ``%3`` a descriptor. Stores are volatile, so that none makes another one dead.
"""

BARRIERS = [
    "mbarrier.inval.shared.b64 [%0];",
    "{ .reg .b64 t; mbarrier.arrive.noComplete.shared.b64 t, [%0], 2; }",
    "{ .reg .b64 t; mbarrier.arrive_drop.shared.b64 t, [%0]; }",
    "mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], 64;",
    "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 64;",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];",
    "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%0], 1; @p trap; }",
    "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared.b64 p, [%0], 1, 100; "
    "@p trap; }",
    "fence.mbarrier_init.release.cluster;",
    "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 "
    "[%0], %0, [%0];",
]
COPIES = [
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%0], 64, [%0];",
    "{ .reg .b16 m; cvt.u16.u32 m, %0; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
    "::bytes.multicast::cluster [%0], [%1], 64, [%0], m; }",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%0], [%1, {%0}], [%0];",
    "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%0], [%1, {%0, %0, %0, %0, %0}], [%0];",
    "{ .reg .b16 o; cvt.u16.u32 o, %0; cp.async.bulk.tensor.3d.shared::cluster.global.im2col."
    "mbarrier::complete_tx::bytes [%0], [%1, {%0, %0, %0}], [%0], {o}; }",
    "{ .reg .b16 m; cvt.u16.u32 m, %0; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
    "complete_tx::bytes.multicast::cluster [%0], [%1, {%0, %0}], [%0], m; }",
    "cp.async.bulk.wait_group.read 1;",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%1], %3;",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%1], [%0], 128;",
    "{ .reg .b32 r; multimem.ld_reduce.relaxed.sys.global.add.u32 r, [%1]; "
    "multimem.st.relaxed.sys.global.u32 [%1], r; "
    "multimem.red.relaxed.sys.global.add.u32 [%1], r; }",
]
REGISTERS = ["setmaxnreg.inc.sync.aligned.u32 200;", "setmaxnreg.dec.sync.aligned.u32 64;"]


def _group(shape, count, kind="f", more=", 1, 1"):
    """A warp-group product with operands in shared memory."""
    sums = ", ".join(f"d{i}" for i in range(count))
    zeros = " ".join(f"mov.{kind}32 d{i}, {'%2' if kind == 'f' else '%0'};" for i in range(count))
    stored = f"st.volatile.global.{kind}32 [%1], d0;"
    return (
        f"{{ .reg .{kind}32 d<{count}>; .reg .pred p; setp.ne.b32 p, %0, 0; {zeros} "
        f"wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.{shape} {{{sums}}}, %3, %3, "
        f"p{more}; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; {stored} }}"
    )


WARP_GROUPS = [
    _group("m64n8k16.f32.f16.f16", 4, more=", 1, 1, 0, 0"),
    _group("m64n16k16.f32.bf16.bf16", 8, more=", 1, -1, 0, 1"),
    _group("m64n8k16.f16.f16.f16", 2, "b", ", 1, 1, 0, 0"),
    _group("m64n8k8.f32.tf32.tf32", 4),
    _group("m64n8k32.f32.e4m3.e5m2", 4),
    _group("m64n8k32.s32.s8.u8", 4, "b", ""),
    _group("m64n8k256.s32.b1.b1.and.popc", 4, "b", ""),
    _group("m64n8k16.f32.f16.f16", 4, more=", 1, 1, 0").replace(
        "}, %3, %3", "}, {%0, %0, %0, %0}, %3"
    ),
    "{ .reg .f32 d<4>; .reg .pred p; setp.ne.b32 p, %0, 0; mov.f32 d0, %2; mov.f32 d1, %2; "
    "mov.f32 d2, %2; mov.f32 d3, %2; wgmma.fence.sync.aligned; wgmma.mma_async.sp.sync.aligned."
    "m64n8k32.f32.f16.f16 {d0, d1, d2, d3}, %3, %3, %0, 0, p, 1, 1, 0, 0; "
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
    "st.volatile.global.f32 [%1], d0; }",
]


def _tensor(group):
    """Tensor memory, its loads, copies and products, for one or two blocks."""
    mma = f"tcgen05.mma.cta_group::{group}"
    scaled = f"{mma}.kind::{{}}.block_scale{{}} [%0], %3, %3, %0, [%0], [%0], p;"
    kinds = [f"{mma}.kind::{k} [%0], %3, %3, %0, p;" for k in ("f16", "tf32", "f8f6f4", "i8")]
    kinds += [f"{mma}.kind::f16 [%0], [%0], %3, %0, p;"]
    kinds += [scaled.format("mxf8f6f4", ".scale_vec::1X"), scaled.format("mxf4", ".scale_vec::2X")]
    kinds += [scaled.format("mxf4nvf4", ".scale_vec::4X")]
    kinds += ["tcgen05.mma.ws.cta_group::1.kind::f16 [%0], %3, %3, %0, p;"] if group == 1 else []
    copies = ("128x256b", "4x256b", "128x128b", "32x128b.warpx4", "64x128b.warpx2::02_13")
    return [
        f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%0], 32;",
        f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;",
        *(f"{{ .reg .pred p; setp.ne.b32 p, %0, 0; {kind} }}" for kind in kinds),
        *(f"tcgen05.cp.cta_group::{group}.{shape} [%0], %3;" for shape in copies),
        f"tcgen05.cp.cta_group::{group}.128x256b.b8x16.b4x16_p64 [%0], %3;",
        f"tcgen05.shift.cta_group::{group}.down [%0];",
        f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [%0];",
        f"{{ .reg .b16 m; cvt.u16.u32 m, %0; tcgen05.commit.cta_group::{group}.mbarrier::arrive::"
        "one.shared::cluster.multicast::cluster.b64 [%0], m; }",
        "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;",
        "{ .reg .b32 r<4>; tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [%0]; "
        "tcgen05.ld.sync.aligned.16x256b.x1.b32 {r0, r1, r2, r3}, [%0]; "
        "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {r2, r3}, [%0], 8; "
        "tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {r1, r2}, [%0]; "
        "tcgen05.wait::ld.sync.aligned; st.volatile.global.v4.b32 [%1], {r0, r1, r2, r3}; }",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%0}; "
        "tcgen05.st.sync.aligned.16x128b.x1.unpack::16b.b32 [%0], {%0, %0}; "
        "tcgen05.wait::st.sync.aligned;",
        f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %0, 32;",
    ]  # fmt: skip


NARROW = [
    "{ .reg .b8 n; .reg .b32 r; cvt.rn.satfinite.e2m1x2.f32 n, %2, %2; cvt.u32.u8 r, n; "
    "st.volatile.global.b32 [%1], r; }",
    "{ .reg .b16 n; cvt.rn.satfinite.e3m2x2.f32 n, %2, %2; st.volatile.global.b16 [%1], n; }",
    "{ .reg .b16 n; cvt.rn.satfinite.e2m3x2.f32 n, %2, %2; st.volatile.global.b16 [%1], n; }",
    "{ .reg .b16 n; cvt.rp.satfinite.ue8m0x2.f32 n, %2, %2; st.volatile.global.b16 [%1], n; }",
    "{ .reg .b16 n; .reg .b32 r; cvt.u16.u32 n, %0; cvt.rn.f16x2.e3m2x2 r, n; "
    "st.volatile.global.b32 [%1], r; }",
    "{ .reg .b16 n; .reg .b32 r; cvt.u16.u32 n, %0; cvt.rn.bf16x2.ue8m0x2 r, n; "
    "st.volatile.global.b32 [%1], r; }",
]
HUNDRED = [
    "{ .reg .f32 r; redux.sync.min.f32 r, %2, 0xffffffff; st.volatile.global.f32 [%1], r; }",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
    "[%0], [%1, {%0, %0, %0, %0, %0}], [%0];",
    "{ .reg .b32 a<2>; ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b6x16_p32 {a0, a1}, [%0]; "
    "st.volatile.global.v2.b32 [%1], {a0, a1}; }",
    "{ .reg .b32 a<2>; ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {a0, a1}, [%0]; "
    "st.volatile.global.v2.b32 [%1], {a0, a1}; "
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%0], {a0}; }",
]


def _product(shape, scale=""):
    """A product of one warp with narrow types; four sums, four and two words of operands."""
    return (
        "{ .reg .f32 d<4>; .reg .b16 z; mov.b16 z, 0; "
        f"mma.sync.aligned.{shape} {{d0, d1, d2, d3}}, {{%0, %0, %0, %0}}, {{%0, %0}}, "
        f"{{%2, %2, %2, %2}}{scale}; st.volatile.global.v4.f32 [%1], {{d0, d1, d2, d3}}; }}"
    )


_SCALES = ", {%0}, {z, z}, {%0}, {z, z}"
SCALED = [
    _product("kind::f8f6f4.m16n8k32.row.col.f32.e3m2.e2m3.f32"),
    _product("kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e4m3.f32"),
    _product(
        "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0", _SCALES
    ),
    _product(
        "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0", _SCALES
    ),
    _product(
        "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3", _SCALES
    ),
]
GROUPS = {
    "sm_90a": {"bulk": BARRIERS + COPIES, "warp_groups": WARP_GROUPS, "resized": REGISTERS},
    "sm_100a": {
        "bulk": BARRIERS + COPIES, "tensor": _tensor(1), "tensor_of_two": _tensor(2),
        "resized": REGISTERS, "narrow": NARROW + HUNDRED,
    },
    "sm_120a": {
        "bulk": BARRIERS + COPIES, "resized": REGISTERS, "narrow": NARROW + HUNDRED[2:],
        "scaled": SCALED,
    },
}  # fmt: skip
GROUPS["sm_103a"] = {
    name: [line for line in lines if "kind::i8" not in line]
    for name, lines in GROUPS["sm_100a"].items()
}
_BULK = "UBLKCP UTMALDG SYNCS USETMAXREG"
_TENSOR = f"{_BULK} UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCCP UTCSHIFT UTCBAR LDTM STTM CREDUX"
ASKED_FOR = {
    "sm_90a": f"{_BULK} HGMMA QGMMA IGMMA BGMMA WARPGROUP",
    "sm_100a": _TENSOR,
    "sm_103a": _TENSOR.replace("UTCIMMA", ""),
    "sm_120a": f"{_BULK} QMMA OMMA",
}  # fmt: skip
"""Opcodes that must come out, or the snippets ask for something else."""


def source(arch):
    """CUDA text with one kernel for each group, and the kernels' names."""
    groups = GROUPS[arch]
    return "".join(map(_kernel, groups, groups.values())), tuple(groups)


def _kernel(name, lines):
    given = ':: "r"(v), "l"(out), "f"(x), "l"(d) : "memory"'
    body = "\n".join(f'    asm volatile("{line}" {given});' for line in lines)
    return f"""
extern "C" __global__ void __launch_bounds__(128, 1)
{name}(int* out, int v, float x, long long d) {{
{body}
}}
"""
