"""Every PTX instruction that is executed against the reference interpreter, on awkward numbers."""

import numpy as np
import pytest
from engines.execution.machine import clean, launched
from engines.execution.ptx_operations import operations
from ptx_interpreter import Memory, trace

from perfassert.engines.execution.memory import pointer
from perfassert.frontends.cuda.ptx_machine import executable_ptx

THREADS = 48
TEXT = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %d<19>;
    .reg .f32 %f<9>; .reg .f64 %g<9>;
    ld.param.u64 %d10, [in];
    ld.param.u64 %d11, [out];
    mov.u32 %r10, %tid.x;
    mad.wide.u32 %d12, %r10, 24, %d10;
    mad.wide.u32 %d13, %r10, 16, %d11;
    ld.global.u64 %d1, [%d12];
    ld.global.u64 %d2, [%d12+8];
    ld.global.u64 %d3, [%d12+16];
    cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;
    cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2; cvt.u16.u64 %h3, %d3;
    mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
    mov.b64 %g1, %d1; mov.b64 %g2, %d2; mov.b64 %g3, %d3;
    setp.lt.u32 %p1, %r1, %r2; setp.gt.s32 %p2, %r2, %r3; setp.ne.u64 %p3, %d1, %d3;
    mov.u64 %d4, 0; mov.u64 %d5, 0; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u16 %h4, 0;
    {{
    {statement}
    }}
    {result}
    st.global.v2.u64 [%d13], {{%d4, %d5}};
    ret;
}}
"""
RESULTS = {
    "d": "", "r": "mov.b64 %d4, {%r4, %r5};", "h": "cvt.u64.u16 %d4, %h4;",
    "f": "mov.b32 %r4, %f4; cvt.u64.u32 %d4, %r4;", "g": "mov.b64 %d4, %g4;",
    "p": "selp.u64 %d4, 1, 0, %p4; selp.u64 %d5, 1, 0, %p5;",
}  # fmt: skip


def number(statement):
    """Words that are awkward for integers, for floats, and any."""
    generator = np.random.default_rng(sum(map(ord, statement)))
    values = generator.integers(0, 2**64, (THREADS, 3), dtype=np.uint64)
    shift = generator.integers(0, 64, (THREADS, 3)).astype(np.uint64)
    values = np.where(generator.random((THREADS, 3)) < 0.5, values >> shift, values)
    singles = generator.normal(0, 100, (THREADS, 3)).astype(np.float32).view(np.uint32)
    doubles = generator.normal(0, 1e6, (THREADS, 3)).view(np.uint64)
    real = generator.random((THREADS, 3)) < (0.7 if "f32" in statement else 0.0)
    values = np.where(real, singles.astype(np.uint64), values)
    values = np.where(generator.random((THREADS, 3)) < 0.7 * ("f64" in statement), doubles, values)
    values[:4] = [[0, 0, 1], [2**64 - 1, 1, 2], [2**63, 2**64 - 1, 31], [2**31, 2**32 - 1, 33]]
    return values


def same(kind, mine, theirs):
    """Bit for bit; one that is no number as good as another."""
    if kind not in "fg":
        return (mine == theirs).all()
    word, real = (np.uint32, np.float32) if kind == "f" else (np.uint64, np.float64)
    a, b = (w[:, 0].astype(word).view(real) for w in (mine, theirs))
    return ((a == b) | ((a != a) & (b != b))).all()


@pytest.mark.parametrize(("result", "statement"), list(operations()))
@pytest.mark.exhaustive(one_in=3)
def test_results_of_the_reference_interpreter(result, statement):
    text = TEXT.format(statement=statement, result=RESULTS[result])
    values = number(statement)
    code = executable_ptx(text, "k", "k.ptx")
    assert not code.notes
    out = np.zeros((THREADS, 2), np.uint64)
    run = clean(launched(code, 1, THREADS, [values, out]))
    memory = Memory(lambda address, size: 0)
    memory.store(pointer(0), "u64", values.reshape(-1).tolist())
    trace(text, "k", [pointer(0), pointer(1)], 1, THREADS, memory=memory)
    theirs = np.array(memory.load(pointer(1), "u64", 2 * THREADS), np.uint64).reshape(-1, 2)
    mine = run.contents["arg1"].view(np.uint64).reshape(-1, 2)
    assert same(result, mine, theirs), (statement, values[mine[:, 0] != theirs[:, 0]][:3])


@pytest.mark.parametrize(
    ("statement", "register"),
    [
        ("fma.rn.f16 %h4, %h1, %h2, %h3;", "h"), ("add.sat.s32 %r4, %r1, %r2;", "r"),
        ("vadd.s32.s32.s32 %r4, %r1, %r2;", "r"), ("prmt.b32.f4e %r4, %r1, %r2, %r3;", "r"),
        ("mov.u32 %r4, %smid;", "r"), ("div.rz.f32 %f4, %f1, %f2;", "f"),
        ("cvt.rn.f16.f32 %h4, %f1;", "h"), ("mov.u32 %r4, nowhere;", "r"),
    ],
)  # fmt: skip
def test_what_is_not_executed_is_unknown(statement, register):
    text = TEXT.format(statement=statement, result=RESULTS[register])
    code = executable_ptx(text, "k", "k.ptx")
    assert [note.partition(" ")[0] for note in code.notes] == [statement.partition(" ")[0]]
    out = np.zeros((THREADS, 2), np.uint64)
    run = launched(code, 1, THREADS, [number(statement), out])
    assert run.unknown["arg1"]


def test_what_is_not_executed_decides_no_branch():
    text = TEXT.format(
        statement="add.sat.s32 %r4, %r1, %r2; setp.lt.s32 %p4, %r4, 0; @%p4 bra $END;",
        result="$END:",
    )
    run = launched(
        executable_ptx(text, "k", "k.ptx"), 1, 32, [number(""), np.zeros(2 * THREADS, np.uint64)]
    )
    assert len(run.guesses) == 1
