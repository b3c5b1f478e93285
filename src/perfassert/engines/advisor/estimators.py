"""What removing or hiding stalls, or other parallelism, would bring: GPA's equations (2)–(10).

Counts are samples, in any unit that is common to all of them; results are speedups ≥ 1 for code
changes, above 0 for parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


def stall_elimination(total: float, matched: float) -> float:
    """S = T / (T − M), eq. (2): all ``matched`` stalls disappear.

    Infinite where every sample is matched.
    """
    return _speedup(total, matched)


def latency_hiding(total: float, matched_latency: float, active: float = math.inf) -> float:
    """S = T / (T − Min(A, Mᴸ)), eq. (4): matched latency samples are filled with active ones.

    At most 2 where ``active`` and ``matched_latency`` are parts of ``total`` (theorem V.1).
    Without ``active`` it is eq. (3), in which nothing bounds what can be filled.
    """
    return _speedup(total, min(active, matched_latency))


def scoped_latency_hiding(
    total: float,
    active: Mapping[int, float],
    matched_latency: Mapping[int, float],
    parents: Mapping[int, int],
) -> dict[int, float]:
    """S_l = T / (T − Min(Σ_{l' ∈ nested(l)} A_l', M_l)), eq. (5), for each scope with matches.

    Scopes are loops or functions by number. ``active``: samples in a scope itself and not in one
    inside it; ``nested(l)`` is ``l`` and all scopes inside it. ``matched_latency``: all samples
    that are matched for a scope. ``parents``: the scope around each; none or -1 for the outermost.
    """
    within: dict[int, float] = {}
    for scope, count in active.items():
        around = scope
        while around >= 0:
            within[around] = within.get(around, 0.0) + count
            around = parents.get(around, -1)
    return {
        scope: latency_hiding(total, matched, within.get(scope, 0.0))
        for scope, matched in matched_latency.items()
    }


def issue_rate(issue_probability: float, warps: float) -> float:
    """I = 1 − (1 − R_I)^W, eqs. (8) and (9): how often a scheduler has a warp that can issue.

    ``issue_probability``: R_I, that one warp can at a given moment (its selected samples over all
    its samples); ``warps``: W, resident warps per scheduler.
    """
    if issue_probability >= 1:
        return 1.0 if warps > 0 else 0.0
    return -math.expm1(warps * math.log1p(-issue_probability))


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Warps of one scheduler: ``resident`` at a time, ``executed`` over the whole launch."""

    resident: float
    executed: float


def parallel(
    issue_probability: float, old: Parallelism, new: Parallelism, factor: float = 1.0
) -> float:
    """S = 1/C_W · C_I · f, eq. (10), for a change of blocks or threads.

    C_W (eq. 6): new over old warps that a scheduler executes over the launch (for a single wave
    those that are resident); C_I (eq. 7): new over old issue rate with the resident warps.
    ``factor``: f, what else the change brings.
    """
    before = issue_rate(issue_probability, old.resident)
    rate = issue_rate(issue_probability, new.resident) / before if before > 0 else 1.0
    return old.executed / new.executed * rate * factor


def _speedup(total: float, removed: float) -> float:
    if removed <= 0 or total <= 0:
        return 1.0
    return total / (total - removed) if removed < total else math.inf
