"""Metrics that expectations can name, and their values in a prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from perfassert.errors import ExpectationError, close_matches
from perfassert.prediction.prediction import CONFIDENCES, LIMITERS
from perfassert.quantity import GRANULARITIES, Quantity, round_significant

if TYPE_CHECKING:
    from perfassert.plugins import Contributions
    from perfassert.predictor.answer import Answer


class Kind(str, Enum):
    """Type of a metric's value."""

    QUANTITY = "quantity"
    FRACTION = "fraction"
    NAME = "name"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; ``read`` returns ``None`` for a prediction that cannot have it.

    ``extensive``: it grows with the launch, so that it may be per thread, update, warp or block.
    """

    name: str
    read: Callable[[Any], object]
    unit: str = ""
    kind: Kind = Kind.QUANTITY
    extensive: bool = False
    names: tuple[str, ...] = ()
    needs: str = ""

    @property
    def says_trust(self) -> bool:
        """Return True if the metric describes the prediction rather than the kernel."""
        return self.name == "confidence"


def _has_accesses(p: Answer) -> bool:
    return bool(p.volumes.l1_wavefronts.fields)


def _total(name: str) -> Callable[[Answer], object]:
    return lambda p: getattr(p.volumes, name).total if _has_accesses(p) else None


def _shared_wavefronts(p: Answer) -> object:
    """Return the wavefronts; None if the kernel's accesses to its shared memory are unknown."""
    volume = p.volumes.shared_wavefronts
    return None if p.resources.shared_bytes and not volume.fields else volume.total


def _shape(name: str) -> Callable[[Answer], object]:
    return lambda p: p.diagnostics.get(name)


def _bank_conflicts(p: Answer) -> object:
    """Return the bank conflict factor: 1 without shared memory, None if it is unknown."""
    return p.diagnostics.get("bank_conflicts", None if p.resources.shared_bytes else 1.0)


def _roofline(p: Answer, value: object) -> object:
    return value if float(p.roofline_time) > 0 else None


def _total_traffic(level: str) -> Callable[[Answer], object]:
    def read(p: Answer) -> object:
        if not _has_accesses(p):
            return None
        load = float(getattr(p.volumes, f"{level}_load").total)
        store = float(getattr(p.volumes, f"{level}_store").total)
        return Quantity(round_significant(load + store), "B")

    return read


def _first_speedup(p: Answer) -> object:
    if p.advice is None:
        return None
    return Quantity(p.advice[0].speedup if p.advice else 1.0)


