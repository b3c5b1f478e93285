"""Footprints of waves, and their overlap with earlier blocks (Warpspeed §4.4).

``dram.py`` computes DRAM volumes from them.

A *wave* is the set of consecutive blocks, in launch order, that are resident at a time. Its overlap
with earlier threads is computed for two thread sets, as in the paper's figure 10:

* y layer: the row of blocks launched just before the wave, ``[first − grid.x, first)``, as far as
  it lies in the same plane;
* z layer: the plane of blocks before it, ``[first − grid.x · grid.y, first)``, less the y layer.

The paper's implementation uses a box that encloses the wave. Here the wave is the exact set of
blocks, including incomplete rows at its ends. Only the part of a layer within reach of the wave is
evaluated. The layer's whole footprint, which decides if it is still cached, is computed by
:func:`box_volume`. The cost therefore does not depend on the grid.

For example, a stencil reads the rows above and below, in rows of 256 values of 8 bytes. Eight SMs
hold one block each, so the wave is two rows of blocks, here in the middle of the grid:

    >>> import perfassert as pa
    >>> from perfassert.engines.volume.launch_groups import group_launch
    >>> from perfassert.hardware.occupancy import Occupancy
    >>> stencil = pa.Kernel.from_accesses(
    ...     name="vertical",
    ...     fields=[pa.Field("a", "float64", shape=(64, 256), halo=(1, 0))],
    ...     loads=["a[y - 1, x]", "a[y, x]", "a[y + 1, x]"],
    ... )
    >>> launch = pa.Launch(grid=(4, 64), block=(64, 1))
    >>> device = pa.device("a100").replace(compute_units=8)
    >>> resident = Occupancy(1 / 32, 1, 2, "blocks")
    >>> [wave] = waves(group_launch(stencil, launch, launch, device, resident))
    >>> wave.blocks, wave.weight
    ([((0, 4), (31, 33), (0, 1))], 32.0)
    >>> wave.fields["a"].load, wave.fields["a"].overlap_y, wave.layer_y
    (8192.0, 4096.0, 6144.0)

The wave updates rows 31 and 32, so it touches the four rows 30 to 33, 8,192 bytes. The y layer is
the row of blocks before it, which touched rows 29 to 31, 6,144 bytes. Rows 30 and 31 are the
overlap. If the L2 holds wave and layer (the *layer condition*), only the other two rows come from
DRAM, and each value is loaded once. If it does not, all four rows do, and each value is loaded
twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from perfassert.engines.volume.footprint import (
    BlockBox,
    block_steps,
    box_volume,
    clip_boxes,
    field_runs,
    granules,
    linear_range,
    reach,
    threads_in,
)
from perfassert.engines.volume.groups import AccessGroup, between_l2_and_dram
from perfassert.engines.volume.launch_groups import LaunchGroups
from perfassert.engines.volume.runs import Runs, common, inner_granules, size, to_granules, union
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch

_EXACT_WAVES = 4
"""Largest number of waves that are all evaluated; larger grids are represented by a middle wave."""

_STRATA = 16
"""Parts of a grid axis that are evaluated separately if a condition depends on the block."""


@dataclass(frozen=True, slots=True)
class FieldWave:
    """Bytes of one field in one wave.

    ``load`` is the footprint of the loads. ``overlap_y`` and ``overlap_z`` are the parts of it that
    the y layer holds, and that only the z layer holds. ``store`` is the footprint of the stores.
    ``partial`` is the part of it in sectors that stay partly written and that nothing loads.
    ``pages`` is a number of TLB pages.
    """

    load: float = 0.0
    overlap_y: float = 0.0
    overlap_z: float = 0.0
    store: float = 0.0
    partial: float = 0.0
    pages: int = 0


@dataclass(frozen=True, slots=True)
class Wave:
    """A wave of blocks that represents ``weight`` waves of the launch.

    ``first`` is its first block in launch order. ``layer_y`` and ``layer_z`` are the bytes of the
    layers before it.
    """

    threads: int
    weight: float
    first: int
    blocks: Sequence[BlockBox]
    fields: Mapping[str, FieldWave]
    layer_y: float
    layer_z: float

    @property
    def block_count(self) -> int:
        """Number of blocks of the wave, including blocks whose threads are all masked."""
        return sum((x[1] - x[0]) * (y[1] - y[0]) * (z[1] - z[0]) for x, y, z in self.blocks)

    @property
    def footprint(self) -> float:
        """Bytes that the wave touches."""
        return sum(f.load + f.store for f in self.fields.values())

    @property
    def pages(self) -> int:
        """Distinct TLB pages of all fields."""
        return sum(f.pages for f in self.fields.values())


def waves(groups: LaunchGroups) -> list[Wave]:
    """Return the waves to evaluate; the sum of ``weight · threads`` is the launch's threads."""
    launch, concurrent = groups.launch, groups.concurrent_blocks
    count = -(-launch.blocks // concurrent)
    if count <= _EXACT_WAVES:
        return [_wave(groups, i * concurrent) for i in range(count)]
    parts = _parts(groups)
    if len(parts) > 1 or parts[0].step > 1:
        return _waves_of_parts(groups, parts)
    start = _middle(launch, concurrent)
    if any(_move_in_opposite_directions(own, launch) for own in groups.fields.values()):
        start //= 2
    wave = _wave(groups, start)
    return [replace(wave, weight=launch.threads / wave.threads)]


@dataclass(frozen=True, slots=True)
class _Part:
    """A range of blocks, and the number ``runs`` of such ranges in the grid.

    ``step`` is the number of blocks of a whole row or plane, if a wave must consist of whole ones;
    else 1.
    """

    first: int
    last: int
    runs: float
    step: int = 1


def _parts(groups: LaunchGroups) -> list[_Part]:
    """Return ranges of blocks between which the guards of accesses differ.

    Each range is at least a wave long, unless an access lies in a shorter range only. The grid is
    cut along the slowest axis. If a guard depends on a faster axis, the row or plane in the middle
    is cut along that axis and represents the others.

    Example:
        In a grid of 4,000 by 20 blocks, 500 of which are resident, one access lies in the first 100
        blocks of each row. The parts are 100 and 3,900 blocks of row 10, each of which represents
        20 rows.
    """
    return list(_parts_along(groups, len(AXES) - 1, 0, 1.0))


def _parts_along(groups: LaunchGroups, axis: int, start: int, runs: float) -> Iterator[_Part]:
    launch, concurrent = groups.launch, groups.concurrent_blocks
    count, unit = launch.grid[axis], prod(launch.grid[:axis])
    if count == 1 and axis:
        yield from _parts_along(groups, axis - 1, start, runs)
        return
    every = [group for own in groups.fields.values() for group in own]
    faster = any(_cuts(group, below, launch) for group in every for below in range(axis))
    cuts: set[int] = set()
    needed: set[int] = set()
    for group in every:
        ends = _blocks_of(group, axis, launch)
        cuts.update((*ends, *_strata(group, axis, launch)))
        if (ends[1] - ends[0]) * unit < concurrent:
            needed.update(ends)
    kept = [0]
    for cut in sorted(cut for cut in cuts if 0 < cut < count):
        whole = (cut - kept[-1]) * unit >= concurrent and (count - cut) * unit >= concurrent
        if cut in needed or whole:
            kept.append(cut)
    for low, high in zip(kept, [*kept[1:], count], strict=True):
        if faster and unit > concurrent:
            middle = start + (low + high) // 2 * unit
            yield from _parts_along(groups, axis - 1, middle, runs * (high - low))
        else:
            step = unit if faster else 1
            yield _Part(start + low * unit, start + high * unit, runs, step)


def _cuts(group: AccessGroup, axis: int, launch: Launch) -> bool:
    """Return True if guards of the group depend on the block along an axis."""
    whole = _blocks_of(group, axis, launch) == (0, launch.grid[axis])
    return not whole or bool(_strata(group, axis, launch))


def _blocks_of(group: AccessGroup, axis: int, launch: Launch) -> tuple[int, int]:
    """Return the first and last (exclusive) block index along an axis that the group's ranges
    leave."""
    name, first, last = AXES[axis], 0, launch.grid[axis]
    for symbol, (low, high) in group.ranges:
        if symbol == name:
            first = max(first, low // launch.block[axis])
            last = min(last, -(-(high + 1) // launch.block[axis]))
        elif symbol == f"blockIdx.{name}":
            first, last = max(first, low), min(last, high + 1)
    return first, last


def _strata(group: AccessGroup, axis: int, launch: Launch) -> list[int]:
    """Return block indices along an axis between which a condition may change the accesses."""
    name, blocks = AXES[axis], launch.grid[axis]
    seen = {s for condition in group.conditions for s in condition.symbols()}
    depends = seen & {name, f"blockIdx.{name}"}
    return [blocks * i // _STRATA for i in range(1, _STRATA)] if depends else []


def _wave_of_part(groups: LaunchGroups, part: _Part) -> Wave:
    """Return the wave in the middle of a range of blocks, weighted with all ranges like it."""
    length = part.last - part.first
    count = min(groups.concurrent_blocks // part.step * part.step, length)
    offset = (length - count) // 2 // part.step * part.step
    wave = _wave(groups, part.first + offset, count)
    threads = threads_in(linear_range(groups.launch.grid, part.first, part.last), groups.launch)
    return replace(wave, weight=part.runs * threads / wave.threads)


def _waves_of_parts(groups: LaunchGroups, parts: Sequence[_Part]) -> list[Wave]:
    """Return a wave for each part; together they have the threads of the launch."""
    made = [_wave_of_part(groups, part) for part in parts]
    scale = groups.launch.threads / sum(wave.weight * wave.threads for wave in made)
    return [replace(wave, weight=wave.weight * scale) for wave in made]


def _middle(launch: Launch, concurrent: int) -> int:
    """Return the first block of a wave in the middle of the middle plane, far from borders."""
    plane = launch.grid[0] * launch.grid[1]
    first = launch.grid[2] // 2 * plane
    if concurrent < plane:
        first += (plane - concurrent) // 2
    return min(first, launch.blocks - concurrent)


def _move_in_opposite_directions(groups: Sequence[AccessGroup], launch: Launch) -> bool:
    """Return True if accesses to one field move in opposite directions, as ``a[i] + a[n - 1 - i]``
    does.

    Such accesses touch the same data in the middle of the grid and nowhere else.
    """
    steps = zip(*(block_steps(group, launch) for group in groups), strict=True)
    return any(min(axis) < 0 < max(axis) for axis in steps)


def _wave(groups: LaunchGroups, first: int, count: int | None = None) -> Wave:
    """Return the wave that begins at block ``first``; ``count``: fewer blocks than are resident."""
    launch, device = groups.launch, groups.device
    grid = launch.grid
    row, plane = grid[0], grid[0] * grid[1]
    current = linear_range(grid, first, first + (count or groups.concurrent_blocks))
    start_y = max(first - row, first // plane * plane)
    before_y = linear_range(grid, start_y, first)
    before_z = linear_range(grid, first - plane, start_y)
    parts = {
        name: _field_wave(own, launch, device, current, before_y, before_z)
        for name, own in groups.fields.items()
    }
    layer_y = _layer_bytes(groups, (row, 1, 1)) if before_y and grid[1] > 1 else 0.0
    layer_z = _layer_bytes(groups, (row, grid[1], 1)) if before_z and grid[2] > 1 else 0.0
    return Wave(threads_in(current, launch), 1.0, first, current, parts, layer_y, layer_z)


def _layer_bytes(groups: LaunchGroups, box: tuple[int, int, int]) -> float:
    granularity = groups.device.dram_granularity
    return sum(box_volume(own, box, groups.launch, granularity) for own in groups.fields.values())


def _field_wave(
    groups: Sequence[AccessGroup],
    launch: Launch,
    device: Device,
    current: Sequence[BlockBox],
    before_y: Sequence[BlockBox],
    before_z: Sequence[BlockBox],
) -> FieldWave:
    loads, stores = (between_l2_and_dram(d, groups) for d in (Direction.LOAD, Direction.STORE))
    load = overlap_y = overlap_z = store = partial = 0.0
    grain, sector = device.dram_granularity, device.sector_bytes
    everything = []
    if loads:
        read = field_runs(loads, current, launch, sector)
        touched = to_granules(read, grain)
        near = _neighbourhood(loads, current, launch)
        in_y = granules(loads, clip_boxes(before_y, near), launch, grain)
        in_z = granules(loads, clip_boxes(before_z, near), launch, grain)
        load = float(size(touched) * grain)
        overlap_y = float(common(touched, in_y) * grain)
        overlap_z = float(common(touched, union((in_y, in_z), 1)) * grain) - overlap_y
        everything.append(read)
    if stores:
        written = field_runs(stores, current, launch, 1)
        touched = to_granules(written, sector)
        store = float(size(touched) * sector)
        partial = store - float(inner_granules(written, sector) * sector)
        if partial and loads:
            partial -= _loaded_anyway(read, written, touched, sector)
        everything.append(written)
    pages = size(to_granules(union(everything, sector), device.tlb_page_bytes))
    return FieldWave(load, overlap_y, overlap_z, store, max(partial, 0.0), pages)


def _loaded_anyway(read: Runs, written: Runs, touched: Runs, sector: int) -> float:
    """Return the bytes of partly written sectors that the wave also loads."""
    loaded = to_granules(read, sector)
    first, last = -(-written.starts // sector), written.ends // sector
    whole = first < last
    inner = Runs(first[whole], last[whole])
    return float((common(touched, loaded) - common(inner, loaded)) * sector)


def _neighbourhood(
    groups: Sequence[AccessGroup], boxes: Sequence[BlockBox], launch: Launch
) -> BlockBox:
    """Return the bounding box of blocks whose accesses can overlap those of ``boxes``."""
    result = []
    for i, distance in enumerate(reach(groups)):
        margin = -(-distance // launch.block[i]) + 1
        low = min(box[i][0] for box in boxes) - margin
        high = max(box[i][1] for box in boxes) + margin
        result.append((max(low, 0), min(high, launch.grid[i])))
    return (result[0], result[1], result[2])
