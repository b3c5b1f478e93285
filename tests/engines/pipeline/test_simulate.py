"""The simulator: closed forms, fast-forward against plain, both against the readable reference."""

import random
from dataclasses import replace

import numpy as np
import pytest
import random_graphs
from hypothesis import given, settings
from hypothesis import strategies as st

import perfassert as pa
from perfassert.engines.pipeline import bounds as reference_bounds
from perfassert.engines.pipeline import compiled as compiled_engine
from perfassert.engines.pipeline.bounds import UNROLLED, bounds, find_sums, find_sums_compiled
from perfassert.engines.pipeline.compiled import available, run_compiled, time_compiled
from perfassert.engines.pipeline.reference import Reference
from perfassert.engines.pipeline.simulate import make_unit

pytestmark = pytest.mark.exhaustive(one_in=3)

TABLE_II = [(1, 18), (0.25, 6), (8, 40), (1, 14), (4, 58), (1.75, 29), (23, 521), (12, 378)]
ORDERS = ["dataflow", "in-order"]
compiled = pytest.mark.skipif(not available(), reason="the compiled engine was not built")


def chain(length):
    g = pa.InstructionGraph.builder()
    with g.loop(length) as body:
        g.op("x", body.carried("x"), name="x")
    return g.build()


def equation_1(warps, length, issue, completion):
    """§III.A: the time of W warps of N dependent instructions."""
    if warps <= completion / issue:
        return length * completion + (warps - 1) * issue
    return completion + (length * warps - 1) * issue


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("issue", "completion"), TABLE_II)
def test_equation_1_to_the_last_bit(issue, completion, order):
    for length in (1, 2, 10, 1000) if available() else (1, 2, 10):
        graph = chain(length)
        corner = int(completion / issue)  # W = Λ/λ lies within 1 to 64 for every pair
        assert 1 <= corner <= 64
        for warps in range(1, 65) if available() else (1, 2, corner, 64):
            result = pa.simulate(
                graph, warps, 1, 1, {"x": pa.Latency(issue, completion)}, issue_order=order
            )
            assert result.cycles == equation_1(warps, length, issue, completion)
            assert result.instructions == warps * length


def saxpy():
    g = pa.InstructionGraph.builder()
    index = g.op("index")
    x, y = g.op("mem", index), g.op("mem", index)
    z = g.op("fmadd", x, y)
    g.op("mem", z, produces=False)
    return g.build()


latency = st.integers(1, 400).map(lambda n: n / 4)


@given(st.lists(latency, min_size=6, max_size=6), st.sampled_from(ORDERS))
def test_saxpy_of_figure_1(values, order):
    i, big_i, m, big_m, f, big_f = values
    if big_m + big_f < m:  # then the store waits for the pipeline of the second load
        return
    latencies = {
        "index": pa.Latency(i, big_i),
        "mem": pa.Latency(m, big_m),
        "fmadd": pa.Latency(f, big_f),
    }
    cycles = pa.simulate(saxpy(), 1, 1, 1, latencies, issue_order=order).cycles
    assert cycles == big_i + big_m + m + big_f + m


def outcome(totals, in_order):
    """Everything that engines must agree on; stalls have a meaning in order only."""
    counts = (
        totals.end, list(totals.issued), list(totals.busy), totals.launched, totals.retired,
        totals.resident,
    )  # fmt: skip
    if not in_order:
        return counts
    return (
        *counts, list(totals.dependence), list(totals.pipeline), totals.not_selected,
        totals.drained, profile_of(totals),
    )  # fmt: skip


def profile_of(totals):
    """Return the entries of a profile that are not 0."""
    if totals.profile is None:
        return None
    spent = {n: s for n, s in totals.profile.spent.items() if s.issued}
    return spent, {edge: w for edge, w in totals.profile.waits.items() if w[0]}


def random_unit(seed, order=None):
    source = random.Random(seed)

    def pick(choices):
        return choices[source.randrange(len(choices))]

    settings = random_graphs.unit(pick)
    if order:
        settings["issue_order"] = order
    maker = random_graphs.Maker(pick, settings["warps_per_block"], max_trips=pick((4, 9, 40)))
    graph = maker.graph()
    latencies = random_graphs.latencies(pick, settings["schedulers"] > 1)
    if settings["issue_order"] == "dataflow" or pick((True, False, False)):
        return make_unit(graph, latencies=latencies, **settings)
    unit = make_unit(
        random_graphs.behind_servers(pick, graph), latencies=latencies,
        queues={latencies["a"].pipeline: pick((0, 1, 3, 5))}, **settings,
    )  # fmt: skip
    stagger = pick((0, 0, 7, 40)) * unit.pipelines.ticks
    return replace(unit, profile=unit.width == 1, stagger=stagger)


