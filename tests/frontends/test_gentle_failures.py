"""Tests that the front ends of generators name what is missing and the remedy."""

import importlib
import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.frontends.generators import generated
from perfassert.frontends.generators.recognised import kernel_of

A100 = "A100-SXM4-40GB"
POINTERS = dict.fromkeys(("x", "y", "out"), "*fp32")
OUT = dict.fromkeys(("x", "out"), "*fp32")
GENERATED = Path(__file__).parents[2] / "examples/generated"


class OfCupy:
    code, options, name = 'extern "C" __global__ void f() {}', (), "f"


class OfCute:
    __ptx__ = ""


OfCupy.__module__, OfCute.__module__ = "cupy._core.raw", "cutlass.base_dsl"
MADE = {
    "triton": lambda: pa.from_triton(object(), {}),
    "numba": lambda: pa.from_numba(object(), "void()"),
    "pystencils": lambda: pa.from_pystencils(object()),
    "warp": lambda: pa.from_warp(object()),
    "inductor": lambda: pa.from_inductor(GENERATED / "inductor_rows.py"),
    "helion": lambda: pa.from_helion(GENERATED / "helion_exponents.py", POINTERS),
}


@pytest.mark.parametrize(
    ("front_end", "module", "extra"),
    [
        ("triton", "triton", "triton"),
        ("numba", "numba.cuda", "numba"),
        ("pystencils", "pystencils", "pystencils"),
        ("warp", "warp", "warp"),
        ("inductor", "triton", "triton"),
        ("helion", "triton", "triton"),
    ],
)
def test_the_package_is_absent(monkeypatch, front_end, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    message = f'{module} cannot be imported.*pip install "perfassert\\[{extra}\\]"'
    with pytest.raises(pa.ToolchainMissing, match=message):
        MADE[front_end]()


LONG = 10**5000  # Python refuses to write so many digits
TAKES = {
    "cutlass": lambda: pa.from_cute(LONG),
    "cupy._core.raw": lambda: pa.from_cupy(LONG),
    "numba.cuda": lambda: pa.from_numba(LONG, "void()"),
    "pystencils": lambda: pa.from_pystencils(LONG),
    "triton": lambda: pa.from_triton(LONG, {}),
    "warp": lambda: pa.from_warp(LONG),
    "source object": lambda: pa.from_source_object(LONG),
    "pytest": lambda: kernel_of(LONG, pa.Launch(1, 32)),
}


@pytest.mark.parametrize("front_end", TAKES)
def test_what_is_no_kernel_and_cannot_be_written_out(front_end):
    if front_end in ("numba.cuda", "pystencils", "triton", "warp"):
        pytest.importorskip(front_end)
    with pytest.raises(pa.KernelSourceError, match="a int"):
        TAKES[front_end]()


@pytest.mark.parametrize(
    ("front_end", "module", "distribution", "installed", "tested", "extra"),
    [
        ("triton", "triton", "triton", "3.3.1", "3.4 to 3.9", "triton"),
        ("triton", "triton", "triton", "3.10.0", "3.4 to 3.9", "triton"),
        ("inductor", "triton", "triton", "4.0", "3.4 to 3.9", "triton"),
        ("helion", "triton", "triton", "2.1", "3.4 to 3.9", "triton"),
        ("numba", "numba.cuda", "numba-cuda", "0.4.1", "0.30 to 0.30", "numba"),
        ("pystencils", "pystencils", "pystencils", "1.3.7", "2.0 to 2.0", "pystencils"),
        ("warp", "warp", "warp-lang", "1.2.0", "1.19 to 1.19", "warp"),
        ("cupy", None, "cupy-cuda13x", "12.3.0", "13 to 13", "cupy"),
        ("cute", None, "nvidia-cutlass-dsl", "4.2.1", "4.4 to 4.8", "cute"),
    ],
)
def test_an_untested_release(
    monkeypatch, front_end, module, distribution, installed, tested, extra
):
    """Warns, and names the tested releases and the line for pip."""
    make = installed_as(monkeypatch, front_end, module, distribution, installed)
    message = f"{distribution} {re.escape(installed)} is untested; {re.escape(tested)} are tested"
    with (
        pytest.warns(pa.PerfAssertWarning, match=f"{message}.*perfassert\\[{extra}\\]"),
        suppress(pa.KernelSourceError),  # of what is no kernel
    ):
        make()


@pytest.mark.parametrize("installed", ["3.4.0", "3.6.0", "3.7.1", "3.9.1+git1"])
def test_a_tested_release(monkeypatch, installed):
    make = installed_as(monkeypatch, "triton", "triton", "triton", installed)
    with pytest.raises(pa.KernelSourceError, match="is no JIT function"):
        make()


def installed_as(monkeypatch, front_end, module, distribution, installed):
    """Return what asks the front end, to which the distribution seems to be of that release."""
    if module is not None:
        pytest.importorskip(module)
    more = {"cupy": lambda: pa.from_cupy(OfCupy()), "cute": lambda: pa.from_cute(OfCute())}

    def version(name):
        if name == distribution:
            return installed
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(generated, "version", version)
    return (MADE | more)[front_end]


def numba():
    kernel = import_module("kernels.numba_kernels").axpy
    return pa.from_numba(kernel, "void(float32, float32[::1], float32[::1])"), {"a": 2.0}


def warp():
    return pa.from_warp(import_module("kernels.warp_kernels").diffuse), {"rate": 2.0}


def triton():
    types = {"target": "*fp32", "source": "*fp32", "columns": "i32", "pitch": "i32"}
    function = import_module("kernels.triton_softmax").softmax
    return pa.from_triton(function, types, {"BLOCK": 1024}, num_warps=8), {"columns": 1000}


def assignments():
    ps = import_module("pystencils")
    f, g = ps.fields("f, g: float32[3D]", layout="fzyx")
    return [ps.Assignment(g[0, 0, 0], f[1, 0, 0])]


def generated_code():
    ps = import_module("pystencils")
    config = ps.CreateKernelConfig(target=ps.Target.CUDA)
    return pa.from_pystencils(ps.create_kernel(assignments(), config)), {}


@pytest.mark.parametrize(
    ("module", "make", "error", "message"),
    [
        ("numba.cuda", numba, "LaunchError", r"needs its argument 'x.shape\[0\]'.*Launch.args"),
        ("warp", warp, "LaunchError", r"has 2 indices; give dim in Launch.args"),
        ("triton", triton, "LaunchError", r"needs its argument 'pitch'.*give it in Launch.args"),
        (
            "pystencils",
            lambda: (pa.from_pystencils(assignments()), {}),
            "KernelSourceError",
            r"the shape of f, g is not fixed; say it",
        ),
        ("pystencils", generated_code, "LaunchError", r"needs its argument 'f.*Launch.args"),
        (
            "triton",
            lambda: pa.from_inductor(GENERATED / "inductor_columns.py"),
            "KernelSourceError",
            r"'s0' has no value; give sizes=",
        ),
        (
            "triton",
            lambda: pa.from_helion(GENERATED / "helion_row_sums.py", OUT),
            "KernelSourceError",
            r"'x.size\(0\)' has no value; give sizes=",
        ),
    ],
)
def test_the_shape_is_dynamic(module, make, error, message):
    """No shape is made up: what has none is named."""
    pytest.importorskip(module)
    with pytest.raises(getattr(pa, error), match=message):
        predict(*make())


def predict(kernel, args):
    return pa.predict(kernel, pa.Launch(4096, 256, args), A100)


def on_a_cpu():
    ps = import_module("pystencils")
    return pa.from_pystencils(ps.create_kernel(assignments()))


def elementwise():
    cupy = import_module("cupy")
    return pa.from_cupy(cupy.ElementwiseKernel("float32 x", "float32 y", "y = x", "copy"))


def interpreted():
    kernel = type("InterpretedFunction", (), {})()
    return pa.from_triton(kernel, {})


@pytest.mark.parametrize(
    ("module", "make", "message"),
    [
        ("pystencils", on_a_cpu, r"is a kernel of a CPU; create it with .*Target.CUDA"),
        ("cupy", elementwise, r"has none before it is launched"),
        ("triton", interpreted, r"TRITON_INTERPRET is set"),
        (None, lambda: pa.from_cute(OfCute()), r"set CUTE_DSL_KEEP_PTX=1"),
        (None, lambda: pa.from_cute(object()), r"is not compiled by CUTLASS"),
        ("triton", lambda: pa.from_helion(__file__, {}), r"launches no Triton kernel"),
        ("triton", lambda: pa.from_inductor(__file__), r"give the output_code.py"),
    ],
)
def test_the_kernel_needs_a_gpu_or_is_none(module, make, message):
    """A kernel that is compiled at its launch, or for another machine, has an error that says
    so."""
    if module is not None:
        pytest.importorskip(module)
    with pytest.raises(pa.KernelSourceError, match=message):
        make()
