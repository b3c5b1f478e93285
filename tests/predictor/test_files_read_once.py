"""Tests that a prediction uses one state of the files, and the next one sees later changes."""

import pytest

import perfassert as pa
from perfassert.predictor import analyses

pytest.importorskip("nvidia.cu13")

CODE = """
extern "C" __global__ void copy(const float* a, float* b) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    b[i] = a[i * {stride}];
}}"""


def test_a_prediction_asks_for_the_code_once(tmp_path, monkeypatch):
    (file := tmp_path / "copy.cu").write_text(CODE.format(stride=1))
    kernel = pa.from_cuda(file)
    asked, build = [], analyses.build
    monkeypatch.setattr(analyses, "build", lambda *given: asked.append(given) or build(*given))
    before = pa.predict(kernel, pa.Launch(64, 256), "a100")
    assert len(asked) == 1
    file.write_text(CODE.format(stride=8))
    after = pa.predict(kernel, pa.Launch(64, 256), "a100")
    assert len(asked) == 2
    assert after.volumes.l2_load.total > before.volumes.l2_load.total


def test_candidates_of_a_ranking_share_one_state_of_the_files(tmp_path):
    (file := tmp_path / "copy.cu").write_text(CODE.format(stride=1))
    kernel, launches = pa.from_cuda(file), [pa.Launch(64, 256), pa.Launch(128, 128)]
    expected = [pa.predict(kernel, launch, "a100") for launch in launches]

    def predict_and_edit(*question):
        prediction = pa.predict(*question)
        file.write_text(CODE.format(stride=8))
        return prediction

    ranking = pa.rank(launches, "a100", kernel=kernel, predictor=predict_and_edit)
    ranked = {(p.question, p.time) for _, p in ranking.entries}
    assert ranked == {(p.question, p.time) for p in expected}
    assert pa.predict(kernel, launches[1], "a100").time > expected[1].time
