"""Unique memory footprints of sets of blocks (Warpspeed §4.3, §4.4), without enumerating threads.

A set of blocks is a list of boxes in the block grid. For one box and one access group the touched
bytes are ``{offset_i + Σ c_d · v_d}`` with every ``v_d`` in a range: a sum of arithmetic
progressions. Dimensions are processed in order of ascending stride. A dimension whose stride is no
longer than the present runs lengthens these runs. Any other dimension repeats the runs. A stencil's
x dimension lengthens runs, so the cost is proportional to the number of distinct rows, whatever the
number of threads. Coordinates that occur in a floor quotient or a condition are enumerated together
with the coordinates that they are tied to in it. The enumerated shifts replace a progression.

For example, a run of 8 bytes is repeated four times:

    >>> from perfassert.engines.volume.runs import repeat_runs
    >>> run = Runs(np.array([0]), np.array([8]))
    >>> for stride, granularity in ((8, 1), (64, 1), (64, 64)):
    ...     runs = repeat_runs(run, stride, 4, granularity)
    ...     print(stride, granularity, runs.starts.tolist(), runs.ends.tolist())
    8 1 [0] [32]
    64 1 [0, 64, 128, 192] [8, 72, 136, 200]
    64 64 [0] [200]

With a stride of 8 the repetitions lengthen the run. With a stride of 64 there are four runs.
Counted in lines of 64 bytes, these are one run again: no line fits into a gap of 56 bytes, so the
four lines touched are those of bytes 0 to 199.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import gcd, lcm, prod

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, CoupledCoordinates, IntArray
from perfassert.engines.volume.runs import (
    Pattern,
    Runs,
    TooManyRuns,
    distinct,
    unite,
)
from perfassert.errors import LaunchError
from perfassert.kernel.affine import Affine, AffineCall, Quotient
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import Name

_MAX_ENUMERATED = 2**21
"""Largest number of points enumerated for one set of tied coordinates.

