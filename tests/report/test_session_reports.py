"""Reports of a session as pytest users meet them."""

import csv
import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import perfassert as pa
from perfassert.report.spreadsheet import csv_text

TEST_FILE = """
import pytest
import perfassert as pa

def copy(n):
    return pa.Kernel.from_accesses(
        name="copy", fields=[pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))],
        loads=["a[x]"], stores=["b[x]"])

@pytest.mark.parametrize("n", [1 << 20, 1 << 22])
def test_copy(perf, n):
    perf(copy(n), domain=n, block=256).expect(limiter="dram", dram_load="== 8 B/update")

def test_slow(perf):
    perf(copy(1 << 20), domain=1 << 20, block=256)
    perf(copy(1 << 20), domain=1 << 20, block=128).expect(time="< 1 us")

def test_rank(perf):
    perf.rank([64, 128, (16, 4)], kernel=copy(4096), domain=4096).expect(best_in=[64, 128])

def test_other(perf):
    assert perf(copy(4096), domain=4096, block=64).stalls == {"no": "</script> | `"}

@pytest.mark.skip
def test_skipped(perf):
    pass

@pytest.mark.perf(xfail={"L40": "known"})
def test_known(perf):
    perf(copy(4096), domain=4096, block=64).expect(time="< 1 ns")

def test_without():
    pass
"""
QUIET = ("-p", "no:cacheprovider", "--perf-device", "a100", "--perf-device", "L40")
FAILED = {"test_slow", "test_other", "test_known"}
pytestmark = [pytest.mark.exhaustive(one_in=2), pytest.mark.usefixtures("loaded")]


@pytest.fixture
def project(pytester):
    pytester.makepyfile(test_copy=TEST_FILE)
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess(*QUIET, "-p", "no:randomly", *arguments)


def report(project, *arguments):
    run(project, "--perf-report=json:perf.json", *arguments)
    return json.loads((project.path / "perf.json").read_text("utf-8"))


def by_name(found):
    return {test["nodeid"].partition("::")[2]: test for test in found["tests"]}


def test_what_a_report_holds(project):
    found = report(project)
    assert (found["format"], found["schema"]) == ("perfassert report", 2)
    tests = by_name(found)
    assert len(tests) == 12  # six tests on two devices; skipped ones and others have no record
    slow = tests["test_slow[A100-SXM4-40GB]"]
    assert slow["file"] == "test_copy.py"
    lines = TEST_FILE.strip().splitlines()
    assert slow["line"] == 1 + lines.index("def test_slow(perf):")
    assert slow["message"].startswith("time is ")
    assert [p["label"] for p in slow["predictions"]] == ["copy", "copy#2"]
    first, second = slow["predictions"]
    assert [e["verdict"] for e in second["expectations"]] == ["FAIL"]
    assert second["expectations"][0]["metric"] == "time"
    assert second["metrics"]["dram_load"] == second["volumes"]["dram_load"]["total"]
    assert second["volumes"]["dram_load"]["fields"]["a"]["parts"]["compulsory"] > 0
    assert second["resources"]["registers"] == 32
    assert pa.Prediction.from_dict(second).time == second["time"]
    assert "stalls" in second  # it is to blame
    assert "stalls" not in first
    assert {t["nodeid"].partition("::")[2].partition("[")[0] for t in found["tests"]
            if t["outcome"] == "failed"} == FAILED  # fmt: skip
    assert tests["test_known[L40]"]["outcome"] == "xfailed"


def test_rankings_are_there(project):
    ranked = by_name(report(project))["test_rank[L40]"]
    (ranking,) = ranked["rankings"]
    assert {c["candidate"] for c in ranking["candidates"]} == {"64×1×1", "128×1×1", "16×4×1"}
    assert ranking["candidates"][0]["tied_with_best"]
    assert ranked["predictions"][0]["note"] == "best of 3"


