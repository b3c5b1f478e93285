"""What is known of a prediction: its confidence with the reasons, and the errors of its metrics."""

from __future__ import annotations

from collections.abc import Iterable

from perfassert.prediction.error_band import ErrorBand
from perfassert.prediction.prediction import Prediction
from perfassert.report.tables import percent

_MEANING = {
    "measured": "kernels of this kind were measured on this architecture",
    "transferred": "no kernel of this kind was measured on this architecture",
    "guessed": "stand-ins carry too much of it",
}
_REASONS = 5  # the heaviest


def trust(prediction: Prediction, metrics: Iterable[str] = ("time",)) -> str:
    """Confidence with its reasons, and below it the known error of these metrics."""
    return f"{confidence(prediction)}\n{errors(prediction, metrics)}"


def confidence(prediction: Prediction) -> str:
    """The confidence, what it means, and the heaviest stand-ins with their shares."""
    lines = [f"confidence: {prediction.confidence}: {_MEANING[prediction.confidence]}"]
    found = prediction.confidence_reasons
    lines += [f"- {share(a.share)} rests on: {a}" for a in found[:_REASONS]]
    if len(found) > _REASONS:
        lines.append(f"- and {len(found) - _REASONS} more")
    return "\n".join(lines)


def share(value: float) -> str:
    """``"63 %"``; what is there is never shown as nothing."""
    return "less than 1 %" if 0 < value < 0.01 else f"{value:.0%}".replace("%", " %")


def errors(prediction: Prediction, metrics: Iterable[str]) -> str:
    """One line: the error of each metric that is an estimate, and where it was measured."""
    bands = {name: prediction.error_band(name) for name in metrics if name in prediction.errors}
    told = [f"{name} {_told(band)}" for name, band in bands.items() if not band.exact]
    facts = [name for name, band in bands.items() if band.exact]
    said = ["model error: " + "; ".join(told)] if told else []
    return "\n".join(said + (["exact: " + ", ".join(facts)] if facts else []))


def _told(band: ErrorBand) -> str:
    if band.error is None:
        return f"unknown ({percent(band.band, signed=False)}, the widest measured, is counted)"
    return f"±{percent(band.error, signed=False)} ({band.suite})"
