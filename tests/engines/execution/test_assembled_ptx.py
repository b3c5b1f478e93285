"""Tests of PTX as ptxas compiles it: branches that some lanes leave early, calls."""

import numpy as np
import pytest
from engines.execution.machine import ARCHITECTURES, array, clean, launched

from perfassert.frontends.machine.lowering import executable
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build


@pytest.fixture(params=ARCHITECTURES)
def assembled(request, tmp_path):
    for tool in ("ptxas", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")

    def assemble(text):
        path = tmp_path / "k.ptx"
        path.write_text(text)
        return executable(build(Source(path, "ptx", "k"), request.param))

    return assemble


SEARCH = """\
.version 7.0
.target sm_75
.address_size 64
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


def test_a_loop_that_some_leave_early(assembled):
    run = clean(launched(assembled(SEARCH), 1, 32, [np.zeros(32, np.int32)]))
    first = {7 * k % 32: k for k in reversed(range(20))}
    assert array(run, 0, np.int32).tolist() == [first.get(t, -1) for t in range(32)]


CALLS = """\
.version 7.0
.target sm_75
.address_size 64
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


def test_calls_take_parameters_and_give_results(assembled):
    run = clean(launched(assembled(CALLS), 1, 32, [np.zeros(32, np.int32)]))
    assert (array(run, 0, np.int32) == 4 * np.arange(32)).all()
