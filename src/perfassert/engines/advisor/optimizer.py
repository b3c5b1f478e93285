"""The interface of an optimizer, and the estimate that follows from its category (GPA §V)."""

from __future__ import annotations

from typing import Protocol

from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.estimators import latency_hiding, stall_elimination

STALL_ELIMINATION = "stall elimination"
LATENCY_HIDING = "latency hiding"
PARALLEL = "parallel"
CATEGORIES = (STALL_ELIMINATION, LATENCY_HIDING, PARALLEL)
_MOST = 100.0  # largest speedup that is estimated


class Optimizer(Protocol):
    """A matcher of one inefficiency pattern, found through the hook ``perfassert_optimizers``."""

    name: str
    category: str

    def match(self, case: Case) -> Match | None:
        """Return the improvement that the optimizer suggests, or None."""


def speedup(case: Case, match: Match, category: str) -> float:
    """Estimate the speedup of a match.

    Stall elimination uses eq. (2), limited by the busiest server if the work stays the same.
    Latency hiding uses eq. (4), limited by the active samples and by the busiest server. Optimizers
    that change the launch bring an estimate by eq. (10).
    """
    if match.speedup is not None:
        return min(match.speedup, _MOST)
    if category == STALL_ELIMINATION:
        estimate = min(stall_elimination(case.total.all, match.count.all), _MOST)
        return case.limit_speedup(estimate) if match.same_work else estimate
    active = case.total.all - case.total.latency
    hidden = match.count.latency if match.hidden is None else match.hidden
    return case.limit_speedup(latency_hiding(case.total.all, hidden, active))