In a larger set, every second value of the coordinate that moves addresses least is left out.
"""
_MAX_RUNS = 2**24
"""Largest number of pieces of one footprint, 16 B each; more come from a wrong trip count."""
_MOST_KEPT = 2**16
"""Largest number of values of several blocks that are cached."""
AxisRange = tuple[int, int]
BlockBox = tuple[AxisRange, AxisRange, AxisRange]
"""Half-open ranges of block indices in x, y, z."""


def linear_range(grid: tuple[int, int, int], first: int, last: int) -> list[BlockBox]:
    """Return the blocks ``first`` to ``last`` - 1 in launch order (x fastest) as at most five
    boxes."""
    first, last = max(first, 0), min(last, grid[0] * grid[1] * grid[2])
    boxes: list[BlockBox] = []
    # For example, blocks 2 to 9 of a grid of 4 × 3 are the end of row 0 (x 2 to 3), the whole row
    # 1, and the begin of row 2 (x 0 to 1): three boxes.
    row, plane = grid[0], grid[0] * grid[1]
    while first < last:
        x, y, z = first % row, first // row % grid[1], first // plane
        if first % plane == 0 and last - first >= plane:
            depth = (last - first) // plane
            boxes.append(((0, row), (0, grid[1]), (z, z + depth)))
            first += depth * plane
        elif x == 0 and last - first >= row:
            height = min((last - first) // row, grid[1] - y)
            boxes.append(((0, row), (y, y + height), (z, z + 1)))
            first += height * row
        else:
            width = min(last - first, row - x)
            boxes.append(((x, x + width), (y, y + 1), (z, z + 1)))
            first += width
    return boxes


def clip_boxes(boxes: Sequence[BlockBox], bounds: BlockBox) -> list[BlockBox]:
    """Return the parts of ``boxes`` inside ``bounds``."""
    result = []
    for box in boxes:
        cut = tuple(
            (max(lo, low), min(hi, high)) for (lo, hi), (low, high) in zip(box, bounds, strict=True)
        )
        if all(lo < hi for lo, hi in cut):
            result.append(cut)
    return result  # type: ignore[return-value]


def threads_in(boxes: Sequence[BlockBox], launch: Launch) -> int:
    """Count the unmasked threads of the blocks."""
    total = 0
    for box in boxes:
        count = 1
        for (lo, hi), block, extent in zip(box, launch.block, launch.extent, strict=True):
            count *= max(0, min(hi * block, extent) - lo * block)
        total += count
    return total


def _symbol_boxes(
    group: AccessGroup, box: BlockBox, launch: Launch
) -> Iterator[dict[Name, tuple[int, int]]]:
    """Yield the box as (start, count) of each symbol of the group, without masked threads."""
    options: list[list[dict[Name, tuple[int, int]]]] = []
    for axis, (lo, hi), block, extent in zip(AXES, box, launch.block, launch.extent, strict=True):
        hi = min(hi, -(-extent // block))
        if hi <= lo:
            return
        if axis not in group.split:
            options.append([{axis: (lo * block, min(hi * block, extent) - lo * block)}])
            continue
        # For example, 10 threads in blocks of 4 along a split axis: threads 0 to 3 of blocks 0 and
        # 1, and threads 0 to 1 of block 2.
        full = min(hi, extent // block)
        thread, index = f"threadIdx.{axis}", f"blockIdx.{axis}"
        choices: list[dict[Name, tuple[int, int]]] = []
        if full > lo:
            choices.append({thread: (0, block), index: (lo, full - lo)})
        if hi > full:
            choices.append({thread: (0, extent - full * block), index: (full, 1)})
        options.append(choices)
    for choice in product(*options):
        symbols = {symbol: span for part in choice for symbol, span in part.items()}
        if _narrow_to_ranges(symbols, group):
            yield symbols


def _narrow_to_ranges(symbols: dict[Name, tuple[int, int]], group: AccessGroup) -> bool:
    """Intersect (start, count) with the group's ranges, add loop counters; True if anything is
    left."""
    for symbol, (first, last) in group.ranges:
        start, count = symbols.get(symbol, (first, last - first + 1))
        low, high = max(start, first), min(start + count - 1, last)
        if high < low:
            return False
        symbols[symbol] = (low, high - low + 1)
    return True


def _pattern(group: AccessGroup, symbols: dict[Name, tuple[int, int]]) -> Pattern | None:
    """Return the bytes that the group touches for these symbol ranges, or None for no bytes."""
    coefficients = group.coefficients
    enumerated = {name for tied in group.tied for name in tied.names}
    free = [(c, symbols[s]) for s, c in coefficients.items() if s not in enumerated]
    steps: list[tuple[int, int | IntArray]] = [(c, count) for c, (_, count) in free]
    item = group.item_bytes
    for values, left_out in _enumerate_tied(group, symbols):
        if not len(values):
            return None
        steps.append((int(np.diff(values).min()) if len(values) > 1 else 0, values))
        item += left_out
    steps.sort(key=lambda step: abs(step[0]))
    return Pattern(group.offsets, sum(c * start for c, (start, _) in free), item, steps)


def _enumerate_tied(
    group: AccessGroup, symbols: dict[Name, tuple[int, int]]
) -> Iterator[tuple[IntArray, int]]:
    """Yield, per set of tied coordinates, the ascending values of the address part that depends on
    them.

    In large sets some values are left out. The second item is the number of bytes that each
    remaining value has to cover in addition, if the values left out follow without a gap.
    """
    for tied in group.tied:
        left_out = 0
        axes = {s: range(symbols[s][0], sum(symbols[s])) for s in tied.names}
        # For example, i moves the address by 4 bytes per value and items have 4 bytes. Without
        # every second value of i, each item of 4 bytes has to cover 8: ``left_out`` is 4.
        while prod(map(len, axes.values())) > _MAX_ENUMERATED:
            finest = min(
                (name for name in tied.names if len(axes[name]) > 1),
                key=lambda name: (_step_of_second(tied, axes, name), -len(axes[name]), str(name)),
            )
            step = _step_of_second(tied, axes, finest) // 2
            left_out += step if step <= group.item_bytes + left_out else 0
            axes[finest] = axes[finest][::2]
        key = tuple((symbols[s], len(axes[s])) for s in tied.names)
        values = tied.known.get(key)
        if values is None:
            values = _tied_values(tied, [axes[s] for s in tied.names])
            if tied.same_in_blocks or len(values) <= _MOST_KEPT:
                tied.known[key] = values
        yield values, left_out


def points_of_a_block(group: AccessGroup, launch: Launch) -> int:
    """Count the values of tied coordinates that are enumerated for one block."""
    counts: dict[Name, int] = {s: last - first + 1 for s, (first, last) in group.ranges}
    for axis, block in zip(AXES, launch.block, strict=True):
        counts |= {axis: block, f"threadIdx.{axis}": block, f"blockIdx.{axis}": 1}
    sets = (prod(counts.get(name, 1) for name in tied.names) for tied in group.tied)
    return sum(min(points, _MAX_ENUMERATED) for points in sets)


def _step_of_second(tied: CoupledCoordinates, axes: Mapping[Name, range], name: Name) -> int:
    """Return the bytes between the first and third value of a coordinate, others at their first
    value."""
    ends = [axes[s][:3:2] if s == name else axes[s][:1] for s in tied.names]
    address = tied.forms(dict(zip(tied.names, _cross(ends), strict=True)))[0]
    return int(np.ptp(address))


def _cross(axes: Sequence[range]) -> tuple[IntArray, ...]:
    """Return arrays with one non-trivial axis each, which broadcast to the product of all axes."""
    return np.ix_(*(np.arange(a.start, a.stop, a.step, dtype=np.int64) for a in axes))


def _tied_values(tied: CoupledCoordinates, axes: Sequence[range]) -> IntArray:
    values = dict(zip(tied.names, _cross(axes), strict=True))
    shape = tuple(map(len, axes))
    address, *conditions = tied.forms(values)
    addresses = np.broadcast_to(address, shape)
    if conditions:
        holds = np.logical_and.reduce(np.broadcast_arrays(*(c != 0 for c in conditions)))
        addresses = addresses[np.broadcast_to(holds, shape)]
    return distinct(addresses)


def field_runs(
    groups: Sequence[AccessGroup], boxes: Sequence[BlockBox], launch: Launch, granularity: int
) -> Runs:
    """Return the bytes of a field that the groups touch from ``boxes``.

    The result is exact at multiples of ``granularity``.
    """
    return _unite(groups, boxes, launch, granularity, in_granules=False)


def granules(
    groups: Sequence[AccessGroup], boxes: Sequence[BlockBox], launch: Launch, granularity: int
) -> Runs:
    """Return the granules of a field that the groups touch from ``boxes``."""
    return _unite(groups, boxes, launch, granularity, in_granules=True)


def _unite(
    groups: Sequence[AccessGroup],
    boxes: Sequence[BlockBox],
    launch: Launch,
    granularity: int,
    in_granules: bool,
) -> Runs:
    patterns = [
        pattern
        for group in groups
        for box in boxes
        for symbols in _symbol_boxes(group, box, launch)
        if (pattern := _pattern(group, symbols))
    ]
    try:
        return unite(patterns, granularity, _MAX_RUNS, in_granules)
    except TooManyRuns as many:
        raise LaunchError(
            f"one footprint in {groups[0].field!r} has {many.runs} separate pieces, more than "
            f"the {_MAX_RUNS} that can be counted; is an argument or a trip count wrong?"
        ) from None


def reach(groups: Sequence[AccessGroup]) -> tuple[int, int, int]:
    """Return the largest distance, in threads per axis, of two threads that touch the same element.

    The differences of the offsets are written in the lattice of the strides, longest stride first,
    with each digit rounded to nearest. For a stencil the results are its extents.
    """
    result = [0, 0, 0]
    for group in groups:
        strides = sorted(
            ((abs(c), i) for i, axis in enumerate(AXES) for c in [_stride(group, axis)] if c),
            reverse=True,
        )
        rest = group.offsets - group.offsets.min() if len(group.offsets) else group.offsets
        rest = rest - rest[len(rest) // 2]
        # For example, loads of ``a[y, x - 1]``, ``a[y, x + 1]`` and ``a[y + 1, x]`` in rows of 100
        # items of 4 bytes have strides 400 and 4, and the offsets -4, 4 and 400. Relative to the
        # second, the digits (y, x) are (0, -2), (0, 0) and (1, -1), so the reach is 1 thread along
        # y and 2 along x.
        for stride, i in strides:
            digits = (2 * rest + stride) // (2 * stride)
            rest = rest - digits * stride
            result[i] = max(result[i], int(digits.max() - digits.min()))
    return (result[0], result[1], result[2])


def _stride(group: AccessGroup, axis: str) -> int:
    coefficients = group.coefficients
    return coefficients.get(axis, coefficients.get(f"threadIdx.{axis}", 0))


def block_steps(group: AccessGroup, launch: Launch) -> tuple[int, ...]:
    """Return the bytes from a block to the next one along each axis, for affine groups."""
    coefficients = group.coefficients
    return tuple(
        coefficients.get(axis, 0) * launch.block[i] + coefficients.get(f"blockIdx.{axis}", 0)
        for i, axis in enumerate(AXES)
    )


def period(groups: Sequence[AccessGroup], axis: int, block: int, modulus: int) -> int:
    """Return the blocks along ``axis`` after which addresses repeat modulo ``modulus``."""
    result = 1
    for group in groups:
        form = Affine(0, group.terms)
        result = lcm(result, _form_period(form, AXES[axis], block, modulus))
    return result


def _form_period(form: Affine, axis: str, block: int, modulus: int) -> int:
    result, step = 1, 0
    coordinates = {axis, f"threadIdx.{axis}", f"blockIdx.{axis}"}
    for symbol, coefficient in form.terms:
        if isinstance(symbol, AffineCall):
            continue
        if isinstance(symbol, Quotient):
            if not coordinates.isdisjoint(symbol.dividend.symbols()):
                scale = symbol.divisor * (modulus // gcd(modulus, coefficient))
                result = lcm(result, _form_period(symbol.dividend, axis, block, scale))
        elif symbol == axis:
            step += coefficient * block
        elif symbol == f"blockIdx.{axis}":
            step += coefficient
    # For example, blocks of 24 threads with items of 4 bytes move addresses by 96 bytes. Modulo 128
    # they repeat after 128 / gcd(128, 96) = 128 / 32 = 4 blocks, 384 bytes.
    return lcm(result, modulus // gcd(modulus, step) if step else 1)


def box_volume(
    groups: Sequence[AccessGroup], counts: tuple[int, int, int], launch: Launch, granularity: int
) -> float:
    """Return the bytes touched by a box of ``counts`` blocks at the grid's origin, of any size.

    Beyond the reach of the accesses the number of granules is a quasi-polynomial in each extent: it
    grows by the same amount with each period. Long axes are therefore evaluated at two short
    lengths of the same phase, and the result is extended linearly. The extension is exact, and its
    cost does not depend on the grid.
    """
    if not groups:
        return 0.0
    weights: list[list[tuple[int, float]]] = []
    reaches = reach(groups)
    for i, count in enumerate(counts):
        step = period(groups, i, launch.block[i], granularity)
        low = reaches[i] // launch.block[i] + 2
        low += (count - low) % step
        if count <= low + step or _is_absorbed(groups, AXES[i], granularity):
            weights.append([(count, 1.0)])
        else:
            # For example, 1,000 blocks with a period of 1 and low = 2: the box of 2 blocks touches
            # 320 bytes and the box of 3 touches 448. 1,000 blocks touch 320 · (1 - 998) + 448 · 998
            # = 128,064 bytes.
            slope = (count - low) / step
            weights.append([(low, 1.0 - slope), (low + step, slope)])
    total = 0.0
    for corner in product(*weights):
        box: BlockBox = tuple((0, n) for n, _ in corner)  # type: ignore[assignment]
        touched = granules(groups, [box], launch, granularity)
        weight = corner[0][1] * corner[1][1] * corner[2][1]
        total += weight * int((touched.ends - touched.starts).sum())
    return total * granularity


def _is_absorbed(groups: Sequence[AccessGroup], axis: str, granularity: int) -> bool:
    """Return True if the axis only lengthens runs: its extent does not change the cost."""
    return all(
        axis not in g.split
        and not g.tied
        and not g.ranges
        and abs(g.coefficients.get(axis, 0)) < granularity + g.item_bytes
        for g in groups
    )
