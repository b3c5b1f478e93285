"""The gate of the repository in the story: every kernel beside its baseline."""

from pathlib import Path

import perfassert as pa

KERNELS = Path(__file__).parent / "kernels"
N = 1 << 26


def test_transpose(perf):
    kernel = pa.from_cuda(KERNELS / "transpose.cu", "transpose")
    launch = pa.Launch((128, 128), (32, 8), args={"rows": 4096, "columns": 4096})
    perf.no_regression(perf(kernel, launch), tolerance="2 %")


def test_polynomial(perf):
    kernel = pa.from_cuda(KERNELS / "polynomial.cu", "polynomial")
    launch = pa.Launch(108 * 32, 256, args={"n": N})
    perf.no_regression(perf(kernel, launch), tolerance="2 %")


def test_smooth(perf):
    kernel = pa.from_cuda(KERNELS / "smooth.cu", "smooth")
    p = perf(kernel, domain=(8192, 8192), block=(32, 8), args={"nx": 8192, "ny": 8192})
    perf.no_regression(p, tolerance="2 %")
