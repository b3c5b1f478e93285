"""Objects of other packages in the place of a kernel: told by their type, nothing imported."""

import subprocess
import sys
from importlib import import_module

import pytest

import perfassert as pa
from perfassert import plugins
from perfassert.frontends.generators.recognised import kernel_of
from perfassert.frontends.toolchain import tools

A100 = "A100-SXM4-40GB"
COUNT = 1 << 20
BUFFER = pa.Buffer(COUNT, "float32")
AXPY = pa.Launch(COUNT // 256, 256, {"a": 2.0, "x": BUFFER, "y": BUFFER})


@pytest.fixture(scope="module")
def toolchain():
    if any(tools.find(name) is None for name in ("nvrtc", "ptxas", "nvdisasm")):
        pytest.skip("the toolchain is not installed")


def load(kernel, launch):
    return pa.predict(kernel_of(kernel, launch), launch, A100).volumes.dram_load.per_thread


def test_numba(toolchain, perf):
    pytest.importorskip("numba.cuda")
    axpy = import_module("kernels.numba_kernels").axpy
    by_place = pa.Launch(COUNT // 256, 256, (2.0, BUFFER, BUFFER))
    assert load(axpy, AXPY) == load(axpy, by_place) == 8
    assert perf(axpy, AXPY).volumes.dram_load.per_thread == 8
    shapes = pa.Launch(COUNT // 256, 256, {"a": 2.0, "x": COUNT, "y": (COUNT,)})
    with pytest.raises(pa.LaunchError, match=r"'y' is .* which says no type; give pa\.Buffer"):
        kernel_of(axpy, shapes)
    with pytest.raises(pa.LaunchError, match="the type of 'a' is that of its argument"):
        kernel_of(axpy, pa.Launch(1, 256))


def test_warp(toolchain, perf):
    pytest.importorskip("warp")
    axpy = import_module("kernels.warp_kernels").axpy
    assert perf(axpy, AXPY).volumes.dram_load.per_thread == 8


def test_triton(toolchain, perf):
    pytest.importorskip("triton")
    softmax = import_module("kernels.triton_softmax").softmax
    matrix = pa.Buffer((4096, 1024), "float32")
    args = {"target": matrix, "source": matrix, "columns": 1024, "pitch": 1024, "BLOCK": 1024}
    prediction = perf(softmax, pa.Launch(4096, 256, args))
    assert prediction.volumes.l2_load.total == pytest.approx(4096 * 1024 * 4, rel=0.05)
    with pytest.raises(pa.LaunchError, match="give args by name"):
        kernel_of(softmax, pa.Launch(4096, 256, (matrix,)))


def test_pystencils(toolchain, perf):
    ps = pytest.importorskip("pystencils")
    f, g = ps.fields("f, g: float32[34,34,34]", layout="fzyx")
    move = ps.Assignment(g[0, 0, 0], f[1, 0, 0])
    kernel = ps.create_kernel(move, ps.CreateKernelConfig(target=ps.Target.CUDA))
    for held in (ps.AssignmentCollection([move]), kernel):
        assert perf(held, domain=(32, 32, 32), block=(32, 4)).volumes.dram_load.total > 0


def test_gluon(toolchain, perf):
    pytest.importorskip("triton")
    functions = import_module("kernels.gluon_transpose")
    matrix = pa.Buffer((2048, 2048), "float32")
    args = {"target": matrix, "source": matrix, "n": 2048, "TILE": 32}
    args |= {"rows": functions.ROWS, "columns": functions.COLUMNS}
    prediction = perf(functions.transpose, pa.Launch((64, 64), 128, args))
    assert prediction.volumes.l2_load.total == prediction.volumes.l2_store.total == 4 * 2048**2


def test_autotuned_triton(perf):
    """An autotuned kernel has no single configuration; the error names the function that ranks."""
    pytest.importorskip("triton")
    matmul = import_module("kernels.triton_autotuned").matmul
    with pytest.raises(pa.KernelSourceError, match=r"pa\.rank_autotune"):
        perf(matmul, pa.Launch(64, 128, {"m": 2048}))


def test_cupy(toolchain, perf):
    cupy = pytest.importorskip("cupy")
    text = 'extern "C" __global__ void fill(float* x) { x[blockIdx.x * 32 + threadIdx.x] = 0; }'
    for held in (cupy.RawKernel(text, "fill"), cupy.RawModule(code=text)):
        assert perf(held, pa.Launch(1024, 32)).volumes.l2_store.per_thread == 4
    with pytest.raises(pa.KernelSourceError, match="has none before it is launched"):
        perf(cupy.ElementwiseKernel("float32 x", "float32 y", "y = x", "copy"), pa.Launch(1, 32))


class OfCute:
    """An object as ``cute.compile`` returns it if PTX is kept."""

    __ptx__ = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry kernel_cutlass_fill_tensor_0(.param .align 8 .b8 first[8])
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [first]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, 32, %r2; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;
    st.global.b32 [%rd3], %r1;
    ret;
}
"""


OfCute.__module__ = "cutlass.base_dsl.jit_executor"


def test_cute(toolchain, perf):
    assert perf(OfCute(), pa.Launch(1024, 32)).volumes.l2_store.per_thread == 4
    nothing = OfCute()
    nothing.__ptx__ = None
    with pytest.raises(pa.KernelSourceError, match="kept no PTX"):
        perf(nothing, pa.Launch(1024, 32))


class HeldPtx:
    ptx = OfCute.__ptx__


def test_what_holds_its_ptx(toolchain, perf):
    assert perf(HeldPtx(), pa.Launch(1024, 32)).volumes.l2_store.per_thread == 4


class Held:
    code = 'extern "C" __global__ void fill(float* x) { x[blockIdx.x * 32 + threadIdx.x] = 0; }'


def test_what_holds_its_text(toolchain, perf):
    assert perf(Held(), pa.Launch(1024, 32)).volumes.l2_store.per_thread == 4


def test_what_nobody_knows():
    with pytest.raises(pa.KernelSourceError, match="objects of cupy, cutlass, numba, pystencils"):
        kernel_of(object(), AXPY)


def test_a_plugin_knows_others():
    """A plug-in recognises objects by the package of their type, here that of this module."""
    kernel = pa.Kernel.from_accesses("other", [pa.Field("a", shape=(64,))], ["a[x]"])
    package = __name__.partition(".")[0]

    class Other:
        pass

    given = {package: lambda held, launch: kernel if held.good else 3}
    plugin = type("P", (), {"perfassert_generators": plugins.hookimpl(lambda self: given)})()
    plugins.register(plugin, "others")
    try:
        held = Other()
        held.good = True
        assert kernel_of(held, AXPY) is kernel
        held.good = False
        with pytest.raises(pa.PluginError, match="gave 3, which is no Kernel"):
            kernel_of(held, AXPY)
        del held.good
        with pytest.raises(pa.PluginError, match="plug-in others: the front end for objects of"):
            kernel_of(held, AXPY)
    finally:
        plugins.unregister("others")


def test_nothing_is_imported_for_it():
    """Neither by the module nor for an object that is none of theirs."""
    code = """
import sys
import perfassert as pa
from perfassert.frontends.generators.recognised import kernel_of
try:
    kernel_of(object(), pa.Launch(1, 32))
except pa.KernelSourceError:
    pass
print(sorted({"numba", "triton", "pystencils", "warp", "cupy", "cutlass"} & {*sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
