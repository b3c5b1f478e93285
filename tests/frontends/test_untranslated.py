"""Instructions without a translation: said where they decide something, and nothing else is."""

import pytest

import perfassert as pa
from perfassert.frontends.machine import lowering
from perfassert.frontends.machine.lowering_step import Untranslated, Words
from tests.frontends.described import missing

SOURCE = """\
__global__ void address(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[__usad(i, n, 0)];
}
__global__ void trips(const float* in, float* out, int n) {
  float sum = 0;
  for (unsigned j = 0; j < __usad(blockIdx.x, n, 0); j++) sum += in[j];
  out[threadIdx.x] = sum;
}
__global__ void data(const int* ends, float* out) {
  float sum = 0;
  for (int j = 0; j < ends[blockIdx.x]; j++) sum = sum * 1.5f + j;
  out[threadIdx.x] = sum;
}
"""
WHAT = {
    "address": "the address of in depends on the result of VABSDIFF at k.cu:3, which",
    "trips": "its end depends on the result of VABSDIFF at k.cu:7, which has no translation",
    "data": "its end depends on data that LDG at k.cu:12 loads",
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
    prediction = pa.predict(pa.from_cuda(source, name), pa.Launch(64, 128, arguments), "a100")
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
