"""Stalls and advice of a prediction, from a profile of its simulation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any

from perfassert.engines.advisor.advise import advise as apply_optimizers
from perfassert.engines.advisor.advise import optimizers_of_addresses
from perfassert.engines.advisor.blame import Blame, BlameResult, blame
from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.code import Code, CodeBlock, CodeInstruction, CodeLoop
from perfassert.engines.advisor.optimizer import LATENCY_HIDING
from perfassert.engines.advisor.optimizers import all_optimizers, plugged_optimizers
from perfassert.engines.advisor.rewrites import ResizeBlocks
from perfassert.engines.pipeline.results import Totals
from perfassert.engines.pipeline.simulate import profile_bounded
from perfassert.errors import PluginWarning
from perfassert.hardware.matrix import MatrixVariant
from perfassert.hardware.model import Device
from perfassert.kernel.graph import InstructionGraph
from perfassert.kernel.roles import Role, is_outside_sm, node_space, space_of
from perfassert.kernel.samples import STALLS, Samples
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.prediction import Advice, Diagnosis
from perfassert.predictor.answer import Answer
from perfassert.predictor.diagnose.access_facts import access_facts
from perfassert.predictor.diagnose.block_shapes import better_shape, better_size
from perfassert.predictor.diagnose.grid_sizes import better_grid
from perfassert.predictor.diagnose.line_waits import line_waits
from perfassert.predictor.diagnose.sampling import samples
from perfassert.predictor.diagnose.tile_layouts import better_layouts
from perfassert.predictor.diagnose.trials import prove
from perfassert.predictor.model import Model, model_of
from perfassert.predictor.rewrites.changed_graph import copies_of_loops
from perfassert.predictor.rewrites.resimulation import Resimulation
from perfassert.predictor.rewrites.site import Site
from perfassert.predictor.rewrites.whatif import Predict
from perfassert.predictor.simulate.shortening import represents_all_blocks, shorter_units
from perfassert.quantity import round_significant
from perfassert.system.collection import without_collections

_LIMIT = 400_000  # simulated instructions: shares settle long before
WORTH = 1.005  # times as fast by the formula: less is not worth a suggestion
LEAST_GAIN = 0.02
"""Least gain of an advice, as a share of the time.

