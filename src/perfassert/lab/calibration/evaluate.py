"""Evaluation of measured curves: entries of a device file, or reasons for missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from perfassert.hardware.model import Device
from perfassert.lab.calibration import fits, plan
from perfassert.lab.calibration.driver import Properties, Sample, Shot
from perfassert.lab.calibration.fits import FittedValue, Hull, Level, Unfit
from perfassert.lab.calibration.plan import Measurement

SampleRows = Sequence[Sequence[Sample]]
_L1_STORES = (24, 32, 48, 64, 96, 128, 192, 256, 320, 384)  # KiB
_DRAM_STEP = 1.6  # a pair of loads that both miss, over one that misses and hits
_WHOLE = 0.05  # of a power of two
_WHOLE_CYCLES = 0.04


@dataclass(frozen=True, slots=True)
class MeasuredEntry:
    """A measured number in the base unit of its key, with a remark that has its spread."""

    value: float
    note: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Reason why a number could not be measured."""

    reason: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Cycles per instruction of a class over the warps of one pipeline, for the picture."""

    warps: tuple[float, ...]
    cycles: tuple[float, ...]
    hull: Hull | None
    length: int


EntryResult = Union[MeasuredEntry, Missing]


@dataclass(slots=True)
class Evaluation:
    """Results: ``entries``: key of the device file → result; ``curves``: class → its curve."""

    entries: dict[str, EntryResult] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)

    def number(self, key: str) -> float:
        """Return a value that other values depend on; :class:`Unfit` if there is none."""
        entry = self.entries.get(key, Missing("was not measured"))
        if isinstance(entry, Missing):
            raise Unfit(f"{key} is not known: {entry.reason}")
        return entry.value


def evaluate_measurements(
    gpu: Properties,
    nearest: Device,
    measured: Mapping[str, SampleRows],
    reported_clock: float = 0.0,
) -> Evaluation:
    """Return all results of the measurements; ``reported_clock`` is the driver's, in Hz."""
    findings = Evaluation()
    for measurement in plan.plan(gpu, nearest):
        kind = measurement.key.split()[0]
        keys = [key for name in measurement.yields for key in _parts(name)]
        try:
            for key, result in _RULES[kind](
                measurement, measured[measurement.key], findings, _Target(gpu, nearest)
            ):
                if not (isinstance(result, Missing) and key in findings.entries):
                    findings.entries[key] = result
        except Unfit as unfit:
            for key in keys:
                findings.entries.setdefault(key, Missing(str(unfit)))
    _derive(findings)
    if reported_clock and isinstance(clock := findings.entries["values.clock_hz"], MeasuredEntry):
        note = f"{clock.note}; the driver reports {reported_clock / 1e6:.0f} MHz"
        findings.entries["values.clock_hz"] = MeasuredEntry(clock.value, note)
    return findings


@dataclass(frozen=True, slots=True)
class _Target:
    gpu: Properties
    nearest: Device


EntryResults = Iterator[tuple[str, EntryResult]]


def _parts(name: str) -> tuple[str, ...]:
    if not name.startswith("operations.") or name == "operations.global_load":
        return (name,) if name.startswith("values.") else (f"{name}.issue",)
    return (f"{name}.issue", f"{name}.completion")


def _curve(
    measurement: Measurement, samples: SampleRows, value: Callable[[Sample], float]
) -> tuple[list[float], list[float]]:
    """Return x and value of each sample."""
    pairs = zip(measurement.x, samples, strict=True)
    points = [(x, value(sample)) for x, repeated in pairs for sample in repeated]
    return [x for x, _ in points], [y for _, y in points]


