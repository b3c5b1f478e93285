"""Comparison of recorded launches, predicted with the code of the base and of the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from perfassert.comparison.hint_places import (
    CodePlaces,
    UndecidedHint,
    find_places,
    has_places,
    move_hints,
    stated_otherwise,
)
from perfassert.comparison.kernel_changes import (
    CodeDiff,
    CodeSide,
    KernelDiff,
    Placed,
    verdict,
    worst_first,
)
from perfassert.comparison.launch_pairs import (
    LaunchesFile,
    LaunchLocator,
    LaunchPair,
    Located,
    code_of,
    each_manner,
    hints_of,
    other_work,
    pair_launches,
    with_hints,
    work,
)
from perfassert.comparison.limits import CODE_UNITS, ChangeLimits
from perfassert.comparison.line_changes import costs_of
from perfassert.comparison.read import Place, PredictionKey, Reported, ReportFile
from perfassert.comparison.sides import Reading
from perfassert.comparison.status import Status
from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import predict
from perfassert.frontends.cuda.inventory import KernelInfo
from perfassert.frontends.cuda.kernels import CompiledCode, Hints
from perfassert.frontends.toolchain.binary import Source
from perfassert.hardware.load import device
from perfassert.kernel.description import CompiledKernel, Kernel
from perfassert.report.sources import costliest, sources
from perfassert.source import CUDA_SUFFIXES
from perfassert.version import MODEL_VERSION

_KINDS = {**dict.fromkeys(CUDA_SUFFIXES, "cuda"), ".ptx": "ptx"}
_EACH = "as each side launches it"


@dataclass(frozen=True, slots=True)
class LaunchComparison:
    """Comparison of recorded launches.

    Attributes:
        comparison: times, components and causes.
        failures: messages about exceeded limits other than the limit of the time.
        unknown: messages about launches without a prediction on either side.
        changed: messages about launches that the head's file describes with other arguments than
            the base's, or with hints for other lines than those of the head's code.
        timed: True if the time has a limit.
        kernels: launch → its kernels on both sides.
        undecided: launch → why it is not certain which line of one side a hint is about.
    """

    comparison: ReportComparison
    failures: tuple[str, ...]
    unknown: tuple[str, ...]
    changed: tuple[str, ...]
    timed: bool
    kernels: Mapping[str, tuple[KernelInfo, ...]] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)

    def fails(self, allow_gone: bool) -> bool:
        """Return True if a launch is too slow, lost, undecided, or beyond a limit."""
        gone = self.changed or self.comparison.of(Status.GONE, Status.BROKEN)
        lost = gone and not allow_gone
        slower = self.timed and self.comparison.of(Status.SLOWER)
        return bool(lost or slower or self.failures or self.undecided)


def compare_launches(
    sides: tuple[CodeSide, CodeSide],
    files: tuple[LaunchesFile, LaunchesFile],
    code: CodeDiff,
    limits: ChangeLimits,
    readings: tuple[Reading, Reading],
    lead: int = 0,
) -> LaunchComparison:
    """Predict every launch with the code of each side, and compare the predictions.

    A launch that cannot be predicted is broken. If both sides have an entry for a launch, both are
    predicted as the entry of the side ``lead`` describes it (0 for the base, 1 for the head). If
    the entries differ only in extents or compilation, a second comparison takes each side's entry.
    """
    locator = LaunchLocator(sides, files, code, lead)
    launch_pairs = pair_launches(files[0].asked, files[1].asked)
    kernels: dict[str, tuple[KernelInfo, ...]] = {}
    predicted = [_Predicted(side, reading) for side, reading in zip(sides, readings, strict=True)]
    mover = _HintMover(sides, readings, files, lead)
    for pair in launch_pairs:
        located = mover.move(pair, locator.locate(pair))
        infos = [one.kernel.info for one in located if one is not None and one.kernel is not None]
        kernels[pair.label] = tuple(infos)
        for side, one in zip(predicted, located, strict=True):
            if one is not None:
                side.add(pair.label, "", one)
        for side, one, asked in zip(predicted, located, each_manner(pair), strict=False):
            if one is not None:
                hints = hints_of(one.asked)
                own = asked if hints is None else with_hints(asked, hints)
                side.add(pair.label, _EACH, replace(one, asked=own))
    old, new = (side.report() for side in predicted)
    time = next((one for one in limits.all if one.metric == "time"), None)
    tolerance = time_tolerance(DEFAULT_TOLERANCE)
    if time is not None:
        tolerance = Tolerance(time.amount, time.margin, time.margin)
    comparison = compare(old, new, tolerance, mover.undecided)
    failures = tuple(text for item in comparison.items for text in _exceeded_limits(item, limits))
    predicted_before = {key.test for key in old.predictions}
    unknown = tuple(
        f"{x}: no prediction: {why}" for x, why in new.broken.items() if x not in predicted_before
    )
    changed = (*other_work(launch_pairs), *mover.stale.values())
    return LaunchComparison(
        comparison, failures, unknown, changed, time is not None, kernels, mover.undecided
    )


class _HintMover:
    """Transfer of hints from the leading side's lines to the lines of the other side's code.

    ``undecided``: launch → why it is not certain which line of the other side a hint is about.
    ``stale``: launch → message about hints in the head's file that are for other lines of the head.
    """

    def __init__(
        self,
        sides: tuple[CodeSide, CodeSide],
        readings: tuple[Reading, Reading],
        files: tuple[LaunchesFile, LaunchesFile],
        lead: int,
    ) -> None:
        self.sides, self.readings, self.lead = sides, readings, lead
        self.is_shared = not any(file.is_own for file in files)
        self.undecided: dict[str, str] = {}
        self.stale: dict[str, str] = {}
        self._places: dict[tuple[object, ...], CodePlaces] = {}

    def move(
        self, pair: LaunchPair, located: tuple[Located | None, Located | None]
    ) -> tuple[Located | None, Located | None]:
        """Return the launch of both sides, each with the hints for its code."""
        leader, follower = located[self.lead], located[1 - self.lead]
        if leader is None or follower is None or leader.kernel is None or follower.kernel is None:
            return located
        hints, entry = hints_of(leader.asked), (pair.base, pair.head)[1 - self.lead]
        if hints is None or not has_places(hints):
            return located
        try:
            old, new = self._find(leader, self.lead), self._find(follower, 1 - self.lead)
            hints = move_hints(hints, old, new)
            moved = replace(follower, asked=with_hints(leader.asked, hints))
            self._check_lines(pair, hints, new)
        except PerfAssertError as error:
            moved = replace(follower, kernel=None, reason=str(error))
        except UndecidedHint as error:
            own = None if entry is None else hints_of(entry)
            if own is None or self.is_shared or self.lead == 0:
                reason = self.undecided[pair.label] = f"{error}; {self._next_step(pair)}"
                moved = replace(follower, kernel=None, reason=reason)
            else:  # --launches-from head: each file has the hints for its side's code
                moved = replace(follower, asked=with_hints(leader.asked, own))
        return (leader, moved) if self.lead == 0 else (moved, leader)

    def _check_lines(self, pair: LaunchPair, hints: Hints, code: CodePlaces) -> None:
        """Record in ``stale`` a head's file whose hints differ from those moved to its code."""
        base, head = pair.base, pair.head
        if self.lead or self.is_shared or base is None or head is None or work(base) != work(head):
            return
        stated = hints_of(head)
        if stated is not None and (right := stated_otherwise(hints, stated, code)):
            self.stale[pair.label] = (
                f"{pair.label}: the lines in {head.place} are not those of its code; write {right}"
            )

    def _next_step(self, pair: LaunchPair) -> str:
        """Return the instruction to the user for a hint whose line is undecided."""
        if self.is_shared or pair.head is None:
            return "give each side a launches file of its own, with the lines of its code"
        return f"correct the lines in {pair.head.place} and give --launches-from head"

    def _find(self, one: Located, number: int) -> CodePlaces:
        """Return the places in a side's kernel, compiled as the leading side's entry says."""
        assert one.kernel is not None
        arch = device(one.asked.device).arch
        key = (number, one.asked.place, id(one.kernel.info), arch)
        if key not in self._places:
            side, other = self.sides[number], self.sides[1 - number]
            compiled = with_code(one.asked.kernel, one.kernel, self.readings[number]).compiled
            assert isinstance(compiled, CompiledCode)
            built = compiled.build(arch)
            self._places[key] = find_places(built, side.name, side.folder, other.folder)
        return self._places[key]


