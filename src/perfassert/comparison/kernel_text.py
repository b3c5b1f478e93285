"""Output of changes in code: text, Markdown, plain data, and annotations for GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from perfassert.baseline.components import Change, Value
from perfassert.comparison.github import annotation
from perfassert.comparison.kernel_changes import CodeDiff, KernelDiff, number
from perfassert.comparison.kernel_pairs import By
from perfassert.comparison.limits import CODE_UNITS
from perfassert.comparison.status import MARKS, Status
from perfassert.quantity import format_quantity
from perfassert.report.markdown_parts import LIMIT, Capped, code, heading, report_link, words
from perfassert.report.tables import percent

_HEADER = ("", "kernel", "file", "arch", "what")
_WIDTH = 100  # columns of a terminal
_FAILING = "🔴"
_LOST = (Status.BROKEN, Status.GONE)
_ROWS = 40  # kernels in the table of a comment
_LONGEST = 500  # characters of a compiler's message there
_SHOWN = 10  # annotations that GitHub shows of one step

_UNSEEN = "other instructions, but the same numbers; what they cost, --launches says"


def headline(code_diff: CodeDiff) -> str:
    """Return a headline such as ``"1 worse, 3 same"``."""
    counts = ", ".join(f"{number} {status.value}" for status, number in code_diff.counts.items())
    return f"code of {code_diff.base} → {code_diff.head}: {counts or 'no kernels'}"


def text(code_diff: CodeDiff) -> str:
    """Return the command's output, with a block for each kernel that differs."""
    parts = [headline(code_diff)]
    parts += [_block(k) for k in _differing_kernels(code_diff)]
    parts += [f"{file}: broken: {reason}" for file, reason in _files(code_diff)]
    parts += [fill(f"note: {note}", _WIDTH) for note in code_diff.notes]
    return "\n\n".join(parts)


