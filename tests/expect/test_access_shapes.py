"""Widths of accesses and bank conflicts as metrics."""

from __future__ import annotations

import pytest

import perfassert as pa

SOURCE = """
__global__ void wide(float4* a, const float4* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = b[i];
}
__global__ void narrow_stores(float* a, const float4* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = b[i];
    a[i] = v.x; a[i + 4096] = v.y; a[i + 8192] = v.z; a[i + 12288] = v.w;
}
__global__ void with_a_scale(float4* a, const float4* b, const float* scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = b[i];
    float s = threadIdx.x < 32 && blockIdx.x == 0 ? scale[threadIdx.x] : 1.0f;
    a[i] = make_float4(v.x * s, v.y, v.z, v.w);
}
__global__ void column(float* a) {
    __shared__ float tile[32 * 32];
    tile[threadIdx.x * 32 % 1024 + threadIdx.x / 32] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = tile[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("shapes") / "shapes.cu"
    path.write_text(SOURCE)
    return path


def _predict(source, kernel, launch=None):
    return pa.predict(pa.from_cuda(source, kernel), launch or pa.Launch(16, 256), "a100")


def test_wide_accesses_are_wide(source):
    _predict(source, "wide").expect(load_width="== 16 B", store_width="== 16 B", bank_conflicts=1)


def test_one_direction_may_be_narrow(source):
    _predict(source, "narrow_stores").expect(load_width="== 16 B", store_width="== 4 B")


def test_few_narrow_bytes_do_not_count(source):
    _predict(source, "with_a_scale").expect(load_width="== 16 B")


def test_bank_conflicts_are_counted_over_loads_and_stores(source):
    # 32 passes for each store and one for each load, where one each would do
    predicted = _predict(source, "column", pa.Launch(1, 1024))
    predicted.expect(bank_conflicts=16.5)
    with pytest.raises(pa.ExpectationFailed, match=r"bank_conflicts is 16.5, expected < 1.05"):
        predicted.expect(bank_conflicts="< 1.05")


def test_a_kernel_that_loads_nothing_has_no_width_of_loads():
    fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=1 << 16)], stores=["a[x]"])
    predicted = pa.predict(fill, pa.Launch(256, 256), "a100")
    predicted.expect(store_width="== 8 B")
    with pytest.raises(pa.ExpectationError, match="no thread of it loads global memory"):
        predicted.expect(load_width=">= 4 B")
