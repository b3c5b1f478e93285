"""Sets of bytes as sorted, disjoint runs ``[start, end)``, and how many granules they touch.

A *granule* is a sector, line or page of ``granularity`` bytes. Two runs whose gap is shorter
than a granule touch the same granules as their union does: a granule cannot lie inside the gap.
So for counting at one granularity (or a multiple of it) such runs are merged, and a dimension whose
stride leaves such gaps is absorbed into longer runs instead of being enumerated. With granularity 1
that is plain union of intervals, exact to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfassert.engines.volume.compiled import Packing, available, core

_DENSE = 16  # places for each value: as many are looked through in the time that it is sorted in

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
    """Union of any runs; gaps shorter than ``granularity`` are closed.

    Starts and ends may be sorted apart from each other: nothing is covered between the i-th end
    and the (i + 1)-th start exactly when i runs have begun and i have ended.
    """
    # the stable sort takes what is sorted piece by piece, as parts and repetitions are, as pieces
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
    """Union of several sets."""
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
    """Whether repeating the runs that far apart makes them longer instead of more."""
    return abs(stride) - int((runs.ends - runs.starts).min()) < granularity


def repeat_runs(runs: Runs, stride: int, count: int, granularity: int) -> Runs:
    """The union of ``runs`` shifted by ``0, stride, …, (count − 1) · stride``."""
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
    """The union of ``runs`` shifted by each of ``shifts``."""
    starts = shifts[:, None] + runs.starts
    return merge_runs(starts.ravel(), (shifts[:, None] + runs.ends).ravel(), granularity)


def distinct(values: IntArray) -> IntArray:
    """The values that occur, ascending; those that lie densely are marked, not sorted."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if high - low < _DENSE * values.size:
        marks = np.zeros(high - low + 1, dtype=bool)
        marks[values - low] = True
        return np.flatnonzero(marks) + low
    # the stable sort takes what is sorted piece by piece as pieces
    ordered = np.sort(values, axis=None, kind="stable")
    first = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


@dataclass(frozen=True, eq=False, slots=True)
class Pattern:
    """A set of bytes before it is written out: ``bytes`` of them from each of the ``places`` on,
    all shifted by ``origin``, and repeated step by step.

    ``steps``: a stride and how often, or the least distance of shifts and all the shifts,
    ascending; the shortest stride first, so that runs become long before they become many.
    """

    places: IntArray
    origin: int
    bytes: int
    steps: Sequence[tuple[int, int | IntArray]]


class TooManyRuns(Exception):
    """``runs``: how many there would be."""

    def __init__(self, runs: int) -> None:
        super().__init__(runs)
        self.runs = runs


def unite(
    patterns: Sequence[Pattern], granularity: int, most: int, in_granules: bool = False
) -> Runs:
    """Union of patterns; gaps shorter than ``granularity`` are closed. ``in_granules``: as
    :func:`to_granules` has it.

    Raises :class:`TooManyRuns` where more than ``most`` would have to be told apart.
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
    """The granules touched, as runs of granule numbers."""
    return _close_gaps(runs.starts // granularity, -(-runs.ends // granularity), 1)


def inner_granules(runs: Runs, granularity: int) -> int:
    """How many granules lie wholly inside (exact runs, made with granularity 1)."""
    whole = runs.ends // granularity - -(-runs.starts // granularity)
    return int(np.maximum(whole, 0).sum())


def size(runs: Runs) -> int:
    """Sum of the lengths."""
    return int((runs.ends - runs.starts).sum())


def common(a: Runs, b: Runs) -> int:
    """Size of the intersection of two sets with disjoint runs each."""
    if not len(a) or not len(b):
        return 0
    return size(a) + size(b) - size(union((a, b), 1))
