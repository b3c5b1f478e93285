"""Blocks of another shape or size, each predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perfassert.engines.advisor.case import Proposal
from perfassert.kernel.description import BoundKernel, Description
from perfassert.kernel.launch import Launch
from perfassert.kernel_kind import KernelKind
from perfassert.predictor.rewrites.relaunching import (
    asks_for_grid,
    axes_asked_for,
    resizable,
    resize_blocks,
    same_work,
)
from perfassert.predictor.rewrites.whatif import Predict, predict_with

Block = tuple[int, int, int]
_EXTENTS = (1, 2, 4, 8, 16, 32)
"""Extents in y and z of the block shapes that are tried; x has the other threads."""


def better_shape(prediction: Any, predict: Predict, described: Description) -> Proposal | None:
    """The fastest block of as many threads, for a kernel that asks for its shape."""
    kernel, launch, device = prediction.origin
    compiled = described.kind is KernelKind.COMPILED
    domain = launch.domain if compiled else launch.domain or launch.extent
    if domain is None or not _asks_for_shape(described):
        return None
    best, fastest = None, prediction.time
    # Compiled code is bound anew for each block, which takes too long to try all depths.
    depths = (launch.block[2],) if compiled or domain[2] == 1 else _EXTENTS
    for block in _shapes(launch.block, domain, depths):
        if block[2] > device.max_block_z:
            continue
        reshaped = Launch.cover(domain, block, launch.args, launch.shared_bytes)
        time = predict(kernel, reshaped, device).time
        if time < fastest:
            best, fastest = block, time
    if best is None:
        return None
    old, new = ("×".join(map(str, b)) for b in (launch.block, best))
    speedup = float(prediction.time) / float(fastest)
    return Proposal(
        f"blocks of {new} instead of {old} threads are predicted to take "
        f"{100 * (1 - 1 / speedup):.1f} % less time",
        speedup,
        {"block": best},
        f"blocks of {new}: {prediction.time} → {fastest}",
    )


def better_size(
    prediction: Any, predict: Predict, described: Description, larger: bool
) -> Proposal | None:
    """Find the fastest block with more or fewer threads.

    The kernel is launched in one direction and reads the size of its blocks wherever it uses an
    index of a thread. Sizes are doubled, or halved, as long as that gains.
    """
    kernel, launch, device = prediction.origin
    if launch.block[1:] != (1, 1) or not resizable(described) or asks_for_grid(described):
        return None
    if isinstance(described, BoundKernel) and (
        described.executed is not None or _warps_differ(described)
    ):
        return None  # blocks of another size read other contents, and other warps meet in them
    best, fastest, size = None, prediction.time, launch.block[0]
    while True:
        size = size * 2 if larger else size // 2
        if not device.warp_size <= size <= device.max_threads_per_block or size % device.warp_size:
            break
        changes = resize_blocks(launch, (size, 1, 1), kernel)
        after = predict_with(prediction, predict, changes)
        if not (after and after.time < fastest and same_work(prediction, after)):
            break
        best, fastest = (size, changes), after.time
    speedup = float(prediction.time) / float(fastest)
    if best is None or speedup < _LEAST:
        return None
    size, changes = best
    return Proposal(
        f"blocks of {size} instead of {launch.block[0]} threads",
        speedup,
        changes,
        f"blocks of {size}: {prediction.time} → {fastest}",
    )


_LEAST = 1.05  # times as fast: a start phase decides on less


def _warps_differ(kernel: BoundKernel) -> bool:
    """Tell loops of which some warps of a block run more iterations, or that only some run."""
    graph = kernel.graph
    return any(len(set(loop.each)) > 1 for loop in graph.loops) or any(
        node.loop >= 0 and node.warps is not None for node in graph.nodes
    )


def _asks_for_shape(kernel: Description) -> bool:
    """Return True if the code asks for the block size along every axis that it uses, of several."""
    used, asked = axes_asked_for(kernel)
    return len(used) > 1 and used <= asked


def _shapes(block: Block, domain: Block, depths: Iterable[int]) -> Iterator[Block]:
    """Other factorizations of the block into powers of two times what is odd of it."""
    threads = block[0] * block[1] * block[2]
    for depth in depths:
        for rows in _EXTENTS:
            width, rest = divmod(threads, rows * depth)
            shape = (width, rows, depth)
            if not rest and shape != block and rows <= domain[1] and depth <= domain[2]:
                yield shape
