"""Spilled registers: words of the stack that are used as registers are."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.frontends.cuda.registers import defined, used
from perfassert.frontends.cuda.sass import Instruction, Operand

_LOCAL = ("LDL", "STL")
_POINTER = "R1"
_WORDS = {"64": 2, "128": 4}
_PARTIAL = frozenset(("U8", "S8", "U16", "S16"))


def stack_words(instructions: Sequence[Instruction]) -> dict[int, tuple[str, ...]]:
    """Names of the stack's words that a load or store of local memory moves, by its number.

    Empty where not all of them are told apart by their constants: local arrays with an index, a
    pointer into the stack, parts of words, a stack pointer that moves between.
    """
    found: dict[int, tuple[str, ...]] = {}
    moves = [i for i, instruction in enumerate(instructions) if _POINTER in defined(instruction)]
    for number, instruction in enumerate(instructions):
        if instruction.base in _LOCAL:
            memory = [o for o in instruction.operands if o.kind == "memory"]
            place = _constant(memory[0]) if len(memory) == 1 else None
            if place is None or _PARTIAL.intersection(instruction.modifiers):
                return {}
            count = next((_WORDS[m] for m in instruction.modifiers if m in _WORDS), 1)
            found[number] = tuple(f"stack {place + 4 * i:#x}" for i in range(count))
        elif _POINTER in used(instruction) and number not in moves:
            return {}
    if found and moves and moves[-1] > min(found):
        return {}
    return found


def _constant(memory: Operand) -> int | None:
    """The distance from the stack pointer; None if there is more to the address."""
    place = 0
    pointers = 0
    for part in memory.parts:
        if part.kind == "number":
            place += part.value
        elif part.kind == "register" and part.name == _POINTER and not part.suffix:
            pointers += 1
        else:
            return None
    return place if pointers == 1 and not memory.name and place % 4 == 0 else None
