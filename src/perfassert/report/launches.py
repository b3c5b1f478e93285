"""Launches of a program as text: the time of each, and their sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfassert.prediction.prediction import PredictionValues
from perfassert.quantity import Quantity
from perfassert.report.tables import Table, Text, join, percent, table
from perfassert.report.trust import confidence


@dataclass(frozen=True, slots=True)
class Predicted:
    """Prediction of ``count`` equal launches; ``error``: why there is none."""

    label: str
    count: int
    launch: str
    prediction: PredictionValues | None
    error: str = ""


def text(launches: Sequence[Predicted]) -> Text:
    """Return the output of ``perfassert predict --launches``."""
    total = sum(float(p.prediction.time) * p.count for p in launches if p.prediction)
    rows = [_launch_row(one, one.prediction, total) for one in launches if one.prediction]
    header = ("kernel", "launches", "shape", "time of one", "share", "limiter", "confidence")
    parts: list[str | Table] = [table(header, rows)] if rows else []
    count = sum(one.count for one in launches if one.prediction)
    parts.append(f"{count} launches, {Quantity(total, 's')} of kernels in all")
    for one in launches:
        if one.prediction is None:
            parts.append(f"{one.label}: no prediction: {one.error}")
        elif one.prediction.confidence == "guessed":
            parts.append(f"{one.label}: {confidence(one.prediction)}")
    return join(parts)


def _launch_row(one: Predicted, prediction: PredictionValues, total: float) -> tuple[object, ...]:
    share = float(prediction.time) * one.count / total if total else 0.0
    return (
        one.label, one.count, one.launch, prediction.time, percent(share, signed=False),
        prediction.limiter, prediction.confidence,
    )  # fmt: skip
