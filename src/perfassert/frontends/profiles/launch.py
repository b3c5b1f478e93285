"""Measurements of a file of any format: each launch, and the metrics measured for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """Key that distinguishes launches: kernel, grid, block, cluster and dynamic shared memory.

    ``name`` is the kernel's, mangled or as the profiler shows it. ``shared_bytes`` is the dynamic
    shared memory of a block, None where the profile does not have it.
    """

    name: str
    grid: Extent
    block: Extent
    shared_bytes: int | None = None
    cluster: Extent = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured values of one launch of a profile, or of one state of a benchmark.

    ``label`` names the measurement in messages. ``shape`` is None where the file does not identify
    the launch. ``values`` maps metrics of perfassert to measured values in base units (``"time"``
    in seconds), or in sectors for the names in :data:`SECTORS`. ``cells`` has every column of the
    file as text, except those of the shape.
    """

    label: str
    shape: Shape | None
    values: Mapping[str, float]
    cells: Mapping[str, str] = field(default_factory=dict)


SECTORS: Mapping[str, str] = {"l2_load_sectors": "l2_load", "l2_store_sectors": "l2_store"}
"""Value counted in sectors → metric in bytes; the device has the size of a sector."""


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """Measurements of a file, in the file's order.

    ``kind`` is the file's format in words. ``device`` is the device's name in the file, empty where
    the file names no device or several.
    """

    kind: str
    measurements: tuple[Measurement, ...]
    device: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledLaunches:
    """The launches of one shape; ``seconds`` has the times of those that were timed."""

    shape: Shape
    count: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """Launches of a profile, grouped by shape, in the order of their first occurrence.

    ``device`` is the device's name in the profile, or empty.
    """

    launches: tuple[ProfiledLaunches, ...]
    device: str = ""


def group_launches(measurements: Sequence[Measurement], device: str = "") -> LaunchProfile:
    """Group the launches by shape; measurements without a shape are left out."""
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
    """Return the shape in words: ``"axpy, grid 1024×1×1, block 256×1×1"``."""
    grid, block = ("×".join(map(str, extent)) for extent in (shape.grid, shape.block))
    return f"{shape.name}, grid {grid}, block {block}"


def device_file_name(shown: str) -> str:
    """Return the stem of the device file for a device's name as the driver shows it.

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
    """Return the name if all names are the same, else ``""``."""
    return names[0] if len(set(names)) == 1 else ""
