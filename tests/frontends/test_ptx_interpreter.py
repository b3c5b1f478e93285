"""The oracle itself: small PTX with results known by hand."""

from __future__ import annotations

import pytest
from ptx_interpreter import WINDOWS, Memory, decode, encode, shared_layout, trace

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<8>; .reg .b16 %rs<8>; .reg .b32 %r<32>; .reg .f32 %f<16>;
    .reg .b64 %rd<16>; .reg .f64 %fd<8>;
"""


def kernel(body, parameters=".param .u64 out", module=""):
    return f"{HEADER}{module}\n.visible .entry k({parameters})\n{{{REGISTERS}{body}\n}}\n"


def results(body, kind="u32", count=1, block=1, module="", memory=None, **limits):
    """What a kernel leaves at its pointer argument 0x1000."""
    memory = memory or Memory()
    trace(kernel(body, module=module), "k", [0x1000], 1, block, memory=memory, **limits)
    return memory.load(0x1000, kind, count)


def computed(text, kind="b32"):
    """The value of ``text``, instructions that leave it in a register of the type's kind."""
    register = {"b32": "%r1", "f32": "%f1", "b64": "%rd1", "f64": "%fd1"}[kind]
    store = f"ld.param.u64 %rd9, [out];\n st.global.{kind} [%rd9], {register};"
    return results(f"{text}\n{store}", kind)[0]


SAXPY = kernel(
    """
    ld.param.u64 %rd1, [x];  // the vector
    ld.param.f32 %f1, [a];
    ld.param.u32 %r1, [n];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra $L__BB0_2;
    mul.wide.s32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    fma.rn.f32 %f3, %f1, %f2, 0f3F800000;
    st.global.f32 [%rd4], %f3;
$L__BB0_2:
    ret;""",
    ".param .u64 .ptr .align 1 x, .param .f32 a, .param .u32 n",
)


def test_guarded_streaming_kernel():
    memory = Memory()
    memory.store(0x1000, "f32", range(8))
    steps = trace(SAXPY, "k", [0x1000, 2.0, 6], 2, 4, block_index=1, memory=memory)
    assert list(steps) == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]
    assert memory.load(0x1000, "f32", 8) == [0, 1, 2, 3, 9, 11, 6, 7]
    inside, outside = steps[1, 0, 0], steps[2, 0, 0]
    assert [(s.opcode, s.address, s.bytes) for s in inside if s.space == "global"] == [
        ("ld.global.f32", 0x1000 + 20, 4),
        ("st.global.f32", 0x1000 + 20, 4),
    ]
    assert [s.opcode for s in inside][:3] == ["ld.param.u64", "ld.param.f32", "ld.param.u32"]
    assert [s.address for s in inside if s.space == "param"] == [0, 8, 12]
    assert "bra" not in [s.opcode for s in inside], "its guard was false"
    assert [s.opcode for s in outside][-2:] == ["bra", "ret"]
    assert len({s.block for s in inside}) == 3
    assert (
        inside[0].line == SAXPY.splitlines().index("    ld.param.u64 %rd1, [x];  // the vector") + 1
    )


