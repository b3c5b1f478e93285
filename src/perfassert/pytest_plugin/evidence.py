"""Predictions of one test, as plain data for the reports of the session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perfassert.errors import PerfAssertError
from perfassert.pytest_plugin.session import Perf, Predicted, metrics_of
from perfassert.report.diagnosis import diagnosis
from perfassert.report.sources import findings, relative, sources
from perfassert.source import without_folder

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def evidence(
    item: pytest.Item, perf: Perf, error: BaseException | None, advice: bool
) -> dict[str, Any]:
    """Everything but the outcome, which only the finished report has.

    Stalls and advice are there where the test looked at them, where it failed, or for all with
    ``advice``.
    """
    root = item.config.rootpath
    file, line, _ = item.location
    blamed = _predictions_to_blame(perf.predicted) if isinstance(error, Exception) else []
    return {
        "nodeid": _node_id(item),
        "file": Path(file).as_posix(),
        "line": None if line is None else line + 1,
        "device": perf.device.name,
        "message": None if error is None else _message(error, root),
        "predictions": [
            _prediction(seen, advice or any(seen is b for b in blamed), root)
            for seen in perf.predicted
        ],
        "rankings": perf.rankings,
        "baselines": [
            {
                "name": r["key"][1],
                **{key: r[key] for key in ("status", "moved", "label")},
                **r.get("beside", {}),
            }
            for r in perf.baselines.records
        ],
    }


def _node_id(item: pytest.Item) -> str:
    """Return the node id without the group that xdist's loadgroup appends."""
    groups = {
        str(mark.args[0] if mark.args else mark.kwargs.get("name", "default"))
        for mark in item.iter_markers("xdist_group")
    }
    return item.nodeid.removesuffix(f"@{'_'.join(sorted(groups))}") if groups else item.nodeid


def _message(error: BaseException, root: Path) -> str:
    """Ours are tables; of any other error, its first line."""
    text = without_folder(str(error), root)
    if isinstance(error, (PerfAssertError, AssertionError)):
        return _ADDRESS.sub("0x…", text) or type(error).__name__
    first = _ADDRESS.sub("0x…", text.partition("\n")[0])
    return f"{type(error).__name__}: {first}".removesuffix(": ")


def _predictions_to_blame(predicted: list[Predicted]) -> list[Predicted]:
    """Return the predictions that failed an expectation, else the last one."""
    failed = [p for p in predicted if not all(o.passed for o in p.outcomes)]
    return failed or predicted[-1:]


def _prediction(seen: Predicted, advice: bool, root: Path) -> dict[str, Any]:
    p = seen.prediction
    try:
        data = p.to_dict(diagnosis=advice or p.diagnosed)
    except PerfAssertError:  # what it cannot say is no reason to lose the rest
        data = p.to_dict(diagnosis=False)
    _make_paths_relative(data, root)
    metrics = dict(metrics_of(p))
    metrics.pop("device")
    return {
        "label": seen.label,
        "note": seen.note,
        **data,
        "metrics": metrics,
        "expectations": [outcome.to_dict() for outcome in seen.outcomes],
        "sources": sources(p, root),
        "findings": findings(p, root),
        **(diagnosis(p, root) if "stalls" in data else {}),
    }


def _make_paths_relative(data: dict[str, Any], root: Path) -> None:
    """Files by their place in the project: the same wherever it lies."""
    for assumption in (*data["assumptions"], *data["confidence_reasons"]):
        assumption["text"] = without_folder(assumption["text"], root)
        if assumption["span"]:
            assumption["span"][0] = relative(assumption["span"][0], root)
    for advice in data.get("advice") or ():
        for place in (advice["context"], *advice["hotspots"]):
            if "file" in place:
                place["file"] = relative(place["file"], root)
