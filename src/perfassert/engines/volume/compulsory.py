"""What a launch cannot but move: every distinct sector that it touches, once.

Between DRAM and an L2 that holds nothing of it: each sector that the launch loads, and each that it
stores. A wave loads for the first time what the layers before it have not touched. Waves that store
the same are no layers of each other: stores are counted over the whole grid, too, and the fewer
count, unless terms that are not affine tie coordinates of the grid together. Of executed blocks the
distinct sectors are extrapolated, and never exceed the buffer.

    >>> import perfassert as pa
    >>> fields = [pa.Field("a", shape=4096), pa.Field("b", shape=4096)]
    >>> loads = ["a[x]", "a[x // 2]", "a[0]"]
    >>> halves = pa.Kernel.from_accesses("halves", fields, loads=loads, stores=["b[x]"])
    >>> diagnostics = pa.predict(halves, pa.Launch(16, 256), "a100").diagnostics
    >>> diagnostics["compulsory_load_bytes"], diagnostics["compulsory_store_bytes"]
    (32768.0, 32768.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from perfassert.engines.volume.executed_waves import distinct_bytes
from perfassert.engines.volume.footprint import box_volume
from perfassert.engines.volume.groups import (
    AccessGroup,
    between_l2_and_dram,
    coordinate_ranges,
)
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.waves import Wave
from perfassert.errors import LaunchError
from perfassert.kernel.access import Direction
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch


def compulsory_bytes(groups: LaunchGroups, waves: Sequence[Wave]) -> Mapping[Direction, float]:
    """Bytes of the launch by direction, spilled registers and code left out.

    ``waves``: as evaluated, with executed fields.
    """
    return {
        direction: sum(
            min(_wave_footprint(name, direction, waves), _launch_footprint(groups, name, direction))
            for name in (*groups.fields, *groups.executed)
        )
        for direction in Direction
    }


def _wave_footprint(name: str, direction: Direction, waves: Sequence[Wave]) -> float:
    """Waves one by one, less what the layers before each hold."""
    total = 0.0
    for wave in waves:
        if (field := wave.fields.get(name)) is not None:
            new = field.load - field.overlap_y - field.overlap_z
            total += wave.weight * (new if direction is Direction.LOAD else field.store)
    return total


def _launch_footprint(groups: LaunchGroups, name: str, direction: Direction) -> float:
    """The whole grid at once; infinite where that is not counted."""
    sector, launch = groups.device.sector_bytes, groups.launch
    closed = between_l2_and_dram(direction, groups.fields.get(name, ()))
    executed = between_l2_and_dram(direction, groups.executed.get(name, ()))
    if closed and direction is Direction.LOAD:  # the waves tell, and loads are many
        return inf
    if not all(tied.same_in_blocks for group in closed for tied in group.tied):
        return inf
    if len(closed) == 1 and stores_once(closed[0], launch):
        return inf
    x, y, z = (max(1, e // b) for e, b in zip(launch.extent, launch.block, strict=True))
    try:
        box = box_volume(closed, (x, y, z), launch, sector)  # of blocks with every thread
    except LaunchError:  # too many pieces
        return inf
    return box + distinct_bytes(executed, sector)


def stores_once(group: AccessGroup, launch: Launch) -> bool:
    """Whether no two threads or iterations touch the same byte, as far as strides tell: each is at
    least as long as what all shorter ones reach together."""
    steps = _progressions(group.offsets.tolist())
    if steps is None or group.tied:
        return False
    ranges = {**coordinate_ranges(launch), **dict(group.ranges)}
    strides = dict(group.coefficients)
    for axis, blocks, threads in zip(AXES, launch.grid, launch.block, strict=True):
        parts = (("blockIdx", blocks), ("threadIdx", threads))
        if axis not in strides and any(n > 1 and f"{p}.{axis}" not in strides for p, n in parts):
            return False
    reach = group.item_bytes
    if not strides.keys() <= ranges.keys():
        return False
    for symbol, stride in strides.items():
        low, high = ranges[symbol]
        steps.append((abs(stride), high - low))
    for stride, times in sorted(steps):
        if times and stride < reach:
            return False
        reach += stride * times
    return all(loop in strides for loop in group.loops)


def _progressions(offsets: Sequence[int]) -> list[tuple[int, int]] | None:
    """Steps, and how often each is taken, that lead from the first offset to all others; None where
    they are no such grid.

    >>> _progressions([5, 6, 9, 10]), _progressions([5, 6, 9]), _progressions([5, 5])
    ([(1, 1), (4, 1)], None, None)
    """
    first = min(offsets)
    left, steps = sorted(o - first for o in offsets), []
    while len(left) > 1:
        known, step, times = set(left), left[1], 1
        if len(known) < len(left):
            return None
        while (times + 1) * step in known:
            times += 1
        starts = [o for o in left if o - step not in known]
        if sorted(s + k * step for s in starts for k in range(times + 1)) != left:
            return None
        steps.append((step, times))
        left = starts
    return steps
