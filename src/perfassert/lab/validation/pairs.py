"""Order of two predicted launches: how sure it is, fitted and tested on pairs of measured rows.

The results are in ``devices/fits/pair-error.toml``. A pair has rows of one group of a suite. Each
kind of pair has a scale and a power (see :mod:`perfassert.predictor.judge.pairs`), which have the
largest likelihood on a grid. A suite counts at most as much as :data:`_LEAST` of its pairs, because
pairs that share rows are not independent. Two tests check the calibration. The first halves the
rows by chance and tests pairs within one half by a fit to the other half. The second tests the
pairs of a suite, or of a device, by a fit to all other suites, or all other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt

from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import Vector
from perfassert.predictor.judge.pairs import (
    ANY,
    CONFIDENCE,
    OTHER,
    PairError,
    PairKind,
    TimedLaunch,
    examples_of_pair,
    pair_kind,
)
from perfassert.quantity import round_significant

_LEAST = 50
"""Least number of pairs for a kind of its own."""
_SCALES, _POWERS = (
    np.array([round_significant(value, 3) for value in np.geomspace(*ends).tolist()])
    for ends in ((0.003, 3.0, 40), (0.7, 40.0, 25))
)
"""Candidate values, rounded as in the table, so that the limit below holds for values read back."""
_FINEST = 0.01
"""Least difference of times that is decided: measurements do not repeat any better."""
_ODDS = np.log(CONFIDENCE / (1 - CONFIDENCE))
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Ends of the bins of the reliability diagram."""
_HEADER = """\
# How sure the predicted order of two measured launches is, by kind of pair: the odds that the one
# that is predicted to be faster by a factor of e^x is faster are (1 + x / scale) ^ power.
# `way`: described by hand, or compiled; `kernel`: the same with other block shapes, tiles or code,
# or another, or on another device; `limiter`: that of both, "any" where it is the same, "other"
# where it is not.
# Written by `perfassert validate SUITE… --pair-errors FILE` with model version {version}.
"""


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """Two measured rows.

    ``distance`` is the logarithm of the ratio of their predictions, and ``apart`` that of their
    measurements; both are positive. ``right``: the measured order is the predicted one. ``half`` is
    that of both rows, None if they are in two halves. ``fitted``: a fit has seen one of the rows.
    ``devices`` are those of both rows.
    """

    suite: str
    devices: tuple[str, str]
    kind: PairKind
    distance: float
    apart: float
    right: bool
    half: int | None
    fitted: bool


@dataclass(frozen=True, slots=True)
class PairFit:
    """A row of the table of pair errors: the error for one kind of pair."""

    kind: PairKind
    error: PairError
    pairs: int
    suites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions between pairs of configurations, with the probabilities stated for them.

    ``probability`` is that of the predicted order of each pair; ``right``: the measured order is
    the same.
    """

    probability: Vector
    right: npt.NDArray[np.bool_]
    apart: Vector

    @property
    def brier(self) -> float:
        """Mean squared distance of a probability from its outcome, 0 or 1."""
        return float(np.mean((self.probability - self.right) ** 2))

    @property
    def naive_brier(self) -> float:
        """Brier score of the rule that is always sure of the predicted order."""
        return float(np.mean(~self.right))

    def share_decided(self, apart: float = 0.0) -> float | None:
        """Return the share of decided pairs, of those whose times differ by ``apart``."""
        there = self.apart >= np.log1p(apart)
        return float(np.mean(self.probability[there] >= CONFIDENCE)) if there.any() else None

    @property
    def share_right(self) -> float | None:
        """Share of the decided pairs whose order is right."""
        decided = self.probability >= CONFIDENCE
        return float(np.mean(self.right[decided])) if decided.any() else None

    def bins(self) -> Iterator[tuple[float, float, int, float, float]]:
        """Yield each bin's ends, number of pairs, mean probability and share of pairs right."""
        for low, high in pairwise(BINS):
            here = (self.probability >= low) & (self.probability < high)
            if here.any():
                mean, share = self.probability[here].mean(), self.right[here].mean()
                yield low, high, int(here.sum()), float(mean), float(share)


def measured_pairs(validations: Sequence[Validation]) -> list[MeasuredPair]:
    """Return the pairs of all suites with different times, predicted and measured; no guesses."""
    return [
        pair
        for validation in validations
        for result in validation.metrics
        if result.spec.name == "time"
        for pair in _pairs(validation.suite.path.stem, result)
    ]


def _pairs(suite: str, result: MetricResult) -> Iterator[MeasuredPair]:
    halves = [crc32(f"{suite}:{line}".encode()) & 1 for line in result.lines]
    predicted, measured = np.log(result.predicted), np.log(result.measured)
    certain = [i for i, kind in enumerate(result.kinds) if kind is not None]
    for i, j in combinations(certain, 2):
        distance, apart = predicted[i] - predicted[j], measured[i] - measured[j]
        if result.groups[i] == result.groups[j] and distance and apart:
            kind = pair_kind(_timed_launch(result, i), _timed_launch(result, j))
            if result.devices[i] != result.devices[j]:  # not variants to choose from
                kind = replace(kind, kernel=OTHER)
            half = halves[i] if halves[i] == halves[j] else None
            right = bool(distance * apart > 0)
            fitted = result.fitted[i] or result.fitted[j]
            devices = result.devices[i], result.devices[j]
            yield MeasuredPair(suite, devices, kind, abs(distance), abs(apart), right, half, fitted)


