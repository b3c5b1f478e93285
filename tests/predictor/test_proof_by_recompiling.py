"""Advice on spilled registers is proven: compiled with other limits, and predicted."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=3)

SOURCE = """
__global__ void __launch_bounds__(THREADS, BLOCKS) mix(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a[64];
    #pragma unroll
    for (int k = 0; k < 64; k++) a[k] = in[i + k * n];
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        #pragma unroll
        for (int k = 0; k < 64; k++) a[k] = a[k] * a[(k * 7 + 3) & 63] + a[(k + 11) & 63];
    }
    float s = 0;
    #pragma unroll
    for (int k = 0; k < 64; k++) s += a[k];
    out[i] = s;
}
"""
N = 1 << 22


@pytest.fixture
def source(tmp_path):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (file := tmp_path / "mix.cu").write_text(SOURCE)
    return file


def predicted(source, threads, blocks):
    kernel = pa.from_cuda(source, "mix", defines={"THREADS": threads, "BLOCKS": blocks})
    return pa.predict(kernel, pa.Launch(N // threads, threads, {"n": N}), "a100")


def reuse(prediction):
    return next((a for a in prediction.advice if a.optimizer == "Register Reuse"), None)


def test_a_bound_that_spills_is_relaxed(source):
    """Two blocks of 1,024 threads have 32 registers for each, one has 64."""
    bounded, relaxed = predicted(source, 1024, 2), predicted(source, 1024, 1)
    assert bounded.resources.spill_bytes > 2 * relaxed.resources.spill_bytes
    advice = reuse(bounded)
    assert bounded.advice[0] == advice
    assert "allow 64 registers instead of 32" in advice.suggestion
    assert advice.speedup == pytest.approx(float(bounded.time) / float(relaxed.time), rel=1e-6)
    assert advice.proof == f"-maxrregcount=64: {bounded.time} → {relaxed.time}"
    again = pa.Prediction.from_dict(bounded.to_dict()).advice[0]
    assert again.proof == advice.proof


def test_nothing_is_said_where_nothing_spills(source):
    free = predicted(source, 128, 1)
    assert free.resources.spill_bytes == 0
    assert reuse(free) is None


def test_what_if_with_further_options(source):
    bounded = predicted(source, 256, 8)
    options = ("-maxrregcount=64", "-Xptxas=--override-directive-values")
    kernel = pa.from_cuda(
        source, "mix", defines={"THREADS": 256, "BLOCKS": 8}, options=options
    )  # fmt: skip
    expected = pa.predict(kernel, pa.Launch(N // 256, 256, {"n": N}), "a100")
    changed = pa.whatif(bounded, options=options).after
    assert changed.resources.registers == expected.resources.registers == 64
    assert float(changed.time) == float(expected.time)


def test_options_are_for_cuda_source():
    copy = pa.Kernel.from_accesses(
        "copy", [pa.Field("a", "float32", (N,)), pa.Field("b", "float32", (N,))], ["a[x]"], ["b[x]"]
    )
    found = pa.predict(copy, pa.Launch.cover(N, 256), "a100")
    with pytest.raises(pa.KernelError, match="options: kernel 'copy' is not compiled from CUDA"):
        pa.whatif(found, options=("-use_fast_math",))
