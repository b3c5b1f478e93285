"""Larger grids of kernels whose loops stride by the grid, each predicted.

A loop ``for (k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)`` does
the same work in any number of blocks: 16 of 1,024 threads leave 92 of an A100's 108 SMs idle.
"""

from __future__ import annotations

from typing import Any

from perfassert.engines.advisor.case import Proposal
from perfassert.kernel.description import Description
from perfassert.predictor.rewrites.relaunching import asks_for_grid, same_work
from perfassert.predictor.rewrites.whatif import Predict, predict_with

_EXACT = 1.01  # times the stores: blocks that each store a result of their own need other buffers


def better_grid(prediction: Any, predict: Predict, described: Description) -> Proposal | None:
    """The fastest grid of 1, 2, 4 … blocks on each unit, for a kernel that asks for its grid."""
    _, launch, device = prediction.origin
    if launch.domain is not None or not asks_for_grid(described):
        return None
    rows, best, fastest = launch.grid[1] * launch.grid[2], None, prediction.time
    resident = prediction.occupancy.resident_blocks
    for each in (*(1 << n for n in range(resident.bit_length()) if 1 << n < resident), resident):
        grid = (-(-each * device.compute_units // rows), *launch.grid[1:])
        if grid[0] > launch.grid[0]:
            after = predict_with(prediction, predict, {"grid": grid})
            if after and after.time < fastest and _does_equal_work(prediction, after):
                best, fastest = (grid, each), after.time
    if best is None:
        return None
    grid, each = best
    speedup = float(prediction.time) / float(fastest)
    what = "×".join(map(str, grid if rows > 1 else grid[:1]))
    return Proposal(
        f"its loop strides by the grid: launch {what} blocks, {each} for each compute unit, "
        f"instead of {launch.blocks}; that is predicted to take {100 * (1 - 1 / speedup):.1f} % "
        "less time",
        speedup,
        {"grid": grid},
        f"{what} blocks: {prediction.time} → {fastest}",
    )


def _does_equal_work(before: Any, after: Any) -> bool:
    stored = [float(p.volumes.l2_store.total) for p in (before, after)]
    return same_work(before, after) and max(stored) <= _EXACT * min(stored)
