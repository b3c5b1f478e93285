"""Error bands: the error of each kind of prediction, calibrated on measurements.

The results are in ``devices/fits/model-error.toml``. A band is calibrated as in split conformal
prediction (Lei et al., *Distribution-free predictive inference for regression*, 2018). Take n
errors of rows that were not used for fitting, and their quantile at 0.9 · (n + 1) / n. A further
error from the same distribution is below this quantile with a probability of 90 %. For example, of
19 errors this is the quantile at 0.947, the 18th smallest.

Errors within a suite resemble each other, errors of different suites do not. This has two
consequences. Suites with eight or more rows have equal weights. And a band is too narrow for rows
of a new suite, so it is multiplied by a factor, which :func:`left_out_factors` computes by leaving
out one suite after the other. One factor is for kinds that the other suites have measured, another
one for kinds that they have not, for which the bands of similar kinds are used.

:func:`hold_out` tests bands and factors: it computes both without one suite or device, and applies
them to the rows of that suite or device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import percentage_errors
from perfassert.predictor.judge.errors import (
    ANY,
    GUESSED,
    LIKE,
    TRAITS,
    WITH_ERROR_BAND,
    KnownError,
    KnownErrors,
    PredictionKind,
    error_of_like,
    examples_of,
    find_band,
    nearest_error,
    widen,
)
from perfassert.quantity import round_significant

_LEAST = 8
"""Least number of points for a 90th percentile."""
_ENOUGH = 30
"""Least number of rows of left-out suites from which a factor is computed."""
_FACTS = ("registers",)
"""Metrics that are exact: if a measurement differs, other code was measured."""
_COVERED = 0.9  # fraction of the rows for which a band is meant to hold
_HEADER = """\
# Error of each metric by kind of prediction, relative to the measured value; nine of ten
# predictions stay below it. `way`: the kernel was described by hand or compiled, or the prediction
# was a guess. `rows`: number of measured rows. `most`: the largest value of each trait in these
# rows. `fitted`: the rows were used for fitting, because there are too few others. `left_out`:
# factor by which a band must be wider to hold for nine of ten rows of a suite that was left out.
# `measured`: the other suites had measured that kind.
# Written by `perfassert validate SUITE… --bands FILE` with model version {version}.
"""


@dataclass(frozen=True, slots=True)
class Band:
    """A row of the table of error bands: the error of one metric for one kind of prediction."""

    metric: str
    kind: PredictionKind
    error: float
    rows: int
    suite: str
    fitted: bool
    most: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Factor on the bands of all other suites, so that nine of ten rows of a left-out suite fit.

    ``measured``: True for kinds that the other suites had measured. ``rows``: number of rows from
    which the factor was computed.
    """

    metric: str
    measured: bool
    factor: float
    rows: int


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Result of testing a band on one row.

    ``group`` is the suite or device of the row. ``band`` was computed without the rows of the
    group. ``inside`` is True if the error of the row is within the band.
    """

    group: str
    limiter: str
    band: float
    inside: bool


@dataclass(frozen=True, slots=True)
class _Point:
    """Prediction of one metric, with its error."""

    suite: str
    device: str
    kind: PredictionKind
    error: float
    fitted: bool
    traits: Mapping[str, float]


def bands(validations: Sequence[Validation]) -> tuple[Band, ...]:
    """Return the bands of suites' results, in a fixed order; guesses are a separate kind."""
    return tuple(
        band
        for name in _metrics_with_bands()
        for band in _calibrate(name, list(_points(name, validations)))
    )


def hold_out(
    validations: Sequence[Validation], left_out: Literal["suite", "device"], metric: str = "time"
) -> list[HeldOut]:
    """Test bands on the rows of each suite or device that were not used for fitting.

    The bands are computed without this suite or device. Guesses are tested with the band of
    guesses.
    """
    result = []
    for name, others, unseen in _leave_out(left_out, list(_points(metric, validations))):
        known = _known_errors(metric, others)
        factors = {f.measured: f.factor for f in _factors(metric, others)}
        for point in unseen:
            band = _band(point, known, factors)
            result.append(HeldOut(name, point.kind.limiter, band, point.error <= band))
    return result


