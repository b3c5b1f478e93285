"""Input of the volume engine: a kernel's access groups, with launch and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from perfassert.engines.volume.binding import bind_groups
from perfassert.engines.volume.executed import ExecutedGroup, executed_groups
from perfassert.engines.volume.groups import AccessGroup
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.description import BoundKernel, Description
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import Counter, LoopCounter

_Group = TypeVar("_Group", AccessGroup, ExecutedGroup)


@dataclass(frozen=True, eq=False)
class LaunchGroups:
    """A kernel's accesses to global memory by field: with closed forms, and with executed
    addresses.

    ``launch`` is the launch whose volumes are estimated. ``started`` is the launch as it is
    started. The two differ if blocks loop over the grid.
    """

    kernel: Description
    launch: Launch
    started: Launch
    device: Device
    occupancy: Occupancy
    fields: Mapping[str, Sequence[AccessGroup]]
    executed: Mapping[str, Sequence[ExecutedGroup]]

    @property
    def resident_blocks(self) -> int:
        """Number of blocks that the device holds at a time."""
        return self.occupancy.resident_blocks * self.device.compute_units

    @property
    def concurrent_blocks(self) -> int:
        """Number of blocks of a wave."""
        return min(self.resident_blocks, self.launch.blocks)

    @cached_property
    def unit_blocks(self) -> tuple[tuple[int, int, int], ...]:
        """Indices of the blocks that the first SM holds at a time; blocks are dealt to the SMs in
        turn."""
        units = self.device.compute_units
        count = min(self.occupancy.resident_blocks, -(-self.started.blocks // units))
        columns, rows, _ = self.launch.grid
        # For example, with 4 SMs and 2 resident blocks the first SM holds blocks 0 and 4. In a grid
        # of 3 columns these are (0, 0, 0) and (1, 1, 0).
        numbers = [i * units for i in range(max(1, count))]
        return tuple((n % columns, n // columns % rows, n // (columns * rows)) for n in numbers)

    def differing_blocks(self, groups: Sequence[AccessGroup]) -> int:
        """Count the blocks of an SM whose accesses differ.

        Blocks touch the same data if they agree in all block indices that the groups depend on.
        """
        seen = frozenset[int]().union(*(group.block_axes for group in groups))
        if groups and len(seen) < len(AXES):
            return len({tuple(block[i] for i in seen) for block in self.unit_blocks})
        return len(self.unit_blocks)

    def share_of_instructions(self, loop: Counter | None) -> float:
        """Return the fraction of a block's executed instructions in a loop, or 1 if unknown."""
        program, total = self.kernel.program, sum(self._executions.values())
        if program is None:
            return 1.0
        if not isinstance(loop, LoopCounter) or not total:
            return 1.0
        blocks = (program.blocks[b] for b in program.loops[loop.loop].blocks)
        inside = {i for block in blocks for i in range(block.start, block.stop)}
        return sum(n for i, n in self._executions.items() if i in inside) / total

    @cached_property
    def _executions(self) -> dict[int, int]:
        """Executions of each program instruction by all warps of a block."""
        if not isinstance(self.kernel, BoundKernel):
            return {}
        warps = -(-self.started.threads_per_block // self.device.warp_size)
        executions: dict[int, int] = {}
        for node in self.kernel.graph.nodes:
            count = self.kernel.graph.executions(node, warps)
            executions[node.program] = executions.get(node.program, 0) + count
        return executions

    @property
    def l1_bytes(self) -> int:
        """Bytes of an SM's L1 that shared memory of the resident blocks leaves, at least an eighth
        of it."""
        shared = self.kernel.shared_bytes + self.launch.shared_bytes
        own = self.device.l1_bytes - shared * self.occupancy.resident_blocks
        return max(own, self.device.l1_bytes // 8)


def group_launch(
    kernel: Description, launch: Launch, started: Launch, device: Device, occupancy: Occupancy
) -> LaunchGroups:
    """Group the accesses of a bound kernel.

    Raises :class:`~perfassert.errors.AddressExpressionError` if an expression does not fit the
    launch.
    """
    fields = _by_field(bind_groups(kernel, launch))
    executed = _by_field(executed_groups(kernel, "global"))
    return LaunchGroups(kernel, launch, started, device, occupancy, fields, executed)


def _by_field(groups: Sequence[_Group]) -> dict[str, list[_Group]]:
    fields: dict[str, list[_Group]] = {}
    for group in groups:
        fields.setdefault(group.field, []).append(group)
    return fields
