"""Changes of each kernel between the code of two sides, without a launch, and their failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfassert.baseline.components import Change, Value
from perfassert.comparison.kernel_pairs import Pair, pairs
from perfassert.comparison.limits import CODE_UNITS, ChangeLimits
from perfassert.comparison.status import ORDER, Status, count
from perfassert.comparison.weighing import occupancy_of, weigh
from perfassert.frontends.cuda.inventory import Code, KernelInfo
from perfassert.frontends.toolchain.labels import kernel_labels
from perfassert.hardware.load import device_of
from perfassert.hardware.model import Device

if TYPE_CHECKING:
    from perfassert.comparison.proposed import ProposedTimes

_NAMED_FILES = 5  # in one line


@dataclass(frozen=True, slots=True)
class Placed:
    """Kernel with its file.

    ``file`` is its path below the given folder. ``options`` are those that this file alone is
    compiled with.
    """

    info: KernelInfo
    file: str
    path: Path
    options: tuple[str, ...] = ()


CodeByFile = Mapping[str, frozenset[Code]]
"""File → the code of its kernels."""


@dataclass(frozen=True, slots=True)
class CodeSide:
    """Kernels of one side.

    ``broken``: file → why nothing of it can be read or compiled. ``converted``: sources whose text
    differs from their commit's. ``code``: that of files which are there once. ``templates``: file →
    why it has no kernels, for sources with templates alone.
    """

    name: str
    folder: Path
    kernels: tuple[Placed, ...]
    broken: Mapping[str, str] = field(default_factory=dict)
    converted: tuple[str, ...] = ()
    code: CodeByFile = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)

    @property
    def why_empty(self) -> str:
        """Message for a side without kernels; the next step, if one is known."""
        reasons = (*self.broken.values(), *self.templates.values())
        return next(iter(reasons), f"{self.name}: there is no kernel in it")


@dataclass(frozen=True, slots=True)
class KernelDiff:
    """Changes of one kernel: ``changes`` of numbers, and ``mix`` and ``accesses`` of counts.

    A new kernel has all its numbers in ``changes``. ``file`` is its path below the given folder,
    empty if a file was given; ``path`` is the whole path. ``failures`` are exceeded limits in
    words; ``reason`` says why it is broken; ``proposed`` are times at a launch that was not
    recorded. ``shown_name`` is the short name of the kernel, with what distinguishes it from other
    kernels of its file; for a renamed kernel, both names.
    """

    status: Status
    pair: Pair
    file: str
    path: Path
    changes: tuple[Change, ...] = ()
    mix: tuple[Change, ...] = ()
    accesses: tuple[Change, ...] = ()
    failures: tuple[str, ...] = ()
    reason: str = ""
    proposed: ProposedTimes | None = None
    shown_name: str = ""

    @property
    def shown_file(self) -> str:
        """Name of the file in reports; if only one file was compared, the name of its path."""
        return self.file or self.path.name

    @property
    def has_same_code(self) -> bool:
        """True if both sides have the kernel, with the same machine code."""
        base, head = self.pair.base, self.pair.head
        return base is not None and head is not None and base.digest == head.digest

    @property
    def name(self) -> str:
        """Name of the kernel in the head; for a renamed kernel, both names."""
        base, head = self.pair.base, self.pair.head
        return " → ".join(dict.fromkeys(side.name for side in (base, head) if side))


@dataclass(frozen=True, slots=True)
class CodeDiff:
    """Changes of all kernels, worst first.

    ``broken``: files of the head that cannot be read or compiled. ``notes``: further remarks for a
    reader of the comparison, in sentences.
    """

    base: str
    head: str
    kernels: tuple[KernelDiff, ...]
    broken: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def of(self, *statuses: Status) -> tuple[KernelDiff, ...]:
        """Return the kernels with one of these statuses."""
        return tuple(k for k in self.kernels if k.status in statuses)

    @property
    def counts(self) -> Mapping[Status, int]:
        """Status → number of kernels, for statuses that occur."""
        return count(kernel.status for kernel in self.kernels)

    def fails(self, limits: ChangeLimits, allow_gone: bool) -> bool:
        """Return True if a kernel is worse, lost or new where that counts as a failure."""
        lost = bool(self.of(Status.BROKEN, Status.GONE) or self.broken) and not allow_gone
        worse = any(kernel.failures for kernel in self.kernels)
        worse = worse or (limits.worse and bool(self.of(Status.WORSE)))
        return bool(lost or worse or (limits.new and self.of(Status.NEW)))


def diff(
    base: CodeSide,
    head: CodeSide,
    limits: ChangeLimits,
    blocks: Sequence[int] = (),
    device: Device | None = None,
) -> CodeDiff:
    """Compare kernel by kernel; occupancy of ``blocks`` threads where a ``device`` is given."""
    places = {id(p.info): p for side in (base, head) for p in side.kernels}
    sizes = [(block, device) for block in blocks] if device else []
    files = {key: placed.file for key, placed in places.items()}
    labels = {**_labels(base), **_labels(head)}
    weighed_on = {a: device if sizes else device_of(a) for a in {i.arch for i in _infos(head)}}
    kernels = [
        replace(
            _compare_pair(pair, places[id(pair.known)], head, limits, sizes, weighed_on),
            shown_name=_shown_name(pair, labels),
        )
        for pair in pairs(_infos(base), _infos(head), lambda info: files[id(info)])
    ]
    kernels.sort(key=worst_first)
    had, lost = ({p.file for p in base.kernels}, {k.file for k in kernels if k.reason})
    broken = {file: why for file, why in head.broken.items() if file in lost or file not in had}
    notes = tuple(_conversion_note(side) for side in (base, head) if side.converted)
    return CodeDiff(base.name, head.name, tuple(kernels), broken, notes)


def _labels(side: CodeSide) -> Mapping[int, str]:
    """Return the short name of each kernel of a side, by the ``id`` of its information."""
    labels = kernel_labels([(placed.file, placed.info.mangled) for placed in side.kernels])
    return {id(placed.info): label for placed, label in zip(side.kernels, labels, strict=True)}


def _shown_name(pair: Pair, labels: Mapping[int, str]) -> str:
    base, head = pair.base, pair.head
    if base is not None and head is not None and base.mangled == head.mangled:
        return labels[id(head)]
    return " → ".join(dict.fromkeys(labels[id(info)] for info in (base, head) if info))


def _conversion_note(side: CodeSide) -> str:
    shown, left = ", ".join(side.converted[:_NAMED_FILES]), len(side.converted) - _NAMED_FILES
    more = f" and {left} more files" if left > 0 else ""
    return (
        f"{side.name}: git converts {shown}{more} when it checks it out (.gitattributes, or a "
        "filter), so that the text that is compared is not the one that the commit shows"
    )


def worst_first(kernel: KernelDiff) -> tuple[int, bool]:
    """Sort key: the worst status first and, within a status, failures first."""
    return ORDER[kernel.status], not kernel.failures


def _infos(side: CodeSide) -> Iterable[KernelInfo]:
    return (placed.info for placed in side.kernels)


def _compare_pair(
    pair: Pair,
    placed: Placed,
    head: CodeSide,
    limits: ChangeLimits,
    sizes: Sequence[tuple[int, Device]],
    weighed_on: Mapping[str, Device | None],
) -> KernelDiff:
    before, after = pair.base, pair.head
    where = (placed.file, placed.path)
    if before is None:
        assert after is not None
        return KernelDiff(Status.NEW, pair, *where, _changes({}, _numbers(after, sizes)))
    if after is None:
        reason = head.broken.get(placed.file, "")
        return KernelDiff(Status.BROKEN if reason else Status.GONE, pair, *where, reason=reason)
    old, new = _numbers(before, sizes), _numbers(after, sizes)
    changes = _changes(old, new)
    mix, accesses = _changes(before.mix, after.mix, 0), _changes(before.accesses, after.accesses, 0)
    failures = tuple(_failures(changes, limits))
    signs = weigh(before, after, weighed_on[after.arch])
    return KernelDiff(verdict(signs, failures), pair, *where, changes, mix, accesses, failures)


def verdict(signs: Iterable[int], failures: Sequence[str]) -> Status:
    """Return the status of changes for the better (above 0) and for the worse (below 0).

    Any failure, which is a change beyond its limit, makes the status ``WORSE``.
    """
    if failures:
        return Status.WORSE
    known = {(sign > 0) - (sign < 0) for sign in signs} - {0}
    if len(known) == 2:
        return Status.MIXED
    return {1: Status.BETTER, -1: Status.WORSE}[known.pop()] if known else Status.SAME


def _numbers(info: KernelInfo, sizes: Sequence[tuple[int, Device]]) -> dict[str, float | None]:
    plain = {m: float(getattr(info, m)) for m in CODE_UNITS if m != "occupancy"}
    return {**plain, **{f"occupancy of {b}": occupancy_of(info, b, d) for b, d in sizes}}


def _changes(
    old: Mapping[str, float | None], new: Mapping[str, float | None], missing: float | None = None
) -> tuple[Change, ...]:
    names = dict.fromkeys((*old, *new))
    pairs_ = ((n, old.get(n, missing), new.get(n, missing)) for n in names)
    return tuple(Change((n,), b, h) for n, b, h in pairs_ if b != h)


def _failures(changes: Sequence[Change], limits: ChangeLimits) -> Iterable[str]:
    """Yield exceeded limits in words; a block that no longer fits has an occupancy of 0."""
    for change in changes:
        for limit in limits.of({change.metric.partition(" of ")[0]}):
            if limit.is_exceeded(number(change.before), number(change.after)):
                yield f"{change.metric} (allowed: {limit.text})"


def number(value: Value) -> float:
    """Return a value as a number; 0 for a side without one."""
    return float(value) if isinstance(value, (int, float)) else 0.0
