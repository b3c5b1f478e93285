"""Which instructions of a program are executed only where a branch goes one way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from perfassert.kernel.program import Program, ProgramBlock


class ControlDependence:
    """Blocks that follow on every path, of a program without the blocks that are never executed."""

    def __init__(self, program: Program) -> None:
        kept = {b: block for b in program.order
                if (block := program.blocks.get(b)) is not None and not block.skipped}  # fmt: skip
        self._block_of = {i: b for b, block in kept.items() for i in range(block.start, block.stop)}
        self._bit = {b: 1 << n for n, b in enumerate(kept)}
        self._postdominators = _postdominators(kept, self._bit)

    def block(self, instruction: int) -> int:
        """The block of an instruction; -1 where it lies in none."""
        return self._block_of.get(instruction, -1)

    def always_follows(self, block: int, before: int) -> bool:
        """Whether ``block`` is executed whenever ``before`` is, so that what it computes may be
        computed there already."""
        if block < 0 or before < 0:
            return True
        return bool(self._postdominators[before] & self._bit[block])


def control_dependence(program: Program) -> ControlDependence:
    """Of a program, which is asked for once."""
    return program.found.once(ControlDependence, lambda: ControlDependence(program))


def _postdominators(blocks: Mapping[int, ProgramBlock], bit: Mapping[int, int]) -> dict[int, int]:
    """Sets of bits by block: what all of its successors share, and itself."""
    everything = (1 << len(bit)) - 1
    result = dict.fromkeys(blocks, everything)
    changed = True
    while changed:
        changed = False
        for b in reversed(tuple(blocks)):
            following = [result[s] for s in blocks[b].successors if s in blocks]
            now = bit[b] | (reduce(and_, following) if following else 0)
            changed |= now != result[b]
            result[b] = now
    return result
