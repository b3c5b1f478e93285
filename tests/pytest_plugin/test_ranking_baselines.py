"""``perf.no_regression`` of a ranking, and ``[[rank]] baseline``."""

import pytest

from perfassert.baseline.text import parse_file
from perfassert.schemas.catalogue import schema

TEST_FILE = """
import os
import perfassert as pa

SIDE = 4096
SLOW = os.environ.get("SLOW", "")

def copy(name, index):
    fields = [pa.Field(one, shape=(SIDE, 8 * SIDE)) for one in "ab"]
    return pa.Kernel.from_accesses(name, fields, [f"a[{index}]"], ["b[y, x]"])

def test_variants(perf):
    launch = pa.Launch.cover((SIDE, SIDE), block=(256, 1))
    rows, columns = ("y, 8 * x", "y, x") if SLOW == "rows" else ("y, x", "y, 8 * x")
    variants = {"rows": (copy("rows", rows), launch), "columns": (copy("columns", columns), launch)}
    if SLOW == "third":
        variants["third"] = variants["rows"]
    ranking = perf.rank(variants)
    assert perf.no_regression(ranking, **({"was": "x"} if SLOW == "was" else {})) is ranking
"""
TOML = """
devices = ["a100"]
[kernels.copy]
accesses.fields = [{ name = "a", shape = [4096, 4096] }, { name = "b", shape = [4096, 4096] }]
accesses.loads = ["a[y, x]"]
accesses.stores = ["b[y, x]"]
[[rank]]
name = "blocks"
kernel = "copy"
domain = [4096, 4096]
candidates = [[256, 1], [1, 256]]
"""
pytestmark = pytest.mark.usefixtures("loaded")


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)


def run(project, *arguments):
    quiet = ("-p", "no:randomly", "-p", "no:cacheprovider", "--perf-device", "a100")
    return project.runpytest_inprocess(*quiet, *arguments)


@pytest.fixture
def kept(pytester):
    pytester.makepyfile(test_rank=TEST_FILE)
    run(pytester).assert_outcomes(failed=1)
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    return pytester


def entry(project, file="test_rank.toml"):
    (one,) = parse_file((project.path / "__perf__" / file).read_bytes(), "file").values()
    return one


def test_best_order_and_distances_are_kept(kept):
    ranking = entry(kept)["ranking"]
    assert list(ranking) == ["best", "order", "within"]
    assert (ranking["best"], ranking["order"]) == ("rows", ["rows", "columns"])
    assert ranking["within"][0] == 0 < ranking["within"][1]
    before = entry(kept)
    run(kept, "--perf-update").assert_outcomes(passed=1)
    assert entry(kept) == before
    run(kept, "--perf-strict").assert_outcomes(passed=1)


def test_other_best_fails(kept, monkeypatch):
    monkeypatch.setenv("SLOW", "rows")
    result = run(kept)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*best is columns, was rows; rows is * % behind the best, was 0.0 %*"]
    )
    result.stdout.fnmatch_lines(["*columns is faster than rows, was slower*", "*--perf-update*"])
    run(kept, "--perf-update").assert_outcomes(passed=1)
    assert entry(kept)["ranking"]["best"] == "columns"


def test_a_candidate_that_falls_behind_fails(kept):
    file = kept.path / "__perf__" / "test_rank.toml"
    text = "\n".join(line for line in file.read_text().split("\n") if "checksum" not in line)
    (within,) = (line for line in text.split("\n") if ".within" in line)
    far = float(within.split(",")[1].strip(" ]"))
    for share, outcome in ((far - 0.015, "passed"), (far - 0.03, "failed"), (far + 0.5, "passed")):
        file.write_text(text.replace(within, f"ranking.within = [0, {share}]"))
        run(kept).assert_outcomes(**{outcome: 1})
    file.write_text(text.replace(within, f"ranking.within = [0, {far - 0.03}]"))
    run(kept, "--perf-ratchet").assert_outcomes(failed=1)


def test_other_candidates_are_incomparable(kept, monkeypatch):
    monkeypatch.setenv("SLOW", "third")
    result = run(kept)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*incomparable: third is a new candidate*"])


def test_what_only_predictions_have_is_refused(kept, monkeypatch):
    monkeypatch.setenv("SLOW", "was")
    result = run(kept)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a ranking takes no was*"])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('ranking.order = ["a", "a"]', "must name candidates once"),
        ('ranking.order = ["columns", "rows"]', "must name candidates once, the best first"),
        ("ranking.within = [0]", "must have a share for each candidate"),
        ('ranking.best = "rows"\ntime = 1', "is not a key of a ranking's baseline"),
    ],
)
def test_damaged_baselines_are_named(kept, line, complaint):
    file = kept.path / "__perf__" / "test_rank.toml"
    key = line.partition(" ")[0]
    lines = [line if old.startswith(key) else old for old in file.read_text().split("\n")]
    file.write_text("\n".join(lines))
    result = run(kept)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{complaint}*"])


@pytest.mark.parametrize("baseline", ["true", '{ tolerance = "5 %" }'])
def test_rankings_of_perf_files_have_baselines(pytester, baseline):
    (pytester.path / "copy.perf.toml").write_text(f"{TOML}baseline = {baseline}\n")
    run(pytester).assert_outcomes(failed=1)
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    run(pytester).assert_outcomes(passed=1)
    assert entry(pytester, "copy.perf.toml")["ranking"]["best"] == "256×1×1"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "rank*expect*"),
        ("baseline = { dram_load = '2 %' }", "*dram_load*"),
        ("baseline = { tolerance = '2 kg' }", "*2 kg*"),
    ],
)
def test_malformed_baselines_of_rankings(pytester, line, complaint):
    (pytester.path / "copy.perf.toml").write_text(f"{TOML}{line}\n")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{complaint}*"])


def test_the_schema_knows_them():
    rank = schema("perf-toml")["properties"]["rank"]["items"]
    assert {"required": ["baseline"]} in rank["anyOf"]
