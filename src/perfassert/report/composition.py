"""Components of a metric, printed as evidence below a failure table."""

from __future__ import annotations

from perfassert.prediction.volumes import Volume
from perfassert.predictor.answer import Answer
from perfassert.quantity import Quantity
from perfassert.report.advice import one
from perfassert.report.tables import percent, table

_TOP = 3  # suggestions below a failure
_NEGLIGIBLE = 1e-5  # of the total: shown as 0


def composition(prediction: Answer, metric: str, per: str = "") -> str:
    """Return the components of one metric as text, or ``""`` for a metric without components."""
    if metric in _BY_BOUNDS:
        return _bounds(prediction)
    if metric in ("advice", "advice_speedup"):
        return "\n\n".join(str(one(a)) for a in (prediction.advice or ())[:_TOP])
    if metric == "occupancy":
        return _occupancy(prediction)
    level = metric.removesuffix("_volume")
    names = [metric] if hasattr(prediction.volumes, metric) else [f"{level}_load", f"{level}_store"]
    parts = [
        _volume(name, getattr(prediction.volumes, name), prediction, per)
        for name in names
        if hasattr(prediction.volumes, name)
    ]
    return "\n\n".join(part for part in parts if part)


_BY_BOUNDS = ("time", "cycles", "headroom", "roofline_time", "limiter", "roofline_limiter")


def _bounds(p: Answer) -> str:
    slowest = max(float(v) for v in p.bounds.values()) or 1.0
    rows = [
        (name, time, percent(float(time) / slowest, signed=False))
        for name, time in sorted(p.bounds.items(), key=lambda item: -float(item[1]))
    ]
    return f"time of each limiter alone:\n{table(('limiter', 'time', 'of the slowest'), rows)}"


def _occupancy(p: Answer) -> str:
    o = p.occupancy
    return (
        f"occupancy: {o.resident_blocks} blocks = {o.warps_per_unit} warps per compute unit, "
        f"limited by {o.limited_by} ({p.resources.registers} registers per thread, "
        f"{p.resources.shared_bytes} B shared per block)"
    )


def _volume(name: str, volume: Volume, p: Answer, per: str) -> str:
    counts = {"thread": p.threads, "update": p.updates, "warp": p.warps, "block": p.blocks}
    count = counts.get(per, 1)

    def format_part(value: Quantity | None) -> str:
        if value is None:
            return ""
        visible = float(value) if float(value) > _NEGLIGIBLE * float(volume.total) else 0.0
        return str(Quantity(visible / count, value.unit, per))

    keys = list(volume.parts)
    if not keys:
        return ""
    rows = [
        (field, *(format_part(own.parts.get(key)) for key in keys), format_part(own.total))
        for field, own in volume.fields.items()
    ]
    rows.append(
        ("all fields", *(format_part(volume.parts[key]) for key in keys), format_part(volume.total))
    )
    return f"{name} is made of:\n{table(('field', *keys, 'total'), rows)}"
