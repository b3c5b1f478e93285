"""Matching of kernels of the base and the head: by name, else by code, else by instruction mix.

Overloads of one name are distinguished by code, parameters and mix, in this order. A renamed kernel
has the same machine code or, if it was also changed, almost the same mix of instructions; in the
second case, the report states the similarity. Neither may be a guess: where no name decides, each
kernel of a pair is the only best match of the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from perfassert.frontends.cuda.inventory import KernelInfo
from perfassert.frontends.toolchain.names import demangle, parameter_types

_ALIKE = 0.8  # of the instructions: below it two kernels are not taken for one


class By(str, Enum):
    """Property by which two kernels were matched."""

    NAME = "name"
    CODE = "code"
    LIKENESS = "likeness"


@dataclass(frozen=True, slots=True)
class Pair:
    """Kernel of the base and of the head, None on a side without it; ``likeness`` is a share."""

    base: KernelInfo | None
    head: KernelInfo | None
    by: By = By.NAME
    likeness: float = 1.0

    @property
    def known(self) -> KernelInfo:
        """The kernel of the head, or of the base if the head has none."""
        info = self.head or self.base
        assert info is not None
        return info


_Key = Callable[[KernelInfo], Hashable]
_Kernels = Sequence[KernelInfo]
_Matching = Callable[[_Kernels, _Kernels], Iterable[Pair]]
_Score = Callable[[KernelInfo, KernelInfo], tuple[float, ...]]
FileOf = Callable[[KernelInfo], str]

_IDENTITIES: tuple[_Key, ...] = (
    lambda kernel: (kernel.mangled, kernel.digest),
    lambda kernel: kernel.mangled,
    # The mangled name of a kernel with internal linkage changes with its file.
    lambda kernel: (demangle(kernel.mangled), kernel.digest),
    lambda kernel: demangle(kernel.mangled),
)


def pairs(
    base: Iterable[KernelInfo], head: Iterable[KernelInfo], file_of: FileOf = lambda _: ""
) -> tuple[Pair, ...]:
    """Return each kernel of both sides once: in the order of the base, then the new ones.

    ``file_of`` gives a kernel's file, which distinguishes kernels of one name. Kernels of one
    signature that neither their file nor their code distinguishes are paired in order.
    """
    left, right = list(base), list(head)
    order = {id(k): i for i, k in enumerate((*left, *right))}
    result: list[Pair] = []

    def match(key: _Key, matching: _Matching) -> None:
        for ours, theirs in _groups(key, left, right):
            result.extend(matching(ours, theirs))
        paired = {id(k) for pair in result for k in (pair.base, pair.head)}
        left[:] = [k for k in left if id(k) not in paired]
        right[:] = [k for k in right if id(k) not in paired]

    def anywhere(_: KernelInfo) -> str:
        return ""

    for place in (file_of, anywhere):
        for identity in _IDENTITIES:
            match(_at(place, identity), partial(_match_in_order, By.NAME))
        match(_at(place, lambda kernel: kernel.name), _match_overloads)
    for place in (file_of, anywhere):
        match(_at(place, lambda kernel: kernel.digest), partial(_match_in_order, By.CODE))
    match(_at(anywhere, lambda _: ""), _match_by_likeness)
    result += [Pair(k, None) for k in left] + [Pair(None, k) for k in right]
    return tuple(sorted(result, key=lambda p: order[id(p.base or p.head)]))


def _at(place: FileOf, key: _Key) -> _Key:
    """Return a key that also distinguishes the places and the architectures of kernels."""
    return lambda kernel: (kernel.arch, place(kernel), key(kernel))


def _groups(key: _Key, left: _Kernels, right: _Kernels) -> Iterator[tuple[_Kernels, _Kernels]]:
    """Yield the kernels of both sides that have one key."""
    groups: dict[Hashable, tuple[list[KernelInfo], list[KernelInfo]]] = {}
    for number, kernels in enumerate((left, right)):
        for kernel in kernels:
            groups.setdefault(key(kernel), ([], []))[number].append(kernel)
    yield from groups.values()


def _match_in_order(by: By, left: _Kernels, right: _Kernels) -> Iterator[Pair]:
    """Pair kernels in the order in which they are listed."""
    return (Pair(ours, theirs, by) for ours, theirs in zip(left, right, strict=False))


def _match_overloads(left: _Kernels, right: _Kernels) -> Iterator[Pair]:
    """Pair kernels of one name that have other parameters than before, so far as they differ.

    A parameter that all of them have gained distinguishes none of them:
    f(float*, tag<0>), f(float*, tag<1>) → f(float*, int, tag<1>), f(float*, int, tag<0>).
    """
    parameters = {
        id(kernel): Counter(parameter_types(demangle(kernel.mangled))) for kernel in (*left, *right)
    }

    def score(one: KernelInfo, other: KernelInfo) -> tuple[float, ...]:
        common = _common_share(parameters[id(one)], parameters[id(other)])
        return one.digest == other.digest, common, likeness(one, other)

    return (Pair(ours, theirs) for ours, theirs, _ in _best_matches(left, right, score))


def _match_by_likeness(left: _Kernels, right: _Kernels) -> Iterator[Pair]:
    """Pair kernels of different names that have almost the same instructions."""

    def score(one: KernelInfo, other: KernelInfo) -> tuple[float, ...]:
        share = likeness(one, other)
        return (share,) if share >= _ALIKE else ()

    for ours, theirs, scored in _best_matches(left, right, score):
        yield Pair(ours, theirs, By.LIKENESS, *scored)


def _best_matches(
    left: _Kernels, right: _Kernels, score: _Score
) -> Iterator[tuple[KernelInfo, KernelInfo, tuple[float, ...]]]:
    """Yield the kernels that are each other's only best match, again among those that are left.

    A guess must not hide a lost kernel: of equally good matches none is chosen. An empty score is
    that of two kernels that do not match.
    """
    scores = {
        (i, j): scored
        for i, a in enumerate(left) for j, b in enumerate(right) if (scored := score(a, b))
    }  # fmt: skip
    while scores:
        bests = [_only_bests(scores, side) for side in (0, 1)]
        matches = bests[0] & bests[1]
        for i, j in sorted(matches):
            yield left[i], right[j], scores[i, j]
        lefts, rights = {i for i, _ in matches}, {j for _, j in matches}
        remaining = {
            (i, j): s for (i, j), s in scores.items() if i not in lefts and j not in rights
        }
        if len(remaining) == len(scores):
            return
        scores = remaining


def _only_bests(
    scores: Mapping[tuple[int, int], tuple[float, ...]], side: int
) -> set[tuple[int, int]]:
    """Return the best pair of each kernel of one side, without those that are as good as others."""
    rows: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for pair in scores:
        rows[pair[side]].append(pair)
    bests: set[tuple[int, int]] = set()
    for row in rows.values():
        most = max(scores[pair] for pair in row)
        best = [pair for pair in row if scores[pair] == most]
        bests.update(best if len(best) == 1 else ())
    return bests


def likeness(one: KernelInfo, other: KernelInfo) -> float:
    """Return the share of common instructions, by class: the smaller counts over the larger."""
    return _common_share(one.mix, other.mix)


def _common_share(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the smaller counts over the larger, each summed; 0 if both are empty."""
    # {fma: 8, load: 4} and {fma: 8, load: 2, store: 2}: (8 + 2) / (8 + 4 + 2) = 0.71
    classes = {*one, *other}
    both = sum(min(one.get(c, 0), other.get(c, 0)) for c in classes)
    either = sum(max(one.get(c, 0), other.get(c, 0)) for c in classes)
    return both / either if either else 0.0
