"""What has changed in code as text, Markdown, plain data, and annotations of GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from perfassert.comparison.github import annotation
from perfassert.comparison.kernel_changes import Change, CodeDiff, KernelDiff, Status
from perfassert.comparison.kernel_pairs import By
from perfassert.comparison.limits import CODE_UNITS
from perfassert.quantity import format_quantity
from perfassert.report.markdown_parts import LIMIT, Capped, code, heading, words
from perfassert.report.tables import percent

_HEADER = ("", "kernel", "arch", "what")
_WIDTH = 100
_MARKS = {
    Status.BROKEN: "❌", Status.GONE: "⚫", Status.WORSE: "🔴", Status.CHANGED: "🟡",
    Status.RENAMED: "🟢", Status.NEW: "🆕",
}  # fmt: skip
_ANNOTATED = (Status.BROKEN, Status.GONE, Status.WORSE)
_SHOWN = 10  # annotations that GitHub shows of one step

_UNSEEN = "other instructions, but the same numbers; what they cost, --launches says"


def headline(found: CodeDiff) -> str:
    """``"1 worse, 3 same"``."""
    counts = ", ".join(f"{number} {status.value}" for status, number in found.counts.items())
    return f"code of {found.base} → {found.head}: {counts or 'no kernels'}"


def text(found: CodeDiff) -> str:
    """What the command prints: a row for each kernel that is not the same."""
    parts = [headline(found)]
    parts += [_block(k) for k in _moved(found)]
    parts += [f"{file}: broken: {reason}" for file, reason in _files(found)]
    return "\n\n".join(parts)


def _block(kernel: KernelDiff) -> str:
    head = f"{kernel.status.value}: {kernel.name} ({kernel.pair.known.arch})"
    said = fill(what(kernel), _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"{head}\n{said}".rstrip()


def _files(found: CodeDiff) -> list[tuple[str, str]]:
    """Broken files of which no kernel says so already."""
    told = {k.file for k in found.of(Status.BROKEN)}
    return [(file, why) for file, why in found.broken.items() if file not in told]


def _moved(found: CodeDiff) -> list[KernelDiff]:
    return [k for k in found.kernels if k.status is not Status.SAME]


def what(kernel: KernelDiff) -> str:
    """What is too much first, then all that is another number."""
    said = "; ".join(_said(kernel))
    return said or (_UNSEEN if kernel.status is Status.CHANGED else "")


def _said(kernel: KernelDiff) -> Iterator[str]:
    if kernel.reason:
        yield " ".join(kernel.reason.split())
    if kernel.status is Status.NEW:
        yield from (f"{c.metric} {_shown(c, c.head)}" for c in kernel.changes if _tells(c))
        return
    if kernel.pair.by is By.CODE:
        yield "the same code"
    elif kernel.pair.by is By.LIKENESS:
        yield f"taken for the same: {percent(kernel.pair.likeness, signed=False)} alike"
    allowed = {f.partition(" (")[0]: f for f in kernel.failures}
    for change in sorted(kernel.changes, key=lambda c: c.metric not in allowed):
        limit = allowed.get(change.metric, "").removeprefix(change.metric)
        yield f"{_change(change)}{limit}"
    for change in kernel.accesses:
        yield f"{_change(change)}"
    named = {c.metric.partition(" ")[0] for c in kernel.accesses}
    for change in sorted(kernel.mix, key=_size)[:3]:
        if change.metric not in named:
            yield _change(change)


def _tells(change: Change) -> bool:
    """Of a new kernel: registers and spills in any case, the others where there are any."""
    return bool(change.head) or change.metric in ("registers", "spill_bytes")


def _size(change: Change) -> float:
    return -abs((change.head or 0.0) - (change.base or 0.0))


def _change(change: Change) -> str:
    return f"{change.metric} {_shown(change, change.base)} → {_shown(change, change.head)}"


def _shown(change: Change, value: float | None) -> str:
    if value is None:
        return "does not fit"
    if change.metric.startswith("occupancy"):
        return percent(value, signed=False)
    unit = CODE_UNITS.get(change.metric, "")
    return f"{value:.0f} {unit}".rstrip() if unit == "B" else format_quantity(value, unit)


def markdown(found: CodeDiff, failed: bool, limit: int = LIMIT) -> str:
    """A comment for a pull request."""
    out = Capped(limit)
    worst = next(iter(found.counts), Status.SAME)
    mark = _MARKS.get(worst, "✅")
    out.add(heading(mark, "Code of GPU kernels, head against base", failed))
    out.add(words(headline(found)))
    rows = [
        (f"{_MARKS[k.status]} {k.status.value}", code(k.name), words(k.pair.known.arch),
         words(what(k)))
        for k in _moved(found)
    ]  # fmt: skip
    left_out = out.add_table(_HEADER, rows, share=1.0)
    for file, reason in _files(found):
        out.add(f"{code(file)} is broken: {words(reason)}")
    return out.text(left_out)


def to_dict(found: CodeDiff) -> dict[str, Any]:
    """Plain data that JSON can hold."""
    return {
        "base": found.base,
        "head": found.head,
        "counts": {status.value: number for status, number in found.counts.items()},
        "broken": dict(found.broken),
        "kernels": [_data(k) for k in found.kernels],
    }


def _data(kernel: KernelDiff) -> dict[str, Any]:
    base, head = kernel.pair.base, kernel.pair.head
    return {
        "status": kernel.status.value,
        "base": base and base.name,
        "head": head and head.name,
        "mangled": kernel.pair.known.mangled,
        "arch": kernel.pair.known.arch,
        "file": kernel.file,
        "matched_by": kernel.pair.by.value if base and head else None,
        "likeness": kernel.pair.likeness if base and head else None,
        "failures": list(kernel.failures),
        "reason": kernel.reason,
        **{
            part: {c.metric: {"base": c.base, "head": c.head} for c in changes}
            for part, changes in (
                ("metrics", kernel.changes), ("mix", kernel.mix), ("accesses", kernel.accesses),
            )
        },
    }  # fmt: skip


def warnings(found: CodeDiff) -> Iterator[str]:
    """Workflow commands, one line each; the worst first."""
    worse = found.of(*_ANNOTATED)
    for kernel in worse[:_SHOWN]:
        yield annotation(f"{kernel.name} is {kernel.status.value}", what(kernel), kernel.file)
    for file, reason in _files(found):
        yield annotation(f"{file} is broken", reason, file)
    if len(worse) > _SHOWN:
        yield f"::notice::{len(worse) - _SHOWN} more kernels are worse or lost"
