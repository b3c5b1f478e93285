"""Prediction of one launch of one kernel on one device, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from perfassert.errors import PredictionDataError
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.error_band import ErrorBand
from perfassert.prediction.reading import DataNode
from perfassert.prediction.volumes import Volumes
from perfassert.quantity import Quantity, round_significant, to_integer
from perfassert.source import Assumption, SourceSpan

CONFIDENCES = ("measured", "extrapolated", "guessed")
"""Confidences, highest first.

Measured: this kind of kernel was measured on this architecture. Extrapolated: it was not. Guessed:
too much of the prediction depends on assumed values.
"""
LIMITERS = (
    "dram", "l2", "l1", "shared", "atomics", "compute", "issue", "latency", "parallelism",
)  # fmt: skip


UNSATURATED = ("latency", "parallelism")
"""Limiters of a launch that keeps no resource busy."""
_TEXTS = ("kernel", "device", "device_digest", "model_version")
_WORDS = {
    "limiter": ("", *LIMITERS), "roofline_limiter": ("", *LIMITERS), "confidence": CONFIDENCES,
}  # fmt: skip


V = TypeVar("V", bound="PredictionValues")


@dataclass(frozen=True, slots=True)
class OccupancyResult:
    """Theoretical occupancy: fraction of the warp slots in use, and what limits it.

    Attributes:
        fraction: resident warps over warp slots, 0 to 1.
        resident_blocks: blocks that an SM holds at a time.
        warps_per_unit: warps that an SM holds at a time.
        limited_by: ``"warps"``, ``"blocks"``, ``"registers"`` or ``"shared"``.
    """

    fraction: float
    resident_blocks: int
    warps_per_unit: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that a thread, a block and the launch use.

    Attributes:
        registers: of a thread.
        shared_bytes: of a block, static and dynamic.
        spill_bytes: local memory of a thread; None where the kernel is not compiled.
        instructions: warp instructions of the launch; None where they are not known.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int | None = None
    instructions: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """A suggestion of the advisor, with the speedup that it would bring.

    Attributes:
        optimizer: its name: ``"Loop Unrolling"``, ``"Coalescing"``, …
        category: ``"stall elimination"``, ``"latency hiding"`` or ``"parallel"``.
        speedup: predicted time without the change, divided by the predicted time with it.
        importance: fraction of all samples that the suggestion concerns.
        suggestion: what to do, in a sentence.
        hotspots: up to five mappings: ``def`` and ``use`` (definition and use, as
            ``"file.cu:line"`` or node), ``distance`` in instructions between them, their
            ``importance`` and ``speedup`` (by the paper's formula), and the definition's place.
        formula_speedup: speedup by the estimator of the paper if all hotspots are fixed.
        context: ``function``, ``loop`` and ``stall`` of the hottest hotspot. ``estimate`` says how
            ``speedup`` was obtained: ``"compiled"`` if the change was compiled and predicted,
            ``"simulation"`` if it was only simulated, ``"formula"`` if it is the paper's estimate.
        proof: the change that was compiled or launched, with the predicted times before and after;
            None if the change was only simulated.

    Example:
        >>> import perfassert as pa
        >>> g = pa.InstructionGraph.builder()
        >>> with g.loop(trips=64) as body:
        ...     _ = g.op("add", g.op("global_load"), body.carried("sum"), name="sum")
        >>> total = pa.Kernel.from_graph("total", g.build(), registers=16)
        >>> first = pa.predict(total, pa.Launch(216, 256), "a100").advice[0]
        >>> first.optimizer, first.category, first.speedup > 1
        ('Loop Unrolling', 'latency hiding', True)

    Source:
        Zhou et al., *GPA: A GPU Performance Advisor Based on Instruction Sampling*, CGO 2021.
    """

    optimizer: str
    category: str
    speedup: float
    importance: float
    suggestion: str
    hotspots: tuple[Mapping[str, Any], ...] = ()
    formula_speedup: float = 1.0
    context: Mapping[str, Any] = field(default_factory=dict)
    proof: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """An automatic change of the source or the compiler options, to test a suggestion.

    ``optimizer`` names the optimizer whose advice is tested. ``name`` is the compiler option or the
    edit. ``changes`` are arguments of :func:`perfassert.whatif`. ``suggestion`` says what an author
    should do; it is empty if the advice says so already. ``whole`` is True if the trial makes the
    whole suggested change, so that an edit by hand could gain no more.
    """

    optimizer: str
    name: str
    changes: Mapping[str, Any]
    suggestion: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Result of a trial: its predicted ``time``, or the reason why there is none (``error``).

    ``registers`` and ``spill_bytes`` are per thread; ``occupancy`` is a fraction.
    """

    trial: Trial
    time: Quantity | None = None
    registers: int = 0
    spill_bytes: int = 0
    occupancy: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class LineWait:
    """Wait of the warps at ``file:line`` for an instruction at ``for_file:for_line``.

    ``stall`` is the stall reason. ``share`` is the fraction of all samples of warps.
    """

    file: str
    line: int
    for_file: str
    for_line: int
    stall: str
    share: float


class TimelineSpan(NamedTuple):
    """Cycles of an SM that a warp spends for one reason.

    Attributes:
        start, end: integer cycles since the launch.
        reason: a key of :attr:`Prediction.stalls`, or ``"launch"`` or ``"drain"``.
        place: ``"file:line"`` of the instruction that the warp issues next; its operation if the
            line is unknown.
    """

    start: int
    end: int
    reason: str
    place: str


Lane = tuple[TimelineSpan, ...]
"""Spans of one warp slot in order of time; warps of later blocks reuse the slot."""


class Timeline(tuple[Lane, ...]):
    """The lanes of a scheduler's warp slots; ``seal`` is a digest of the predictor's result."""

    seal: str

    def __new__(cls, lanes: Iterable[Lane], seal: str) -> Timeline:
        """Create a timeline from lanes."""
        made = super().__new__(cls, lanes)
        made.seal = seal
        return made


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Stalls and advice of a prediction.

    ``stalls`` maps reasons to fractions of the warps' time. ``advice`` lists changes that would
    help; None if it was not determined. ``waits`` begins with the longest. ``trials``
    were compiled and predicted. ``left_out`` are the trials that were not, for ``reason``. ``seal``
    is a digest of the predictor's result.
    """

    stalls: Mapping[str, float]
    advice: tuple[Advice, ...] | None
    waits: tuple[LineWait, ...] = ()
    trials: tuple[TrialResult, ...] = field(default=(), compare=False)
    left_out: tuple[Trial, ...] = field(default=(), compare=False)
    reason: str = field(default="", compare=False)
    seal: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class PredictionValues:
    """Values of a prediction except stalls, advice and timeline, as data.

    :class:`perfassert.Prediction` explains the values. ``seal``: digest of values that the
    predictor made; empty for values that were read from a file.
    """

    kernel: str
    kernel_kind: KernelKind
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
    speed_of_light: Quantity
    question: str = ""
    seal: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("bounds", "diagnostics", "error_bands"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def errors(self) -> Mapping[str, float | None]:
        """Relative error of each metric that nine of ten predictions of this kind stay below.

        The error is 0 for a fact and None if it is unknown. For an extrapolated prediction it is
        the error of the most similar kinds.
        """
        return MappingProxyType({name: band.error for name, band in self.error_bands.items()})

    @property
    def headroom(self) -> float | None:
        """Predicted time divided by :attr:`speed_of_light`: the largest possible speedup.

        None if the speed of light is 0 or unknown.

        Example:
            >>> import perfassert as pa
            >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
            >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
            >>> p = pa.predict(copy, pa.Launch.cover(1 << 24, block=256), "a100")
            >>> p.speed_of_light, p.headroom < 1.3
            (172.6 us, True)
        """
        least = float(self.speed_of_light)
        return round_significant(float(self.time) / least) if least else None

    def error_band(self, metric: str) -> ErrorBand:
        """Return the error band of a metric; for a metric of a plug-in, the widest known band.

        Args:
            metric: its name, as :meth:`expect` takes it.
        """
        widest = max((band.band for band in self.error_bands.values()), default=1.0)
        return self.error_bands.get(metric, ErrorBand(None, widest))

    def __hash__(self) -> int:
        return hash((self.kernel, self.device_digest, self.grid, self.block, float(self.time)))


def values_data(values: PredictionValues) -> dict[str, Any]:
    """Convert to plain data for JSON; numbers are in base units."""
    return {
        "kernel": values.kernel,
        "kernel_kind": values.kernel_kind.value,
        "device": values.device,
        "device_digest": values.device_digest,
        "model_version": values.model_version,
        "grid": list(values.grid),
        "block": list(values.block),
        "threads": values.threads,
        "updates": values.updates,
        "warps": values.warps,
        "blocks": values.blocks,
        "time": float(values.time),
        "cycles": float(values.cycles),
        "spread": values.spread,
        "limiter": values.limiter,
        "bounds": {k: float(v) for k, v in values.bounds.items()},
        "roofline_time": float(values.roofline_time),
        "roofline_limiter": values.roofline_limiter,
        "volumes": values.volumes.to_dict(),
        "occupancy": _slots(values.occupancy),
        "resources": _slots(values.resources),
        "assumptions": [assumption_data(a) for a in values.assumptions],
        "exact": sorted(values.exact),
        "error_bands": {name: _slots(band) for name, band in values.error_bands.items()},
        "confidence": values.confidence,
        "confidence_reasons": [assumption_data(a) for a in values.confidence_reasons],
        "diagnostics": dict(values.diagnostics),
        "speed_of_light": float(values.speed_of_light),
        "headroom": values.headroom,
        "question": values.question,
    }


def read_values(kind: type[V], data: Mapping[str, Any]) -> V:
    """Read the values of a prediction from the data of :func:`values_data`.

    Args:
        kind: class to construct. Fields that :class:`PredictionValues` does not have need defaults.
        data: plain data.

    Raises:
        PredictionDataError: damaged data; the message names the key.
    """
    root = DataNode(data, "prediction")
    threads, updates = root["threads"].integer(1), root["updates"].integer(1)
    texts: dict[str, Any] = {key: root[key].text() for key in _TEXTS}
    texts |= {key: root[key].word(words) for key, words in _WORDS.items()}
    return kind(
        **texts,
        kernel_kind=_read_kernel_kind(root),
        threads=threads,
        updates=updates,
        warps=root["warps"].integer(),
        blocks=root["blocks"].integer(),
        spread=root["spread"].real(),
        grid=_read_extent(root["grid"]),
        block=_read_extent(root["block"]),
        time=root["time"].quantity("s"),
        cycles=root["cycles"].quantity(),
        bounds=root["bounds"].table(_read_seconds),
        roofline_time=root["roofline_time"].quantity("s"),
        volumes=Volumes.read(root["volumes"], threads, updates),
        occupancy=_read_occupancy(root["occupancy"]),
        resources=_read_resources(root["resources"]),
        assumptions=root["assumptions"].items(_read_assumption),
        exact=frozenset(root["exact"].items(DataNode.text)),
        error_bands=root["error_bands"].table(_read_band),
        confidence_reasons=root["confidence_reasons"].items(_read_assumption),
        diagnostics=root["diagnostics"].table(DataNode.real),
        speed_of_light=root.optional("speed_of_light", 0.0).quantity("s"),
        question=root.optional("question", "").text(),
    )


def _slots(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def advice_data(advice: Advice) -> dict[str, Any]:
    """Convert to plain data for JSON."""
    hotspots = [dict(h) for h in advice.hotspots]
    return _slots(advice) | {"hotspots": hotspots, "context": dict(advice.context)}


def diagnosis_data(diagnosis: Diagnosis) -> dict[str, Any]:
    """Convert stalls and advice to plain data for JSON."""
    advice = diagnosis.advice
    return {
        "stalls": dict(diagnosis.stalls),
        "advice": None if advice is None else [advice_data(a) for a in advice],
    }


def read_diagnosis(data: Mapping[str, Any]) -> Diagnosis | None:
    """Read the data of :func:`diagnosis_data`; None if the prediction has no diagnosis."""
    root = DataNode(data, "prediction")
    if "stalls" not in root:
        return None
    stalls = MappingProxyType(root["stalls"].table(DataNode.real))
    return Diagnosis(stalls, root["advice"].or_none(_read_all_advice))


def _read_all_advice(data: DataNode) -> tuple[Advice, ...]:
    return data.items(_read_advice)


def _read_advice(data: DataNode) -> Advice:
    return Advice(
        data["optimizer"].text(),
        data["category"].text(),
        data["speedup"].real(),
        data["importance"].real(),
        data["suggestion"].text(),
        data["hotspots"].items(lambda hotspot: hotspot.table(DataNode.plain)),
        data.optional("formula_speedup", 1.0).real(),
        data.optional("context", {}).table(DataNode.plain),
        data.optional("proof", None).or_none(DataNode.text),
    )


def assumption_data(assumption: Assumption) -> dict[str, Any]:
    """Convert to plain data for JSON."""
    span = assumption.span
    where = None if span is None else [span.file, span.line, span.column]
    return _slots(assumption) | {"span": where}


def _read_assumption(data: DataNode) -> Assumption:
    return Assumption(
        data["text"].text(),
        data["span"].or_none(_read_span),
        data.optional("stands_for", "").text(),
        data.optional("share", 0.0).real(),
    )


def _read_span(data: DataNode) -> SourceSpan:
    where = data.items(DataNode.plain)
    if len(where) != 3 or not isinstance(where[0], str):
        raise data.fail("must be a file, a line and a column")
    line, column = (to_integer(n, data.key, PredictionDataError, 0) for n in where[1:])
    return SourceSpan(where[0], line, column)


def _read_extent(data: DataNode) -> tuple[int, int, int]:
    numbers = data.items(lambda n: n.integer(1))
    if len(numbers) != 3:
        raise data.fail("must be three numbers")
    return numbers


def _read_seconds(data: DataNode) -> Quantity:
    return data.quantity("s")


def _read_kernel_kind(data: DataNode) -> KernelKind:
    if "kernel_kind" in data:
        return data["kernel_kind"].one_of(KernelKind)
    spills = data["resources"].optional("spill_bytes", None).value is not None
    return KernelKind.of_values(spills, "instructions" in data["exact"].items(DataNode.text))


def _read_occupancy(data: DataNode) -> OccupancyResult:
    return OccupancyResult(
        data["fraction"].real(),
        data["resident_blocks"].integer(),
        data["warps_per_unit"].integer(),
        data["limited_by"].text(),
    )


def _read_resources(data: DataNode) -> Resources:
    return Resources(
        data["registers"].integer(),
        data["shared_bytes"].integer(),
        data.optional("spill_bytes", None).or_none(DataNode.integer),
        data.optional("instructions", None).or_none(DataNode.real),
    )


def _read_band(data: DataNode) -> ErrorBand:
    return ErrorBand(
        data["error"].or_none(DataNode.real),
        data["band"].real(),
        data.optional("suite", "").text(),
        data.optional("outside", "").text(),
        data.optional("above", 0.0).real(),
        data.optional("below", 0.0).real(),
    )
