"""History of baselines as one HTML file: every metric over the commits that wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from perfassert.baseline.compare import foreign, other_model
from perfassert.baseline.components import same
from perfassert.baseline.entry import Entry, stored_metrics, unit_of
from perfassert.comparison.compare import DEFAULT_TOLERANCE, time_tolerance
from perfassert.comparison.history import BaselineHistory, Commit, History, cause_of
from perfassert.expect.metrics import Kind
from perfassert.report.page import page
from perfassert.version import VERSION

_DIGITS = 12  # of a commit
_MORE_IS_BETTER = ("occupancy",)


def history_page(history: History, revisions: str) -> str:
    """Return the page; ``revisions`` are named in the heading as the user gave them."""
    return page("history", "Predicted performance over the commits", page_data(history, revisions))


def page_data(history: History, revisions: str) -> Mapping[str, Any]:
    """Return the page's data: numbered commits, and values at the commits that change them."""
    numbers = {commit.digest: number for number, commit in enumerate(history.commits)}
    lines = [_line_data(line, numbers) for line in history.lines]
    used = {name for line in lines for name in line["points"]}
    metrics = [m.name for m in stored_metrics() if m.name in used]
    tolerance = time_tolerance(DEFAULT_TOLERANCE).above.share
    slower = sum(line.loss > tolerance for line in history.lines)
    return {
        "summary": f"{slower or 'None'} of {len(lines)} baselines {'are' if slower > 1 else 'is'} "
        f"slower than at first (tolerance {DEFAULT_TOLERANCE}); commits of {revisions} that wrote "
        f"baselines: {len(history.commits)}. perfassert {VERSION}; nothing was predicted again.",
        "commits": [_commit(commit) for commit in history.commits],
        "metrics": [[name, unit_of((name,)), name in _MORE_IS_BETTER] for name in metrics],
        "lines": lines,
        "tolerance": tolerance,
        "unreadable": history.unreadable,
    }


def _commit(commit: Commit) -> Sequence[str]:
    return commit.digest[:_DIGITS], commit.date, commit.author, commit.subject


def _line_data(line: BaselineHistory, numbers: Mapping[str, int]) -> Mapping[str, Any]:
    states = [(numbers[commit.digest], entry) for commit, entry in line.states]
    causes: dict[int, str] = {}
    breaks = []
    for (_, old), (at, new) in pairwise(states):
        if reason := other_model(line.key, old, new) or foreign(line.key, old, new):
            breaks.append(at)
        causes[at] = reason or cause_of(old, new)
    return {
        "name": line.name,
        "device": line.key.device,
        "file": line.file,
        "points": _points(states),
        "breaks": breaks,
        "causes": causes,
    }


def _points(states: Sequence[tuple[int, Entry]]) -> Mapping[str, list[tuple[int, float]]]:
    """Return metric → its values, each with the number of the commit that wrote it first."""
    points: dict[str, list[tuple[int, float]]] = {}
    for at, entry in states:
        for metric in stored_metrics():
            value = entry.get(metric.name)
            if metric.kind is Kind.NAME or value is None:
                continue
            recorded = points.setdefault(metric.name, [])
            if not recorded or not same(recorded[-1][1], value):
                recorded.append((at, float(value)))
    return points
