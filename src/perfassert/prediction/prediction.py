"""What the model says about one launch of one kernel on one device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from perfassert.errors import PredictionDataError
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.error_band import ErrorBand
from perfassert.prediction.reading import DataNode
from perfassert.prediction.volumes import Volumes
from perfassert.quantity import Quantity, round_significant, to_integer
from perfassert.source import Assumption, SourceSpan

CONFIDENCES = ("measured", "extrapolated", "guessed")
"""Measured: its kind of kernel on its architecture; extrapolated: another; guessed: too much of it
rests on assumed values."""
FORMER_CONFIDENCES = {"transferred": "extrapolated"}
"""What files of version 0.2 say, and what it is called now."""
LIMITERS = (
    "dram", "l2", "l1", "shared", "atomics", "compute", "issue", "latency", "parallelism",
)  # fmt: skip


UNSATURATED = ("latency", "parallelism")
"""Limiters of a launch that keeps no resource busy."""
_TEXTS = (
    "kernel", "device", "device_digest", "model_version", "limiter", "roofline_limiter",
    "confidence",
)  # fmt: skip


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
    """What a thread, a block and the launch take.

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
    """One suggestion of the advisor, with the speedup that it would bring.

    Attributes:
        optimizer: its name: ``"Loop Unrolling"``, ``"Coalescing"``, …
        category: ``"stall elimination"``, ``"latency hiding"`` or ``"parallel"``.
        speedup: old over new predicted time, with the change carried out on the model.
        importance: fraction of all samples that it is about.
        suggestion: what to do, in a sentence.
        hotspots: up to five mappings: ``def`` and ``use`` (definition and use, as
            ``"file.cu:line"`` or node), ``distance`` in instructions between them, their
            ``importance`` and ``speedup`` (by the formula), and where they lie.
        formula_speedup: old over new time by the estimator of the paper, if all hotspots are fixed.
        context: of the hottest hotspot: ``function``, ``loop``, ``stall``; ``estimate`` is
            ``"simulation"``, or ``"formula"`` where ``speedup`` is the paper's.

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


class TimelineSpan(NamedTuple):
    """Cycles of an SM that a warp spends for one reason.

    Attributes:
        start, end: whole cycles since the launch.
        reason: a key of :attr:`Prediction.stalls`, or ``"launch"`` or ``"drain"``.
        place: ``"file:line"`` of the instruction that the warp issues next, else its operation.
    """

    start: int
    end: int
    reason: str
    place: str


Lane = tuple[TimelineSpan, ...]
"""Spans of one place for a resident warp, one after the other; later blocks take the place over."""


class Timeline(tuple[Lane, ...]):
    """The lanes of the warps of a scheduler; ``seal``: digest of what the predictor made."""

    seal: str

    def __new__(cls, lanes: Iterable[Lane], seal: str) -> Timeline:
        """Make a tuple of the lanes."""
        made = super().__new__(cls, lanes)
        made.seal = seal
        return made


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where the warps' time goes, and what would help; ``waits``: the longest first; ``seal``:
    digest of what the predictor made."""

    stalls: Mapping[str, float]
    advice: tuple[Advice, ...] | None
    waits: tuple[LineWait, ...] = ()
    seal: str = field(default="", compare=False, repr=False)


_NOT_DIAGNOSED = Diagnosis(MappingProxyType({}), None)


class Asked(Protocol):
    """What a prediction knows of the question that it answers."""

    @property
    def digest(self) -> str:
        """Of the question's content."""

    def origin(self) -> tuple[Any, Any, Any] | None:
        """Kernel, launch and device."""

    def model(self) -> Any:
        """What was simulated."""

    def diagnose(self, prediction: Any) -> Diagnosis:
        """Stalls and advice of the prediction."""

    def timeline(self) -> tuple[Lane, ...]:
        """The first cycles of the warps of a scheduler."""


