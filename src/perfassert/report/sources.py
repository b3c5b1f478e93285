"""Source lines of a prediction's code with their costs, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfassert.predictor.answer import Answer
from perfassert.predictor.diagnose.line_costs import line_costs
from perfassert.predictor.diagnose.line_findings import line_findings

Sources = Mapping[str, list[dict[str, Any]]]
"""File → lines with their costs, in order, as ``predictor/diagnose/line_costs.py`` has them."""
COSTS = ("sectors", "wavefronts", "instructions")


def sources(prediction: Answer, root: Path) -> Sources:
    """Return the lines of compiled code with their costs; files below ``root`` are relative."""
    result: dict[str, list[dict[str, Any]]] = {}
    for cost in line_costs(prediction):
        lines = result.setdefault(relative(cost.file, root), [])
        extra: dict[str, Any] = {"executed": cost.executed} if cost.executed else {}
        if any(cost.called):
            extra["called"] = list(cost.called)
        costs = {name: getattr(cost, name) for name in COSTS}
        lines.append({"line": cost.line, **costs, **extra})
    return result


def findings(prediction: Answer, root: Path) -> list[dict[str, Any]]:
    """Return the lines that waste memory traffic, and how; files as in :func:`sources`."""
    return [
        {**asdict(finding), "file": relative(finding.file, root)}
        for finding in line_findings(prediction)
    ]


def waits(prediction: Answer, root: Path) -> list[dict[str, Any]]:
    """Return which lines wait for which, if known; files are named as in :func:`sources`."""
    return [
        {**asdict(wait), **{k: relative(getattr(wait, k), root) for k in ("file", "for_file")}}
        for wait in prediction.diagnosis.waits
    ]


def relative(file: str, root: Path) -> str:
    """Return a file's path relative to the project; a file outside keeps its path."""
    try:
        return Path(file).relative_to(root).as_posix()
    except ValueError:
        return file


def costliest(lines_by_file: Sources) -> tuple[str, int] | None:
    """Return the project's line with the most memory requests, else the most instructions."""
    lines = [
        (*(line[name] for name in COSTS), file, line["line"])
        for file, its in lines_by_file.items()
        if not Path(file).is_absolute()
        for line in its
    ]
    if not lines:
        return None
    *_, file, line = max(lines, key=lambda row: (*row[:3], -row[4]))
    return file, line
