"""Pruning of dependences that cannot have caused stalls (GPA §IV, "Prune cold edges").

The opcode rule is exact. The dominator rule and the latency rule are heuristics: if one of them
would remove all sources of an observed stall, it is not applied to this stall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from perfassert.engines.advisor.code import SYNCHRONIZATION, Code, CodeInstruction, barrier_register
from perfassert.engines.advisor.paths import Paths
from perfassert.engines.advisor.slicing import Dependence, Reaching, Slicer

MEMORY = "memory_dependency"
EXECUTION = "execution_dependency"
SYNCHRONIZE = "synchronization"
DEPENDENCES = (MEMORY, EXECUTION, SYNCHRONIZE)
"""Stall reasons that are caused by an earlier instruction."""
CONSTANT = "constant_dependency"
"""Stall reason that the stalled instruction itself causes by a constant cache miss."""
_MEMORY = ("local", "constant", "global")


def can_cause(reason: str, source: CodeInstruction, after_read: bool = False) -> bool:
    """Return True if an instruction can make others stall for ``reason``: the opcode rule.

    Shared memory causes execution dependences. ``after_read``: the wait is for the source to read
    its operands, which is an execution dependence, whatever the source is.
    """
    if reason == MEMORY:
        return source.space in _MEMORY
    if reason == SYNCHRONIZE:
        return source.synchronizes
    if reason == CONSTANT:
        return source.space == "constant"
    return after_read or not (source.space in _MEMORY or source.synchronizes)


class Observed:
    """Dominator rule: a warp waits for a result at the first instruction that uses it.

    For example, in ``R1 = load; R2 = R1 + 1; R3 = R1 * 2`` a warp waits for the load at the
    addition. A stall at the multiplication is not blamed on the load.

    The dependence of ``use`` on ``source`` is cold, i.e. causes no stall, if every path from
    ``source`` to ``use`` that does not overwrite the value contains another use of it without a
    predicate. The paper requires the same instruction on all paths; here it may differ from path to
    path. An instruction that waits for the barrier of the source counts as a use even if it has a
    predicate, because barriers are checked before the instruction issues.
    """

    def __init__(self, code: Code, slicer: Slicer) -> None:
        self._code = code
        self._inside: dict[int, dict[str, list[int]]] = {b: {} for b in code.blocks}
        names = {n: p for n, p in slicer.definitions.items() if n != SYNCHRONIZATION}
        self._names = names
        self._facts = Reaching(code, names)
        gen, kill = {}, {}
        for block in code.blocks.values():
            gen[block.index], kill[block.index] = self._block(block.start, block.stop)
        self._facts.solve(gen, kill)

    def _block(self, start: int, stop: int) -> tuple[int, int]:
        facts = self._facts
        generated = killed = 0
        for i in self._code.instructions[start:stop]:
            for name in self._ends(i):
                self._inside[i.block].setdefault(name, []).append(i.index)
                if name in facts.mask:
                    generated &= ~facts.mask[name]
                    killed |= facts.mask[name]
            for name in i.written:
                if name in facts.mask:
                    generated |= facts.bit(name, i.index)
        return generated, killed

    def _ends(self, i: CodeInstruction) -> tuple[str, ...]:
        """Return the operands that an instruction uses, overwrites or waits for.

        Facts about them end here. A predicated instruction may not execute, so only its waits
        count. Setting a barrier ends no fact.
        """
        waits = tuple(barrier_register(b) for b in i.waits)
        return waits if i.predicate else tuple(dict.fromkeys((*i.uses, *i.defines, *waits)))

    def cold(self, dependence: Dependence) -> bool:
        """Return True if a warp would have stalled earlier on every path."""
        source = self._code.instructions[dependence.source]
        operands = dependence.operands
        if SYNCHRONIZATION in operands:
            return False
        if not dependence.after_read:
            freed = barrier_register(source.frees) if source.frees != source.sets else ""
            operands = tuple(o for o in operands if o != freed)
            if source.sets >= 0:
                operands = (*operands, barrier_register(source.sets))
        return any(self._is_observed(source, dependence.use, o) for o in operands)

    def _is_observed(self, source: CodeInstruction, use: int, name: str) -> bool:
        block = self._code.instructions[use].block
        straight = source.block == block and source.index < use
        if straight and not self._ends_between(block, name, source.index + 1, use):
            return False
        if self._ends_between(block, name, self._code.blocks[block].start, use):
            return True
        return not self._facts.arrives(block, name, source.index)

    def _ends_between(self, block: int, name: str, start: int, stop: int) -> bool:
        places = self._inside[block].get(name, ())
        at = bisect_left(places, start)
        return at < len(places) and places[at] < stop


class Pruner:
    """The three pruning rules for the dependences of one code."""

    def __init__(
        self, code: Code, slicer: Slicer, paths: Paths, latency_bounds: Mapping[str, float]
    ) -> None:
        self._code = code
        self._observed = Observed(code, slicer)
        self._paths = paths
        self._bounds = latency_bounds
        self._soonest: dict[tuple[int, int], int] = {}

    def by_opcode(self, reason: str, dependences: Iterable[Dependence]) -> list[Dependence]:
        """Return the dependences whose source can cause the stall reason.

        Since Volta, warps wait for constant loads in the same way as for shared memory. If an
        execution dependence has no other source, the constant loads are its sources.
        """
        edges = list(dependences)
        kept = self._possible_causes(reason, edges)
        return kept if kept or reason != EXECUTION else self._possible_causes(CONSTANT, edges)

    def _possible_causes(self, reason: str, edges: Iterable[Dependence]) -> list[Dependence]:
        instructions = self._code.instructions
        return [d for d in edges if can_cause(reason, instructions[d.source], d.after_read)]

    def by_dominator(self, dependences: Sequence[Dependence]) -> list[Dependence]:
        """Return the dependences that are not cold: see :class:`Observed`."""
        return [d for d in dependences if not self._observed.cold(d)]

    def measure(self, dependences: Iterable[Dependence]) -> None:
        """Compute the distances that :meth:`by_latency` needs, for many dependences at a time."""
        pairs = {(d.source, d.use) for d in dependences if SYNCHRONIZATION not in d.operands}
        self._soonest.update(self._paths.soonest(p for p in pairs if p not in self._soonest))

    def by_latency(self, dependences: Sequence[Dependence]) -> list[Dependence]:
        """Return the dependences whose source can still be incomplete when the use issues.

        The time between them is that of the fastest path: the sum of stall counts, at least one
        cycle per instruction. A source without a latency bound is always kept.

        For example, an addition with a bound of 6 cycles cannot stall a use that issues 8 cycles
        later.
        """
        self.measure(dependences)
        return [d for d in dependences if not self._complete(d)]

    def _complete(self, d: Dependence) -> bool:
        bound = self._bounds.get(self._code.instructions[d.source].operation)
        cycles = self._soonest.get((d.source, d.use))
        return bound is not None and cycles is not None and cycles > bound
