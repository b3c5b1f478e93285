"""Tests of :func:`from_warp` on functions under ``@wp.kernel``, and of what it rejects."""

import warnings
from importlib import import_module

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools
from perfassert.system.temporary import remove_abandoned

pytestmark = pytest.mark.exhaustive(one_in=3)

A100 = "A100-SXM4-40GB"
COUNT = 1 << 20


@pytest.fixture(scope="module")
def kernels():
    pytest.importorskip("warp")
    if tools.find("ptxas") is None or tools.find("nvdisasm") is None:
        pytest.skip("ptxas or nvdisasm is not installed")
    return import_module("kernels.warp_kernels")


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    "args",
    [
        {"a": 2.0, "x": COUNT, "y": (COUNT,)},
        {"a": 2.0, "x": pa.Buffer(COUNT, "float32"), "y": COUNT, "dim": COUNT},
        (2.0, COUNT, COUNT),
    ],
)
def test_arrays_are_arguments(kernels, args):
    """A thread reads two numbers and writes one."""
    prediction = pa.predict(pa.from_warp(kernels.axpy), pa.Launch(COUNT // 256, 256, args), A100)
    assert prediction.volumes.dram_load.per_thread == 8
    assert prediction.volumes.dram_store.per_thread == 4
    assert set(prediction.volumes.dram_load.fields) == {"x.data", "y.data"}


def test_warnings_of_warp_are_no_errors_of_the_kernel(kernels, monkeypatch):
    """Warp 1.19 warns on Python 3.10, and warnings are errors in many projects."""
    import warp

    def compile_with_warning(*args, compile_module=warp.compile_aot_module, **options):
        warnings.warn("Support for this is deprecated", FutureWarning, stacklevel=2)
        return compile_module(*args, **options)

    monkeypatch.setattr(warp, "compile_aot_module", compile_with_warning)
    assert pa.from_warp(kernels.axpy).compiled.program("sm_80").parameters


@pytest.mark.filterwarnings("ignore:Support for Python 3.10:FutureWarning")
def test_structures_are_those_of_warp(kernels):
    """Arguments equal Warp's objects byte by byte."""
    import warp

    kernel = pa.from_warp(kernels.diffuse)
    launch = pa.Launch(64, 256, {"dim": (128, 128), "old": (96, 64), "rate": 0.5, "new": (1, 1)})
    given = kernel.spell_out(launch).args
    assert kernel.spell_out(kernel.spell_out(launch)).args == given
    array = warp.zeros((96, 64), dtype=float, device="cpu")
    native = array.__ctype__()
    held = given["old"]
    assert list(native.shape) == held["shape"]
    assert list(native.strides) == held["strides"]
    assert (native.ndim, native.grad or None) == (held["ndim"], held["grad"])
    bounds = warp._src.types.launch_bounds_t((128, 128))
    assert (list(bounds.shape), bounds.size) == (given["dim"]["shape"], given["dim"]["size"])


def test_members_are_where_the_code_has_them(kernels):
    program = pa.from_warp(kernels.integrate).compiled.program("sm_80")
    assert [p.name for p in program.parameters] == ["dim", "step", "x", "v"]
    members = {m.name: m.offset for m in program.parameters[1].members}
    assert members == {"dt": 0, "gravity[0]": 4, "gravity[1]": 8, "gravity[2]": 12}
    assert program.parameters[2].size == 56
    touched = [a for i in program.instructions for a in i.accesses if a.space == "global"]
    assert {a.field for a in touched} == {"x.data", "v.data"}


def test_vectors_are_elements(kernels):
    """Both are read and written: 12 bytes of a thread each, whole sectors of a warp."""
    kernel = pa.from_warp(kernels.integrate)
    for x in (COUNT, pa.Buffer((COUNT, 3), "float32")):
        launch = pa.Launch(COUNT // 256, 256, {"x": x, "v": COUNT, "step": {"dt": 0.1}})
        prediction = pa.predict(kernel, launch, A100)
        assert 24 <= prediction.volumes.dram_load.per_thread < 30
        assert 24 <= prediction.volumes.dram_store.per_thread < 30


def test_two_indices(kernels):
    """Four neighbours and itself: all but one come from a cache."""
    args = {"dim": (1024, 1024), "rate": 0.1, "old": (1024, 1024), "new": (1024, 1024)}
    launch = pa.Launch(1024 * 1024 // 256, 256, args)
    prediction = pa.predict(pa.from_warp(kernels.diffuse), launch, A100)
    assert prediction.volumes.dram_store.per_thread == pytest.approx(4, rel=0.02)
    assert prediction.confidence != "guessed"


def test_the_adjoint(kernels):
    """The gradient of y is read, that of x is added to."""
    kernel = pa.from_warp(kernels.axpy, adjoint=True)
    names = [p.name for p in kernel.compiled.program("sm_80").parameters]
    assert names == ["dim", "a", "x", "y", "adj_a", "adj_x", "adj_y"]


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("diffuse", {"rate": 1.0}, "has 2 indices; give dim"),
        ("diffuse", {"dim": 7}, "dim=7 does not fit"),
        ("axpy", {"x": (2, 3)}, "'x' of 'axpy' has 1 dimensions of float32"),
        ("integrate", {"x": pa.Buffer((8, 2), "float32")}, "has 1 dimensions of vec3"),
        ("axpy", {"x": 1.5}, "'x' of 'axpy' is an array; 1.5 does not fit"),
        ("axpy", {"z": 3}, "no parameter 'z'"),
        ("axpy", (1, 2, 3, 4), "4 arguments for 'axpy', whose parameters are: a, x, y"),
    ],
)
def test_arguments_that_do_not_fit(kernels, name, args, message):
    with pytest.raises(pa.LaunchError, match=message):
        pa.predict(pa.from_warp(getattr(kernels, name)), pa.Launch(1, 32, args), A100)


def test_what_is_no_kernel(kernels):
    with pytest.raises(pa.KernelSourceError, match=r"decorate a function with @wp\.kernel"):
        pa.from_warp(len)


def test_errors_of_the_compiler_have_a_place(kernels, monkeypatch):
    import warp

    def fails(*args, **kwargs):
        raise RuntimeError("no such builtin")

    monkeypatch.setattr(warp, "compile_aot_module", fails)
    with pytest.raises(pa.KernelSourceError, match=r"warp_kernels\.py:\d+: Warp cannot compile"):
        pa.predict(pa.from_warp(kernels.axpy), pa.Launch(1, 32), A100)


def test_folders_that_warp_makes_are_not_taken_for_abandoned(kernels, monkeypatch):
    """Warp compiles in a folder next to the given one, which it then renames."""
    from warp._src import build

    real = build.build_cuda

    def swept(*given, **more):
        remove_abandoned()
        return real(*given, **more)

    monkeypatch.setattr(build, "build_cuda", swept)
    monkeypatch.setattr("warp._src.context.warp._src.build.build_cuda", swept)
    launch = pa.Launch(COUNT // 256, 256, (2.0, COUNT, COUNT))
    assert pa.predict(pa.from_warp(kernels.axpy), launch, "rtx-4090").time
