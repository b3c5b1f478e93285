"""Result of an execution: counts, branches, and the addresses that each operation touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.collective import Lanes
from perfassert.engines.execution.memory import SPAN_BITS, Addresses, GlobalMemory, Region
from perfassert.kernel.machine import WARP_LANES, MachineCode, MemoryOperand

Counts = npt.NDArray[np.int64]
IRREGULAR = np.iinfo(np.int64).min
"""Step of a row whose lanes are not equally spaced."""


@dataclass(frozen=True, eq=False)
class Touch:
    """Record of all executions of a memory operation, one row per warp and execution, in order.

    ``instruction`` and ``part`` identify the operation. ``warps`` holds the number of the warp of
    each row. ``lanes`` [rows, 32] marks the lanes that take part and whose address is known.
    ``guessed`` counts the lanes that take part but whose address is unknown. If the lanes of a row
    are equally spaced, ``starts`` and ``steps`` hold the address of lane 0 and the spacing in
    bytes. Other rows have a step of :data:`IRREGULAR`, and their addresses follow one another in
    ``irregular``.
    """

    instruction: int
    part: int
    memory: MemoryOperand
    warps: npt.NDArray[np.intp]
    lanes: Lanes
    guessed: int
    starts: Addresses
    steps: npt.NDArray[np.int64]
    irregular: Addresses

    @cached_property
    def addresses(self) -> Addresses:
        """Addresses [rows, 32] in bytes, 0 for lanes outside ``lanes``; computed on first use."""
        return self.part_addresses(0, len(self.steps))

    @cached_property
    def in_buffers(self) -> Lanes:
        """Lanes [rows, 32] whose address lies in a buffer of global memory."""
        return self.lanes & ((self.addresses >> np.uint64(SPAN_BITS)) > 0)

    def part_addresses(self, first: int, last: int) -> Addresses:
        """Return the addresses of rows ``first`` to ``last`` - 1."""
        # For example, a row with start 1000 and step 4 has addresses 1000, 1004, ... 1124. If rows
        # 0 and 2 are irregular, row 2 takes the second entry of ``irregular``.
        lane = np.arange(WARP_LANES, dtype=np.uint64)
        steps = self.steps[first:last]
        addresses = self.starts[first:last, None] + steps[:, None].view(np.uint64) * lane
        addresses = np.where(self.lanes[first:last], addresses, np.uint64(0))
        own = steps == IRREGULAR
        start = int(np.count_nonzero(self.steps[:first] == IRREGULAR))
        addresses[own] = self.irregular[start : start + int(np.count_nonzero(own))]
        return addresses


@dataclass(frozen=True, slots=True)
class OutsideAccess:
    """Lanes of an instruction outside of a buffer; ``offset`` in bytes is that of the first one."""

    instruction: int
    region: str
    offset: int
    lanes: int


@dataclass(frozen=True, eq=False)
class Execution:
    """Result of an execution; warps are numbered block by block, in the order of ``blocks``.

    ``executed`` and ``lanes`` have the shape [warps, instructions]. They count how often a warp
    issued an instruction, and the active lanes of all its issues. Guards of single instructions are
    not considered. ``taken`` holds, by branch, [warps, 2] counts: how often a lane jumped, and how
    often a lane did not. ``guesses`` holds, by instruction, the provenance of unknown values that
    decided its address or branch. ``touches`` lists each operation once, in the order of the code.
    ``cut`` lists warps that did not reach their end. ``lost`` lists instructions at which lanes
    could not be followed. ``forced`` lists instructions at which lanes waited for others that never
    came. ``memory`` holds the buffers at the end.
    """

    code: MachineCode
    regions: tuple[Region, ...]
    blocks: tuple[int, ...]
    warps_per_block: int
    executed: Counts
    lanes: Counts
    taken: Mapping[int, Counts]
    touches: tuple[Touch, ...]
    outside: tuple[OutsideAccess, ...]
    guesses: Mapping[int, int]
    cut: npt.NDArray[np.intp]
    lost: frozenset[int]
    forced: frozenset[int]
    memory: GlobalMemory

    @property
    def contents(self) -> dict[str, npt.NDArray[np.uint8]]:
        """Content of the buffers at the end, for buffers whose content was given."""
        return self.memory.contents()

    @property
    def unknown(self) -> dict[str, int]:
        """Bytes of each buffer that became unknown by the end, 0 if its content was not given."""
        return self.memory.unknowns()

    @property
    def lane_instructions(self) -> int:
        """Number of executed instructions, summed over lanes."""
        return int(self.lanes.sum())