def _timed_launch(result: MetricResult, i: int) -> TimedLaunch:
    kind = result.kinds[i]
    assert kind is not None
    return TimedLaunch(
        result.kernels[i], kind.way == "compiled", kind.limiter, float(result.predicted[i])
    )


def fit_pair_errors(pairs: Sequence[MeasuredPair]) -> tuple[PairFit, ...]:
    """Return the table in a fixed order: kinds with enough pairs, and fallbacks for the others."""
    by_kind: dict[PairKind, list[MeasuredPair]] = {}
    for pair in pairs:
        for kind in _kinds_of(pair.kind):
            by_kind.setdefault(kind, []).append(pair)
    return tuple(
        PairFit(kind, _fit(mine), len(mine), tuple(dict.fromkeys(pair.suite for pair in mine)))
        for kind, mine in sorted(by_kind.items())
        if len(mine) >= _LEAST
    )


def _kinds_of(kind: PairKind) -> tuple[PairKind, ...]:
    """Return the kind, and the kind of any limiter that it is an example of."""
    if kind.limiter == OTHER:
        return (kind,)
    return kind, PairKind(kind.way, kind.kernel, ANY)


def _fit(pairs: Sequence[MeasuredPair]) -> PairError:
    suites = [[p for p in pairs if p.suite == name] for name in {p.suite for p in pairs}]
    loss = np.zeros((len(_SCALES), len(_POWERS)))
    for mine in suites:
        distance = np.array([p.distance for p in mine])
        sign = np.where([p.right for p in mine], 1.0, -1.0)
        weight = min(1.0, _LEAST / len(mine))
        for i, scale in enumerate(_SCALES):
            grown = sign * np.log1p(distance / scale)
            for j, power in enumerate(_POWERS):
                loss[i, j] += weight * np.logaddexp(0.0, -power * grown).sum()
    loss[_SCALES[:, None] * np.expm1(_ODDS / _POWERS) < np.log1p(_FINEST)] = np.inf
    row, column = np.unravel_index(np.argmin(loss), loss.shape)
    return PairError(float(_SCALES[row]), float(_POWERS[column]))


def pair_errors_text(fits: Sequence[PairFit], model_version: str) -> str:
    """Return the table as TOML."""
    return _HEADER.format(version=model_version) + "".join(
        f"""
[[pair]]
way = "{fit.kind.way}"
kernel = "{fit.kind.kernel}"
limiter = "{fit.kind.limiter}"
scale = {fit.error.scale}
power = {fit.error.power}
pairs = {fit.pairs}
suites = "{", ".join(fit.suites)}"
"""
        for fit in fits
    )


def decide_other_half(pairs: Sequence[MeasuredPair]) -> dict[str, Decisions]:
    """Map suites to decisions on unfitted pairs within one half, by a fit to the other half."""
    judged: dict[str, list[tuple[float, MeasuredPair]]] = {}
    for half in (0, 1):
        table = {f.kind: f.error for f in fit_pair_errors([p for p in pairs if p.half == 1 - half])}
        for likely, pair in _judge(table, [p for p in pairs if p.half == half and not p.fitted]):
            judged.setdefault(pair.suite, []).append((likely, pair))
    return {name: _decisions(each) for name, each in judged.items()}


def decide_other_suites(pairs: Sequence[MeasuredPair]) -> dict[str, Decisions]:
    """Map suites to decisions on their unfitted pairs, by a fit to all other suites."""
    return _decide_others(pairs, lambda pair: (pair.suite,))


def decide_other_devices(pairs: Sequence[MeasuredPair]) -> dict[str, Decisions]:
    """Map devices to decisions on their unfitted pairs, by a fit to pairs on other devices.

    A pair of two devices counts for both.
    """
    return _decide_others(pairs, lambda pair: pair.devices)


def _decide_others(
    pairs: Sequence[MeasuredPair], names_of: Callable[[MeasuredPair], Sequence[str]]
) -> dict[str, Decisions]:
    result = {}
    for name in dict.fromkeys(name for pair in pairs for name in names_of(pair)):
        others = fit_pair_errors([p for p in pairs if name not in names_of(p)])
        mine = [p for p in pairs if name in names_of(p) and not p.fitted]
        if judged := list(_judge({f.kind: f.error for f in others}, mine)):
            result[name] = _decisions(judged)
    return result


def merge_decisions(parts: Sequence[Decisions]) -> Decisions:
    """Return the decisions of several suites as one."""
    return Decisions(
        np.concatenate([part.probability for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.apart for part in parts]),
    )


def _judge(
    table: Mapping[PairKind, PairError], pairs: Sequence[MeasuredPair]
) -> Iterator[tuple[float, MeasuredPair]]:
    for pair in pairs:
        error = next((table[k] for k in examples_of_pair(pair.kind) if k in table), None)
        if error is not None:
            yield error.probability(float(np.exp(pair.distance))), pair


def _decisions(judged: Sequence[tuple[float, MeasuredPair]]) -> Decisions:
    return Decisions(
        np.array([likely for likely, _ in judged]),
        np.array([pair.right for _, pair in judged]),
        np.array([pair.apart for _, pair in judged]),
    )