@dataclass(frozen=True)
class Prediction:
    """Predicted time, data volumes and bottlenecks of one launch of one kernel on one device.

    Made by :func:`perfassert.predict`. Immutable; the same on every machine and in every process.

    Attributes:
        kernel, device: their names.
        kernel_kind: ``"compiled"``, ``"described"`` by address expressions, or a ``"graph"`` of
            instructions.
        device_digest, model_version: identify the content of the device file, and the model.
        grid, block: extents in (x, y, z).
        threads: unmasked threads of the launch.
        updates: results that they make.
        warps, blocks: all of the grid.
        time: of the launch, in seconds, from the simulation fed with the predicted volumes.
        cycles: the same in cycles of an SM, without the launch overhead.
        spread: range of the time over a few fixed start phases, as a fraction of it.
        limiter: what decides the time: ``dram``, ``l2``, ``l1``, ``shared``, ``atomics``,
            ``compute``, ``issue``, ``latency`` or ``parallelism``.
        bounds: limiter → its own time, in seconds.
        roofline_time, roofline_limiter: of the slowest of DRAM, L2, L1 and floating point.
        volumes: of the whole launch: ``l1_wavefronts``, ``l1_cycles``, ``shared_wavefronts``
            (counts), ``l2_load``, ``l2_store``, ``dram_load``, ``dram_store`` (bytes). Each has
            ``total``, ``per_thread``, ``per_update``, ``parts`` that sum to the total, and
            ``fields``.
        occupancy: ``fraction``, ``resident_blocks`` and ``warps_per_unit`` of an SM, ``limited_by``
            (``warps``, ``blocks``, ``registers`` or ``shared``).
        resources: ``registers`` and ``spill_bytes`` of a thread, ``shared_bytes`` of a block,
            ``instructions`` of the launch.
        assumptions: what the model had to assume; each has ``text`` and ``span``.
        exact: names of metrics that are facts of the binary or the launch, and no estimates.
        error_bands: metric → what is known of its error.
        confidence: ``"measured"``, ``"extrapolated"`` (from another device or kind of kernel) or
            ``"guessed"``.
        confidence_reasons: assumed values that replace facts of the kernel, the heaviest first,
            each with ``share``, the fraction of instructions or bytes that rests on it.
        speed_of_light: least time on the device, in seconds: for the launch's compulsory DRAM
            bytes, each once, at the nominal bandwidth, and for its floating-point and matrix
            operations at the peak rate; 0 where it has none of them, or it is not known.
        diagnostics: what volumes and time rest on; keys in ``docs/explanation/model.md``.
        question: digest of all that the prediction depends on: the kernel's content, launch,
            device and overrides; empty for data of earlier versions.
        asked: the question itself, where it was made in this process.
        on_expect: called with the outcomes of every :meth:`expect`.
        seal: digest of the values that the predictor made; empty for what was read from data.

    Example:
        >>> import perfassert as pa
        >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
        >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
        >>> p = pa.predict(copy, pa.Launch.cover(1 << 24, block=256), "a100")
        >>> p.limiter, p.volumes.dram_load.per_thread, p.occupancy.fraction
        ('dram', 8 B/thread, 1.0)

    Source:
        Volumes and roofline: Ernst et al., Warpspeed, arXiv 2204.14242. Time: Cornelis and Lemeire,
        *The Pipeline Performance Model*. Stalls and advice: Zhou et al., GPA, CGO 2021.
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
    asked: Asked | None = field(default=None, compare=False, repr=False, kw_only=True)
    on_expect: Callable[[Any], object] | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )
    seal: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("bounds", "diagnostics", "error_bands"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def asked_in(self, asked: Asked) -> Prediction:
        """Return a prediction with these values that knows its question.

        Args:
            asked: the question, and the session that diagnoses it.
        """
        made = object.__new__(Prediction)
        made.__dict__.update(self.__dict__, asked=asked)
        return made

    @property
    def errors(self) -> Mapping[str, float | None]:
        """Relative error of each metric as measured: 0 for a fact, None where it is unknown."""
        return MappingProxyType({name: band.error for name, band in self.error_bands.items()})

    @property
    def headroom(self) -> float | None:
        """Predicted time over :attr:`speed_of_light`: how many times as fast the launch could be.

        None where the speed of light is 0 or unknown.

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
        """Error band of a metric; of one that a plug-in adds, the widest known band counts.

        Args:
            metric: its name, as :meth:`expect` takes it.
        """
        widest = max((band.band for band in self.error_bands.values()), default=1.0)
        return self.error_bands.get(metric, ErrorBand(None, widest))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Stalls and advice together; the first access runs another simulation."""
        return _NOT_DIAGNOSED if self.asked is None else self.asked.diagnose(self)

    @property
    def origin(self) -> tuple[Any, Any, Any] | None:
        """Kernel, launch and device, where it was made in this process and may be asked again."""
        return None if self.asked is None else self.asked.origin()

    @property
    def diagnosed(self) -> bool:
        """Whether stalls and advice are computed already, so that reading them costs nothing."""
        return "diagnosis" in self.__dict__

    @property
    def stalls(self) -> Mapping[str, float]:
        """Fraction of warp samples by stall reason; with ``selected`` they sum to 1.

        Empty for a prediction that was read from data without them, or has measured volumes.
        """
        return self.diagnosis.stalls

    @property
    def advice(self) -> tuple[Advice, ...] | None:
        """Suggestions, the largest speedup first; empty where nothing is worth one.

        None for measured volumes, and for a prediction that was read from data without advice.
        """
        return self.diagnosis.advice

    @cached_property
    def timeline(self) -> tuple[Lane, ...]:
        """The warps of one scheduler of an SM over the first cycles of the launch.

        A tuple of spans for each place of a warp. Empty for a prediction that was read from data,
        has measured volumes, or whose warps run too many instructions to be watched.

        Example:
            >>> import perfassert as pa
            >>> fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
            >>> lanes = pa.predict(fill, pa.Launch(16, 256), "a100").timeline
            >>> len(lanes), lanes[0][0].start, lanes[0][0].reason
            (2, 0, 'launch')
        """
        return () if self.asked is None else self.asked.timeline()

    def __hash__(self) -> int:
        return hash((self.kernel, self.device_digest, self.grid, self.block, float(self.time)))

    def __reduce__(self) -> tuple[Any, ...]:
        waits = self.diagnosis.waits if self.diagnosed else None
        lanes = tuple(self.timeline) if "timeline" in self.__dict__ else None
        return (_from_pickle, (self.to_dict(self.diagnosed), waits, lanes))

    def probability_faster(self, other: Prediction) -> float | None:
        """How likely this launch is faster than another on the same device.

        Predicted times of one kernel err in common, so that an order is known better than a time.
        The probability is calibrated on pairs of measured launches, by what limits both, whether
        they are of one kernel, and how far their predicted times lie apart.

        Args:
            other: another prediction for the same device.

        Returns:
            A probability; None where what differs between the two is guessed, or they are of two
            versions of the model.

        Raises:
            RankingError: the two are of different devices.

        Example:
            >>> import perfassert as pa
            >>> fields = [pa.Field("a", shape=(4096, 4096)), pa.Field("b", shape=(4096, 4096))]
            >>> copy = pa.Kernel.from_accesses("copy", fields, ["a[y, x]"], ["b[y, x]"])
            >>> wide, tall = (
            ...     pa.predict(copy, pa.Launch.cover((4096, 4096), block), "a100")
            ...     for block in ((256, 1), (1, 256))
            ... )
            >>> wide.probability_faster(tall) > 0.95
            True

        Source:
            ``devices/fits/pair-error.toml``; ``docs/results/decisions.md`` tests it.
        """
        from perfassert.predictor.judge.pairs import probability_faster

        return probability_faster(self, other)

    def expect(self, *, undecided: str = "fail", **conditions: object) -> Prediction:
        """Check conditions on metrics, and fail with a table if one does not hold.

        Args:
            undecided: what becomes of ``limiter``, if another bound lies within the model's error
                of the largest, and the condition holds for one of them only: ``"fail"`` (default)
                or ``"allow"``.
            **conditions: metric → condition. A number means equality, in base units; text has an
                operator and a quantity (``"< 60 us"``), a tolerance (``"10 B/update ± 5 %"``,
                ``"8 B -0 % +3 %"``), a range (``"50 .. 60 us"``), or names (``"dram | l2"``,
                ``"!latency"``, of advice also ``"in top 3: Loop Unrolling"``). Metrics: ``time
                cycles roofline_time limiter roofline_limiter dram_load dram_store dram_volume
                l2_load l2_store l2_volume l1_wavefronts l1_cycles shared_wavefronts occupancy
                registers spill_bytes instructions speed_of_light headroom confidence advice
                advice_speedup``, and those of
                plug-ins. Units after a slash: ``/thread /update /warp /block``.

        Returns:
            The prediction itself.

        Raises:
            ExpectationFailed: at least one condition does not hold; one error for all of them.
            ExpectationError: an unknown metric or unit, a malformed condition, or a metric that
                this kernel cannot have.

        Example:
            >>> import perfassert as pa
            >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
            >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
            >>> p = pa.predict(copy, pa.Launch.cover(1 << 24, block=256), "a100")
            >>> p.expect(time="< 400 us", limiter="dram", dram_load="8 B/thread ± 1 %") is p
            True
        """
        __tracebackhide__ = True
        from perfassert.expect.check import check

        check(self, conditions, undecided)
        return self

    def to_dict(self, diagnosis: bool = True) -> dict[str, Any]:
        """Convert to plain data that JSON can hold; numbers in base units.

        Args:
            diagnosis: with stalls and advice, which take a simulation to find. Default: True.

        Returns:
            What :meth:`from_dict` reads.

        Example:
            >>> import perfassert as pa
            >>> fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
            >>> prediction = pa.predict(fill, pa.Launch(16, 256), "a100")
            >>> pa.Prediction.from_dict(prediction.to_dict()) == prediction
            True
        """
        return {
            "kernel": self.kernel,
            "kernel_kind": self.kernel_kind.value,
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
            "speed_of_light": float(self.speed_of_light),
            "headroom": self.headroom,
            "question": self.question,
        }

    def _diagnosis_data(self) -> dict[str, Any]:
        advice = self.advice
        return {
            "stalls": dict(self.stalls),
            "advice": None if advice is None else [advice_data(a) for a in advice],
        }

    def to_json(self, diagnosis: bool = True) -> str:
        """Write as one line of JSON.

        Args:
            diagnosis: with stalls and advice, as for :meth:`to_dict`. Default: True.
        """
        return json.dumps(self.to_dict(diagnosis))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Prediction:
        """Read what :meth:`to_dict` gave; ``stalls`` and ``advice`` may both be missing.

        Args:
            data: plain data.

        Returns:
            An equal prediction, which does not know its kernel: :func:`perfassert.whatif` refuses
            it.

        Raises:
            PredictionDataError: damaged data; the key is named.
        """
        root = DataNode(data, "prediction")
        threads, updates = root["threads"].integer(1), root["updates"].integer(1)
        diagnosed = "stalls" in root
        diagnosis = Diagnosis(
            MappingProxyType(root["stalls"].table(DataNode.real) if diagnosed else {}),
            root["advice"].or_none(_read_all_advice) if diagnosed else None,
        )
        texts: dict[str, Any] = {key: root[key].text() for key in _TEXTS}
        confidence = texts["confidence"]
        texts["confidence"] = FORMER_CONFIDENCES.get(confidence, confidence)
        read = cls(
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
        if diagnosed:
            read.__dict__["diagnosis"] = diagnosis
        return read


def _from_pickle(
    data: Mapping[str, Any], waits: tuple[LineWait, ...] | None, timeline: tuple[Lane, ...] | None
) -> Prediction:
    """Read the values, and what JSON does not have of a diagnosis: None where it was not made."""
    prediction = Prediction.from_dict(data)
    if waits is not None:
        prediction.__dict__["diagnosis"] = replace(prediction.diagnosis, waits=waits)
    if timeline is not None:
        prediction.__dict__["timeline"] = timeline
    return prediction


def _slots(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def advice_data(advice: Advice) -> dict[str, Any]:
    """Plain data that JSON can hold."""
    hotspots = [dict(h) for h in advice.hotspots]
    return _slots(advice) | {"hotspots": hotspots, "context": dict(advice.context)}


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
    )


def assumption_data(assumption: Assumption) -> dict[str, Any]:
    """Plain data that JSON can hold."""
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