def test_advice_is_asked_for(project):
    for arguments, known in (((), False), (("--perf-report-advice",), True)):
        test = by_name(report(project, *arguments))["test_rank[L40]"]
        assert ("stalls" in test["predictions"][0]) == known


def test_the_same_for_every_order_locale_and_worker(project):
    variants = {
        "plain": ([], {}),
        "workers": (["-n", "2"], {"PYTHONHASHSEED": "7"}),
        "order": (["-p", "randomly", "-p", "no:xdist"], {"TZ": "Asia/Tokyo", "LC_ALL": "C"}),
    }
    files = ("html", "md", "json")
    texts = {}
    for name, (arguments, environment) in variants.items():
        if name == "order":
            arguments = [
                f"test_copy.py::test_{t}" for t in ("slow", "other", "known", "rank", "copy")
            ]
        else:
            arguments = [*arguments, "test_copy.py"]
        wanted = [f"--perf-report={f}:{name}.{f}" for f in files]
        command = [sys.executable, "-m", "pytest", "-q", *QUIET, "-p", "no:randomly", *wanted]
        subprocess.run(
            [*command, *arguments], cwd=project.path, env={**os.environ, **environment},
            capture_output=True, check=False,
        )  # fmt: skip
        texts[name] = [(project.path / f"{name}.{f}").read_bytes() for f in files]
    assert texts["plain"] == texts["workers"] == texts["order"]


