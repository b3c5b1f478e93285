"""Parts of reports that need known stalls: timeline, waits between lines, and machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfassert.errors import PerfAssertError
from perfassert.kernel.program import Program
from perfassert.kernel.samples import SELECTED
from perfassert.prediction.prediction import Lane, TimelineSpan
from perfassert.predictor.answer import Answer
from perfassert.predictor.diagnose.diagnose import advisor_case
from perfassert.predictor.model import model_of
from perfassert.predictor.session import DEFAULT
from perfassert.report.explain import reachable_instructions
from perfassert.report.sources import relative, waits

_MOST = 4000  # instructions of one listing
_LEAST = 0.0005  # of the samples: shown as 0.1 % or more


def diagnosis(prediction: Answer, root: Path) -> dict[str, Any]:
    """Return timeline and waits as plain data; files below ``root`` are relative to it."""
    shown = {"timeline": _timeline(prediction), "waits": waits(prediction, root)}
    return {key: value for key, value in shown.items() if value}


def _timeline(prediction: Answer) -> dict[str, Any] | None:
    """Return the timeline, which takes a simulation of its own; None if there is none."""
    try:
        lanes = prediction.timeline
    except PerfAssertError:
        return None
    return timeline_data(lanes) if lanes else None


def timeline_data(lanes: Sequence[Lane]) -> dict[str, Any]:
    """Return lanes as plain data: for each warp its first cycle, then its spans.

    A span has reason, length and place; reasons and places are stored by their numbers.
    """
    reasons = list(dict.fromkeys(span.reason for lane in lanes for span in lane))
    places = list(dict.fromkeys(span.place for lane in lanes for span in lane))

    def numbers(span: TimelineSpan) -> tuple[int, int, int]:
        return reasons.index(span.reason), span.end - span.start, places.index(span.place)

    warps = [
        {"start": lane[0].start, "spans": [n for span in lane for n in numbers(span)]}
        for lane in lanes
    ]
    return {"reasons": reasons, "places": places, "warps": warps}


def machine_code(prediction: Answer, root: Path) -> list[dict[str, Any]]:
    """Return the reachable instructions of a launch; empty for a kernel without compiled code.

    Each instruction has its source line, the stall cycles of its control code, its share of the
    stall samples, and the instructions that it waits for: number, reason and share.
    """
    program = _program(prediction)
    case = advisor_case(prediction, DEFAULT.predict) if program else None
    if program is None or case is None:
        return []
    whole = sum(b.count.all for b in case.blames) or 1.0
    blames: dict[int, list[tuple[int, str, float]]] = {}
    for b in case.blames:
        if b.cls != SELECTED:
            blames.setdefault(b.use, []).append((b.source, b.cls, b.count.all / whole))
    return [
        {
            "number": i.index,
            "text": i.text,
            "file": relative(i.span.file, root) if i.span else "",
            "line": i.span.line if i.span else 0,
            "stall": i.stall,
            **_waiting(i.index, blames.get(i.index, [])),
        }
        for i in list(reachable_instructions(program))[:_MOST]
    ]


def _waiting(number: int, blames: list[tuple[int, str, float]]) -> Mapping[str, Any]:
    """Return the longest waits first; a stall that is not for an instruction has only its share."""
    known = sorted((b for b in blames if b[2] >= _LEAST), key=lambda b: -b[2])
    share = sum(b[2] for b in known)
    return {"share": share, "waits": [list(b) for b in known if b[0] != number]}


def _program(prediction: Answer) -> Program | None:
    return model_of(prediction).bound_launch.kernel.program
