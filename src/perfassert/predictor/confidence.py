"""How far a prediction is to be trusted: measured, transferred, or guessed, and on what it rests.

A stand-in for an address, a trip count, a branch or an opcode carries the instructions and the
bytes that it decides. A prediction is a guess where stand-ins carry more than a twentieth of
either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from perfassert.engines.volume.estimate import AccessCost
from perfassert.kernel.description import Kernel
from perfassert.kernel.graph import InstructionGraph, Node
from perfassert.prediction.error_band import ErrorBand
from perfassert.predictor.model import Model
from perfassert.quantity import round_significant
from perfassert.source import Assumption

GUESSED_FROM = 0.05
"""A larger share of instructions or bytes on stand-ins makes a prediction a guess."""


@dataclass(frozen=True, slots=True)
class _Weight:
    """What one node stands for: executed warp instructions, sectors that they ask for, and the
    stand-ins that decide about the former and about the latter."""

    instructions: float
    sectors: float
    executed: frozenset[Assumption]
    addressed: frozenset[Assumption]


def confidence(model: Model, band: ErrorBand) -> str:
    """``"guessed"``; else ``"measured"`` where the error of ``time`` is known, its ``band``."""
    if guessed_share(model) > GUESSED_FROM:
        return "guessed"
    return "measured" if band.error is not None else "transferred"


def reasons(model: Model) -> tuple[Assumption, ...]:
    """The stand-ins of a launch with the share that each carries, the heaviest first."""
    stand_ins = [a for a in model.case.kernel.assumptions if a.stands_for]
    if not stand_ins:
        return ()
    weights = tuple(_weights(model))
    placed = frozenset[Assumption]().union(*(w.executed | w.addressed for w in weights))
    graph = model.case.kernel.graph
    found = []
    for one in stand_ins:
        share = _share(weights, {one}) if one in placed else _beside(one, weights, graph)
        found.append(replace(one, share=round_significant(share)))
    return tuple(sorted(found, key=lambda a: -a.share))


def guessed_share(model: Model) -> float:
    """The share of instructions or of bytes, whichever is more, on any stand-in."""
    stand_ins = {a for a in model.case.kernel.assumptions if a.stands_for}
    if not stand_ins:
        return 0.0
    weights = tuple(_weights(model))
    graph = model.case.kernel.graph
    placed = frozenset[Assumption]().union(*(w.executed | w.addressed for w in weights))
    loose = (_beside(a, weights, graph) for a in stand_ins - placed)
    return min(1.0, max([_share(weights, stand_ins), *loose]))


def _weights(model: Model) -> Iterator[_Weight]:
    kernel = model.case.kernel
    graph = kernel.graph
    if graph is None:
        return
    bound = kernel.bound or ()
    for node in graph.nodes:
        chain = graph.chain(node.loop)
        warps = model.warps if node.warps is None else len(node.warps)
        times = warps * prod(map(graph.trips, chain))
        executed = frozenset(_stand_ins(node.rests_on, *(graph.loops[i].rests_on for i in chain)))
        sectors = times * sum(_sectors(kernel, model.case.estimate.accesses, node))
        addressed = frozenset(_stand_ins(*(bound[i].rests_on for i in node.touches if bound)))
        yield _Weight(times, sectors, executed, executed | addressed)


def _sectors(kernel: Kernel, costs: Mapping[int, AccessCost], node: Node) -> Iterator[float]:
    for number in node.touches:
        if number in costs and kernel.bound and kernel.bound[number].space == "global":
            yield costs[number].sectors


def _stand_ins(*groups: Iterable[Assumption]) -> Iterator[Assumption]:
    return (a for group in groups for a in group if a.stands_for)


def _share(weights: tuple[_Weight, ...], chosen: set[Assumption]) -> float:
    """Of instructions, or of bytes: whichever rests more on the chosen."""
    instructions = sum(w.instructions for w in weights)
    sectors = sum(w.sectors for w in weights)
    executed = sum(w.instructions for w in weights if w.executed & chosen)
    addressed = sum(w.sectors for w in weights if w.addressed & chosen)
    return max(
        executed / instructions if instructions else 0.0, addressed / sectors if sectors else 0.0
    )


def _beside(one: Assumption, weights: tuple[_Weight, ...], graph: InstructionGraph | None) -> float:
    """The share of a stand-in that no node names: of what its line does, or else all of it."""
    if one.span is None or graph is None:
        return 1.0
    where = (one.span.file, one.span.line)
    total = sum(w.instructions for w in weights)
    here = sum(
        weight.instructions
        for node, weight in zip(graph.nodes, weights, strict=True)
        if node.span is not None and (node.span.file, node.span.line) == where
    )
    return here / total if total else 0.0
