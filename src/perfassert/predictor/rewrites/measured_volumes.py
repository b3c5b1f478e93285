"""Measured volumes in, time out: the phenomenological mode of the Warpspeed paper.

What caches and DRAM moved is taken as given, and only the time is modelled. So an error of the time
is told from one of the volumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from perfassert.errors import LaunchError, UnitError, close_matches
from perfassert.kernel.launch import Launch
from perfassert.prediction.volumes import Volume
from perfassert.quantity import Quantity, parse_quantity, round_significant, to_real
from perfassert.source import Assumption

if TYPE_CHECKING:
    from perfassert.predictor.model import BoundLaunch

MEASURABLE = ("l2_load", "l2_store", "dram_load", "dram_store")
"""Volumes between the levels of memory, which measurements may replace.

Requests of warps to L1 and shared memory follow from the addresses and are never replaced.
"""


def with_measured(
    bound_launch: BoundLaunch, launch: Launch, measured: Mapping[str, str | float]
) -> BoundLaunch:
    """Return the launch with these volumes in place of the estimated ones, and a note on each.

    ``measured``: by name, in bytes of the launch, or as text with a unit and a granularity
    (``"8 B/update"``). Fields and parts keep their shares. Raises :class:`LaunchError`.
    """
    volumes = bound_launch.estimate.volumes
    warps = -(-launch.threads_per_block // bound_launch.device.warp_size)
    counts = {
        "thread": bound_launch.threads,
        "update": bound_launch.threads * bound_launch.kernel.updates_per_thread,
        "warp": warps * launch.blocks,
        "block": launch.blocks,
    }
    changed, notes = {}, []
    for name, value in measured.items():
        if name not in MEASURABLE:
            hint = close_matches(name, MEASURABLE) or f"; known: {', '.join(MEASURABLE)}"
            raise LaunchError(f"volumes: {name!r} cannot be given{hint}")
        before = getattr(volumes, name)
        changed[name] = _scale_to_total(before, _bytes(name, value, counts))
        notes.append(
            Assumption(f"{name} is given: {changed[name].total}, predicted {before.total}")
        )
    estimate = replace(bound_launch.estimate, volumes=replace(volumes, **changed))
    return replace(bound_launch, estimate=estimate, notes=tuple(notes))


def _bytes(name: str, value: str | float, counts: Mapping[str, int]) -> float:
    """The volume of the whole launch."""
    if isinstance(value, Quantity):
        total, unit, per = float(value), value.unit, value.per
    elif isinstance(value, str):
        try:
            parsed = parse_quantity(value)
        except UnitError as error:
            raise LaunchError(f"volumes: {name}: {error}") from None
        total, unit, per = parsed.value, parsed.unit, parsed.per
    else:
        try:
            total, unit, per = float(to_real(value, f"volumes: {name}", LaunchError)), "B", ""
        except LaunchError as error:
            raise LaunchError(f"{error}; give bytes, or text such as '8 B/update'") from None
    if unit != "B":
        raise LaunchError(f"volumes: {name}: {value!r} is not in bytes; write '8 B/update'")
    if not (isfinite(total) and total >= 0):
        raise LaunchError(f"volumes: {name} must be finite and not below 0, not {value!r}")
    return total * counts.get(per, 1)


def _scale_to_total(volume: Volume, total: float) -> Volume:
    """The volume with another total; where there was none before, nobody knows of which field."""
    before = float(volume.total)
    if not before:
        return Volume.make({"measured": total}, "B", volume.threads, volume.updates)

    def scale(volume: Volume) -> Volume:
        ratio = total / before
        return replace(
            volume,
            total=Quantity(round_significant(float(volume.total) * ratio), "B"),
            parts={
                k: Quantity(round_significant(float(v) * ratio), "B")
                for k, v in volume.parts.items()
            },
            fields={k: scale(v) for k, v in volume.fields.items()},
        )

    return scale(volume)
