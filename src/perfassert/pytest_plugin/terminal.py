"""The terminal section: what was predicted, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import pytest

from perfassert.expect.metrics import Kind, Metric, all_metrics
from perfassert.frontends.toolchain.names import short_label
from perfassert.pytest_plugin.guesses import GUESSED
from perfassert.pytest_plugin.layout import Layout
from perfassert.quantity import Quantity
from perfassert.report.tables import percent, table

_SHOWN = 20  # rows of a table in the terminal

Line = Mapping[str, Any]


def write_section(
    reporter: Any, reports: Sequence[pytest.TestReport], layout: Layout, toolchain: str | None
) -> None:
    """Write the predictions of ``reports``, failures first; more than 20 only with ``-v``.
    ``toolchain``: the release of ``--perf-toolchain``."""
    in_order = sorted(reports, key=lambda r: r.nodeid)
    lines: list[Line] = [
        {**_leading_columns(report, r), **r["metrics"]}
        for report in in_order
        for r in report.perfassert
    ]
    for name, down in reversed(layout.sort):
        lines = _sort_lines(lines, name, down)
    lines.sort(key=lambda line: line["outcome"] != "failed")
    shown = lines if reporter.verbosity > 0 else lines[:_SHOWN]
    reporter.section("predicted performance")
    if reporter.verbosity >= 0:
        metrics = all_metrics()
        columns = [(name, metrics.get(name)) for name in layout.columns]
        rows = [
            [_format_metric(line.get(name), metric) for name, metric in columns] for line in shown
        ]
        reporter.write_line(str(table(layout.columns, rows)))
    if len(shown) < len(lines):
        reporter.write_line(f"… and {len(lines) - len(shown)} more; -v shows all")
    predictions = f"{len(lines)} prediction{'s' if len(lines) != 1 else ''}"
    tests = f"{len(reports)} test{'s' if len(reports) != 1 else ''}"
    reporter.write_line(f"{predictions} in {tests}, without a GPU")
    records = [r for report in reports for r in report.perfassert]
    _write_guesses(reporter, records)
    if toolchain is not None:
        _write_toolchain(reporter, records, toolchain)


def _leading_columns(report: pytest.TestReport, record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are no metrics."""
    label, note = short_label(record["label"]), record["note"]
    return {
        "test": report.nodeid.rpartition("::")[2],
        "kernel": f"{label} ({note})" if note else label,
        "device": record["device"],
        "block": tuple(record["block"]),
        "grid": tuple(record["grid"]),
        "outcome": _outcome(report),
    }


def _sort_lines(lines: Sequence[Line], name: str, down: bool) -> list[Line]:
    """Sort the lines: missing values come last in either order, extents are compared by size."""
    having = [line for line in lines if line.get(name) is not None]
    lacking = [line for line in lines if line.get(name) is None]

    def size(line: Line) -> Any:
        return prod(line[name]) if isinstance(line[name], tuple) else line[name]

    return [*sorted(having, key=size, reverse=down), *lacking]


def _format_metric(value: Any, metric: Metric | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "×".join(map(str, value))
    if metric is not None and metric.kind is Kind.FRACTION:
        return percent(value, signed=False)
    return str(Quantity(value, metric.unit if metric else ""))


def _write_guesses(reporter: Any, records: Sequence[dict[str, Any]]) -> None:
    """Write how many predictions are guesses, and the worst of them, also in a green run."""
    guessed = [r for r in records if r["confidence"] == GUESSED]
    if not guessed:
        return
    worst = max(guessed, key=lambda r: r["share"])
    those = f"{len(guessed)} of them {'are guesses' if len(guessed) > 1 else 'is a guess'}"
    reporter.write_line(f"{those}; the worst: {worst['label']}, {worst['guess']}", yellow=True)


def _write_toolchain(reporter: Any, records: Sequence[dict[str, Any]], toolchain: str) -> None:
    """Write the release that compiled the kernels, and how many it did not compile."""
    own = Counter(r["toolchain"] for r in records if r["toolchain"] != toolchain)
    others = "".join(
        f"; {number} by {release}, which the kernel names" if release else f"; {number} not by it"
        for release, number in sorted(own.items(), key=str)
    )
    number = len(records) - own.total()
    predictions = f"{number} prediction{'s' * (number != 1)}"
    reporter.write_line(f"{predictions} of code compiled by CUDA {toolchain}{others}")


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome
