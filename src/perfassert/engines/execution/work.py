"""Work per warp of a block, and its differences between blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.result import Execution
from perfassert.engines.execution.touched import distinct_sectors
from perfassert.kernel.executed import (
    ADDRESS_BITS,
    Extremes,
    IssueCounts,
    Rows,
    SampleWork,
    Touched,
)

_COUNTED = 1 << 18  # counts that are sorted together


def work(
    execution: Execution, unique: Mapping[int, int], touched: Mapping[int, Touched]
) -> SampleWork:
    """Return the mean work of the blocks, with the warps of each block sorted by work, most first.

    ``unique``: the instruction of each address that belongs to a single instruction. ``touched``:
    accesses to global memory.
    """
    blocks, warps = len(execution.blocks), execution.warps_per_block
    by_block = execution.executed.reshape(blocks, warps, -1)
    totals = by_block.sum(axis=2)
    # For example, the warps of two blocks execute (10, 30) and (40, 20) instructions. Sorted, they
    # are (30, 10) and (40, 20), with means of 35 and 15.
    order = np.argsort(-totals, axis=1, kind="stable")
    flat = (order + np.arange(blocks)[:, None] * warps).T
    means = np.stack([execution.executed[rank].mean(axis=0) for rank in flat])
    sums, longest = totals.sum(axis=1), totals.max(axis=1)
    rows = {address: access.rows for address, access in touched.items()}
    traffic = np.zeros(blocks)
    for access in touched.values():
        if access.spread is not None:
            block = access.spread.keys >> ADDRESS_BITS
            traffic += np.bincount(block, minlength=blocks)[:blocks] * access.spread.grain
    return SampleWork(
        {address: tuple(means[:, place].tolist()) for address, place in unique.items()},
        tuple((sums / max(float(sums.mean()), 1.0)).tolist()),
        tuple((longest / max(float(longest.mean()), 1.0)).tolist()),
        tuple((traffic / max(float(traffic.mean()), 1.0)).tolist()),
        _count_issues(execution, unique, rows),
        frozenset(
            (execution.code.instructions[place].address, jumped)
            for place, counts in execution.taken.items()
            for jumped, lanes in zip((True, False), counts.sum(axis=0).tolist(), strict=True)
            if lanes
        ),
    )


def _count_issues(
    execution: Execution, unique: Mapping[int, int], rows: Mapping[int, Rows | None]
) -> dict[int, IssueCounts]:
    counts = {}
    addresses, width = list(unique), max(1, _COUNTED // len(execution.executed))
    for first in range(0, len(addresses), width):
        part = addresses[first : first + width]
        places = [unique[address] for address in part]
        executed = execution.executed[:, places].astype(np.float64)
        some = executed > 0
        lanes = execution.lanes[:, places] / np.maximum(executed, 1)
        each = zip(part, _extremes(executed), _extremes(lanes, some), strict=True)
        for address, executions, active in each:
            counts[address] = IssueCounts(executions, active, _sectors(rows.get(address)))
    return counts


def _sectors(rows: Rows | None) -> Extremes | None:
    if rows is None:
        return None
    counts = distinct_sectors(rows).astype(np.float64)[:, None]
    (extremes,) = _extremes(counts)
    return extremes


def _extremes(
    values: npt.NDArray[np.float64], known: npt.NDArray[np.bool_] | bool = True
) -> Iterator[Extremes]:
    """Yield the extremes of the known values of each column; zeros where there is none."""
    count = np.broadcast_to(known, values.shape).sum(axis=0)
    ordered = np.sort(np.where(known, values, np.inf), axis=0)
    # For example, of 5 known values the median is number 2, of 4 the mean of numbers 1 and 2.
    ranks = np.maximum([np.zeros_like(count), (count - 1) // 2, count // 2, count - 1], 0)
    low, below, above, high = np.where(count, np.take_along_axis(ordered, ranks, axis=0), 0.0)
    yield from zip(low.tolist(), ((below + above) / 2).tolist(), high.tolist(), strict=True)
