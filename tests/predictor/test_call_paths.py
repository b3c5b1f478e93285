"""Hotspots of advice say by which calls the kernel gets there, inlined or not."""

import pytest

import perfassert as pa
from perfassert.engines.advisor.code import Code
from perfassert.predictor.model import bind_launch
from perfassert.predictor.session import DEFAULT

SOURCE = """\
__device__ __forceinline__ float load(const float* p, int at) {
  return p[at * 37 % 4096];
}
__device__ __noinline__ float several(const float* p, int at) {
  return load(p, at) + load(p, at + 1);
}
extern "C" __global__ void kernel(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
  for (int k = 0; k < n; ++k)
    s += several(in, (i * 17 + k + (int)s) & 4095);
  out[i] = s;
}
"""


def test_from_the_kernel_to_what_waits(tmp_path):
    """Line 2 is inlined at line 5, which is called at line 11."""
    path = tmp_path / "calls.cu"
    path.write_text(SOURCE)
    arguments = {"out": pa.Buffer(1 << 16), "in": pa.Buffer(4096), "n": 64}
    kernel, launch = pa.from_cuda(path, kernel="kernel"), pa.Launch(64, 256, arguments)
    try:
        bound = bind_launch(DEFAULT.ask(kernel, launch, pa.device("a100"))).kernel
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    loads = {
        tuple(span.short for span in i.call_path)
        for i in Code.of(bound.program).instructions
        if i.span is not None and i.span.line == 2 and i.label.startswith("LDG")
    }
    assert loads == {("calls.cu:11", "calls.cu:5")}
    own = [i for i in Code.of(bound.program).instructions if i.span and i.span.line == 12]
    assert own
    assert all(i.call_path == () for i in own)
