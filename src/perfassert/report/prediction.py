"""Text of one prediction: metrics, bounds, assumptions."""

from __future__ import annotations

from perfassert.errors import printable
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.prediction import PredictionValues
from perfassert.report.tables import Table, Text, join, table
from perfassert.report.trust import trust

_FAR = 0.1  # share of the time by which start phases may differ and nothing is said of it
_ESTIMATED = ("time", "l2_load", "l2_store", "dram_load", "dram_store", "registers", "occupancy")


def text(prediction: PredictionValues) -> Text:
    """Return the output of ``perfassert predict``."""
    v, occupancy = prediction.volumes, prediction.occupancy
    block, grid = ("×".join(map(str, e)) for e in (prediction.block, prediction.grid))
    compiled = prediction.kernel_kind is KernelKind.COMPILED  # where 0 is a fact
    touched = compiled or bool(v.l1_wavefronts.fields)
    shared_known = compiled or v.shared_wavefronts.fields or not prediction.resources.shared_bytes

    def value_or_unknown(value: object, is_known: object = touched) -> object:
        return value if is_known else "unknown"

    rows: list[tuple[object, ...]] = [
        ("time", prediction.time),
        *_phases(prediction),
        *_speed_of_light(prediction),
        ("confidence", prediction.confidence),
        ("limiter", prediction.limiter),
        ("roofline time", value_or_unknown(prediction.roofline_time)),
        ("roofline limiter", value_or_unknown(prediction.roofline_limiter)),
        ("L2 to L1", value_or_unknown(v.l2_load.total)),
        ("L1 to L2", value_or_unknown(v.l2_store.total)),
        ("DRAM to L2", value_or_unknown(v.dram_load.total)),
        ("L2 to DRAM", value_or_unknown(v.dram_store.total)),
        ("L1 wavefronts", value_or_unknown(v.l1_wavefronts.total)),
        ("shared wavefronts", value_or_unknown(v.shared_wavefronts.total, shared_known)),
        ("warp instructions", prediction.resources.instructions),
        ("registers", prediction.resources.registers),
        ("occupancy", f"{occupancy.fraction:.0%}, limited by {occupancy.limited_by}"),
    ]
    bounds = sorted(prediction.bounds.items(), key=lambda item: -item[1])
    parts: list[str | Table] = [
        printable(f"{prediction.kernel} on {prediction.device}: grid {grid}, block {block}", False),
        table(("metric", "value"), rows),
        table(("limiter", "alone"), [(k, b) for k, b in bounds if b]),
    ]
    parts.append(trust(prediction, _ESTIMATED))
    if prediction.assumptions:
        parts.append(
            "Assumptions:\n" + "\n".join(printable(f"- {a}", False) for a in prediction.assumptions)
        )
    return join(parts)


def _speed_of_light(prediction: PredictionValues) -> list[tuple[object, ...]]:
    """Return rows with the speed of light, and the ratio of the predicted time to it."""
    if prediction.headroom is None:
        return []
    return [
        ("speed of light", prediction.speed_of_light),
        ("headroom", f"{prediction.headroom:.3g}x"),
    ]


def _phases(prediction: PredictionValues) -> list[tuple[object, ...]]:
    """Return a row with the time's spread over start phases of blocks; no row below ``_FAR``."""
    if prediction.spread < _FAR:
        return []
    return [("over start phases", f"± {prediction.spread / 2:.0%}")]
