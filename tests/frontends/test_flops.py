"""Floating-point operations of compiled kernels, counted by what the source says."""

import pytest

import perfassert as pa
from perfassert.frontends.cuda.code_binding import _flops
from perfassert.hardware.matrix import MatrixVariant
from perfassert.kernel.graph import Node

_ONE, _TWO = "tcgen05.m128n256k16.f16.f32.ss", "tcgen05.m256n256k16.f16.f32.ss.2cta"
CODE = """
extern "C" __global__ void affine(float* a, const float* b, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = by * b[i] + 1.0f;
}
extern "C" __global__ void polynomial(double* a, const double* b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = b[i];
    a[i] = (2.0 * x + 3.0) * x + 4.0;
}
"""


def test_a_product_of_two_units_counts_half_for_each():
    """The thread of every second block starts it, every block is taken to."""
    nodes = [Node(0, name, "", ()) for name in (_ONE, _TWO)]
    one, two = (_flops(n, MatrixVariant.from_name(n.operation), None, 32)[1] for n in nodes)
    assert one == two == 2 * 128 * 256 * 16 / 32


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("kernel", "flops", "dtype"), [("affine", 2, "float32"), ("polynomial", 4, "float64")]
)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_constants_are_no_operations(tmp_path, kernel, flops, dtype, arch):
    """``HFMA2.MMA R, -RZ, RZ, 1.875, 0`` builds a constant."""
    path = tmp_path / "k.cu"
    path.write_text(CODE)
    args = {"by": 3.0} if kernel == "affine" else {}
    try:
        bound, _ = pa.from_cuda(path, kernel).compiled.bind(pa.Launch(8, 64, args), arch, 32)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    assert (bound.flops, bound.dtype) == (flops, dtype)