def test_one_thread_alone():
    memory = Memory()
    steps = trace(SAXPY, "k", [0x1000, 2.0, 6], 2, 4, 0, thread_index=(2,), memory=memory)
    assert list(steps) == [(2, 0, 0)]
    assert memory.load(0x1000, "u32", 2) == Memory().load(0x1000, "u32", 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.u32 %r1, 7; add.s32 %r1, %r1, -9;", -2),
        ("mul.lo.s32 %r1, 65537, 65537;", 131073),
        ("mul.hi.u32 %r1, 0x80000000, 6;", 3),
        ("mul.hi.s32 %r1, -1, 1;", -1),
        ("mad.lo.s32 %r1, 3, -4, 5;", -7),
        ("div.s32 %r1, -7, 2;", -3),
        ("rem.s32 %r1, -7, 2;", -1),
        ("div.u32 %r1, -7, 2;", 2147483644),
        ("min.s32 %r1, -1, 1;", -1),
        ("min.u32 %r1, -1, 1;", 1),
        ("shr.s32 %r1, -8, 1;", -4),
        ("shr.u32 %r1, -8, 1;", 0x7FFFFFFC),
        ("shl.b32 %r1, 1, 32;", 0),
        ("shf.l.wrap.b32 %r1, 0x80000000, 1, 1;", 3),
        ("shf.r.clamp.b32 %r1, 5, 9, 40;", 9),
        ("bfe.u32 %r1, 0xABCD, 4, 8;", 0xBC),
        ("bfe.s32 %r1, 0xABCD, 4, 8;", 0xBC - 256),
        ("bfi.b32 %r1, 0xF, 0xABCD, 4, 8;", 0xA0FD),
        ("prmt.b32 %r1, 0x44332211, 0x88776655, 0x7421;", -0x77AACCDE),
        ("prmt.b32 %r1, 0x80, 0, 0x0008;", 0x808080FF),
        ("lop3.b32 %r1, 12, 10, 6, 0x96;", 12 ^ 10 ^ 6),
        ("lop3.b32 %r1, 12, 10, 6, 0xC0;", 12 & 10),
        ("popc.b32 %r1, 0xFF01;", 9),
        ("clz.b32 %r1, 1;", 31),
        ("bfind.u32 %r1, 0x100;", 8),
        ("bfind.s32 %r1, -1;", -1),
        ("brev.b32 %r1, 1;", 0x80000000),
        ("not.b32 %r1, 0;", -1),
        ("cnot.b32 %r1, 0;", 1),
        ("abs.s32 %r1, -3;", 3),
        ("sad.u32 %r1, 3, 5, 1;", 3),
        ("slct.s32.s32 %r1, 1, 2, -1;", 2),
        ("setp.lt.u32 %p1, -1, 1; selp.b32 %r1, 10, 20, %p1;", 20),
        ("setp.lt.s32 %p1, -1, 1; not.pred %p2, %p1; selp.b32 %r1, 10, 20, !%p2;", 10),
        ("setp.ne.s32 %p3, 0, 0; setp.eq.and.s32 %p1|%p2, 4, 4, %p3; selp.b32 %r1, 1, 2, %p2;", 2),
        ("set.lt.u32.s32 %r1, -1, 0;", -1),
        ("mov.u32 %r1, 1; setp.eq.s32 %p1, 0, 1; @!%p1 mov.u32 %r1, 3; @%p1 mov.u32 %r1, 4;", 3),
        ("cvt.u32.u8 %r1, 511;", 255),
        ("cvt.s32.s8 %r1, 255;", -1),
        ("cvt.rzi.s32.f32 %r1, 0fC0200000;", -2),
        ("cvt.rmi.s32.f32 %r1, 0fC0200000;", -3),
        ("cvt.rni.s32.f32 %r1, 0f40200000;", 2),
        ("cvt.rzi.u32.f32 %r1, 0fC0200000;", 0),
        ("mul24.lo.u32 %r1, 0x1000002, 3;", 6),
        ("dp4a.s32.s32 %r1, 0xFF010203, 0x02010101, 10;", 14),
        ("add.cc.u32 %r2, -1, 1; addc.u32 %r1, 5, 0;", 6),
        ("sub.cc.u32 %r2, 0, 1; subc.u32 %r1, 5, 0;", 4),
        ("mov.b64 %rd1, {7, 9}; mov.b64 {%r2, %r1}, %rd1;", 9),
        ("mov.u16 %rs1, 3; mov.u16 %rs2, 4; mov.b32 %r1, {%rs1, %rs2};", 0x40003),
        ("mov.u32 %r2, 1; { .reg .b32 %r2; mov.u32 %r2, 9; } mov.u32 %r1, %r2;", 1),
    ],
)  # fmt: skip
def test_integers(text, expected):
    assert computed(text) == expected & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mul.wide.s32 %rd1, -2, 3;", -6),
        ("mul.wide.u32 %rd1, -2, 3;", 3 * (2**32 - 2)),
        ("mad.wide.s32 %rd1, -2, 3, 100;", 94),
        ("mov.u32 %r1, -5; cvt.s64.s32 %rd1, %r1;", -5),
        ("mov.u32 %r1, -5; cvt.u64.u32 %rd1, %r1;", 2**32 - 5),
        ("shl.b64 %rd1, 1, 40;", 1 << 40),
        ("cvt.rzi.s64.f64 %rd1, 0dC000000000000000;", -2),
    ],
)
def test_wide_integers(text, expected):
    assert computed(text, "b64") == expected & (1 << 64) - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.f32 %f1, 0f3F800000, 0f33000000;", 1.0),
        ("mul.f32 %f1, 0f40000000, 0fC0400000;", -6.0),
        ("div.rn.f32 %f1, 0f3F800000, 0f40400000;", decode(0x3EAAAAAB, "f32")),
        ("fma.rn.f32 %f1, 2.0, 3.0, 1.0;", 7.0),
        ("max.f32 %f1, 0f7FC00000, 0f3F800000;", 1.0),
        ("rcp.approx.ftz.f32 %f1, 0f40800000;", 0.25),
        ("rsqrt.approx.f32 %f1, 0f40800000;", 0.5),
        ("ex2.approx.f32 %f1, 0f40400000;", 8.0),
        ("lg2.approx.f32 %f1, 0f41000000;", 3.0),
        ("neg.f32 %f1, 0f3F800000;", -1.0),
        ("cvt.rn.f32.s32 %f1, -3;", -3.0),
        ("cvt.sat.f32.f32 %f1, 0f40400000;", 1.0),
        ("setp.gtu.f32 %p1, 0f7FC00000, 0f3F800000; selp.f32 %f1, 1.0, 2.0, %p1;", 1.0),
        ("cvt.rn.f16.f32 %rs1, 0f3F800000; add.f16 %rs1, %rs1, %rs1; cvt.f32.f16 %f1, %rs1;", 2.0),
    ],
)  # fmt: skip
def test_floats(text, expected):
    assert computed(text, "f32") == expected


