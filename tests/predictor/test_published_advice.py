"""The list of published rows names what there is; the numbers are printed by the benchmark."""

import sys
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.engines.advisor.advise import own_optimizers
from perfassert.toml.tables import loads

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SUITE = loads((BENCHMARKS / "published_advice.toml").read_text())


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "advice_pairs", raising=False)  # the tests have one, too
    yield __import__("published_advice")
    for name in ("published_advice", "published_inputs", "advice_pairs"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("row", SUITE["rows"], ids=lambda r: f"{r['program']} {r['optimization']}")
def test_rows_name_programs_and_optimizers(row):
    assert row["program"] in SUITE["programs"]
    assert row["optimization"] in {o.name for o in own_optimizers()}
    assert min(row["achieved"], row["estimated"]) > 1


def test_inputs_are_those_that_programs_ask_for(benchmark):
    asked = {p["input"] for p in SUITE["programs"].values() if "input" in p}
    assert asked == set(benchmark.INPUTS)


def test_as_many_threads_in_other_blocks(benchmark):
    launch = pa.Launch((3, 2), (16, 16), args={"n": 7})
    assert benchmark.with_block(launch, None) is launch
    wide = benchmark.with_block(launch, [32, 8, 1])
    assert (wide.grid, wide.block, wide.args) == ((2, 4, 1), (32, 8, 1), launch.args)


def test_rows_are_summed_up(benchmark):
    rows = [
        benchmark.Row("a", "Fast Math", 1, 2, 1.5, 1.5, 1.5, 1.2),
        benchmark.Row("b", "Warp Balance", None, 0, 1.0, None, 1.25, 1.1),
    ]
    text = benchmark.report(rows)
    assert "1 of 2 rows in the first 3" in text
    assert "– of 0" in text
    summed = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert summed["pair"][1:4] == ["1", "0.5", "%"]
    assert summed["estimate"][1:4] == ["2", "3.2", "%"]  # the mean of 0.5 % and 20 %
