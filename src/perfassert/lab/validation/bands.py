"""``devices/fits/model-error.toml``: how wrong each kind of prediction was measured to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import Vector, percentage_errors
from perfassert.predictor.errors import GUESSED, RANKING, WITH_ERROR_BAND, PredictionKind
from perfassert.quantity import round_significant

Mask = npt.NDArray[np.bool_]
_LEAST = 8
"""Fewer points say nothing about a 90th percentile."""
_FACTS = ("registers",)
"""Of the code that is predicted; where a measurement differs it is of other code."""
_PERCENTILE = 0.9
_RIGHT = 0.9
"""So many pairs must be in the measured order for their distance to count as told apart."""
_STEPS = np.array([0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0])
_HEADER = """\
# Known error of each metric by kind of prediction: a share of the measured value, 90th percentile.
# `way`: the kernel was described by hand, compiled, or what it does is guessed; `rows`: measured
# points; `fitted`: values of the model have seen them, because too few others are there. `ranking`:
# two launches of one kernel whose predicted times lie further apart are in the measured order in
# nine cases of ten.
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


def bands(validations: Sequence[Validation]) -> tuple[Band, ...]:
    """The bands of some suites, in a fixed order; guesses are a kind of their own."""
    unsorted = [band for validation in validations for band in _bands(validation)]

    def place(band: Band) -> tuple[int, str, str, str, str]:
        kind = band.kind
        return WITH_ERROR_BAND.index(band.metric), kind.arch, kind.way, kind.limiter, band.suite

    return tuple(sorted(unsorted, key=place))


def bands_text(entries: Sequence[Band], model_version: str) -> str:
    """The table as TOML."""
    parts = [_HEADER.format(version=model_version)]
    for b in entries:
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
        )
    return "".join(parts)


def _bands(validation: Validation) -> Iterator[Band]:
    suite = validation.suite.path.stem
    for result in validation.metrics:
        if result.spec.name not in WITH_ERROR_BAND or result.spec.name in _FACTS:
            continue
        errors = percentage_errors(result.measured, result.predicted)
        for kind in dict.fromkeys(k or GUESSED for k in result.kinds):
            mine, fitted = _points(result, kind)
            if mine.sum() < _LEAST:
                continue
            error = round_significant(float(np.quantile(errors[mine], _PERCENTILE)), 2)
            yield Band(result.spec.name, kind, error, int(mine.sum()), suite, fitted)
            if result.spec.name == "time" and kind != GUESSED:
                yield from _ranking(result, kind, mine, suite, fitted)


def _points(result: MetricResult, kind: PredictionKind) -> tuple[Mask, bool]:
    """Those of a kind that nothing was fitted on; if they are too few, all, which were."""
    mine = np.array([(k or GUESSED) == kind for k in result.kinds])
    unseen = mine & ~np.array(result.fitted)
    return (unseen, False) if unseen.sum() >= _LEAST else (mine, True)


def _ranking(
    result: MetricResult, kind: PredictionKind, mine: Mask, suite: str, fitted: bool
) -> Iterator[Band]:
    """The smallest step from which on predicted distances are in the measured order."""
    apart, right = _pairs(result, mine)
    if len(apart) < _LEAST:
        return
    share = _STEPS[-1]
    for low, high in reversed(list(pairwise(_STEPS))):
        there = (apart >= low) & (apart < high)
        if there.any() and right[there].mean() < _RIGHT:
            break
        share = low
    yield Band(RANKING, kind, float(share), len(apart), suite, fitted)


def _pairs(result: MetricResult, mine: Mask) -> tuple[Vector, Vector]:
    """Of pairs of launches of one kernel: how far predicted apart, and whether truly in order."""
    apart, right = [], []
    for i, j in combinations(np.flatnonzero(mine), 2):
        if result.groups[i] == result.groups[j]:
            predicted = result.predicted[i] / result.predicted[j]
            apart.append(max(predicted, 1 / predicted) - 1)
            right.append((result.measured[i] - result.measured[j]) * (predicted - 1) >= 0)
    return np.array(apart, dtype=np.float64), np.array(right, dtype=np.float64)
