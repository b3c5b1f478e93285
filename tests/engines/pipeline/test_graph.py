"""Graphs: what they mean, and what is refused, with the node named."""

import pytest

import perfassert as pa

X = {"x": pa.Latency(1, 10), "y": pa.Latency(1, 10)}


def builder():
    return pa.InstructionGraph.builder()


def raises(text):
    return pytest.raises(pa.GraphError, match=text)


def test_carried_values_take_init_then_the_loop():
    g = builder()
    start = g.op("x")
    with g.loop(3) as body:
        g.op("x", body.carried("s", init=start), name="s")
    assert pa.simulate(g.build(), 1, 1, 1, X).cycles == 40


def test_a_distance_of_two_makes_two_chains():
    g = builder()
    with g.loop(6) as body:
        g.op("x", body.carried("s", distance=2), name="s")
    assert pa.simulate(g.build(), 1, 1, 1, X).cycles == 31  # three rounds, one issue apart


def test_a_node_of_a_loop_used_after_it_means_its_last_iteration():
    g = builder()
    with g.loop(4) as body:
        last = g.op("x", body.carried("s"), name="s")
    g.op("y", last)
    assert pa.simulate(g.build(), 1, 1, 1, X).cycles == 50


def test_a_carried_node_may_lie_in_a_nested_loop():
    g = builder()
    with g.loop(2) as outer:
        first = outer.carried("s")
        with g.loop(3) as inner:
            g.op("x", inner.carried("s", init=first), name="s")
    assert pa.simulate(g.build(), 1, 1, 1, X).cycles == 60


def test_only_data_edges_order_iterations():
    g = builder()
    with g.loop(5):
        g.op("x", g.op("x"))
    independent = pa.simulate(g.build(), 1, 1, 1, {"x": pa.Latency(1, 100)}).cycles
    assert independent == 200 + 4  # five loads, then five consumers, all overlapped


def test_loops_without_iterations_are_nothing():
    g = builder()
    with g.loop(0):
        gone = g.op("x")
    g.op("y", gone)
    result = pa.simulate(g.build(), 1, 1, 1, X)
    assert (result.cycles, result.instructions) == (10, 1)


def test_trips_from_arguments():
    g = builder()
    with g.loop("n // 4 + 1"):
        g.op("x")
    graph = g.build()
    assert pa.simulate(graph.bound({"n": 8}), 1, 1, 1, X).instructions == 3
    with raises("need launch arguments"):
        pa.simulate(graph, 1, 1, 1, X)
    for names, reason in (({}, "unknown name 'n'"), ({"n": -8}, "are negative")):
        with raises(reason):
            graph.bound(names)


@pytest.mark.parametrize("trips", ["n // 0", "n +", "n.m", "f(n)", "1.5", "n if n else 1"])
def test_trip_expressions_are_arithmetic(trips):
    g = builder()
    with g.loop(trips):
        g.op("x")
    with raises("'"):
        g.build().bound({"n": 8})


def test_what_cannot_be_built():
    g = builder()
    with raises("has no node"):
        g.build()
    node = g.op("x", name="a")
    with raises("name 'a' is used twice"):
        g.op("x", name="a")
    with raises("belongs to another graph"):
        builder().op("y", node)
    with raises("must be a node or a carried value"):
        g.op("y", "a")
    with raises("a class name, not ''"):
        g.op("")
    with raises("add barriers with barrier"):
        g.op("barrier")
    with raises("trips must be at least 0, not -1"):
        g.loop(-1)
    with raises("trips must be"):
        g.loop(1.5)
    with g.only(warps=[0]), raises("barrier .* under only"):
        g.barrier()
    with raises("integers"):
        g.only(warps=[])
    with raises("several numbers"):
        g.only(warps=3)
    with raises("graph must be built"):
        pa.simulate(g, 1, 1, 1, X)


def test_carried_values_that_cannot_be_resolved():
    g = builder()
    outside = g.op("x", name="outside")
    with g.loop(2) as body:
        with raises("distance must be at least 1"):
            body.carried("s", distance=0)
        inside = g.op("x", name="inside")
        with raises("not a node before the loop"):
            body.carried("s", init=inside)
        kept = body.carried("inside", init=outside)
    with raises("its loop is closed"):
        body.carried("inside")
    with raises("used outside its loop"):
        g.op("x", kept)
    for name, reason in (("nowhere", "no node has that name"), ("outside", "does not lie in")):
        h = builder()
        h.op("x", name="outside")
        with h.loop(2) as body:
            h.op("x", body.carried(name), name="user")
        with raises(f"node user .*{reason}"):
            h.build()


def test_an_open_loop_cannot_be_built():
    g = builder()
    with g.loop(2):
        g.op("x")
        with raises("still open"):
            g.build()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"latencies": {"y": pa.Latency(1, 1)}}, r"node 0 \(x\): .*'x' has no latency"),
        ({"blocks": 0}, "blocks must be"),
        ({"warps_per_block": 1.5}, "warps_per_block must be"),
        ({"resident_blocks": True}, "resident_blocks must be"),
        ({"issue_order": "sideways"}, "issue_order must be one of dataflow, in-order"),
        ({"scheduler": "random"}, "scheduler must be one of"),
        ({"issue_width": 0}, "issue_width must be"),
        ({"latencies": {"x": (1, 1)}}, "must be a Latency"),
        ({"trace": 5}, "trace must be"),
        ({"trace": (0, float("inf"))}, "trace must be"),
    ],
)
def test_impossible_simulations(change, reason):
    g = builder()
    g.op("x")
    usual = {"warps_per_block": 1, "blocks": 1, "resident_blocks": 1, "latencies": X}
    with raises(reason):
        pa.simulate(g.build(), **{**usual, **change})


@pytest.mark.parametrize("wrong", [(0, 1), (1, 0), (-1, 1), (float("nan"), 1), ("1", 1)])
def test_impossible_latencies(wrong):
    with raises("above 0"):
        pa.Latency(*wrong)
    with raises("scope must be"):
        pa.Latency(1, 1, scope="warp")


def test_only_names_warps_that_exist():
    g = builder()
    with g.only(warps=[7]):
        g.op("x")
    with raises("only.. names warp 7, a block has 4"):
        pa.simulate(g.build(), 4, 1, 1, X)


def test_export():
    g = builder()
    a = g.op("x", name="a")
    with g.loop(3) as body:
        g.op("y", a, body.carried("s", init=a), name="s")
    exported = g.build().to_networkx()
    assert exported.nodes[0]["operation"] == "x"
    assert sorted(d["distance"] for *_, d in exported.edges(data=True)) == [0, 0, 1]
