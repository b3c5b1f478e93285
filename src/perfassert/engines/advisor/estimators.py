"""Estimated speedups of removing or hiding stalls, and of other parallelism: GPA's eqs. (2)–(10).

Counts are samples, in any unit that is common to all of them. Results are speedups: at least 1 for
code changes, above 0 for changes of the parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


def stall_elimination(total: float, matched: float) -> float:
    """Return S = T / (T − M), eq. (2): all ``matched`` stalls disappear.

    The speedup is infinite if every sample is matched. For example, 20 of 100 samples: 100 / 80 =
    1.25.
    """
    return _speedup(total, matched)


def latency_hiding(total: float, matched_latency: float, active: float = math.inf) -> float:
    """Return S = T / (T − Min(A, Mᴸ)), eq. (4): active samples fill matched latency samples.

    The speedup is at most 2 if ``active`` and ``matched_latency`` are parts of ``total`` (theorem
    V.1). Without ``active`` the result is that of eq. (3), which does not bound what can be filled.
    For example, T = 100, A = 30 and Mᴸ = 60 give 100 / 70 = 1.43.
    """
    return _speedup(total, min(active, matched_latency))


def scoped_latency_hiding(
    total: float,
    active: Mapping[int, float],
    matched_latency: Mapping[int, float],
    parents: Mapping[int, int],
) -> dict[int, float]:
    """Return S_l = T / (T − Min(Σ_{l' ∈ nested(l)} A_l', M_l)), eq. (5), for each matched scope.

    Scopes are loops or functions by number. ``active``: samples in a scope, without those in nested
    scopes. ``nested(l)`` consists of ``l`` and all scopes inside it. ``matched_latency``: all
    samples that are matched for a scope. ``parents``: the scope around each scope, missing or -1
    for the outermost.
    """
    # For example, loop 1 lies in loop 0, with 20 and 10 active samples. Loop 1 can hide 20 samples,
    # and loop 0 can hide 30.
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
    """Return I = 1 − (1 − R_I)^W, eqs. (8) and (9): the rate at which a scheduler can issue.

    ``issue_probability`` is R_I, the probability that one warp can issue at a given moment (its
    selected samples over all its samples). ``warps`` is W, the resident warps per scheduler. For
    example, R_I = 0.1 and W = 4 give 1 − 0.9⁴ = 0.344.
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
    """Return S = 1/C_W · C_I · f, eq. (10), for a change of blocks or threads.

    C_W (eq. 6) is the ratio of new to old warps that a scheduler executes over the launch. For a
    single wave these are the resident warps. C_I (eq. 7) is the ratio of new to old issue rates
    with the resident warps. ``factor`` is f, the effect of everything else that the change brings.
    """
    before = issue_rate(issue_probability, old.resident)
    rate = issue_rate(issue_probability, new.resident) / before if before > 0 else 1.0
    return old.executed / new.executed * rate * factor


def _speedup(total: float, removed: float) -> float:
    if removed <= 0 or total <= 0:
        return 1.0
    return total / (total - removed) if removed < total else math.inf
