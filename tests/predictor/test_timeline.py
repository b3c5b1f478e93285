"""Time lines: nothing is lost, waits have the reasons that the simulation has, closed forms."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

import perfassert as pa
from perfassert.engines.pipeline.events import Stall
from perfassert.engines.pipeline.simulate import make_unit, run_unit
from perfassert.engines.pipeline.watch import watch
from perfassert.report.diagnosis import timeline_data


def unit_of(blocks, resident, warps=2):
    g = pa.InstructionGraph.builder()
    with g.loop(trips=5) as body:
        x = g.op("load")
        g.op("add", x, body.carried("s"), name="s")
        g.barrier()
    latencies = {"load": pa.Latency(3, 50), "add": pa.Latency(2, 4), "barrier": pa.Latency(1, 1)}
    return make_unit(
        g.build(), warps, blocks, resident, latencies, "in-order", "loose-round-robin", 1, 1
    )


def test_every_wait_of_the_simulation_is_there():
    """With one scheduler, sums of waits by reason are those of the simulation."""
    unit = unit_of(blocks=6, resident=2)
    found = watch(unit, 10**6)
    events = run_unit(unit, False).events
    sums = Counter()
    for one in found:
        sums[one.reason] += one.length
    assert sums[None] == sum(events.issued.values())
    assert sums[Stall.NOT_SELECTED] == pytest.approx(events.not_selected)
    assert sums[Stall.PIPELINE] == pytest.approx(sum(events.pipeline.values()))
    waited = sums[Stall.DEPENDENCE] + sums[Stall.BARRIER]
    assert waited == pytest.approx(sum(events.dependence.values()))
    for block in range(6):
        for warp in range(2):
            own = [one for one in found if (one.block, one.warp) == (block, warp)]
            ends = [one.start + one.length for one in own]
            assert [one.start for one in own[1:]] == pytest.approx(ends[:-1])  # no gap, no overlap


def test_it_ends_early():
    unit = unit_of(blocks=1000, resident=2)
    assert 100 <= len(watch(unit, 100)) < 110


def test_a_chain_is_what_the_compiled_engine_traces():
    """One warp executes a load, then an addition that waits for it."""
    g = pa.InstructionGraph.builder()
    g.op("fmadd", g.op("global_load"), produces=False)
    graph = g.build()
    latencies = {"global_load": pa.Latency(1, 400, "global"), "fmadd": pa.Latency(1, 4, "fma")}
    traced = pa.simulate(graph, 1, 1, 1, latencies, issue_order="in-order", trace=(0, 1000)).trace
    (wanted,) = (e.time for e in traced if e.kind == "issued" and e.node == 1)
    kernel = pa.Kernel.from_graph("chain", graph, latencies=latencies, registers=16)
    (lane,) = pa.predict(kernel, pa.Launch(108, 32), "a100").timeline
    (wait,) = lane  # a graph by hand has no issue limit, so that issues take no time
    assert (wait.start, wait.end) == (0, wanted)
    assert (wait.reason, wait.place) == ("memory_dependency", "fmadd")


def test_later_blocks_take_the_places_of_earlier_ones():
    fields = [pa.Field(name, shape=(1 << 22,)) for name in "ab"]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])
    p = pa.predict(kernel, pa.Launch.cover(1 << 22, 256), "a100")
    lanes = p.timeline
    assert len(lanes) == 16  # 64 resident warps on four schedulers
    for lane in lanes:
        assert all(one.end == two.start for one, two in pairwise(lane))
    data = timeline_data(lanes)
    first = data["warps"][0]
    assert sum(first["spans"][1::3]) == lanes[0][-1].end - lanes[0][0].start
    assert data["reasons"][first["spans"][0]] == lanes[0][0].reason
    assert pa.Prediction.from_dict(p.to_dict()).timeline == ()