_NO_ADVICE = "no advice was computed for it"
_NO_GRAPH = "it needs an instruction graph or compiled code"
_NO_ACCESS = "it needs accesses: address expressions, or nodes that name theirs"
_NO_GLOBAL = "no thread of it {} global memory, as far as is known"
_NO_WORK = "it moves no bytes and computes nothing that has a peak rate"
_ALL = (
    Metric("time", lambda p: p.time, "s"),
    Metric("cycles", lambda p: p.cycles),
    Metric("roofline_time", lambda p: _roofline(p, p.roofline_time), "s", needs=_NO_ACCESS),
    Metric("limiter", lambda p: p.limiter, kind=Kind.NAME, names=LIMITERS),
    Metric(
        "roofline_limiter",
        lambda p: _roofline(p, p.roofline_limiter),
        kind=Kind.NAME,
        names=LIMITERS,
        needs=_NO_ACCESS,
    ),
    Metric("dram_load", _total("dram_load"), "B", extensive=True, needs=_NO_ACCESS),
    Metric("dram_store", _total("dram_store"), "B", extensive=True, needs=_NO_ACCESS),
    Metric("dram_volume", _total_traffic("dram"), "B", extensive=True, needs=_NO_ACCESS),
    Metric("l2_load", _total("l2_load"), "B", extensive=True, needs=_NO_ACCESS),
    Metric("l2_store", _total("l2_store"), "B", extensive=True, needs=_NO_ACCESS),
    Metric("l2_volume", _total_traffic("l2"), "B", extensive=True, needs=_NO_ACCESS),
    Metric("l1_wavefronts", _total("l1_wavefronts"), extensive=True, needs=_NO_ACCESS),
    Metric("l1_cycles", _total("l1_cycles"), extensive=True, needs=_NO_ACCESS),
    Metric("shared_wavefronts", _shared_wavefronts, extensive=True, needs="it needs compiled code"),
    Metric("load_width", _shape("load_width"), "B", needs=_NO_GLOBAL.format("loads")),
    Metric("store_width", _shape("store_width"), "B", needs=_NO_GLOBAL.format("stores")),
    Metric(
        "bank_conflicts",
        _bank_conflicts,
        needs="no access of its compiled code to shared memory is known",
    ),
    Metric("occupancy", lambda p: Quantity(p.occupancy.fraction), kind=Kind.FRACTION),
    Metric("registers", lambda p: Quantity(p.resources.registers)),
    Metric(
        "spill_bytes",
        lambda p: p.resources.spill_bytes,
        "B",
        needs="it needs compiled code",
    ),
    Metric("instructions", lambda p: p.resources.instructions, extensive=True, needs=_NO_GRAPH),
    Metric("speed_of_light", lambda p: p.speed_of_light or None, "s", needs=_NO_WORK),
    Metric("headroom", lambda p: p.headroom, needs=_NO_WORK),
    Metric(
        "confidence",
        lambda p: p.confidence,
        kind=Kind.NAME,
        names=CONFIDENCES,
    ),
    Metric("advice", lambda p: p.advice, kind=Kind.ADVICE, needs=_NO_ADVICE),
    Metric("advice_speedup", _first_speedup, needs=_NO_ADVICE),
)
METRICS: Mapping[str, Metric] = {m.name: m for m in _ALL}
"""Metrics of perfassert; :func:`all_metrics` adds those of plug-ins."""


def all_metrics() -> Mapping[str, Metric]:
    """Return every metric by name, those of plug-ins last."""
    return {**METRICS, **{m.name: m for m in _plugin_metrics().values()}}


def metric(name: str) -> Metric:
    """Return the metric, or raise :class:`ExpectationError` with close matches."""
    if name in METRICS:
        return METRICS[name]
    added = _plugin_metrics().get(name)
    if added is None or added.name != name:
        known = all_metrics()
        hint = close_matches(name, known) or f"; known: {', '.join(known)}"
        raise ExpectationError(f"unknown metric {name!r}{hint}{_plugin_metrics().note()}")
    return added


def _plugin_metrics() -> Contributions[Metric]:
    from perfassert.plugins import gather

    return gather("perfassert_metrics", _read_plugin_metrics, METRICS)


def _read_plugin_metrics(plugin: str, metrics: Any) -> Iterator[tuple[str, Metric]]:
    from perfassert.plugins import wrap_errors

    for candidate in metrics:
        if not isinstance(candidate, Metric):
            raise TypeError(f"{candidate!r} is no perfassert.expect.metrics.Metric")
        if not candidate.name.isidentifier():
            raise ValueError(f"{candidate.name!r} cannot be a keyword of expect()")
        yield (
            candidate.name,
            replace(
                candidate, read=wrap_errors(plugin, f"metric {candidate.name!r}", candidate.read)
            ),
        )


def value_of(wanted: Metric, prediction: Answer, per: str = "") -> object:
    """Return the metric's value, per ``per`` if that is given.

    Raises :class:`ExpectationError` where this kernel cannot have the metric.
    """
    value = wanted.read(prediction)
    if value is None:
        raise ExpectationError(
            f"{wanted.name}: kernel {prediction.kernel!r} cannot have it; {wanted.needs}"
        )
    if wanted.kind in (Kind.NAME, Kind.ADVICE):
        return value
    number = float(value)  # type: ignore[arg-type]
    if not per:
        return Quantity(number, wanted.unit)
    counts = (prediction.threads, prediction.updates, prediction.warps, prediction.blocks)
    count = dict(zip(GRANULARITIES, counts, strict=True))[per]
    return Quantity(round_significant(number / count), wanted.unit, per)