def test_double_precision():
    assert computed("div.rn.f64 %fd1, 0d3FF0000000000000, 0d4008000000000000;", "f64") == 1 / 3
    assert (
        computed("cvt.f64.f32 %fd1, 0f3F000000; fma.rn.f64 %fd1, %fd1, %fd1, 1.0;", "f64") == 1.25
    )


REDUCTION = """
    .shared .align 4 .b8 pad[3]; .shared .align 16 .f32 sums[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, sums;
    shl.b32 %r3, %r1, 2; add.s32 %r4, %r2, %r3;
    cvt.rn.f32.u32 %f1, %r1; st.shared.f32 [%r4], %f1;
    mov.u32 %r5, 4;
$loop:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, %r5;
    @%p1 bra $skip;
    shl.b32 %r6, %r5, 2; add.s32 %r7, %r4, %r6;
    ld.shared.f32 %f2, [%r7]; ld.shared.f32 %f3, [%r4];
    add.f32 %f3, %f3, %f2; st.shared.f32 [%r4], %f3;
$skip:
    shr.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0;
    @%p2 bra $loop;
    setp.ne.u32 %p3, %r1, 0;
    @%p3 ret;
    ld.param.u64 %rd1, [out]; ld.shared.f32 %f4, [sums]; st.global.f32 [%rd1], %f4;
    ret;
"""


def test_barriers_and_shared_memory():
    assert results(REDUCTION, "f32", block=8) == [28.0]
    text = kernel(REDUCTION)
    assert shared_layout(text, "k") == {"pad": 0, "sums": 16}
    steps = trace(text, "k", [0x1000], 1, 8, thread_index=[(0, 0, 0), (5, 0, 0)])
    assert list(steps) == [(0, 0, 0), (5, 0, 0)]
    assert [s.address for s in steps[5, 0, 0] if s.space == "shared"] == [36]
    assert [s.opcode for s in steps[5, 0, 0]].count("bar.sync") == 3


def test_deadlock_and_endless_loop():
    body = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 1, 64; bar.sync 0;"
    with pytest.raises(RuntimeError, match="deadlock"):
        results(body, block=2)
    with pytest.raises(RuntimeError, match="more than 50 steps"):
        results("$L: bra $L;", max_steps=50)


def test_module_variables_vectors_and_generic_addresses():
    module = (
        ".const .align 8 .b8 skip[13]; .const .align 16 .u32 table[4] = {10, 20, 30, 40};\n"
        ".extern .shared .align 16 .b8 dynamic[]; .shared .align 4 .b8 unused[64];\n"
    )
    body = """
    .local .align 8 .b8 depot[16];
    ld.const.v4.u32 {%r1, %r2, %r3, %r4}, [table];
    mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;
    st.v2.u32 [%rd2+8], {%r3, %r4}; ld.local.u32 %r5, [depot+12];
    mov.u64 %rd3, dynamic; cvta.shared.u64 %rd4, %rd3; st.u32 [%rd4], %r5;
    ld.shared.u32 %r6, [dynamic]; ld.param.u64 %rd5, [out]; st.u32 [%rd5], %r6;
    """
    body = body.replace("ld.const.v4.u32", "ld.const.u32 %r7, [table+4]; ld.const.v4.u32")
    assert results(body, module=module) == [40]
    text = kernel(body, module=module)
    steps = trace(text, "k", [0x1000], 1, 1)[0, 0, 0]
    assert [(s.space, s.address, s.bytes) for s in steps if s.space not in (None, "param")] == [
        ("const", 20, 4),
        ("const", 16, 16),
        ("local", 8, 8),
        ("local", 12, 4),
        ("shared", 0, 4),
        ("shared", 0, 4),
        ("global", 0x1000, 4),
    ]
    assert shared_layout(text, "k") == {"dynamic": 0}
    assert WINDOWS["shared"] > 1 << 48


