"""Warps that run a loop at different counts: closed forms, and both engines."""

import random
from dataclasses import replace

import pytest
import random_graphs

import perfassert as pa
from perfassert.engines.pipeline.compiled import _pack_program as packed_program
from perfassert.engines.pipeline.compiled import available, run_compiled
from perfassert.engines.pipeline.reference import Reference
from perfassert.engines.pipeline.simulate import make_unit
from perfassert.kernel.graph import replace_costs

ORDERS = ["dataflow", "in-order"]


def graph(each, inner=0):
    g = pa.InstructionGraph.builder()
    first = g.op("x")
    with g.loop(max(1, round(sum(each) / len(each)))) as body:
        g.op("x", body.carried("x", first), name="x")
        if inner:
            with g.loop(inner) as again:
                g.op("x", again.carried("y"), name="y")
    made = g.build()
    return replace(made, loops=(replace(made.loops[0], each=each), *made.loops[1:]))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("each", [(9, 1, 5), (0, 4, 4), (7,), (0, 0, 3, 0)])
def test_the_longest_warp_decides_where_all_fit(each, order):
    made = graph(each)
    result = pa.simulate(
        made, len(each), 1, 1, {"x": pa.Latency(1, 18)}, issue_order=order, schedulers=1
    )
    assert result.instructions == sum(each) + len(each)
    longest = 18 * (1 + max(each))
    assert longest <= result.cycles <= longest + len(each)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("each", [(9, 1, 5), (0, 4, 4), (2, 2, 30, 1)])
@pytest.mark.skipif(not available(), reason="the compiled engine was not built")
def test_both_engines_agree(each, order):
    made = graph(each, inner=3)
    unit = make_unit(
        made, len(each), 7, 2, {"x": pa.Latency(1, 6)}, order, "greedy-then-oldest", 2, 1
    )
    fast, plain = run_compiled(unit, True), Reference(unit).run()
    assert fast.end == plain.end
    assert list(fast.issued) == list(plain.issued)


@pytest.mark.parametrize("seed", range(60))
def test_other_trips_are_as_of_a_graph_that_has_them(seed):
    """A unit whose loops get other trips is that of the graph with those trips."""
    pick = random.Random(seed).choice
    given = {**random_graphs.unit(pick), "warps_per_block": pick((1, 2, 3, 5))}
    warps = given["warps_per_block"]
    made = random_graphs.Maker(pick, warps, channels=True).graph()
    names = ("meet", "arrive", "wait")
    latencies = random_graphs.latencies(pick, scoped=True, channels=names)
    factor = pick((1, 2, 3))
    loops = tuple(
        replace(x, trips=pick(range(1, 9)) * bool(x.trips) if warps == 1 else factor * x.trips)
        for x in made.loops
    )
    other = replace(made, loops=loops)
    unit = make_unit(made, latencies=latencies, **given).with_trips(other)
    whole = make_unit(other, latencies=latencies, **given)
    for one, two in zip(unit.variant, whole.variant, strict=True):
        assert packed_program(unit.programs[one]) == packed_program(whole.programs[two])


def test_graphs_with_other_costs_and_trips_share_outlines():
    made = graph((3, 3))
    first = make_unit(made, 2, 4, 1, {"x": pa.Latency(1, 6)}, ORDERS[1], "loose-round-robin", 2, 1)
    loops = tuple(replace(loop, trips=5, each=()) for loop in made.loops)
    nodes = tuple(node._replace(latency=pa.Latency(2, 9)) for node in made.nodes)
    again = replace_costs(made, nodes=nodes, loops=loops)
    other = make_unit(again, 2, 4, 1, {}, ORDERS[1], "loose-round-robin", 2, 1)
    assert first.programs[0].outline is other.programs[0].outline
    alone = replace(made, nodes=nodes, loops=loops)
    unshared = make_unit(alone, 2, 4, 1, {}, ORDERS[1], "loose-round-robin", 2, 1)
    assert unshared.programs[0].outline is not other.programs[0].outline
    assert packed_program(unshared.programs[0]) == packed_program(other.programs[0])
    assert packed_program(first.programs[0]) != packed_program(other.programs[0])
