"""Tests of the events that the reference engine emits, counted by a listener."""

from collections import Counter

import pytest
from test_simulate import compiled, outcome, random_unit, small

import perfassert as pa
from perfassert.engines.pipeline.compiled import run_compiled
from perfassert.engines.pipeline.events import (
    Barrier,
    Completed,
    Drained,
    Issued,
    Launched,
    Retired,
    Served,
    Stall,
    Stalled,
)
from perfassert.engines.pipeline.reference import Reference
from perfassert.engines.pipeline.reference_dataflow import DataflowMachine
from perfassert.engines.pipeline.reference_in_order import InOrderMachine
from perfassert.engines.pipeline.simulate import make_unit

pytestmark = pytest.mark.exhaustive(one_in=2)

ORDERS = ["dataflow", "in-order"]


class Everything:
    def __init__(self):
        self.events = []

    def hear(self, event):
        self.events.append(event)

    def of(self, kind):
        return [e for e in self.events if isinstance(e, kind)]


def heard(unit):
    everything = Everything()
    machine = InOrderMachine if unit.in_order else DataflowMachine
    return everything, machine(unit, [everything]).run()


def units(order, seeds=80):
    return [u for seed in range(seeds) if small(u := random_unit(seed, order))]


@pytest.mark.parametrize("order", ORDERS)
def test_totals_are_sums_of_events(order):
    for unit in units(order):
        told, _ = heard(unit)
        totals = Reference(unit).run()
        issued = Counter(e.node.operation for e in told.of(Issued))
        assert [issued[i] for i in range(len(totals.issued))] == list(totals.issued)
        busy = Counter()
        for e in told.of(Issued):
            busy[e.node.pipeline] += e.node.issue
        for e in told.of(Served):
            busy[e.server] += e.ticks
        assert [busy[i] for i in range(len(totals.busy))] == list(totals.busy)
        waited = Counter()
        for e in told.of(Stalled):
            waited[e.reason] += e.ticks
        assert waited[Stall.DEPENDENCE] + waited[Stall.BARRIER] == sum(totals.dependence)
        assert waited[Stall.PIPELINE] == sum(totals.pipeline)
        assert waited[Stall.NOT_SELECTED] == totals.not_selected
        assert sum(e.ticks for e in told.of(Drained)) == totals.drained


@pytest.mark.parametrize("order", ORDERS)
def test_what_begins_ends(order):
    for unit in units(order):
        told, end = heard(unit)
        assert len(told.of(Launched)) == len(told.of(Retired)) == unit.blocks
        alive = {e.block: (e.since, e.time) for e in told.of(Retired)}
        for e in told.of(Issued) + told.of(Completed):
            assert alive[e.block][0] <= e.time <= alive[e.block][1] <= end
        key = Counter((e.block, e.warp, e.node.graph_node) for e in told.of(Issued))
        assert key == Counter((e.block, e.warp, e.node.graph_node) for e in told.of(Completed))


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_is_told_once_for_all_warps(order):
    some = 0
    for unit in units(order):
        told, _ = heard(unit)
        issued = Counter(e.block for e in told.of(Issued) if e.node.fence)
        barriers = Counter(e.block for e in told.of(Barrier))
        assert issued == {block: n * unit.warps for block, n in barriers.items()}
        some += len(barriers)
    assert some > 100


def test_a_stall_names_its_producer():
    g = pa.InstructionGraph.builder()
    slow, fast = g.op("slow"), g.op("fast")
    g.op("use", slow, fast)
    times = {"slow": pa.Latency(1, 100), "fast": pa.Latency(1, 5), "use": pa.Latency(1, 1)}
    unit = make_unit(g.build(), 1, 1, 1, times, "in-order", "greedy-then-oldest", 1, 1)
    stalls = [
        (e.reason, e.ticks, e.producer) for e in heard(unit)[0].of(Stalled)
        if e.node.graph_node == 2
    ]  # fmt: skip
    assert stalls == [(Stall.DEPENDENCE, 98, 0)]  # from the cycle after its own last issue


@compiled
@pytest.mark.parametrize("order", ORDERS)
def test_both_engines_tell_the_same(order):
    """Both engines emit the same events of a window; the order at one time may differ."""
    for unit in units(order, 120):
        end = Reference(unit).run().end
        window = (end // 4, max(end // 4 + 1, 3 * end // 4))
        slow = Reference(unit, window).run().trace
        fast = run_compiled(unit, fast_forward=True, window=window).trace
        assert Counter(slow) == Counter(fast)
        assert [e.time for e in fast] == sorted(e.time for e in slow)


@compiled
@pytest.mark.parametrize("order", ORDERS)
def test_listening_changes_nothing(order):
    for unit in units(order, 60):
        alone, heard_too = (run_compiled(unit, False, window=w) for w in ((0, 0), (-5, 10**30)))
        assert outcome(alone, unit.in_order) == outcome(heard_too, unit.in_order)
        assert len(heard_too.trace) >= 2 * sum(alone.issued)
