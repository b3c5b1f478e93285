"""Costs of source lines in the base and in the head, although line numbers may have changed.

Reports hold no source text. Lines are therefore aligned by their costs: the lines before and after
a changed part match again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from perfassert.report.sources import COSTS, Sources

_LEAST = 0.01  # of what the kernel costs: a line that moved less is not told

Cost = tuple[float, ...]
"""Costs of a line for one warp, in the order of :data:`~perfassert.report.sources.COSTS`."""
LineCosts = Mapping[str, Sequence[tuple[int, Cost]]]
"""File → costs of its lines, in order."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """Line with other costs; ``base_line`` or ``head_line`` is 0 on a side without it.

    ``weight`` is the largest change of a cost, as a share of the kernel's.
    """

    file: str
    base_line: int
    head_line: int
    before: Cost
    after: Cost
    weight: float

    @property
    def place(self) -> str:
        """Place such as ``"a.cu:12"`` or ``"a.cu:12 → 14"``, with a mark of new and lost lines."""
        if not self.base_line:
            return f"{self.file}:{self.head_line} (new)"
        if not self.head_line:
            return f"{self.file}:{self.base_line} (gone)"
        moved = "" if self.base_line == self.head_line else f" → {self.head_line}"
        return f"{self.file}:{self.base_line}{moved}"


def costs_of(sources: Sources) -> LineCosts:
    """Return the costs of lines by file from the sources of a report."""
    return {
        file: [(int(line["line"]), tuple(float(line[name]) for name in COSTS)) for line in lines]
        for file, lines in sources.items()
    }


def line_changes(base: LineCosts, head: LineCosts) -> tuple[LineChange, ...]:
    """Return the notable changes, largest first; none if a side has no known lines."""
    if not base or not head:
        return ()
    whole = [max(_sum(side, i) for side in (base, head)) for i in range(len(COSTS))]
    changes = [
        LineChange(file, before[0], after[0], before[1], after[1], _weight(before, after, whole))
        for file in sorted({*base, *head})
        for before, after in _pairs(base.get(file, ()), head.get(file, ()))
    ]
    notable = [change for change in changes if change.weight >= _LEAST]
    return tuple(sorted(notable, key=lambda c: (-c.weight, c.file, c.head_line, c.base_line)))


def _sum(side: LineCosts, number: int) -> float:
    return sum(cost[number] for lines in side.values() for _, cost in lines)


def _weight(before: tuple[int, Cost], after: tuple[int, Cost], whole: Sequence[float]) -> float:
    moved = (abs(b - a) for a, b in zip(before[1], after[1], strict=True))
    return max(m / w if w else 0.0 for m, w in zip(moved, whole, strict=True))


def _pairs(
    base: Sequence[tuple[int, Cost]], head: Sequence[tuple[int, Cost]]
) -> Iterator[tuple[tuple[int, Cost], tuple[int, Cost]]]:
    """Yield the lines whose costs have changed; those of one stretch are paired in order."""
    nothing = (0, (0.0,) * len(COSTS))
    old, new = ([cost for _, cost in lines] for lines in (base, head))
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from zip_longest(base[a:b], head[c:d], fillvalue=nothing)
