"""Reports of a validation: text, plain data, and a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfassert.errors import PerfAssertError, SuiteError, close_matches
from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import APART, Summary, Vector, percentage_errors
from perfassert.quantity import round_significant
from perfassert.report.tables import Table, Text, join, percent, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADER = ("metric", "group", "n", "median", "mean", "90th perc.", "Spearman", "Kendall",
           "regret", f"pairs ≥ {APART * 100:g} %")  # fmt: skip
_LISTED = 5  # lines named per reason
_FACTORS = (1.25, 1.6, 2.0)  # that predictions should be within, up or down
_BAND = 0.10  # shaded around the diagonal


def text(result: Validation) -> Text:
    """Return the title, a line per metric and group, and the failed rows by reason."""
    suite = result.suite
    devices = ", ".join(result.devices)
    head = [suite.title, f"{devices}; model {result.model_version}" if devices else ""]
    done = result.rows - len(result.failures)
    counts = f"{result.rows} rows, {done} predicted, {len(result.failures)} failed"
    head += [f"{suite.data}: {counts}", result.note]
    lines = [row for metric in result.metrics for row in _rows(metric)]
    shown: list[str | Table] = [*filter(None, head), "", table(_HEADER, lines)]
    apart = (part for metric in result.metrics for part in _confidence(metric))
    return join((*shown, *apart, *_failures(result)), "\n")


def pairs(result: Validation, name: str) -> Table:
    """Return a table of measured and predicted values of one metric, a row per line of data."""
    known = {m.spec.name: m for m in result.metrics}
    if name not in known:
        hint = close_matches(name, known) or f"; it has {', '.join(known)}"
        raise SuiteError(f"{result.suite.title}: no metric {name!r}{hint}")
    metric = known[name]
    rows = [
        (line, f"{m:g}", f"{p:g}", percent(p / m - 1) if m else "–")
        for line, m, p in zip(metric.lines, metric.measured, metric.predicted, strict=True)
    ]
    return table(("line", "measured", "predicted", "difference"), rows)


def _rows(metric: MetricResult) -> Iterator[tuple[str, ...]]:
    name = f"{metric.spec.name}/{metric.spec.per}" if metric.spec.per else metric.spec.name
    yield (name, "", *_cells(metric.summary))
    if metric.seen.n:
        yield ("", "(never fitted on)", *_cells(metric.unseen))
        yield ("", "(fitted on)", *_cells(metric.seen))
    if len(metric.by_group) > 1:
        for group, summary in metric.by_group.items():
            yield ("", " ".join(group), *_cells(summary))


def _cells(s: Summary) -> tuple[str, ...]:
    shares = [_percent(v) for v in (s.median, s.mean, s.percentile_90)]
    ranks = ["–" if v is None else f"{v:.3f}" for v in (s.spearman, s.kendall)]
    pairs = f"{_percent(s.pairs_right)} of {s.pairs}" if s.pairs else "–"
    return (str(s.n), *shares, *ranks, _percent(s.regret), pairs)


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share, signed=False)


def _confidence(metric: MetricResult) -> Iterator[str | Table]:
    """Yield a table of errors for guessed and other rows, and how many large errors are guesses."""
    guessed = np.array([kind is None for kind in metric.kinds], dtype=bool)
    if not guessed.any():
        return
    whole = ("all", np.ones_like(guessed))
    parts = (whole, ("not guessed", ~guessed), ("guessed", guessed))
    rows = [(name, *_confidence_cells(metric, mask)) for name, mask in parts if mask.any()]
    near = (f"within {factor:g}×" for factor in _FACTORS)
    yield ""
    header = (metric.spec.name, "n", "share", "median", "90th perc.", "worst", *near, "in band")
    yield table(header, rows)
    far = _factors(metric) > _FACTORS[-1]
    announced = f"{np.sum(guessed & far)} of them said to be guesses" if far.any() else "none"
    yield f"{np.sum(far)} rows off by more than {_FACTORS[-1]:g}×, {announced}"


def _factors(metric: MetricResult) -> Vector:
    """Return the factor by which each prediction is off, at least 1 in both directions."""
    with np.errstate(divide="ignore"):
        return np.exp(np.abs(np.log(metric.predicted / metric.measured)))


def _confidence_cells(metric: MetricResult, mask: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    errors = percentage_errors(metric.measured[mask], metric.predicted[mask])
    factors = _factors(metric)[mask]
    shares = [mask.mean(), np.median(errors), np.quantile(errors, 0.9)]
    near = [np.mean(factors <= factor) for factor in _FACTORS]
    covered = np.mean(errors <= metric.bands[mask])
    texts = [_percent(float(v)) for v in (*shares, *near, covered)]
    return (str(mask.sum()), *texts[:3], f"{factors.max():.3g}×", *texts[3:])


def _failures(result: Validation) -> Iterator[str]:
    """Yield rows without prediction, then rows that lack one metric only."""
    yield from _failure_lines("not predicted", result.failures)
    whole = {line for line, _ in result.failures}
    for metric in result.metrics:
        own = [item for item in metric.failures if item[0] not in whole]
        yield from _failure_lines(f"without {metric.spec.name}", own)


def _failure_lines(label: str, failures: Sequence[tuple[int, str]]) -> Iterator[str]:
    by_reason: dict[str, list[int]] = {}
    for line, reason in failures:
        by_reason.setdefault(reason, []).append(line)
    if by_reason:
        yield f"\n{len(failures)} rows {label}:"
    for reason, lines in by_reason.items():
        more = ", …" if len(lines) > _LISTED else ""
        yield f"  {len(lines)} × {reason} (line {', '.join(map(str, lines[:_LISTED]))}{more})"


def to_dict(result: Validation) -> dict[str, Any]:
    """Return plain data for JSON; values in base units, shares as fractions, no NaN."""
    return {
        "suite": result.suite.title,
        "file": result.suite.path.name,
        "data": result.suite.data,
        "source": result.suite.source,
        "devices": list(result.devices),
        "model_version": result.model_version,
        "rows": result.rows,
        "note": result.note,
        "failures": _reasons(result.failures),
        "metrics": {m.spec.name: _metric(m) for m in result.metrics},
    }


def _metric(metric: MetricResult) -> dict[str, Any]:
    points = zip(
        metric.lines, metric.groups, metric.fitted, metric.kinds, metric.measured,
        metric.predicted, metric.bands, strict=True,
    )  # fmt: skip
    return {
        "unit": metric.spec.unit,
        "per": metric.spec.per,
        **_summary(metric.summary),
        "unseen": _summary(metric.unseen),
        "seen": _summary(metric.seen),
        "groups": [
            {"group": list(group), **_summary(summary)}
            for group, summary in metric.by_group.items()
            if group
        ],
        "failures": _reasons(metric.failures),
        "points": [
            {
                "line": line,
                "group": list(group),
                "fitted": fitted,
                "guessed": kind is None,
                "measured": _round(m),
                "predicted": _round(p),
                "band": _round(band) if np.isfinite(band) else None,
            }
            for line, group, fitted, kind, m, p, band in points
        ],
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        k: _round(v) if isinstance(v, float) else v for k, v in dataclasses.asdict(summary).items()
    }


def _round(number: float) -> float:
    return round_significant(float(number))


def _reasons(failures: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"line": line, "reason": reason} for line, reason in failures]


def plot(result: Validation, path: Path) -> None:
    """Plot measured against predicted values, one panel per metric, with logarithmic axes.

    Raises :class:`PerfAssertError` without matplotlib, or where ``path`` cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        reason = 'the scatter plot needs matplotlib; pip install "perfassert[plot]"'
        raise PerfAssertError(reason) from None
    count = len(result.metrics)
    figure = Figure(figsize=(4.6 * count, 4.8), layout="constrained")
    for metric, axes in zip(
        result.metrics, figure.subplots(1, count, squeeze=False)[0], strict=True
    ):
        _panel(axes, metric)
    figure.suptitle(f"{result.suite.title} ({', '.join(result.devices)})")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise PerfAssertError(f"{path}: cannot be written: {error}") from None


def _panel(axes: Axes, metric: MetricResult) -> None:
    spec, summary = metric.spec, metric.summary
    unit = "/".join(filter(None, (spec.unit or "count", spec.per)))
    drawn = metric.predicted > 0
    axes.set(xscale="log", yscale="log", xlabel=f"measured [{unit}]", ylabel=f"predicted [{unit}]")
    axes.set_title(f"{spec.name}: n = {summary.n}, median error {_percent(summary.median)}")
    if not drawn.any():
        return
    both = [*metric.measured[drawn], *metric.predicted[drawn]]
    ends = [min(both) / 1.2, max(both) * 1.2]
    low, high = ([end * (1 + s) for end in ends] for s in (-_BAND, _BAND))
    axes.fill_between(
        ends, low, high, alpha=0.2, color="gray", linewidth=0, label=f"±{_BAND * 100:g} %"
    )
    axes.plot(ends, ends, color="gray", linewidth=1)
    for group in metric.by_group:
        here = drawn & [g == group for g in metric.groups]
        axes.scatter(
            metric.measured[here], metric.predicted[here], s=10, alpha=0.7, label=" ".join(group)
        )
    axes.set(xlim=ends, ylim=ends)
    axes.legend(fontsize="small")
