"""Tests that loads, stores and spills of a path that does not run cost nothing, in loops either."""

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=4)

N = 864 * 256
SOURCE = r"""
#define KERNEL(name, value) extern "C" __global__ void name(const float* a, float* o, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; float x = a[i]; \
    _Pragma("unroll 1") for (int k = 0; k < n; ++k) x = value; o[i] = x; }
KERNEL(sine, sinf(x + 1.f) / 3.7f)
KERNEL(cosecant, 1.f / sinf(x + 1.f))
KERNEL(root, sqrtf(fabsf(cosf(x) + 2.f)))
KERNEL(tangent, tanf(x * .5f))
"""


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    path = tmp_path_factory.mktemp("paths") / "paths.cu"
    path.write_text(SOURCE)

    def ask(name, device, fill):
        a = pa.Buffer((N,), "float32", fill=fill or None)
        launch = pa.Launch(864, 256, {"a": a, "o": pa.Buffer((N,)), "n": 16})
        try:
            return pa.predict(pa.from_cuda(path, name), launch, device)
        except pa.ToolchainMissing as missing:
            pytest.skip(str(missing))

    return ask


@pytest.mark.parametrize("device", ["t4", "a100", "h100"])
@pytest.mark.parametrize("name", ["sine", "cosecant", "root", "tangent"])
@pytest.mark.exhaustive(one_in=3)
def test_known_numbers_that_take_no_slow_path_take_as_long_as_unknown_ones(predict, name, device):
    unknown, known = predict(name, device, ""), predict(name, device, "constant 1")
    for p in (unknown, known):
        assert float(p.volumes.l2_store.per_thread) == pytest.approx(4)
        assert "Register Reuse" not in [a.optimizer for a in p.advice]
    assert float(known.time) == pytest.approx(float(unknown.time), rel=0.02)


def test_numbers_that_take_the_slow_path_pay_for_it(predict):
    """Beyond 105615 arguments are reduced by a product with many digits of 2 / pi, on the stack."""
    fast = predict("sine", "a100", "constant 1")
    launches = [predict("sine", "a100", fill) for fill in ("constant 1", "constant 1000000")]
    assert launches[0].resources.instructions == fast.resources.instructions
    assert launches[1].resources.instructions > 1.02 * fast.resources.instructions
    assert float(launches[1].volumes.l2_store.per_thread) > 4.5


MASKED = """
extern "C" __global__ void masked(const float* __restrict__ m, const int* __restrict__ f, int n,
                                  int rows, float* out) {
    for (int k = 0; k < rows; k++) {
        if (m[k] != %s) {
            float s = 0;
            for (int i = threadIdx.x; i < n; i += blockDim.x) s += f[i];
            out[k * blockDim.x + threadIdx.x] = s;
        }
        out[k] += 1;
    }
}
"""


@pytest.mark.parametrize("mark", ["-2011.f", "0.f"])
def test_a_mark_in_the_data_that_ordinary_numbers_do_not_have_decides_nothing(tmp_path, mark):
    """The side that skips the work has no access of its own; the other one has them all."""
    (tmp_path / "masked.cu").write_text(MASKED % mark)
    sizes = {"m": 8000, "f": 600_000, "out": 2048 * 256}
    args = {name: pa.Buffer((size,)) for name, size in sizes.items()} | {"n": 5922, "rows": 8}
    kernel = pa.from_cuda(tmp_path / "masked.cu", "masked")
    p = pa.predict(kernel, pa.Launch(512, 256, args), "rtx-3080")
    assert p.confidence == "guessed"
    first = p.confidence_reasons[0]
    assert "depends on data" in first.text
    assert first.share > 0.9
