"""Issue slots lie at whole cycles; pipelines whose λ does not fit keep their rate."""

import random
from math import ceil

import pytest
import random_graphs

import perfassert as pa

ORDERS = ["dataflow", "in-order"]


def independent(count):
    g = pa.InstructionGraph.builder()
    with g.loop(count):
        g.op("x")
    return g.build()


def cycles(graph, latency, warps, order, **unit):
    found = {
        pa.simulate(
            graph, warps, 1, 1, {"x": latency}, issue_order=order, issue_width=1,
            fast_forward=fast, **unit,
        ).cycles
        for fast in (True, False)
    }  # fmt: skip
    (time,) = found
    return time


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("issue", [1, 8.5, 2.02, 4.25, 2.13])
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_a_pipeline_keeps_its_rate_between_slots(issue, count, order):
    """The n-th instruction finds the first slot after n times λ."""
    last = ceil(round((count - 1) * issue, 6))
    assert cycles(independent(count), pa.Latency(issue, 20), 1, order) == last + 20


@pytest.mark.parametrize("order", ORDERS)
def test_several_schedulers_share_a_pipeline_that_takes_several_in_a_cycle(order):
    """Four schedulers, λ = 1/4 and 1/2: each issues in every cycle, or in every second one."""
    for issue, slots in ((0.25, 1), (0.5, 2)):
        time = cycles(independent(1000), pa.Latency(issue, 20), 4, order, schedulers=4)
        assert time == pytest.approx(1000 * slots + 20, abs=slots)


@pytest.mark.parametrize("order", ORDERS)
def test_a_pipeline_that_stood_still_starts_anew(order):
    """A pipeline that was idle does not use the rest of a fractional cycle."""
    g = pa.InstructionGraph.builder()
    with g.loop(50) as body:
        g.op("x", body.carried("x"), name="x")
    assert cycles(g.build(), pa.Latency(8.5, 20), 1, order) == 50 * 20


@pytest.mark.parametrize("order", ORDERS)
def test_random_graphs_are_never_below_the_work_of_a_pipeline(order):
    rng = random.Random(17)
    for _ in range(60):
        warps = rng.choice((1, 2, 4))
        graph = random_graphs.Maker(rng.choice, warps).graph()
        latencies = {
            name: pa.Latency(rng.choice((0.3, 1.75, 2.5, 8.5)), 9.5)
            for name in (*random_graphs.OPERATIONS, "barrier")
        }
        found = pa.simulate(
            graph, warps, 3, 2, latencies, issue_order=order, issue_width=1, schedulers=2
        )
        for name in {n.operation for n in graph.nodes}:
            work = (
                3
                * latencies[name].issue
                * sum(graph.executions(n, warps) for n in graph.nodes if n.operation == name)
            )
            assert found.cycles >= work - 1e-9
