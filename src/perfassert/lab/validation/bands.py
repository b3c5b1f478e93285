"""``devices/fits/model-error.toml``: how wrong each kind of prediction was measured to be.

A band is calibrated as in split conformal prediction (Lei et al., *Distribution-free predictive
inference for regression*, 2018): of n errors that nothing was fitted on, the quantile at
0.9 · (n + 1) / n holds a further one with a probability of 90 % if it is drawn alike. Rows of one
suite are alike, those of another are not, so suites of eight and more rows weigh the same, and
:func:`coverage` asks how often the band of all other suites holds for the rows of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import Vector, percentage_errors
from perfassert.predictor.errors import (
    ANY,
    GUESSED,
    LIKE,
    RANKING,
    TRAITS,
    WITH_ERROR_BAND,
    PredictionKind,
    examples_of,
    nearest_error,
)
from perfassert.quantity import round_significant

Mask = npt.NDArray[np.bool_]
_LEAST = 8
"""Fewer points say nothing about a 90th percentile."""
_FACTS = ("registers",)
"""Of the code that is predicted; where a measurement differs it is of other code."""
_COVERED = 0.9
_RIGHT = 0.9
"""So many pairs must be in the measured order for their distance to count as told apart."""
_STEPS = np.array([0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0])
_HEADER = """\
# Known error of each metric by kind of prediction: a share of the measured value that nine of ten
# predictions stay below. `way`: the kernel was described by hand, compiled, or what it does is
# guessed; `rows`: measured points; `most`: the most that they have; `fitted`: values of the model
# have seen them, because too few others are there. `ranking`: two launches of one kernel whose
# predicted times lie further apart are in the measured order in nine cases of ten.
# Written by `perfassert validate SUITE… --bands FILE` with model version {version}.
"""


@dataclass(frozen=True, slots=True)
class Band:
    """One row of the table."""

    metric: str
    kind: PredictionKind
    error: float
    rows: int
    suite: str
    fitted: bool
    most: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Point:
    """A prediction of one metric, and how wrong it was."""

    suite: str
    kind: PredictionKind
    error: float
    fitted: bool
    traits: Mapping[str, float]


def bands(validations: Sequence[Validation]) -> tuple[Band, ...]:
    """The bands of some suites, in a fixed order; guesses are a kind of their own."""
    return tuple(band for name in WITH_ERROR_BAND for band in _of_metric(name, validations))


def coverage(
    validations: Sequence[Validation], metric: str = "time"
) -> dict[str, tuple[int, float]]:
    """Suite → rows that nothing was fitted on, and the share of them whose error stays within the
    band that all other suites give; guesses count with the band of guesses."""
    points = list(_points(metric, validations))
    result = {}
    for name in dict.fromkeys(point.suite for point in points):
        others = [point for point in points if point.suite != name]
        table = {band.kind: band.error for band in _calibrate(metric, others)}
        unseen = [point for point in points if point.suite == name and not point.fitted]
        inside = [point.error <= (nearest_error(point.kind, table) or 0.0) for point in unseen]
        if inside:
            result[name] = len(inside), sum(inside) / len(inside)
    return result


def bands_text(entries: Sequence[Band], model_version: str) -> str:
    """The table as TOML."""
    parts = [_HEADER.format(version=model_version)]
    for b in entries:
        most = ", ".join(f"{name} = {value}" for name, value in b.most.items())
        parts.append(
            f"""
