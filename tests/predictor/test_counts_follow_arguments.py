"""Trip counts that are functions of arguments are known, whatever a loop's body calls."""

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=4)

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
@pytest.mark.exhaustive(one_in=4)
def test_a_loop_over_the_grid(path, function, blocks):
    buffer = pa.Buffer((N,))
    launch = pa.Launch(blocks, 256, {"x": buffer, "y": buffer, "n": N})
    p = predict(path, function, "stride", launch)
    assert p.confidence != "guessed"
    assert float(p.volumes.dram_load.total) == pytest.approx(4 * N, rel=0.01)
    assert float(p.time) >= float(p.speed_of_light)


@pytest.mark.parametrize("function", ["sinf", "cosf", "tanf", "expf", "logf"])
@pytest.mark.exhaustive(one_in=3)
def test_a_loop_of_a_thousand_iterations(path, function):
    buffer, m = pa.Buffer((4096 * 1024,)), 1024
    launch = pa.Launch(16, 256, {"x": buffer, "y": buffer, "n": 4096, "m": m})
    p = predict(path, function, "rows", launch)
    assert p.confidence != "guessed"
    assert float(p.volumes.dram_load.total) == pytest.approx(4 * 4096 * m, rel=0.01)
    assert p.resources.instructions >= 16 * 8 * m * 5


IDLE = r"""
#define KERNEL extern "C" __global__ void
#define SUM(x, y) float s = 0; for (int k = 0; k < 64; ++k) s += x[k]; y[i] = s;
KERNEL by_argument(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; SUM(x, y) }
KERNEL by_data(const float* x, float* y, const int* active) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (active[0] == 0) return; SUM(x, y) }
"""


@pytest.mark.parametrize(
    ("kernel", "argument", "reason"),
    [
        ("by_argument", {"n": 0}, "no thread of the launch stores to global memory, as n = 0"),
        ("by_argument", {"n": 1}, ""),
        ("by_data", {"active": 0}, "as a condition on loaded data does not hold"),
        ("by_data", {"active": 1}, ""),
    ],
)
def test_a_launch_that_does_nothing_says_why(tmp_path, kernel, argument, reason):
    (tmp_path / "idle.cu").write_text(IDLE)
    if "active" in argument:
        fill = f"constant {argument['active']}"
        argument = {"active": pa.Buffer((16,), "int32", fill=fill)}
    args = {"x": pa.Buffer((64,)), "y": pa.Buffer((1 << 14,)), **argument}
    try:
        p = pa.predict(pa.from_cuda(tmp_path / "idle.cu", kernel), pa.Launch(64, 256, args), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    texts = [a.text for a in p.assumptions if "stores to global memory" in a.text]
    assert bool(texts) == bool(reason)
    assert all(reason in text for text in texts)
