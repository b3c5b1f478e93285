"""How wrong each metric is known to be: bands measured on suites, by architecture and kind.

``devices/fits/model-error.toml`` holds them; ``perfassert validate --bands`` makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from perfassert.hardware.model import Device
from perfassert.hardware.shipped import read_fit
from perfassert.prediction.error_band import FACT, ErrorBand
from perfassert.prediction.prediction import Prediction
from perfassert.predictor.model import Model

TABLE = "model-error"
RANKING = "ranking"
"""The band within which two launches of one kernel count as tied."""
WITH_ERROR_BAND = (
    "time", "cycles", "roofline_time", "dram_load", "dram_store", "dram_volume", "l2_load",
    "l2_store", "l2_volume", "l1_wavefronts", "l1_cycles", "shared_wavefronts", "occupancy",
    "registers", "spill_bytes", "instructions", "advice_speedup", RANKING,
)  # fmt: skip
"""What has a number that can be wrong, and the order of two of them."""
_LIKE = {
    "cycles": "time",
    "roofline_time": "time",
    "dram_volume": "dram_load",
    "l2_volume": "l2_load",
    "advice_speedup": "time",
}
"""Metrics that are made of another one, whose error they have."""


@dataclass(frozen=True, slots=True)
class PredictionKind:
    """What sort of prediction an error was measured on; ``way``: ``"described"`` by address
    expressions, ``"compiled"``, ``"guessed"`` on any device, or ``"drawn"``, a graph with what its
    author says of latencies, which nothing was measured on."""

    arch: str
    way: str
    limiter: str


GUESSED = PredictionKind("any", "guessed", "any")


@dataclass(frozen=True, slots=True)
class _Row:
    kind: PredictionKind
    error: float
    suite: str
    fitted: bool


@lru_cache(maxsize=1)
def _table() -> Mapping[str, tuple[_Row, ...]]:
    rows: dict[str, list[_Row]] = {}
    for entry in read_fit(TABLE)["band"]:
        kind = PredictionKind(entry["arch"], entry["way"], entry["limiter"])
        row = _Row(kind, float(entry["error"]), entry["suite"], entry["fitted"])
        rows.setdefault(entry["metric"], []).append(row)
    return {metric: tuple(entries) for metric, entries in rows.items()}


def exact_metrics(model: Model) -> frozenset[str]:
    """Facts of the binary or the launch: instructions are one where the user counted them."""
    facts = {"occupancy", "registers"}
    if model.bound_launch.kernel.spill_bytes is not None:
        facts.add("spill_bytes")
    if model.by_hand:
        facts.add("instructions")
    return frozenset(facts)


def kind_of(prediction: Prediction, device: Device) -> PredictionKind:
    """The kind that a prediction counts as."""
    drawn = "instructions" in prediction.exact
    return _kind(device, prediction.resources.spill_bytes, drawn, prediction.limiter)


def _kind(device: Device, spill_bytes: int | None, drawn: bool, limiter: str) -> PredictionKind:
    """Only compiled code knows what it spills, and only who drew a graph counted instructions."""
    by_hand = "drawn" if drawn else "described"
    return PredictionKind(device.arch, by_hand if spill_bytes is None else "compiled", limiter)


def error_bands(model: Model, limiter: str) -> dict[str, ErrorBand]:
    """The band of every metric of a launch."""
    kernel, exact = model.bound_launch.kernel, exact_metrics(model)
    kind = _kind(model.device, kernel.spill_bytes, model.by_hand, limiter)
    return {name: FACT if name in exact else error_band(name, kind) for name in WITH_ERROR_BAND}


def bands_of_guess(bands: Mapping[str, ErrorBand], apart: float) -> dict[str, ErrorBand]:
    """The bands of a prediction that is a guess: as guesses were measured, and at least the share
    ``apart`` by which what was assumed changes the time. Facts stay facts."""
    wider = {}
    for name, band in bands.items():
        guess = error_band(name, GUESSED)
        widest = max(band.band, guess.band, apart)
        known = guess if guess.error is not None else band
        wider[name] = band if band.exact else replace(known, band=widest)
    return wider


def error_band(metric: str, kind: PredictionKind) -> ErrorBand:
    """The band of a metric; where that kind was never measured, unknown: the widest one counts."""
    rows = _table().get(_LIKE.get(metric, metric), ())
    own = [row for row in rows if row.kind == kind]
    if own:
        worst = max(own, key=lambda row: row.error)
        seen = ", to which it was fitted" if worst.fitted else ""
        return ErrorBand(worst.error, worst.error, worst.suite + seen)
    others = (row for row in rows or tuple(_everything()) if row.kind != GUESSED)
    widest = max((row.error for row in others), default=1.0)
    return ErrorBand(None, widest, "")


def _everything() -> Iterator[_Row]:
    return (row for rows in _table().values() for row in rows)
