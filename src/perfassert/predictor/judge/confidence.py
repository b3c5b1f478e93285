"""Confidence of a prediction (measured, extrapolated or guessed), and its reasons.

A stand-in for an address, a trip count, a branch or an opcode carries the instructions and the
bytes that it decides. A prediction is a guess where stand-ins carry more than a twentieth of
either, where executed warps contradict a closed form, or where atomics of unknown rate decide; it
is none where addresses and branches alone are assumed, and the least that they can be would change
the time but little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from perfassert.engines.volume.on_chip import AccessCost
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import Node
from perfassert.prediction.error_band import ErrorBand
from perfassert.predictor.cost.atomics import GUESSED_FROM, global_sectors, unmeasured_atomics
from perfassert.predictor.model import Model
from perfassert.quantity import round_significant
from perfassert.shipped import model_number
from perfassert.source import DISAGREEMENT, Assumption

DECIDED_WITHIN = model_number("decided_within")
"""Largest relative change of the time, usual against least assumption, of no guess."""


@dataclass(frozen=True, slots=True)
class _Weight:
    """Weight of one node of the graph.

    It counts executed warp instructions, the sectors that they request and the cycles for which
    they occupy on-chip memory. The stand-ins in ``executed`` decide about the instructions, those
    in ``addressed`` about sectors and cycles.
    """

    instructions: float
    sectors: float
    cycles: float
    executed: frozenset[Assumption]
    addressed: frozenset[Assumption]


def judge_confidence(
    model: Model, band: ErrorBand, limiter: str
) -> tuple[str, tuple[Assumption, ...]]:
    """Return the confidence of a launch and its stand-ins, the heaviest first.

    Each stand-in has the share that it carries. The confidence is ``"guessed"`` where together they
    carry too much, else ``"measured"`` where the error of the time is known.
    """
    known = confidence_by_band(band)
    kernel = model.bound_launch.kernel
    if not isinstance(kernel, BoundKernel):
        return known, ()
    rates = tuple(dict.fromkeys(unmeasured_atomics(model, kernel, limiter)))
    stand_ins = _stand_in_assumptions(kernel)
    if not stand_ins:
        return "guessed" if rates else known, rates
    weights = _Weights(model, kernel)
    weighted = [replace(a, share=round_significant(weights.share(a))) for a in stand_ins]
    guessed = bool(rates) or weights.share(*stand_ins) > GUESSED_FROM
    guessed = guessed or any(a.stands_for == DISAGREEMENT for a in stand_ins)
    known = "guessed" if guessed else known
    return known, tuple(sorted((*rates, *weighted), key=lambda a: -a.share))


def confidence_by_band(band: ErrorBand) -> str:
    """Return the confidence of a prediction that is no guess, by the error band of its time."""
    return "measured" if band.measured else "extrapolated"


def may_be_bounded(reasons: Sequence[Assumption]) -> bool:
    """Return True if all heavy stand-ins are addresses or branches, whose least is known."""
    heavy = [a for a in reasons if a.share > GUESSED_FROM]
    return bool(heavy) and all(a.stands_for in ("address", "branch") for a in heavy)


def _stand_in_assumptions(kernel: BoundKernel) -> list[Assumption]:
    return [a for a in kernel.assumptions if a.stands_for]


class _Weights:
    """Weights of the nodes of a compiled kernel, with the stand-ins that each rests on."""

    def __init__(self, model: Model, kernel: BoundKernel) -> None:
        self.graph = kernel.graph
        self.nodes = tuple(_weight(node, model, kernel) for node in kernel.graph.nodes)
        self.placed = frozenset[Assumption]().union(*(w.addressed for w in self.nodes))
        self.instructions = sum(w.instructions for w in self.nodes) or 1.0
        self.sectors = sum(w.sectors for w in self.nodes) or 1.0
        busiest = model.bounds.lower / model.blocks
        self.cycles = max(busiest, sum(w.cycles for w in self.nodes))

    def share(self, *chosen: Assumption) -> float:
        """Return the largest share of instructions, sectors or cycles that rests on ``chosen``."""
        wanted = self.placed.intersection(chosen)
        loose = [self._unplaced_share(a) for a in chosen if a not in self.placed]
        loose += [1.0 for a in wanted if a.stands_for == "call"]  # which may take any time
        executed = sum(w.instructions for w in self.nodes if w.executed & wanted)
        addressed = sum(w.sectors for w in self.nodes if w.addressed & wanted)
        on_chip = sum(w.cycles for w in self.nodes if w.addressed & wanted) / self.cycles
        of_all = (executed / self.instructions, addressed / self.sectors, on_chip, *loose)
        return min(1.0, max(of_all))

    def _unplaced_share(self, assumption: Assumption) -> float:
        """Return the share of a stand-in that no node names: of what its line does, or else 1."""
        if assumption.span is None:
            return 1.0
        where = (assumption.span.file, assumption.span.line)
        here = sum(
            weight.instructions
            for node, weight in zip(self.graph.nodes, self.nodes, strict=True)
            if node.span is not None and (node.span.file, node.span.line) == where
        )
        return here / self.instructions


def _weight(node: Node, model: Model, kernel: BoundKernel) -> _Weight:
    graph, costs = kernel.graph, model.bound_launch.estimate.accesses
    times = graph.executions(node, model.warps)
    around = (graph.loops[i].rests_on for i in graph.chain(node.loop))
    executed = frozenset(_stand_ins(node.rests_on, *around))
    addressed = frozenset(_stand_ins(*(kernel.bound[i].rests_on for i in node.touches)))
    sectors = times * sum(_sectors(kernel.bound[i], costs.get(i)) for i in node.touches)
    on_chip = (i for i in node.touches if kernel.bound[i].space in ("shared", "constant"))
    cycles = times * sum(costs[i].cycles for i in on_chip if i in costs)
    return _Weight(times, sectors, cycles, executed, executed | addressed)


def _sectors(access: BoundAccess, cost: AccessCost | None) -> float:
    """Return the sectors of an access; of local memory, those of words side by side."""
    if access.space == "local":
        return float(access.bytes)
    return global_sectors(access, cost)


def _stand_ins(*groups: Iterable[Assumption]) -> Iterator[Assumption]:
    return (a for group in groups for a in group if a.stands_for)
