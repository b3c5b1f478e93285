"""A comparison as text, as plain data, as a comment on a pull request, and as annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfassert.baseline.compare import SLIGHT
from perfassert.baseline.components import Change
from perfassert.comparison.compare import Item, ReportComparison
from perfassert.comparison.github import annotation
from perfassert.comparison.line_changes import LineChange
from perfassert.comparison.status import MARKS, Status
from perfassert.frontends.toolchain.names import short_label
from perfassert.report.markdown_parts import (
    LIMIT,
    Capped,
    code,
    details,
    heading,
    report_link,
    words,
)
from perfassert.report.markdown_parts import table as markdown_table
from perfassert.report.sources import COSTS
from perfassert.report.tables import Table, Text, join, percent, table

_QUIET = (Status.SAME, Status.WITHIN)
_WORSE = (Status.SLOWER, Status.BROKEN, Status.GONE, Status.INCOMPARABLE)
_HEADER = ("", "test", "kernel", "device", "base", "head", "difference")
_COMPONENTS = ("component", "base", "head", "difference")
_LINES = ("line", *COSTS)
_METRICS_BESIDE_TIME = (
    "confidence",
    "spill_bytes",
    "dram_load",
    "dram_store",
    "l2_load",
    "l2_store",
)
"""Metrics that are shown if they grow while the time stays the same."""
_OF_NEW = ("time", "registers", "spill_bytes")
"""Metrics that are shown of a new prediction, which has no base."""
_EXPLAINED = 20  # predictions whose components are printed
_ROWS = 30  # predictions in the table of a comment
_LISTED = 40  # components of one prediction in a comment
_LONGEST = 300  # characters of a cause in the line that unfolds
_LINED = 8  # lines of one prediction
_ANNOTATED = 10  # warnings that GitHub shows of one step


def headline(comparison: ReportComparison) -> str:
    """Return a headline such as ``"1 slower, 3 same (tolerance 2 %)"``."""
    counts = [f"{number} {status.value}" for status, number in comparison.counts.items()]
    return f"{', '.join(counts) or 'no predictions'} (tolerance {comparison.tolerance.text})"


def text(comparison: ReportComparison) -> Text:
    """Return the command's output: all predictions that changed, then their components."""
    moved = [item for item in comparison.items if item.status not in _QUIET]
    parts: list[str | Table | Text] = [headline(comparison)]
    if beside := tuple(_worse_with_equal_time(comparison)):
        parts.append("\n  ".join(("as fast as before, but:", *beside)))
    if moved:
        parts.append(table(("status", *_HEADER[1:]), [_cells(item) for item in moved]))
    if new := tuple(_new(comparison)):
        parts.append("\n  ".join(("new, compared with nothing:", *new)))
    for item in moved[:_EXPLAINED]:
        if item.reason:
            parts.append(f"{_title(item)}: {item.reason}")
        if item.components:
            rows = [_component(c) for c in item.components]
            parts.append(join((_title(item), table(_COMPONENTS, rows)), "\n"))
        if lines := [_line_row(change) for change in item.lines[:_LINED]]:
            parts.append(table(_LINES, lines))
    if len(moved) > _EXPLAINED:
        parts.append(f"… and {len(moved) - _EXPLAINED} more; --json has all")
    return join(parts)


def markdown(comparison: ReportComparison, failed: bool, limit: int = LIMIT, link: str = "") -> str:
    """Return a comment: the verdict, a row for each changed prediction, and causes of worse ones.

    The differences are folded away. ``link`` is the address of the report.
    """
    out = Capped(limit)
    mark = MARKS[next(iter(comparison.counts), Status.SAME)]
    out.add(heading(mark, f"Predicted performance: {words(headline(comparison))}", failed))
    if beside := tuple(_worse_with_equal_time(comparison))[:_EXPLAINED]:
        out.add("\n".join(("As fast as before, but:\n", *(f"- {words(line)}" for line in beside))))
    moved = [item for item in comparison.items if item.status not in _QUIET]
    rows = [_markdown_cells(item) for item in moved]
    out.add_table(_HEADER, rows[:_ROWS], share=0.5, right=(4, 5, 6), total=len(rows))
    if new := tuple(_new(comparison))[:_EXPLAINED]:
        out.add("\n".join(("New, compared with nothing:\n", *(f"- {words(x)}" for x in new))))
    if link:
        out.add(report_link(link))
    worse = comparison.of(*_WORSE)
    explained = [out.add(_details(item)) for item in worse[:_EXPLAINED]].count(True)
    return out.text(len(worse) - explained)


def _worse_with_equal_time(comparison: ReportComparison) -> Iterator[str]:
    """Yield predictions with an unchanged time, but a guess, spills or traffic beyond tolerance."""
    for item in comparison.of(*_QUIET):
        worsened = [
            d for d in item.metrics if d.metric in _METRICS_BESIDE_TIME and _grown(comparison, d)
        ]
        if worsened:
            changes = (f"{d.metric} {' → '.join(d.values)}" for d in worsened)
            yield f"{_title(item)}: {', '.join(changes)}"


def _new(comparison: ReportComparison) -> Iterator[str]:
    """Yield the figures of new predictions: without a base, a reviewer has to judge them."""
    for item in comparison.of(Status.NEW):
        values = {d.metric: d.values[1] for d in item.metrics}
        figures = ", ".join(
            f"{name.replace('_', ' ')} {values[name]}" for name in _OF_NEW if name in values
        )
        yield f"{_title(item)}: {figures}"


def _grown(comparison: ReportComparison, difference: Change) -> bool:
    before, after = difference.before, difference.after
    if not (isinstance(before, (int, float)) and isinstance(after, (int, float))):
        return True
    return after > before + abs(before) * comparison.tolerance.above.share


