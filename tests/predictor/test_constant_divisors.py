"""Integer divisions: what a constant divisor leaves of them, against kernels that have one."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

SOURCE = """
template <class T> __global__ void quotients(const T* a, T* o, T d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T s = 0, x = a[i];
    for (int k = 0; k < n; ++k)
        s += (x + k) / DIVISOR;
    o[i] = s;
}
template <class T> __global__ void remainders(const T* a, T* o, T d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T s = 0, x = a[i];
    for (int k = 0; k < n; ++k)
        s += (x + k) % DIVISOR;
    o[i] = s;
}
"""


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("device", ["a100", "h100"])
@pytest.mark.parametrize("dtype", ["int", "unsigned"])
@pytest.mark.parametrize("kernel", ["quotients", "remainders"])
def test_it_gains_what_a_constant_gains(tmp_path, kernel, dtype, device):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (source := tmp_path / "divide.cu").write_text(SOURCE)

    def predicted(divisor):
        read = pa.from_cuda(source, f"{kernel}<{dtype}>", defines={"DIVISOR": divisor})
        launch = pa.Launch(864, 256, args={"n": 256, "d": 1000})
        return pa.predict(read, launch, device, prove=0)

    before, after = predicted("d"), predicted("1000")
    advice = next(a for a in before.advice if a.optimizer == "Strength Reduction")
    assert "division by a value" in advice.suggestion
    gain = float(before.time) / float(after.time)
    assert gain > 1.3
    assert gain / 2 < advice.speedup < 1.15 * gain
    assert not any("division" in a.suggestion for a in after.advice)
