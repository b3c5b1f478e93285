"""The terminal section: what was predicted, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perfassert.pytest_plugin.guesses import GUESSED
from perfassert.quantity import Quantity
from perfassert.report.tables import table

_SHOWN = 20


def write_section(reporter: Any, reports: Sequence[pytest.TestReport]) -> None:
    """Write the predictions of ``reports``; more than 20 only with ``-v``."""
    rows = []
    for report in sorted(reports, key=lambda r: r.nodeid):
        test = report.nodeid.rpartition("::")[2]
        for record in report.perfassert:
            block = "×".join(map(str, record["block"]))
            time = Quantity(record["time"], "s")
            kernel = f"{record['label']} ({record['note']})" if record["note"] else record["label"]
            known = record["limiter"], record["confidence"]
            rows.append((test, kernel, block, time, *known, _outcome(report)))
    shown = rows if reporter.verbosity > 0 else rows[:_SHOWN]
    reporter.section("predicted performance")
    if reporter.verbosity >= 0:
        header = ("test", "kernel", "block", "time", "limiter", "confidence", "outcome")
        reporter.write_line(table(header, shown))
    if len(shown) < len(rows):
        reporter.write_line(f"… and {len(rows) - len(shown)} more; -v shows all")
    predictions = f"{len(rows)} prediction{'s' if len(rows) != 1 else ''}"
    tests = f"{len(reports)} test{'s' if len(reports) != 1 else ''}"
    reporter.write_line(f"{predictions} in {tests}, without a GPU")
    _write_guesses(reporter, [r for report in reports for r in report.perfassert])


def _write_guesses(reporter: Any, records: Sequence[dict[str, Any]]) -> None:
    """How many predictions are guesses, and the worst of them: a green run does not hide one."""
    guessed = [r for r in records if r["confidence"] == GUESSED]
    if not guessed:
        return
    worst = max(guessed, key=lambda r: r["share"])
    those = f"{len(guessed)} of them {'are guesses' if len(guessed) > 1 else 'is a guess'}"
    reporter.write_line(f"{those}; the worst: {worst['label']}, {worst['guess']}", yellow=True)


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome
