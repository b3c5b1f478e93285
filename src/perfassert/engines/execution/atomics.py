"""Atomic operations of many lanes at a time, in the order of the lanes.

Lanes that access different words are independent. Lanes that access the same word take turns.
Additions, the common case, are computed as prefix sums over the lanes of a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.memory import Plane
from perfassert.kernel.machine import Combining

_Wide = npt.NDArray[np.uint64]


def updated_values(
    combine: Combining, signed: bool, words: int, old: Any, new: Any, swap: Any
) -> Any:
    """Return the values that an atomic operation leaves in memory."""
    if combine is Combining.ADD:
        return old + new
    if combine in (Combining.MIN, Combining.MAX):
        kind = (np.int32 if words == 1 else np.int64) if signed else old.dtype
        below = old.view(kind) < new.view(kind)
        return np.where(below == (combine is Combining.MIN), old, new)
    if combine is Combining.FLOAT_ADD:
        total = old.view(np.float32) + new.view(np.float32)
        return np.where(total == total, total.view(np.uint32), np.uint32(0x7FFFFFFF))
    return _SIMPLE[combine](old, new, swap)


_SIMPLE: dict[Combining, Callable[[Any, Any, Any], Any]] = {
    Combining.INCREMENT: lambda old, new, swap: np.where(old >= new, old * 0, old + 1),
    Combining.DECREMENT: lambda old, new, swap: np.where((old == 0) | (old > new), new, old - 1),
    Combining.AND: lambda old, new, swap: old & new,
    Combining.OR: lambda old, new, swap: old | new,
    Combining.XOR: lambda old, new, swap: old ^ new,
    Combining.EXCHANGE: lambda old, new, swap: new,
    Combining.COMPARE_SWAP: lambda old, new, swap: np.where(old == new, swap, old),
}


def perform(
    plane: Plane,
    places: npt.NDArray[np.int64],
    words: int,
    combine: Combining,
    signed: bool,
    new: npt.NDArray[Any],
    swap: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Update the plane at byte offsets ``places``; return the values before each update."""
    memory: Any = plane.content.view(np.uint32 if words == 1 else np.uint64)
    index = places // (4 * words)
    order = np.argsort(index, kind="stable")
    index, new, swap = index[order], new[order], swap[order]
    first = np.concatenate(([True], index[1:] != index[:-1]))
    begins = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    if combine is Combining.ADD:
        # For example, lanes add 1, 2 and 3 to the words A, B and A, which hold 10 and 20. Sorted by
        # word the operands are 1, 3, 2 and their prefix sums 0, 1, 4. Relative to the first lane of
        # each word these are 0, 1, 0: the lanes read 10, 11 (A) and 20 (B), and memory becomes 14
        # and 22.
        before = np.cumsum(new, dtype=new.dtype) - new
        old = memory[index] + (before - before[begins][group])
        memory[index[begins]] += np.add.reduceat(new, begins, dtype=new.dtype)
    else:
        old = _in_turn(memory, index, begins, group, combine, signed, words, new, swap)
    returned: npt.NDArray[Any] = np.empty_like(old)
    returned[order] = old
    return returned


def _in_turn(
    memory: Any,
    index: npt.NDArray[np.int64],
    begins: npt.NDArray[np.intp],
    group: npt.NDArray[np.intp],
    combine: Combining,
    signed: bool,
    words: int,
    new: npt.NDArray[Any],
    swap: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    turn = np.arange(len(index)) - begins[group]
    old = np.empty_like(new)
    for rank in range(int(turn.max()) + 1):
        now = np.flatnonzero(turn == rank)
        current = memory[index[now]]
        old[now] = current
        memory[index[now]] = updated_values(combine, signed, words, current, new[now], swap[now])
    return old
