"""Report of a session as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfassert.frontends.toolchain.names import short_label
from perfassert.quantity import format_quantity
from perfassert.report.document import FAILED, Document, summary
from perfassert.report.markdown_parts import (
    LIMIT,
    Capped,
    code,
    details,
    fenced_block,
    heading,
    table,
    words,
)
from perfassert.report.reason import reason

_HEADER = ("test", "kernel", "device", "block", "time", "limiter", "verdict")
_FOR_FAILURES = 0.6  # of the limit, if there are so many
_ERRORS = 20  # node IDs that are listed
_LINE = 300  # characters of a cause
_LONGEST = 12_000  # characters of one message


def markdown(report: Document, limit: int = LIMIT, passed: bool = True) -> str:
    """Return the verdict, the cause of each failure, and all predictions, folded away.

    The text is never longer than ``limit`` characters.
    """
    text = Capped(limit)
    failed = [test for test in report["tests"] if test["outcome"] == FAILED]
    bad = not passed or failed or report["errors"]
    text.add(heading("✅", f"Predicted performance: {words(summary(report))}", bad))
    if report["errors"]:
        listed = ", ".join(map(code, report["errors"][:_ERRORS]))
        text.add(f"Not run for an error: {listed}")
    failures = Capped(int(limit * _FOR_FAILURES))
    kept = [failures.add(_failure(test)) for test in failed]
    for part in failures.parts:
        text.add(part)
    if not all(kept):
        text.add(f"… and {kept.count(False)} more failures")
    rows = [_test_row(test, p) for test in report["tests"] for p in test["predictions"]]
    title = f"All predictions, of model version {words(report['model_version'])}, without a GPU"
    text.add_table(_HEADER, rows, share=0.98, right=(4,), summary=title)
    return text.text()


def _test_row(test: Mapping[str, Any], p: Mapping[str, Any]) -> tuple[str, ...]:
    failed = [e["metric"] for e in p["expectations"] if e["verdict"] == "FAIL"]
    verdict = f"**{words(', '.join(failed))}**" if failed else words(test["outcome"])
    if p["confidence"] == "guessed":
        verdict += " (guessed)"
    note = f" ({words(p['note'])})" if p["note"] else ""
    return (
        code(test["nodeid"].rpartition("::")[2]),
        f"{code(short_label(p['label']))}{note}",
        words(p["device"]),
        "×".join(map(str, p["block"])),
        format_quantity(p["time"], "s"),
        words(p["limiter"]),
        verdict,
    )


def _failure(test: Mapping[str, Any]) -> str:
    message = test["message"] or test["outcome"]
    causes = filter(None, (reason(test, p) for p in test["predictions"]))
    headline = next(causes, message.partition("\n")[0])
    place = f"{test['file']}:{test['line']}" if test["line"] else test["file"]
    parts = [f"{code(place)} on {words(test['device'])}"]
    expected = [
        (
            code(short_label(p["label"])),
            *(words(e[k]) for k in ("metric", "expected", "predicted", "verdict")),
        )
        for p in test["predictions"]
        for e in p["expectations"]
    ]
    if expected:
        header = ("kernel", "metric", "expected", "predicted", "verdict")
        parts.append(table(header, expected))
    shown = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}\n…"
    parts.append(fenced_block(shown))
    return details(f"{code(test['nodeid'])}: {words(headline[:_LINE])}", "\n\n".join(parts))
