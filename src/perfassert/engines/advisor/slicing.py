"""Immediate dependency sources by backward slicing (GPA §IV).

Registers, predicates and the virtual barrier registers B0–B5 are searched in the same way. The
search follows every path backwards until the predicates of the found definitions cover that of the
use. A definition covers the use if it has no predicate, or the predicate of the use. Definitions
under P and !P cover it together. A predicate that is redefined on the path is a different predicate
before that point.

For example, ``R1 = a; @P R1 = b; @!P R1 = c; use R1`` has the sources b and c. They cover the use
together, so the search does not reach a. Without the third definition the sources are a and b.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from perfassert.engines.advisor.code import NEVER, SYNCHRONIZATION, Code, barrier_register

_State = tuple[str, frozenset[str]]
"""State of a search: the predicate of the use, and those of the definitions passed."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Instruction ``use`` reads ``operands`` that instruction ``source`` writes.

    ``after_read`` is True if the only operand is the barrier that the source's reading of its
    operands clears. The wait then protects a register from being overwritten too early (Figure 5:
    WAR).
    """

    source: int
    use: int
    operands: tuple[str, ...]
    after_read: bool = False


class Reaching:
    """Forward dataflow of (instruction, operand) facts, with one integer of bits per block.

    ``gen`` and ``kill`` of each block are given to :meth:`solve`. :meth:`at` lists the instructions
    whose fact about an operand arrives at a block.
    """

    def __init__(self, code: Code, names: Mapping[str, list[int]]) -> None:
        self._code = code
        self._names = names
        # For example, R1 is written by instructions 3 and 8, and R2 by 5: the facts R1@3, R1@8 and
        # R2@5 are bits 0, 1 and 2, and the mask of R1 is 0b011.
        self.first: dict[str, int] = {}
        self.mask: dict[str, int] = {}
        total = 0
        for name, places in names.items():
            self.first[name] = total
            self.mask[name] = ((1 << len(places)) - 1) << total
            total += len(places)
        self._number = {n: {p: k for k, p in enumerate(places)} for n, places in names.items()}
        self._in: dict[int, int] = {}

    def bit(self, name: str, place: int) -> int:
        """Return the bit of a fact."""
        return 1 << (self.first[name] + self._number[name][place])

    def solve(self, gen: Mapping[int, int], kill: Mapping[int, int]) -> None:
        """Iterate to the least fixed point."""
        out = dict.fromkeys(self._code.blocks, 0)
        changed = True
        while changed:
            changed = False
            for block, before in self._code.predecessors_in_order:
                arriving = 0
                for p in before:
                    arriving |= out[p]
                self._in[block] = arriving
                leaving = gen[block] | (arriving & ~kill[block])
                if leaving != out[block]:
                    out[block] = leaving
                    changed = True

    def at(self, block: int, name: str) -> Iterator[int]:
        """Yield instructions whose fact about ``name`` arrives at the start of ``block``."""
        places = self._names.get(name)
        if not places:
            return
        bits = (self._in[block] & self.mask[name]) >> self.first[name]
        while bits:
            low = bits & -bits
            yield places[low.bit_length() - 1]
            bits ^= low

    def arrives(self, block: int, name: str, place: int) -> bool:
        """Return True if the fact arrives at the start of ``block``."""
        return bool(self._in[block] >> (self.first[name] + self._number[name][place]) & 1)


class Slicer:
    """Slices of one code; results are cached."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.definitions: dict[str, list[int]] = {}
        self._inside: dict[int, dict[str, list[int]]] = {b: {} for b in code.blocks}
        for i in code.instructions:
            if i.block >= 0:
                for name in i.written:
                    self.definitions.setdefault(name, []).append(i.index)
                    self._inside[i.block].setdefault(name, []).append(i.index)
        self._reaching = Reaching(code, self.definitions)
        self._solve()
        self._before: dict[tuple[str, int, _State], frozenset[int]] = {}

    def _solve(self) -> None:
        """Compute a superset of reaching definitions: only those without a predicate kill."""
        gen, kill = {}, {}
        for block, names in self._inside.items():
            generated = killed = 0
            for name, places in names.items():
                for place in reversed(places):
                    generated |= self._reaching.bit(name, place)
                    if not self.code.instructions[place].predicate:
                        killed |= self._reaching.mask[name]
                        break
            gen[block], kill[block] = generated, killed
        self._reaching.solve(gen, kill)

    def dependences(self, use: int) -> tuple[Dependence, ...]:
        """Return the dependences of instruction ``use``, ordered by the number of the source."""
        return self._dependences_on(use, self.code.instructions[use].read)

    def synchronizations(self, use: int) -> tuple[Dependence, ...]:
        """Return the dependences of ``use`` on the last synchronization instructions before it."""
        return self._dependences_on(use, (SYNCHRONIZATION,))

    def _dependences_on(self, use: int, names: Iterable[str]) -> tuple[Dependence, ...]:
        operands_by_source: dict[int, list[str]] = {}
        for name in dict.fromkeys(names):
            for source in self.sources(use, name):
                operands_by_source.setdefault(source, []).append(name)
        return tuple(
            Dependence(source, use, tuple(operands), self._after_read(source, operands))
            for source, operands in sorted(operands_by_source.items())
        )

    def _after_read(self, source: int, operands: list[str]) -> bool:
        i = self.code.instructions[source]
        return i.frees >= 0 and i.frees != i.sets and operands == [barrier_register(i.frees)]

    def sources(self, use: int, name: str) -> frozenset[int]:
        """Return the definitions of ``name`` that reach ``use``."""
        i = self.code.instructions[use]
        if i.block < 0 or name not in self.definitions:
            return frozenset()
        reaching: set[int] = set()
        predicate = "" if i.predicate == NEVER else i.predicate
        state = self._scan(name, i.block, use, (predicate, frozenset()), reaching)
        if state is None:
            return frozenset(reaching)
        return self._at_start(name, i.block, state) | reaching

    def _scan(
        self, name: str, block: int, stop: int, state: _State, reaching: set[int]
    ) -> _State | None:
        """Search from ``stop`` back to the start of its block; None if the search ends there."""
        places = self._inside[block].get(name, ())
        for place in reversed(places[: bisect_left(places, stop)]):
            state = self._state_before(block, place, stop, state)
            stop = place
            reaching.add(place)
            guard = self.code.instructions[place].predicate
            if _covers(guard, *state):
                return None
            state = (state[0], state[1] | {guard})
        return self._state_before(block, self.code.blocks[block].start, stop, state)

    def _state_before(self, block: int, start: int, stop: int, state: _State) -> _State:
        """Return the state before instructions ``start`` to ``stop``.

        Predicates that the instructions redefine are dropped from it.
        """
        wanted, covered = state
        if not wanted and not covered:
            return state
        changed = {
            p
            for p in (wanted, *covered)
            if p and self._is_defined(block, p.lstrip("!"), start, stop)
        }
        return ("" if wanted in changed else wanted, covered - changed) if changed else state

    def _is_defined(self, block: int, name: str, start: int, stop: int) -> bool:
        places = self._inside[block].get(name, ())
        at = bisect_left(places, start)
        return at < len(places) and places[at] < stop

    def _at_start(self, name: str, block: int, state: _State) -> frozenset[int]:
        """Return definitions that reach the start of ``block``.

        Predicates are searched only if the reaching definitions need it.
        """
        key = (name, block, state)
        known = self._before.get(key)
        if known is not None:
            return known
        reaching: set[int] = set()
        seen = {(block, state)}
        stack = [(block, state)]
        while stack:
            here, searched = stack.pop()
            known = self._before.get((name, here, searched))
            if known is not None:
                reaching |= known
                continue
            arriving = set(self._reaching.at(here, name))
            guards = {self.code.instructions[i].predicate for i in arriving} - {""}
            if not any(_covers(g, searched[0], searched[1] | guards) for g in guards):
                reaching |= arriving
                continue
            for before in self.code.predecessors[here]:
                stop = self.code.blocks[before].stop
                following = self._scan(name, before, stop, searched, reaching)
                if following is not None and (before, following) not in seen:
                    seen.add((before, following))
                    stack.append((before, following))
        result = self._before[key] = frozenset(reaching)
        return result


def _covers(guard: str, wanted: str, covered: frozenset[str] | set[str]) -> bool:
    """Return True if the search ends at a definition under ``guard``."""
    return not guard or guard == wanted or _complement(guard) in covered


def _complement(predicate: str) -> str:
    return predicate[1:] if predicate.startswith("!") else f"!{predicate}"