def with_idle_pipelines(unit, count=20):
    """The unit with pipelines that nobody uses: more than stand in one place of a scheduler."""
    more = unit.pipelines
    names = tuple(f"idle {i}" for i in range(count))
    made = replace(
        more, names=(*more.names, *names), depths=(*more.depths, *[0] * count),
        per_scheduler=(*more.per_scheduler, *[i % 2 == 1 for i in range(count)]),
    )  # fmt: skip
    return replace(unit, pipelines=made)


def small(unit):
    return sum(p.length for p in unit.programs) * unit.blocks < 4000


@compiled
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", range(0, 1500, 100))
@pytest.mark.exhaustive(one_in=6)
def test_fast_forward_equals_plain_equals_reference(start, order):
    """3000 random units: nested loops, carried edges, barriers, fractional λ, schedulers."""
    for seed in range(start, start + 100):
        unit = random_unit(seed, order)
        if not small(unit):
            continue
        plain = outcome(run_compiled(unit, fast_forward=False), unit.in_order)
        fast = run_compiled(unit, fast_forward=True)
        assert outcome(fast, unit.in_order) == plain, seed
        for skipping in (False, True):
            timed = time_compiled(unit, fast_forward=skipping)
            assert (timed.end, timed.instructions) == (fast.end, fast.instructions), seed
        if seed % 4 == 0:  # the reference is slow; a longer run by hand takes every seed
            assert outcome(Reference(unit).run(), unit.in_order) == plain, seed
        timed = time_compiled(with_idle_pipelines(unit))
        assert (timed.end, timed.instructions) == (fast.end, fast.instructions), seed


@compiled
@settings(max_examples=150)
@given(st.data())
def test_fast_forward_on_drawn_graphs(data):
    """Hypothesis draws the choices itself, so that a failure shrinks."""

    def pick(choices):
        return choices[data.draw(st.integers(0, len(choices) - 1))]

    chosen = random_graphs.unit(pick)
    graph = random_graphs.Maker(pick, chosen["warps_per_block"], max_items=3).graph()
    latencies = random_graphs.latencies(pick, chosen["schedulers"] > 1)
    unit = make_unit(graph, latencies=latencies, **chosen)
    if small(unit):
        plain = outcome(run_compiled(unit, fast_forward=False), unit.in_order)
        assert outcome(run_compiled(unit, fast_forward=True), unit.in_order) == plain
        assert outcome(Reference(unit).run(), unit.in_order) == plain


@compiled
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("warps", [1, 7, 64])
def test_long_loops_and_grids_are_skipped(order, warps):
    g = pa.InstructionGraph.builder()
    with g.loop(10**6) as body:
        load = g.op("load")
        g.op("add", load, body.carried("sum"), name="sum")
        g.barrier()
    latencies = {
        "load": pa.Latency(2, 47), "add": pa.Latency(0.25, 6), "barrier": pa.Latency(3, 40)
    }  # fmt: skip
    result = pa.simulate(g.build(), warps, 10**6, 2, latencies, issue_order=order)
    assert result.instructions == 3 * 10**12 * warps
    assert result.events.blocks_retired == 10**6
    assert result.skipped > 0.999_99


def test_bounds_hold_and_are_monotone():
    for seed in range(200):
        unit = random_unit(seed)
        if not small(unit):
            continue
        limits = bounds(unit)
        end = Reference(unit).run().end / unit.pipelines.ticks
        assert limits.lower <= end <= limits.upper, seed


@compiled
def test_compiled_bounds_are_those_of_the_reference(monkeypatch):
    pick = random.Random(3)
    for unrolled in (UNROLLED, 40):  # with loops that are followed in part
        monkeypatch.setattr(reference_bounds, "UNROLLED", unrolled)
        for seed in range(300):
            unit = random_unit(seed)
            watched = pick.sample(range(unit.graph_nodes + 1), k=min(3, unit.graph_nodes))
            assert compiled_engine.fits(unit)
            made, expected = find_sums_compiled(unit, watched), find_sums(unit, watched)
            assert [*made.busy] == [*expected.busy], seed
            assert made[1:] == expected[1:], seed


