"""Greedy-then-oldest: a warp goes on until it stalls, then the oldest one is first."""

import pytest

import perfassert as pa

TIMES = {"own": pa.Latency(1, 6), "shared": pa.Latency(4, 4)}


def two_warps(waits):
    """The first needs the shared pipeline once in a chain; the second one four times."""
    g = pa.InstructionGraph.builder()
    with g.only([0]):
        first = g.op("own")
        link = g.op("shared", first)
        for _ in range(waits):
            link = g.op("own", link)
    with g.only([1]):
        for _ in range(4):
            g.op("shared")
    return g.build()


@pytest.mark.parametrize("fast_forward", [True, False])
def test_who_is_held_by_a_pipeline_gives_way(fast_forward):
    """The second warp takes the pipeline at 1 and 5; at 9 both could, and the older one does."""
    found = pa.simulate(
        two_warps(3), 2, 1, 1, TIMES, issue_order="in-order", scheduler="greedy-then-oldest",
        issue_width=1, fast_forward=fast_forward,
    )  # fmt: skip
    assert found.cycles == 9 + 4 + 3 * 6


def test_who_waited_for_its_own_value_goes_on():
    """Two chains on a pipeline that is free in time: the warp served last is served again."""
    g = pa.InstructionGraph.builder()
    with g.only([0]):
        g.op("shared", g.op("own"))
    with g.only([1]):
        for _ in range(2):
            g.op("shared")
    quick = {"own": pa.Latency(1, 3), "shared": pa.Latency(1, 1)}
    found = pa.simulate(
        g.build(), 2, 1, 1, quick, issue_order="in-order", scheduler="greedy-then-oldest",
        issue_width=1, trace=(0, 9),
    )  # fmt: skip
    issued = [(e.time, e.warp) for e in found.trace if e.kind == "issued"]
    assert issued == [(0, 0), (1, 1), (2, 1), (3, 0)]
