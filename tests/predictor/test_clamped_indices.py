"""Indices that data decides, below a bound: clamped by the code, or of a narrow type."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
N, TABLE = 1 << 22, 10**6
CODE = """
#define KERNEL(name, type, place) \
    extern "C" __global__ void name(float* out, const float* table, const type* index, int m) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = table[place]; }
KERNEL(plain, int, index[i])
KERNEL(clamped, int, max(0, min(index[i], m - 1)))
KERNEL(narrow, unsigned char, index[i])
"""


@pytest.fixture
def predict(tmp_path):
    (file := tmp_path / "gathers.cu").write_text(CODE)

    def predict(name):
        launch = pa.Launch(N // 256, 256, {"m": TABLE})
        return pa.predict(pa.from_cuda(file, name), launch, "a100")

    return predict


def test_a_clamped_index_is_as_scattered_as_any(predict):
    """Not nearly all threads at the last item: each warp's lanes ask for as many sectors."""
    plain, clamped = predict("plain"), predict("clamped")
    assert clamped.confidence == plain.confidence == "guessed"
    requests = [p.volumes.l1_wavefronts.fields["table"].total for p in (plain, clamped)]
    assert requests[1] == pytest.approx(float(requests[0]), rel=0.01)
    assert clamped.volumes.dram_load.fields["table"].total >= 4 * TABLE * 0.9


def test_a_byte_reaches_256_items(predict):
    narrow = predict("narrow")
    assert narrow.volumes.dram_load.fields["table"].total < 2**20
    assert narrow.volumes.dram_load.fields["index"].total == N
