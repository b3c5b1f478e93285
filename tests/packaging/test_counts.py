"""Counts of work: what ``make counts`` complains about, and that counters see what is reported."""

import importlib
import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.engines.pipeline.compiled import available

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KNOWN = {"some": {"nodes compiled": 100, "tools started": 0}}


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("figures")


def test_a_twentieth_more_work_is_no_complaint_and_more_than_that_is_one(figures):
    assert figures.grown(KNOWN, {"some": {"nodes compiled": 105}}) == []
    (complaint,) = figures.grown(KNOWN, {"some": {"nodes compiled": 106}})
    assert "some: nodes compiled 106, on record 100" in complaint
    assert "make bench" in complaint


def test_less_work_is_no_complaint(figures):
    assert figures.grown(KNOWN, {"some": {"nodes compiled": 3}}) == []


@pytest.mark.parametrize("counts", [{"tools started": 1}, {"addresses of lanes": 1}])
def test_work_where_there_was_none_is_a_complaint(figures, counts):
    assert len(figures.grown(KNOWN, {"some": {"nodes compiled": 100, **counts}})) == 1


def test_work_that_nobody_counts_any_more_is_a_complaint(figures):
    (complaint,) = figures.grown(KNOWN, {"some": {"tools started": 0}})
    assert complaint == "some: nodes compiled: on record, but not counted any more"


def test_a_scenario_comes_and_goes_with_the_record(figures):
    both = figures.grown(KNOWN, {"other": {"nodes compiled": 1}})
    assert [c.split(":")[0] for c in both] == ["other", "some"]


def test_the_record_has_counts_of_every_scenario(figures, tmp_path, monkeypatch):
    monkeypatch.setattr(figures.pa, "from_cuda", lambda *_, **__: None)
    recorded = json.loads(figures.FILE.read_text())["counts"]
    scenarios = [*figures.scenarios(tmp_path), *figures.modules.SCENARIOS, figures.SESSIONS]
    assert list(recorded) == scenarios
    assert all(sum(counts.values()) for counts in recorded.values())


@pytest.mark.skipif(not available(), reason="no compiled engine")
def test_counters_see_what_the_simulator_says_of_itself(figures):
    g = pa.InstructionGraph.builder()
    with g.loop(trips=5):
        g.op("a", g.op("b"))
    table = {"a": pa.Latency(1, 2), "b": pa.Latency(1, 4)}
    with figures.count_work() as counts:
        pa.simulate(g.build(), 3, 7, 2, table, fast_forward=False)
    assert counts == {
        "simulations": 1, "instructions simulated": 5 * 2 * 3 * 7, "nodes compiled": 2
    }  # fmt: skip


@pytest.mark.skipif(not available(), reason="no compiled engine")
def test_counters_see_the_simulations_of_a_prediction(figures):
    fields = [pa.Field("a", shape=(1 << 22,)), pa.Field("b", shape=(1 << 22,))]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])
    with figures.count_work() as counts, pa.Session() as session:
        session.predict(kernel, pa.Launch(1 << 14, 256), "a100")
    assert counts["simulations"] > 1
    assert counts["instructions simulated"] > counts["nodes compiled"] > 0
