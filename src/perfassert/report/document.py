"""Report of a test session as plain data, the source of JSON and of all other formats.

``tests`` are sorted by node ID and device, each with its predictions, rankings and baselines. No
value depends on the machine, the order of the tests, or the time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from perfassert.version import MODEL_VERSION, VERSION

FORMAT = "perfassert report"
SCHEMA = 2  # of the file
FAILED, PASSED = "failed", "passed"

Document = Mapping[str, Any]
Test = Mapping[str, Any]


def document(tests: Iterable[Test], errors: Iterable[str] = ()) -> Document:
    """Return the report of some tests, each as the plug-in records it.

    ``errors``: what could not be collected or set up, by node ID, so that predictions are missing.
    """
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "perfassert": VERSION,
        "model_version": MODEL_VERSION,
        "errors": sorted(set(errors)),
        "tests": sorted(tests, key=lambda test: (test["nodeid"], test["device"])),
    }


def to_json(report: Document) -> str:
    """Return JSON with one line per test, so that two reports can be compared as text."""
    head = {key: value for key, value in report.items() if key != "tests"}
    tests = ",\n".join(_dumps(test) for test in report["tests"])
    return f'{_dumps(head)[:-1]}, "tests": [\n{tests}\n]}}\n'


def _dumps(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN and infinity become null, tuples become lists."""
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def count(report: Document) -> Mapping[str, int]:
    """Return the number of tests by outcome, common outcomes first, and of ``"predictions"``."""
    counts = dict.fromkeys((FAILED, PASSED), 0)
    for test in report["tests"]:
        counts[test["outcome"]] = counts.get(test["outcome"], 0) + 1
    counts["predictions"] = sum(len(test["predictions"]) for test in report["tests"])
    return counts


def summary(report: Document) -> str:
    """Return a summary such as ``"3 predictions in 2 tests: 1 failed, 1 passed"``, with errors."""
    counts = dict(count(report))
    predictions = counts.pop("predictions")
    tests = sum(counts.values())
    parts = [f"{n} {outcome}" for outcome, n in counts.items() if n]
    if report["errors"]:
        parts.append(_pluralize(len(report["errors"]), "error"))
    outcomes = ", ".join(parts)
    return (
        f"{_pluralize(predictions, 'prediction')} in {_pluralize(tests, 'test')}"
        f"{outcomes and f': {outcomes}'}"
    )


def _pluralize(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
