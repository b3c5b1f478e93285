"""Compulsory volume of a launch: each distinct sector that it touches, moved once.

The L2 holds none of the data at the start, so each sector that the launch loads, and each that it
stores, crosses between DRAM and L2 at least once. Loads are counted wave by wave: a wave loads for
the first time what the layers before it have not touched. Layers do not cover stores, so stores are
counted over the whole grid as well, and the smaller count is taken. The count over the grid is left
out if terms that are not affine tie coordinates of the grid together. The distinct sectors of
executed blocks are extrapolated to the launch, up to the size of the buffer.

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
    """Return the compulsory bytes of the launch by direction, without spilled registers and code.

    ``waves``: the evaluated waves, including executed fields.
    """
    return {
        direction: sum(
            min(_wave_footprint(name, direction, waves), _launch_footprint(groups, name, direction))
            for name in (*groups.fields, *groups.executed)
        )
        for direction in Direction
    }


def _wave_footprint(name: str, direction: Direction, waves: Sequence[Wave]) -> float:
    """Sum the bytes of the waves; loads without those that layers before a wave have touched."""
    total = 0.0
    for wave in waves:
        if (field := wave.fields.get(name)) is not None:
            new = field.load - field.overlap_y - field.overlap_z
            total += wave.weight * (new if direction is Direction.LOAD else field.store)
    return total


def _launch_footprint(groups: LaunchGroups, name: str, direction: Direction) -> float:
    """Return the bytes that the whole grid touches, or infinity if they are not counted."""
    sector, launch = groups.device.sector_bytes, groups.launch
    closed = between_l2_and_dram(direction, groups.fields.get(name, ()))
    executed = between_l2_and_dram(direction, groups.executed.get(name, ()))
    if (
        closed and direction is Direction.LOAD
    ):  # the waves count loads, which are slow to count again
        return inf
    if not all(tied.same_in_blocks for group in closed for tied in group.tied):
        return inf
    if len(closed) == 1 and stores_once(closed[0], launch):
        return inf
    x, y, z = (max(1, e // b) for e, b in zip(launch.extent, launch.block, strict=True))
    try:
        box = box_volume(closed, (x, y, z), launch, sector)  # blocks without masked threads only
    except LaunchError:  # too many pieces
        return inf
    return box + distinct_bytes(executed, sector)


def stores_once(group: AccessGroup, launch: Launch) -> bool:
    """Return True if the strides prove that no two threads or iterations touch the same byte.

    The proof holds if each stride is at least as long as the bytes that all shorter strides span.
    """
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
    # For example, ``a[64 * y + x]`` with 4-byte items and 64 threads along x: x has a stride of 4
    # and spans 4 + 63 * 4 = 256 bytes, and y has a stride of 256, so the bytes differ. With ``a[32
    # * y + x]`` the stride of y is 128 < 256: two threads may touch the same byte.
    for stride, times in sorted(steps):
        if times and stride < reach:
            return False
        reach += stride * times
    return all(loop in strides for loop in group.loops)


def _progressions(offsets: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return strides and counts of the regular grid that the offsets form, or None if they do not.

    For example, offsets 5, 6, 9 and 10 are 5 plus 0 or 1 step of 1, plus 0 or 1 step of 4:

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
