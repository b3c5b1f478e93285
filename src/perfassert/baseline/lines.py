"""Causes of a slowdown by source line, for slowdowns that no component of the baseline explains.

They are what the advisor would improve, and changes in the stalls and accesses of lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from perfassert.baseline.stalls import grown_stall
from perfassert.facade.prediction import Prediction
from perfassert.prediction.prediction import Advice
from perfassert.predictor.diagnose.line_costs import LineCost, line_costs

_CAUSE = 0.3  # of the difference: what brings back less is not called the cause
_SAME = 0.9  # of its worth now: advice that was worth as much before is no news
_MORE = 1.1  # times as much of a line: less is not worth a word


def cause_beyond_components(
    prediction: Prediction, base: Prediction | None, before: float, after: float
) -> str:
    """A sentence of the cause; times in seconds."""
    advised = max(_new_advice(prediction, base), key=lambda a: a.speedup, default=None)
    if advised is not None:
        share = min(1.0, (after - after / advised.speedup) / (after - before))
        if share > _CAUSE:
            return f"{_pattern(advised)}; without it {100 * share:.0f} % of the slowdown is removed"
    differences = [] if base is None else _differences(base, prediction)
    return "; ".join(differences) or "reverting no single component removes the slowdown"


def _new_advice(now: Prediction, base: Prediction | None) -> Iterator[Advice]:
    """Simulated advice that was not there before, or was worth less."""
    old = {a.optimizer: a.speedup for a in (base.advice if base is not None else ()) or ()}
    for advice in now.advice or ():
        simulated = advice.context.get("estimate") == "simulation"
        if simulated and old.get(advice.optimizer, 1.0) < _SAME * advice.speedup:
            yield advice


def _pattern(advice: Advice) -> str:
    """``"a warp touches 16 sectors where 2 would do, gelu.cu:14"``."""
    pattern, _, rest = advice.suggestion.partition(": ")
    if not rest or not advice.hotspots:
        return advice.suggestion
    return f"{pattern}, {advice.hotspots[0]['def']}"


def _differences(base: Prediction, now: Prediction) -> list[str]:
    """The line that has grown most, and the stall."""
    lines = _grown(base, now) if base.origin is not None else ()
    grown = max(lines, key=lambda g: g.more, default=None)
    differences = [] if grown is None else [grown.text]
    stall = grown_stall(base.stalls, now.stalls)
    return [*differences, stall] if stall else differences


@dataclass(frozen=True, slots=True)
class _Grown:
    more: float
    text: str


def _grown(base: Prediction, now: Prediction) -> Iterator[_Grown]:
    """Lines that ask for more sectors or wavefronts, as a share of what the kernel asks for."""
    old = {_place(c): c for c in line_costs(base)}
    costs = line_costs(now)
    for what in ("sectors", "wavefronts", "instructions"):
        whole = sum(getattr(c, what) for c in costs)
        for cost in costs:
            then = old.get(_place(cost))
            before, after = (0.0 if c is None else getattr(c, what) for c in (then, cost))
            if after > _MORE * before:
                text = f"{before:.3g} → {after:.3g} {what} of a warp, {_place(cost)}"
                yield _Grown((after - before) / whole, text)


def _place(cost: LineCost) -> str:
    return f"{PurePath(cost.file).name}:{cost.line}"
