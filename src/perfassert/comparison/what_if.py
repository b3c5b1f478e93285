"""``whatif``: a prediction beside the same one with something changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perfassert.errors import KernelError, check_kind, in_short
from perfassert.expect.metrics import METRICS
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import predict
from perfassert.predictor.rewrites.whatif import with_changes
from perfassert.quantity import round_significant
from perfassert.report.tables import percent, table

_SHOWN = (
    "time", "roofline_time", "limiter", "dram_load", "dram_store", "l2_load", "l2_store",
    "l1_cycles", "shared_wavefronts", "occupancy", "registers", "instructions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A prediction before and after changes; printed, it is the table of what differs.

    Attributes:
        before: the prediction as it was.
        after: the prediction with the changes.
        changes: the changes, as they were written.
    """

    before: Prediction
    after: Prediction
    changes: str

    @property
    def speedup(self) -> float:
        """Old predicted time over new one: above 1, the changes make the launch faster."""
        return float(self.before.time) / float(self.after.time)

    def table(self) -> str:
        """Table of the metrics that differ, and of the limiters' own times that do."""
        rows = [(*row, _format_change(*row[1:])) for row in self._differences()]
        if not rows:
            return f"what if {self.changes}: nothing changes"
        body = table(("metric", "before", "after", "difference"), rows)
        return f"what if {self.changes}: {self.speedup:.2f}x as fast\n{body}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the changes, the speedup, what differs, and both predictions.

        Returns:
            A dictionary with ``changes``, ``speedup``, ``differences`` (each with ``metric``,
            ``before`` and ``after``, in base units), ``before`` and ``after``.
        """
        return {
            "changes": self.changes,
            "speedup": round_significant(self.speedup),
            "differences": [
                {"metric": metric, "before": before, "after": after}
                for metric, before, after in self._differences()
            ],
            "before": self.before.to_dict(diagnosis=False),
            "after": self.after.to_dict(diagnosis=False),
        }

    def _differences(self) -> Iterator[tuple[str, Any, Any]]:
        """Metrics and bounds that both have and that differ: name, before, after."""
        pairs = {n: (METRICS[n].read(self.before), METRICS[n].read(self.after)) for n in _SHOWN}
        for name in self.before.bounds:
            pairs[f"{name} alone"] = self.before.bounds[name], self.after.bounds[name]
        for name, (before, after) in pairs.items():
            if before is not None and after is not None and before != after:
                yield name, before, after

    def __str__(self) -> str:
        return self.table()


def whatif(prediction: Prediction, **changes: Any) -> WhatIf:
    """Predict the same kernel and launch again with changes, and show what differs.

    Args:
        prediction: made by :func:`perfassert.predict` in this process.
        **changes: they apply together. Any number of the device takes a factor between 1/1000 and
            1000: ``dram_bandwidth=2.0``, ``compute_units=0.5``. ``latency={"shared": 0.5}``
            multiplies λ and Λ of an operation class, of all classes of a pipeline, or a level
            (``l1 l2 dram``, ``global`` for all three), or replaces them by a :class:`Latency`.
            ``registers``, ``shared_bytes``, ``ilp``, ``updates_per_thread`` and ``flops`` replace
            what the kernel says; ``block``, ``grid`` and ``args`` what the launch says. With
            another ``block`` the grid covers the same threads.

    Returns:
        A comparison with ``before``, ``after``, ``speedup``, ``table()`` and ``to_dict()``.

    Raises:
        KernelError: an unknown change or factor, or a prediction that was read from data or has
            measured volumes, so that its kernel is not known.
        DeviceFileError: values of the device that cannot hold together.

    Example:
        >>> import perfassert as pa
        >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
        >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
        >>> prediction = pa.predict(copy, pa.Launch.cover(1 << 24, block=256), "a100")
        >>> 1.5 < pa.whatif(prediction, dram_bandwidth=2.0).speedup < 2.5
        True
    """
    check_kind(prediction, Prediction, "what whatif() changes", KernelError)
    written = ", ".join(f"{key}={in_short(value)}" for key, value in changes.items())
    return WhatIf(prediction, predict(*with_changes(prediction, changes)), written)


def _format_change(before: Any, after: Any) -> str:
    if isinstance(before, str) or not float(before):
        return ""
    return percent(float(after) / float(before) - 1)
