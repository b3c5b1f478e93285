"""Files to compare: reports of sessions, and what ``perfassert predict --json`` printed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from perfassert.comparison.line_changes import LineCosts, costs_of
from perfassert.errors import PerfAssertError, ReportError
from perfassert.facade.prediction import Prediction
from perfassert.report.document import FORMAT, SCHEMA
from perfassert.report.sources import costliest
from perfassert.system.confined import read_bytes

_LONGEST = 300  # characters of a message that say why a test failed


class PredictionKey(NamedTuple):
    """Key of a prediction: test, kernel (``"copy#2"``: the second of that name) and device.

    A prediction outside of tests has an empty test name; any two such predictions are compared.
    """

    test: str
    label: str
    device: str


class Place(NamedTuple):
    """A line of a file of the project."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Reported:
    """Prediction with the line to blame: the costliest of the kernel if known, else the test's.

    ``metrics`` include those of plug-ins; ``lines`` are the costs of source lines.
    """

    prediction: Prediction
    place: Place | None
    metrics: Mapping[str, float | str]
    lines: LineCosts


@dataclass(frozen=True, slots=True)
class ReportFile:
    """Contents of one report file; ``single``: it holds one prediction outside of tests.

    ``broken``: node ID of a test, or of a file that failed at collection → why predictions are
    missing.
    """

    path: Path
    model_version: str
    predictions: Mapping[PredictionKey, Reported]
    single: bool
    broken: Mapping[str, str]

    def why_missing(self, test: str) -> str:
        """Return why a prediction of this test is missing; empty if nothing has failed."""
        above = (test, test.partition("[")[0], test.partition("::")[0])
        return next((self.broken[node] for node in above if node in self.broken), "")


def read(path: Path) -> ReportFile:
    """Raises :class:`ReportError` where the file is not of perfassert, or of another schema."""
    try:
        data = json.loads(read_bytes(path), parse_constant=_no_number, parse_float=_finite)
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: is not JSON: {error}") from None
    if not isinstance(data, dict) or not ({"format", "time"} & set(data)):
        raise ReportError(
            f"{path}: is neither a report (pytest --perf-report=json:PATH) nor a prediction "
            "(perfassert predict --json)"
        )
    try:
        return _report(path, data) if "format" in data else _single(path, data)
    except ReportError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, PerfAssertError) as error:
        raise ReportError(f"{path}: is damaged: {type(error).__name__}: {error}") from None


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number that can be compared")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a number that can be compared")
    return value


def _report(path: Path, data: Mapping[str, Any]) -> ReportFile:
    if data["format"] != FORMAT:
        raise ReportError(f"{path}: is a {data['format']!r}, not a {FORMAT!r}")
    if data.get("schema") != SCHEMA:
        raise ReportError(
            f"{path}: has schema {data.get('schema')}, and this version reads {SCHEMA}; write it "
            "again with this version"
        )
    listed = list(_tests(data["tests"]))
    reports = dict(listed)
    if len(reports) < len(listed):
        twice = next(key for key, count in Counter(key for key, _ in listed).items() if count > 1)
        raise ReportError(f"{path}: {twice.label} of {twice.test!r} is there twice")
    broken = dict(_broken_tests(data))
    return ReportFile(path, data["model_version"], reports, single=False, broken=broken)


def _broken_tests(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for node in data["errors"]:
        yield node, "it could not be collected or set up"
    for test in data["tests"]:
        if test["outcome"] == "failed":
            yield test["nodeid"], " ".join((test["message"] or "it failed").split())[:_LONGEST]


def _tests(tests: list[Mapping[str, Any]]) -> Iterator[tuple[PredictionKey, Reported]]:
    for test in tests:
        own = Place(test["file"], test["line"]) if test["line"] else None
        for data in test["predictions"]:
            yield (
                PredictionKey(test["nodeid"], data["label"], data["device"]),
                _to_reported(data, own),
            )


def _single(path: Path, data: Mapping[str, Any]) -> ReportFile:
    reported = _to_reported(data, None)
    key = PredictionKey("", "", "")
    return ReportFile(path, reported.prediction.model_version, {key: reported}, True, {})


def _to_reported(data: Mapping[str, Any], own: Place | None) -> Reported:
    sources = data.get("sources", {})
    line = costliest(sources)
    place = own if line is None else Place(*line)
    metrics = data.get("metrics", {})
    return Reported(Prediction.from_dict(data), place, metrics, costs_of(sources))
