"""Instructions without a translation: said where they decide something, and nothing else is."""

import pytest

import perfassert as pa
from perfassert.frontends.machine import lowering
from perfassert.frontends.machine.lowering_step import Untranslated, Words
from tests.frontends.described import missing

pytestmark = pytest.mark.exhaustive(one_in=4)

SOURCE = """\
#define BYTES(r, a, b) asm("prmt.b32.f4e %0, %1, %2, %1;" : "=r"(r) : "r"(a), "r"(b))
__global__ void address(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, r;
  BYTES(r, i, n);
  out[i] = in[r];
}
__global__ void trips(const float* in, float* out, int n) {
  float sum = 0;
  unsigned r;
  BYTES(r, blockIdx.x, n);
  for (unsigned j = 0; j < r; j++) sum += in[j];
  out[threadIdx.x] = sum;
}
__global__ void data(const int* ends, float* out) {
  float sum = 0;
  for (int j = 0; j < ends[blockIdx.x]; j++) sum = sum * 1.5f + j;
  out[threadIdx.x] = sum;
}
"""
WHAT = {
    "address": "the address of in depends on the result of PRMT at k.cu:4, which",
    "trips": "its end depends on the result of PRMT at k.cu:10, which has no translation",
    "data": "its end depends on data that LDG at k.cu:16 loads",
}


@pytest.fixture
def source(tmp_path):
    if missing() is not None:
        pytest.skip(f"{missing()} is not installed")
    path = tmp_path / "k.cu"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("name", WHAT)
def test_the_opcode_and_its_line_are_said(source, name):
    arguments = {} if name == "data" else {"n": 100}
    prediction = pa.predict(pa.from_cuda(source, name), pa.Launch(4096, 128, arguments), "a100")
    texts = [a.text for a in prediction.assumptions]
    assert prediction.confidence == "guessed"
    assert any(WHAT[name] in text for text in texts), texts
    assert not any("result 1" in text or "load 1" in text for text in texts)


def test_a_mistake_of_ours_is_no_missing_translation(source, monkeypatch):
    def translate(step):
        raise KeyError("ours")

    kernel = pa.from_cuda(source, "address")
    launch = pa.Launch(64, 128, {"n": 100})
    monkeypatch.setitem(lowering._TABLE, "STG", translate)
    with pytest.raises(KeyError, match="ours"), pa.Session() as session:
        session.predict(kernel, launch, "a100")


def test_an_operand_that_is_missing_has_no_translation():
    words = Words("ab")
    assert (words[0], words[-1], words[1:], words[5:]) == ("a", "b", ("b",), ())
    with pytest.raises(Untranslated):
        words[2]


@pytest.mark.parametrize("device", ["t4", "a100", "h100", "b200"])
@pytest.mark.parametrize(
    ("call", "zero"), [("__usad(i, 1000, 7)", 1000), ("__sad(i - 500, 1000, 7)", 1500)]
)
def test_a_sum_of_absolute_differences(tmp_path, call, zero, device):
    """Executed blocks, which know what it is, agree with the closed form."""
    if missing() is not None:
        pytest.skip(f"{missing()} is not installed")
    (tmp_path / "k.cu").write_text(
        "__global__ void sums(const float* in, float* out) {\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = in[{call}]; }}\n"
    )
    buffers = {"in": pa.Buffer((1 << 16,)), "out": pa.Buffer((1 << 16,))}
    launch = pa.Launch(256, 256, buffers)
    prediction = pa.predict(pa.from_cuda(tmp_path / "k.cu", "sums"), launch, device)
    assert prediction.confidence != "guessed"
    assert not prediction.assumptions
    distinct = len({abs(i - zero) for i in range(1 << 16)})
    loaded = float(prediction.volumes.dram_load.total)
    assert loaded == pytest.approx(4 * distinct, rel=0.002)
