"""Operations across the lanes of a warp: votes, shuffles, matches and reductions.

Arrays have the shape [warps, 32]. ``active`` marks the lanes that take part. Results of other lanes
are undefined and not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.words import Words
from perfassert.kernel.machine import WARP_LANES, Combining, Shuffling, Voting

Lanes = npt.NDArray[np.bool_]
LANE = np.arange(WARP_LANES, dtype=np.uint32)
_BIT = np.uint32(1) << LANE


def pack_lanes(lanes: Lanes) -> Words:
    """Return lanes as one mask per warp: [warps, 32] → [warps, 1]."""
    return np.packbits(lanes, axis=1, bitorder="little").view("<u4").astype(np.uint32, copy=False)


def unpack_lanes(masks: Words) -> Lanes:
    """Return the lanes of one mask per warp: [warps, 1] → [warps, 32]."""
    lanes: Lanes = (masks & _BIT) != 0
    return lanes


def vote(active: Lanes, truth: Words, mode: int) -> tuple[Words, Any]:
    """Return the ballot, and if the predicate holds for all lanes, any lane, or all or none."""
    holds = active & (truth != 0)
    ballot, everyone = pack_lanes(holds), pack_lanes(active)
    if mode == Voting.ALL:
        return ballot, ballot == everyone
    if mode == Voting.ANY:
        return ballot, ballot != 0
    return ballot, (ballot == everyone) | (ballot == 0)


def source_lanes(mode: int, by: Words, clamp: Words) -> tuple[npt.NDArray[np.intp], Lanes]:
    """Return the lane that each lane reads, and if it is in range (PTX manual, ``shfl.sync``)."""
    # For example, a shuffle down by 1 in segments of 8 lanes: lane 6 reads lane 7. Lane 7, the last
    # of its segment, is out of range and reads itself.
    offset = by & np.uint32(31)
    segment = (clamp >> np.uint32(8)) & np.uint32(31)
    last = (LANE & segment) | (clamp & np.uint32(31) & ~segment)
    first = LANE & segment
    lane, step = LANE.astype(np.int64), offset.astype(np.int64)
    if mode == Shuffling.UP:
        source = lane - step
        inside = source >= last.astype(np.int64)
    else:
        if mode == Shuffling.DOWN:
            source = lane + step
        elif mode == Shuffling.BUTTERFLY:
            source = (LANE ^ offset).astype(np.int64)
        else:
            source = (first | (offset & ~segment)).astype(np.int64)
        inside = source <= last.astype(np.int64)
    return np.where(inside, source, lane).astype(np.intp), np.asarray(inside)


def match(active: Lanes, low: Words, high: Words, everyone: bool) -> tuple[Words, Any]:
    """Return the mask of active lanes with the same value.

    With ``everyone`` the mask is 0 unless all active lanes have the same value.
    """
    # For example, active lanes 0 to 3 hold 7, 8, 7, 7: their masks are 0b1101, 0b0010, 0b1101,
    # 0b1101.
    same = (low[:, :, None] == low[:, None, :]) & (high[:, :, None] == high[:, None, :])
    masks = (np.where(same & active[:, None, :], _BIT, np.uint32(0))).sum(
        axis=2, dtype=np.uint32
    )  # fmt: skip
    if not everyone:
        return masks, np.False_
    whole = pack_lanes(active)
    return np.where(masks == whole, masks, np.uint32(0)), masks == whole


def reduce_lanes(active: Lanes, values: Words, mode: int, signed: int) -> Words:
    """Combine the words of active lanes into one word per warp, [warps, 1]."""
    if mode == Combining.ADD:
        total: Words = np.where(active, values, np.uint32(0)).sum(
            axis=1, keepdims=True, dtype=np.uint32
        )  # fmt: skip
        return total
    if mode in (Combining.MIN, Combining.MAX):
        return _extreme(active, values, mode == Combining.MIN, signed)
    neutral = np.uint32(0xFFFFFFFF if mode == Combining.AND else 0)
    function = {Combining.AND: np.bitwise_and, Combining.OR: np.bitwise_or,
                Combining.XOR: np.bitwise_xor}[Combining(mode)]  # fmt: skip
    joined: Words = function.reduce(np.where(active, values, neutral), axis=1, keepdims=True)
    return joined


def _extreme(active: Lanes, values: Words, least: bool, signed: int) -> Words:
    kind = np.int32 if signed else np.uint32
    limits = np.iinfo(kind)
    neutral = kind(limits.max if least else limits.min)
    chosen = np.where(active, values.view(kind), neutral)
    extremes = chosen.min(axis=1, keepdims=True) if least else chosen.max(axis=1, keepdims=True)
    return np.ascontiguousarray(extremes).view(np.uint32)


def first_active(active: Lanes) -> npt.NDArray[np.intp]:
    """Return the lowest active lane of each warp."""
    lanes: npt.NDArray[np.intp] = active.argmax(axis=1)
    return lanes
