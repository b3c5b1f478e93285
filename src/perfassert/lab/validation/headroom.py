"""Measured times over the speed of light, by suite: no quotient should be below 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.report.tables import Table, Text, join, table

_TIME = "time"
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95)
_SHOWN = 20
"""Most rows below the speed of light that are listed for each suite."""


def text(results: Sequence[Validation]) -> Text:
    """Return a line for each suite with measured times, and the rows faster than their bound."""
    timed = [(r.suite.path.stem, m) for r in results for m in r.metrics if m.spec.name == _TIME]
    header = ("measured / speed of light", "rows", "below 1", "least", "5 %", "25 %", "median",
              "75 %", "95 %")  # fmt: skip
    rows = [_figures(name, metric) for name, metric in timed]
    parts: list[str | Table] = [table(header, rows)]
    parts += [line for name, metric in timed for line in _below_speed_of_light(name, metric)]
    return join(parts, "\n")


def _figures(name: str, metric: MetricResult) -> tuple[str, ...]:
    known = metric.speeds_of_light > 0
    headroom = metric.measured[known] / metric.speeds_of_light[known]
    if not len(headroom):
        return (name, "0")
    figures = np.quantile(headroom, _QUANTILES)
    below = int((headroom < 1).sum())
    return (name, str(len(headroom)), str(below), *(f"{v:.3g}" for v in figures))


def _below_speed_of_light(name: str, metric: MetricResult) -> Iterator[str]:
    """Yield ``stem: line 12: 0.97 (measured 12 us, speed of light 12.4 us), guessed``."""
    points = zip(metric.lines, metric.measured, metric.speeds_of_light, metric.kinds, strict=True)
    below = [point for point in points if point[1] < point[2]]
    for line, measured, least, kind in below[:_SHOWN]:
        times = f"measured {measured:.4g} s, speed of light {least:.4g} s"
        guess = ", guessed" if kind is None else ""
        yield f"{name}: line {line}: {measured / least:.3f} ({times}){guess}"
    if len(below) > _SHOWN:
        yield f"{name}: and {len(below) - _SHOWN} more"
