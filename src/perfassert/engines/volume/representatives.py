"""Which blocks stand for all blocks of a grid.

A block's footprint depends on its position only through the addresses modulo the line size and
through masked threads at the domain's end. Blocks that agree in both are one class; each class is
evaluated once and weighted with the exact number of its members, whatever the size of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from perfassert.engines.volume.binding import AccessGroup
from perfassert.engines.volume.footprint import BlockBox, block_steps, period
from perfassert.kernel.launch import Launch

_MAX_PER_AXIS = 32
_MAX_PER_AXIS_JOINT = 4  # where classes of several groups cannot be merged


@dataclass(frozen=True, slots=True)
class Representative:
    """A block that stands for ``weight`` blocks; ``partial``: which axes are cut by the mask."""

    block: tuple[int, int, int]
    weight: float
    partial: tuple[bool, bool, bool]

    @property
    def box(self) -> BlockBox:
        """The block as a box of one."""
        x, y, z = self.block
        return ((x, x + 1), (y, y + 1), (z, z + 1))


def representatives(
    groups: Sequence[AccessGroup], launch: Launch, modulus: int
) -> tuple[Representative, ...]:
    """Classes of blocks for the accesses of one field; weights sum to the unmasked blocks."""
    exact = len(groups) == 1 and not groups[0].quotients
    limit = _MAX_PER_AXIS if exact else _MAX_PER_AXIS_JOINT
    axes = [_axis_classes(groups, i, launch, modulus, limit) for i in range(3)]
    if not exact:
        return tuple(
            Representative((a[0], b[0], c[0]), a[1] * b[1] * c[1], (a[2], b[2], c[2]))
            for a, b, c in product(*axes)
        )
    return _merged_by_residue(groups[0], axes, launch, modulus)


_AxisClass = tuple[int, float, bool]  # block index, weight, partial


def _axis_classes(
    groups: Sequence[AccessGroup], axis: int, launch: Launch, modulus: int, limit: int
) -> list[_AxisClass]:
    block, extent = launch.block[axis], launch.extent[axis]
    full, rest = divmod(extent, block)
    step = period(groups, axis, block, modulus)
    classes: list[_AxisClass] = []
    if full:
        count = min(step, full, limit)
        if count == min(step, full):  # one block for each residue
            classes = [(i, float(len(range(i, full, step))), False) for i in range(count)]
        else:  # too many: evenly spread, an odd stride apart
            picks = sorted({(2 * i + 1) * full // (2 * count) for i in range(count)})
            classes = [(i, full / len(picks), False) for i in picks]
    if rest:
        classes.append((full, 1.0, True))
    return classes


def _merged_by_residue(
    group: AccessGroup, axes: Sequence[list[_AxisClass]], launch: Launch, modulus: int
) -> tuple[Representative, ...]:
    found: dict[tuple[int, tuple[bool, ...]], tuple[tuple[int, ...], float]] = {(0, ()): ((), 1.0)}
    for i, step in enumerate(block_steps(group, launch)):
        wider: dict[tuple[int, tuple[bool, ...]], tuple[tuple[int, ...], float]] = {}
        for (residue, flags), (blocks, weight) in found.items():
            for index, count, partial in axes[i]:
                key = ((residue + step * index) % modulus, (*flags, partial))
                place, so_far = wider.get(key, ((*blocks, index), 0.0))
                wider[key] = (place, so_far + weight * count)
        found = wider
    return tuple(
        Representative(blocks, weight, flags)  # type: ignore[arg-type]
        for (_, flags), (blocks, weight) in found.items()
    )
