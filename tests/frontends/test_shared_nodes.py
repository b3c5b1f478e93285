"""Launches share the nodes of a graph only if nothing differs on which a node depends."""

import pytest

from perfassert.frontends.graph.items import GraphItem
from perfassert.frontends.graph.numbering import number_items
from perfassert.kernel.expression_pool import ExpressionPool
from perfassert.kernel.graph import Signal
from perfassert.kernel.memo import Memo
from perfassert.kernel.program import BarrierUse, ProgramInstruction
from perfassert.kernel.roles import Role
from perfassert.source import Assumption

FIRST = {0: (0,), 1: (1,)}


def instruction(index, operation, **given):
    plain = {"stall": 1, "sets": -1, "frees": -1, "waits": (), "defines": (), "uses": ()}
    plain |= {"span": None, "inlined": (), "function": "k", "guard": None, "accesses": ()}
    return ProgramInstruction(index, operation, operation, "", **{**plain, **given})


LOAD = instruction(0, "global_load", sets=0)
SLEEP = instruction(1, "sleep", roles=frozenset({Role.HOLDS_WARP}), waits=(0,))
BARRIER = instruction(2, "barrier", fence=True)


def items(trips=3):
    inside = [GraphItem(LOAD), GraphItem(SLEEP), GraphItem(BARRIER, frozenset({1}))]
    return [GraphItem(trips=trips, body=inside), GraphItem(LOAD)]


def change(**given):
    """A change of an item in the loop: that of the instruction which the key names."""
    number, values = given.popitem()

    def apply(made):
        for name, value in values.items():
            setattr(made[0].body[("load", "sleep", "barrier").index(number)], name, value)

    return apply


CHANGES = {
    "off": change(load={"active": False}),
    "of a warp": change(load={"warps": frozenset({1})}),
    "signal": change(load={"signal": Signal(0, arrives=True, waits=False)}),
    "named barrier": change(barrier={"use": BarrierUse("named", ExpressionPool().number(0))}),
    "sleep": change(sleep={"sleep": 40}),
    "guess": change(load={"rests_on": (Assumption("a guess"),)}),
    "instruction": change(load={"instruction": SLEEP}),
    "one less": lambda made: made[0].body.pop(),
    "outside": lambda made: made.append(made[0].body.pop()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_makes_other_nodes(name):
    memo, changed = Memo(), items()
    first = number_items(items(), FIRST, memo)
    CHANGES[name](changed)
    second = number_items(changed, FIRST, memo)
    alone = number_items(changed, FIRST, Memo())
    assert (second.nodes, second.loops, second.body) == (alone.nodes, alone.loops, alone.body)
    assert (second.nodes, second.body) != (first.nodes, first.body)


def test_other_accesses_make_other_nodes():
    memo = Memo()
    first, second = (number_items(items(), {0: (n,)}, memo) for n in (0, 1))
    assert [n.touches for n in first.nodes[:1]] != [n.touches for n in second.nodes[:1]]


def test_other_trips_do_not():
    memo = Memo()
    first, second = (number_items(items(trips), FIRST, memo) for trips in (3, 7))
    assert first.nodes is second.nodes
    assert [x.trips for x in (*first.loops, *second.loops)] == [3, 7]
