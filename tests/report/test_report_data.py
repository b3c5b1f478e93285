"""Predictions without their diagnosis; files that are replaced; Markdown of hostile names."""

import os
import re
from contextlib import suppress
from dataclasses import replace

import pytest

import perfassert as pa
from perfassert.errors import ReportError
from perfassert.report import prediction as prediction_text
from perfassert.report.document import document, to_json
from perfassert.report.files import replace_file
from perfassert.report.markdown_parts import Capped, code, fenced_block, words


def text_of(prediction):
    return str(prediction_text.text(prediction))


@pytest.fixture
def prediction():
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(4096,))], ["a[x]"])
    return pa.predict(kernel, pa.Launch.cover(4096, 64), "a100")


def test_a_diagnosis_is_left_out_and_asked_for(prediction):
    assert not prediction.diagnosed
    data = prediction.to_dict(diagnosis=False)
    assert not {"stalls", "advice"} & set(data)
    assert not prediction.diagnosed
    read = pa.Prediction.from_dict(data)
    assert (read, read.diagnosed, dict(read.stalls), read.advice) == (prediction, False, {}, None)
    again = pa.Prediction.from_dict(prediction.to_dict())
    assert prediction.diagnosed
    assert again.diagnosed
    assert again.stalls == prediction.stalls
    with pytest.raises(pa.ExpectationError, match="advice"):
        read.expect(advice="Loop Unrolling")


def test_what_nobody_says_is_unknown_not_zero(prediction):
    """A graph whose nodes name no access moves something; nobody knows how much."""
    graph = pa.InstructionGraph.builder()
    graph.op("fp32", graph.op("global_load"))
    drawn = pa.predict(pa.Kernel.from_graph("g", graph.build()), pa.Launch(8, 64), "a100")
    rows = {line[:18].strip(): line[19:].strip() for line in text_of(drawn).splitlines()}
    for name in ("DRAM to L2", "L2 to L1", "L1 wavefronts", "roofline time", "roofline limiter"):
        assert rows[name] == "unknown", name
    assert rows["shared wavefronts"] == "0"
    assert "unknown" not in text_of(prediction).partition("\n\n")[2].partition("confidence: ")[0]


def test_expectations_are_text_of(prediction):
    from dataclasses import replace

    told = []
    watched = replace(prediction, on_expect=told.extend)
    with pytest.raises(pa.ExpectationFailed):
        watched.expect(time="< 1 ns", occupancy="> 0 %")
    assert [(o.metric.name, o.verdict) for o in told] == [("time", "FAIL"), ("occupancy", "ok")]
    assert watched == prediction


def test_files_are_replaced_whole(tmp_path):
    path = tmp_path / "a" / "b.json"
    replace_file(path, "one")
    path.chmod(0o640)
    replace_file(path, "zwei ×\n")
    assert path.read_bytes() == "zwei ×\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_what_cannot_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "below"):
        with pytest.raises(pa.ReportError, match="left alone|cannot be written"):
            replace_file(path, "")


def test_numbers_that_are_none():
    test = {"nodeid": "a", "device": "b", "outcome": "passed", "value": float("inf")}
    assert '"value": null' in to_json(document([test]))


def test_markdown_of_hostile_names():
    name = "a[`|<b>*@you*_:tada:]"
    for text in (code(name), words(name)):
        assert not set("`|*@[]") & set(text)
        assert "<b>" not in text
    assert words("l1_wavefronts of a: loads") == "l1_wavefronts of a: loads"
    assert fenced_block("````").startswith("`````text\n")


def test_a_capped_text_says_what_is_missing():
    text = Capped(400)
    assert text.add("a" * 150)
    assert not text.add("b" * 150)
    text.add_table(("x",), [["1"] * 1] * 50, share=0.5)
    assert re.fullmatch(r"… and \d+ more", text.parts[-1])
    assert "… and 3 more" in text.text(3)
    assert len(text.text(3)) <= 400


def test_a_time_that_start_phases_move_says_so(prediction):
    assert "start phases" not in text_of(replace(prediction, spread=0.09))
    assert "± 24%" in text_of(replace(prediction, spread=0.49))


def damaged(data, path=()):
    """The data with one value gone, or of another type, at every place."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*path, key), {k: v for k, v in data.items() if k != key}
            for place, other in damaged(value, (*path, key)):
                yield place, {**data, key: other}
    for other in (None, "x", -1, [], {}, [None], {"": None}, float("nan"), 10**400, True, object()):
        yield path, other


def test_damaged_data_is_a_prediction_or_refused_by_key(prediction):
    data = prediction.to_dict()
    seen = 0
    for path, other in damaged(data):
        try:
            assert isinstance(pa.Prediction.from_dict(other), pa.Prediction)
        except pa.PredictionDataError as error:
            seen += 1
            assert str(error).startswith("prediction"), path
            assert path == () or str(path[0]) in str(error), (path, str(error))
    assert seen > 500
    volumes = {**data["volumes"], "l2_load": {}}
    with pytest.raises(pa.PredictionDataError, match=r"prediction.volumes.l2_load has no 'total'"):
        pa.Prediction.from_dict({**data, "volumes": volumes})


@pytest.mark.parametrize("key", ["limiter", "roofline_limiter", "confidence"])
def test_an_unknown_word_is_damaged_data(prediction, key):
    with pytest.raises(pa.PredictionDataError, match=f"prediction.{key} must be one of .*'foo'"):
        pa.Prediction.from_dict({**prediction.to_dict(), key: "foo"})


def test_the_file_that_is_written_aside_is_no_link(tmp_path):
    """Its name could be guessed, and a pull request has links of many names."""
    (tmp_path / "others").write_text("kept")
    (tmp_path / f".r.html.{os.getpid()}").symlink_to(tmp_path / "others")
    with suppress(ReportError):
        replace_file(tmp_path / "r.html", "written")
    assert (tmp_path / "others").read_text() == "kept"
    assert not (tmp_path / "r.html").is_symlink()
