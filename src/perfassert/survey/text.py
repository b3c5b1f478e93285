"""Output of a survey: table, Markdown, plain data, and results for code scanning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfassert.comparison.github import annotation
from perfassert.comparison.revisions import relative_to_roots
from perfassert.frontends.toolchain.labels import kernel_labels
from perfassert.quantity import round_significant
from perfassert.report.markdown_parts import LIMIT, Capped, code, words
from perfassert.report.markdown_parts import table as markdown_table
from perfassert.report.sarif import SarifResult
from perfassert.report.tables import Text, join, table
from perfassert.survey.pins import PinChange
from perfassert.survey.survey import Survey, SurveyRow

_ROWS = 40  # of the table
_ANNOTATED = 10  # warnings that GitHub shows of one step
_HEADER = ("kernel", "file", "arch", "registers", "spills", "findings")
_RULES = {
    "spills": "register-spill",
    "uncoalesced": "uncoalesced-access",
    "bank-conflicts": "bank-conflict",
}


def headline(survey: Survey) -> str:
    """Return a headline: ``"202 kernels, 31 with findings: 12 spills, 9 uncoalesced"``."""
    count, wasteful = len(survey.rows), sum(bool(row.findings) for row in survey.rows)
    kinds = ", ".join(f"{n} {kind}" for kind, n in survey.counts.items())
    share = f"{wasteful} with findings: {kinds}" if wasteful else "none with findings"
    return f"{count} kernel{'s' * (count != 1)}, {share}"


def text(survey: Survey, changes: Sequence[PinChange] | None = None) -> Text:
    """Return the command's output: the worst kernels, unreadable files, changes since the pins."""
    wasteful = _wasteful(survey)
    parts: list[Any] = [headline(survey)]
    if survey.devices:
        known = ", ".join(f"{name} for {arch}" for arch, name in survey.devices.items())
        parts[0] += f"\noccupancy: {known}"
    if wasteful:
        parts.append(table(_HEADER, [_cells(*one) for one in wasteful[:_ROWS]]))
    if len(wasteful) > _ROWS:
        parts.append(f"… and {len(wasteful) - _ROWS} more; --json has all")
    parts += [f"{file}: not read: {' '.join(why.split())}" for file, why in survey.broken.items()]
    if changes is not None:
        parts.append("\n".join(_change_lines(changes)) or "as pinned")
    return join(parts)


def _change_lines(changes: Sequence[PinChange]) -> Iterator[str]:
    for change in changes:
        kind = "worse" if change.worse else "better"
        yield f"{kind}: {change.kernel} in {change.file}: {change.text}"


def _wasteful(survey: Survey) -> list[tuple[SurveyRow, str]]:
    """Return the kernels that have findings, each with its short name among all kernels."""
    labels = kernel_labels([(row.file, row.info.mangled) for row in survey.rows])
    return [(row, name) for row, name in zip(survey.rows, labels, strict=True) if row.findings]


def _cells(row: SurveyRow, name: str) -> tuple[object, ...]:
    info = row.info
    findings = "; ".join(f"{f.kind}: {f.message}" for f in row.findings)
    return (name, row.file, info.arch, info.registers, f"{info.spill_bytes} B", findings)


def markdown(survey: Survey, changes: Sequence[PinChange] | None = None, limit: int = LIMIT) -> str:
    """Return a comment for a pull request."""
    out = Capped(limit)
    out.add(f"### GPU kernels: {words(headline(survey))}")
    for change in (changes or ())[:_ROWS]:
        mark = "🟠" if change.worse else "🟢"
        out.add(f"{mark} {code(change.kernel)} in {words(change.file)}: {words(change.text)}")
    rows = [
        (code(name), words(row.file), words(row.info.arch),
         str(row.info.registers), f"{row.info.spill_bytes} B",
         "<br>".join(words(f"{f.kind}: {f.message}") for f in row.findings))
        for row, name in _wasteful(survey)
    ]  # fmt: skip
    if rows:
        out.add(markdown_table(_HEADER, rows[:_ROWS], right=(3, 4)))
    if len(rows) > _ROWS:
        out.add(f"… and {len(rows) - _ROWS} more")
    return out.text()


def to_dict(survey: Survey, changes: Sequence[PinChange] | None = None) -> dict[str, Any]:
    """Return plain data that JSON can hold, with whole names."""
    data: dict[str, Any] = {
        "counts": dict(survey.counts),
        "devices": dict(survey.devices),
        "broken": dict(survey.broken),
        "kernels": [_data(row) for row in survey.rows],
    }
    return data | ({} if changes is None else {"changes": [asdict(c) for c in changes]})


def _data(row: SurveyRow) -> dict[str, Any]:
    findings = [asdict(f) | {"cost": round_significant(f.cost)} for f in row.findings]
    return {**asdict(row.info), "file": row.file, "findings": findings}


def results(survey: Survey, roots: Sequence[Path]) -> Iterator[SarifResult]:
    """Yield each finding at its file, for code scanning."""
    for row in survey.rows:
        file = relative_to_roots(row.path, roots)
        for finding in row.findings:
            rule = _RULES.get(finding.kind, finding.kind)
            message = f"{row.info.name} ({row.info.arch}): {finding.message}"
            yield SarifResult(rule, message, file)


def warnings(changes: Sequence[PinChange]) -> Iterator[str]:
    """Yield GitHub workflow commands, one line each."""
    for change in changes[:_ANNOTATED]:
        kind = "worse" if change.worse else "better"
        yield annotation(f"{change.kernel} is {kind} than pinned", change.text, change.file)
