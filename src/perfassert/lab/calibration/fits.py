"""Fits of measured curves: numbers of a device file, or a reason. The functions are pure.

Every fit withstands noise of a few percent and single outliers: levels are medians, and a sample is
excluded if it is far from the others of its point (:data:`_FAR` times the median distance).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MIN_WARPS = 4  # different warp counts of a hull
MAX_RESIDUAL = 0.15  # mean, of a curve that still counts as a hull
_ABOVE = 1.15  # the last point of a saturated hull lies this far beyond the corner
_FAR = 5.0  # median distances
_FLOOR = 0.005  # half a percent off is no outlier
_ROUNDS = 12
_CORNER = 1.5  # points nearer to the corner than this factor count only where they are all there is
_PLATEAU = 0.06  # half width of a plateau
_MERGED = 0.10  # neighbouring plateaus that differ by less are one
_LEAST = 3  # points of a plateau
_SATURATED = 0.05  # the last points of a saturated curve are this near to each other


class Unfit(Exception):
    """Error for a curve that does not show the wanted number; the message is the reason.

    ``issue`` and ``completion`` hold the values that the curve shows all the same.
    """

    def __init__(
        self, reason: str, issue: FittedValue | None = None, completion: FittedValue | None = None
    ) -> None:
        super().__init__(reason)
        self.issue = issue
        self.completion = completion


@dataclass(frozen=True, slots=True)
class FittedValue:
    """Number with its spread: the mean relative distance of the measurements from it."""

    value: float
    spread: float = 0.0

    def note(self) -> str:
        return f"± {100 * self.spread:.2g} %"


@dataclass(frozen=True, slots=True)
class Hull:
    """λ and Λ in cycles; ``residual``: mean relative distance of the measurements."""

    issue: float
    completion: float
    residual: float


@dataclass(frozen=True, slots=True)
class Level:
    """A plateau: its latency in cycles, its spread, its first and last size in bytes."""

    latency: float
    spread: float
    first: float
    last: float


def median(samples: Sequence[float]) -> FittedValue:
    """Return the median, and the median relative distance from it."""
    values = _as_positive_array(samples)
    middle = float(np.median(values))
    return FittedValue(middle, float(np.median(np.abs(values / middle - 1))))


def equation_1(warps: Floats, length: float, issue: float, completion: float) -> Floats:
    """Return the cycles of W warps of N dependent instructions, Cornelis and Lemeire §III.A."""
    # N = 100, λ = 2, Λ = 8: 1, 4 and 8 warps take 800, 806 and 1606 cycles.
    # Up to the corner at Λ / λ = 4 warps, further warps are almost free.
    below = length * completion + (warps - 1) * issue
    above = completion + (length * warps - 1) * issue
    return np.maximum(below, above)


def fit_hull(warps: Sequence[float], cycles: Sequence[float], length: float) -> Hull:
    """Return λ and Λ of equation (1), fitted to cycles over the warps of one pipeline.

    A warp count may occur several times. ``length`` is the N of each warp. Raises :class:`Unfit`
    for too few points, for invalid times, and for curves that do not show both arms.
    """
    w, t = _as_positive_array(warps), _as_positive_array(cycles)
    if w.size != t.size:
        raise Unfit(f"{w.size} warp counts for {t.size} times")
    counts = np.unique(w)
    if counts.size < MIN_WARPS:
        raise Unfit(f"too few points: {counts.size} warp counts, {MIN_WARPS} are needed")
    middle = np.array([np.median(t[w == count]) for count in counts]) / length
    few = median(list(t[w == counts[0]] / length))
    if middle[-1] < 0.9 * middle[0]:
        raise Unfit("time falls with more warps: no hull")
    _check_arms(counts, middle, few)
    issue, completion = _start(counts, middle)
    kept = _is_typical(w, t, counts)
    w, t = w[kept], t[kept]
    for _ in range(_ROUNDS):
        used = _on_arms(w, counts, completion / issue)
        issue, completion = _step(w[used], t[used], length, issue, completion)
    residual = float(np.abs(np.log(t / equation_1(w, length, issue, completion))).mean())
    if residual > MAX_RESIDUAL:
        raise Unfit(f"no hull: the mean residual is {100 * residual:.0f} %")
    if completion / issue * _ABOVE > counts[-1]:
        raise _saturation_error(counts, few)
    return Hull(issue, completion, residual)


def _is_typical(w: Floats, t: Floats, counts: Floats) -> NDArray[np.bool_]:
    """Return a mask that excludes outliers: True near the median time of the same warp count."""
    middle = {count: np.median(t[w == count]) for count in counts}
    off = np.abs(np.log(t / np.array([middle[count] for count in w])))
    return np.asarray(off <= max(_FLOOR, _FAR * float(np.median(off))))


def _on_arms(w: Floats, counts: Floats, corner: float) -> NDArray[np.bool_]:
    """Return a mask of points away from the corner, which real pipelines round off.

    The first and the last warp count are always included.
    """
    away = np.abs(np.log(w / corner)) > np.log(_CORNER)
    return np.asarray(away | (w == counts[0]) | (w == counts[-1]))


def _check_arms(counts: Floats, middle: Floats, few: FittedValue) -> None:
    """Check that both arms show: time rises at the end, but not in proportion from the start."""
    if middle[-1] < middle[0] * _ABOVE:
        raise _saturation_error(counts, few)
    per_warp = middle / counts
    if per_warp[0] < per_warp[-1] * 1.1:
        reason = "saturated from the first warp on: Λ is hidden behind λ, and no larger"
        raise Unfit(reason, issue=median(list(per_warp)))


def _saturation_error(counts: Floats, few: FittedValue) -> Unfit:
    reason = f"does not saturate: throughput still rises at {counts[-1]:g} warps"
    return Unfit(reason, completion=few)


def _start(counts: Floats, middle: Floats) -> tuple[float, float]:
    """Return λ and Λ at the split with the least absolute residuals; each arm is a median."""
    best = (float("inf"), 0.0, 0.0)
    for split in range(1, counts.size):
        completion = float(np.median(middle[:split]))
        issue = float(np.median(middle[split:] / counts[split:]))
        model = np.maximum(completion, counts * issue)
        best = min(best, (float(np.abs(np.log(middle / model)).sum()), issue, completion))
    return best[1], best[2]


def _step(
    w: Floats, t: Floats, length: float, issue: float, completion: float
) -> tuple[float, float]:
    """Return the next λ and Λ by least relative squares; each arm is linear in both.

    A point belongs to the arm on which the present λ and Λ put it.
    """
    low = w * issue < completion
    if low.all() or not low.any():
        return issue, completion
    of_completion = np.where(low, length, 1.0)
    of_issue = np.where(low, w - 1, length * w - 1)
    matrix = np.stack([of_completion / t, of_issue / t], axis=1)
    solved = np.linalg.lstsq(matrix, np.ones(t.shape), rcond=None)[0]
    if (solved <= 0).any():
        return issue, completion
    return float(solved[1]), float(solved[0])


def fit_line(x: Sequence[float], y: Sequence[float]) -> tuple[FittedValue, FittedValue]:
    """Return a line's slope and its value at the least ``x`` (Theil, Sen).

    The spread is relative to ``y``.
    """
    xs, ys = _as_positive_array(x), np.asarray(y, dtype=float)
    if np.unique(xs).size < _LEAST:
        raise Unfit(f"too few points: {np.unique(xs).size} for a line, {_LEAST} are needed")
    i, j = np.triu_indices(xs.size, 1)
    apart = xs[i] != xs[j]
    slope = float(np.median((ys[j] - ys[i])[apart] / (xs[j] - xs[i])[apart]))
    first = float(np.median(ys - slope * (xs - xs.min())))
    off = float(np.mean(np.abs(ys / (first + slope * (xs - xs.min())) - 1)))
    if not (slope > 0 and first > 0):
        raise Unfit(f"does not rise: slope {slope:.3g}, at first {first:.3g}")
    return FittedValue(slope, off), FittedValue(first, off)


def fit_levels(sizes: Sequence[float], cycles: Sequence[float]) -> list[Level]:
    """Return plateaus of latency over the size of the chased buffer, smallest first.

    Transitions belong to no level. Raises :class:`Unfit` if there is no plateau, or if latency
    falls.
    """
    order = np.argsort(_as_positive_array(sizes), kind="stable")
    s, t = _as_positive_array(sizes)[order], _as_positive_array(cycles)[order]
    if s.size < _LEAST:
        raise Unfit(f"too few points: {s.size}, {_LEAST} are needed")
    smooth = t.copy()
    smooth[1:-1] = np.median(np.stack([t[:-2], t[1:-1], t[2:]]), axis=0)
    plateaus = _plateaus(smooth, 0, s.size)
    levels: list[Level] = []
    for start, end in plateaus:
        latency = float(np.median(t[start:end]))
        spread = float(np.median(np.abs(t[start:end] / latency - 1)))
        if levels and abs(latency / levels[-1].latency - 1) < _MERGED:
            last = levels[-1]
            levels[-1] = Level(
                last.latency, max(last.spread, spread), last.first, float(s[end - 1])
            )
        else:
            levels.append(Level(latency, spread, float(s[start]), float(s[end - 1])))
    if not levels:
        raise Unfit("no plateau: latency changes from size to size")
    for before, after in pairwise(levels):
        if after.latency < before.latency:
            raise Unfit(f"latency falls from {before.latency:.4g} to {after.latency:.4g} cycles")
    return levels


def _plateaus(t: Floats, first: int, last: int) -> list[tuple[int, int]]:
    """Return the longest run that stays near its own median, and those on both sides of it."""
    runs = [(start, _reach(t, start, last)) for start in range(first, last)]
    start, end = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
    if end - start < _LEAST:
        return []
    return [*_plateaus(t, first, start), (start, end), *_plateaus(t, end, last)]


def _reach(t: Floats, start: int, last: int) -> int:
    """Return the end of the longest run from ``start``."""
    end = start + 1
    while end < last:
        window = t[start : end + 1]
        if np.abs(window / np.median(window) - 1).max() > _PLATEAU:
            break
        end += 1
    return end


def fit_saturation(load: Sequence[float], rate: Sequence[float]) -> FittedValue:
    """Return the rate at which a curve levels off; :class:`Unfit` if it rises at the end."""
    x, y = _as_positive_array(load), _as_positive_array(rate)
    counts = np.unique(x)
    if counts.size < _LEAST:
        raise Unfit(f"too few points: {counts.size} loads, {_LEAST} are needed")
    middle = np.array([np.median(y[x == count]) for count in counts])
    top = float(middle.max())
    flat = middle >= top * (1 - _SATURATED)
    if flat.sum() < 2:
        raise Unfit(f"does not saturate: only one load reaches {top:.4g}")
    if flat[-1] and not flat[-2]:
        raise Unfit("does not saturate: the rate still rises at the end")
    return median([v for v, load in zip(y, x, strict=True) if flat[counts == load][0]])


def fit_steps(distances: Sequence[float], cycles: Sequence[float]) -> list[Level]:
    """Return the levels of a curve without transitions: neighbours within a tenth are one."""
    d, t = _as_positive_array(distances), _as_positive_array(cycles)
    if d.size != t.size:
        raise Unfit(f"{d.size} distances for {t.size} times")
    levels: list[Level] = []
    for distance in map(float, np.unique(d)):
        here = median(list(t[d == distance]))
        last = levels[-1] if levels else None
        if last and abs(here.value / last.latency - 1) < _MERGED:
            levels[-1] = Level(last.latency, max(last.spread, here.spread), last.first, distance)
        else:
            levels.append(Level(here.value, here.spread, distance, distance))
    return levels


def _as_positive_array(values: Sequence[float] | Floats) -> Floats:
    numbers = np.asarray(values, dtype=float)
    if not numbers.size:
        raise Unfit("too few points: none")
    if not np.isfinite(numbers).all() or (numbers <= 0).any():
        bad = numbers[~(np.isfinite(numbers) & (numbers > 0))][0]
        raise Unfit(f"{bad:g} is no measurement: it must be finite and above 0")
    return numbers
