"""Report of a session as comma-separated values: a line for each prediction."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from perfassert.errors import printable
from perfassert.report.document import Document, plain

_TEST = ("nodeid", "file", "line", "device", "outcome")
_PREDICTION = ("label", "note", "grid", "block", "updates")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute


def csv_text(report: Document) -> str:
    """Return a report as CSV with a header, lines ending in a newline, and numbers in base units.

    A test without predictions has one line. A value that a prediction lacks is an empty cell.
    """
    lines = list(_prediction_rows(report))
    known = [*_TEST, *_PREDICTION]
    names = dict.fromkeys([*known, *(name for line in lines for name in line)])
    out = StringIO()
    writer = csv.DictWriter(out, [*names], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
    return out.getvalue()


def _prediction_rows(report: Document) -> Iterator[Mapping[str, Any]]:
    for test in report["tests"]:
        about = {name: test[name] for name in _TEST}
        for p in test["predictions"] or [{"metrics": {}}]:
            own = {name: p[name] for name in _PREDICTION if name in p}
            yield {**p["metrics"], **about, **own}


def _cell(value: Any) -> Any:
    """Return a number unchanged; a text that begins like a formula gets an apostrophe."""
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    if isinstance(value, str):
        value = printable(value, lines=False)
        return f"'{value}" if value.startswith(_FORMULA) else value
    return plain(value)
