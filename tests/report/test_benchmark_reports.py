"""Reports as results of benchmarks: pytest-benchmark's JSON and Bencher's Metric Format."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import perfassert as pa
from perfassert.frontends.profiles.read import read_measurements
from perfassert.pytest_plugin.report_formats import WRITERS
from perfassert.report.benchmarks import bencher_text, nvbench_text, pytest_benchmark_text
from perfassert.report.document import document
from perfassert.report.kinds import REPORT_KINDS

ROOT = Path(__file__).parents[2]
NUMBER = {"type": "number"}
BMF = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": dict.fromkeys(("value", "lower_value", "upper_value"), NUMBER),
            "required": ["value"],
            "additionalProperties": False,
        },
    },
}
"""Schema that Bencher publishes, without properties that it does not know."""
STATS = (
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers",
    "stddev_outliers", "outliers", "ld15iqr", "hd15iqr", "ops", "total", "data", "iterations",
)  # fmt: skip
NODE = "tests/test_copy.py::test_copy[a/b]"


@pytest.fixture(scope="module")
def prediction():
    fields = [pa.Field("a", shape=1 << 22), pa.Field("b", shape=1 << 22)]
    kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
    return pa.predict(kernel, pa.Launch.cover(1 << 22, block=256), "a100")


def report_of(prediction, **changed):
    data = {**prediction.to_dict(), "label": "copy", **changed}
    test = {"nodeid": NODE, "device": "A100", "outcome": "passed", "predictions": [data]}
    return document([test])


def band(**changed):
    return {"error": 0.5, "band": 0.25, "suite": "s", "outside": "", "above": 0.0, "below": 0.0,
            **changed}  # fmt: skip


def test_kinds_have_writers_and_stand_in_the_manual():
    assert list(WRITERS) == list(REPORT_KINDS)
    table = (ROOT / "docs/how-to/reports.md").read_text("utf-8")
    option = (ROOT / "docs/reference/pytest.md").read_text("utf-8")
    for kind in REPORT_KINDS:
        assert f"| `{kind}` |" in table
        assert f"`{kind}:PATH`" in option


def test_a_prediction_is_one_round(prediction):
    written = json.loads(pytest_benchmark_text(report_of(prediction)))
    (entry,) = written["benchmarks"]
    time = float(prediction.time)
    assert set(STATS) == set(entry["stats"])
    assert entry["stats"]["data"] == [time]
    assert {entry["stats"][name] for name in ("min", "max", "mean", "median")} == {time}
    assert (entry["stats"]["rounds"], entry["stats"]["stddev"]) == (1, 0)
    assert entry["fullname"] == f"{NODE}::copy"
    assert entry["name"] == "test_copy[a/b]::copy"
    extra = entry["extra_info"]
    assert extra["predicted"] is True
    assert extra["model_version"] == prediction.model_version
    assert (extra["device"], extra["confidence"]) == (prediction.device, prediction.confidence)


def test_the_error_is_in_the_entry_where_it_is_known(prediction):
    bands = {"time": band(above=0.1)}
    report = report_of(prediction, time=1e-6, error_bands=bands)
    (entry,) = json.loads(pytest_benchmark_text(report))["benchmarks"]
    assert entry["extra_info"]["error_band_seconds"] == [8e-7, pytest.approx(1.375e-6)]
    latency = json.loads(bencher_text(report))[f"{NODE}::copy"]["latency"]
    assert latency == {"value": 1000, "lower_value": 800, "upper_value": pytest.approx(1375)}
    unknown = report_of(prediction, time=1e-6, error_bands={"time": band(error=None)})
    assert json.loads(bencher_text(unknown))[f"{NODE}::copy"]["latency"] == {"value": 1000}
    (entry,) = json.loads(pytest_benchmark_text(unknown))["benchmarks"]
    assert entry["extra_info"]["error_band_seconds"] is None


def test_metric_format_of_bencher(prediction):
    written = json.loads(bencher_text(report_of(prediction)))
    jsonschema.validate(written, BMF)
    (measures,) = written.values()
    assert measures["latency"]["value"] == pytest.approx(float(prediction.time) * 1e9)
    assert measures["dram-load"] == {"value": float(prediction.volumes.dram_load.total)}


def test_nvbench_reads_what_is_written_as_its_own(prediction, tmp_path):
    path = tmp_path / "bench.json"
    path.write_text(nvbench_text(report_of(prediction)), "utf-8")
    measured = read_measurements(path)
    (state,) = measured.measurements
    assert measured.device == prediction.device
    assert state.label == f"{NODE}::copy [Device=0]"
    assert state.values == {"time": float(prediction.time)}
    assert float(state.cells["nv/cold/time/gpu/stdev/relative"]) == prediction.spread
    (benchmark,) = json.loads(path.read_text("utf-8"))["benchmarks"]
    assert benchmark["axes"] == benchmark["states"][0]["axis_values"] == []


def test_what_is_no_number_is_left_out(prediction):
    report = report_of(prediction, time=float("inf"))
    assert json.loads(bencher_text(report)) == {}
    assert json.loads(pytest_benchmark_text(report))["benchmarks"] == []


def test_a_session_writes_both(pytester):
    pytester.makepyfile(
        """
        import perfassert as pa

        def test_copy(perf):
            fields = [pa.Field("a", shape=4096), pa.Field("b", shape=4096)]
            copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
            for block in (64, 128):
                perf(copy, domain=4096, block=block)
        """
    )
    kinds = [f"--perf-report={kind}:{kind}.json" for kind in ("pytest-benchmark", "bencher")]
    pytester.runpytest("-p", "no:cacheprovider", "--perf-device=a100", *kinds)
    names = [
        f"test_a_session_writes_both.py::test_copy[A100-SXM4-40GB]::copy{n}" for n in ("", "#2")
    ]
    assert list(json.loads((pytester.path / "bencher.json").read_text("utf-8"))) == names
    written = json.loads((pytester.path / "pytest-benchmark.json").read_text("utf-8"))
    assert [entry["fullname"] for entry in written["benchmarks"]] == names
    result = pytester.runpytest("--perf-device=a100", "--perf-report=benchr:x.json")
    result.stderr.fnmatch_lines(["*unknown report format 'benchr'; did you mean 'bencher'*"])
