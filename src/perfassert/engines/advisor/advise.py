"""Advice for one case: suggestions of all optimizers, ordered by speedup."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from perfassert.engines.advisor import latency_hiding, parallel, stall_elimination
from perfassert.engines.advisor.blame import Blame
from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.estimators import stall_elimination as eliminated
from perfassert.engines.advisor.optimizer import LATENCY_HIDING, Optimizer, speedup
from perfassert.errors import PluginError, PluginWarning
from perfassert.kernel.samples import Count
from perfassert.prediction.prediction import Advice

_HOTSPOTS = 5  # that a piece of advice lists


def own_optimizers() -> Sequence[Optimizer]:
    """Return the optimizers of the paper's Table II, and those that volumes make possible."""
    return (
        stall_elimination.RegisterReuse(),
        stall_elimination.StrengthReduction(),
        stall_elimination.FunctionSplit(),
        stall_elimination.FastMath(),
        stall_elimination.WarpBalance(),
        stall_elimination.MemoryTransactionReduction(),
        stall_elimination.WiderAccesses(),
        stall_elimination.Coalescing(),
        stall_elimination.SharedBankConflictRemoval(),
        latency_hiding.LoopUnrolling(),
        latency_hiding.CodeReordering(),
        latency_hiding.FunctionInlining(),
        latency_hiding.AsynchronousCopy(),
        parallel.BlockIncrease(),
        parallel.ThreadIncrease(),
        parallel.OccupancyIncrease(),
        parallel.BlockShape(),
    )


def optimizers_of_addresses() -> Sequence[Optimizer]:
    """Return the optimizers that need nothing but accesses and launch."""
    return (
        stall_elimination.MemoryTransactionReduction(),
        stall_elimination.Coalescing(),
        parallel.BlockIncrease(),
        parallel.ThreadIncrease(),
        parallel.OccupancyIncrease(),
        parallel.BlockShape(),
    )


def advise(case: Case, optimizers: Sequence[Optimizer]) -> tuple[tuple[Advice, Match], ...]:
    """Return suggestions with the formula's estimates, the largest first and equal ones by name.

    Suggestions without an effect by the formula are included, since a simulation may find one.
    """
    suggestions = []
    for optimizer in optimizers:
        try:
            match = optimizer.match(case)
        except PluginError as error:  # only the advice of this plug-in is lost
            warnings.warn(str(error), PluginWarning, stacklevel=2)
            continue
        if match is None:
            continue
        estimate = speedup(case, match, optimizer.category)
        advice = Advice(
            optimizer.name,
            optimizer.category,
            estimate,
            match.count.all / case.total.all if match.blames else 1.0,
            match.suggestion,
            _hotspots(case, match, estimate, optimizer.category),
            estimate,
            _context(case, match),
            match.proof,
        )
        suggestions.append((advice, match))
    return tuple(sorted(suggestions, key=lambda pair: (-pair[0].speedup, pair[0].optimizer)))


def _hotspots(case: Case, match: Match, whole: float, category: str) -> tuple[dict[str, Any], ...]:
    """Return the hottest pairs of lines, each with a speedup of at most that of the suggestion.

    Latency hiding removes latency samples only (eqs. 2 and 3).
    """
    # For example, 20 of 100 samples are blamed on a pair of lines: importance 0.2, speedup 100 / 80
    # = 1.25.
    merged: dict[tuple[str, str], tuple[Blame, Count]] = {}
    for blame in match.blames:
        places = (case.place(blame.source), case.place(blame.use))
        first, sum_ = merged.get(places, (blame, Count()))
        longer = blame if blame.count.all > first.count.all else first
        merged[places] = (longer, sum_.plus(blame.count))
    hottest = sorted(merged.items(), key=lambda item: (-item[1][1].all, item[0]))[:_HOTSPOTS]
    hides = category == LATENCY_HIDING
    return tuple(
        {
            "def": places[0],
            "use": places[1],
            "distance": blame.distance,
            "importance": samples.all / case.total.all,
            "speedup": min(
                whole, eliminated(case.total.all, samples.latency if hides else samples.all)
            ),
            "instructions": [case.instruction(n).label for n in (blame.source, blame.use)],
            **_blame_context(case, blame),
        }
        for places, (blame, samples) in hottest
    )


def _context(case: Case, match: Match) -> dict[str, Any]:
    """Return the place of the hottest blame; empty for suggestions about the launch."""
    if not match.blames:
        return {}
    return _blame_context(case, max(match.blames, key=lambda b: b.count.all))


def _blame_context(case: Case, blame: Blame) -> dict[str, Any]:
    """Return function, loop and reason of a blame, and file, line and call path of its source.

    The call path begins at the kernel.
    """
    source, use = case.instruction(blame.source), case.instruction(blame.use)
    return {
        "function": use.function,
        "loop": _loop(case, use.loop),
        "stall": blame.cls,
        "call_path": [span.short for span in source.call_path],
        "file": source.span.file if source.span is not None else "",
        "line": source.span.line if source.span is not None else 0,
    }


def _loop(case: Case, loop: int) -> str:
    """Return ``"loop at a.cu:30, 128 trips"``, or ``""`` outside of loops."""
    if loop < 0:
        return ""
    span, trips = case.code.loops[loop].span, case.trips.get(loop)
    where = f"loop at {span.short}" if span is not None else f"loop {loop}"
    return where if trips is None else f"{where}, {trips:g} trip{'s' * (trips != 1)}"
