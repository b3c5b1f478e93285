"""Places of loops in the source, and the name of each copy that the compiler made of a loop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perfassert.frontends.machine.control_flow import Flow, NaturalLoop
from perfassert.frontends.machine.inlining import PlacedInstruction
from perfassert.source import SourceSpan

_KEYWORD = re.compile(r"\b(?:for|while|do|goto)\b")
_ABOVE = 3
"""Lines above a loop's first one that its head may stand on."""


def loop_span(
    loop: NaturalLoop, flow: Flow, placed: Sequence[PlacedInstruction], files: Mapping[str, str]
) -> SourceSpan | None:
    """The line of the loop's head: of the lines its jumps are on, or that it begins with, the
    first that has a keyword of a loop; the first line where none has."""
    latches = [_span(flow, placed, block) for block in loop.latches]
    leaving = [
        _span(flow, placed, block)
        for block in sorted(loop.blocks)
        if any(edge.target not in loop.blocks for edge in flow.blocks[block].edges)
    ]
    inside = [
        s
        for block in loop.blocks
        for i in range(flow.blocks[block].start, flow.blocks[block].stop)
        if (s := placed[i].instruction.span) is not None
    ]
    first = min(inside, key=lambda s: (s.file, s.line), default=None)
    if first is None:
        return None
    jumps = [s for s in (*latches, *leaving) if s is not None]
    above = [
        SourceSpan(first.file, line)
        for line in range(first.line, max(first.line - _ABOVE - 1, 0), -1)
    ]
    heads = (s for s in (*jumps, *above) if _KEYWORD.search(_source_line(files, s)))
    return next(heads, first)


def _span(flow: Flow, placed: Sequence[PlacedInstruction], block: int) -> SourceSpan | None:
    """Return the source place of the instruction that a block ends with."""
    return placed[flow.blocks[block].stop - 1].instruction.span


def _source_line(files: Mapping[str, str], span: SourceSpan) -> str:
    lines = files.get(span.file, "").splitlines()
    text = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
    return text.partition("//")[0]


def loop_names(spans: Sequence[SourceSpan | None]) -> tuple[str, ...]:
    """Return ``"k.cu:7"``; for several loops on one line, in order, ``"k.cu:7#1"``, ``#2``, …"""
    counts: dict[str, int] = {}
    for span in spans:
        if span is not None:
            counts[span.short] = counts.get(span.short, 0) + 1
    seen: dict[str, int] = {}
    names = []
    for span in spans:
        short = span.short if span is not None else ""
        seen[short] = seen.get(short, 0) + 1
        names.append(f"{short}#{seen[short]}" if counts.get(short, 0) > 1 else short)
    return tuple(names)