Two simulations of one launch share their errors and their start phases.
"""
_THROUGHPUT = ("dram", "l2", "l1", "shared", "atomics", "compute", "issue")


@without_collections()
def diagnose(
    prediction: Any, model: Model, predict: Predict, compiled: int | None = None
) -> Diagnosis:
    """Simulate once more with a profile; stalls by who is to blame, and what would help.

    Args:
        prediction: whose launch it is.
        model: what is simulated for it.
        predict: what predicts a launch.
        compiled: changes that are compiled at most; None: see
            :func:`~perfassert.predictor.diagnose.trials.prove`.
    """
    profiled = _profile(prediction, model, predict)
    stalls, case = MappingProxyType(profiled.stalls), profiled.case
    again = Resimulation(prediction, predict, profiled.model, case)
    if case.sketch:
        advised = _worth_it(apply_optimizers(case, optimizers_of_addresses()), again)
        return Diagnosis(stalls, _in_order(a for a, _ in advised))
    matches = apply_optimizers(case, all_optimizers())
    advised = _worth_it(matches, again)
    proof = prove(prediction, predict, case, matches, advised, 1 + LEAST_GAIN, compiled)
    waits = line_waits(profiled.blames, case.code, profiled.samples)
    return Diagnosis(
        stalls, _in_order(proof.advice), waits, proof.results, proof.left_out, proof.reason
    )


def _worth_it(
    advised: Iterable[tuple[Advice, Match]], again: Resimulation
) -> list[tuple[Advice, Match]]:
    """Return suggestions by their simulated gain, the best first, one of each name.

    Suggestions that gain at most :data:`LEAST_GAIN` are left out.
    """
    simulated = [(_resimulate(advice, match, again), match) for advice, match in advised]
    worth = [(a, match) for a, match in simulated if a is not None and a.speedup > 1 + LEAST_GAIN]
    best: dict[str, tuple[Advice, Match]] = {}
    for advice, match in sorted(worth, key=lambda pair: (-pair[0].speedup, pair[0].optimizer)):
        best.setdefault(advice.optimizer, (advice, match))
    return list(best.values())


def _in_order(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """The best first."""
    return tuple(sorted(map(round_advice, advice), key=lambda a: (-a.speedup, a.optimizer)))


def _resimulate(advice: Advice, match: Match, again: Resimulation) -> Advice | None:
    """The same; a change of a plug-in that cannot be made is said, and costs no other advice."""
    if plugged_optimizers().get(advice.optimizer) is None:
        return resimulate(advice, match, again)
    try:
        return resimulate(advice, match, again)
    except Exception as error:
        message = (
            f"optimizer {advice.optimizer!r}: its change failed: {type(error).__name__}: {error}"
        )
        warnings.warn(message, PluginWarning, stacklevel=2)
        return None


def resimulate(advice: Advice, match: Match, again: Resimulation) -> Advice | None:
    """The suggestion with the simulated speedup; None where the change cannot be made."""
    if not match.rewrites and match.changes is None:
        return by_formula(advice) if advice.speedup >= WORTH else None
    hiding = advice.category == LATENCY_HIDING or match.same_work
    worth = 1 + LEAST_GAIN
    if hiding and again.case.limit_speedup(inf) <= worth:
        return None  # the busiest server leaves nothing to hide
    speedup = again.speedup(match, worth)
    if speedup is None:
        if again.case.sketch:
            return None
        resized = any(isinstance(rewrite, ResizeBlocks) for rewrite in match.rewrites)
        return by_formula(advice) if resized and advice.speedup >= WORTH else None
    context = {**advice.context, "estimate": "simulation"}
    return replace(advice, speedup=speedup, context=context)


def by_formula(advice: Advice) -> Advice:
    return replace(advice, context={**advice.context, "estimate": "formula"})


def advisor_case(prediction: Answer, predict: Predict) -> Case | None:
    """Return the case that optimizers are shown of a prediction; None without instructions."""
    case = _profile(prediction, model_of(prediction), predict).case
    return None if case.sketch else case


def dependency_coverage(prediction: Answer, predict: Predict) -> tuple[float, float]:
    """Return the single dependency coverage before and after pruning (GPA §VI.C).

    It is the share of nodes of the dependency graph without an operand of several sources.
    """
    return _profile(prediction, model_of(prediction), predict).coverage


@dataclass(frozen=True, slots=True)
class _Profiled:
    """The simulation with its ``samples`` blamed."""

    model: Model
    stalls: dict[str, float]
    case: Case
    coverage: tuple[float, float]
    blames: tuple[Blame, ...]
    samples: float


def _profile(prediction: Any, model: Model, predict: Predict) -> _Profiled:
    device = model.bound_launch.device
    kernel = model.bound_launch.kernel
    sketch = kernel.kind is KernelKind.DESCRIBED
    code = Code.of(kernel.program) if kernel.program is not None else graph_code(model.graph)
    alone = prediction.diagnostics["simulated_cycles"]
    slower = float(prediction.cycles) / alone if alone else 1.0
    totals = profile_bounded(model.unit, _LIMIT)
    whole = model.by_hand or represents_all_blocks(totals, model.unit)
    if not whole and (shorter := shorter_units(model, _LIMIT)):
        totals = profile_bounded(shorter[1], _LIMIT)
    samples = _samples(model, totals, slower)
    blamed = blame(code, samples, latency_bounds(code, device))
    stalls = stall_shares(blamed.blames, samples.total.all)
    more = ((blamed.coverage_before, blamed.coverage_after), blamed.blames, samples.total.all)
    most_speedup = _most_speedup(prediction)
    plain = make_case(model, code, samples, blamed, most_speedup)
    case = replace(
        plain,
        layouts=partial(better_layouts, model, Site(model, plain)),
        shapes=partial(better_shape, prediction, predict, kernel),
        sizes=partial(better_size, prediction, predict, kernel),
        grids=partial(better_grid, prediction, predict, kernel),
        sketch=sketch,
    )
    return _Profiled(model, stalls, case, *more)


def round_advice(advice: Advice) -> Advice:
    def short(value: float) -> float:
        return round_significant(value)

    hotspots = tuple(
        {k: short(v) if isinstance(v, float) else v for k, v in h.items()} for h in advice.hotspots
    )
    return replace(
        advice,
        speedup=short(advice.speedup),
        importance=short(advice.importance),
        formula_speedup=short(advice.formula_speedup),
        hotspots=hotspots,
    )


def latency_bounds(code: Code, device: Device) -> dict[str, float]:
    """Cycles after which a result is there at the latest; memory has no such bound but DRAM's."""
    bounds = {name: o.completion for name, o in device.operations.items()}
    for name in {i.operation for i in code.instructions if MatrixVariant.from_name(i.operation)}:
        bounds[name] = device.operation(name).completion
    slowest = 2 * device.dram_latency * (1 + device.dram_latency_growth)
    return {n: max(b, slowest) if is_outside_sm(space_of(n)) else b for n, b in bounds.items()}


