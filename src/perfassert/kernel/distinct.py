"""Distinct numbers of large arrays, by sorting.

``numpy.unique`` builds a hash table from NumPy 2.3 on. For millions of different integers that
takes twenty times as long as sorting them (3.4 s for 0.17 s, NumPy 2.4.6).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound="np.generic[Any]")


def distinct(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the different values in ascending order.

    >>> distinct(np.array([3, 1, 3, 2]))
    array([1, 2, 3])
    """
    ordered = np.sort(values, axis=None)
    return ordered[_starts(ordered)]


def count_distinct(
    values: npt.NDArray[Number],
) -> tuple[npt.NDArray[Number], npt.NDArray[np.int64]]:
    """Return the different values in ascending order, and how often each occurs.

    >>> count_distinct(np.array([3, 1, 3, 2]))
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    ordered = np.sort(values, axis=None)
    starts = np.flatnonzero(_starts(ordered))
    return ordered[starts], np.diff(starts, append=len(ordered))


def _starts(ordered: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return True at each value that differs from the one before it."""
    starts = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    return starts
