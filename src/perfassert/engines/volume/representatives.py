"""Representative blocks of a grid, one or some for each class of blocks.

The footprint of a block depends on its position only through the addresses modulo the line size,
and through masked threads at the end of the domain. Blocks that agree in both form one class. Each
class is evaluated once and weighted with the exact number of its blocks, whatever the size of the
grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from perfassert.engines.volume.block_classes import sampled_blocks
from perfassert.engines.volume.footprint import (
    BlockBox,
    block_steps,
    period,
    points_of_a_block,
)
from perfassert.engines.volume.groups import AccessGroup
from perfassert.kernel.launch import Launch

_MAX_PER_AXIS = 128  # blocks
_ALL_BELOW = 256  # largest grid whose blocks are all evaluated, if they form no classes
_SAMPLED = 64
_LEAST_SAMPLED = 4  # blocks of a class
_MAX_POINTS = 2**25  # largest number of enumerated points of tied coordinates, all blocks together


@dataclass(frozen=True, slots=True)
class Representative:
    """A block that represents ``weight`` blocks.

    ``partial`` says along which axes the mask cuts the block. ``guards`` is the number of its class
    by guards.
    """

    block: tuple[int, int, int]
    weight: float
    partial: tuple[bool, bool, bool]
    guards: int = 0

    @property
    def box(self) -> BlockBox:
        """The block as a box that contains it alone."""
        x, y, z = self.block
        return ((x, x + 1), (y, y + 1), (z, z + 1))


def representatives(
    groups: Sequence[AccessGroup], launch: Launch, modulus: int
) -> tuple[Representative, ...]:
    """Return representative blocks for the accesses of one field; weights sum to the unmasked
    blocks.

    The result is exact for affine groups that move by the same distance, and for all groups on
    grids of at most 256 blocks.
    """
    if not alike(groups, launch):
        return _each_or_sampled(groups, launch)
    axes = [_axis_classes(groups, i, launch, modulus) for i in range(3)]
    return _merged_by_residue(groups[0], axes, launch, modulus)


def alike(groups: Sequence[AccessGroup], launch: Launch) -> bool:
    """Return True if all blocks touch one pattern, shifted by the same distance for all groups."""
    if not all(g.rigid for g in groups):
        return False
    return len({block_steps(g, launch) for g in groups}) == 1


def _each_or_sampled(groups: Sequence[AccessGroup], launch: Launch) -> tuple[Representative, ...]:
    """Return all blocks of a small grid, or samples of each class of blocks by guards.

    This is the case of groups that move by different distances, or whose guards cut the grid. Fewer
    blocks are sampled if each has many points to enumerate.
    """
    count = _ALL_BELOW if _blocks(launch) <= _ALL_BELOW else _SAMPLED
    points = sum(points_of_a_block(group, launch) for group in groups)
    count = min(count, max(_LEAST_SAMPLED, _MAX_POINTS // max(1, points)))
    samples = sampled_blocks(groups, launch, count)
    return tuple(Representative(p, weight, _partial(p, launch), own) for p, weight, own in samples)


def _blocks(launch: Launch) -> int:
    """Count the blocks that have an unmasked thread."""
    return prod(-(-e // b) for e, b in zip(launch.extent, launch.block, strict=True))


def _partial(place: tuple[int, ...], launch: Launch) -> tuple[bool, bool, bool]:
    x, y, z = (
        (index + 1) * block > extent
        for index, block, extent in zip(place, launch.block, launch.extent, strict=True)
    )
    return (x, y, z)


_AxisClass = tuple[int, float, bool]  # block index, weight, partial


def _axis_classes(
    groups: Sequence[AccessGroup], axis: int, launch: Launch, modulus: int
) -> list[_AxisClass]:
    block, extent = launch.block[axis], launch.extent[axis]
    full, rest = divmod(extent, block)
    step = period(groups, axis, block, modulus)
    classes: list[_AxisClass] = []
    if full:
        count = min(step, full, _MAX_PER_AXIS)
        # For example, 10 full blocks with a period of 4 are represented by blocks 0, 1, 2 and 3
        # with the weights 3, 3, 2 and 2: block 0 represents 0, 4 and 8.
        if count == min(step, full):  # one block for each residue
            classes = [(i, float(len(range(i, full, step))), False) for i in range(count)]
        else:  # too many residues: evenly spread blocks
            picks = sorted({(2 * i + 1) * full // (2 * count) for i in range(count)})
            classes = [(i, full / len(picks), False) for i in picks]
    if rest:
        classes.append((full, 1.0, True))
    return classes


def _merged_by_residue(
    group: AccessGroup, axes: Sequence[list[_AxisClass]], launch: Launch, modulus: int
) -> tuple[Representative, ...]:
    by_residue: dict[tuple[int, tuple[bool, ...]], tuple[tuple[int, ...], float]] = {
        (0, ()): ((), 1.0)
    }
    for i, step in enumerate(block_steps(group, launch)):
        wider: dict[tuple[int, tuple[bool, ...]], tuple[tuple[int, ...], float]] = {}
        for (residue, flags), (blocks, weight) in by_residue.items():
            for index, count, partial in axes[i]:
                key = ((residue + step * index) % modulus, (*flags, partial))
                place, so_far = wider.get(key, ((*blocks, index), 0.0))
                wider[key] = (place, so_far + weight * count)
        by_residue = wider
    return tuple(
        Representative(blocks, weight, flags)  # type: ignore[arg-type]
        for (_, flags), (blocks, weight) in by_residue.items()
    )
