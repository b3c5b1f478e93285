"""Explanation of a slowdown: its cause, with source lines, stalls and advice.

The cause follows from the two baseline entries. The rest needs predictions that still have their
kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from pathlib import PurePath

from perfassert.baseline.cause import Explanation, explain
from perfassert.baseline.compare import other_compilers
from perfassert.baseline.components import Change, components
from perfassert.baseline.entry import Entry
from perfassert.baseline.identity import bound_kernel, double_lines
from perfassert.baseline.lines import cause_beyond_components
from perfassert.baseline.stalls import grown_stall
from perfassert.facade.prediction import Prediction
from perfassert.predictor.diagnose.line_findings import UNCOALESCED, line_findings

_NAMED = 2
_OF_DOUBLES = "Strength Reduction"
"""Optimizer of the advisor that finds arithmetic in double where float would do."""
_ARITHMETIC = frozenset(("compute", "issue"))
"""Bounds of causes that only count instructions; advice is added, which says what to change."""
_BROUGHT_BACK = 0.7  # least fraction of the slowdown that a suggestion removes to be reported


def explain_rise(
    old: Entry, new: Entry, prediction: Prediction | None = None, base: Prediction | None = None
) -> str:
    """Return the cause and its details, separated by semicolons; ``""`` if the time has not risen.

    ``prediction`` and ``base`` are the predictions of which ``new`` and ``old`` are the entries, or
    None if they are not available. For example: ``"time +34.0 %: 16.5 times the wavefronts of
    shared memory (bank conflicts); reverting this removes 100 % of the slowdown; at
    transpose.cu:17"``.
    """
    explanation = explain(old, new, _coalesced_fields(prediction))
    if explanation is None:
        return ""
    otherwise = other_compilers(old, new)
    if otherwise and not explanation.causes:  # the compilers may be the only cause
        return otherwise
    details = _details(explanation, old, new, prediction, base)
    return "; ".join(filter(None, (str(explanation), *details, otherwise)))


def _details(
    explanation: Explanation,
    old: Entry,
    new: Entry,
    prediction: Prediction | None,
    base: Prediction | None,
) -> Iterator[str]:
    waits = not any(cause.bounds for cause in explanation.causes)
    if waits and old.get("occupancy") == new.get("occupancy"):
        yield from map(str, _largest_changes(old, new))
    if prediction is not None and prediction.origin is not None:
        yield from _details_of_code(explanation, old, new, prediction, base)
    before, after = old.get("limiter"), new.get("limiter")
    if before and before != after:
        yield f"limited by {after} instead of {before}"


def _details_of_code(
    explanation: Explanation,
    old: Entry,
    new: Entry,
    prediction: Prediction,
    base: Prediction | None,
) -> Iterator[str]:
    if not explanation.causes:
        yield cause_beyond_components(prediction, base, float(old["time"]), float(new["time"]))
        return
    yield from dict.fromkeys(_places(explanation, prediction))
    for cause in explanation.causes:
        if cause.bounds and _ARITHMETIC.issuperset(cause.bounds):
            about = (_OF_DOUBLES,) if cause.doubles else ()
            yield from _advice_on(prediction, float(old["time"]), float(new["time"]), about)
            break
    if base is not None and base.origin is not None:
        stall = grown_stall(base.stalls, prediction.stalls)
        yield from [stall] if stall else ()


def _coalesced_fields(prediction: Prediction | None) -> frozenset[str]:
    """Return the fields of compiled code of which no access touches more sectors than needed."""
    if prediction is None:
        return frozenset()
    lines = {
        f"{PurePath(f.file).name}:{f.line}"
        for f in line_findings(prediction)
        if f.rule == UNCOALESCED
    }
    accesses = _accesses(prediction)
    scattered = {field for field, line in accesses if not line or line in lines}
    return frozenset(field for field, _ in accesses) - scattered


def _accesses(prediction: Prediction) -> list[tuple[str, str]]:
    """List the accesses of compiled code: field and source line, ``""`` where none is known."""
    kernel = bound_kernel(prediction)
    bound = kernel.bound if kernel is not None else ()
    return [(a.field, a.span.short if a.span else "") for a in bound]


def _advice_on(
    prediction: Prediction, before: float, after: float, about: Container[str]
) -> Iterator[str]:
    """Yield the first advice that would remove at least :data:`_BROUGHT_BACK` of the slowdown.

    ``about``: names of the optimizers to consider; all of them if empty.
    """
    for advice in prediction.advice or ():
        if about and advice.optimizer not in about:
            continue
        if after - after / advice.speedup >= _BROUGHT_BACK * (after - before):
            place = f" at {advice.hotspots[0]['def']}" if advice.hotspots else ""
            yield f"advice: {advice.suggestion}{place} ({advice.speedup:.3g} times as fast)"
            return


def _largest_changes(old: Entry, new: Entry) -> list[Change]:
    """Return the largest changes of resources, occupancy and wavefronts of fields."""
    differing = [
        c
        for c in components(old, new)
        if c.path[0] not in ("bounds", "fields") or c.path[2:3] == ("l1_wavefronts",)
    ]
    return sorted(differing, key=lambda c: -abs(c.relative_change or 0.0))[:_NAMED]


def _places(explanation: Explanation, prediction: Prediction) -> Iterator[str]:
    """Yield the source lines of the causes, as ``"at blur.cu:3"``."""
    for cause in explanation.causes:
        place = _lines_of_field(prediction, cause.field) if cause.field else ""
        if cause.doubles:
            most = Counter(double_lines(prediction)).most_common(_NAMED)
            place = ", ".join(line for line, _ in most if line)
        if "shared" in cause.bounds and not cause.field:
            place = _hotspot(prediction, "Shared Bank Conflict Removal")
        if place:
            yield f"at {place}"


def _hotspot(prediction: Prediction, optimizer: str) -> str:
    """Return the source line of the hottest hotspot of an optimizer's advice, or ``""``."""
    for advice in prediction.advice or ():
        if advice.optimizer == optimizer and advice.hotspots:
            return str(advice.hotspots[0]["def"])
    return ""


def _lines_of_field(prediction: Prediction, field: str) -> str:
    """Return the lines at which compiled code accesses a field."""
    lines = dict.fromkeys(line for name, line in _accesses(prediction) if name == field and line)
    return ", ".join(list(lines)[:_NAMED])
