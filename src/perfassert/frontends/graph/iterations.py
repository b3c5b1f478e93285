"""Groups of a loop's iterations that decide the same: each is simulated as a loop of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perfassert.kernel.expression_pool import Expression

BoolArray = npt.NDArray[np.bool_]
MOST_GROUPS = 64
_MOST_DECISIONS = 2**24
"""Largest product of iterations and lanes for which each iteration is looked at."""


@dataclass(slots=True)
class Decisions:
    """Decisions of one iteration of a loop that is taken apart. Another iteration in which they
    have the same values executes the same.

    ``noted``: values that depend on the loop's counter; ``complete``: whether they are all that
    does; ``by_size``: whether it was asked how large the graph is.
    """

    noted: dict[int, Expression] = field(default_factory=dict)
    complete: bool = True
    by_size: bool = False

    def note(self, value: Expression, alone: bool) -> None:
        """``alone``: it depends on no counter that moves within the iteration, either."""
        self.noted[value.index] = value
        self.complete = self.complete and alone


@dataclass(frozen=True, slots=True)
class IterationWalked:
    """Result of walking one iteration. ``first``: instructions of the graph before it; ``count``,
    ``order``: instructions and barriers that it added; ``decided``: the values of its decisions."""

    first: int = 0
    count: int = 0
    order: int = 0
    decided: tuple[bytes, ...] | None = None


def can_evaluate_all(trips: int, lanes: int) -> bool:
    """Return True if the decisions of all iterations may be evaluated."""
    return trips * lanes <= _MOST_DECISIONS


def groups(decisions: Sequence[BoolArray], trips: int) -> list[tuple[int, int]]:
    """Return one iteration of each group, and the number of iterations up to the group's end.

    ``decisions``: each of shape (trips, lanes). Runs of iterations in their order; where there are
    more than ``MOST_GROUPS`` of these, all that decide the same together, in the order of the
    first. Empty where these are too many as well.
    """
    if not decisions:
        return []
    # Five iterations of one lane that decide 0, 0, 1, 1, 1: [(1, 2), (3, 5)], that is iteration 1
    # for the first two and iteration 3 for the other three.
    rows = np.concatenate([np.packbits(lanes, axis=1) for lanes in decisions], axis=1)
    starts = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)])
    if len(starts) <= MOST_GROUPS:
        ends = [*starts[1:].tolist(), trips]
        return [((s + e) // 2, e) for s, e in zip(starts.tolist(), ends, strict=True)]
    _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    if len(first) > MOST_GROUPS:
        return []
    order = np.argsort(first)
    return list(zip(first[order].tolist(), np.cumsum(counts[order]).tolist(), strict=True))
