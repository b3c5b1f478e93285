"""CuPy's raw kernels: their text is compiled and predicted where there is no GPU."""

import pytest

import perfassert as pa

cupy = pytest.importorskip("cupy")

COUNT = 1 << 24
SUM = cupy.RawKernel(
    r"""
    extern "C" __global__ void add(const float* x, const float* y, float* sum, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) sum[i] = x[i] + y[i];
    }
    """,
    "add",
)
MODULE = cupy.RawModule(
    code=r"""
    template <typename T, int STRIDE> __global__ void pick(const T* from, T* to) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        to[i] = from[i * STRIDE];
    }
    """,
    options=("--std=c++14",),
    name_expressions=["pick<float, 2>", "pick<double, 1>"],
)

COMPLEX = cupy.RawKernel(
    r"""
    #include <cupy/complex.cuh>
    extern "C" __global__ void turn(const complex<float>* x, complex<float>* y, float angle) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = x[i] * complex<float>(cosf(angle), sinf(angle));
    }
    """,
    "turn",
)


def test_add(perf):
    launch = pa.Launch(COUNT // 256, 256, {"n": COUNT})
    perf(pa.from_cupy(SUM), launch).expect(
        dram_load="== 8 B/thread", dram_store="== 4 B/thread", limiter="dram"
    )


@pytest.mark.parametrize(("name", "loaded"), [("pick<float, 2>", 8), ("pick<double, 1>", 8)])
def test_pick(perf, name, loaded):
    """Every second float is as much as every double."""
    launch = pa.Launch(COUNT // 256, 256)
    perf(pa.from_cupy(MODULE, name), launch).expect(dram_load=f"== {loaded} B/thread")


def test_complex_numbers(perf):
    """A header of CuPy's; eight bytes each."""
    perf(pa.from_cupy(COMPLEX), pa.Launch(COUNT // 256, 256, {"angle": 0.5})).expect(
        dram_load="== 8 B/thread", dram_store="== 8 B/thread"
    )
