"""Launches of a profile: what it says of each, and those that are alike as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


def profile(launches: Iterable[tuple[Shape, float | None]], device: str = "") -> LaunchProfile:
    """Of single launches, in order; None: nothing says how long one took."""
    times_by_shape: dict[Shape, list[float | None]] = {}
    for shape, seconds in launches:
        times_by_shape.setdefault(shape, []).append(seconds)
    alike = (
        ProfiledLaunches(shape, len(times), tuple(t for t in times if t is not None))
        for shape, times in times_by_shape.items()
    )
    return LaunchProfile(tuple(alike), device)
