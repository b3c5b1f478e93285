"""Stalls in words, and which of them has grown."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.report.tables import percent

_SEEN = 0.1  # of the samples: a stall that is rarer is no explanation
_MOVED = 0.02  # of the samples: a smaller change of stalls is not worth a word
_WORDS = {
    "memory_dependency": "waiting for memory",
    "local_memory_dependency": "waiting for spilled registers",
    "shared_dependency": "waiting for shared memory",
    "memory_throttle": "waiting for the load-store unit",
    "synchronization": "waiting at barriers",
    "pipe_busy": "waiting for busy pipelines",
    "execution_dependency": "waiting for results of arithmetic",
    "constant_dependency": "waiting for constants",
    "instruction_fetch": "waiting for instructions",
    "not_selected": "ready but not selected",
}


def grown_stall(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """The reason to wait whose share has grown most, in words, else empty."""
    grown = {
        reason: share - before.get(reason, 0.0)
        for reason, share in after.items()
        if reason in _WORDS and share >= _SEEN
    }
    worst = max(grown, key=lambda key: (grown[key], key), default=None)
    if worst is None or grown[worst] <= _MOVED:
        return ""
    shares = [percent(p.get(worst, 0.0), signed=False) for p in (before, after)]
    return f"{_WORDS[worst]} {shares[0]} → {shares[1]} of the warps' time"
