"""Channels: producers and consumers, named barriers; closed forms, recurrences, random graphs."""

import random
from dataclasses import replace

import pytest
import random_graphs
from test_simulate import compiled, outcome, small

import perfassert as pa
from perfassert.engines.pipeline.bounds import bounds
from perfassert.engines.pipeline.compiled import run_compiled
from perfassert.engines.pipeline.reference import Reference
from perfassert.engines.pipeline.simulate import make_unit
from perfassert.kernel.graph import Channel, Signal

ORDERS = ["dataflow", "in-order"]
POLL, SIGNAL = 3, 2  # Λ of a wait, and how long an arrival takes


def pipeline(trips, stages, copy_issue, copy, math):
    """A warp that copies for one that computes; nothing is in the way of anything else."""
    g = pa.InstructionGraph.builder()
    full, empty = g.channel(1, "full"), g.channel(1, "empty")
    with g.only(warps={0}), g.loop(trips):
        g.wait(empty, lead=stages, operation="wait empty")
        g.arrive(full, expects=1, operation="arrive full")
        g.op("copy", completes=full)
    with g.only(warps={1}), g.loop(trips):
        g.wait(full, operation="wait full")
        g.arrive(empty, g.op("math"), operation="arrive empty")
    latencies = {
        "wait empty": pa.Latency(1, POLL), "wait full": pa.Latency(1, POLL),
        "arrive full": pa.Latency(SIGNAL, 99), "arrive empty": pa.Latency(SIGNAL, 99),
        "copy": pa.Latency(copy_issue, copy), "math": pa.Latency(1, math),
    }  # fmt: skip
    return g.build(), latencies


def cycles(order, *parameters):
    graph, latencies = pipeline(*parameters)
    return pa.simulate(graph, 2, 1, 1, latencies, issue_order=order).cycles