def _block(kernel: KernelDiff) -> str:
    arch = kernel.pair.known.arch
    head = f"{kernel.status.value}: {kernel.shown_name} ({arch}) in {kernel.shown_file}"
    description = fill(what(kernel), _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"{head}\n{description}".rstrip()


def _files(code_diff: CodeDiff) -> list[tuple[str, str]]:
    """Return the broken files that no kernel reports already."""
    reported = {k.file for k in code_diff.of(Status.BROKEN)}
    return [(file, why) for file, why in code_diff.broken.items() if file not in reported]


def _differing_kernels(code_diff: CodeDiff) -> list[KernelDiff]:
    return [k for k in code_diff.kernels if not _is_untouched(k)]


def _is_untouched(kernel: KernelDiff) -> bool:
    same_name = kernel.pair.by is By.NAME
    return kernel.status is Status.SAME and kernel.has_same_code and same_name


def _mark(kernel: KernelDiff) -> str:
    return _FAILING if kernel.failures else MARKS[kernel.status]


def what(kernel: KernelDiff) -> str:
    """Return the changes of a kernel: exceeded limits first, then all other changed values."""
    description = "; ".join(_statements(kernel))
    differs = kernel.pair.base and kernel.pair.head and not kernel.has_same_code
    return description or (_UNSEEN if differs else "")


def _statements(kernel: KernelDiff) -> Iterator[str]:
    if kernel.reason:
        yield " ".join(kernel.reason.split())
    if kernel.status is Status.NEW:
        yield from (
            f"{c.metric} {_format_value(c, c.after)}" for c in kernel.changes if _is_shown(c)
        )
        return
    if kernel.pair.by is By.CODE:
        yield "the same code"
    elif kernel.pair.by is By.LIKENESS:
        yield f"taken for the same: {percent(kernel.pair.likeness, signed=False)} alike"
    allowed = {f.partition(" (")[0]: f for f in kernel.failures}
    for change in kernel.changes:
        if limit := allowed.get(change.metric):
            yield f"{_change(change)}{limit.removeprefix(change.metric)}"
    if kernel.proposed is not None:
        yield str(kernel.proposed)
    yield from (_change(c) for c in kernel.changes if c.metric not in allowed)
    for change in kernel.accesses:
        yield f"{_change(change)}"
    named = {c.metric.partition(" ")[0] for c in kernel.accesses}
    for change in sorted(kernel.mix, key=_size)[:3]:
        if change.metric not in named:
            yield _change(change)


def _is_shown(change: Change) -> bool:
    """Return True if a new kernel's metric is shown: registers and spills always, others if > 0."""
    return bool(change.after) or change.metric in ("registers", "spill_bytes")


def _size(change: Change) -> float:
    return -abs(number(change.after) - number(change.before))


def _change(change: Change) -> str:
    before, after = _format_value(change, change.before), _format_value(change, change.after)
    return f"{change.metric} {before} → {after}"


def _format_value(change: Change, value: Value) -> str:
    if not isinstance(value, (int, float)):
        return "does not fit"
    if change.metric.startswith("occupancy"):
        return percent(value, signed=False)
    unit = CODE_UNITS.get(change.metric, "")
    return f"{value:.0f} {unit}".rstrip() if unit == "B" else format_quantity(value, unit)


def markdown(code_diff: CodeDiff, failed: bool, limit: int = LIMIT, link: str = "") -> str:
    """Return a comment for a pull request: the verdict, and a row for each changed kernel."""
    out = Capped(limit)
    mark = _mark(code_diff.kernels[0]) if code_diff.kernels else MARKS[Status.SAME]
    out.add(heading(mark, f"GPU kernels, {words(headline(code_diff))}", failed))
    rows = [
        (f"{_mark(k)} {k.status.value}", code(k.shown_name), words(k.shown_file),
         words(k.pair.known.arch), words(what(k)))
        for k in _differing_kernels(code_diff)
    ]  # fmt: skip
    for file, reason in _files(code_diff)[:_ROWS]:
        out.add(f"{code(file)} is broken: {words(reason)[:_LONGEST]}")
    for note in code_diff.notes:
        out.add(words(note)[:_LONGEST])
    out.add_table(_HEADER, rows[:_ROWS], share=1.0, total=len(rows))
    if link:
        out.add(report_link(link))
    return out.text()


def to_dict(code_diff: CodeDiff) -> dict[str, Any]:
    """Return plain data that JSON can hold."""
    return {
        "base": code_diff.base,
        "head": code_diff.head,
        "counts": {status.value: number for status, number in code_diff.counts.items()},
        "broken": dict(code_diff.broken),
        "notes": list(code_diff.notes),
        "kernels": [_data(k) for k in code_diff.kernels],
    }


def _data(kernel: KernelDiff) -> dict[str, Any]:
    base, head = kernel.pair.base, kernel.pair.head
    return {
        "status": kernel.status.value,
        "base": base and base.name,
        "head": head and head.name,
        "mangled": kernel.pair.known.mangled,
        "arch": kernel.pair.known.arch,
        "file": kernel.shown_file,
        "same_code": kernel.has_same_code,
        "matched_by": kernel.pair.by.value if base and head else None,
        "likeness": kernel.pair.likeness if base and head else None,
        "failures": list(kernel.failures),
        "reason": kernel.reason,
        "proposed": _proposed_data(kernel),
        **{
            part: {c.metric: {"base": c.before, "head": c.after} for c in changes}
            for part, changes in (
                ("metrics", kernel.changes), ("mix", kernel.mix), ("accesses", kernel.accesses),
            )
        },
    }  # fmt: skip


def _proposed_data(kernel: KernelDiff) -> dict[str, Any] | None:
    times = kernel.proposed
    if times is None:
        return None
    return {
        "device": times.device,
        "launch": times.launch,
        "base": float(times.base),
        "head": float(times.head),
        "difference": times.relative_change,
    }


def warnings(code_diff: CodeDiff) -> Iterator[str]:
    """Yield GitHub workflow commands, one line each, worst first."""
    worse = [k for k in code_diff.kernels if k.failures or k.status in _LOST]
    for kernel in worse[:_SHOWN]:
        yield annotation(f"{kernel.shown_name} is {kernel.status.value}", what(kernel), kernel.file)
    for file, reason in _files(code_diff):
        yield annotation(f"{file} is broken", reason, file)
    if len(worse) > _SHOWN:
        yield f"::notice::{len(worse) - _SHOWN} more kernels are worse or lost"
