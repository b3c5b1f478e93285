"""Work per warp of a block, and its differences between blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
        {
            address: _issue_counts(execution, place, rows.get(address))
            for address, place in unique.items()
        },
        frozenset(
            (execution.code.instructions[place].address, jumped)
            for place, counts in execution.taken.items()
            for jumped, lanes in zip((True, False), counts.sum(axis=0).tolist(), strict=True)
            if lanes
        ),
    )


def _issue_counts(execution: Execution, place: int, rows: Rows | None) -> IssueCounts:
    executed = execution.executed[:, place]
    some = executed > 0
    lanes = execution.lanes[some, place] / executed[some]
    sectors = None if rows is None else _extremes(distinct_sectors(rows))
    return IssueCounts(_extremes(executed), _extremes(lanes), sectors)


def _extremes(values: npt.NDArray[Any]) -> Extremes:
    if not len(values):
        return (0.0, 0.0, 0.0)
    return (float(values.min()), float(np.median(values)), float(values.max()))