def to_dict(comparison: ReportComparison) -> dict[str, Any]:
    """Return plain data for JSON; numbers in base units, differences as shares of the base."""
    return {
        "tolerance": comparison.tolerance.text,
        "counts": {status.value: number for status, number in comparison.counts.items()},
        "predictions": [_data(item) for item in comparison.items],
    }


def _data(item: Item) -> dict[str, Any]:
    base, head = (side and float(side.prediction.time) for side in (item.base, item.head))
    place = item.place
    return {
        "test": item.key.test,
        "label": item.key.label or item.reported.prediction.kernel,
        "device": item.device,
        "status": item.status.value,
        "reason": item.reason,
        "time": {"base": base, "head": head, "difference": item.relative_change},
        "metrics": {
            d.metric: {"base": d.before, "head": d.after, "difference": d.relative_change}
            for d in item.metrics
        },
        "components": [
            {"name": c.name, "base": c.before, "head": c.after, "difference": c.relative_change}
            for c in item.components
        ],
        "lines": [
            {
                "file": c.file,
                "base": c.base_line or None,
                "head": c.head_line or None,
                **{
                    name: {"base": a, "head": b}
                    for name, a, b in zip(COSTS, c.before, c.after, strict=True)
                },
            }
            for c in item.lines
        ],
        "file": place and place.file,
        "line": place and place.line,
    }


def kernel(item: Item) -> str:
    """Return the name that reports have, short enough for a table."""
    return short_label(item.key.label or item.reported.prediction.kernel)


def _test(item: Item) -> str:
    """Return the test's name without the device, which has a column of its own."""
    name, device = item.key.test.rpartition("::")[2], item.key.device
    return name.replace(f"[{device}]", "").replace(f"[{device}-", "[") if device else name


def _title(item: Item) -> str:
    """Return test and kernel, once if they have the same name, and the device."""
    names = dict.fromkeys(filter(None, (_test(item), kernel(item))))
    return f"{': '.join(names)} on {item.device}"


def times(item: Item) -> tuple[str, str, str]:
    """Return the base's time, the head's, and the difference."""
    base, head = (str(side.prediction.time) if side else "" for side in (item.base, item.head))
    return base, head, "" if item.relative_change is None else percent(item.relative_change)


def _cells(item: Item) -> tuple[str, ...]:
    test = item.key.test.rpartition("::")[2]
    return (item.status.value, test, kernel(item), item.device, *times(item))


def _markdown_cells(item: Item) -> tuple[str, ...]:
    status, _, name, device, base, head, difference = _cells(item)
    test = _test(item)
    bold = f"**{difference}**" if item.status is Status.SLOWER else difference
    return (
        f"{MARKS[item.status]} {status}", code(test) if test else "", code(name),
        words(device), base, head, bold,
    )  # fmt: skip


def _line_row(change: LineChange) -> tuple[str, ...]:
    pairs = zip(change.before, change.after, strict=True)
    return change.place, *(f"{a:.3g}" if a == b else f"{a:.3g} → {b:.3g}" for a, b in pairs)


def _component(c: Change) -> tuple[str, str, str, str]:
    return (c.name, *c.values, c.percent_text)


def _details(item: Item) -> str:
    """Return a line with the cause, which unfolds to the differences."""
    cause = item.reason or f"{item.status.value} {times(item)[2]}".rstrip()
    place = f" ({code(f'{item.place.file}:{item.place.line}')})" if item.place else ""
    line = f"{code(_title(item))}: {words(cause[:_LONGEST])}{place}"
    body = "\n\n".join(_body(item))
    return details(line, body) if body else f"- {line}"


def _body(item: Item) -> Iterator[str]:
    if len(item.reason) > _LONGEST:
        yield words(item.reason)
    relative = [(c, c.relative_change) for c in item.components]
    visible = [c for c, change in relative if change is None or abs(change) >= SLIGHT]
    if rows := [tuple(map(words, _component(c))) for c in visible]:
        yield markdown_table(_COMPONENTS, rows[:_LISTED], right=(1, 2, 3))
        if len(rows) > _LISTED:
            yield f"… and {len(rows) - _LISTED} more"
    if lines := [tuple(map(words, _line_row(change))) for change in item.lines[:_LINED]]:
        yield markdown_table(_LINES, lines, right=(1, 2, 3))


def warnings(comparison: ReportComparison) -> Iterator[str]:
    """Yield GitHub workflow commands, one line each, worst first."""
    worse = comparison.of(*_WORSE)
    for item in worse[:_ANNOTATED]:
        yield _slower(item) if item.status is Status.SLOWER else _missing_annotation(item)
    if len(worse) > _ANNOTATED:
        kinds = "slower, missing or incomparable"
        yield f"::notice::{len(worse) - _ANNOTATED} more predictions are {kinds}"


def _slower(item: Item) -> str:
    base, head, difference = times(item)
    test = f" in {item.key.test}" if item.key.test else ""
    causes = "; ".join(map(str, item.components[:3]))
    text = f"{kernel(item)} on {item.device}: {base} → {head} ({difference}){test}"
    title = f"{kernel(item)} is predicted to be slower"
    place = (item.place.file, item.place.line) if item.place else ("", 0)
    return annotation(title, text + (causes and f": {causes}"), *place)


def _missing_annotation(item: Item) -> str:
    title = f"{kernel(item)} is {item.status.value}"
    test = f" in {item.key.test}" if item.key.test else ""
    incomparable = item.status is Status.INCOMPARABLE
    what = "cannot be compared" if incomparable else "has no prediction"
    sentence = f"{kernel(item)} on {item.device} {what}{test}"
    return annotation(title, sentence + (item.reason and f": {item.reason}"))
