"""Samples of warps at instructions: one form, whether they come from the simulator or a GPU.

A sample says of one warp which instruction is next and why it was not issued (``selected``: it
was); it is a *latency* sample where the warp's scheduler issued nothing at that moment, else an
*active* one (GPA §II.A). From the simulator counts are exact expectations, in warp cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SELECTED = "selected"
REASONS = (
    SELECTED, "not_selected", "memory_dependency", "execution_dependency", "synchronization",
    "memory_throttle", "pipe_busy", "constant_dependency", "instruction_fetch", "sleeping", "other",
)  # fmt: skip
"""What a sample can say."""
STALLS = (
    SELECTED, "not_selected", "memory_dependency", "local_memory_dependency",
    "constant_dependency", "execution_dependency", "shared_dependency", "write_after_read",
    "synchronization", "memory_throttle", "pipe_busy", "instruction_fetch", "sleeping", "other",
)  # fmt: skip
"""What is reported; what is to blame distinguishes memory and execution dependencies (Figure 5)."""


@dataclass(frozen=True, slots=True)
class Count:
    """Samples, and those of them that are latency samples."""

    all: float = 0.0
    latency: float = 0.0

    def plus(self, other: Count) -> Count:
        """The sum."""
        return Count(self.all + other.all, self.latency + other.latency)

    def times(self, factor: float) -> Count:
        """The product."""
        return Count(self.all * factor, self.latency * factor)


@dataclass(frozen=True, slots=True)
class Samples:
    """Counts by (instruction number, reason of :data:`REASONS`).

    ``issued``: how often each instruction was issued, or its issue samples: only ratios are used.
    ``edges``: of dependencies, by (waiting instruction, instruction waited for), where the source
    of the samples knows whom they wait for (the simulator does); else None.
    ``source``: ``"simulation"`` or the file that they were read from.
    """

    counts: Mapping[tuple[int, str], Count]
    issued: Mapping[int, float]
    edges: Mapping[tuple[int, int], Count] | None = None
    source: str = "simulation"

    @property
    def total(self) -> Count:
        """All samples: T, and L among them; the active samples are A = T − L."""
        result = Count()
        for count in self.counts.values():
            result = result.plus(count)
        return result
