"""Blocks of as many threads in another shape, each predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perfassert.engines.advisor.case import Proposal
from perfassert.kernel.description import Description
from perfassert.kernel.launch import Launch
from perfassert.kernel_kind import KernelKind
from perfassert.predictor.rewrites.relaunching import axes_asked_for
from perfassert.predictor.rewrites.whatif import Predict

Block = tuple[int, int, int]
_EXTENTS = (1, 2, 4, 8, 16, 32)
"""Of the blocks that are tried, in y and z; x has the other threads."""


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


def _asks_for_shape(kernel: Description) -> bool:
    """Whether the size of the block is asked for in every direction that is used."""
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
