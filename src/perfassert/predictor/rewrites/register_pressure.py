"""Registers that the instructions of a body need in one order or another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

Operands = tuple[Sequence[str], Sequence[str]]
"""Registers that a step defines and uses."""


def max_live_values(steps: Sequence[Operands], order: Sequence[int]) -> int:
    """Return the most values that are alive at once, for ``steps`` that are issued in ``order``.

    What is not used again here is taken to be needed later, and what is not defined here to be
    there from the start; what no step touches does not count.

    Two loads and a store of each: both loads first need a register more.

    >>> steps = [(["R0"], []), ([], ["R0"]), (["R1"], []), ([], ["R1"])]
    >>> max_live_values(steps, [0, 1, 2, 3]), max_live_values(steps, [0, 2, 1, 3])
    (1, 2)
    """
    place = {k: at for at, k in enumerate(order)}
    current: dict[str, int] = {}  # register → the value in it
    lives: list[list[int]] = []  # by value: from, until
    for k, (defines, uses) in enumerate(steps):
        for name in filter(_counts, uses):
            if name not in current:
                current[name] = len(lives)
                lives.append([0, 0])
            life = lives[current[name]]
            life[1] = max(life[1], place[k])
        for name in filter(_counts, defines):
            current[name] = len(lives)
            lives.append([place[k], -1])
    changes = [0] * (len(order) + 1)
    for first, last in lives:
        changes[first] += 1
        changes[last if last >= 0 else len(order)] -= 1
    return max(accumulate(changes), default=0)


def _counts(name: str) -> bool:
    """Predicates and uniform registers are others'."""
    return not name.startswith(("P", "U"))