@dataclass
class _Predicted:
    """Predictions of one side."""

    side: CodeSide
    reading: Reading
    reports: dict[PredictionKey, Reported] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def add(self, label: str, how: str, one: Located) -> None:
        """Predict a launch; ``how`` distinguishes two predictions of one label."""
        name = ", ".join(filter(None, (one.asked.kernel_label, how)))
        try:
            if one.kernel is None:
                raise KernelSourceError(one.reason)
            kernel = with_code(one.asked.kernel, one.kernel, self.reading)
            prediction = predict(kernel, one.asked.launch, one.asked.device)
        except PerfAssertError as error:
            self.broken[label] = str(error)
            return
        key = PredictionKey(label, name, prediction.device)
        self.reports[key] = _to_reported(prediction, self.side.folder.resolve())

    def report(self) -> ReportFile:
        """Return the predictions of one side in the form of a report file."""
        folder = self.side.folder
        return ReportFile(folder, MODEL_VERSION, self.reports, single=False, broken=self.broken)


_SIGNS = {Status.SLOWER: -1, Status.FASTER: 1, Status.WITHIN: 0, Status.SAME: 0}


def judge_by_times(code: CodeDiff, times: LaunchComparison) -> CodeDiff:
    """Return the code's changes with launched kernels judged by their times and exceeded limits.

    The number of registers and similar metrics do not count for a kernel that has times.
    """
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


def with_code(kernel: Kernel, placed: Placed, reading: Reading) -> CompiledKernel:
    """Return the recorded kernel with other code but the same hints and options."""
    compiled = code_of(kernel)
    if compiled is None:
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


def _to_reported(prediction: Prediction, folder: Path) -> Reported:
    lines = sources(prediction, folder)
    place = costliest(lines)
    return Reported(prediction, Place(*place) if place else None, {}, costs_of(lines))


def _exceeded_limits(item: Item, limits: ChangeLimits) -> Iterator[str]:
    """Yield a message per exceeded limit, except limits of the time and of the code's metrics."""
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