def test_shuffles_and_votes():
    body = """
    mov.u32 %r1, %laneid; mov.u32 %r2, %r1;
    {step}
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    """
    tree = "".join(
        f"shfl.sync.bfly.b32 %r3, %r2, {d}, 31, -1; add.s32 %r2, %r2, %r3;"
        for d in (16, 8, 4, 2, 1)
    )
    assert results(body.replace("{step}", tree), count=32, block=32) == [496] * 32
    down = "shfl.sync.down.b32 %r2|%p1, %r1, 1, 31, -1; @!%p1 mov.u32 %r2, 99;"
    assert results(body.replace("{step}", down), count=32, block=32) == [*range(1, 32), 99]
    up = "shfl.sync.up.b32 %r2, %r1, 2, 0x1800, -1;"  # segments of eight lanes
    expected = [lane - 2 if lane % 8 >= 2 else lane for lane in range(32)]
    assert results(body.replace("{step}", up), count=32, block=32) == expected
    ballot = "setp.lt.u32 %p1, %r1, 3; vote.sync.ballot.b32 %r2, %p1, -1;"
    assert results(body.replace("{step}", ballot), count=2, block=32) == [7, 7]
    mask = "setp.gt.u32 %p1, %r1, 1; @%p1 bra $end; activemask.b32 %r2; $end:"
    assert results(body.replace("{step}", mask), count=3, block=32) == [3, 3, 2]


def test_atomics_and_custom_content():
    body = """
    mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out];
    atom.global.add.u32 %r2, [%rd1], 2;
    red.global.max.u32 [%rd1+4], %r1;
    st.global.u32 [%rd1+8], %r2;
    atom.global.cas.b32 %r3, [%rd1+12], 100, 5;
    """
    memory = Memory(lambda address, size: 100)
    assert results(body, count=4, block=4, memory=memory) == [108, 100, 106, 5]


def test_gather_follows_the_content_of_memory():
    body = """
    ld.param.u64 %rd1, [out]; ld.global.s32 %r1, [%rd1];
    mul.wide.s32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2; ld.global.f64 %fd1, [%rd3+64];
    """
    memory = Memory(lambda address, size: 3 if address == 0x1000 else 0)
    steps = trace(kernel(body), "k", [0x1000], 1, 1, memory=memory)[0, 0, 0]
    assert steps[-1].address == 0x1000 + 24 + 64
    assert steps[-1].bytes == 8
    assert trace(kernel(body), "k", [0x1000], 1, 1) == trace(kernel(body), "k", [0x1000], 1, 1)


def test_asynchronous_copy():
    body = """
    .shared .align 16 .b8 tile[64];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, tile;
    cp.async.ca.shared.global [%r1+16], [%rd1], 8; cp.async.commit_group; cp.async.wait_group 0;
    ld.shared.u32 %r2, [tile+20];
    """
    memory = Memory(lambda address, size: address)
    steps = trace(kernel(body), "k", [0x1000], 1, 1, memory=memory)[0, 0, 0]
    assert [(s.space, s.address, s.bytes) for s in steps if s.opcode.startswith("cp.async.ca")] == [
        ("global", 0x1000, 8),
        ("shared", 16, 8),
    ]


def test_calls_and_branch_tables():
    module = """
    .func (.param .b32 result) twice(.param .b32 value)
    {
        .reg .b32 %r<3>;
        ld.param.u32 %r1, [value]; add.s32 %r2, %r1, %r1; st.param.b32 [result+0], %r2; ret;
    }
    """
    body = """
    mov.u32 %r1, 21;
    { .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0;
      call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0+0]; }
    mov.u32 %r3, 1;
    ts: .branchtargets $A, $B;
    brx.idx %r3, ts;
$A: mov.u32 %r2, 0;
$B: ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r2; ret;
    """
    assert results(body, module=module) == [42]


def test_what_it_does_not_know():
    with pytest.raises(NotImplementedError, match=r"wmma\.load\.a"):
        results("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1];")
    with pytest.raises(NotImplementedError, match=r"rem\.f32"):
        results("rem.f32 %f1, %f2, %f3;")
    with pytest.raises(RuntimeError, match="misaligned"):
        results("ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [%rd1+2];")
    with pytest.raises(ValueError, match="1 arguments"):
        trace(kernel("ret;"), "k", [], 1, 1)


@pytest.mark.parametrize("kind", ["s8", "u16", "s32", "b64", "f16", "f32", "f64"])
def test_encoding_is_reversible(kind):
    assert decode(encode(5, kind), kind) == 5