def recurrence(trips, stages, copy_issue, copy, math):
    """Compute when each stage is requested, filled, used and free, iteration by iteration."""
    free, asked, done = [], 0, 0
    next_copy = 0
    for i in range(trips):
        asked = max(asked, free[i - stages] if i >= stages else 0) + POLL
        issued = max(asked, next_copy)
        next_copy = issued + copy_issue
        filled = issued + max(copy, SIGNAL)
        done = max(done, filled) + POLL + math
        free.append(done + SIGNAL)
        asked = issued
    return free[-1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("trips", [1, 2, 40])
class TestProducerAndConsumer:
    def test_computing_hides_the_copies_but_for_the_first(self, order, trips):
        fill = POLL + 200
        assert cycles(order, trips, 4, 5, 200, 90) == fill + trips * (POLL + 90) + SIGNAL

    def test_copying_hides_the_computation_but_for_the_last(self, order, trips):
        drain = 200 + POLL + 30 + SIGNAL
        assert cycles(order, trips, 9, 60, 200, 30) == POLL + (trips - 1) * 60 + drain

    def test_one_stage_takes_turns(self, order, trips):
        each = POLL + 200 + POLL + 90 + SIGNAL
        assert cycles(order, trips, 1, 5, 200, 90) == trips * each

    def test_without_asynchrony_it_is_the_sum(self, order, trips):
        g = pa.InstructionGraph.builder()
        with g.loop(trips) as body:
            copied = g.op("copy", body.carried("math"))
            g.op("math", copied, name="math")
        table = {"copy": pa.Latency(5, 200), "math": pa.Latency(1, 90)}
        alone = pa.simulate(g.build(), 1, 1, 1, table, issue_order=order).cycles
        assert alone == trips * (200 + 90)


@pytest.mark.parametrize("order", ORDERS)
def test_few_stages_are_bound_by_the_round_trip(order):
    """S stages per round of poll, copy, poll, math, signal, where nothing else is slower."""
    round_trip = POLL + 400 + POLL + 20 + SIGNAL
    for stages in (1, 2, 3):
        rounds = 60
        took = cycles(order, stages * rounds, stages, 5, 400, 20)
        last = (stages - 1) * max(5, POLL + 20)
        assert took == rounds * round_trip + last


@pytest.mark.parametrize("order", ORDERS)
def test_any_pipeline_follows_the_recurrence(order):
    source = random.Random(17)
    for _ in range(150):
        parameters = (
            source.randint(1, 30), source.randint(1, 6), source.randint(1, 80),
            source.randint(1, 500), source.randint(1, 120),
        )  # fmt: skip
        assert cycles(order, *parameters) == recurrence(*parameters), parameters


def test_copies_share_the_memory_system():
    """Behind a server that is slower than all else, the copies come one after the other."""
    graph, latencies = pipeline(30, 8, 1, 200, 40)
    nodes = tuple(
        n._replace(demands=(("dram", 70),)) if n.operation == "copy" else n for n in graph.nodes
    )
    took = pa.simulate(replace(graph, nodes=nodes), 2, 1, 1, latencies, "in-order").cycles
    assert took == POLL + 30 * 70 + 200 + POLL + 40 + SIGNAL


@pytest.mark.parametrize("order", ORDERS)
def test_a_phase_waits_for_all_its_copies_and_arrivals(order):
    g = pa.InstructionGraph.builder()
    full = g.channel(2)
    with g.only(warps={0}):
        g.arrive(full, expects=2)
        g.op("near", completes=full)
        g.op("far", completes=full)
    with g.only(warps={1}):
        g.arrive(full, g.op("late"))
    with g.only(warps={2}):
        g.wait(full)
        g.op("end")
    made = g.build()
    for far, late, end in ((300, 10, 300), (100, 250, 252)):
        table = {
            "near": pa.Latency(1, 40), "far": pa.Latency(1, far), "late": pa.Latency(1, late),
            "arrive": pa.Latency(2, 2), "wait": pa.Latency(1, 5), "end": pa.Latency(1, 7),
        }  # fmt: skip
        assert pa.simulate(made, 3, 1, 1, table, issue_order=order).cycles == end + 5 + 7


@pytest.mark.parametrize("order", ORDERS)
def test_who_waits_issues_nothing_else(order):
    """A warp that spins leaves the issue slots to others and is charged to the wait."""
    g = pa.InstructionGraph.builder()
    full = g.channel(1)
    with g.only(warps={0}):
        g.wait(full)
        g.op("x")
    with g.only(warps={1}):
        with g.loop(50) as body:
            g.op("x", body.carried("x"), name="x")
        g.arrive(full)
    table = {"wait": pa.Latency(1, 6), "x": pa.Latency(1, 4), "arrive": pa.Latency(1, 1)}
    result = pa.simulate(g.build(), 2, 1, 1, table, issue_order=order, issue_width=1)
    assert result.events.issued == {"wait": 1, "x": 51, "arrive": 1}
    if order == "in-order":
        # from 1 on, until it has arrived at 198, signalled a cycle later, and been polled
        assert result.events.dependence["wait"] == 198 + 1 + 6 - 1


@pytest.mark.parametrize("order", ORDERS)
def test_where_all_meet_it_is_a_barrier(order):
    for seed in range(60):
        source = random.Random(seed)

        def pick(choices, source=source):
            return choices[source.randrange(len(choices))]

        settings = {**random_graphs.unit(pick), "issue_order": order}
        table = random_graphs.latencies(pick, scoped=True)
        warps = settings["warps_per_block"]
        graph = random_graphs.Maker(pick, warps, max_items=3).graph()
        nodes = tuple(
            n._replace(partial=n.fence, signal=None) for n in graph.nodes
        )  # compiled code's barriers
        barriers = replace(graph, nodes=nodes)
        meeting = replace(
            barriers,
            nodes=tuple(
                n._replace(signal=Signal(n.index, arrives=True, waits=True)) if n.fence else n
                for n in nodes
            ),
            channels=tuple(Channel("", warps) for _ in nodes),
        )
        one, other = (make_unit(made, latencies=table, **settings) for made in (barriers, meeting))
        if small(one):
            a, b = (outcome(Reference(u).run(), u.in_order) for u in (one, other))
            assert a == b, seed


@pytest.mark.parametrize("order", ORDERS)
def test_a_phase_that_nobody_completes_is_an_error(order):
    g = pa.InstructionGraph.builder()
    full = g.channel(2)
    g.op("x")
    with g.only(warps={0}):
        g.arrive(full)
    g.wait(full)
    table = {"x": pa.Latency(1, 2), "arrive": pa.Latency(1, 2), "wait": pa.Latency(1, 2)}
    with pytest.raises(pa.GraphError, match="node 2 waits for a phase that is never complete"):
        pa.simulate(g.build(), 2, 1, 1, table, issue_order=order)


def test_bad_channels_are_refused():
    g = pa.InstructionGraph.builder()
    with pytest.raises(pa.GraphError, match="arrivals must be at least 1, not 0"):
        g.channel(0)
    other = pa.InstructionGraph.builder().channel(1)
    with pytest.raises(pa.GraphError, match="a channel is what channel"):
        g.wait(other)
    full = g.channel(1, "full")
    g.arrive(full)
    with pytest.raises(pa.GraphError, match="'full': 2 warps arrive, 1 complete a phase"):
        pa.simulate(g.build(), 2, 1, 1, {"arrive": pa.Latency(1, 1)})
    g = pa.InstructionGraph.builder()
    full = g.channel(1, "full")
    with pytest.raises(pa.GraphError, match="lead must be"):
        g.wait(full, lead=-1)
    with pytest.raises(pa.GraphError, match="expects must be"):
        g.arrive(full, expects=-1)
    g.op("copy", completes=full)
    with pytest.raises(pa.GraphError, match="'full' before an arrival expects it"):
        pa.simulate(g.build(), 1, 1, 1, {"copy": pa.Latency(1, 1)})


def random_unit(seed, order=None):
    source = random.Random(seed)

    def pick(choices):
        return choices[source.randrange(len(choices))]

    settings = random_graphs.unit(pick)
    if order:
        settings["issue_order"] = order
    maker = random_graphs.Maker(
        pick, settings["warps_per_block"], max_trips=pick((4, 9, 40)), channels=True
    )
    graph = maker.graph()
    table = random_graphs.latencies(pick, settings["schedulers"] > 1, ("arrive", "wait"))
    if settings["issue_order"] == "dataflow" or pick((True, False, False)):
        return make_unit(graph, latencies=table, **settings)
    unit = make_unit(
        random_graphs.behind_servers(pick, graph), latencies=table,
        queues={table["a"].pipeline: pick((0, 1, 3, 5))}, **settings,
    )  # fmt: skip
    stagger = pick((0, 0, 7, 40)) * unit.pipelines.ticks
    return replace(unit, profile=unit.width == 1, stagger=stagger)


@compiled
@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", range(0, 900, 100))
def test_fast_forward_equals_plain_equals_reference(start, order):
    for seed in range(start, start + 100):
        unit = random_unit(seed, order)
        if not small(unit):
            continue
        plain = outcome(run_compiled(unit, fast_forward=False), unit.in_order)
        assert outcome(run_compiled(unit, fast_forward=True), unit.in_order) == plain, seed
        if seed % 4 == 0:
            assert outcome(Reference(unit).run(), unit.in_order) == plain, seed


@compiled
@pytest.mark.parametrize("order", ORDERS)
def test_long_pipelines_are_skipped(order):
    """Exactly: by the closed form, where the computation hides the copies."""
    graph, latencies = pipeline(10**6, 4, 5, 200, 90)
    result = pa.simulate(graph, 2, 10**4, 2, latencies, issue_order=order)
    one = pa.simulate(graph, 2, 1, 1, latencies, issue_order=order)
    assert one.cycles == POLL + 200 + 10**6 * (POLL + 90) + SIGNAL
    assert result.skipped > 0.999
    assert result.events.issued["math"] == 10**10


def test_random_channels_end_within_their_bounds():
    some = 0
    for seed in range(150):
        unit = random_unit(seed)
        if not small(unit):
            continue
        limits = bounds(unit)
        end = Reference(unit).run().end / unit.pipelines.ticks
        assert limits.lower <= end <= limits.upper, seed
        some += bool(unit.channels)
    assert some > 50
