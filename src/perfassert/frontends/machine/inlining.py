"""A listing as one flow of control: every call site gets a copy of what it calls."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from perfassert.frontends.machine.control_flow import EXIT, Jump
from perfassert.frontends.machine.sass import Instruction, Listing

TWICE_GUARDED = ("BRA", "EXIT", "KILL")
"""Instructions with a predicate among their operands that must hold, too."""
LIBRARY = ("cuda_sm", "__internal", "__nv_")
"""Parts of the names of routines that the compiler brings along."""
_MAX_PLACED = 100_000  # instructions
_MAX_DEPTH = 8  # calls in calls


@dataclass(frozen=True, slots=True)
class PlacedInstruction:
    """An instruction in the inlined flow; ``calls``: the call instructions around it;
    ``routine``: the name of the called function that it lies in, empty for the kernel itself."""

    instruction: Instruction
    calls: tuple[int, ...]
    routine: str = ""

    @property
    def in_library(self) -> bool:
        """Return True if the instruction lies in a routine that the compiler brought along."""
        return any(mark in self.routine for mark in LIBRARY)


def place(
    listing: Listing,
) -> tuple[tuple[PlacedInstruction, ...], dict[int, Jump], tuple[str, ...]]:
    """Instructions with calls inlined, their jumps, and what had to be left out."""
    return _Placer(listing).place()


class _Placer:
    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        targets = [
            i.operands[-1].name for i in listing.instructions if i.base == "CALL" and i.operands
        ]
        names = dict.fromkeys((*listing.functions, *targets))
        entries = {listing.labels[n] for n in names if n in listing.labels}
        named = {listing.labels[n] for n in listing.functions if n in listing.labels}
        self.callable = sorted(named - {0})
        self.starts = sorted({0} | named | {e for e in entries if self.returns(e, entries)})
        self.placed: list[PlacedInstruction] = []
        self.jumps: dict[int, Jump] = {}
        self.notes: dict[str, None] = {}

    def returns(self, entry: int, entries: Collection[int]) -> bool:
        """Return True if the code at ``entry`` returns; ptxas leaves loops by calls that do not."""
        end = min((e for e in entries if e > entry), default=len(self.listing.instructions))
        return any(i.base == "RET" for i in self.listing.instructions[entry:end])

    def place(self) -> tuple[tuple[PlacedInstruction, ...], dict[int, Jump], tuple[str, ...]]:
        self.function(0, (), ())
        return tuple(self.placed), self.jumps, tuple(self.notes)

    def function(self, start: int, calls: tuple[int, ...], active: tuple[int, ...]) -> int:
        """Append a copy of the function that starts at ``start``; return where it begins."""
        following = [s for s in self.starts if s > start]
        stop = following[0] if following else len(self.listing.instructions)
        shift = len(self.placed) - start
        body = self.listing.instructions[start:stop]
        routine = self.name(self.placed[calls[-1]].instruction) if calls else ""
        self.placed.extend(PlacedInstruction(i, calls, routine) for i in body)
        returns = []
        for instruction in body:
            here = instruction.index + shift
            jump = self.jump(instruction, start, stop, shift)
            if instruction.base == "RET" and calls:
                returns.append(here)
            elif instruction.base == "CALL":
                target = self.target(instruction)
                if target is not None and start < target < stop:
                    self.jumps[here] = Jump((target + shift,), instruction.guard is not None)
                else:
                    self.call(instruction, here, calls, (*active, start))
            elif jump is not None:
                self.jumps[here] = jump
        if calls:
            for here in returns:
                conditional = self.placed[here].instruction.guard is not None
                self.jumps[here] = Jump((calls[-1] + 1,), conditional)
        return start + shift

    def call(
        self, instruction: Instruction, here: int, calls: tuple[int, ...], active: tuple[int, ...]
    ) -> None:
        """Place what is called: by a table of functions, each one that the section has."""
        targets = self.callees(instruction)
        too_many = len(active) >= _MAX_DEPTH or len(self.placed) > _MAX_PLACED
        if not targets or too_many or not set(targets).isdisjoint(active):
            return  # who describes the call says that it is not followed
        entries = tuple(self.function(t, (*calls, here), active) for t in targets)
        self.jumps[here] = Jump(entries, instruction.guard is not None)

    def callees(self, instruction: Instruction) -> list[int]:
        """The first instructions of what may be called; none where that is not known."""
        named = any(o.kind in ("target", "number") for o in instruction.operands)
        if not named and "REL" in instruction.modifiers:
            return self.callable
        target = self.target(instruction)
        return [] if target is None else [target]

    def name(self, call: Instruction) -> str:
        """The label that a call names."""
        return next((o.name for o in call.operands if o.kind == "target"), "")

    def target(self, instruction: Instruction) -> int | None:
        for operand in reversed(instruction.operands):
            if operand.kind == "target":
                return self.listing.labels.get(operand.name)
            if operand.kind == "number":
                return self._at(operand.value)
        return None

    def _at(self, address: int) -> int | None:
        for instruction in self.listing.instructions:
            if instruction.address == address:
                return instruction.index
        return None

    def jump(self, instruction: Instruction, start: int, stop: int, shift: int) -> Jump | None:
        base = instruction.base
        conditional = instruction.guard is not None
        own = any(o.kind == "predicate" and o.name[-1] != "T" for o in instruction.operands)
        if base in TWICE_GUARDED:
            conditional |= own
        if base in ("EXIT", "KILL") or (base == "RET" and not conditional):
            return Jump((EXIT,), conditional)
        if base == "BRA":
            if "DIV" in instruction.modifiers:
                return None  # taken only by warps that have lost their convergence
            if "ANY" in instruction.modifiers and "U" in instruction.modifiers:
                return None  # repeats a uniform instruction for each lane, of which one is active
            target = self.target(instruction)
            if target is None or not start <= target < stop:
                self.notes[f"the jump {instruction.text!r} leaves the function"] = None
                return Jump((EXIT,), True)
            return Jump((target + shift,), conditional)
        if base in ("BRX", "JMX", "BRXU", "JMXU", "JMP"):
            self.notes[f"the targets of {instruction.text!r} are taken to be all labels"] = None
            targets = {i for i in self.listing.labels.values() if start < i < stop}
            return Jump(tuple(sorted(t + shift for t in targets)) or (EXIT,), conditional)
        return None
