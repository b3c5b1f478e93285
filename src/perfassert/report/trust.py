"""Reliability of a prediction: its confidence with reasons, and the errors of its metrics."""

from __future__ import annotations

from collections.abc import Iterable

from perfassert.prediction.prediction import PredictionValues
from perfassert.report.tables import percent

_MEANING = {
    "measured": "kernels of this kind were measured on this architecture",
    "extrapolated": "no kernel of this kind was measured on this architecture",
    "guessed": "too much of it rests on assumed values",
}
_REASONS = 5  # the heaviest


def trust(prediction: PredictionValues, metrics: Iterable[str] = ("time",)) -> str:
    """Return the confidence with its reasons, and below it the known error of these metrics."""
    return f"{confidence(prediction)}\n{errors(prediction, metrics)}"


def confidence(prediction: PredictionValues) -> str:
    """Return the confidence, its meaning, and the heaviest assumed values with their shares."""
    lines = [f"confidence: {prediction.confidence}: {_meaning(prediction)}"]
    reasons = prediction.confidence_reasons
    lines += [f"- {share(a.share)} rests on: {a}" for a in reasons[:_REASONS]]
    if len(reasons) > _REASONS:
        lines.append(f"- and {len(reasons) - _REASONS} more")
    return "\n".join(lines)


def _meaning(prediction: PredictionValues) -> str:
    outside = prediction.error_band("time").outside
    if prediction.confidence == "extrapolated" and outside:
        return f"no kernel like this one was measured: {outside}"
    return _MEANING[prediction.confidence]


def share(value: float) -> str:
    """Return a share such as ``"63 %"``; a share above zero is never shown as zero."""
    return "less than 1 %" if 0 < value < 0.01 else f"{value:.0%}".replace("%", " %")


def errors(prediction: PredictionValues, metrics: Iterable[str]) -> str:
    """Estimates with their error and where it was measured; those of kinds not measured; facts."""
    bands = {name: prediction.error_band(name) for name in metrics if name in prediction.errors}
    measured = [
        f"{name} ±{percent(band.band, signed=False)}{band.describe_clock()} ({band.suite})"
        for name, band in bands.items()
        if band.measured
    ]
    others = [
        f"{name} ±{percent(band.band, signed=False)}{band.describe_clock()}"
        for name, band in bands.items()
        if not (band.measured or band.exact)
    ]
    facts = [name for name, band in bands.items() if band.exact]
    lines = (
        ("model error: ", measured),
        ("model error, extrapolated from similar kernels: ", others),
        ("exact: ", facts),
    )
    return "\n".join(f"{title}{', '.join(names)}" for title, names in lines if names)
