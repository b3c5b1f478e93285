"""Records of tests → files, in perfassert's own formats and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from perfassert.report.document import Document, document, to_json
from perfassert.report.files import replace_file
from perfassert.report.formats import Format, report_format
from perfassert.report.kinds import REPORT_KINDS


def write(
    name: str,
    path: Path,
    tests: Iterable[Mapping[str, Any]],
    errors: Iterable[str],
    root: Path,
    passed: bool,
) -> None:
    """Write one report; ``root``: folder that source files of the records are relative to;
    ``passed``: whether the run did."""
    replace_file(path, _write_format(name, document(tests, errors), root, passed))


def _json(report: Document, root: Path, passed: bool) -> str:
    return to_json(report)


def _csv(report: Document, root: Path, passed: bool) -> str:
    from perfassert.report.spreadsheet import csv_text

    return csv_text(report)


def _markdown(report: Document, root: Path, passed: bool) -> str:
    from perfassert.report.markdown import markdown

    return markdown(report, passed=passed)


def _html(report: Document, root: Path, passed: bool) -> str:
    from perfassert.report.html import html

    return html(report, root)


def _sarif(report: Document, root: Path, passed: bool) -> str:
    from perfassert.comparison.revisions import relative_to_roots, repository_root
    from perfassert.report.sarif import results_of_report, sarif_text

    below = relative_to_roots(root, [repository_root(root)])
    return sarif_text(results_of_report(report, below))


def _pytest_benchmark(report: Document, root: Path, passed: bool) -> str:
    from perfassert.report.benchmarks import pytest_benchmark_text

    return pytest_benchmark_text(report)


def _bencher(report: Document, root: Path, passed: bool) -> str:
    from perfassert.report.benchmarks import bencher_text

    return bencher_text(report)


def _nvbench(report: Document, root: Path, passed: bool) -> str:
    from perfassert.report.benchmarks import nvbench_text

    return nvbench_text(report)


WRITERS: Mapping[str, Callable[[Document, Path, bool], str]] = {
    "html": _html,
    "md": _markdown,
    "json": _json,
    "csv": _csv,
    "sarif": _sarif,
    "pytest-benchmark": _pytest_benchmark,
    "bencher": _bencher,
    "nvbench": _nvbench,
}
"""Kind of :data:`~perfassert.report.kinds.REPORT_KINDS` → its writer."""


def _write_format(name: str, report: Document, root: Path, passed: bool) -> str:
    if writer := WRITERS.get(name):
        return writer(report, root, passed)
    predictions = [p for test in report["tests"] for p in test["predictions"]]
    return _plugin_format(name)(predictions)


def check_format(name: str) -> None:
    """:class:`~perfassert.errors.PluginError` for a format that neither we nor a plug-in have."""
    if name not in REPORT_KINDS:
        _plugin_format(name)


def _plugin_format(name: str) -> Format:
    return report_format(name, REPORT_KINDS)
