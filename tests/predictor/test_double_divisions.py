"""Divisions of doubles: what an approximate reciprocal saves, against kernels that use one."""

import pytest

import perfassert as pa
from perfassert.engines.advisor.stall_elimination import double_divisions
from perfassert.frontends.toolchain import tools
from perfassert.predictor.diagnose.diagnose import advisor_case

pytestmark = pytest.mark.exhaustive(one_in=4)

SOURCE = """
__device__ double approximate(double y) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(y));
    double e = fma(-y, r, 1.0);
    e = fma(e, e, e);
    return fma(e, r, r);
}
template <int M> __device__ double over(double x, double y) {
    return M ? x * approximate(y) : x / y;
}
template <int M, int N> __global__ void divide(const double* a, double* b, int trips) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double s[N], x = a[i];
    for (int k = 0; k < N; ++k) s[k] = a[i + k];
    for (int j = 0; j < trips; ++j)
#pragma unroll
        for (int k = 0; k < N; ++k) s[k] = over<M>(x, s[k] + j);
    double sum = 0;
    for (int k = 0; k < N; ++k) sum += s[k];
    b[i] = sum;
}
template __global__ void divide<0, 1>(const double*, double*, int);
template __global__ void divide<1, 1>(const double*, double*, int);
template __global__ void divide<0, 3>(const double*, double*, int);
template __global__ void divide<1, 3>(const double*, double*, int);
"""


@pytest.fixture
def source(tmp_path):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (file := tmp_path / "divide.cu").write_text(SOURCE)
    return file


def predicted(source, method, count, device):
    kernel = pa.from_cuda(source, f"divide<{method}, {count}>")
    return pa.predict(kernel, pa.Launch(864, 256, {"trips": 100}), device, prove=0)


@pytest.mark.parametrize("device", ["a100", "h100"])
@pytest.mark.parametrize("count", [1, 3])
def test_an_approximate_reciprocal_gains_what_its_kernel_gains(source, count, device):
    before, after = (predicted(source, method, count, device) for method in (0, 1))
    gain = float(before.time) / float(after.time)
    assert gain > 1.3
    first = before.advice[0]
    assert first.optimizer == "Strength Reduction"
    assert first.suggestion.startswith("divisions of doubles")
    assert first.speedup == pytest.approx(gain, rel=0.2)  # a compiler fuses more
    assert not any(a.suggestion.startswith("divisions of doubles") for a in after.advice)


def test_what_a_division_consists_of(source):
    """Eight of double precision, of which the first step and the product are needed."""
    case = advisor_case(before := predicted(source, 0, 3, "a100"), pa.predict)
    assert before.kernel == "divide<0, 3>"
    found = double_divisions(case.code)
    assert found
    for division in found:
        doubles = [
            n for n in sorted(division.instructions) if case.instruction(n).operation == "fp64"
        ]
        needed = [n for n in doubles if n not in division.dispensable]
        assert (len(doubles), len(needed)) == (8, 4)
        assert needed == [*doubles[:3], doubles[5]]
