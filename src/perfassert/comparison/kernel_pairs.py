"""Matching of kernels of the base and the head: by name, else by code, else by instruction mix.

A renamed kernel has the same machine code or, if it was also changed, almost the same mix of
instructions. In the second case, the pair must be the best for both sides, and the report states
the similarity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from perfassert.frontends.cuda.inventory import KernelInfo

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


_Rule = Callable[[KernelInfo], Hashable]
FileOf = Callable[[KernelInfo], str]


def _rules(file_of: FileOf) -> tuple[tuple[By, _Rule], ...]:
    """Return the rules, stricter ones first: the same file is preferred to another file."""
    return (
        (By.NAME, lambda k: (k.arch, file_of(k), k.mangled, k.digest)),
        (By.NAME, lambda k: (k.arch, file_of(k), k.mangled)),
        (By.NAME, lambda k: (k.arch, file_of(k), k.name)),
        (By.NAME, lambda k: (k.arch, k.mangled, k.digest)),
        (By.NAME, lambda k: (k.arch, k.mangled)),
        (By.NAME, lambda k: (k.arch, k.name)),
        (By.CODE, lambda k: (k.arch, file_of(k), k.digest)),
        (By.CODE, lambda k: (k.arch, k.digest)),
    )


def pairs(
    base: Iterable[KernelInfo], head: Iterable[KernelInfo], file_of: FileOf = lambda _: ""
) -> tuple[Pair, ...]:
    """Return each kernel of both sides once: in the order of the base, then the new ones.

    ``file_of`` gives a kernel's file, which distinguishes kernels of one name. Kernels that no rule
    distinguishes are paired in order.
    """
    left, right = list(base), list(head)
    order = {id(k): i for i, k in enumerate((*left, *right))}
    result: list[Pair] = []
    for by, rule in _rules(file_of):
        result += _by(by, rule, left, right)
    result += _by_likeness(left, right)
    result += [Pair(k, None) for k in left] + [Pair(None, k) for k in right]
    return tuple(sorted(result, key=lambda p: order[id(p.base or p.head)]))


def _by(
    by: By,
    rule: _Rule,
    left: list[KernelInfo],
    right: list[KernelInfo],
) -> list[Pair]:
    """Pair the kernels that the rule matches, and remove them from both lists."""
    waiting: dict[Hashable, list[KernelInfo]] = defaultdict(list)
    for kernel in right:
        waiting[rule(kernel)].append(kernel)
    made = []
    for kernel in list(left):
        if same := waiting[rule(kernel)]:
            made.append(Pair(kernel, _take(same, right), by))
            _remove(left, kernel)
    return made


def _take(same: list[KernelInfo], right: list[KernelInfo]) -> KernelInfo:
    kernel = same.pop(0)
    _remove(right, kernel)
    return kernel


def _remove(kernels: list[KernelInfo], kernel: KernelInfo) -> None:
    del kernels[next(i for i, k in enumerate(kernels) if k is kernel)]


def _by_likeness(left: list[KernelInfo], right: list[KernelInfo]) -> list[Pair]:
    """Pair kernels that are each other's single best match: a guess must not hide a lost kernel."""
    made = []
    for kernel in list(left):
        best = _best(kernel, right)
        if best is not None and _best(best, left) is kernel:
            made.append(Pair(kernel, best, By.LIKENESS, likeness(kernel, best)))
            _remove(right, best)
            _remove(left, kernel)
    return made


def _best(kernel: KernelInfo, others: Sequence[KernelInfo]) -> KernelInfo | None:
    scored = [(likeness(kernel, o), o) for o in others if o.arch == kernel.arch]
    most = max((score for score, _ in scored), default=0.0)
    best = [o for score, o in scored if score == most]
    return best[0] if most >= _ALIKE and len(best) == 1 else None


def likeness(one: KernelInfo, other: KernelInfo) -> float:
    """Return the share of common instructions, by class: the smaller counts over the larger."""
    # {fma: 8, load: 4} and {fma: 8, load: 2, store: 2}: (8 + 2) / (8 + 4 + 2) = 0.71
    classes = {*one.mix, *other.mix}
    both = sum(min(one.mix.get(c, 0), other.mix.get(c, 0)) for c in classes)
    either = sum(max(one.mix.get(c, 0), other.mix.get(c, 0)) for c in classes)
    return both / either if either else 0.0
