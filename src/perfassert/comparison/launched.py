"""Recorded launches with the code of two sides: what each takes, and why it takes longer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfassert.baseline.components import format_field
from perfassert.baseline.entry import entry_of
from perfassert.baseline.tolerance import Tolerance
from perfassert.comparison.compare import (
    DEFAULT_TOLERANCE,
    Item,
    ReportComparison,
    compare,
    time_tolerance,
)
from perfassert.comparison.kernel_changes import (
    CodeDiff,
    CodeSide,
    KernelDiff,
    Placed,
    verdict,
    worst_first,
)
from perfassert.comparison.limits import CODE_UNITS, ChangeLimits
from perfassert.comparison.line_changes import costs_of
from perfassert.comparison.read import Place, PredictionKey, Reported, ReportFile
from perfassert.comparison.sides import Reading
from perfassert.comparison.status import Status
from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.frontends.cuda.inventory import KernelInfo
from perfassert.frontends.cuda.kernels import CompiledCode
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.names import fits
from perfassert.kernel.description import CompiledKernel, Kernel
from perfassert.kernel.launch import Buffer, Launch
from perfassert.prediction.prediction import Prediction
from perfassert.predictor.predict import predict
from perfassert.report.sources import costliest, sources
from perfassert.version import MODEL_VERSION

_KINDS = {".cu": "cuda", ".ptx": "ptx"}
_SHOWN = 60  # characters of an argument


@dataclass(frozen=True, slots=True)
class Asked:
    """One launch of a launches file: ``kernel`` as recorded, called ``name`` in its code, which
    that of a side replaces."""

    label: str
    name: str
    kernel: Kernel
    launch: Launch
    device: str


@dataclass(frozen=True, slots=True)
class LaunchComparison:
    """``comparison``: times, components and causes; ``failures``: other numbers that went too far,
    in words; ``unknown``: launches that the base cannot predict either, and why; ``changed``: those
    that do other work than in the base, which is gone with them; ``timed``: whether times are
    limited; ``kernels``: launch → the kernels of both sides that it is of."""

    comparison: ReportComparison
    failures: tuple[str, ...]
    unknown: tuple[str, ...]
    changed: tuple[str, ...]
    timed: bool
    kernels: Mapping[str, tuple[KernelInfo, ...]] = field(default_factory=dict)

    def fails(self, allow_gone: bool) -> bool:
        """Whether a launch is too slow, lost, or moves too much."""
        gone = self.changed or self.comparison.of(Status.GONE, Status.BROKEN)
        lost = gone and not allow_gone
        slower = self.timed and self.comparison.of(Status.SLOWER)
        return bool(lost or slower or self.failures)


def compare_launches(
    base: tuple[CodeSide, Sequence[Asked]],
    head: tuple[CodeSide, Sequence[Asked]],
    code: CodeDiff,
    limits: ChangeLimits,
    readings: tuple[Reading, Reading],
) -> LaunchComparison:
    """Predict every launch with the code of its side. One that cannot be predicted is broken."""
    renamed = {
        k.pair.base.mangled: k.pair.head.mangled
        for k in code.kernels
        if k.pair.base and k.pair.head
    }
    kernels: dict[str, tuple[KernelInfo, ...]] = {}
    old = _predict_side(*base, {}, readings[0], kernels)
    new = _predict_side(*head, renamed, readings[1], kernels)
    time = next((one for one in limits.all if one.metric == "time"), None)
    tolerance = time_tolerance(DEFAULT_TOLERANCE)
    if time is not None:
        tolerance = Tolerance(time.amount, time.margin, time.margin)
    comparison = compare(old, new, tolerance)
    failures = tuple(text for item in comparison.items for text in _too_much(item, limits))
    unknown = tuple(f"{x}: no prediction: {old.broken[x]}" for x in new.broken if x in old.broken)
    changed = tuple(_other_work(base[1], head[1]))
    return LaunchComparison(comparison, failures, unknown, changed, time is not None, kernels)


_SIGNS = {Status.SLOWER: -1, Status.FASTER: 1, Status.WITHIN: 0, Status.SAME: 0}


def judge_by_times(code: CodeDiff, times: LaunchComparison) -> CodeDiff:
    """The kernels that are launched are better or worse by their times, and by what goes further
    than is allowed: registers and their like are means to that end."""
    kernels = [_judge_kernel(kernel, times) for kernel in code.kernels]
    return replace(code, kernels=tuple(sorted(kernels, key=worst_first)))


def _judge_kernel(kernel: KernelDiff, times: LaunchComparison) -> KernelDiff:
    sides = [info for info in (kernel.pair.base, kernel.pair.head) if info is not None]
    signs = [
        _SIGNS[item.status]
        for item in times.comparison.items
        if item.status in _SIGNS
        and any(info is side for info in times.kernels.get(item.key.test, ()) for side in sides)
    ]
    if not signs or len(sides) < 2:
        return kernel
    return replace(kernel, status=verdict(signs, kernel.failures))


def _other_work(base: Sequence[Asked], head: Sequence[Asked]) -> Iterator[str]:
    """A head with a launches file of its own could ask for less, which is not faster."""
    before = {one.label: _work(one) for one in base}
    for one in head:
        old, new = before.get(one.label), _work(one)
        if old is not None and old != new:
            names = sorted(n for n in {*old, *new} if old.get(n) != new.get(n))
            differences = ", ".join(
                f"{n} {_argument_change(old.get(n), new.get(n))}" for n in names
            )
            yield f"{one.label}: other arguments than in the base: {differences}"


def _work(asked: Asked) -> dict[str, object]:
    """Arguments, and what the file says about the kernel; grid and block are how it is done.

    Places of trip counts move with lines: their numbers count.
    """
    args = asked.launch.args
    given = args if isinstance(args, Mapping) else dict(enumerate(args or ()))
    work: dict[str, object] = {str(name): value for name, value in given.items()}
    work["updates_per_thread"] = asked.kernel.updates_per_thread
    if isinstance(compiled := _code_of(asked.kernel), CompiledCode):
        hints = compiled.hints
        work |= {f"constant {name}": value for name, value in hints.constants.items()}
        work["trip_counts"] = sorted(hints.trip_counts.values())
        work["assume"] = sorted(hints.assume.values())
    return work


def _argument_change(old: object, new: object) -> str:
    """``16 → 2``; buffers by what differs of them."""
    if not (isinstance(old, Buffer) and isinstance(new, Buffer)):
        before, after = (_short(value) for value in (old, new))
        return f"{before} → {after}"
    names = ("shape", "dtype", "alignment", "offset", "fill", "seed", "alias")
    parts = [n for n in names if getattr(old, n) != getattr(new, n)]
    differences = [f"{n} {getattr(old, n)} → {getattr(new, n)}" for n in parts]
    return ", ".join(differences) or "has other contents"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _predict_side(
    side: CodeSide,
    asked: Sequence[Asked],
    renamed: Mapping[str, str],
    reading: Reading,
    kernels: dict[str, tuple[KernelInfo, ...]],
) -> ReportFile:
    """``kernels``: gets the kernel of each launch."""
    reports: dict[PredictionKey, Reported] = {}
    broken: dict[str, str] = {}
    for one in asked:
        try:
            placed = _find_kernel(one, side, renamed)
            kernels[one.label] = (*kernels.get(one.label, ()), placed.info)
            kernel = with_code(one.kernel, placed, reading)
            prediction = predict(kernel, one.launch, one.device)
        except PerfAssertError as error:
            broken[one.label] = str(error)
            continue
        name = one.label.partition("#")[0]
        reports[PredictionKey(one.label, name, prediction.device)] = _to_reported(
            prediction, side.folder.resolve()
        )
    return ReportFile(side.folder, MODEL_VERSION, reports, single=False, broken=broken)


def _find_kernel(one: Asked, side: CodeSide, renamed: Mapping[str, str]) -> Placed:
    """The side's kernel of that name, or what the base's has become."""
    recorded = _recorded_file(one.kernel)
    nearest = sorted(side.kernels, key=lambda p: (p.path.name == recorded.name, p.path == recorded))
    by_name = {placed.info.mangled: placed for placed in nearest}
    former = {old: by_name[new] for old, new in renamed.items() if new in by_name}
    for kernels in (by_name, former):
        fitting = fits(one.name, list(kernels))
        if len(fitting) == 1:
            return kernels[fitting[0]]
        if fitting:
            raise KernelSourceError(f"{side.name} has {len(fitting)} kernels called {one.name!r}")
    raise KernelSourceError(f"{side.name} has no kernel called {one.name!r}")


def _recorded_file(kernel: Kernel) -> Path:
    """The file that a launches file names: of several kernels of one name, its own is meant."""
    code = _code_of(kernel)
    source = code.source if isinstance(code, CompiledCode) else None
    return source.path if isinstance(source, Source) else Path()


def with_code(kernel: Kernel, placed: Placed, reading: Reading) -> CompiledKernel:
    """The recorded kernel with other code; what was said about it stays, its options, too."""
    compiled = _code_of(kernel)
    if not isinstance(compiled, CompiledCode):
        raise KernelSourceError(f"{kernel.name}: it is not compiled: code cannot take its place")
    kind = _KINDS.get(placed.path.suffix, "cubin")
    given = reading.compilation if kind == "cuda" else {}
    recorded = compiled.source
    own = recorded if isinstance(recorded, Source) and recorded.kind == kind == "cuda" else None
    source = Source(
        placed.path, kind, placed.info.mangled,
        {**given.get("defines", {}), **(own.defines if own else {})},
        tuple(given.get("include_dirs", ())),
        (*given.get("options", ()), *placed.options, *(own.options if own else ())),
        toolchain=reading.toolchain or (own.toolchain if own else None),
    )  # fmt: skip
    made = CompiledCode(source, compiled.hints)
    return CompiledKernel(
        name=placed.info.name, updates_per_thread=kernel.updates_per_thread, compiled=made
    )


def _code_of(kernel: Kernel) -> object:
    return kernel.compiled if isinstance(kernel, CompiledKernel) else None


def _to_reported(prediction: Prediction, folder: Path) -> Reported:
    lines = sources(prediction, folder)
    place = costliest(lines)
    return Reported(prediction, Place(*place) if place else None, {}, costs_of(lines))


def _too_much(item: Item, limits: ChangeLimits) -> Iterator[str]:
    """What code says by itself is limited there."""
    if item.base is None or item.head is None or item.status is Status.INCOMPARABLE:
        return
    old, new = entry_of(item.base.prediction), entry_of(item.head.prediction)
    for limit in limits.all:
        name = limit.metric
        if name == "time" or name in CODE_UNITS or name not in old or name not in new:
            continue
        if limit.is_exceeded(float(old[name]), float(new[name])):
            before, after = (
                format_field((name,), old[name]),
                format_field((name,), new[name]),
            )
            yield f"{item.key.test}: {name} {before} → {after} (allowed: {limit.text})"
