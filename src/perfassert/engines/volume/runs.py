"""Sets of bytes as sorted, disjoint runs ``[start, end)``, and the granules that they touch.

A *granule* is a sector, line or page of ``granularity`` bytes. Two runs whose gap is shorter than a
granule touch the same granules as the run that covers both, since no granule lies inside the gap.
Such runs are merged, which is exact for counts at this granularity or a multiple of it. A dimension
whose stride leaves such gaps is absorbed into longer runs instead of being enumerated. With
granularity 1 the result is the plain union of intervals, exact to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfassert.engines.volume.compiled import Packing, available, core

_DENSE = 16  # marks that are scanned in the time that sorting takes per value

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """Sorted, disjoint runs of bytes; ``starts`` and ``ends`` have shape (n,)."""

    starts: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.starts)


EMPTY = Runs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def merge_runs(starts: IntArray, ends: IntArray, granularity: int) -> Runs:
    """Return the union of any runs; gaps shorter than ``granularity`` are closed.

    Starts and ends may be sorted separately: the bytes between the i-th end and the (i + 1)-th
    start are uncovered exactly if i runs have begun and i have ended.
    """
    # For example, [0, 8), [4, 12) and [20, 24) have the starts 0, 4, 20 and the ends 8, 12, 24. The
    # gap from 8 to 4 is negative, the one from 12 to 20 has 8 bytes. With granularity 1 the union
    # is [0, 12) and [20, 24).
    # The stable sort is fast here: parts and repetitions are sorted sequences already.
    return _close_gaps(np.sort(starts, kind="stable"), np.sort(ends, kind="stable"), granularity)


def _close_gaps(starts: IntArray, ends: IntArray, granularity: int) -> Runs:
    """Close gaps of runs whose starts and ends ascend; see :func:`merge_runs`."""
    if len(starts) < 2:
        return Runs(starts, ends)
    gaps = np.flatnonzero(starts[1:] - ends[:-1] >= granularity)
    if len(gaps) == len(starts) - 1:
        return Runs(starts, ends)
    heads = np.empty(len(gaps) + 1, dtype=np.int64)
    tails = np.empty(len(gaps) + 1, dtype=np.int64)
    heads[0], tails[-1] = 0, len(starts) - 1
    heads[1:], tails[:-1] = gaps + 1, gaps
    return Runs(starts[heads], ends[tails])


def union(parts: Sequence[Runs], granularity: int) -> Runs:
    """Return the union of several sets of runs."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return EMPTY
    return merge_runs(
        np.concatenate([p.starts for p in parts]),
        np.concatenate([p.ends for p in parts]),
        granularity,
    )


def absorbs(runs: Runs, stride: int, granularity: int) -> bool:
    """Return True if repeating the runs with this stride makes longer runs instead of more runs."""
    return abs(stride) - int((runs.ends - runs.starts).min()) < granularity


def repeat_runs(runs: Runs, stride: int, count: int, granularity: int) -> Runs:
    """Return the union of ``runs`` shifted by ``0, stride, …, (count − 1) · stride``."""
    if count == 1 or stride == 0 or not len(runs):
        return runs
    starts, ends = runs.starts, runs.ends
    if stride < 0:
        shift = stride * (count - 1)
        starts, ends, stride = starts + shift, ends + shift, -stride
    if absorbs(runs, stride, granularity):
        return _close_gaps(starts, ends + stride * (count - 1), granularity)
    shifts = stride * np.arange(count, dtype=np.int64)[:, None]
    apart = stride >= granularity + int(ends[-1] - starts[0])
    starts, ends = (starts + shifts).ravel(), (ends + shifts).ravel()
    return Runs(starts, ends) if apart else merge_runs(starts, ends, granularity)


def spread(runs: Runs, shifts: IntArray, granularity: int) -> Runs:
    """Return the union of ``runs`` shifted by each of ``shifts``."""
    starts = shifts[:, None] + runs.starts
    return merge_runs(starts.ravel(), (shifts[:, None] + runs.ends).ravel(), granularity)


