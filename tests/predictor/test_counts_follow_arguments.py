"""Trip counts that are functions of arguments are known, whatever a loop's body calls."""

import pytest

import perfassert as pa

SOURCE = r"""
#define KERNEL extern "C" __global__ void
KERNEL stride(const float* x, float* y, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = FUNCTION(x[i]); }
KERNEL rows(const float* x, float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;
    for (int k = 0; k < m; ++k) s += FUNCTION(x[k * n + i]);
    y[i] = s; }
"""
N = 20_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trips")
    return lambda name: folder / f"{name}.cu"


def predict(path, function, kernel, launch, device="rtx-3090"):
    place = path(function)
    place.write_text(SOURCE.replace("FUNCTION", function))
    try:
        return pa.predict(pa.from_cuda(place, kernel), launch, device)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("function", ["sinf", "cosf", "tanf", "expf", "logf", "erff", "sqrtf"])
@pytest.mark.parametrize("blocks", [78125, 2560])
def test_a_loop_over_the_grid(path, function, blocks):
    buffer = pa.Buffer((N,))
    launch = pa.Launch(blocks, 256, {"x": buffer, "y": buffer, "n": N})
    p = predict(path, function, "stride", launch)
    assert p.confidence != "guessed"
    assert float(p.volumes.dram_load.total) == pytest.approx(4 * N, rel=0.01)
    assert float(p.time) >= float(p.speed_of_light)


@pytest.mark.parametrize("function", ["sinf", "cosf", "tanf", "expf", "logf"])
def test_a_loop_of_a_thousand_iterations(path, function):
    buffer, m = pa.Buffer((4096 * 1024,)), 1024
    launch = pa.Launch(16, 256, {"x": buffer, "y": buffer, "n": 4096, "m": m})
    p = predict(path, function, "rows", launch)
    assert p.confidence != "guessed"
    assert float(p.volumes.dram_load.total) == pytest.approx(4 * 4096 * m, rel=0.01)
    assert p.resources.instructions >= 16 * 8 * m * 5
