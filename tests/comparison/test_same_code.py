"""Equal machine code that is launched in the same way is never slower, whatever its source says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.baseline.entry import entry_of
from perfassert.cli.main import main
from perfassert.comparison.compare import compare
from perfassert.comparison.read import PredictionKey, Reported, ReportFile
from perfassert.comparison.status import Status
from perfassert.frontends.toolchain import tools

BASE = """
__global__ void scale(float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] *= a;
}
"""
HEAD = """
// Another text: lines have moved, names have changed, the code has not.
__global__ void scale(float* y, float a, int n) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (!(index < n))
    return;
  y[index] *= a;
}
"""
LAUNCHES = """
schema = 1
[kernels.scale]
cuda = "scale.cu"
name = "scale"
[[launch]]
kernel = "scale"
grid = 4096
block = 256
[launch.args]
y = { shape = 1048576, dtype = "float32" }
n = 1048576
"""


@pytest.fixture
def sources(tmp_path, monkeypatch):
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    for side, text in (("base", BASE), ("head", HEAD)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "scale.cu").write_text(text)
    (tmp_path / "launches.toml").write_text(LAUNCHES.replace('"scale.cu"', '"base/scale.cu"'))


def predicted(side):
    launch = pa.Launch(4096, 256, args={"n": 1 << 20})
    return pa.predict(pa.from_cuda(f"{side}/scale.cu", "scale"), launch, "a100")


def report_file(prediction):
    key = PredictionKey("test_a.py::test_scale", "scale", prediction.device)
    reported = {key: Reported(prediction, None, {}, {})}
    return ReportFile(Path("r.json"), prediction.model_version, reported, False, {})


def test_reports(sources):
    base, head = predicted("base"), predicted("head")
    assert entry_of(base)["kernel_digest"] == entry_of(head)["kernel_digest"]
    (item,) = compare(report_file(base), report_file(head)).items
    assert (item.status, item.metrics) == (Status.SAME, ())


def test_code_and_launches(sources, capsys):
    assert main(["diff", "base", "head", "--arch", "sm_80", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (kernel["status"], kernel["same_code"]) == ("same", True)
    launched = ["diff", "base", "head", "--launches", "launches.toml", "--device", "a100"]
    assert main(launched) == 0
    assert "slower" not in (shown := capsys.readouterr().out)
    assert "same" in shown


def changed(prediction, **values):
    return pa.Prediction.from_dict({**prediction.to_dict(diagnosis=False), **values})


def test_one_question_has_one_answer():
    """Two times of it cannot both be the model's: that is no slowdown."""
    fields = [pa.Field("a", shape=1 << 20), pa.Field("b", shape=1 << 20)]
    copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
    base = pa.predict(copy, pa.Launch.cover(1 << 20, block=256), "a100")
    head = changed(base, time=2 * float(base.time))
    assert head.question == base.question
    (item,) = compare(report_file(base), report_file(head)).items
    assert item.status is Status.INCOMPARABLE
    assert "the same code, launched in the same way" in item.reason
    other = changed(head, question="0" * 16)
    (item,) = compare(report_file(base), report_file(other)).items
    assert item.status is Status.SLOWER
