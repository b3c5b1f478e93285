"""What an execution yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.collective import Lanes
from perfassert.engines.execution.memory import Addresses, GlobalMemory, Region
from perfassert.kernel.machine import WARP_LANES, MachineCode, MemoryOperand

Counts = npt.NDArray[np.int64]
IRREGULAR = np.iinfo(np.int64).min
"""A step between lanes that is none."""


@dataclass(frozen=True, eq=False)
class Touch:
    """All executions of a memory operation, one row for each warp and time, in order.

    ``instruction``, ``part``: which one; ``warps``: the numbers of those that executed it;
    ``lanes`` [rows, 32]: those that take part and whose address is known; ``guessed``: how many
    take part at an address that is not known; ``starts``, ``steps``: of rows whose lanes are
    equally far apart, in bytes; the others have a step of :data:`IRREGULAR` and their addresses,
    one after the other, in ``irregular``.
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
        """[rows, 32] in bytes, 0 for lanes that are not in ``lanes``; made when it is asked for."""
        return self.part_addresses(0, len(self.steps))

    def part_addresses(self, first: int, last: int) -> Addresses:
        """Those of some rows, ``last`` left out."""
        lane = np.arange(WARP_LANES, dtype=np.uint64)
        steps = self.steps[first:last]
        addresses = self.starts[first:last, None] + steps[:, None].view(np.uint64) * lane
        addresses = np.where(self.lanes[first:last], addresses, np.uint64(0))
        own = steps == IRREGULAR
        start = int(np.count_nonzero(self.steps[:first] == IRREGULAR))
        addresses[own] = self.irregular[start : start + int(np.count_nonzero(own))]
        return addresses


@dataclass(frozen=True, slots=True)
class Outside:
    """Lanes that left a buffer: ``offset`` in bytes of the first one that did."""

    instruction: int
    region: str
    offset: int
    lanes: int


@dataclass(frozen=True, eq=False)
class Execution:
    """Warps are numbered block by block, in the order of ``blocks``.

    ``executed``, ``lanes``: [warps, instructions], how often a warp issued an instruction and with
    how many active lanes in all (guards of single instructions left out). ``taken``: branch →
    [warps, 2], how often some lane jumped, and how often some lane did not. ``guesses``:
    instruction → provenance of an unknown value that decided its address or its branch.
    ``touches``: in the order of the code, each operation once. ``cut``: warps that did not come to
    their end; ``lost``: instructions at which lanes could not be followed; ``forced``: those at
    which lanes waited for others that never came. ``memory``: the buffers as they are at the end.
    """

    code: MachineCode
    regions: tuple[Region, ...]
    blocks: tuple[int, ...]
    warps_per_block: int
    executed: Counts
    lanes: Counts
    taken: Mapping[int, Counts]
    touches: tuple[Touch, ...]
    outside: tuple[Outside, ...]
    guesses: Mapping[int, int]
    cut: npt.NDArray[np.intp]
    lost: frozenset[int]
    forced: frozenset[int]
    memory: GlobalMemory

    @property
    def contents(self) -> dict[str, npt.NDArray[np.uint8]]:
        """What the buffers with known content hold at the end."""
        return self.memory.contents()

    @property
    def unknown(self) -> dict[str, int]:
        """How many bytes of each of these are not known any more."""
        return self.memory.unknowns()

    @property
    def lane_instructions(self) -> int:
        """How much was executed."""
        return int(self.lanes.sum())
