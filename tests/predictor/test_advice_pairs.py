"""Pairs of kernels, before and after the advice is taken: before, it is among the first three;
after, it has gone or fallen, and the kernel is predicted to be faster."""

import pytest
from advice_pairs import PAIRS, TILES, N, predicted

import perfassert as pa
from perfassert.kernel.graph import ItemKind
from perfassert.predictor.model import model_of
from perfassert.predictor.rewrites.scheduling import remove

pytestmark = pytest.mark.exhaustive(one_in=8)


def made(make):
    try:
        return make()
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def speedup(prediction, optimizer):
    return max((a.speedup for a in prediction.advice if a.optimizer == optimizer), default=1.0)


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("name", PAIRS)
def test_before_and_after(name):
    optimizer = name.partition(" (")[0]
    before, after = map(made, PAIRS[name])
    assert optimizer in [a.optimizer for a in before.advice[:3]], show(before)
    assert speedup(after, optimizer) < speedup(before, optimizer), show(after)
    assert after.time < before.time
    for prediction in (before, after):
        assert sum(prediction.stalls.values()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("device", ["V100-PCIE-32GB", "a100"])
def test_a_constant_of_double_type_is_the_first_to_go(device):
    """Most of what its conversions cost is won by the estimate, too."""
    before, after = (
        made(lambda name=name: predicted(name, TILES, device))
        for name in ("diffuse_double", "diffuse_float")
    )
    assert before.advice[0].optimizer == "Strength Reduction"
    achieved = float(before.time) / float(after.time)
    assert (before.advice[0].speedup - 1) / (achieved - 1) == pytest.approx(0.75, abs=0.25)


def test_asynchronous_copy_needs_a_device_that_has_it():
    for device, found in (("a100", True), ("RTX-2080-Ti", False)):
        p = made(lambda device=device: predicted("through_registers", device=device))
        advice = [a.optimizer for a in p.advice]
        assert ("Asynchronous Copy" in advice) == found


def test_occupancy_that_hides_nothing_is_not_offered():
    launch, options = pa.Launch(1024, 256, args={"n": N}), ("-maxrregcount=128",)
    crowded = made(lambda: predicted("wide", launch, options=options))
    assert crowded.occupancy.limited_by == "registers"
    assert "Occupancy Increase" not in [a.optimizer for a in crowded.advice]


def show(prediction):
    return "\n".join(f"{a.optimizer} {a.speedup:.3f} {a.suggestion}" for a in prediction.advice)


def test_without_an_instruction_stall_counts_stay_what_they_are_for():
    """Without an instruction its waits are gone, and at most two other stall counts change."""
    p = made(lambda: predicted("diffuse_double", TILES))
    model = model_of(p)
    kernel, graph = model.bound_launch.kernel, model.graph
    widening = [n for n in graph.nodes if n.operation == "convert_wide"]
    assert len(widening) > 4
    for gone in widening:
        left = remove(graph, frozenset({gone.index}), model.device, kernel.program, kernel.bound)
        before, after = (stalls_of_body(g, gone.loop) for g in (graph, left))
        assert set(before) - set(after) == {gone.index}
        assert sum(after.values()) <= sum(before.values())
        assert sum(after[n] != before[n] for n in after) <= 2


def stalls_of_body(graph, loop):
    body = graph.loops[loop].body if loop >= 0 else graph.body
    return {i.number: graph.nodes[i.number].stall for i in body if i.kind is ItemKind.NODE}
