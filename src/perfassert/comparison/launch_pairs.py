"""Pairing of launches on two sides: entries of the launches files, and the kernels they name.

Each side may have a launches file of its own. The head's file alone decides nothing: a change could
describe less work, or name other code than the program launches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfassert.comparison.kernel_changes import CodeDiff, CodeSide, Placed
from perfassert.errors import KernelSourceError, RecordError
from perfassert.frontends.cuda.kernels import CompiledCode, Hints
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.names import fits
from perfassert.kernel.description import CompiledKernel, Kernel
from perfassert.kernel.launch import Buffer, Launch

_SHOWN = 60  # characters of an argument


@dataclass(frozen=True, slots=True)
class Asked:
    """A launch of a launches file, with its recorded ``kernel``, which a side's code replaces.

    ``name`` is the kernel's name in its code. ``place``: file, line and key of the kernel.
    ``source`` is the file that the key names, as written there.
    """

    label: str
    name: str
    kernel: Kernel
    launch: Launch
    device: str
    place: str = ""
    source: str = ""

    @property
    def kernel_label(self) -> str:
        """Kernel's name in the label: ``axpy`` of ``axpy#2``."""
        return self.label.partition("#")[0]


@dataclass(frozen=True, slots=True)
class LaunchPair:
    """Entry of each side; None for a side without one."""

    label: str
    base: Asked | None
    head: Asked | None


def pair_launches(base: Sequence[Asked], head: Sequence[Asked]) -> list[LaunchPair]:
    """Pair the entries of one kernel: equal entries first, the others in their order."""
    pairs: list[LaunchPair] = []
    for kernel in dict.fromkeys(one.kernel_label for one in (*base, *head)):
        old, new = ([one for one in side if one.kernel_label == kernel] for side in (base, head))
        matched = _same_entries(old, new)
        taken = {id(one) for one in matched.values()}
        rest = (one for one in new if id(one) not in taken)
        pairs += [LaunchPair(o.label, o, matched.get(id(o)) or next(rest, None)) for o in old]
        labels = {one.label for one in old}
        for one in rest:
            labels.add(label := _free_label(one, labels))
            pairs.append(LaunchPair(label, None, one))
    return pairs


def _same_entries(old: Sequence[Asked], new: Sequence[Asked]) -> dict[int, Asked]:
    """Return equal entries of the head, by the identity of the base's entry."""
    waiting = [(one, _content(one)) for one in new]
    matched: dict[int, Asked] = {}
    for one in old:
        content = _content(one)
        same = next((n for n, (_, other) in enumerate(waiting) if other == content), None)
        if same is not None:  # mostly the first: files are in the same order
            matched[id(one)] = waiting.pop(same)[0]
    return matched


def _content(one: Asked) -> tuple[dict[str, object], dict[str, object]]:
    return work(one), manner(one)


def _free_label(one: Asked, taken: set[str]) -> str:
    """Return a free label, numbered as a launches file numbers the launches of one kernel."""
    label, number = one.label, 1
    while label in taken:
        number += 1
        label = f"{one.kernel_label}#{number}"
    return label


def work(asked: Asked) -> dict[str, object]:
    """Return what defines a launch's work: its arguments, and hints about the kernel."""
    args = asked.launch.args
    given = args if isinstance(args, Mapping) else dict(enumerate(args or ()))
    named: dict[str, object] = {str(name): value for name, value in given.items()}
    named["updates_per_thread"] = asked.kernel.updates_per_thread
    named["device"] = asked.device
    if (hints := hints_of(asked)) is not None:
        named |= {f"constant {name}": value for name, value in hints.constants.items()}
        named["trip_counts"] = _by_place(hints.trip_counts)
        named["assume"] = _by_place(hints.assume)
    return named


def manner(asked: Asked) -> dict[str, object]:
    """Return how a launch is executed: its extents, and how the kernel is compiled."""
    launch, source = asked.launch, source_of(asked.kernel)
    compiled = (dict(source.defines), source.options, source.toolchain) if source else ()
    return {
        "grid": launch.grid,
        "block": launch.block,
        "shared_bytes": launch.shared_bytes,
        "cluster": launch.cluster,
        "compilation": compiled,
    }


