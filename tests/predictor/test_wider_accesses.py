"""Neighbouring elements one by one: what wider accesses gain, against kernels that have them."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=4)

SOURCE = """
typedef unsigned char byte;
__global__ void threads(const byte* a, byte* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] * 2 + 1;
}
__global__ void threads_wide(const uint4* a, uint4* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        uint4 v = a[i];
        v.x = v.x * 2 + 1, v.y = v.y * 2 + 1, v.z = v.z * 2 + 1, v.w = v.w * 2 + 1;
        b[i] = v;
    }
}
__global__ void strides(const byte* a, byte* b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        b[i] = a[i] * 2 + 1;
}
__global__ void strides_wide(const uint4* a, uint4* b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint4 v = a[i];
        v.x = v.x * 2 + 1, v.y = v.y * 2 + 1, v.z = v.z * 2 + 1, v.w = v.w * 2 + 1;
        b[i] = v;
    }
}
__global__ void iterations(const byte* a, int* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
#pragma unroll 1
    for (int k = 0; k < 16; ++k) s += a[16 * i + k];
    b[i] = s;
}
__global__ void iterations_wide(const uint4* a, int* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
    uint4 v = a[i];
    unsigned w[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 4; ++k)
        for (int j = 0; j < 4; ++j) s += w[k] >> 8 * j & 255;
    b[i] = s;
}
__global__ void instructions(const float* a, float* b, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n)
        for (int k = 0; k < 4; ++k) b[i + k] = a[i + k] * 2 + 1;
}
__global__ void instructions_wide(const float4* a, float4* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = a[i];
        v.x = v.x * 2 + 1, v.y = v.y * 2 + 1, v.z = v.z * 2 + 1, v.w = v.w * 2 + 1;
        b[i] = v;
    }
}
__global__ void decides(const byte* a, byte* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[a[i]];
}
__global__ void apart(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[3 * i];
}
"""
BYTES = 1 << 26


@pytest.fixture
def source(tmp_path):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (file := tmp_path / "narrow.cu").write_text(SOURCE)
    return file


def predicted(source, kernel, blocks, n, device):
    launch = pa.Launch(blocks, 256, args={"n": n})
    return pa.predict(pa.from_cuda(source, kernel), launch, device, prove=0)


def advice(prediction, optimizer="Memory Transaction Reduction"):
    return next((a for a in prediction.advice if a.optimizer == optimizer), None)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("device", ["a100", "h100", "rtx3090"])
@pytest.mark.parametrize(
    ("kernel", "blocks", "n", "wide_blocks", "wide_n", "width"),
    [
        ("threads", BYTES // 256, BYTES, BYTES // 4096, BYTES // 16, 16),
        ("strides", 864, BYTES, 864, BYTES // 16, 16),
        ("iterations", BYTES // 4096, BYTES, BYTES // 4096, BYTES // 16, 16),
        ("instructions", BYTES // 4096, BYTES // 4, BYTES // 4096, BYTES // 4, 4),
    ],
)
def test_it_gains_what_a_kernel_with_wide_accesses_gains(
    source, kernel, blocks, n, wide_blocks, wide_n, width, device
):
    narrow = predicted(source, kernel, blocks, n, device)
    wide = predicted(source, f"{kernel}_wide", wide_blocks, wide_n, device)
    gain = float(narrow.time) / float(wide.time)
    found = advice(narrow)
    if gain < 1.02:
        assert found is None or found.speedup < 1.05
        return
    assert f"access {width} of them as one" in found.suggestion
    assert found.speedup == pytest.approx(gain, rel=0.06)
    assert advice(wide) is None


@pytest.mark.parametrize("kernel", ["decides", "apart"])
def test_nothing_is_said_where_nothing_can_be_wider(source, kernel):
    found = advice(predicted(source, kernel, BYTES // 256, BYTES, "a100"))
    assert found is None or "one by one" not in found.suggestion


def test_a_layout_moves_all_that_there_is(source):
    """Four floats of a thread, in other places: no byte less than their arrays have."""
    before = predicted(source, "instructions", BYTES // 4096, BYTES // 4, "a100")
    coalesced = advice(before, "Coalescing")
    arrays = 2 * BYTES / pa.device("a100").dram_bandwidth
    assert coalesced is None or float(before.time) / coalesced.speedup > arrays
