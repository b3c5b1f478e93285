"""``whatif``: a prediction beside the same one with something changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfassert.errors import KernelError, check_kind, in_short
from perfassert.expect.metrics import METRICS
from perfassert.prediction.prediction import Prediction
from perfassert.predictor import predict
from perfassert.predictor.whatif import with_changes
from perfassert.report.tables import percent, table

_SHOWN = (
    "time", "roofline_time", "limiter", "dram_load", "dram_store", "l2_load", "l2_store",
    "l1_cycles", "shared_wavefronts", "occupancy", "registers", "instructions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``before`` and ``after``; printed, it is the table of what differs."""

    before: Prediction
    after: Prediction
    changes: str

    @property
    def speedup(self) -> float:
        """Old time over new time."""
        return float(self.before.time) / float(self.after.time)

    def table(self) -> str:
        """The metrics that differ, and the bounds of the limiters that do."""
        rows: list[tuple[object, ...]] = []
        for name in _SHOWN:
            rows += _row(name, METRICS[name].read(self.before), METRICS[name].read(self.after))
        for name in self.before.bounds:
            rows += _row(f"{name} alone", self.before.bounds[name], self.after.bounds[name])
        if not rows:
            return f"what if {self.changes}: nothing changes"
        body = table(("metric", "before", "after", "difference"), rows)
        return f"what if {self.changes}: {self.speedup:.2f}x as fast\n{body}"

    def __str__(self) -> str:
        return self.table()


def whatif(prediction: Prediction, **changes: Any) -> WhatIf:
    """Predict again with changes, and compare.

    Values of the device take factors: ``dram_bandwidth=2.0``, ``compute_units=0.5``.
    ``latency={"shared": 0.5}`` multiplies λ and Λ of an operation class, of all classes of a
    pipeline, or of a level (``l1 l2 dram``), or replaces them by a :class:`~perfassert.Latency`.
    ``registers=32``, ``shared_bytes=``, ``ilp=``, ``block=``, ``grid=``, ``args=`` replace what
    kernel and launch say; with another block the grid covers the same threads.

    Raises :class:`~perfassert.errors.KernelError` for a change that it does not know, and for a
    prediction that was read from a file.
    """
    check_kind(prediction, Prediction, "what whatif() changes", KernelError)
    written = ", ".join(f"{key}={in_short(value)}" for key, value in changes.items())
    return WhatIf(prediction, predict(*with_changes(prediction, changes)), written)


def _row(name: str, before: Any, after: Any) -> list[tuple[object, ...]]:
    if before is None or after is None or before == after:
        return []
    if isinstance(before, str):
        return [(name, before, after, "")]
    change = percent(float(after) / float(before) - 1) if float(before) else ""
    return [(name, before, after, change)]
