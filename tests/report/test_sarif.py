"""SARIF: every result has a rule, a line and a path of the repository; the format is 2.1.0.

``check_log`` is what the official schema asks of the parts that are written, and what GitHub's
code scanning asks beyond it.
"""

import json

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools
from perfassert.predictor.diagnose.line_findings import line_findings
from perfassert.report.sarif import RULES, SarifResult, results_of_report, sarif_text

SOURCE = """\
// one problem of each kind
__global__ void strided(float* a, const float* b) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  a[i] = b[i * 32];
}
__global__ void conflicts(float* a) {
  __shared__ float t[32 * 32];
  t[threadIdx.x * 32] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = t[(31 - threadIdx.x) * 33];
}
__global__ void __launch_bounds__(1024, 2) spilled(float* a) {
  float v[40], sum = 0;
  #pragma unroll
  for (int i = 0; i < 40; ++i) sum += v[i] = a[i * 1024 + threadIdx.x];
  #pragma unroll
  for (int i = 0; i < 40; ++i) a[i * 1024 + threadIdx.x] = v[i] * sum;
}
__global__ void dense(float* a, const float* b) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  a[i] = b[i + 1];
}
"""
LEVELS = ("none", "note", "warning", "error")


def check_location(location):
    place = location["physicalLocation"]
    artifact = place["artifactLocation"]
    assert set(artifact) <= {"uri", "uriBaseId"}
    assert not {" ", "\\"} & set(artifact["uri"])
    assert ("uriBaseId" in artifact) == (not artifact["uri"].startswith("file:"))
    assert not artifact["uri"].startswith(("/", ".."))
    assert place["region"]["startLine"] >= 1


def check_log(text):
    """The results, if the text is a SARIF log."""
    log = json.loads(text)
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) == {"tool", "columnKind", "results"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    driver = run["tool"]["driver"]
    assert driver["name"] == "perfassert"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in LEVELS
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        for location in (*result["locations"], *result.get("relatedLocations", [])):
            check_location(location)
    return run["results"]


def place_of(result):
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def test_results_are_sorted_and_stand_once():
    one = SarifResult("regression", "slower", "src/b c.cu", 7)
    other = SarifResult(
        "bank-conflict", "32 wavefronts", "src/a.cu", 9, "note", ("t.py", 0, "test")
    )
    results = check_log(sarif_text([one, other, one]))
    assert [place_of(r) for r in results] == [("src/a.cu", 9), ("src/b%20c.cu", 7)]
    assert [r["level"] for r in results] == ["note", "error"]
    assert check_log(sarif_text([])) == []


@pytest.mark.skipif("os.name != 'posix'", reason="paths of Windows begin with a drive")
def test_a_file_elsewhere_is_absolute():
    (result,) = check_log(sarif_text([SarifResult("lost-kernel", "gone", "/opt/a b.cu")]))
    assert place_of(result) == ("file:///opt/a%20b.cu", 1)


def test_every_rule_has_a_level_and_a_sentence():
    assert all(level in LEVELS and about for level, about in RULES.values())


def report(outcome, message, moved, findings):
    prediction = {
        "kernel": "k", "device": "A100", "findings": findings, "expectations": [],
        "sources": {"k.cu": [{"line": 3, "sectors": 4, "wavefronts": 1, "instructions": 1}]},
    }  # fmt: skip
    test = {
        "nodeid": "test_k.py::test_k", "file": "test_k.py", "line": 5, "outcome": outcome,
        "message": message, "predictions": [prediction], "baselines": [{"moved": moved}],
    }  # fmt: skip
    return {"tests": [test]}


def test_a_report_of_tests():
    finding = {"rule": "bank-conflict", "file": "k.cu", "line": 8, "message": "32 wavefronts"}
    moved = report("failed", "time +5 %\n\ndetails", "time", [finding])
    conflict, slower = sorted(results_of_report(moved, "sub"), key=lambda r: r.rule)
    assert (conflict.file, conflict.line) == ("sub/k.cu", 8)
    assert (slower.rule, slower.message, slower.file, slower.line) == (
        "regression", "time +5 %", "sub/k.cu", 3,
    )  # fmt: skip
    assert slower.related[:2] == ("sub/test_k.py", 5)
    (expected,) = results_of_report(report("failed", "time is 3 us", "", []))
    assert (expected.rule, expected.file) == ("failed-expectation", "k.cu")
    assert not list(results_of_report(report("passed", None, "", [])))


@pytest.fixture
def source(tmp_path):
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    path = tmp_path / "s.cu"
    path.write_text(SOURCE)
    return path


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("kernel", "block", "wanted"),
    [
        ("strided", 256, {("uncoalesced-access", 4): "32 sectors where 4 would do"}),
        ("conflicts", 32, {("bank-conflict", 8): "32 wavefronts of shared memory where 1"}),
        ("dense", 256, {}),
    ],
)
def test_lines_that_waste_traffic(source, kernel, block, wanted):
    prediction = pa.predict(pa.from_cuda(source, kernel), pa.Launch(64, block), "a100")
    found = {(f.rule, f.line): f.message for f in line_findings(prediction)}
    assert found.keys() == wanted.keys()
    assert all(text in found[key] for key, text in wanted.items())


def test_lines_that_spill(source):
    prediction = pa.predict(pa.from_cuda(source, "spilled"), pa.Launch(64, 1024), "a100")
    found = [f for f in line_findings(prediction) if f.rule == "register-spill"]
    assert {f.line for f in found} <= {15, 17}
    assert found


def test_a_kernel_without_lines_has_none():
    fields = [pa.Field("a", shape=1 << 20)]
    kernel = pa.Kernel.from_accesses("set", fields, stores=["a[x]"])
    assert line_findings(pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100")) == ()
