"""Stall shares of every way in, what the simulator's reasons are called, and what is kept."""

import re
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.frontends.nsight import STALL_COLUMNS
from perfassert.kernel.samples import REASONS, STALLS
from perfassert.predictor.diagnose import sampling

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
PAIRS = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
PAGE = Path(__file__).parents[2] / "docs/explanation/advisor.md"
N = 1 << 20


def drawn(**latencies):
    """A graph by hand: a load of each kind, arithmetic, a barrier, a store."""
    g = pa.InstructionGraph.builder()
    i = g.op("index")
    far, near, table = g.op("global_load", i), g.op("shared_load", i), g.op("constant_load", i)
    with g.loop(trips=4) as body:
        g.op("add", body.carried("s", near), table, far, name="s")
    g.barrier()
    g.op("global_store", i, produces=False)
    times = {
        "index": pa.Latency(2, 8, "alu"), "add": pa.Latency(2, 6, "alu"),
        "global_load": pa.Latency(8, 500, "global"), "global_store": pa.Latency(8, 9, "global"),
        "shared_load": pa.Latency(4, 30, "shared"), "constant_load": pa.Latency(4, 700, "shared"),
        "barrier": pa.Latency(1, 20, "alu"),
    } | latencies  # fmt: skip
    kernel = pa.Kernel.from_graph("drawn", g.build(), latencies=times, registers=20)
    return pa.predict(kernel, pa.Launch(1000, 256), "a100")


def described():
    """Address expressions."""
    fields = [pa.Field("a", "float64", (64, 256, 256)), pa.Field("b", "float64", (64, 256, 256))]
    kernel = pa.Kernel.from_accesses(
        "copy", fields, ["a[z, y, x]"], ["b[z, y, x]"], flops=1, dtype="float64", registers=24
    )
    return pa.predict(kernel, pa.Launch.cover((256, 256, 64), (32, 4, 2)), "a100")


def compiled(name):
    launch = pa.Launch(N // 256, 256, args={"n": N})
    try:
        return pa.predict(pa.from_cuda(PAIRS, kernel=name), launch, "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


WAYS = {
    "graph": drawn, "expressions": described, **{
        name: (lambda name=name: compiled(name))
        for name in ("rolled", "imbalanced", "conflicts", "calls", "global_table", "precise")
    },
}  # fmt: skip


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("way", WAYS)
class TestShares:
    def test_sum_is_one(self, way):
        stalls = WAYS[way]().stalls
        assert sum(stalls.values()) == pytest.approx(1, abs=1e-9)
        assert set(stalls) <= set(STALLS)
        assert all(0 < share <= 1 for share in stalls.values())
        assert list(stalls) == [name for name in STALLS if name in stalls]

    def test_round_trip(self, way):
        prediction = WAYS[way]()
        again = pa.Prediction.from_dict(prediction.to_dict())
        assert dict(again.stalls) == dict(prediction.stalls)
        assert again.advice == prediction.advice
        assert again.to_json() == prediction.to_json()


class TestGraphs:
    def test_reasons_by_the_class_of_the_source(self):
        stalls = drawn().stalls
        assert stalls["constant_dependency"] > stalls.get("shared_dependency", 0.0)
        assert stalls["synchronization"] > 0
        far = pa.Latency(8, 5000, "global")
        assert drawn(global_load=far).stalls["memory_dependency"] > 0.5

    def test_advice_names_nodes(self):
        g = pa.InstructionGraph.builder()
        with g.loop(trips=64) as body:
            g.op("add", g.op("global_load"), body.carried("sum"), name="sum")
        kernel = pa.Kernel.from_graph("total", g.build(), registers=16)
        advice = pa.predict(kernel, pa.Launch(216, 256), "a100").advice
        assert {"Loop Unrolling", "Code Reordering"} == {a.optimizer for a in advice}
        assert all("global_load" in a.hotspots[0]["def"] for a in advice)

    def test_nothing_is_offered_that_nothing_can_hide(self):
        far = drawn(global_load=pa.Latency(8, 5000, "global"))
        assert far.stalls["memory_dependency"] > 0.5
        assert far.advice == ()


class TestExpressions:
    def test_there_is_nothing_to_advise(self):
        prediction = described()
        assert prediction.stalls["memory_dependency"] > 0.5
        assert prediction.advice == ()
        prediction.expect(advice="!Loop Unrolling", advice_speedup="== 1")


def test_warps_that_share_their_work_evenly_are_simulated():
    first = compiled("imbalanced").advice[0]
    assert first.optimizer == "Warp Balance"
    assert first.context["estimate"] == "simulation"
    assert first.speedup != first.formula_speedup


class TestTable:
    """Tests that the table of events, reasons and columns is the same in three places."""

    def told(self, text):
        """Rows: the reason and the stall columns that belong to it."""
        found = {}
        for row in re.findall(r"^\|(.*)\|$", text.replace("``", "`"), re.M):
            cells = [c.strip() for c in row.split("|")]
            reasons = [c.strip("`") for c in cells if c.strip("`") in REASONS]
            names = re.findall(r"`stall_(\w+)`", row)
            if reasons and names:
                found.setdefault(reasons[0], set()).update(names)
        return found

    def columns(self):
        return {name: c.reason for c in STALL_COLUMNS for name in c.spellings}

    def test_the_simulator_agrees(self):
        told = self.told(sampling.__doc__)
        assert {"selected", "memory_dependency", "synchronization", "pipe_busy"} <= set(told)
        for reason, names in told.items():
            for name in names - {"short_sb"}:
                assert self.columns()[name] == reason
        assert "short_sb" in told["execution_dependency"]

    def test_every_column_has_an_event_or_is_named(self):
        for column in STALL_COLUMNS:
            assert f"stall_{column.spellings[0]}``" in sampling.__doc__

    def test_the_page_agrees(self):
        told = self.told(PAGE.read_text("utf-8"))
        assert told == self.told_by_columns()

    def told_by_columns(self):
        found = {}
        for column in STALL_COLUMNS:
            found.setdefault(column.reason, set()).add(column.spellings[0])
        return found
