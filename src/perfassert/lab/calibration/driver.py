"""Interface of a GPU for calibration. This module imports no package of NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perfassert.errors import PerfAssertError


class CalibrationError(PerfAssertError):
    """Error for a missing GPU, driver or permission, or for an impossible measurement."""


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties of a GPU from the driver. Memory is in bytes; ``clock_hz`` is the highest clock.

    ``free_bytes`` is the most that calibration may allocate. ``driver`` is a version such as
    ``"13.0"``.
    """

    name: str
    uuid: str
    arch: str
    driver: str
    compute_units: int
    warp_size: int
    clock_hz: float
    max_threads_per_block: int
    max_block_z: int
    max_threads_per_unit: int
    max_blocks_per_unit: int
    registers_per_unit: int
    shared_bytes_per_unit: int
    shared_bytes_per_block: int
    shared_reserved_bytes: int
    l2_bytes: int
    free_bytes: int

    @property
    def max_warps_per_unit(self) -> int:
        return self.max_threads_per_unit // self.warp_size


@dataclass(frozen=True, slots=True)
class Shot:
    """A timed launch. ``program``: ``"memory"``, ``"launch"`` or ``"chain:<class>"``.

    ``n``, ``a`` and ``b`` are the kernel's integers, see its source. ``count`` launches are timed
    together. The shots of ``before`` run first, untimed, in the same stream. ``shared_bytes`` is
    the dynamic shared memory of a block. Kernels without ``records`` have no cycles.
    """

    program: str
    kernel: str
    blocks: int
    threads: int
    n: int
    a: int = 0
    b: int = 0
    buffer_bytes: int = 8
    shared_bytes: int = 0
    count: int = 1
    records: bool = True
    before: tuple[Shot, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of one shot. ``cycles``: from the first warp's start to the last one's end on a unit.

    ``seconds`` are measured by events around all launches of the shot. ``clock_hz`` is cycles
    divided by the time of the GPU's nanosecond timer. Without records, cycles and clock are 0.
    """

    cycles: float
    seconds: float
    clock_hz: float


class Driver(Protocol):
    """A GPU that runs shots."""

    def properties(self) -> Properties:
        """Return the properties of the GPU."""

    def warnings(self) -> list[str]:
        """Return conditions that may spoil measurements, such as other processes on the GPU."""

    def clock_hz(self) -> float:
        """Return the clock that the driver reports at the moment; 0 without a report."""

    def run(self, shot: Shot) -> Sample:
        """Compile the shot's program unless it is compiled, and launch it."""

    def close(self) -> None:
        """Release all allocated memory."""