def test_a_long_program_without_loops_has_bounds():
    g = pa.InstructionGraph.builder()
    for _ in range(UNROLLED + 1):
        last = g.op("x")
    g.op("x", last)
    table = {"x": pa.Latency(1, 10)}
    unit = make_unit(g.build(), 1, 1, 1, table, "in-order", "loose-round-robin", 1, None)
    assert bounds(unit).path == 20
    assert find_sums(unit, ()).followed[0].latest == 20 * unit.pipelines.ticks


def test_the_path_stays_a_bound_where_loops_are_followed_in_part():
    """A long loop feeds a short one whose first iterations take a slow value."""
    g = pa.InstructionGraph.builder()
    slow = g.op("slow")
    with g.loop(10**5) as body:  # more than are followed one by one
        last = g.op("tiny", body.carried("t", distance=2), name="t")
    with g.loop(4) as body:
        end = g.op("tiny", last, body.carried("p", init=slow, distance=3), name="p")
    g.op("slow", end)
    table = {"slow": pa.Latency(1, 5e5), "tiny": pa.Latency(0.25, 1)}
    unit = make_unit(g.build(), 1, 1, 1, table, "in-order", "loose-round-robin", 1, None)
    limits = bounds(unit)
    if available():
        assert limits.lower <= run_compiled(unit, True).end / unit.pipelines.ticks <= limits.upper


def test_bounds_rise_with_every_latency():
    for seed in range(60):
        source = random.Random(seed)
        settings = {"schedulers": 4, "scheduler": "loose-round-robin", "issue_width": None}

        def pick(choices, source=source):
            return choices[source.randrange(len(choices))]

        graph = random_graphs.Maker(pick, 2).graph()
        table = random_graphs.latencies(pick, scoped=True)
        name, factor, field = pick(sorted(table)), pick((2, 10)), pick(("issue", "completion"))
        old = table[name]
        values = {"issue": old.issue, "completion": old.completion}
        values[field] *= factor
        slower = {**table, name: pa.Latency(pipeline=old.pipeline, scope=old.scope, **values)}
        before, after = (
            bounds(make_unit(graph, 2, 3, 2, t, issue_order="in-order", **settings))
            for t in (table, slower)
        )
        assert all(after.pipelines[p] >= before.pipelines[p] for p in before.pipelines), seed
        assert after.path >= before.path
        assert after.upper >= before.upper


@pytest.mark.parametrize("field", ["issue", "completion"])
def test_chains_on_one_pipeline_are_monotone(field):
    """Simulated time is monotone in λ and Λ there, and the bounds are everywhere."""
    for warps in (1, 3, 16, 40):
        times = []
        for value in (1, 1.5, 2, 3, 5, 8, 13, 21, 34, 55):
            made = {"issue": 2, "completion": 9, field: value}
            times.append(pa.simulate(chain(12), warps, 3, 2, {"x": pa.Latency(**made)}).cycles)
        assert times == sorted(times)


def test_every_cycle_of_a_warp_is_accounted_for():
    """The cycles of a warp are issued + stalled + not selected + waiting + not begun."""
    for seed in range(150):
        unit = random_unit(seed, "in-order")
        if unit.width != 1 or not small(unit):
            continue
        totals = Reference(replace(unit, profile=True)).run()
        first = range(min(unit.resident, unit.blocks))
        spent = unit.stagger * unit.warps * sum(first) + (
            sum(totals.issued) * unit.pipelines.ticks + sum(totals.dependence)
            + sum(totals.pipeline) + totals.not_selected + totals.drained
            + sum(s.stall for s in totals.profile.spent.values())
        )  # fmt: skip
        late = spent - totals.resident  # a block may end before its last issue's cycle is over
        assert 0 <= late <= totals.retired * unit.warps * unit.pipelines.ticks


def test_a_trace_shows_a_window():
    result = pa.simulate(
        saxpy(), 2, 3, 1,
        {"index": pa.Latency(1, 4), "mem": pa.Latency(2, 20), "fmadd": pa.Latency(1, 4)},
        trace=(0, 1000),
    )  # fmt: skip
    kinds = [e.kind for e in result.trace]
    assert kinds.count("issued") == kinds.count("completed") == result.instructions == 30
    assert kinds.count("launched") == kinds.count("retired") == 3
    assert result.trace[0].time == 0
    assert [e.time for e in result.trace] == sorted(e.time for e in result.trace)


