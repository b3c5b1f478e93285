"""Probability that one of two launches is faster, from measured errors of pairs of launches.

Most of the error of a time is common to two launches of one kernel on one device, so that their
order is known far better than either time. Of pairs of measured launches whose predicted times
differ by a factor of eˣ, the odds that the one predicted to be faster is faster are taken to be

    p / (1 − p) = (1 + x / scale) ^ power

which is even for equal times and grows as a power of the factor: of the launches of a suite some
err far more than most. ``devices/fits/pair-error.toml`` holds scale and power for each kind of
pair; ``perfassert validate --pair-errors`` fits them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, expm1, log, log1p

from perfassert.errors import RankingError, check_kind
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.prediction import PredictionValues
from perfassert.shipped import read_fit

TABLE = "pair-error"
CONFIDENCE = 0.9
"""Probability that an order needs, unless the caller asks for another."""
ANY, OTHER, SAME = "any", "other", "same"


@dataclass(frozen=True, slots=True, order=True)
class PairKind:
    """Kind of pairs of launches for which an error was measured.

    ``way``: ``"compiled"``, or ``"described"`` by address expressions or a graph. ``kernel``:
    ``"same"``, with other block shapes, tiles or code, or ``"other"``. ``limiter``: what limits
    both; ``"any"``: the same, whatever it is; ``"other"``: each has its own.
    """

    way: str
    kernel: str
    limiter: str


@dataclass(frozen=True, slots=True)
class PairError:
    """Distribution of a pair's error, which gives the probability of an order; see the module."""

    scale: float
    power: float

    def probability(self, times_as_fast: float) -> float:
        """Return the probability that a launch predicted ``times_as_fast`` is the faster one."""
        # With scale 0.02 and power 1, a launch that is predicted to be 1.1 times as fast: odds of
        # 1 + ln(1.1) / 0.02 = 5.77, and the probability is 5.77 / 6.77 = 0.85.
        distance = log(times_as_fast)
        odds = self.power * log1p(abs(distance) / self.scale)
        likely = 1 / (1 + exp(-odds))
        return likely if distance >= 0 else 1 - likely

    def margin(self, confidence: float = CONFIDENCE) -> float:
        """Return the relative difference of predicted times that gives this probability."""
        odds = log(confidence / (1 - confidence))
        return expm1(self.scale * expm1(odds / self.power))


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """Facts of a prediction or a baseline by which a pair is judged."""

    kernel: str
    compiled: bool
    limiter: str
    seconds: float


def probability_faster(first: PredictionValues, second: PredictionValues) -> float | None:
    """See :meth:`Prediction.probability_faster`."""
    check_kind(second, PredictionValues, "what a prediction is compared with", RankingError)
    if first.device_digest != second.device_digest:
        raise RankingError(
            f"{first.device} ({first.device_digest}) and {second.device} "
            f"({second.device_digest}) are two devices; which of two launches is faster is asked "
            "of one"
        )
    if first.model_version != second.model_version or _guesses(first) != _guesses(second):
        return None
    return probability(timed_launch(first), timed_launch(second))


def timed_launch(prediction: PredictionValues) -> TimedLaunch:
    """Return the facts of a prediction by which a pair is judged."""
    compiled = prediction.kernel_kind is KernelKind.COMPILED
    seconds = float(prediction.time)
    return TimedLaunch(prediction.kernel, compiled, prediction.limiter, seconds)


def probability(first: TimedLaunch, second: TimedLaunch) -> float | None:
    """Return the probability that the first launch is faster; None where a time is 0."""
    if first.seconds <= 0 or second.seconds <= 0:
        return None
    return pair_error(pair_kind(first, second)).probability(second.seconds / first.seconds)


def _guesses(prediction: PredictionValues) -> frozenset[str]:
    """Return the reasons of a guess; the same reasons do not tell two guesses apart."""
    if prediction.confidence != "guessed":
        return frozenset()
    return frozenset(map(str, prediction.confidence_reasons)) or frozenset({""})


def pair_kind(first: TimedLaunch, second: TimedLaunch) -> PairKind:
    """Return the kind of a pair of launches."""
    way = "compiled" if first.compiled or second.compiled else "described"
    kernel = SAME if first.kernel == second.kernel else OTHER
    limiter = first.limiter if first.limiter == second.limiter else OTHER
    return PairKind(way, kernel, limiter)


def examples_of_pair(kind: PairKind) -> Iterator[PairKind]:
    """Return the kind and those that stand for it if it was not measured, most alike first."""
    yield kind
    if kind.limiter != OTHER:
        yield replace(kind, limiter=ANY)
        yield PairKind("compiled", kind.kernel, ANY)
    yield replace(kind, limiter=OTHER)
    yield PairKind("compiled", kind.kernel, OTHER)


def pair_error(kind: PairKind) -> PairError:
    """Return the error of pairs of this kind, or of the kinds most like it."""
    table = _table()
    return next(table[k] for k in examples_of_pair(kind) if k in table)


@lru_cache(maxsize=1)
def _table() -> Mapping[PairKind, PairError]:
    return {
        PairKind(entry["way"], entry["kernel"], entry["limiter"]): PairError(
            float(entry["scale"]), float(entry["power"])
        )
        for entry in read_fit(TABLE)["pair"]
    }
