"""Record of a run's figures as JSON, and comparison of a later run with it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfassert.errors import SuiteError
from perfassert.lab.validation.run import Validation
from perfassert.lab.validation.statistics import Summary
from perfassert.lab.validation.suite import Suite
from perfassert.report.tables import percent

WORSE = 0.02
"""Excess of a median error over the recorded one that is allowed."""
_DIGITS = 6  # of a recorded figure
_ANEW = "record anew with --record"


def to_record(results: Sequence[Validation], rows: int | None = None) -> dict[str, Any]:
    """Return figures by suite and metric, of all rows and of those that no fit has seen.

    ``rows`` is the most that were taken of a suite.
    """
    return {
        "model_version": results[0].model_version,
        "most_rows": rows,
        "suites": {
            result.suite.path.stem: {
                "title": result.suite.title,
                "rows": result.rows,
                "metrics": {
                    m.spec.name: {**_figures(m.summary), "unseen": _figures(m.unseen)}
                    for m in result.metrics
                },
            }
            for result in results
        },
    }


def _figures(summary: Summary) -> dict[str, int | float | None]:
    figures = dataclasses.asdict(summary)
    return {k: round(v, _DIGITS) if isinstance(v, float) else v for k, v in figures.items()}


@dataclass(frozen=True, slots=True)
class RecordedSuite:
    """Number of a recorded run's rows; for each metric, rows that have it, and median error."""

    rows: int
    metrics: Mapping[str, tuple[int, float | None]]


@dataclass(frozen=True, slots=True)
class RowRecord:
    """File written from :func:`to_record`; ``most_rows`` is ``--rows`` of that run."""

    path: Path
    most_rows: int | None
    suites: Mapping[str, RecordedSuite]


def read_record(path: Path) -> RowRecord:
    """Read a record that :func:`to_record` made; raises :class:`SuiteError`."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = f"{path}: cannot be read: {error.strerror}; make it with --record {path}"
        raise SuiteError(reason) from None
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{path}: not valid JSON: {error}; {_ANEW}") from None
    try:
        suites = {name: _recorded_suite(entry) for name, entry in table["suites"].items()}
        return RowRecord(path, table["most_rows"], suites)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SuiteError(f"{path}: not a record of validations; {_ANEW}") from None


def _recorded_suite(entry: Mapping[str, Any]) -> RecordedSuite:
    metrics = {
        name: (int(m["n"]), None if m["median"] is None else float(m["median"]))
        for name, m in entry["metrics"].items()
    }
    return RecordedSuite(int(entry["rows"]), metrics)


def check_comparable(record: RowRecord, suite: Suite, rows: int) -> None:
    """Raises :class:`SuiteError` where the record has other rows or metrics of the suite."""
    name, metrics = suite.path.stem, {spec.name for spec in suite.metrics}
    recorded = record.suites.get(name)
    if recorded is None:
        raise SuiteError(f"{record.path}: has no suite {name!r}; {_ANEW}")
    if recorded.rows != rows:
        most = record.most_rows
        run = "without --rows" if most is None else f"with --rows {most}"
        raise SuiteError(
            f"{record.path}: {name}: recorded over {recorded.rows} rows, this run has {rows}; "
            f"run {run}, or {_ANEW}"
        )
    if unlike := sorted(metrics ^ recorded.metrics.keys()):
        where = "the record" if unlike[0] in metrics else "the suite"
        raise SuiteError(f"{record.path}: {name}: {where} has no metric {unlike[0]!r}; {_ANEW}")


def worse(record: RowRecord, result: Validation) -> Iterator[str]:
    """Yield a sentence for each metric that is worse than recorded, or that fewer rows have."""
    name = result.suite.path.stem
    for metric in result.metrics:
        for reason in _reasons_worse(
            *record.suites[name].metrics[metric.spec.name], metric.summary
        ):
            yield f"{name}: {metric.spec.name}: {reason}"


def _reasons_worse(n: int, median: float | None, now: Summary) -> Iterator[str]:
    if now.n < n:
        yield f"{now.n} rows have it, recorded {n}"
    if now.median is not None and median is not None and now.median > median + WORSE:
        current, before = (percent(v, signed=False) for v in (now.median, median))
        most = f"{WORSE * 100:g} percentage points"
        yield f"median error {current}, recorded {before}; more than {most} worse"
