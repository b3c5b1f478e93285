"""Lines: calls are charged with what is inlined into them, waits go back to who caused them."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools
from perfassert.predictor.diagnose.line_costs import line_costs

SOURCE = """\
__device__ __forceinline__ float weight(const float* w, int i) {
  return w[i] * w[i + 1];
}
__device__ __forceinline__ float twice(const float* w, int i) {
  return 2 * weight(w, i);
}
__global__ void smooth(float* out, const float* in, const float* w, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float mine = in[i];
  float other = in[n - 1 - i];
  s[threadIdx.x] = mine;
  __syncthreads();
  out[i] = s[255 - threadIdx.x] * other + twice(w, i);
}
"""
HELPER, MIDDLE, LOAD, KEPT, CALLS = 2, 5, 11, 13, 15


@pytest.fixture(scope="module")
def prediction(tmp_path_factory):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    source = tmp_path_factory.mktemp("lines") / "smooth.cu"
    source.write_text(SOURCE)
    n = 1 << 20
    args = {"n": n, **{name: pa.Buffer(n + 1024, "float32") for name in ("out", "in", "w")}}
    return pa.predict(pa.from_cuda(source), pa.Launch.cover(n, 256, args), "a100")


def test_a_call_is_charged_with_all_that_is_inlined(prediction):
    lines = {cost.line: cost for cost in line_costs(prediction)}
    helper = lines[HELPER]
    own = (helper.instructions, helper.wavefronts, helper.sectors)
    assert helper.called == (0, 0, 0)
    assert min(own) > 0
    middle = lines[MIDDLE]
    assert middle.called == own
    assert lines[CALLS].called == (helper.instructions + middle.instructions, *own[1:])


def test_what_lines_cost_by_themselves_adds_up(prediction):
    issued = sum(cost.instructions for cost in line_costs(prediction))
    assert issued == pytest.approx(prediction.resources.instructions / prediction.warps, rel=0.02)


def test_a_wait_is_for_the_line_that_loads(prediction):
    waits = prediction.diagnosis.waits
    found = {(w.line, w.for_line): w for w in waits if w.stall == "memory_dependency"}
    assert found[KEPT, LOAD].share > 0.05
    assert [w.share for w in waits] == sorted((w.share for w in waits), reverse=True)
    for reason in {w.stall for w in waits}:
        together = sum(w.share for w in waits if w.stall == reason)
        assert together <= prediction.stalls[reason] * 1.0001
    assert sum(w.share for w in waits) > 0.8 * prediction.stalls["memory_dependency"]


def test_kernels_without_lines_have_no_waits():
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(4096,))], ["a[x]"])
    assert pa.predict(kernel, pa.Launch.cover(4096, 128), "a100").diagnosis.waits == ()