def _by_place(table: Mapping[str, object]) -> list[object]:
    """Return values in the order of their lines, which move with the code; named ones by name.

    >>> _by_place({"k.cu:12": 4, "k.cu:7#2": 3, "k.cu:7#1": 1, "index": "x"})
    [('index', 'x'), 1, 3, 4]
    """
    lines: list[tuple[str, int, int, object]] = []
    named: list[object] = []
    for key, value in sorted(table.items()):
        file, _, place = key.rpartition(":")
        line, _, copy = place.partition("#")
        if line.isdecimal() and (copy or "0").isdecimal():
            lines.append((file, int(line), int(copy or "0"), value))
        else:
            named.append((key, value))
    return named + [value for *_, value in sorted(lines, key=lambda one: one[:3])]


def other_work(pairs: Sequence[LaunchPair]) -> Iterator[str]:
    """Yield, in words, the launches that compute something else by the head's file."""
    for pair in pairs:
        if pair.base is None or pair.head is None:
            continue
        old, new = work(pair.base), work(pair.head)
        names = sorted(n for n in {*old, *new} if old.get(n) != new.get(n))
        if names:
            changes = ", ".join(f"{n} {_change(old.get(n), new.get(n))}" for n in names)
            yield f"{pair.label}: other arguments than in the base: {changes}"


def _change(old: object, new: object) -> str:
    """Return a change such as ``16 → 2``; for buffers, what differs between them."""
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


def each_manner(pair: LaunchPair) -> tuple[Asked, ...]:
    """Return both entries if they launch the same work in another manner; else nothing."""
    if pair.base is None or pair.head is None or work(pair.base) != work(pair.head):
        return ()
    return () if manner(pair.base) == manner(pair.head) else (pair.base, pair.head)


@dataclass(frozen=True, slots=True)
class LaunchesFile:
    """Launches of one side; ``is_own``: the side has the file, so that a change can edit it."""

    asked: tuple[Asked, ...]
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """Launch with its kernel on one side, or with the reason why it has none."""

    asked: Asked
    kernel: Placed | None
    reason: str = ""


class LaunchLocator:
    """Search for the kernels of launches on both sides.

    ``lead`` is the side, 0 for the base and 1 for the head, whose entries describe the launches
    that both have. The other side's kernel is the one that the leading kernel is compared with.
    """

    def __init__(
        self,
        sides: tuple[CodeSide, CodeSide],
        files: tuple[LaunchesFile, LaunchesFile],
        code: CodeDiff,
        lead: int,
    ) -> None:
        self.sides, self.files, self.lead = sides, files, lead
        placed = {id(p.info): p for side in sides for p in side.kernels}
        self._partners: dict[int, Placed] = {}
        for one in (kernel.pair for kernel in code.kernels):
            if one.base is not None and one.head is not None:
                self._partners[id(one.base)] = placed[id(one.head)]
                self._partners[id(one.head)] = placed[id(one.base)]

    def locate(self, pair: LaunchPair) -> tuple[Located | None, Located | None]:
        """Return the launch of each side, as the leading side describes it.

        Raises :class:`~perfassert.RecordError` for an entry of the other side that names other code
        than what is compared.
        """
        entries = (pair.base, pair.head)
        leader, follower = entries[self.lead], entries[1 - self.lead]
        places: list[Located | None] = [None, None]
        if leader is None or follower is None:
            for number, one in enumerate(entries):
                places[number] = None if one is None else self._find(one, number)
            return places[0], places[1]
        if self.lead == 0:
            self._check_source(leader, follower)
        first, second = self._find(leader, self.lead), self._find(follower, 1 - self.lead)
        if first.kernel is not None:
            second = self._follow(first.kernel, second)
        places[self.lead] = first
        places[1 - self.lead] = replace(second, asked=leader)
        return places[0], places[1]

    def _find(self, one: Asked, number: int) -> Located:
        try:
            return Located(one, find_kernel(one, self.sides[number]))
        except KernelSourceError as error:
            return Located(one, None, str(error))

    def _follow(self, kernel: Placed, named: Located) -> Located:
        """Return the kernel that the other side's code is compared with.

        ``named`` is the kernel that the other side's entry names. A kernel that the other side has
        lost may have become that one.
        """
        partner = self._partners.get(id(kernel.info))
        side, name = self.sides[1 - self.lead], kernel.info.name
        if partner is None:
            is_new = named.kernel is not None and id(named.kernel.info) not in self._partners
            lost = f"{side.name} has no kernel called {name!r}"
            return named if is_new else Located(named.asked, None, lost)
        namesakes = [p for p in side.kernels if p is not partner and self._is_namesake(p, partner)]
        if partner.file != kernel.file and namesakes:
            count = f"{side.name} has {len(namesakes) + 1} kernels called {name!r}"
            return Located(named.asked, None, f"{count}, and none of them in {kernel.file}")
        if named.kernel is not None:
            self._check_kernel(partner, named.asked, named.kernel)
        return Located(named.asked, partner)

    def _is_namesake(self, one: Placed, partner: Placed) -> bool:
        """Return True for a kernel of the same name that has not stayed in its file."""
        same = (one.info.mangled, one.info.arch) == (partner.info.mangled, partner.info.arch)
        former = self._partners.get(id(one.info))
        return same and (former is None or former.file != one.file)

    def _check_source(self, base: Asked, head: Asked) -> None:
        """Check that the head's file does not move a launch to another source."""
        if not self.files[1].is_own or base.source == head.source:
            return
        if is_compared(base, self.sides[0]) or is_compared(head, self.sides[1]):
            before, after = (one.source or "no source" for one in (base, head))
            raise RecordError(
                f"{head.place}: the launch {head.label!r} is of {after} in {self.sides[1].name}, "
                f"and of {before} in {self.sides[0].name}; name {before}, or give --launches-from "
                "head if it was moved"
            )

    def _check_kernel(self, partner: Placed, follower: Asked, named: Placed) -> None:
        """Check that an entry names the compared kernel."""
        same_file = named.file == partner.file or not _is_in(named, follower)
        if self.files[1 - self.lead].is_own and not (
            named.info.mangled == partner.info.mangled and same_file
        ):
            raise RecordError(
                f"{follower.place}: the launch {follower.label!r} is of {_describe(named)} in "
                f"{self.sides[1 - self.lead].name}, and {_describe(partner)} is what is compared; "
                f"name {partner.info.name}, or give the launch of the other a label of its own"
            )