def _band(point: _Point, known: KnownErrors, factors: Mapping[bool, float]) -> float:
    band = find_band(known, point.kind, point.traits, lambda: error_of_like(known, point.kind))
    return (band if point.kind == GUESSED else widen(band, factors)).error or 0.0


def left_out_factors(validations: Sequence[Validation]) -> Iterator[LeftOut]:
    """Yield the factors on bands of the time, at least 1, without guesses.

    Volumes have no factors, because a few tiny volumes with large relative errors would determine
    them.
    """
    return _factors("time", list(_points("time", validations)))


def _factors(metric: str, points: Sequence[_Point]) -> Iterator[LeftOut]:
    ratios: dict[bool, list[_Point]] = {True: [], False: []}
    for _, others, unseen in _leave_out("suite", points):
        table = {kind: known.error for kind, known in _known_errors(metric, others).items()}
        for point in unseen:
            band = nearest_error(point.kind, table)
            if band and point.kind != GUESSED:
                ratios[point.kind in table].append(replace(point, error=point.error / band))
    factor = 1.0
    for measured, rows in ratios.items():  # the second factor is at least the first
        if len(rows) >= _ENOUGH:
            factor = max(factor, round_significant(_quantile(rows), 3))
            yield LeftOut(metric, measured, factor, len(rows))


def _leave_out(
    what: Literal["suite", "device"], points: Sequence[_Point]
) -> Iterator[tuple[str, list[_Point], list[_Point]]]:
    """Yield each suite or device, the points of all others, and its points that are not fitted."""
    groups: dict[str, list[_Point]] = {}
    for point in points:
        groups.setdefault(getattr(point, what), []).append(point)
    for name, own in groups.items():
        others = [point for point in points if getattr(point, what) != name]
        yield name, others, [point for point in own if not point.fitted]


def _known_errors(metric: str, points: Sequence[_Point]) -> KnownErrors:
    return {
        band.kind: KnownError(band.kind, band.error, band.suite, band.fitted, band.most)
        for band in _calibrate(metric, points)
    }


def bands_text(entries: Sequence[Band], model_version: str, factors: Iterable[LeftOut] = ()) -> str:
    """Return the table as TOML."""
    parts = [_HEADER.format(version=model_version)]
    for f in factors:
        parts.append(
            f"""
[[left_out]]
metric = "{f.metric}"
measured = {str(f.measured).lower()}
factor = {f.factor}
rows = {f.rows}
"""
        )
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


def _metrics_with_bands() -> list[str]:
    return [name for name in WITH_ERROR_BAND if name not in _FACTS and name not in LIKE]


def _points(metric: str, validations: Sequence[Validation]) -> Iterator[_Point]:
    for validation, result in _results(metric, validations):
        errors = percentage_errors(result.measured, result.predicted)
        each = zip(result.devices, result.kinds, errors, result.fitted, result.traits, strict=True)
        for device, kind, error, fitted, traits in each:
            name = validation.suite.path.stem
            yield _Point(name, device, kind or GUESSED, float(error), fitted, traits)


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
    """Return the measured kinds and the more general kinds that contain them, sorted."""
    every = {example for kind in measured for example in examples_of(kind)}
    return sorted(every, key=lambda kind: (kind.arch, kind.way, kind.limiter))


def _quantile(points: Sequence[_Point]) -> float:
    """Return the error that a fraction :data:`_COVERED` of the points does not exceed.

    Suites have equal weights; one with fewer than :data:`_LEAST` rows has a smaller weight.
    """
    rows = Counter(point.suite for point in points)
    ordered = sorted(points, key=lambda point: point.error)
    weights = np.cumsum([min(1.0, _LEAST / rows[point.suite]) for point in ordered])
    shares = weights / weights[-1]
    level = min(1.0, _COVERED * (len(points) + 1) / len(points))
    place = int(np.searchsorted(shares, level - 1e-9))
    return ordered[min(place, len(ordered) - 1)].error


def _most(metric: str, kind: PredictionKind, points: Sequence[_Point]) -> dict[str, float]:
    """Return the largest value of each trait over all points.

    Only bands of the time of one architecture have such limits.
    """
    if metric != "time" or kind.arch == ANY:
        return {}
    return {name: round_significant(max(p.traits[name] for p in points), 3) for name in TRAITS}
