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


class Held:
    code = 'extern "C" __global__ void fill(float* x) { x[blockIdx.x * 32 + threadIdx.x] = 0; }'


def test_what_holds_its_text(toolchain, perf):
    assert perf(Held(), pa.Launch(1024, 32)).volumes.l2_store.per_thread == 4


def test_what_nobody_knows():
    with pytest.raises(pa.KernelSourceError, match="objects of cupy, numba, pystencils, triton"):
        kernel_of(object(), AXPY)


def test_a_plugin_knows_others():
    """By the package of the type, here that of this module."""
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
print(sorted({"numba", "triton", "pystencils", "warp", "cupy"} & {*sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
