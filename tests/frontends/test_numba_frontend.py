"""Tests of :func:`from_numba` on functions under ``@cuda.jit``, and of what it rejects."""

from importlib import import_module

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

A100 = "A100-SXM4-40GB"
COUNT = 1 << 20
ROWS, COLUMNS = 1024, 2048


@pytest.fixture(scope="module")
def functions():
    pytest.importorskip("numba.cuda")
    if tools.find("ptxas") is None or tools.find("nvdisasm") is None:
        pytest.skip("ptxas or nvdisasm is not installed")
    return import_module("kernels.numba_kernels")


@pytest.fixture(scope="module")
def axpy(functions):
    return pa.from_numba(functions.axpy, "void(float32, float32[:], float32[:])")


def of_launch(kernel, launch):
    return kernel.bind(launch, "sm_80", 32)[0]


@pytest.mark.parametrize(
    "args",
    [
        {"a": 2.0, "x": COUNT, "y": (COUNT,)},
        {"a": 2.0, "x": pa.Buffer(COUNT, "float32"), "y": COUNT},
        (2.0, COUNT, COUNT),
    ],
)
def test_arrays_are_arguments(axpy, args):
    """A thread reads two numbers and writes one."""
    prediction = pa.predict(axpy, pa.Launch(COUNT // 256, 256, args), A100)
    assert prediction.volumes.dram_load.per_thread == 8
    assert prediction.volumes.dram_store.per_thread == 4


def test_an_array_itself(axpy):
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(COUNT, numpy.float32)
    launch = pa.Launch(COUNT // 256, 256, {"a": 2, "x": array, "y": array})
    assert pa.predict(axpy, launch, A100).volumes.dram_load.per_thread == 8


def test_a_stride_of_its_own(axpy):
    """Every second number of x is read, so that half of the bytes of its sectors are used."""
    args = {"a": 2.0, "x": COUNT, "y": COUNT, "x.strides[0]": 8}
    prediction = pa.predict(axpy, pa.Launch(COUNT // 256, 256, args), A100)
    assert prediction.volumes.l2_load.per_thread == 8 + 4


def test_a_stride_that_the_code_does_not_read(functions):
    """Numba knows the stride of an array without gaps."""
    kernel = pa.from_numba(functions.axpy, "void(float32, float32[::1], float32[::1])")
    args = {"a": 2.0, "x": COUNT, "y": COUNT}
    launch = pa.Launch(COUNT // 256, 256, {**args, "x.strides[0]": 4})  # which it has anyway
    spelled = kernel.spell_out(launch)
    assert pa.predict(kernel, launch, A100).time == pa.predict(kernel, spelled, A100).time
    launch = pa.Launch(COUNT // 256, 256, {**args, "x.strides[0]": 8})
    with pytest.raises(pa.LaunchError, match=r"does not read 'x.strides\[0\]'; leave it out"):
        pa.predict(kernel, launch, A100)


def test_the_guard_is_the_arrays_extent(axpy):
    launch = pa.Launch(COUNT // 128, 256, {"a": 2.0, "x": COUNT, "y": COUNT})
    assert axpy.bind(launch, "sm_80", 32)[1].extent[0] == COUNT


@pytest.mark.parametrize("layout", ["C", "F"])
def test_layouts(functions, layout):
    """Neighbours are rows of the one and columns of the other."""
    from numba import types

    kind = types.Array(types.float32, 2, layout)
    kernel = pa.from_numba(functions.transpose, (kind, kind))
    shapes = {"src": (ROWS, COLUMNS), "dst": (COLUMNS, ROWS)}
    launch = pa.Launch((COLUMNS // 16, ROWS // 16), (16, 16), shapes)
    spelled = kernel.spell_out(launch)
    steps = (COLUMNS * 4, 4) if layout == "C" else (4, ROWS * 4)
    assert tuple(spelled.args[f"src.strides[{i}]"] for i in (0, 1)) == steps
    assert kernel.spell_out(spelled).args == spelled.args
    places = {(a.field, a.direction.value) for a in of_launch(kernel, launch).bound}
    assert places == {("src", "load"), ("dst", "store")}


def test_data_of_columns(functions):
    """The data are given as they lie in memory: column by column."""
    numpy = pytest.importorskip("numpy")
    from numba import types

    kind = types.Array(types.float32, 2, "F")
    kernel = pa.from_numba(functions.transpose, (kind, kind))
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    launch = kernel.spell_out(pa.Launch(1, 32, {"src": array}))
    assert list(launch.args["src"].data) == [0, 3, 1, 4, 2, 5]


def test_parameters_have_names_and_lines(axpy, functions):
    launch = pa.Launch(COUNT // 256, 256, {"a": 2.0, "x": COUNT, "y": COUNT})
    bound = of_launch(axpy, launch)
    names = [p.name for p in bound.program.parameters]
    of_x = "x.meminfo x.parent x.nitems x.itemsize x x.shape[0] x.strides[0]".split()
    assert names[:8] == ["a", *of_x]
    assert all(a.span.file == functions.__file__ for a in bound.bound)


def test_data_decides_what_is_executed(functions):
    """A gather from a described buffer is executed, as it is from CUDA source."""
    kernel = pa.from_numba(functions.gather, "void(int32[::1], float32[::1], float32[::1])")
    index = pa.Buffer(COUNT, fill="arange % 32")
    args = {"index": index, "source": COUNT, "target": COUNT}
    prediction = pa.predict(kernel, pa.Launch(COUNT // 256, 256, args), A100)
    assert prediction.volumes.dram_load.fields["source"].total <= 32 * 1024
    assert prediction.confidence != "guessed"


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("void(float32)", "has 1 types, the function 3 parameters: a, x, y"),
        ("float32(float32, float32[:], float32[:])", "is to return float32"),
        ("void(floot32)", "is no signature of 'axpy'"),
        ((object(), 1, 2), "is no signature of 'axpy'"),
    ],
)
def test_signatures_that_are_not_its(functions, signature, message):
    with pytest.raises(pa.KernelSourceError, match=message):
        pa.from_numba(functions.axpy, signature)


def test_what_is_no_kernel(functions):
    with pytest.raises(pa.KernelSourceError, match=r"decorate a function with @cuda\.jit"):
        pa.from_numba(len, "void()")
    with pytest.raises(pa.KernelSourceError, match="is no kernel"):
        pa.from_numba(functions.twice, "float32(float32)")


def test_errors_of_the_compiler_have_place_and_reason(functions):
    kernel = pa.from_numba(functions.broken, "void(float32[:])")
    with pytest.raises(pa.KernelSourceError) as caught:
        pa.predict(kernel, pa.Launch(1, 32), A100)
    assert "numba_kernels.py:" in str(caught.value)
    assert "cannot compile 'broken' for sm_80" in str(caught.value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"x": (2, 3)}, "'x' of 'axpy' has 1 dimensions"),
        ({"z": 3}, "no parameter 'z'"),
        ((1, 2, 3, 4), "4 arguments for 'axpy', whose parameters are: a, x, y"),
        ({"a": 1.0}, r"needs its argument '[xy]"),
    ],
)
def test_arguments_that_do_not_fit(axpy, args, message):
    with pytest.raises(pa.LaunchError, match=message):
        pa.predict(axpy, pa.Launch(1, 32, args), A100)