def distinct(values: IntArray) -> IntArray:
    """Return the distinct values in ascending order; dense values are marked instead of sorted."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if high - low < _DENSE * values.size:
        marks = np.zeros(high - low + 1, dtype=bool)
        marks[values - low] = True
        return np.flatnonzero(marks) + low
    # The stable sort merges sequences that are sorted already.
    ordered = np.sort(values, axis=None, kind="stable")
    first = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


@dataclass(frozen=True, eq=False, slots=True)
class Pattern:
    """A set of bytes before it is enumerated.

    ``bytes`` bytes from each of the ``places`` on are shifted by ``origin`` and repeated by each of
    ``steps``. A step is a stride and a count, or the least distance of shifts and all the shifts in
    ascending order. The shortest stride comes first, so that runs become long before they become
    many.
    """

    places: IntArray
    origin: int
    bytes: int
    steps: Sequence[tuple[int, int | IntArray]]


class TooManyRuns(Exception):
    """Raised if a set has too many runs; ``runs`` is their number."""

    def __init__(self, runs: int) -> None:
        super().__init__(runs)
        self.runs = runs


def unite(
    patterns: Sequence[Pattern], granularity: int, most: int, in_granules: bool = False
) -> Runs:
    """Return the union of patterns; gaps shorter than ``granularity`` are closed.

    ``in_granules``: return granules, as :func:`to_granules` does. Raises :class:`TooManyRuns` if
    more than ``most`` runs would have to be distinguished.
    """
    if available():
        return _unite_compiled(patterns, granularity, most, in_granules)
    united = _unite(patterns, granularity, most)
    return to_granules(united, granularity) if in_granules else united


def _unite_compiled(
    patterns: Sequence[Pattern], granularity: int, most: int, in_granules: bool
) -> Runs:
    packing = Packing(granularity, int(in_granules), most, len(patterns))
    for pattern in patterns:
        packing.add(pattern.origin, pattern.bytes)
        packing.add_array(pattern.places)
        packing.add(len(pattern.places), len(pattern.steps))
        for stride, times in pattern.steps:
            if isinstance(times, int):
                packing.add(stride, times, 0)
            else:
                packing.add(stride, len(times))
                packing.add_array(times)
    try:
        united = np.frombuffer(core().unite_runs(packing.bytes()), dtype=np.int64)
    except OverflowError as many:
        raise TooManyRuns(*many.args) from None
    return Runs(*united.reshape(2, -1))


def _unite(patterns: Sequence[Pattern], granularity: int, most: int) -> Runs:
    parts: list[Runs] = []
    for pattern in patterns:
        starts = pattern.places + pattern.origin
        runs = merge_runs(starts, starts + pattern.bytes, granularity)
        for stride, times in pattern.steps:
            if stride and len(runs) and not absorbs(runs, stride, granularity):
                pieces = len(runs) * (times if isinstance(times, int) else len(times))
                if pieces > most:
                    raise TooManyRuns(pieces)
            if isinstance(times, int):
                runs = repeat_runs(runs, stride, times, granularity)
            else:
                runs = spread(runs, times, granularity)
        parts.append(runs)
        if (pieces := sum(map(len, parts))) > most:
            raise TooManyRuns(pieces)
    return union(parts, granularity)


def shift_runs(runs: Runs, distance: int) -> Runs:
    """Shift runs by ``distance`` bytes."""
    return Runs(runs.starts + distance, runs.ends + distance)


def to_granules(runs: Runs, granularity: int) -> Runs:
    """Return the touched granules as runs of granule numbers."""
    # For example, bytes 40 to 99 touch sectors 1 to 3 of 32 bytes: the run [1, 4).
    return _close_gaps(runs.starts // granularity, -(-runs.ends // granularity), 1)


def inner_granules(runs: Runs, granularity: int) -> int:
    """Count the granules that lie wholly inside exact runs, which were made with granularity 1."""
    whole = runs.ends // granularity - -(-runs.starts // granularity)
    return int(np.maximum(whole, 0).sum())


def size(runs: Runs) -> int:
    """Return the sum of the lengths."""
    return int((runs.ends - runs.starts).sum())


def common(a: Runs, b: Runs) -> int:
    """Return the size of the intersection of two sets of disjoint runs."""
    if not len(a) or not len(b):
        return 0
    return size(a) + size(b) - size(union((a, b), 1))
