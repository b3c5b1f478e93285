"""Series of repeated launches: which launches are read, and which differ from the ones before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from perfassert.frontends.recording.arguments import Pointer
from perfassert.frontends.recording.execution import Sample

_ALIKE = 0.05  # relative difference in sampled instructions up to which launches count as alike
_LARGER = 1.1  # a launch with this many times the threads of all earlier ones is read


class LaunchSeries:
    """Series of launches of all processes of the program.

    ``latest`` maps the key of equal launches, whatever memory holds, to the number of the latest
    one written down. ``kept`` has for each kernel what its buffers held when last read.
    """

    def __init__(self) -> None:
        self.latest: dict[object, int] = {}
        self.kept: dict[str, Mapping[tuple[str, int], Pointer]] = {}
        self._sampled: dict[object, Sample | None] = {}
        self._counts: Counter[str] = Counter()
        self._largest: dict[str, int] = {}
        self._started = 0

    def is_due(self, kernel: str, threads: int) -> bool:
        """Return True if a launch is to be read: the first, fourth, sixteenth …, and the largest.

        Launches may be many, so the gap grows fourfold. Call the method once for each launch.

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
        """Return True if a launch executes about as many instructions as the latest of its kind."""
        before = self._sampled.get(alike)
        if sample is None or before is None:
            return True
        counts = (before.instructions, sample.instructions)
        return max(counts) - min(counts) <= _ALIKE * max(counts)

    def start(self, alike: object, sample: Sample | None) -> int:
        """Return a new number for a launch that starts its kind or differs from the latest."""
        self._started += 1
        self.latest[alike], self._sampled[alike] = self._started, sample
        return self._started
