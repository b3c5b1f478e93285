"""Page of what tests assert per kernel and device: limits, headroom and promises."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfassert.errors import printable
from perfassert.quantity import Quantity
from perfassert.report.document import Document
from perfassert.report.tables import percent
from perfassert.source import Assumption, SourceSpan

MARKER = "<!-- perfassert docs: generated, any change is lost -->"
_ADVICE = 3  # pieces for each test

Data = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass
class _Subject:
    """A launch of a kernel on one device, with the statements of tests about it.

    ``compared``: tests that rank the launch first, or compare it with a baseline.
    """

    data: Data
    tests: dict[str, str] = field(default_factory=dict)
    expectations: list[tuple[str, Data]] = field(default_factory=list)
    rankings: list[tuple[str, Data]] = field(default_factory=list)
    compared: set[str] = field(default_factory=set)


def performance_page(report: Document, command: str) -> str:
    """Return the page in Markdown, which depends on the arguments only.

    ``command`` is the command that makes the page again.
    """
    subjects = [subject for _, subject in sorted(_subjects(report).items())]
    parts = [
        MARKER,
        "# Performance",
        f"Predicted by perfassert {report['perfassert']} (model {report['model_version']}), "
        f"without a GPU, and asserted by the tests that are named. To make this page again:",
        f"```text\n{command}\n```",
        _table(
            ("kernel", "device", "block", "time", "limiter", "expectations"),
            [_overview(subject) for subject in subjects],
        ),
    ]
    kernel = None
    for subject in subjects:
        if subject.data["kernel"] != kernel:
            kernel = subject.data["kernel"]
            parts.append(f"## {_escape_markdown(kernel)}")
        parts += _section(subject)
    return "\n\n".join(parts) + "\n"


def _subjects(report: Document) -> dict[Key, _Subject]:
    """Return the subjects; equal predictions are one subject, whichever tests made them."""
    subjects: dict[Key, _Subject] = {}
    for test in report["tests"]:
        for data in test["predictions"]:
            key = (
                data["kernel"], data["device"], tuple(data["block"]), tuple(data["grid"]),
                data["time"], data["limiter"], data["device_digest"],
            )  # fmt: skip
            subject = subjects.setdefault(key, _Subject(data))
            subject.tests[test["nodeid"]] = test["outcome"]
            for expectation in data["expectations"]:
                subject.expectations.append((test["nodeid"], expectation))
            rankings = [r for r in test["rankings"] if r["label"] == data["label"]]
            subject.rankings += [(test["nodeid"], ranking) for ranking in rankings]
            if rankings or any(b["label"] == data["label"] for b in test["baselines"]):
                subject.compared.add(test["nodeid"])
    return subjects


def _overview(subject: _Subject) -> tuple[str, ...]:
    data, count = subject.data, len(subject.expectations)
    failed = sum(e["verdict"] == "FAIL" for _, e in subject.expectations)
    expectations = f"{count}, {failed} failed" if failed else str(count)
    return (
        _escape_markdown(data["kernel"]), _escape_markdown(data["device"]), _extent(data["block"]),
        _seconds(data["time"]), _escape_markdown(data["limiter"]), expectations,
    )  # fmt: skip


def _section(subject: _Subject) -> Iterator[str]:
    data = subject.data
    kernel, device = map(_escape_markdown, (data["kernel"], data["device"]))
    yield f"### {kernel} on {device}, block {_extent(data['block'])}"
    yield (
        f"Grid {_extent(data['grid'])}: {_seconds(data['time'])}, limited by {data['limiter']}; "
        f"occupancy {percent(data['occupancy']['fraction'], signed=False)}, limited by "
        f"{data['occupancy']['limited_by']}; {data['resources']['registers']} registers; "
        f"{data['confidence']}."
    )
    bounds = sorted(((-v, k) for k, v in data["bounds"].items() if v))
    if bounds:
        rows = [(name, _seconds(-v), f"{data['time'] / -v:.2f}×") for v, name in bounds]
        yield _table(("limit", "alone it takes", "time over it"), rows)
    if subject.expectations:
        header = ("metric", "expected", "predicted", "room", "verdict", "test")
        yield _table(header, [_expectation(test, e) for test, e in _expectations_by_test(subject)])
    for test, ranking in subject.rankings:
        yield f"The best of {len(ranking['candidates'])} candidates in {_code(test)}:"
        yield _ranking(ranking)
    expecting = {test for test, _ in subject.expectations} | subject.compared
    silent = sorted(subject.tests.keys() - expecting)
    if silent:
        yield f"Predicted without an expectation in {', '.join(map(_code, silent))}."
    unusual = sorted(
        (test, o.replace("xfailed", "expected to fail")) for test, o in subject.tests.items()
        if o != "passed"
    )  # fmt: skip
    if unusual:
        yield "\n".join(
            f"- {_code(test)}: {_escape_markdown(outcome)}" for test, outcome in unusual
        )
    yield from _advice(data)
    if data["assumptions"]:
        lines = [f"- {_escape_markdown(_assumption(a))}" for a in data["assumptions"]]
        yield "Assumed:\n\n" + "\n".join(dict.fromkeys(lines))


def _ranking(ranking: Data) -> str:
    """Return candidates by place; ``=``: not decided to be slower than the best."""
    candidates = ranking["candidates"]
    best = candidates[0]["time"]
    rows = [
        (
            f"{place}{' =' if place > 1 and one['tied_with_best'] else ''}",
            _escape_markdown(one["candidate"]),
            _seconds(one["time"]),
            percent(one["time"] / best - 1) if best else "",
            _escape_markdown(one["limiter"]),
        )
        for place, one in enumerate(candidates, 1)
    ]
    return _table(("place", "candidate", "time", "to the best", "limiter"), rows)


def _expectations_by_test(subject: _Subject) -> Sequence[tuple[str, Data]]:
    """Return the expectations by test, each once, in the order in which the test states them."""
    seen: dict[tuple[str, str, str], tuple[str, Data]] = {}
    for test, expectation in subject.expectations:
        seen.setdefault((test, expectation["metric"], expectation["expected"]), (test, expectation))
    return sorted(seen.values(), key=lambda pair: pair[0])


def _expectation(test: str, e: Data) -> tuple[str, ...]:
    room = percent(e["slack"]) if e["slack"] else ""
    if room and e["known_error"] != "exact":
        room += f" ({e['known_error']})"
    cells = (e["metric"], e["expected"], e["predicted"], room, e["verdict"])
    return (*map(_escape_markdown, cells), _code(test))


def _advice(data: Data) -> Iterator[str]:
    advice = data.get("advice") or ()
    if advice:
        yield "Advice:\n\n" + "\n".join(
            f"{n}. {a['optimizer']}, {_speedup(a)}: {_escape_markdown(a['suggestion'])}"
            for n, a in enumerate(advice[:_ADVICE], 1)
        )


def _speedup(advice: Data) -> str:
    return f"{advice['speedup']:.2f}× (formula {advice['formula_speedup']:.2f}×)"


def _assumption(data: Data) -> str:
    span = data["span"]
    return str(Assumption(data["text"], SourceSpan(*span[:2]) if span else None))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *[[_cell(c) for c in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Return text for a table cell: a backslash before a bar also works inside code."""
    return text.replace("|", "\\|")


def _escape_markdown(text: str) -> str:
    """Return text without tags (``star<double, 4>``), emphasis (underscores) or mentions."""
    text = _one_line(text).replace("&", "&amp;")
    for character in "\\`*_<>[]":
        text = text.replace(character, f"\\{character}")
    return text.replace("@", "&#64;")


def _code(text: str) -> str:
    """Return a name in code type, quoted by more backticks than it contains in a row."""
    text = _one_line(text)
    quote = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{quote}{blank}{text}{blank}{quote}"


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()), lines=False)


def _extent(extent: Sequence[int]) -> str:
    return "×".join(map(str, extent))


def _seconds(value: float) -> str:
    return str(Quantity(value, "s"))
