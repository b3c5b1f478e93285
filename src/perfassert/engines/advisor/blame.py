"""Attribution of stalls to their causes (GPA §IV): from samples at uses to counts by source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfassert.engines.advisor.code import Code, CodeInstruction
from perfassert.engines.advisor.paths import Paths
from perfassert.engines.advisor.pruning import (
    CONSTANT,
    DEPENDENCES,
    EXECUTION,
    MEMORY,
    SYNCHRONIZE,
    Pruner,
    can_cause,
)
from perfassert.engines.advisor.slicing import Dependence, Slicer
from perfassert.kernel.samples import Count, Samples

_MEMORY_CLASSES = {"local": "local_memory_dependency", "constant": "constant_dependency"}
_EXECUTION_CLASSES = {"shared": "shared_dependency", "constant": "constant_dependency"}


@dataclass(frozen=True, slots=True)
class Blame:
    """Samples at instruction ``use`` that instruction ``source`` caused.

    For stalls that no other instruction causes, the two are the same. ``reason`` is the sampled
    one. ``cls`` is one of :data:`~perfassert.kernel.samples.STALLS`. ``distance`` is the number of
    instructions on the longest path from source to use, 0 if they are the same.
    """

    source: int
    use: int
    reason: str
    cls: str
    count: Count
    distance: int


@dataclass(frozen=True, slots=True)
class BlameResult:
    """Blames by use; their counts sum up to the samples.

    ``coverage_before`` and ``coverage_after`` pruning are the fraction of nodes of the dependency
    graph that have no operand with several sources (§VI.C). It is 1 for an empty graph.
    """

    blames: tuple[Blame, ...]
    coverage_before: float
    coverage_after: float


def blame(code: Code, samples: Samples, latency_bounds: Mapping[str, float]) -> BlameResult:
    """Attribute samples to their causes.

    ``latency_bounds``: cycles by operation class after which a result is available at the latest. A
    class without an entry is never assumed to be complete. If ``samples.edges`` says what waiting
    warps wait for, it decides.
    """
    return _Blamer(code, samples, latency_bounds).result()


def stall_class(reason: str, source: CodeInstruction, after_read: bool) -> str:
    """Return the detailed stall reason by the opcode of the source (Figure 5)."""
    if reason == MEMORY:
        return _MEMORY_CLASSES.get(source.space or "", MEMORY)
    if reason == EXECUTION:
        if after_read:
            return "write_after_read"
        return _EXECUTION_CLASSES.get(source.space or "", EXECUTION)
    return reason


def apportion(weights: Sequence[tuple[float, int]]) -> list[float]:
    """Return the fraction of stalls per source from (issue samples, path length): equation (1).

    R_issue is the source's fraction of the issue samples of all sources. R_path is its fraction of
    their inverse path lengths. S_i / S_j = R_path·R_issue / Σ R_path·R_issue. Without issue samples
    the paths alone decide.

    For example, two sources issue equally often, 3 and 9 instructions before the use. The nearer
    one is blamed for three times as many stalls. Two other sources have the same distance, and one
    issues three times as often. It is blamed for three times as many stalls:

        >>> apportion([(10, 3), (10, 9)])
        [0.75, 0.25]
        >>> apportion([(30, 4), (10, 4)])
        [0.75, 0.25]
    """
    issued = sum(w for w, _ in weights)
    inverse = [1 / max(1, length) for _, length in weights]
    paths = sum(inverse)
    products = [
        (i / paths) * (w / issued if issued > 0 else 1.0)
        for i, (w, _) in zip(inverse, weights, strict=True)
    ]
    whole = sum(products)
    return [p / whole for p in products]


class _Blamer:
    def __init__(self, code: Code, samples: Samples, bounds: Mapping[str, float]) -> None:
        self.code = code
        self.samples = samples
        self.slicer = Slicer(code)
        self.paths = Paths(code)
        self.pruner = Pruner(code, self.slicer, self.paths, bounds)
        self.slices: dict[int, tuple[Dependence, ...]] = {}
        self.known: dict[int, dict[int, Count]] = {}
        for (use, source), count in (samples.edges or {}).items():
            self.known.setdefault(use, {})[source] = count

    def result(self) -> BlameResult:
        stalled = sorted(
            (use, reason)
            for (use, reason), count in self.samples.counts.items()
            if reason in DEPENDENCES and (count.all > 0 or count.latency > 0)
        )
        graph = {key: self.find_edges(*key) for key in stalled}
        kept = self.prune(graph)
        coverage = (self.coverage(graph, graph), self.coverage(graph, kept))
        causes = {key: self.causes(*key, kept[key]) for key in stalled}
        for use, reason in self.samples.counts:
            if reason == CONSTANT:
                causes[use, reason] = self.causes(use, reason, ())
        distance = self.paths.longest(
            {(d.source, d.use) for ds in (*kept.values(), *causes.values()) for d in ds}
        )
        blames: list[Blame] = []
        for (use, reason), count in sorted(self.samples.counts.items()):
            if count.all > 0 or count.latency > 0:
                blames += self.blames(use, reason, count, causes.get((use, reason), ()), distance)
        return BlameResult(tuple(blames), *coverage)

    def find_edges(self, use: int, reason: str) -> list[Dependence]:
        """Return the edges of the dependency graph before pruning."""
        if reason != SYNCHRONIZE:
            return list(self.dependences(use))
        if self.code.instructions[use].synchronizes:
            return []
        return list(self.slicer.synchronizations(use))

    def dependences(self, use: int) -> tuple[Dependence, ...]:
        """Return the dependences of an instruction, computed once."""
        if use not in self.slices:
            self.slices[use] = self.slicer.dependences(use)
        return self.slices[use]

    def prune(
        self, graph: Mapping[tuple[int, str], list[Dependence]]
    ) -> dict[tuple[int, str], list[Dependence]]:
        """Drop edges that cannot have caused the stalls; the heuristic rules leave at least one."""
        kept = {key: self.pruner.by_opcode(key[1], edges) for key, edges in graph.items()}
        kept = {key: self.pruner.by_dominator(edges) or edges for key, edges in kept.items()}
        self.pruner.measure(d for edges in kept.values() for d in edges)
        return {key: self.pruner.by_latency(edges) or edges for key, edges in kept.items()}

    def coverage(
        self,
        graph: Mapping[tuple[int, str], list[Dependence]],
        edges: Mapping[tuple[int, str], list[Dependence]],
    ) -> float:
        """Return the single dependency coverage of ``edges`` among the nodes of ``graph``."""
        # For example, one of four nodes reads R1, which two other nodes write: the coverage is 3/4.
        nodes = {use for use, _ in graph} | {d.source for ds in graph.values() for d in ds}
        sources: dict[tuple[int, str], set[int]] = {}
        for ds in edges.values():
            for d in ds:
                for operand in d.operands:
                    sources.setdefault((d.use, operand), set()).add(d.source)
        several = {use for (use, _), s in sources.items() if len(s) > 1}
        return (len(nodes) - len(several)) / len(nodes) if nodes else 1.0

    def causes(self, use: int, reason: str, kept: Sequence[Dependence]) -> list[Dependence]:
        """Return the edges that share the stalls: those known from samples, if any fit."""
        known = self.known.get(use)
        if not known:
            return list(kept)
        sliced = {d.source: d for d in self.dependences(use)}
        edges = [sliced.get(source, Dependence(source, use, ())) for source in sorted(known)]
        instructions = self.code.instructions
        fitting = [d for d in edges if can_cause(reason, instructions[d.source], d.after_read)]
        return fitting or list(kept)

    def blames(
        self,
        use: int,
        reason: str,
        count: Count,
        causes: Sequence[Dependence],
        distance: Mapping[tuple[int, int], int],
    ) -> list[Blame]:
        """Return the blames for the samples of one reason at one instruction."""
        if not causes:
            return [Blame(use, use, reason, reason, count, 0)]
        result = []
        for d, part in zip(causes, self.shares(use, count, causes, distance), strict=True):
            cls = stall_class(reason, self.code.instructions[d.source], d.after_read)
            if part.all > 0 or part.latency > 0:
                away = distance.get((d.source, use), 0)
                result.append(Blame(d.source, use, reason, cls, part, away))
        return result

    def shares(
        self,
        use: int,
        count: Count,
        causes: Sequence[Dependence],
        distance: Mapping[tuple[int, int], int],
    ) -> list[Count]:
        known = self.known.get(use, {})
        if all(d.source in known for d in causes):
            every = [known[d.source].all for d in causes]
            latency = [known[d.source].latency for d in causes]
            if sum(every) > 0:
                idle = latency if sum(latency) > 0 else every
                return [
                    Count(count.all * a / sum(every), count.latency * b / sum(idle))
                    for a, b in zip(every, idle, strict=True)
                ]
        issued = self.samples.issued
        parts = apportion(
            [(issued.get(d.source, 0.0), distance.get((d.source, use), 1)) for d in causes]
        )
        return [count.times(part) for part in parts]
