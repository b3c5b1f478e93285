"""Blocks too long to be simulated whole take as long per step as short ones."""

import pytest

import perfassert as pa
from tests.frontends.described import missing

CHAIN = """
extern "C" __global__ void chain(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; float s = 0, x = a[i];
  #pragma unroll 1
  for (int j = 0; j < n; j++)
    #pragma unroll
    for (int k = 0; k < 32; k++) s = s * x + x;
  out[i] = s;
}
"""


@pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed")
def test_a_step_of_a_long_block_takes_two_cycles_of_each_warp(tmp_path):
    path = tmp_path / "chain.cu"
    path.write_text(CHAIN)
    launch = pa.Launch(108 * 16, 128, {"n": 20_000})  # 16 warps on each scheduler
    found = pa.predict(pa.from_cuda(path), launch, "A100-SXM4-40GB")
    assert 32 <= float(found.cycles) / (20_000 * 32) < 32 * 1.05
