"""Records of tests → files, in perfassert's own formats and those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from perfassert.pytest_plugin.reports import FORMATS
from perfassert.report.document import Document, document, to_json
from perfassert.report.files import replace_file


def write(
    name: str, path: Path, tests: Iterable[Mapping[str, Any]], errors: Iterable[str], root: Path
) -> None:
    """Write one report; ``root``: folder that source files of the records are relative to."""
    replace_file(path, _text(name, document(tests, errors), root))


def _text(name: str, report: Document, root: Path) -> str:
    if name == "json":
        return to_json(report)
    if name == "md":
        from perfassert.report.markdown import markdown

        return markdown(report)
    if name == "html":
        from perfassert.report.html import html

        return html(report, root)
    from perfassert.report.formats import report_format

    predictions = [p for test in report["tests"] for p in test["predictions"]]
    return report_format(name, FORMATS)(predictions)
