"""``diff --sarif`` and ``--perf-report=sarif:PATH``: results at lines of the repository."""

import json

import pytest

from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools

BASE = """\
__global__ void scale(float* a) { a[threadIdx.x + blockIdx.x * blockDim.x] *= 2; }

template <int N>
__global__ void lost(double* a) { a[threadIdx.x] = N * sqrt(a[threadIdx.x]); }
template __global__ void lost<3>(double*);
"""
HEAD = """\
// slower, and one less

__global__ void
scale(float* a) {
  a[(threadIdx.x + blockIdx.x * blockDim.x) * 32] *= 2;
}
"""
LAUNCHES = """
schema = 1
[recorded]
device = "a100"
[kernels.scale]
cuda = "k.cu"
[[launch]]
kernel = "scale"
grid = [4096]
block = [256]
"""
TEST = """
import perfassert as pa

def test_scale(perf):
    prediction = perf(pa.from_cuda("src/k.cu", "scale"), grid=4096, block=256)
    prediction.expect(time="< 1 ns")
"""


@pytest.fixture(autouse=True)
def toolchain():
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")


def results(path):
    (run,) = json.loads(path.read_text())["runs"]
    places = []
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        at = place["artifactLocation"]["uri"], place["region"]["startLine"]
        places.append((result["ruleId"], result["level"], *at))
    return sorted(places), run["results"]


def test_a_comparison(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for side, text in (("base", BASE), ("head", HEAD)):
        folder = tmp_path / side / "src"
        folder.mkdir(parents=True)
        (folder.parent / ".git").mkdir()
        (folder / "k.cu").write_text(text)
        (folder / "launches.toml").write_text(LAUNCHES)
    given = ["diff", "base/src", "head/src", "--arch", "sm_80", "--sarif", "out/code.sarif"]
    assert main([*given, "--launches", "launches.toml"]) == 1
    places, written = results(tmp_path / "out" / "code.sarif")
    assert places == [
        ("lost-kernel", "error", "src/k.cu", 1),
        ("regression", "error", "src/k.cu", 5),
        ("uncoalesced-access", "warning", "src/k.cu", 5),
    ]
    slower = next(r for r in written if r["ruleId"] == "regression" and r["level"] == "error")
    assert slower["message"]["text"].startswith("scale on A100-SXM4-40GB: ")
    assert main([*given, "--fail-on", "code_bytes +0"]) == 1
    places, _ = results(tmp_path / "out" / "code.sarif")
    assert places[0] == ("lost-kernel", "error", "src/k.cu", 1)
    assert main(["diff", "base/src", "base/src", "--arch", "sm_80", "--sarif", "none.sarif"]) == 0
    assert results(tmp_path / "none.sarif") == ([], [])


def test_a_run_of_tests(pytester):
    (pytester.path / ".git").mkdir()
    folder = pytester.mkdir("sub")
    (folder / "src").mkdir()
    (folder / "src" / "k.cu").write_text(HEAD)
    (folder / "test_k.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    report = pytester.path / "run.sarif"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = ("--perf-device", "a100", f"--perf-report=sarif:{report}")
        assert pytester.runpytest("--rootdir", str(folder), *options).ret == 1
    places, written = results(report)
    assert places == [
        ("failed-expectation", "error", "sub/src/k.cu", 5),
        ("uncoalesced-access", "warning", "sub/src/k.cu", 5),
    ]
    (related,) = written[0]["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "sub/test_k.py"
