"""What volumes are estimated of: the groups of a kernel's accesses, with launch and device."""

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
    """A kernel's accesses to global memory by field, those with closed forms and those that sampled
    blocks executed.

    ``launch``: the one that volumes are of; ``started``: the one that is started, where loops over
    the grid make it stand for more blocks.
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
        """Blocks that the device holds."""
        return self.occupancy.resident_blocks * self.device.compute_units

    @property
    def concurrent_blocks(self) -> int:
        """Blocks of a wave."""
        return min(self.resident_blocks, self.launch.blocks)

    @cached_property
    def unit_blocks(self) -> tuple[tuple[int, int, int], ...]:
        """Blocks that an SM holds at a time, as the first ones are dealt out: one to each SM in
        turn."""
        units = self.device.compute_units
        count = min(self.occupancy.resident_blocks, -(-self.started.blocks // units))
        columns, rows, _ = self.launch.grid
        numbers = [i * units for i in range(max(1, count))]
        return tuple((n % columns, n // columns % rows, n // (columns * rows)) for n in numbers)

    def differing_blocks(self, groups: Sequence[AccessGroup]) -> int:
        """Of the blocks that an SM holds, those whose accesses differ: blocks that agree in all
        indices that occur touch the same."""
        seen = frozenset[int]().union(*(group.block_axes for group in groups))
        if groups and len(seen) < len(AXES):
            return len({tuple(block[i] for i in seen) for block in self.unit_blocks})
        return len(self.unit_blocks)

    def share_of_instructions(self, loop: Counter | None) -> float:
        """Of all instructions that a block executes, the share in a loop; all where the kernel does
        not say."""
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
        """By instruction of the program, all warps of a block together."""
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
        """What shared memory of the resident blocks leaves of an SM's L1."""
        shared = self.kernel.shared_bytes + self.launch.shared_bytes
        own = self.device.l1_bytes - shared * self.occupancy.resident_blocks
        return max(own, self.device.l1_bytes // 8)


def group_launch(
    kernel: Description, launch: Launch, started: Launch, device: Device, occupancy: Occupancy
) -> LaunchGroups:
    """Group the accesses of a bound kernel.

    Raises :class:`~perfassert.errors.AddressExpressionError` where an expression does not fit the
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