def stall_shares(blames: Iterable[Blame], total: float) -> dict[str, float]:
    """Share of the samples by detailed reason, in the order of the contract."""
    sums = dict.fromkeys(STALLS, 0.0)
    for b in blames:
        sums[b.cls] += b.count.all
    return {k: round_significant(v / total) for k, v in sums.items() if v} if total else {}


def graph_code(graph: InstructionGraph) -> Code:
    """A hand-made graph as code; what waits for what is known from the simulation."""
    instructions = tuple(
        CodeInstruction(
            n.index, n.access or n.name or n.operation, n.operation, node_space(n), loop=n.loop,
            span=n.span, roles=frozenset({Role.SYNCHRONIZES} if n.fence else ()),
        )
        for n in graph.nodes
    )  # fmt: skip
    loops = tuple(
        CodeLoop(loop.index, loop.parent, 0, frozenset({0}), graph.trips(loop.index))
        for loop in graph.loops
    )
    return Code(instructions, {0: CodeBlock(0, 0, len(instructions))}, loops)


def _samples(model: Model, totals: Totals, slower: float) -> Samples:
    assert totals.profile is not None
    return samples(totals.profile, model.unit, model.graph, model.launch_nodes, slower)


def make_case(
    model: Model,
    code: Code,
    samples: Samples,
    blamed: BlameResult,
    most_speedup: float | None = None,
) -> Case:
    kernel, launch, device = model.bound_launch.kernel, model.launch, model.device
    return Case(
        code=code,
        samples=samples,
        blames=blamed.blames,
        device=device,
        occupancy=model.bound_launch.occupancy,
        blocks=launch.blocks,
        threads=launch.threads_per_block,
        registers=kernel.registers,
        shared_bytes=model.bound_launch.shared_bytes,
        spill_bytes=kernel.spill_bytes,
        trips=_trips(code, model.graph),
        accesses=access_facts(model),
        most_speedup=most_speedup,
    )


def _most_speedup(prediction: Answer) -> float | None:
    busiest = max(float(prediction.bounds.get(name, 0.0)) for name in _THROUGHPUT)
    return float(prediction.time) / busiest if busiest else None


def _trips(code: Code, graph: InstructionGraph) -> dict[int, float]:
    """Trips of the code's loops, where the graph kept them as loops."""
    copies = copies_of_loops(code, graph)
    return {loop: float(graph.trips(own[-1])) for loop, own in copies.items()}
