"""Rewrites: the stage that each one names, and Change of 0.3 as rewrites."""

from dataclasses import fields

import pytest

from perfassert.engines.advisor import rewrites
from perfassert.engines.advisor.change import Change, read_change
from perfassert.engines.advisor.rewrites import Rewrite
from perfassert.predictor.rewrites.bind import rewrite_kernel
from perfassert.predictor.rewrites.cost import rewrite_costs, rewrite_graph
from perfassert.predictor.rewrites.traffic import rewrite_traffic

STAGES = {
    "bind": [rewrite_kernel],
    "traffic": [rewrite_traffic],
    "cost": [rewrite_graph, rewrite_costs],
}
KINDS = sorted(
    (
        c for c in vars(rewrites).values()
        if isinstance(c, type) and issubclass(c, Rewrite) and not c.__subclasses__()
    ),
    key=lambda kind: kind.__name__,
)  # fmt: skip
QUESTIONS = {"ResizeBlocks", "JoinAccesses"}  # asked again, in resimulation.py


@pytest.mark.parametrize("kind", KINDS)
def test_a_rewrite_names_the_first_stage_that_it_changes(kind):
    if kind.__name__ in QUESTIONS:
        assert kind.stage == "question"
        return
    changed = [s for s, functions in STAGES.items() if any(kind in f.registry for f in functions)]
    assert kind.stage == changed[0]


@pytest.mark.parametrize("field", [f.name for f in fields(Change)])
def test_every_field_of_a_change_is_some_rewrite(field):
    values = {"classes": {1: "imad"}, "asynchronous": {1: 2}, "unspilled": True, "balanced": True,
              "alone": True, "early": True, "registers": 40, "shared_bytes": 512, "threads": 64,
              "code_bytes": 4096}  # fmt: skip
    (rewrite,) = read_change(Change(**{field: values.get(field, frozenset({1}))}))
    assert type(rewrite) in KINDS
    assert read_change(Change()) == ()
