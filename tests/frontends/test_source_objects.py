"""Objects that hold their text: CuPy's raw kernels, and whatever has ``.code`` or ``.ptx``."""

from dataclasses import dataclass, field

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import compiled_module

pytestmark = pytest.mark.exhaustive(one_in=3)

A100 = "A100-SXM4-40GB"
SAXPY = """
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
COUNT = 1 << 20
LAUNCH = pa.Launch(COUNT // 256, 256, {"n": COUNT})
needs_tools = pytest.mark.skipif(
    any(tools.find(name) is None for name in ("nvrtc", "nvdisasm", "ptxas")),
    reason="the toolchain is not installed",
)


@dataclass
class Raw:
    """Attributes as ``cupy.RawKernel`` and ``cupy.RawModule`` have them."""

    code: object = None
    name: str = ""
    options: tuple[str, ...] = ()
    file_path: str | None = None


@dataclass
class Assembled:
    ptx: object = None
    code: object = field(default=None)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "saxpy.cu"
    path.write_text(SAXPY)
    return path


@pytest.fixture
def ptx(file):
    return compiled_module(Source(file, "cuda"), "sm_80").ptx


@needs_tools
@pytest.mark.parametrize("make", [pa.from_source_object, pa.from_cupy])
def test_the_same_as_from_a_file(make, file):
    of_file = pa.predict(pa.from_cuda(file), LAUNCH, A100)
    of_text = pa.predict(make(Raw(SAXPY, "saxpy")), LAUNCH, A100)
    assert of_text.kernel == of_file.kernel == "saxpy"
    assert of_text.time == of_file.time
    assert of_text.volumes.dram_load == of_file.volumes.dram_load


@needs_tools
def test_options_and_templates_of_a_raw_kernel():
    code = """
    template <typename T> __global__ void fill(T* target) {
        target[blockIdx.x * blockDim.x + threadIdx.x] = VALUE;
    }"""
    raw = Raw(code, "fill<double>", ("-DVALUE=3", "--std=c++14"))
    prediction = pa.predict(pa.from_cupy(raw), pa.Launch(64, 256), A100)
    assert prediction.volumes.dram_store.per_thread == 8


@needs_tools
def test_one_kernel_of_a_module():
    code = SAXPY + '\nextern "C" __global__ void other(double* x) { x[threadIdx.x] = 0; }'
    kernel = pa.from_cupy(Raw(code), "other")
    assert pa.predict(kernel, pa.Launch(1, 32), A100).volumes.dram_store.per_thread == 8
    with pytest.raises(pa.KernelSourceError, match="other"):
        pa.predict(pa.from_cupy(Raw(code)), pa.Launch(1, 32), A100)


@needs_tools
def test_host_headers_go_to_nvcc_or_say_so():
    """The text is no file; nvcc gets it as one."""
    if tools.find("nvcc") is None:
        pytest.skip("nvcc is not installed")
    raw = Raw("#include <cstdio>\n" + SAXPY, "saxpy")
    try:
        prediction = pa.predict(pa.from_source_object(raw), LAUNCH, A100)
    except pa.KernelSourceError as error:  # no C++ compiler is here
        assert "g++" in str(error) or "host" in str(error)
    else:
        assert prediction.volumes.dram_load.per_thread == 8


@needs_tools
@pytest.mark.parametrize("form", [str, str.encode, lambda text: text.encode() + b"\0"])
def test_ptx(form, ptx):
    text = form(ptx)
    for held in (Assembled(ptx=text), Assembled(code=text)):
        kernel = pa.from_source_object(held)
        launch = pa.Launch(COUNT // 256, 256, (COUNT,))
        assert pa.predict(kernel, launch, A100).volumes.dram_load.per_thread == 8


@needs_tools
def test_machine_code(file):
    code = compiled_module(Source(file, "cuda"), "sm_80").cubin
    kernel = pa.from_source_object(Assembled(code=code))
    launch = pa.Launch(COUNT // 256, 256, (COUNT,))
    assert pa.predict(kernel, launch, A100).volumes.dram_load.per_thread == 8


@needs_tools
def test_object_code_of_cuda_core(ptx):
    core = pytest.importorskip("cuda.core")
    held = core.ObjectCode.from_ptx(ptx.encode(), name="a name")
    launch = pa.Launch(COUNT // 256, 256, (COUNT,))
    prediction = pa.predict(pa.from_source_object(held), launch, A100)
    assert prediction.volumes.dram_load.per_thread == 8


@needs_tools
def test_a_module_of_a_file(tmp_path, ptx):
    path = tmp_path / "saxpy.ptx"
    path.write_text(ptx)
    kernel = pa.from_cupy(Raw(file_path=str(path)))
    launch = pa.Launch(COUNT // 256, 256, (COUNT,))
    assert pa.predict(kernel, launch, A100).volumes.dram_load.per_thread == 8


@needs_tools
def test_cupy_itself():
    cupy = pytest.importorskip("cupy")
    for held in (cupy.RawKernel(SAXPY, "saxpy"), cupy.RawModule(code=SAXPY)):
        prediction = pa.predict(pa.from_cupy(held), LAUNCH, A100)
        assert prediction.volumes.dram_load.per_thread == 8


@pytest.mark.parametrize("held", [object(), Raw(), Raw(code=3), Assembled(code=b"")])
@pytest.mark.parametrize("make", [pa.from_source_object, pa.from_cupy])
def test_what_holds_no_text(make, held):
    with pytest.raises(pa.KernelSourceError, match=r"has no (text|\.code)|neither a RawKernel"):
        make(held)


def test_code_of_another_kind():
    with pytest.raises(pa.KernelSourceError, match="neither CUDA source nor PTX nor machine code"):
        pa.from_source_object(Assembled(code=b"BC\xc0\xde ltoir"))
