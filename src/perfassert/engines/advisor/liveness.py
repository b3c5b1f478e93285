"""How many registers hold a value that is still read: fewer than those would have to be spilled."""

from __future__ import annotations

from collections.abc import Iterable

from perfassert.engines.advisor.code import Code, CodeBlock


def most_alive(code: Code) -> int:
    """Registers of a thread that are alive at once, where they are most. What an instruction under
    a predicate writes may have been there before."""
    arriving = dict.fromkeys(code.blocks, frozenset[str]())
    waiting = set(code.blocks)
    while waiting:
        block = code.blocks[max(waiting, key=lambda b: code.blocks[b].start)]
        waiting.remove(block.index)
        entering = frozenset(_back(code, block, _leaving(block, arriving))[0])
        if entering != arriving[block.index]:
            arriving[block.index] = entering
            waiting.update(code.predecessors[block.index])
    return max((_back(code, b, _leaving(b, arriving))[1] for b in code.blocks.values()), default=0)


def _leaving(block: CodeBlock, arriving: dict[int, frozenset[str]]) -> set[str]:
    return {name for target in block.successors for name in arriving.get(target, ())}


def _back(code: Code, block: CodeBlock, alive: set[str]) -> tuple[set[str], int]:
    """What is alive before the block, given what is after it, and the most at once inside."""
    most = len(alive)
    for i in reversed(code.instructions[block.start : block.stop]):
        most = max(most, len(alive | _general(i.defines)))
        if not i.predicate:
            alive -= _general(i.defines)
        alive |= _general(i.uses)
        most = max(most, len(alive))
    return alive, most


def _general(names: Iterable[str]) -> set[str]:
    """Without predicates and uniform registers."""
    return {n for n in names if n.startswith("R")}