def test_ini_twin_and_folders(project):
    project.makeini("[pytest]\nperf_report =\n  json:out/deep/perf.json\n  md:out/perf.md\n")
    result = run(project, "-k", "test_rank")
    result.stdout.fnmatch_lines(["performance reports: out/deep/perf.json, out/perf.md"])
    assert (project.path / "out/deep/perf.json").is_file()
    run(project, "-k", "test_rank", "--perf-report=json:mine.json")
    assert (project.path / "mine.json").is_file()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("perf.json", "*is not FORMAT:PATH*"),
        ("json:", "*is not FORMAT:PATH*"),
        ("jason:perf.json", "*unknown report format 'jason'*did you mean 'json'*"),
        ("json:folder", "*folder is not a file*"),
    ],
)
def test_usage_errors(project, given, message):
    (project.path / "folder").mkdir()
    result = run(project, f"--perf-report={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_one_path_twice(project):
    result = run(project, "--perf-report=json:a", "--perf-report=md:a")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_what_is_no_file_is_left_alone(project):
    project.makeconftest("import pathlib\ndef pytest_collection_finish(session):\n"
                         "    pathlib.Path('perf.json').mkdir(exist_ok=True)\n")  # fmt: skip
    result = run(project, "--perf-report=json:perf.json", "-k", "test_rank")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: --perf-report: *is not a file*"])
    assert (project.path / "perf.json").is_dir()


def test_collecting_writes_nothing(project):
    run(project, "--collect-only", "--perf-report=json:perf.json")
    assert not (project.path / "perf.json").exists()


def test_a_link_stays_one_and_nothing_is_left_over(project):
    (project.path / "real.json").write_text("old")
    (project.path / "perf.json").symlink_to("real.json")
    report(project)
    assert (project.path / "perf.json").is_symlink()
    assert json.loads((project.path / "real.json").read_text("utf-8"))["tests"]
    assert not list(project.path.glob(".*json*"))


def test_markdown_has_failures_and_a_table(project):
    run(project, "--perf-report=md:perf.md")
    text = (project.path / "perf.md").read_text("utf-8")
    assert "predictions in 12 tests: 5 failed, 6 passed, 1 xfailed" in text
    assert text.startswith("## ❌ Predicted performance: ")
    assert text.count("<details>") == 6  # five failures, and the table of all
    assert "| test | kernel | device | block | time | limiter | verdict |" in text
    assert "&#96;" in text or "</script>" not in text.split("```")[0]


def test_what_could_not_run_is_named(project):
    project.makepyfile(
        test_broken="import nowhere",
        test_setup="""
        import pytest
        @pytest.fixture
        def bad():
            raise ValueError
        def test_bad(bad, perf):
            pass
        def test_other(bad):
            pass
        """,
    )
    arguments = ("--continue-on-collection-errors", "-k", "test_bad or test_rank")
    found = report(project, "--perf-report=md:perf.md", *arguments)
    devices = ("A100-SXM4-40GB", "L40")
    assert found["errors"] == [
        "test_broken.py",
        *(f"test_setup.py::test_bad[{d}]" for d in devices),
    ]
    assert "2 passed, 3 errors" in (project.path / "perf.md").read_text("utf-8")


def test_a_formats_plug_in(project):
    project.makeconftest(
        """
        from perfassert import plugins
        class Lines:
            @plugins.hookimpl
            def perfassert_report_formats(self):
                return {"lines": lambda found: "".join(f"{p['kernel']},{p['time']}" for p in found)}
        if "lines" not in plugins.names():
            plugins.register(Lines(), "lines")
        """
    )
    run(project, "--perf-report=lines:perf.txt", "-k", "test_rank")
    from perfassert import plugins

    plugins.unregister("lines")
    assert (project.path / "perf.txt").read_text().startswith("copy,")


def test_junit_has_every_metric(project):
    run(project, "--junitxml=junit.xml")
    cases = ElementTree.parse(project.path / "junit.xml").iter("testcase")
    named = {case.get("name"): case for case in cases}
    found = {p.get("name"): p.get("value") for p in named["test_slow[L40]"].iter("property")}
    assert found["perf.copy.device"] == "L40"
    assert float(found["perf.copy#2.time"]) > 0
    assert found["perf.copy.limiter"]
    assert not list(named["test_without"].iter("property"))


def test_comma_separated_values(project):
    run(project, "--perf-report=csv:perf.csv")
    with (project.path / "perf.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = report(project)
    assert len(rows) == sum(len(test["predictions"]) for test in found["tests"])
    by_test = {(row["nodeid"], row["label"]): row for row in rows}
    for test in found["tests"]:
        for p in test["predictions"]:
            row = by_test[test["nodeid"], p["label"]]
            assert (row["outcome"], row["limiter"]) == (test["outcome"], p["limiter"])
            for name, value in p["metrics"].items():
                if isinstance(value, float):
                    assert float(row[name]) == value
    assert rows[0]["block"] == "256x1x1"


def test_no_cell_is_a_formula():
    prediction = {"label": "=1+2", "note": "", "metrics": {"odd": "@x"}}
    test = {"nodeid": "-a", "file": "a,b", "line": None, "device": 'x"', "outcome": "passed"}
    text = csv_text({"tests": [{**test, "predictions": [prediction]}]})
    (row,) = csv.DictReader(text.splitlines())
    assert (row["label"], row["odd"], row["nodeid"]) == ("'=1+2", "'@x", "'-a")
    assert (row["file"], row["line"], row["device"]) == ("a,b", "", 'x"')


def test_a_regression_names_what_regressed(pytester, monkeypatch):
    """And not what improved beside it."""
    pytester.makepyfile(
        test_copy="""
        import os
        import perfassert as pa

        def test_copy(perf):
            n = int(os.environ["SIZE"])
            fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
            more = {"registers": 64 if n == 4096 else 32}
            kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"], **more)
            perf(kernel, domain=n, block=64)
            perf.no_regression(perf(kernel, domain=n, block=128), registers=0)
        """
    )
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("SIZE", "4096")
    run(pytester, "--perf-update").assert_outcomes(passed=2)
    monkeypatch.setenv("SIZE", str(1 << 22))
    for test in report(pytester)["tests"]:
        (baseline,) = test["baselines"]
        assert (baseline["status"], baseline["label"]) == ("regressed", "copy#2")
        assert baseline["moved"].startswith("time ")
        assert "registers" not in baseline["moved"]
