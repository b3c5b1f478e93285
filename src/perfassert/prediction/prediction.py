"""What the model says about one launch of one kernel on one device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from perfassert.errors import PredictionDataError
from perfassert.prediction import services as above
from perfassert.prediction.error_band import ErrorBand
from perfassert.prediction.reading import Data
from perfassert.prediction.volumes import Volumes
from perfassert.quantity import Quantity, to_integer
from perfassert.source import Assumption, SourceSpan

CONFIDENCES = ("measured", "transferred", "guessed")
"""Measured: its kind of kernel on its architecture; transferred: another; guessed: stand-ins carry
too much of it."""
LIMITERS = (
    "dram", "l2", "l1", "shared", "atomics", "compute", "issue", "latency", "parallelism",
)  # fmt: skip


_TEXTS = (
    "kernel", "device", "device_digest", "model_version", "limiter", "roofline_limiter",
    "confidence",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OccupancyResult:
    """Share of the warp slots in use, and what limits it."""

    fraction: float
    resident_blocks: int
    warps_per_unit: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread or block takes; ``None`` where the way in does not tell."""

    registers: int
    shared_bytes: int
    spill_bytes: int | None = None
    instructions: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """One suggestion of the advisor.

    ``importance``: share of all samples that it is about. ``speedup``: old over new predicted time,
    with the change carried out on the model; ``formula_speedup``: by the paper's estimator, if all
    hotspots are mended. ``hotspots``: definition and use, how many instructions lie between them,
    their own importance and speedup by the formula. ``context``: of the hottest one, ``function``,
    ``loop`` and ``stall``; ``estimate``, whether ``speedup`` is by ``"simulation"`` or, where the
    optimizer states no change of the model, by the ``"formula"`` too.
    """

    optimizer: str
    category: str
    speedup: float
    importance: float
    suggestion: str
    hotspots: tuple[Mapping[str, Any], ...] = ()
    formula_speedup: float = 1.0
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineWait:
    """Warps at the line ``file:line`` wait for what ``for_file:for_line`` has begun.

    ``stall``: why; ``share`` of all samples of warps.
    """

    file: str
    line: int
    for_file: str
    for_line: int
    stall: str
    share: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where the warps' time goes, and what would help; ``waits``: the longest first."""

    stalls: Mapping[str, float]
    advice: tuple[Advice, ...] | None
    waits: tuple[LineWait, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """Immutable; the same on every machine and in every process.

    ``time``, ``roofline_time`` and ``bounds`` in seconds; ``cycles`` of one compute unit;
    ``spread``: how far ``time`` moves over the start phases, as a share of it; ``exact``: metrics
    that are facts of the binary or the launch; ``error_bands``: what is known of the error of each
    one. ``confidence``: one of :data:`CONFIDENCES`; ``confidence_reasons``: stand-ins for what the
    kernel does not tell, the heaviest first. ``diagnostics``: what the volumes rest on.
    ``origin``: kernel, launch and device, where it was made in this process; ``diagnose`` finds
    ``stalls`` and ``advice`` from it when one of them is first asked for. ``on_expect`` is told
    what every call of :meth:`expect` found. ``seal``: digest of what
    the predictor said (:mod:`perfassert.prediction.seal`), empty for what was read from data.
    """

    kernel: str
    device: str
    device_digest: str
    model_version: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    threads: int
    updates: int
    warps: int
    blocks: int
    time: Quantity
    cycles: Quantity
    spread: float
    limiter: str
    bounds: Mapping[str, Quantity]
    roofline_time: Quantity
    roofline_limiter: str
    volumes: Volumes
    occupancy: OccupancyResult
    resources: Resources
    assumptions: tuple[Assumption, ...]
    exact: frozenset[str]
    error_bands: Mapping[str, ErrorBand]
    confidence: str
    confidence_reasons: tuple[Assumption, ...]
    diagnostics: Mapping[str, float]
    origin: Any = field(default=None, compare=False, repr=False)
    diagnose: Callable[[Any], Diagnosis] = field(compare=False, repr=False, kw_only=True)
    on_expect: Callable[[Any], object] | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )
    seal: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("bounds", "diagnostics", "error_bands"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def errors(self) -> Mapping[str, float | None]:
        """Relative error of each metric as measured: 0 for a fact, None where it is unknown."""
        return MappingProxyType({name: band.error for name, band in self.error_bands.items()})

    def error_band(self, metric: str) -> ErrorBand:
        """The band of a metric; of one that a plug-in adds nothing is known, and the widest one
        counts."""
        widest = max((band.band for band in self.error_bands.values()), default=1.0)
        return self.error_bands.get(metric, ErrorBand(None, widest))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Stalls and advice."""
        return self.diagnose(self)

    @property
    def diagnosed(self) -> bool:
        """Whether stalls and advice are there, so that asking for them costs nothing."""
        return "diagnosis" in self.__dict__

    @property
    def stalls(self) -> Mapping[str, float]:
        """Share of warp samples by reason; with ``selected`` they sum to 1. None are known of a
        prediction that was read from data without them."""
        return self.diagnosis.stalls

    @property
    def advice(self) -> tuple[Advice, ...] | None:
        """What would help, best first; None where there are no instructions to say it of."""
        return self.diagnosis.advice

    def __hash__(self) -> int:
        return hash((self.kernel, self.device_digest, self.grid, self.block, float(self.time)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_from_dict, (self.to_dict(),))

    def expect(self, **conditions: object) -> Prediction:
        """Check all conditions; see the reference for their grammar.

        Raises one :class:`~perfassert.ExpectationFailed` whose message is a table, or
        :class:`~perfassert.errors.ExpectationError` for a condition that makes no sense. Returns
        the prediction itself.
        """
        __tracebackhide__ = True
        above.services.check(self, conditions)
        return self

    def to_dict(self, diagnosis: bool = True) -> dict[str, Any]:
        """Plain data that JSON can hold; numbers in base units.

        ``diagnosis=False`` leaves stalls and advice out, which take a simulation to find.
        """
        return {
            "kernel": self.kernel,
            "device": self.device,
            "device_digest": self.device_digest,
            "model_version": self.model_version,
            "grid": list(self.grid),
            "block": list(self.block),
            "threads": self.threads,
            "updates": self.updates,
            "warps": self.warps,
            "blocks": self.blocks,
            "time": float(self.time),
            "cycles": float(self.cycles),
            "spread": self.spread,
            "limiter": self.limiter,
            "bounds": {k: float(v) for k, v in self.bounds.items()},
            "roofline_time": float(self.roofline_time),
            "roofline_limiter": self.roofline_limiter,
            "volumes": self.volumes.to_dict(),
            "occupancy": _slots(self.occupancy),
            "resources": _slots(self.resources),
            **(self._diagnosis_data() if diagnosis else {}),
            "assumptions": [assumption_data(a) for a in self.assumptions],
            "exact": sorted(self.exact),
            "error_bands": {name: _slots(band) for name, band in self.error_bands.items()},
            "confidence": self.confidence,
            "confidence_reasons": [assumption_data(a) for a in self.confidence_reasons],
            "diagnostics": dict(self.diagnostics),
        }

    def _diagnosis_data(self) -> dict[str, Any]:
        found = self.advice
        return {
            "stalls": dict(self.stalls),
            "advice": None if found is None else [advice_data(a) for a in found],
        }

    def to_json(self, diagnosis: bool = True) -> str:
        """:meth:`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(diagnosis))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Prediction:
        """The inverse of :meth:`to_dict`; ``stalls`` and ``advice`` may both be missing.

        Raises :class:`~perfassert.PredictionDataError`, which names the key, for damaged data.
        """
        given = Data(data, "prediction")
        threads, updates = given["threads"].integer(1), given["updates"].integer(1)
        diagnosed = "stalls" in given
        found = Diagnosis(
            MappingProxyType(given["stalls"].table(Data.real) if diagnosed else {}),
            given["advice"].or_none(_read_all_advice) if diagnosed else None,
        )
        texts: dict[str, Any] = {key: given[key].text() for key in _TEXTS}
        read = cls(
            **texts,
            threads=threads,
            updates=updates,
            warps=given["warps"].integer(),
            blocks=given["blocks"].integer(),
            spread=given["spread"].real(),
            grid=_read_extent(given["grid"]),
            block=_read_extent(given["block"]),
            time=given["time"].quantity("s"),
            cycles=given["cycles"].quantity(),
            bounds=given["bounds"].table(_read_seconds),
            roofline_time=given["roofline_time"].quantity("s"),
            volumes=Volumes.read(given["volumes"], threads, updates),
            occupancy=_read_occupancy(given["occupancy"]),
            resources=_read_resources(given["resources"]),
            assumptions=given["assumptions"].items(_read_assumption),
            exact=frozenset(given["exact"].items(Data.text)),
            error_bands=given["error_bands"].table(_read_band),
            confidence_reasons=given["confidence_reasons"].items(_read_assumption),
            diagnostics=given["diagnostics"].table(Data.real),
            diagnose=lambda _: found,
        )
        if diagnosed:
            read.__dict__["diagnosis"] = found
        return read


def _from_dict(data: Mapping[str, Any]) -> Prediction:
    return Prediction.from_dict(data)


def _slots(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def advice_data(advice: Advice) -> dict[str, Any]:
    """Plain data that JSON can hold."""
    hotspots = [dict(h) for h in advice.hotspots]
    return _slots(advice) | {"hotspots": hotspots, "context": dict(advice.context)}


def _read_all_advice(data: Data) -> tuple[Advice, ...]:
    return data.items(_read_advice)


def _read_advice(data: Data) -> Advice:
    return Advice(
        data["optimizer"].text(),
        data["category"].text(),
        data["speedup"].real(),
        data["importance"].real(),
        data["suggestion"].text(),
        data["hotspots"].items(lambda hotspot: hotspot.table(Data.plain)),
        data.optional("formula_speedup", 1.0).real(),
        data.optional("context", {}).table(Data.plain),
    )


def assumption_data(assumption: Assumption) -> dict[str, Any]:
    """Plain data that JSON can hold."""
    span = assumption.span
    where = None if span is None else [span.file, span.line, span.column]
    return _slots(assumption) | {"span": where}


def _read_assumption(data: Data) -> Assumption:
    return Assumption(
        data["text"].text(),
        data["span"].or_none(_read_span),
        data.optional("stands_for", "").text(),
        data.optional("share", 0.0).real(),
    )


def _read_span(data: Data) -> SourceSpan:
    where = data.items(Data.plain)
    if len(where) != 3 or not isinstance(where[0], str):
        raise data.fail("must be a file, a line and a column")
    line, column = (to_integer(n, data.key, PredictionDataError, 0) for n in where[1:])
    return SourceSpan(where[0], line, column)


def _read_extent(data: Data) -> tuple[int, int, int]:
    numbers = data.items(lambda n: n.integer(1))
    if len(numbers) != 3:
        raise data.fail("must be three numbers")
    return numbers


def _read_seconds(data: Data) -> Quantity:
    return data.quantity("s")


def _read_occupancy(data: Data) -> OccupancyResult:
    return OccupancyResult(
        data["fraction"].real(),
        data["resident_blocks"].integer(),
        data["warps_per_unit"].integer(),
        data["limited_by"].text(),
    )


def _read_resources(data: Data) -> Resources:
    return Resources(
        data["registers"].integer(),
        data["shared_bytes"].integer(),
        data.optional("spill_bytes", None).or_none(Data.integer),
        data.optional("instructions", None).or_none(Data.real),
    )


def _read_band(data: Data) -> ErrorBand:
    return ErrorBand(
        data["error"].or_none(Data.real), data["band"].real(), data.optional("suite", "").text()
    )