def _clock(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    clock = fits.median([s.clock_hz for s in samples[0]])
    note = f"all units busy, clock64 over globaltimer; {clock.note()}"
    yield "values.clock_hz", MeasuredEntry(clock.value, note)


def _hull(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    name = measurement.key.removeprefix("hull ")
    chain = plan.CHAINS[name]
    x, per_link = _curve(measurement, samples, lambda s: s.cycles)
    reason = ""
    issue: FittedValue | None
    completion: FittedValue | None
    hull = None
    try:
        hull = fits.fit_hull(x, per_link, chain.length)
        issue, completion = (
            FittedValue(hull.issue, hull.residual),
            FittedValue(hull.completion, hull.residual),
        )
    except Unfit as unfit:
        reason, issue, completion = str(unfit), unfit.issue, unfit.completion
    shown = tuple(c / chain.length for c in per_link)
    findings.curves[name] = Curve(tuple(x), shown, hull, chain.length)
    beside = f"; less {' and '.join(chain.minus)}" if chain.minus else ""
    for part, value in (("issue", issue), ("completion", completion)):
        key = f"operations.{name}.{part}"
        if value is None:
            yield key, Missing(reason)
            continue
        number = value.value - sum(
            _times_to_subtract(name, part, chain.minus, findings, target.nearest)
        )
        if number <= 0:
            yield key, Missing(f"nothing is left of {value.value:.4g} cycles{beside}")
        else:
            how = f"equation (1), residual {100 * value.spread:.2g} %"
            how = how if hull else f"one arm of the hull, {value.note()}"
            yield key, _in_cycles(number, how + beside)
    for key in measurement.yields[1:]:
        if completion is None:
            yield key, Missing(reason)
        else:
            yield key, _in_cycles(completion.value, f"Λ of {name}; {completion.note()}")


def _in_cycles(number: float, note: str) -> MeasuredEntry:
    """Return whole cycles, as pipelines take, without the cost of the clock and the loop.

    A chain that depends on itself every 4.04 cycles issues every four, not every five.
    """
    whole = max(1, round(number))
    if abs(number / whole - 1) > _WHOLE_CYCLES:
        return MeasuredEntry(number, note)
    return MeasuredEntry(float(whole), f"{number:.4g} measured; {note}")


def _times_to_subtract(
    name: str, part: str, minus: Sequence[str], findings: Evaluation, nearest: Device
) -> Iterator[float]:
    """Yield the times of a link's other instructions, to be subtracted.

    Λ counts for all of them, λ for those of the same pipeline.
    """
    pipeline = nearest.operations[name].pipeline
    for other in minus:
        if part == "completion" or nearest.operations[other].pipeline == pipeline:
            yield findings.number(f"operations.{other}.{part}")


def _barrier(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    slope, first = fits.fit_line(*_curve(measurement, samples, lambda s: s.cycles / plan.BARRIERS))
    note = f"line over the warps of a block, residual {100 * slope.spread:.2g} %"
    yield "operations.barrier.issue", _in_cycles(slope.value, note)
    yield "operations.barrier.completion", _in_cycles(first.value, f"one warp; {note}")


def _hits(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    warps, cycles = _curve(measurement, samples, lambda s: s.cycles)
    rate = [w * plan.HITS / c for w, c in zip(warps, cycles, strict=True)]
    top = fits.fit_saturation(warps, rate)
    note = f"128 B per warp, L1 hits; {top.note()}"
    yield "operations.global_load.issue", _in_cycles(1 / top.value, note)
    width = 128 * top.value
    yield (
        "values.l1_bytes_per_cycle",
        MeasuredEntry(_round_width(width), f"{width:.4g} measured; {top.note()}"),
    )


def _round_width(width: float) -> float:
    """Return a width, which is a power of two but for losses, else the nearest integer."""
    power = 1
    while power < width * (1 - _WHOLE / 2):
        power *= 2
    return float(power if abs(width / power - 1) <= _WHOLE else max(1, round(width)))


def _chase(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    per_load = [fits.median([s.cycles for s in r]).value / plan.CHASED for r in samples]
    levels = fits.fit_levels(measurement.x, per_load)
    inner = [level for level in levels if level.first < target.gpu.l2_bytes]
    if levels[-1].last < measurement.x[-1] or levels[-1].last <= target.gpu.l2_bytes:
        yield "values.dram_latency", Missing("no plateau beyond the L2")
    else:
        yield "values.dram_latency", MeasuredEntry(levels[-1].latency, _level(levels[-1]))
        inner = [level for level in inner if level is not levels[-1]]
    if not inner or inner[0].first > 2 * measurement.x[0]:
        raise Unfit("no plateau of the L1")
    l1, rest = inner[0], inner[1:]
    yield "values.l1_latency", _in_cycles(l1.latency, _level(l1))
    yield "values.l1_bytes", _l1_bytes(l1)
    if not rest:
        raise Unfit("no plateau of the L2")
    near, far = rest[0], rest[1] if len(rest) > 1 else None
    note = _level(near)
    if far is not None:
        note = f"near partition, {note}; far {far.latency:.4g}"
        yield (
            "values.l2_partitions",
            MeasuredEntry(2.0, f"near {near.latency:.4g}, far {far.latency:.4g}"),
        )
    else:
        yield "values.l2_partitions", Missing("one plateau of the L2")
    yield "values.l2_latency", MeasuredEntry(near.latency, note)


def _level(level: Level) -> str:
    spread = 100 * level.spread
    return f"chase, {_size(level.first)} to {_size(level.last)}; ± {spread:.2g} %"


def _size(count: float) -> str:
    return f"{count / 2**20:.3g} MiB" if count >= 2**20 else f"{count / 2**10:.3g} KiB"


def _l1_bytes(level: Level) -> EntryResult:
    """Return the size of the L1 from its knee, which is below the store's size.

    Shared memory and the system have a share of the store.
    """
    for store in _L1_STORES:
        if store * 1024 >= level.last:
            return MeasuredEntry(
                store * 1024.0, f"smallest usual size above the knee, {_size(level.last)}"
            )
    return Missing(f"the knee, {_size(level.last)}, is above all usual sizes")


def _pairs(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    levels = fits.fit_steps(*_curve(measurement, samples, lambda s: s.cycles))
    if len(levels) not in (2, 3):
        raise Unfit(f"{len(levels)} steps over the distance of two loads")
    both = levels[1].latency > _DRAM_STEP * levels[0].latency
    if len(levels) == 2 and not both:
        yield "values.dram_granularity", Missing("no distance at which the second load misses L2")
    else:
        yield "values.dram_granularity", _step(levels[-1])
    yield "values.sector_bytes", _step(levels[1])


def _step(level: Level) -> EntryResult:
    if level.first not in (32.0, 64.0, 128.0):
        return Missing(f"the step at {level.first:g} B is none")
    spread = 100 * level.spread
    return MeasuredEntry(
        level.first, f"the second of two loads misses from there on; ± {spread:.2g} %"
    )


def _rates(
    measurement: Measurement,
    samples: SampleRows,
    count: Callable[[Shot], float],
    time: Callable[[Sample], float] = lambda s: s.seconds,
) -> FittedValue:
    """Fit the rate of a shot, its count over its time, as it saturates with the load of a unit."""
    x, rate = [], []
    for load, shot, repeated in zip(measurement.x, measurement.shots, samples, strict=True):
        x += [load] * len(repeated)
        rate += [count(shot) / time(s) for s in repeated]
    return fits.fit_saturation(x, rate)


def _read(shot: Shot) -> float:
    """Return the bytes that a shot reads, over all passes."""
    return float(shot.n * shot.a)


def _l2(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    top = _rates(measurement, samples, _read)
    note = f"reads of {_size(measurement.shots[0].n)}; {top.note()}"
    yield "values.l2_bandwidth", MeasuredEntry(top.value, note)


def _port(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    top = _rates(measurement, samples, _read, lambda s: s.cycles)
    yield (
        "values.l2_port_bytes_per_cycle",
        MeasuredEntry(top.value, f"one unit reads; {top.note()}"),
    )


def _dram(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    kernel = measurement.key.removeprefix("dram ")
    both = 2 if kernel == "scale" else 1
    top = _rates(measurement, samples, lambda shot: both * _read(shot))
    if kernel == "scale":
        note = f"one read and one write stream; {top.note()}"
        yield "values.dram_bandwidth", MeasuredEntry(top.value, note)
        return
    factor = top.value / findings.number("values.dram_bandwidth")
    key = "values.dram_alone_factor"
    note = f"{top.value / 1e9:.4g} GB/s for {kernel}s alone; {top.note()}"
    before = findings.entries.get(key)
    if isinstance(before, MeasuredEntry):
        larger = max(before.value, factor)
        yield key, MeasuredEntry(larger, f"{before.note}, {note}")
    else:
        yield key, MeasuredEntry(max(1.0, factor), note)


def _packets(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    """Return the cycles of each packet: of the whole L2, or of one unit's port by its clock."""
    key, clock = measurement.yields[0], findings.number("values.clock_hz")
    one = key.endswith("port_packet_cycles")
    yield _cycles_each(
        measurement, samples, plan.STORE_PACKETS,
        lambda s: s.cycles if one else s.seconds * clock,
        "stores of 4 bytes in lines of their own, two packets each",
    )  # fmt: skip


def _atomics(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    clock = findings.number("values.clock_hz")
    what = "threads on words of their own, side by side" if measurement.shots[0].a else "one word"
    yield _cycles_each(measurement, samples, 1, lambda s: s.seconds * clock, what)


def _cycles_each(
    measurement: Measurement,
    samples: SampleRows,
    each: int,
    cycles: Callable[[Sample], float],
    what: str,
) -> tuple[str, EntryResult]:
    """Return the cycles of one operation at saturation; a thread's step has ``each`` of them."""
    top = _rates(measurement, samples, lambda s: each * s.blocks * s.threads * s.n, cycles)
    return measurement.yields[0], MeasuredEntry(1 / top.value, f"{what}; {top.note()}")


def _dispatch(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    clock = findings.number("values.clock_hz")
    slope, _ = fits.fit_line(*_curve(measurement, samples, lambda s: s.seconds * clock))
    yield (
        "values.block_dispatch_cycles",
        MeasuredEntry(slope.value, f"blocks of one warp without work; {slope.note()}"),
    )


def _blocks(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    """Return the cycles between the end of a block's work and the start of the next one's."""
    clock = findings.number("values.clock_hz")
    slope, _ = fits.fit_line(*_curve(measurement, samples, lambda s: s.seconds * clock))
    gap = slope.value - plan.SPIN
    key = measurement.yields[0]
    if key.endswith("drain_cycles"):
        gap -= findings.number("values.block_launch_cycles")
    what = "further with a store" if key.endswith("drain_cycles") else "of a block but its work"
    yield key, MeasuredEntry(max(0.0, gap), f"{what}; ± {slope.spread * slope.value:.2g} cycles")


def _kernels(
    measurement: Measurement, samples: SampleRows, findings: Evaluation, target: _Target
) -> EntryResults:
    slope, _ = fits.fit_line(*_curve(measurement, samples, lambda s: s.seconds))
    yield (
        "values.launch_overhead",
        MeasuredEntry(slope.value, f"empty kernels in a queue; {slope.note()}"),
    )


_RULES: dict[str, Callable[[Measurement, SampleRows, Evaluation, _Target], EntryResults]] = {
    "clock": _clock, "hull": _hull, "barrier": _barrier, "hits": _hits, "chase": _chase,
    "pairs": _pairs, "l2": _l2, "port": _port, "dram": _dram, "packets": _packets,
    "atomics": _atomics, "dispatch": _dispatch, "blocks": _blocks,
    "kernels": _kernels,
}  # fmt: skip


_DERIVED = {
    "global_load": "dram_latency", "texture_load": "dram_latency", "async_copy": "dram_latency",
    "global_store": "l2_latency", "fence": "l2_latency", "local_store": "l2_latency",
    "local_load": "l1_latency",
}  # fmt: skip
"""Classes whose Λ is the latency of a memory level."""


def _derive(findings: Evaluation) -> None:
    for name, level in _DERIVED.items():
        result = findings.entries.get(f"values.{level}")
        if isinstance(result, MeasuredEntry):
            result = MeasuredEntry(result.value, f"as {level}: {result.note}")
        if result is not None:
            findings.entries[f"operations.{name}.completion"] = result
