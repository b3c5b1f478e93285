"""Interface of a GPU for measurements. This module imports no package of NVIDIA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from perfassert.errors import PerfAssertError
from perfassert.lab.calibration.driver import Properties


class MeasurementError(PerfAssertError):
    """Error for an impossible measurement, or for an unusable file of measurements."""


@dataclass(frozen=True, slots=True)
class ParameterMemory:
    """Memory of a pointer parameter: ``size`` bytes that repeat ``content``, or zeros."""

    size: int
    content: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class Scalar:
    """Parameter by value; ``kind`` is its type in :mod:`ctypes`, such as ``"c_int32"``."""

    value: Union[int, float]
    kind: str


@dataclass(frozen=True, slots=True)
class GpuLaunch:
    """A launch, ready to run. ``image``: the cubin; ``function``: the mangled name in it.

    ``kernel`` and ``cells`` identify the row of a suite.
    """

    image: bytes
    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[ParameterMemory | Scalar, ...]
    kernel: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """Bytes of all buffers of the launch."""
        return sum(a.size for a in self.arguments if isinstance(a, ParameterMemory))


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the repetitions in seconds; ``clock_hz`` during them, 0 if unknown."""

    seconds: tuple[float, ...]
    clock_hz: float

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def spread(self) -> float:
        """Distance of the quartiles divided by the median."""
        low, high = np.percentile(self.seconds, (25, 75))
        return float((high - low) / self.median)


class Gpu(Protocol):
    """Interface of a GPU that runs and times single launches."""

    def properties(self) -> Properties:
        """Return the properties of the GPU."""

    def warnings(self) -> list[str]:
        """Return conditions that may spoil measurements, such as other processes on the GPU."""

    def time(self, work: GpuLaunch, warmup: int, repetitions: int) -> Timing:
        """Time launches between two events each, with data not in the L2, after ``warmup`` ones."""

    def close(self) -> None:
        """Release all allocated memory."""