[[band]]
metric = "{b.metric}"
arch = "{b.kind.arch}"
way = "{b.kind.way}"
limiter = "{b.kind.limiter}"
error = {b.error}
rows = {b.rows}
suite = "{b.suite}"
fitted = {str(b.fitted).lower()}
"""
            + (f"most = {{ {most} }}\n" if most else "")
        )
    return "".join(parts)


def _of_metric(metric: str, validations: Sequence[Validation]) -> Iterator[Band]:
    if metric == RANKING:
        yield from _rankings(validations)
    elif metric not in _FACTS and metric not in LIKE:
        yield from _calibrate(metric, list(_points(metric, validations)))


def _points(metric: str, validations: Sequence[Validation]) -> Iterator[_Point]:
    for validation, result in _results(metric, validations):
        errors = percentage_errors(result.measured, result.predicted)
        each = zip(result.kinds, errors, result.fitted, result.traits, strict=True)
        for kind, error, fitted, traits in each:
            name = validation.suite.path.stem
            yield _Point(name, kind or GUESSED, float(error), fitted, traits)


def _results(
    metric: str, validations: Sequence[Validation]
) -> Iterator[tuple[Validation, MetricResult]]:
    for validation in validations:
        yield from ((validation, r) for r in validation.metrics if r.spec.name == metric)


def _calibrate(metric: str, points: Sequence[_Point]) -> Iterator[Band]:
    for kind in _kinds([point.kind for point in points]):
        mine = [point for point in points if kind in examples_of(point.kind)]
        unseen = [point for point in mine if not point.fitted]
        fitted = len(unseen) < _LEAST
        chosen = mine if fitted else unseen
        if len(chosen) >= _LEAST:
            error = round_significant(_quantile(chosen), 2)
            suites = ", ".join(dict.fromkeys(point.suite for point in chosen))
            yield Band(
                metric, kind, error, len(chosen), suites, fitted, _most(metric, kind, chosen)
            )


def _kinds(measured: Sequence[PredictionKind]) -> list[PredictionKind]:
    """Those that were measured, and what they are examples of, in order."""
    every = {example for kind in measured for example in examples_of(kind)}
    return sorted(every, key=lambda kind: (kind.arch, kind.way, kind.limiter))


def _quantile(points: Sequence[_Point]) -> float:
    """The error that a share of :data:`_COVERED` stays below; each suite weighs the same, but less
    if it has few rows."""
    rows = Counter(point.suite for point in points)
    ordered = sorted(points, key=lambda point: point.error)
    weights = np.cumsum([min(1.0, _LEAST / rows[point.suite]) for point in ordered])
    shares = weights / weights[-1]
    level = min(1.0, _COVERED * (len(points) + 1) / len(points))
    place = int(np.searchsorted(shares, level - 1e-9))
    return ordered[min(place, len(ordered) - 1)].error


def _most(metric: str, kind: PredictionKind, points: Sequence[_Point]) -> dict[str, float]:
    """Of each trait that a time depends on, the most of any point; what stands for another kind has
    no limit."""
    if metric != "time" or kind.arch == ANY:
        return {}
    return {name: round_significant(max(p.traits[name] for p in points), 3) for name in TRAITS}


def _rankings(validations: Sequence[Validation]) -> Iterator[Band]:
    """Of each kind, the smallest step from which on predicted distances are in the measured
    order."""
    results = [(v.suite.path.stem, r) for v, r in _results("time", validations)]
    for kind in _kinds([kind for _, r in results for kind in r.kinds if kind is not None]):
        yield from _ranking(kind, results)


def _ranking(kind: PredictionKind, results: Sequence[tuple[str, MetricResult]]) -> Iterator[Band]:
    masks = [_masks(result, kind) for _, result in results]
    fitted = sum(unseen.sum() for _, unseen in masks) < _LEAST
    there = [
        (name, *_pairs(result, mine if fitted else unseen))
        for (name, result), (mine, unseen) in zip(results, masks, strict=True)
    ]
    names = ", ".join(dict.fromkeys(name for name, apart, _ in there if len(apart)))
    apart = np.concatenate([part[1] for part in there])
    right = np.concatenate([part[2] for part in there])
    if len(apart) < _LEAST:
        return
    share = _STEPS[-1]
    for low, high in reversed(list(pairwise(_STEPS))):
        here = (apart >= low) & (apart < high)
        if here.any() and right[here].mean() < _RIGHT:
            break
        share = low
    yield Band(RANKING, kind, float(share), len(apart), names, fitted)


def _masks(result: MetricResult, kind: PredictionKind) -> tuple[Mask, Mask]:
    """The points of a kind, and those of them that nothing was fitted on."""
    mine = np.array([k is not None and kind in examples_of(k) for k in result.kinds], dtype=bool)
    return mine, mine & ~np.array(result.fitted, dtype=bool)


def _pairs(result: MetricResult, mine: Mask) -> tuple[Vector, Vector]:
    """Of pairs of launches of one kernel: how far predicted apart, and whether truly in order."""
    apart, right = [], []
    for i, j in combinations(np.flatnonzero(mine), 2):
        if result.groups[i] == result.groups[j]:
            predicted = result.predicted[i] / result.predicted[j]
            apart.append(max(predicted, 1 / predicted) - 1)
            right.append((result.measured[i] - result.measured[j]) * (predicted - 1) >= 0)
    return np.array(apart, dtype=np.float64), np.array(right, dtype=np.float64)
