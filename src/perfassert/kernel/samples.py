"""Samples of warps at instructions, in one form for those of the simulator and of a GPU.

A sample names the next instruction of a warp and the reason why it was not issued (``selected``: it
was issued). It is a *latency* sample if the warp's scheduler issued nothing at that moment, else an
*active* sample (GPA §II.A). Counts of the simulator are exact expectations, in warp cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SELECTED = "selected"
REASONS = (
    SELECTED, "not_selected", "memory_dependency", "execution_dependency", "synchronization",
    "memory_throttle", "pipe_busy", "constant_dependency", "instruction_fetch", "sleeping", "other",
)  # fmt: skip
"""Reasons of a sample."""
STALLS = (
    SELECTED, "not_selected", "memory_dependency", "local_memory_dependency",
    "constant_dependency", "execution_dependency", "shared_dependency", "write_after_read",
    "synchronization", "memory_throttle", "pipe_busy", "instruction_fetch", "sleeping", "other",
)  # fmt: skip
"""Stalls of a report: memory and execution dependencies are split by the instruction that causes
them (Figure 5)."""


@dataclass(frozen=True, slots=True)
class Count:
    """Number of samples, and how many of them are latency samples."""

    all: float = 0.0
    latency: float = 0.0

    def plus(self, other: Count) -> Count:
        """Return the sum."""
        return Count(self.all + other.all, self.latency + other.latency)

    def times(self, factor: float) -> Count:
        """Return the counts multiplied by ``factor``."""
        return Count(self.all * factor, self.latency * factor)


@dataclass(frozen=True, slots=True)
class Samples:
    """Counts by (instruction number, reason of :data:`REASONS`).

    Attributes:
        issued: issues of each instruction, or its issue samples; only ratios are used.
        edges: counts of dependencies, by (waiting instruction, awaited instruction). None if the
            source of the samples does not know the awaited instruction; the simulator does.
        source: ``"simulation"``, or the file from which the samples were read.
    """

    counts: Mapping[tuple[int, str], Count]
    issued: Mapping[int, float]
    edges: Mapping[tuple[int, int], Count] | None = None
    source: str = "simulation"

    @property
    def total(self) -> Count:
        """Sum of all samples, T, and of latency samples, L; active samples are A = T − L."""
        result = Count()
        for count in self.counts.values():
            result = result.plus(count)
        return result
