"""Reason why a prediction fails, as one sentence to paste into a review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perfassert.quantity import format_quantity
from perfassert.report.sources import COSTS

Data = Mapping[str, Any]


def reason(test: Data, p: Data) -> str:
    """Return kernel, device, failure, its cause and source line; ``""`` if nothing has failed.

    ``test`` and ``p`` are plain data of a report's test and of one of its predictions.
    """
    text = _regression(test, p) or _failed_expectations(p)
    return text and f"{p['label']} on {p['device']}: {text}"


def _regression(test: Data, p: Data) -> str:
    for baseline in test["baselines"]:
        if baseline.get("label") == p["label"] and baseline.get("cause"):
            times = (format_quantity(t, "s") for t in (baseline["base"]["time"], p["time"]))
            return f"{' → '.join(times)}, {baseline['cause']}"
    return ""


def _failed_expectations(p: Data) -> str:
    failed = [
        f"{e['metric']} is {e['predicted']}, expected {e['expected']}"
        for e in p["expectations"]
        if e["verdict"] == "FAIL"
    ]
    return "; ".join((*failed, *_main_cause(p))) if failed else ""


def _main_cause(p: Data) -> Iterator[str]:
    """Yield the finding of the costliest line; without findings, the limiter of the launch."""
    costs = {
        (file, line["line"]): tuple(line[name] for name in COSTS)
        for file, lines in p["sources"].items()
        for line in lines
    }
    findings = p.get("findings") or ()
    if findings:
        worst = max(findings, key=lambda f: costs.get((f["file"], f["line"]), ()))
        yield f"{worst['message']}, at {worst['file']}:{worst['line']}"
    elif p["limiter"]:
        yield f"limited by {p['limiter']}"
