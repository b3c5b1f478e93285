"""Lengths of paths between instructions in a control-flow graph, for many pairs at a time.

The length of a path counts its last instruction and not its first one: adjacent instructions have
a distance of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from perfassert.engines.advisor.code import Code

_Rows = npt.NDArray[np.int64]
_FAR = np.int64(1) << 40
_CHUNK = 512  # source blocks per table; bounds the memory of a table
InstructionPair = tuple[int, int]


class Paths:
    """Distances in the control-flow graph of one kernel; unreachable instructions have none."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._order = {b: n for n, b in enumerate(code.blocks)}
        self._blocks = tuple(code.blocks.values())
        self._targets = tuple(
            tuple(self._order[t] for t in b.successors if t in self._order) for b in self._blocks
        )
        self._count = list(range(len(code.instructions) + 1))
        cycles = (max(1, i.stall) for i in code.instructions)
        self._issue = list(accumulate(cycles, initial=0))

    def longest(self, pairs: Iterable[InstructionPair]) -> dict[InstructionPair, int]:
        """Count the instructions on the longest acyclic path of each pair.

        Only paths with the fewest back edges are considered, and none of them visits a block twice.
        Over all acyclic paths, the problem has no known fast algorithm.
        """
        return self._lengths(pairs, self._count, self._farthest)

    def soonest(self, pairs: Iterable[InstructionPair]) -> dict[InstructionPair, int]:
        """Return the least issue cycles between the instructions of each pair.

        Each instruction takes its stall count, at least one cycle.
        """
        return self._lengths(pairs, self._issue, self._nearest)

    def _lengths(
        self,
        pairs: Iterable[InstructionPair],
        until: Sequence[int],
        between: Callable[[Sequence[int], Sequence[int]], _Rows],
    ) -> dict[InstructionPair, int]:
        instructions = self._code.instructions
        result: dict[InstructionPair, int] = {}
        apart: dict[int, list[InstructionPair]] = {}
        for pair in pairs:
            source, use = (instructions[i] for i in pair)
            if source.block < 0 or use.block < 0:
                continue
            if source.block == use.block and source.index < use.index:
                result[pair] = until[use.index] - until[source.index]
            else:
                apart.setdefault(self._order[source.block], []).append(pair)
        rows = sorted(apart)
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            table = between(chunk, until)
            for column, row in enumerate(chunk):
                for source_index, use_index in apart[row]:
                    at = self._order[instructions[use_index].block]
                    middle = int(table[at, column])
                    if 0 <= middle < _FAR:
                        # For example, instruction 3 of block 0-5 and instruction 10 of block 8-11,
                        # with a block of 2 instructions between them: 6 - 3 = 3 to the end of the
                        # first block, 2 in the middle and 10 - 8 = 2 in the last block: 7.
                        head = until[self._blocks[row].stop] - until[source_index]
                        tail = until[use_index] - until[self._blocks[at].start]
                        result[(source_index, use_index)] = head + middle + tail
        return result

    def _weights(self, until: Sequence[int]) -> list[int]:
        return [until[b.stop] - until[b.start] for b in self._blocks]

    def _nearest(self, sources: Sequence[int], until: Sequence[int]) -> _Rows:
        """Return the least lengths from the end of each source block to the start of each block."""
        weights = self._weights(until)
        table = np.full((len(self._blocks), len(sources)), _FAR, np.int64)
        for column, source in enumerate(sources):
            for target in self._targets[source]:
                table[target, column] = 0
        changed = True
        while changed:
            changed = False
            for block, targets in enumerate(self._targets):
                leaving = table[block] + weights[block]
                for target in targets:
                    back = target <= block
                    if back and not changed:
                        changed = bool((leaving < table[target]).any())
                    np.minimum(table[target], leaving, out=table[target])
        return table

    def _farthest(self, sources: Sequence[int], until: Sequence[int]) -> _Rows:
        """Return the greatest lengths over paths with the fewest back edges.

        Lengths count from the end of each source block to the start of every block. A negative
        length means that there is no path.
        """
        weights = self._weights(until)
        table = np.full((len(self._blocks), len(sources)), -_FAR, np.int64)
        # For example, blocks 0 → 1 → 2 and 0 → 2, with 3 instructions in block 1. From the end of
        # block 0 to block 2 the longest path has 3 instructions, through block 1. ``layer`` holds
        # lengths with k back edges, ``following`` those with k + 1. A block keeps the length of its
        # first layer.
        layer, following = table.copy(), table.copy()
        for column, source in enumerate(sources):
            for target in self._targets[source]:
                (layer if target > source else following)[target, column] = 0
        while True:
            for block, targets in enumerate(self._targets):
                leaving = layer[block] + weights[block]
                for target in targets:
                    goal = layer if target > block else following
                    np.maximum(
                        goal[target], leaving, out=goal[target],
                        where=(table[target] < 0) & (leaving >= 0),
                    )  # fmt: skip
            table = np.where(table < 0, layer, table)
            following[table >= 0] = -_FAR
            if not (following >= 0).any():
                return table
            layer, following = following, np.full_like(table, -_FAR)
