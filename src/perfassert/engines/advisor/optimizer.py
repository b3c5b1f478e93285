"""What an optimizer is, and how its estimate follows from its category (GPA §V)."""

from __future__ import annotations

from typing import Protocol

from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.estimators import latency_hiding, stall_elimination

STALL_ELIMINATION = "stall elimination"
LATENCY_HIDING = "latency hiding"
PARALLEL = "parallel"
CATEGORIES = (STALL_ELIMINATION, LATENCY_HIDING, PARALLEL)
_MOST = 100.0  # times as fast: an estimate of more is not taken at its word


class Optimizer(Protocol):
    """Matches one pattern of inefficiency. Found through the hook ``perfassert_optimizers``."""

    name: str
    category: str

    def match(self, case: Case) -> Match | None:
        """What it can improve, or None."""


def speedup(case: Case, match: Match, category: str) -> float:
    """Eqs. (2) and (4), the latter within what active samples can hide; optimizers that change
    the launch bring their own (eq. 10). Hiding latency cannot beat the busiest server."""
    if match.speedup is not None:
        return min(match.speedup, _MOST)
    if category == STALL_ELIMINATION:
        estimate = min(stall_elimination(case.total.all, match.count.all), _MOST)
        return case.limit_speedup(estimate) if match.same_work else estimate
    active = case.total.all - case.total.latency
    hidden = match.count.latency if match.hidden is None else match.hidden
    return case.limit_speedup(latency_hiding(case.total.all, hidden, active))
