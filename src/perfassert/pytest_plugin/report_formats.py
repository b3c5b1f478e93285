"""Records of tests → files, in perfassert's own formats and those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from perfassert.report.document import Document, document, to_json
from perfassert.report.files import replace_file
from perfassert.report.formats import Format, report_format

_OWN = ("html", "md", "json", "csv", "sarif")


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
    replace_file(path, _text(name, document(tests, errors), root, passed))


def _text(name: str, report: Document, root: Path, passed: bool) -> str:
    if name == "json":
        return to_json(report)
    if name == "csv":
        from perfassert.report.spreadsheet import csv_text

        return csv_text(report)
    if name == "md":
        from perfassert.report.markdown import markdown

        return markdown(report, passed=passed)
    if name == "html":
        from perfassert.report.html import html

        return html(report, root)
    if name == "sarif":
        from perfassert.comparison.revisions import relative_to_roots, repository_root
        from perfassert.report.sarif import results_of_report, sarif_text

        below = relative_to_roots(root, [repository_root(root)])
        return sarif_text(results_of_report(report, below))
    predictions = [p for test in report["tests"] for p in test["predictions"]]
    return _plugin_format(name)(predictions)


def check_format(name: str) -> None:
    """:class:`~perfassert.errors.PluginError` for a format that neither we nor a plug-in have."""
    if name not in _OWN:
        _plugin_format(name)


def _plugin_format(name: str) -> Format:
    return report_format(name, _OWN)
