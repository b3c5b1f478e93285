"""What volumes are estimated of: the groups of a kernel's accesses, with launch and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from perfassert.engines.volume.binding import bind_groups
from perfassert.engines.volume.executed import ExecutedGroup, executed_groups
from perfassert.engines.volume.groups import AccessGroup
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.description import Description
from perfassert.kernel.launch import Launch

_Group = TypeVar("_Group", AccessGroup, ExecutedGroup)


@dataclass(frozen=True, slots=True)
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