def test_partial_barriers_wait_for_what_they_name():
    """A full barrier waits for the slow load, one that names the fast one does not."""
    latencies = {
        "slow": pa.Latency(1, 100), "fast": pa.Latency(1, 5), "barrier": pa.Latency(1, 2),
        "end": pa.Latency(1, 1),
    }  # fmt: skip

    def cycles(partial, order):
        g = pa.InstructionGraph.builder()
        g.op("slow")
        fast = g.op("fast")
        g.barrier(*([fast] if partial else []))
        g.op("end")
        return pa.simulate(g.build(), 1, 1, 1, latencies, issue_order=order)

    for order in ORDERS:
        assert cycles(False, order).cycles == 100 + 2 + 1
        assert cycles(True, order).cycles == 100  # the rest overlaps with the slow load


def test_warps_with_graphs_of_their_own():
    g = pa.InstructionGraph.builder()
    with g.only(warps=range(0, 4)):
        g.op("x")
    g.op("y")
    result = pa.simulate(g.build(), 8, 2, 2, {"x": pa.Latency(1, 9), "y": pa.Latency(1, 9)})
    assert result.events.issued == {"x": 8, "y": 16}


def test_latencies_may_depend_on_the_resident_warps():
    def contended(warps):
        return pa.Latency(issue=warps, completion=100)

    result = pa.simulate(chain(1), 4, 6, 2, {"x": contended})
    assert result.cycles == pa.simulate(chain(1), 4, 6, 2, {"x": pa.Latency(8, 100)}).cycles


def test_any_float_is_a_latency():
    """If ticks are too fine for 64 bits, the reference engine simulates."""
    third, pi = 1 / 3, 3.14159265358979
    result = pa.simulate(chain(3), 5, 2, 2, {"x": pa.Latency(third, pi)})
    assert result.cycles == pytest.approx(max(3 * pi + 9 * third, pi + 29 * third))
    long = pa.simulate(chain(300), 5, 40, 2, {"x": pa.Latency(third, pi)})
    assert long.engine == "reference"
    assert long.instructions == 60_000


class TestWorkIsBounded:
    """Tests that a simulation that would take hours is an error with a remedy."""

    def run(self, trips=1, **settings):
        g = pa.InstructionGraph.builder()
        with g.loop(trips):
            g.op("b", g.op("a"))
        latencies = {"a": pa.Latency(1, 5), "b": pa.Latency(2, 20)}
        given = {"warps_per_block": 2, "blocks": 4, "resident_blocks": 2, **settings}
        return pa.simulate(g.build(), latencies=latencies, **given)

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"schedulers": 2**31}, "schedulers must be at most 1024"),
            ({"warps_per_block": 2**31}, "warps_per_block must be at most 65536"),
            ({"blocks": 2**31, "resident_blocks": 2**30}, "more than the 65536 warps"),
            ({"blocks": 10**30}, "blocks must be at most"),
            ({"blocks": 2**62, "fast_forward": False}, "would have to be simulated one by one"),
            ({"trips": 10**30}, "trips must be at most"),
            ({"trips": 10**18}, "would have to be simulated one by one"),
        ],
    )
    def test_too_much_is_refused(self, settings, said):
        with pytest.raises(pa.GraphError, match=said):
            self.run(**settings)

    def test_latencies_are_a_mapping(self):
        g = pa.InstructionGraph.builder()
        g.op("a")
        with pytest.raises(pa.GraphError, match="latencies must map"):
            pa.simulate(g.build(), 1, 1, 1, 5)

    def test_many_blocks_are_skipped(self):
        assert self.run(blocks=2**40).instructions == 2**40 * 4

    def test_what_piles_up_before_a_slow_pipeline_takes_time_in_proportion(self):
        """No state comes again: each iteration has one instruction more that waits."""
        found = self.run(trips=20_000, blocks=2)
        assert found.instructions == 20_000 * 8
        assert found.cycles == 5 + 2 * (4 * 20_000 - 1) + 20

    def test_numbers_of_numpy(self):
        of_numpy = {
            "blocks": np.int32(4),
            "resident_blocks": np.uint8(2),
            "schedulers": np.int64(2),
        }
        assert self.run(**of_numpy).cycles == self.run(schedulers=2).cycles
