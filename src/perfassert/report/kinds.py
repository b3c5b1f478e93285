"""Kinds of report that ``--perf-report=KIND:PATH`` writes; help, errors and the manual list these.

Imports nothing: the options of pytest are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping

REPORT_KINDS: Mapping[str, str] = {
    "html": "people: a single file that works offline",
    "md": "a comment on a pull request, at most 65,536 characters",
    "json": "programs, and perfassert compare",
    "csv": "spreadsheets: a line for each prediction with every metric, numbers in base units",
    "sarif": "code scanning and editors: results at source lines",
    "pytest-benchmark": "pytest-benchmark compare, and what reads its JSON",
    "bencher": "Bencher: its Metric Format (BMF), which bencher run --adapter json reads",
    "nvbench": "nvbench_compare, beside what nvbench measured",
}
"""Kind → readers that it is for."""
OTHER_NAMES: Mapping[str, str] = {"markdown": "md"}
"""Another name of a kind → the kind."""


def list_kinds() -> str:
    """Return the kinds as an option takes them: ``"html:PATH, md:PATH, …"``."""
    return ", ".join(f"{kind}:PATH" for kind in REPORT_KINDS)
