"""Larger and smaller blocks are proposed as they are predicted."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

SOURCE = """
__global__ void copy(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
__global__ void heavy(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0, a[24];
    for (int k = 0; k < 24; ++k) a[k] = in[i + k];
    for (int j = 0; j < 64; ++j)
        for (int k = 0; k < 24; ++k) a[k] = a[k] * a[(k + 5) % 24] + s;
    for (int k = 0; k < 24; ++k) s += a[k];
    out[i] = s;
}
__global__ void row(const float* in, float* out, int n) {
    float s = 0;
    for (int k = threadIdx.x; k < n; k += 64) s += in[blockIdx.x * n + k];
    out[blockIdx.x * 64 + threadIdx.x] = s;
}
"""


@pytest.fixture
def predicted(tmp_path):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (file := tmp_path / "sizes.cu").write_text(SOURCE)

    def predict(kernel, threads, total, device="a100"):
        launch = pa.Launch(
            total // threads, threads, args={"n": total if kernel != "row" else 4096}
        )
        return pa.predict(pa.from_cuda(file, kernel), launch, device, prove=0)

    return predict


def advice(prediction, optimizer):
    return next((a for a in prediction.advice if a.optimizer == optimizer), None)


def test_twice_as_many_threads_as_long_as_that_gains(predicted):
    before = predicted("copy", 32, 1 << 22)
    larger = advice(before, "Thread Increase")
    size = int(larger.suggestion.split()[2])
    times = {n: predicted("copy", n, 1 << 22).time for n in (32, 64, 128, 256, 512, 1024)}
    assert larger.proof == f"blocks of {size}: {before.time} → {times[size]}"
    assert larger.speedup == pytest.approx(float(times[32]) / float(times[size]))
    assert size == 1024 or times[2 * size] >= times[size]
    assert times[64] < times[32]


@pytest.mark.parametrize("device", ["rtx3090", "l40s"])
def test_smaller_blocks_fill_an_sm_of_1536_threads(predicted, device):
    """An SM holds one block of 1,024 threads, or three of 512."""
    before = predicted("heavy", 1024, 1 << 22, device)
    smaller = advice(before, "Block Increase")
    size = int(smaller.suggestion.split()[2])
    after = predicted("heavy", size, 1 << 22, device)
    assert size < 1024
    assert after.occupancy.fraction > before.occupancy.fraction
    assert smaller.speedup == pytest.approx(float(before.time) / float(after.time))


def test_a_block_with_a_row_of_its_own_keeps_its_size(predicted):
    before = predicted("row", 64, 1 << 20)
    assert not {"Thread Increase", "Block Increase"} & {
        a.optimizer for a in before.advice if a.suggestion.startswith("blocks of")
    }
