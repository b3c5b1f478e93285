"""Block Increase for loops that stride by the grid: what the larger grid is predicted to gain."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=3)

SOURCE = """
extern "C" __global__ void scale(const float* a, float* o, int n) {
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
        o[k] = a[k] * 2;
}
extern "C" __global__ void sums(const float* a, float* o, int n) {
    float sum = 0;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
        sum += a[k];
    o[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void plain(const float* a, float* o, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) o[k] = a[k] * 2;
}
"""
N = 1 << 24


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (file := tmp_path_factory.mktemp("grids") / "grids.cu").write_text(SOURCE)

    def predict(name, blocks, n=N):
        return pa.predict(pa.from_cuda(file, name), pa.Launch(blocks, 1024, {"n": n}), "a100")

    return predict


def increase(prediction):
    return next((a for a in prediction.advice if a.optimizer == "Block Increase"), None)


def test_the_gain_is_that_of_the_larger_grid(predict):
    few = predict("scale", 16)
    advice = increase(few)
    times = {blocks: float(predict("scale", blocks).time) for blocks in (108, 216)}
    best = min(times, key=times.get)
    assert f"launch {best} blocks" in advice.suggestion
    assert advice.speedup == pytest.approx(float(few.time) / times[best], rel=1e-6)
    assert advice.speedup > 5


def test_a_grid_that_fills_the_units_stays(predict):
    assert increase(predict("scale", 216)) is None


def test_a_kernel_that_stores_for_each_thread_keeps_its_grid(predict):
    """Twice as many threads would store twice as many sums."""
    advice = increase(predict("sums", 16))
    assert advice is None or "strides by the grid" not in advice.suggestion


def test_a_kernel_without_such_a_loop_keeps_its_grid(predict):
    advice = increase(predict("plain", 16, 16 * 1024))
    assert advice is None or "strides by the grid" not in advice.suggestion
