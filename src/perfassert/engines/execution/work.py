"""How much each warp of a block executed, and how blocks differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfassert.engines.execution.result import Execution
from perfassert.kernel.executed import Work


def work(execution: Execution, unique: Mapping[int, int]) -> Work:
    """Means over the blocks, whose warps are put in order of what they executed, most first.

    ``unique``: addresses that are one instruction's, and which.
    """
    blocks, warps = len(execution.blocks), execution.warps_per_block
    by_block = execution.executed.reshape(blocks, warps, -1)
    totals = by_block.sum(axis=2)
    order = np.argsort(-totals, axis=1, kind="stable")
    flat = (order + np.arange(blocks)[:, None] * warps).T
    means = np.stack([execution.executed[rank].mean(axis=0) for rank in flat])
    sums, longest = totals.sum(axis=1), totals.max(axis=1)
    return Work(
        {address: tuple(means[:, place].tolist()) for address, place in unique.items()},
        tuple((sums / max(float(sums.mean()), 1.0)).tolist()),
        tuple((longest / max(float(longest.mean()), 1.0)).tolist()),
    )
