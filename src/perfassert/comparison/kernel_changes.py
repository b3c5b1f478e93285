"""Code of two sides → per kernel what has changed, without a launch, and what of it fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfassert.baseline.components import Change, Value
from perfassert.comparison.kernel_pairs import By, Pair, pairs
from perfassert.comparison.limits import CODE_UNITS, ChangeLimits
from perfassert.comparison.status import ORDER, Status, count
from perfassert.errors import LaunchError
from perfassert.frontends.cuda.inventory import KernelInfo
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel and the file that it is in; ``file``: its path below the folder that was given."""

    info: KernelInfo
    file: str
    path: Path


@dataclass(frozen=True, slots=True)
class CodeSide:
    """One side: its kernels; ``broken``: file → why nothing of it can be read or compiled."""

    name: str
    folder: Path
    kernels: tuple[Placed, ...]
    broken: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelDiff:
    """One kernel. ``changes``: numbers that differ, of a new one all; ``mix``, ``accesses``: counts
    that do.

    ``failures``: in words, why it is worse; ``reason``: why it is broken.
    """

    status: Status
    pair: Pair
    file: str
    changes: tuple[Change, ...] = ()
    mix: tuple[Change, ...] = ()
    accesses: tuple[Change, ...] = ()
    failures: tuple[str, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """As the head calls it; both names where it was renamed."""
        base, head = self.pair.base, self.pair.head
        if base and head and base.name != head.name:
            return f"{base.name} → {head.name}"
        return self.pair.known.name


@dataclass(frozen=True, slots=True)
class CodeDiff:
    """All kernels, worst first; ``broken``: files of the head that cannot be read or compiled."""

    base: str
    head: str
    kernels: tuple[KernelDiff, ...]
    broken: Mapping[str, str]

    def of(self, *statuses: Status) -> tuple[KernelDiff, ...]:
        """The kernels with one of these."""
        return tuple(k for k in self.kernels if k.status in statuses)

    @property
    def counts(self) -> Mapping[Status, int]:
        """Status → kernels, for those that occur."""
        return count(kernel.status for kernel in self.kernels)

    def fails(self, limits: ChangeLimits, allow_gone: bool) -> bool:
        """Whether something is worse, lost, or new where that is a failure."""
        lost = bool(self.of(Status.BROKEN, Status.GONE) or self.broken) and not allow_gone
        return bool(lost or self.of(Status.WORSE) or (limits.new and self.of(Status.NEW)))


def diff(
    base: CodeSide,
    head: CodeSide,
    limits: ChangeLimits,
    blocks: Sequence[int] = (),
    device: Device | None = None,
) -> CodeDiff:
    """Compare kernel by kernel; occupancy of ``blocks`` threads where a ``device`` is given."""
    files = {id(p.info): p.file for side in (base, head) for p in side.kernels}
    sizes = blocks if device else ()
    kernels = []
    for pair in pairs(_infos(base), _infos(head)):
        file = files[id(pair.known)]
        kernels.append(
            _compare_pair(pair, file, head, limits, [(b, device) for b in sizes if device])
        )
    kernels.sort(key=lambda k: ORDER[k.status])
    had, lost = ({p.file for p in base.kernels}, {k.file for k in kernels if k.reason})
    broken = {file: why for file, why in head.broken.items() if file in lost or file not in had}
    return CodeDiff(base.name, head.name, tuple(kernels), broken)


def _infos(side: CodeSide) -> Iterable[KernelInfo]:
    return (placed.info for placed in side.kernels)


def _compare_pair(
    pair: Pair, file: str, head: CodeSide, limits: ChangeLimits, sizes: Sequence[tuple[int, Device]]
) -> KernelDiff:
    before, after = pair.base, pair.head
    if before is None:
        assert after is not None
        return KernelDiff(Status.NEW, pair, file, _changes({}, _numbers(after, sizes)))
    if after is None:
        reason = head.broken.get(file, "")
        return KernelDiff(Status.BROKEN if reason else Status.GONE, pair, file, reason=reason)
    old, new = _numbers(before, sizes), _numbers(after, sizes)
    changes = _changes(old, new)
    mix, accesses = _changes(before.mix, after.mix, 0), _changes(before.accesses, after.accesses, 0)
    failures = tuple(_failures(changes, limits))
    same = before.digest == after.digest and not changes
    status = (
        Status.WORSE if failures
        else Status.RENAMED if pair.by is not By.NAME
        else Status.SAME if same else Status.CHANGED
    )  # fmt: skip
    return KernelDiff(status, pair, file, changes, mix, accesses, failures)


def _numbers(info: KernelInfo, sizes: Sequence[tuple[int, Device]]) -> dict[str, float | None]:
    plain = {m: float(getattr(info, m)) for m in CODE_UNITS if m != "occupancy"}
    return {**plain, **{f"occupancy of {b}": _occupancy(info, b, d) for b, d in sizes}}


def _occupancy(info: KernelInfo, block: int, device: Device) -> float | None:
    """``None`` where no such block fits."""
    try:
        return occupancy(device, block, max(info.registers, 1), info.shared_bytes).fraction
    except LaunchError:
        return None


def _changes(
    old: Mapping[str, float | None], new: Mapping[str, float | None], missing: float | None = None
) -> tuple[Change, ...]:
    names = dict.fromkeys((*old, *new))
    pairs_ = ((n, old.get(n, missing), new.get(n, missing)) for n in names)
    return tuple(Change((n,), b, h) for n, b, h in pairs_ if b != h)


def _failures(changes: Sequence[Change], limits: ChangeLimits) -> Iterable[str]:
    """A block that no longer fits has no occupancy left."""
    for change in changes:
        for limit in limits.of({change.metric.partition(" of ")[0]}):
            if limit.is_exceeded(number(change.before), number(change.after)):
                yield f"{change.metric} (allowed: {limit.text})"


def number(value: Value) -> float:
    """Of a side that has none: 0."""
    return float(value) if isinstance(value, (int, float)) else 0.0
