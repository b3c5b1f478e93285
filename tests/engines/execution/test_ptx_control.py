"""Masks of warps that execute PTX against threads that are run one by one."""

import os

import numpy as np
import pytest
from engines.execution.machine import clean, launched
from engines.execution.random_control import Generator
from engines.execution.random_ptx import ptx
from engines.execution.test_against_single_threads import START, expected

from perfassert.frontends.cuda.ptx_machine import executable_ptx

CASES = int(os.environ.get("PERFASSERT_PTX_CASES", "300"))
PER_TEST, PER_NUMPY = 50, 20


def executed(seed):
    generator = Generator(seed)
    program = generator.program()
    text, lines = ptx(program, generator.loops, START, shared_end=bool(seed % 2))
    code = executable_ptx(text, "k", "k.ptx")
    place = {i.span.line: n for n, i in enumerate(code.instructions) if i.text.startswith("mov")}
    return generator, program, code, {number: place[line] for number, line in lines.items()}


@pytest.mark.parametrize("start", range(0, CASES, PER_TEST))
@pytest.mark.exhaustive(one_in=3)
def test_active_lanes_are_those_that_a_thread_by_thread_run_counts(start):
    """On the compiled engine; few on the other one, which has tests that both agree."""
    for seed in range(start, min(start + PER_TEST, CASES)):
        generator, program, code, places = executed(seed)
        blocks, block = (2, 80) if seed % 4 == 0 else (1, 40)
        run = clean(launched(code, blocks, block, [], compiled=seed >= PER_NUMPY))
        totals = expected(program, generator.count, blocks, block)
        for number, place in places.items():
            assert (run.lanes[:, place] == totals[:, number]).all(), (seed, number)


def test_lanes_meet_again_behind_every_statement():
    """A statement of the outermost level is issued once per warp, however its lanes have parted."""
    for seed in range(20_000, 20_000 + CASES // 2):
        _, program, code, places = executed(seed)
        run = clean(launched(code, 1, 64, []))
        for statement in program:
            assert run.executed[:, places[statement.number]].max() <= 1, (seed, statement)


SEARCH = """\
.version 8.0
.target sm_80
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r2, 0;
$NEXT:
    mul.lo.u32 %r3, %r2, 7;
    and.b32 %r3, %r3, 31;
    setp.eq.u32 %p1, %r3, %r1;
    @%p1 bra $FOUND;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, 20;
    @%p2 bra $NEXT;
    mov.u32 %r4, 0xffffffff;
    st.global.u32 [%rd3], %r4;
    bra.uni $END;
$FOUND:
    st.global.u32 [%rd3], %r2;
$END:
    ret;
}
"""


def test_a_loop_that_some_leave_early():
    code = executable_ptx(SEARCH, "k", "k.ptx")
    run = clean(launched(code, 1, 32, [np.zeros(32, np.int32)]))
    first = {7 * k % 32: k for k in reversed(range(20))}
    assert run.contents["arg0"].view(np.int32).tolist() == [first.get(t, -1) for t in range(32)]
    for text in ("st.global.u32 [%rd3], %r2", "st.global.u32 [%rd3], %r4"):
        place = next(n for n, i in enumerate(code.instructions) if i.text == text)
        assert run.executed[0, place] == 1


CALLS = """\
.version 8.0
.target sm_80
.func (.param .b32 r) twice(.param .b32 a)
{
    .reg .b32 %r<4>;
    ld.param.b32 %r1, [a];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [r], %r2;
    ret;
}
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), twice, (p);
      ld.param.b32 %r2, [q]; }
    { .param .b32 p; st.param.b32 [p], %r2; .param .b32 q; call.uni (q), twice, (p);
      ld.param.b32 %r3, [q]; }
    st.global.u32 [%rd3], %r3;
    ret;
}
"""


def test_calls_take_parameters_and_give_results():
    run = clean(launched(executable_ptx(CALLS, "k", "k.ptx"), 1, 32, [np.zeros(32, np.int32)]))
    assert (run.contents["arg0"].view(np.int32) == 4 * np.arange(32)).all()