def is_compared(one: Asked, side: CodeSide) -> bool:
    """Return True if the source that the entry names is one of the side's files."""
    return one.source in side.broken or any(_is_in(placed, one) for placed in side.kernels)


def find_kernel(one: Asked, side: CodeSide) -> Placed:
    """Return the kernel that an entry names, from the named file if that has it.

    Raises :class:`~perfassert.KernelSourceError` where there is none, or several.
    """
    named = [placed for placed in side.kernels if _is_in(placed, one)]
    for kernels in (named, side.kernels):
        fitting = fits(one.name, [placed.info.mangled for placed in kernels])
        if len({*fitting}) > 1:
            raise KernelSourceError(f"{side.name} has {len(fitting)} kernels called {one.name!r}")
        if fitting:
            of_name = [placed for placed in kernels if placed.info.mangled == fitting[0]]
            return max(of_name, key=lambda placed: placed.path.name == Path(one.source).name)
    raise KernelSourceError(f"{side.name} has no kernel called {one.name!r}")


def _is_in(placed: Placed, one: Asked) -> bool:
    """Return True for a kernel in the file that the entry names."""
    source = source_of(one.kernel)
    if source is None:
        return False
    same = os.path.realpath(placed.path) == os.path.realpath(source.path)
    return same or placed.file == one.source


def _describe(placed: Placed) -> str:
    return f"{placed.info.name} in {placed.file or placed.path.name}"


def code_of(kernel: Kernel) -> CompiledCode | None:
    """Return the compiled code of a recorded kernel; None for another kind of kernel."""
    return kernel.compiled if isinstance(kernel.compiled, CompiledCode) else None


def hints_of(one: Asked) -> Hints | None:
    """Return what the file says about a compiled kernel; None for another kind of kernel."""
    code = code_of(one.kernel)
    return code.hints if code is not None else None


def source_of(kernel: Kernel) -> Source | None:
    """Return the file that a recorded kernel is read from; None for another kind of kernel."""
    code = code_of(kernel)
    return code.source if code is not None and isinstance(code.source, Source) else None


def with_hints(asked: Asked, hints: Hints) -> Asked:
    """Return the launch with other trip counts and assumed values."""
    code = code_of(asked.kernel)
    if code is None or not isinstance(asked.kernel, CompiledKernel):
        return asked
    moved = replace(code.hints, trip_counts=hints.trip_counts, assume=hints.assume)
    compiled = replace(code, hints=moved)
    return replace(asked, kernel=replace(asked.kernel, compiled=compiled))
