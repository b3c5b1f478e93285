"""Measurements of a file, whatever its format: what was launched, and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """What tells launches apart; ``name``: of the kernel, mangled or as the profiler shows it.
    ``shared_bytes``: dynamic; None where the profile does not say."""

    name: str
    grid: Extent
    block: Extent
    shared_bytes: int | None = None
    cluster: Extent = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One launch of a profile, or one state of a benchmark.

    ``label``: what messages call it. ``shape``: None where the file does not say what was launched.
    ``values``: metric of perfassert → measured value, in base units (``"time"`` in seconds) or in
    sectors where its name is in :data:`SECTORS`. ``cells``: all that the file says, as text, by
    column; the columns of the shape are not among them.
    """

    label: str
    shape: Shape | None
    values: Mapping[str, float]
    cells: Mapping[str, str] = field(default_factory=dict)


SECTORS: Mapping[str, str] = {"l2_load_sectors": "l2_load", "l2_store_sectors": "l2_store"}
"""Value that is counted in sectors, whose size the device has → metric in bytes."""


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """Measurements of a file, in its order; ``kind``: its format, in words; ``device``:
    as the file names it, empty where it names none or several."""

    kind: str
    measurements: tuple[Measurement, ...]
    device: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledLaunches:
    """Launches of one shape; ``seconds``: of those whose time is known."""

    shape: Shape
    count: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """``launches``: in the order in which they first happened; ``device``: as the profile names it,
    perhaps not at all."""

    launches: tuple[ProfiledLaunches, ...]
    device: str = ""


def group_launches(measurements: Sequence[Measurement], device: str = "") -> LaunchProfile:
    """Return the launches of each shape as one; measurements without a shape are left out."""
    times_by_shape: dict[Shape, list[float | None]] = {}
    for measurement in measurements:
        if measurement.shape is not None:
            times = times_by_shape.setdefault(measurement.shape, [])
            times.append(measurement.values.get("time"))
    alike = (
        ProfiledLaunches(shape, len(times), tuple(t for t in times if t is not None))
        for shape, times in times_by_shape.items()
    )
    return LaunchProfile(tuple(alike), device)


def describe_shape(shape: Shape) -> str:
    """Return ``"axpy, grid 1024×1×1, block 256×1×1"``."""
    grid, block = ("×".join(map(str, extent)) for extent in (shape.grid, shape.block))
    return f"{shape.name}, grid {grid}, block {block}"


def device_file_name(shown: str) -> str:
    """Return what a device file is called whose device a driver shows by this name.

    Example:
        >>> device_file_name("NVIDIA GeForce RTX 3080")
        'RTX-3080'
        >>> device_file_name("Tesla V100-PCIE-32GB")
        'V100-PCIE-32GB'
    """
    for brand in ("NVIDIA ", "GeForce ", "Tesla "):
        shown = shown.removeprefix(brand)
    return shown.replace(" ", "-")


def only_name(names: Sequence[str]) -> str:
    """Return the device's name where all are the same, else ``""``."""
    return names[0] if len(set(names)) == 1 else ""
