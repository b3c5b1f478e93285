"""Registers that hold a value that is still read: with fewer registers values must be spilled."""

from __future__ import annotations

from collections.abc import Iterable

from perfassert.engines.advisor.code import Code, CodeBlock


def max_live_registers(code: Code) -> int:
    """Return the largest number of registers of a thread that are live at a time.

    An instruction under a predicate does not end the life of the old value of its result.
    """
    arriving = dict.fromkeys(code.blocks, frozenset[str]())
    waiting = set(code.blocks)
    while waiting:
        block = code.blocks[max(waiting, key=lambda b: code.blocks[b].start)]
        waiting.remove(block.index)
        entering = frozenset(_live_before(code, block, _live_after(block, arriving))[0])
        if entering != arriving[block.index]:
            arriving[block.index] = entering
            waiting.update(code.predecessors[block.index])
    return max(
        (_live_before(code, b, _live_after(b, arriving))[1] for b in code.blocks.values()),
        default=0,
    )


def _live_after(block: CodeBlock, arriving: dict[int, frozenset[str]]) -> set[str]:
    return {name for target in block.successors for name in arriving.get(target, ())}


def _live_before(code: Code, block: CodeBlock, alive: set[str]) -> tuple[set[str], int]:
    """Return the live registers before a block, given those after it, and their maximum inside."""
    # For example, ``R1 = R2 + R3; R4 = R1 + R2`` with R4 live after the block: before the second
    # instruction R1 and R2 are live, before the first R2 and R3. The maximum is 2.
    most = len(alive)
    for i in reversed(code.instructions[block.start : block.stop]):
        most = max(most, len(alive | _general(i.defines)))
        if not i.predicate:
            alive -= _general(i.defines)
        alive |= _general(i.uses)
        most = max(most, len(alive))
    return alive, most


def _general(names: Iterable[str]) -> set[str]:
    """Return the general registers, without predicates and uniform registers."""
    return {n for n in names if n.startswith("R")}
