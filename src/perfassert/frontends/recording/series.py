"""Launches that a program repeats: which of them are looked at, and which do something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from perfassert.frontends.recording.arguments import Pointer
from perfassert.frontends.recording.execution import Sample

_ALIKE = 0.05  # of the instructions of a sample: launches that differ by more are two
_LARGER = 1.1  # times the threads of any launch before: then it is looked at


class LaunchSeries:
    """Of all processes of the program. ``latest``: by what does not distinguish launches but for
    memory, under which key the latest of them is written down; ``kept``: of each kernel, what its
    buffers held when it was last looked at."""

    def __init__(self) -> None:
        self.latest: dict[object, int] = {}
        self.kept: dict[str, Mapping[tuple[str, int], Pointer]] = {}
        self._sampled: dict[object, Sample | None] = {}
        self._counts: Counter[str] = Counter()
        self._largest: dict[str, int] = {}
        self._started = 0

    def is_due(self, kernel: str, threads: int) -> bool:
        """Whether a launch is looked at, as there may be any number: the first, fourth, sixteenth
        and so on, each four times as late as the one before, and the largest ones. Called once for
        each launch.

        >>> series = LaunchSeries()
        >>> [n for n in range(1, 20) if series.is_due("k", 256 if n != 11 else 512)]
        [1, 4, 11, 16]
        """
        self._counts[kernel] += 1
        larger = threads > _LARGER * self._largest.get(kernel, 0)
        if larger:
            self._largest[kernel] = threads
        count = self._counts[kernel]
        return larger or (count.bit_count() == 1 and count.bit_length() % 2 == 1)

    def goes_on(self, alike: object, sample: Sample | None) -> bool:
        """Whether a launch does about what the latest one of its kind did."""
        before = self._sampled.get(alike)
        if sample is None or before is None:
            return True
        counts = (before.instructions, sample.instructions)
        return max(counts) - min(counts) <= _ALIKE * max(counts)

    def start(self, alike: object, sample: Sample | None) -> int:
        """The key of a launch that is the first of its kind, or does something else."""
        self._started += 1
        self.latest[alike], self._sampled[alike] = self._started, sample
        return self._started
