"""Tests of :func:`from_cute` on compiled functions of CUTLASS' DSL, and of what it rejects."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

A100 = "A100-SXM4-40GB"
COUNT = 1 << 20
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry kernel_cutlass_copy_tensor_0(
    .param .align 8 .b8 first[8], .param .align 8 .b8 second[8], .param .u32 third
)
{
    .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .pred %p;
    ld.param.u64 %rd1, [first]; ld.param.u64 %rd2, [second]; ld.param.u32 %r5, [third];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2;
    setp.ge.u32 %p, %r3, %r5;
    @%p ret;
    mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.b32 %r4, [%rd4]; st.global.b32 [%rd5], %r4;
    ret;
}
"""
REAL = """
import json
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor
import perfassert as pa

@cute.kernel
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    x, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 256 + x
    if i < n:
        c[i] = a[i] + b[i]

@cute.jit
def start(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    add(a, b, c, n).launch(grid=[(n + 255) // 256, 1, 1], block=[256, 1, 1])

N = 1 << 20
tensors = [make_fake_compact_tensor(cutlass.Float32, (N,), stride_order=(0,)) for _ in range(3)]
compiled = cute.compile(start, *tensors, cutlass.Int32(N))
kernel = pa.from_cute(compiled, add)
p = pa.predict(kernel, pa.Launch(N // 256, 256, {"n": N}), "A100-SXM4-40GB")
v = p.volumes
print(json.dumps([v.dram_load.per_thread, v.dram_store.per_thread, sorted(v.dram_load.fields)]))
"""
needs_tools = pytest.mark.skipif(
    tools.find("ptxas") is None or tools.find("nvdisasm") is None,
    reason="ptxas or nvdisasm is not installed",
)


@dataclass
class Compiled:
    __ptx__: object = None


@pytest.fixture(params=["text", "path"])
def kept(tmp_path, request):
    path = tmp_path / "kept.sm_80.ptx"
    path.write_text(PTX)
    return Compiled(PTX if request.param == "text" else str(path))


def copy(source, target, n):
    """Stands for the function under @cute.kernel."""


@needs_tools
@pytest.mark.parametrize(
    ("given", "more", "names"),
    [
        ((copy,), {}, ["source", "target", "n"]),
        ((), {"parameters": ("x", "y", "n")}, ["x", "y", "n"]),
        (("copy",), {"parameters": ("x", "y", "n")}, ["x", "y", "n"]),
    ],
)
def test_parameters_have_names(kept, given, more, names):
    kernel = pa.from_cute(kept, *given, **more)
    prediction = pa.predict(kernel, pa.Launch(COUNT // 256, 256, {names[2]: COUNT}), A100)
    assert prediction.volumes.dram_load.per_thread == 4
    assert set(prediction.volumes.dram_load.fields) == {names[0]}
    assert set(prediction.volumes.l2_store.fields) == {names[1]}


@needs_tools
def test_the_dsl_itself(tmp_path):
    """The DSL runs in another process, since it reads its environment when it is imported."""
    if find_spec("cutlass") is None:
        pytest.skip("cutlass is not installed")
    script = tmp_path / "add.py"
    script.write_text(REAL)
    dump = tmp_path / "dump"
    dump.mkdir()
    own = {"CUTE_DSL_ARCH": "sm_80", "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": str(dump)}
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, **own}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [8, 4, ["a", "b"]]


@pytest.mark.parametrize("given", [Compiled(), Compiled("no/such/file.ptx"), Compiled("")])
def test_nothing_was_kept(given):
    with pytest.raises(pa.KernelSourceError, match=r"kept no PTX.*set CUTE_DSL_KEEP_PTX=1"):
        pa.from_cute(given)


def test_what_is_not_compiled():
    with pytest.raises(pa.KernelSourceError, match="is not compiled by CUTLASS"):
        pa.from_cute(copy)


def test_a_kernel_that_is_not_there(kept):
    with pytest.raises(pa.KernelSourceError, match=r"no kernel 'move'.*kernel_cutlass_copy"):
        pa.from_cute(kept, "move")
