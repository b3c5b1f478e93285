"""Data decides: slow paths that the sample takes are simulated, of each call as often as it was."""

import pytest

import perfassert as pa

CODE = """
extern "C" __global__ void quotients(const double* a, const double* b, double* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = a[i], y = b[i], sum = (x + 1.0) / (y + 1.0);
    if (y > 1.5)
        sum += x * 1e-310 / y;
    out[i] = sum;
}
"""
N = 1 << 14


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "quotients.cu"
    path.write_text(CODE)
    return path


def predicted(path, denominator):
    args = {"a": pa.Buffer(N, "float64", fill="constant 3"), "b": pa.Buffer(
        N, "float64", fill=f"constant {denominator}"), "out": pa.Buffer(N, "float64")}  # fmt: skip
    try:
        return pa.predict(pa.from_cuda(path), pa.Launch(N // 128, 128, args), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def test_a_slow_path_that_data_takes_is_simulated(path):
    """Only the call with a denormal numerator is simulated, of two calls of the slow path."""
    plain, slow = predicted(path, 1), predicted(path, 2)
    for p in (plain, slow):
        assert p.confidence != "guessed", p.confidence_reasons
        assert not any("are simulated" in a.text for a in p.assumptions)
    more = slow.resources.instructions - plain.resources.instructions
    assert more > 40 * N / 32  # the second quotient and its slow path
    assert float(slow.time) > float(plain.time)
    assert float(slow.volumes.dram_load.total) == float(plain.volumes.dram_load.total)


def test_without_contents_slow_paths_are_not_taken(path):
    args = {
        "a": pa.Buffer(N, "float64"),
        "b": pa.Buffer(N, "float64"),
        "out": pa.Buffer(N, "float64"),
    }
    p = pa.predict(pa.from_cuda(path), pa.Launch(N // 128, 128, args), "a100")
    assert any("slow paths of division" in a.text for a in p.assumptions)
