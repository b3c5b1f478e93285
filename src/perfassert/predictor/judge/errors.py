"""Error bands of each metric, measured on suites by architecture and kind.

``devices/fits/model-error.toml`` holds them; ``perfassert validate --bands`` makes it. A kind that
was not measured has the band of its limiter on any architecture, or else of its way of description.
So has a kernel far outside of what was measured of its kind: with more registers, code, data or
stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from perfassert.hardware.model import Device
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.error_band import FACT, ErrorBand
from perfassert.prediction.prediction import PredictionValues
from perfassert.predictor.model import Model
from perfassert.predictor.simulate.time import Time
from perfassert.quantity import round_significant
from perfassert.shipped import model_number, read_fit

TABLE = "model-error"
WITH_ERROR_BAND = (
    "time", "cycles", "roofline_time", "dram_load", "dram_store", "dram_volume", "l2_load",
    "l2_store", "l2_volume", "l1_wavefronts", "l1_cycles", "shared_wavefronts", "occupancy",
    "registers", "spill_bytes", "instructions", "advice_speedup", "speed_of_light", "headroom",
    "load_width", "store_width", "bank_conflicts",
)  # fmt: skip
"""Metrics whose number has an error band."""
LIKE = {
    "cycles": "time",
    "roofline_time": "time",
    "dram_volume": "dram_load",
    "l2_volume": "l2_load",
    "advice_speedup": "time",
    "headroom": "time",
    "speed_of_light": "dram_load",
}
"""Metrics that are made of another one, whose error they have."""


@dataclass(frozen=True, slots=True)
class PredictionKind:
    """Kind of predictions for which an error was measured.

    ``way`` is the value of a :class:`KernelKind`, or ``"guessed"`` on any device. Nothing was
    measured on graphs, whose authors give the latencies.
    """

    arch: str
    way: str
    limiter: str


ANY = "any"
GUESSED = PredictionKind(ANY, "guessed", ANY)
TRAITS = {
    "registers": "registers per thread",
    "code_bytes": "bytes of code",
    "wave_footprint_bytes": "bytes that a wave touches",
    "stores_per_load": "bytes stored for each that is loaded",
}
"""Traits of kernels, with their names in messages; suites reach each only up to some value."""
_BEYOND = model_number("beyond_measured")
"""Factor on the largest measured trait beyond which a kernel is extrapolated."""
_NEVER_KNOWN_BETTER = model_number("least_unmeasured_error")
"""The least error of a kind that was not measured, though others like it are exact."""


@dataclass(frozen=True, slots=True)
class KnownError:
    """Error measured for a kind; ``most``: the largest value of each trait in the suite."""

    kind: PredictionKind
    error: float
    suite: str
    fitted: bool
    most: Mapping[str, float] = field(default_factory=dict)

    def find_outside(self, traits: Mapping[str, float]) -> str:
        """Return the trait in which the kernel exceeds all measured ones, in words; or ``""``."""
        for name, most in self.most.items():
            value = traits.get(name, 0.0)
            if value > most * _BEYOND:
                return f"{value:.3g} {TRAITS[name]}, at most {most:.3g} were measured"
        return ""


KnownErrors = Mapping[PredictionKind, KnownError]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, KnownErrors]:
    """Metric → what is known of each kind."""
    rows: dict[str, dict[PredictionKind, KnownError]] = {}
    for entry in read_fit(TABLE)["band"]:
        kind = PredictionKind(entry["arch"], entry["way"], entry["limiter"])
        error, most = float(entry["error"]), entry.get("most", {})
        row = KnownError(kind, error, entry["suite"], entry["fitted"], most)
        rows.setdefault(entry["metric"], {})[kind] = row
    return rows


def read_traits(diagnostics: Mapping[str, float], registers: int) -> dict[str, float]:
    """Return the :data:`TRAITS` of a prediction."""
    known = {**diagnostics, "registers": registers}
    return {name: float(known[name]) for name in TRAITS}


def exact_metrics(model: Model) -> frozenset[str]:
    """Facts of the binary or the launch: instructions are one where the user counted them."""
    facts = {"occupancy", "registers", "load_width", "store_width", "bank_conflicts"}
    return frozenset(facts | _FURTHER_FACTS[model.bound_launch.kernel.kind])


_FURTHER_FACTS: Mapping[KernelKind, set[str]] = {
    KernelKind.COMPILED: {"spill_bytes"},
    KernelKind.DESCRIBED: set(),
    KernelKind.GRAPH: {"instructions"},
}


def kind_of(prediction: PredictionValues, device: Device) -> PredictionKind:
    """Return the kind that a prediction counts as."""
    return PredictionKind(device.arch, prediction.kernel_kind.value, prediction.limiter)


def error_bands(model: Model, limiter: str, traits: Mapping[str, float]) -> dict[str, ErrorBand]:
    """Return the band of every metric of a launch with those :data:`TRAITS`.

    The limiter's band says how far two bounds have to lie apart; it is that of all times of its way
    of description.
    """
    exact = exact_metrics(model)
    kind = PredictionKind(model.device.arch, model.bound_launch.kernel.kind.value, limiter)
    bands = {
        name: FACT if name in exact else error_band(name, kind, traits) for name in WITH_ERROR_BAND
    }
    if not model.by_hand:
        bands["limiter"] = _band_in_table("time", PredictionKind(ANY, kind.way, ANY))
    return bands


def add_clock_range(band: ErrorBand, device: Device, time: Time) -> ErrorBand:
    """Return the band of a time on a device that is known to run at other clocks, too.

    The part of DRAM stays a time, all else scales as cycles.
    """
    if not time.busy:
        return band
    slowest = device.slowest_clock_hz or device.clock_hz
    fastest = device.fastest_clock_hz or device.clock_hz
    dram = time.bounds.get("dram", 0.0)
    others = max((t for name, t in time.bounds.items() if name != "dram"), default=0.0)
    counted = others if time.limiter == "dram" else time.busy
    longest = max(time.busy, counted * device.clock_hz / slowest)
    least = max(min(dram, time.busy), time.busy * device.clock_hz / fastest)
    above, below = longest / time.busy - 1, max(0.0, 1 - least / time.busy)
    return replace(band, above=round_significant(above, 3), below=round_significant(below, 3))


def bands_of_guess(bands: Mapping[str, ErrorBand], apart: float) -> dict[str, ErrorBand]:
    """Return the bands of a prediction that is a guess.

    They are as measured on guesses, and at least the share ``apart`` by which the assumptions
    change the time. Facts stay facts.
    """
    wider = {}
    for name, band in bands.items():
        if name == "limiter":
            wider[name] = band
            continue
        guess = error_band(name, GUESSED)
        widest = max(band.band, guess.band, apart)
        known = guess if guess.measured else band
        wider[name] = band if band.exact else replace(known, band=widest)
    return wider


def error_band(
    metric: str, kind: PredictionKind, traits: Mapping[str, float] = MappingProxyType({})
) -> ErrorBand:
    """Return the band of a metric, as wide as suites that were left out ask for.

    Where that kind, or a kernel with such ``traits``, was never measured, the kinds that are most
    alike count.
    """
    band = _band_in_table(metric, kind, traits)
    if kind == GUESSED:
        return band
    return widen(band, _left_out_factors().get(LIKE.get(metric, metric), {}))


def widen(band: ErrorBand, factors: Mapping[bool, float]) -> ErrorBand:
    """Return the band as left-out suites ask for; ``factors``: by True if such were measured."""
    if band.error is None:
        return band
    of_measured = factors.get(True, 1.0)
    factor = of_measured if band.measured else factors.get(False, of_measured)
    error = round_significant(band.error * factor, 2)
    return replace(band, error=error, band=error)


def _band_in_table(
    metric: str, kind: PredictionKind, traits: Mapping[str, float] = MappingProxyType({})
) -> ErrorBand:
    own_metric = LIKE.get(metric, metric)
    return find_band(
        _table().get(own_metric, {}), kind, traits, lambda: _error_of_like(own_metric, kind)
    )


def find_band(
    known: KnownErrors,
    kind: PredictionKind,
    traits: Mapping[str, float],
    error_of_like: Callable[[], float | None],
) -> ErrorBand:
    """Return the band of a kind.

    A kernel with ``traits`` that were not measured has at least the error of the kind most like it.
    """
    own = known.get(kind)
    outside = "" if own is None else own.find_outside(traits)
    if own is not None and not outside:
        seen = ", to which it was fitted" if own.fitted else ""
        return ErrorBand(own.error, own.error, own.suite + seen)
    alike = error_of_like()
    if alike is None:
        return ErrorBand(None, _widest(), "", outside)
    error = max(alike, own.error if own else 0.0, _NEVER_KNOWN_BETTER)
    return ErrorBand(error, error, "", outside)


@lru_cache(maxsize=1)
def _left_out_factors() -> Mapping[str, Mapping[bool, float]]:
    """Return the factors by which bands widen for suites left out of the fit.

    The keys are the metric, and True if that kind of kernel was measured.
    """
    factors: dict[str, dict[bool, float]] = {}
    for entry in read_fit(TABLE).get("left_out", ()):
        factors.setdefault(entry["metric"], {})[entry["measured"]] = float(entry["factor"])
    return factors


@lru_cache(maxsize=4096)
def _error_of_like(metric: str, kind: PredictionKind) -> float | None:
    """Return the error of the kinds most like this one, itself excluded, or else the widest."""
    return error_of_like(_table().get(metric, {}), kind)


def error_of_like(known: KnownErrors, kind: PredictionKind) -> float | None:
    """Return the error of the kinds most like this one, itself excluded."""
    return nearest_error(kind, {k: row.error for k, row in known.items() if k != kind})


@lru_cache(maxsize=1)
def _widest() -> float:
    """Return the largest measured error of any metric and kind, guesses excluded."""
    every = (row for rows in _table().values() for row in rows.values())
    return max((row.error for row in every if row.kind != GUESSED), default=1.0)


def nearest_error(kind: PredictionKind, errors: Mapping[PredictionKind, float]) -> float | None:
    """The error of the kind, or of what is most like it, or else the widest but for guesses; None:
    there is none."""
    known = (errors[k] for k in examples_of(kind) if k in errors)
    widest = max((error for k, error in errors.items() if k != GUESSED), default=None)
    return next(known, widest)


def examples_of(kind: PredictionKind) -> tuple[PredictionKind, ...]:
    """Return the kind and those that stand for it if it was not measured, most alike first."""
    return kind, replace(kind, arch=ANY), replace(kind, arch=ANY, limiter=ANY)
