"""Addresses that executed blocks touched, by instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.memory import SPAN_BITS, Region
from perfassert.engines.execution.result import Execution, Touch
from perfassert.kernel.executed import (
    ADDRESS_BITS,
    ADDRESS_MASK,
    NO_MEETING,
    Meeting,
    Pieces,
    Rows,
    Sampled,
    Touched,
    Visits,
    meeting,
)
from perfassert.kernel.machine import SECTOR_BYTES, Kind, Space

Lanes = npt.NDArray[np.bool_]
_GLOBAL = (Space.GLOBAL, Space.GENERIC)
_ON_CHIP = {Space.SHARED: "shared", Space.CONSTANT: "constant"}
_MAX_ROWS = 1 << 15  # stored rows per instruction: of more, every n-th is kept for n
_MAX_VISITED = 1 << 12  # rows per instruction whose order is stored: of more, the middle ones
NUMBERED = 1 << (62 - ADDRESS_BITS)
"""Number of blocks that can be distinguished."""


def is_decided(execution: Execution) -> bool:
    """Return True if known values alone decided what was executed, to the end of every warp."""
    return not len(execution.cut) and is_followed(execution)


def is_followed(execution: Execution) -> bool:
    """Return True if known values alone decided what was executed, as far as the warps ran."""
    lost = execution.lost or execution.forced
    return not lost and next(guessed_branches(execution), None) is None


def guessed_branches(execution: Execution) -> Iterator[int]:
    """Yield the instructions without memory access whose effect an unknown value decided."""
    instructions = execution.code.instructions
    for place in execution.guesses:
        if all(operation.memory is None for operation in instructions[place].operations):
            yield place


_Key = tuple[int, str]
"""An instruction and a memory space."""


class _Touches(NamedTuple):
    """Touches of an execution by instruction and memory space."""

    execution: Execution
    by_key: dict[_Key, list[Touch]]


def collect_touched(
    spread: Execution,
    run: Execution,
    sampled: Sampled,
    unique: Mapping[int, int],
    alone: bool = False,
) -> dict[tuple[int, str], Touched]:
    """Return the bytes that each instruction touched, by address and space.

    Instructions with an unknown address are left out. ``unique``: the instruction of each address
    that belongs to a single instruction. ``alone``: without global memory.
    """
    places = {place: address for address, place in unique.items()}
    unknown = {*spread.guesses, *run.guesses}
    all_over = _by_instruction(spread, alone)
    following = all_over if run is spread else _by_instruction(run, alone)
    return {
        (places[place], space): _summarize_touches((place, space), all_over, following, sampled)
        for place, space in {**all_over.by_key, **following.by_key}
        if place in places and place not in unknown
    }


def _summarize_touches(key: _Key, spread: _Touches, run: _Touches, sampled: Sampled) -> Touched:
    own, following = (touches.by_key.get(key, []) for touches in (spread, run))
    rows = _rows(own, key[1]) if own else None
    if key[1] != "global":
        return Touched(sampled, rows)
    pieces = _pieces(own, spread.execution) if own else None
    return Touched(
        sampled,
        rows,
        pieces,
        pieces if run is spread else _pieces(following, run.execution) if following else None,
        *_buffer(own + following, spread.execution.regions),
        _meeting(own, spread.execution, sampled),
        _visits(own, spread.execution, rows) if rows is not None else None,
    )


def _by_instruction(execution: Execution, alone: bool) -> _Touches:
    touches: dict[_Key, list[Touch]] = {}
    for touch in execution.touches:
        if space := _space(touch, alone):
            touches.setdefault((touch.instruction, space), []).append(touch)
    return _Touches(execution, touches)


def _space(touch: Touch, alone: bool) -> str:
    """Return the memory space that some lane accessed, or ``""``."""
    space = "global" if touch.memory.space in _GLOBAL else _ON_CHIP.get(touch.memory.space, "")
    if alone and space == "global":
        return ""
    return space if space and _lanes(touch, space).any() else ""


def _lanes(touch: Touch, space: str) -> Lanes:
    return touch.in_buffers if space == "global" else touch.lanes


def _rows(touches: list[Touch], space: str) -> Rows:
    # For example, of 100,000 rows every third is kept (100,000 // 32,768 = 3), and each counts 3
    # times.
    step = max(1, sum(len(t.warps) for t in touches) // _MAX_ROWS)
    addresses, lanes, count, first = [], [], 0, 0
    for touch in touches:
        active = _lanes(touch, space)
        some = np.flatnonzero(active.any(axis=1))
        count += len(some)
        kept = some[first::step]
        first = (first - len(some)) % step
        addresses.append(touch.addresses[kept])
        lanes.append(active[kept])
    kept_addresses = np.concatenate(addresses).astype(np.int64)
    return Rows(kept_addresses, np.concatenate(lanes), count / len(kept_addresses))


def _pieces(touches: list[Touch], execution: Execution) -> Pieces:
    """Return the touched pieces: sectors of loads, and for stores pieces as wide as one store.

    A store may leave a part of its sector unwritten.
    """
    size = max(touches[0].memory.bytes, 1)
    reads = all(_reads(t, execution) for t in touches)
    grain = SECTOR_BYTES if reads else min(size, SECTOR_BYTES)
    keys = []
    for touch in touches:
        lanes, address = touch.in_buffers, touch.addresses.astype(np.int64)
        high = (touch.warps // execution.warps_per_block).astype(np.int64) << ADDRESS_BITS
        # For example, a store of 8 bytes at address 40 touches piece 5 of 8 bytes, a load sector 1.
        for step in range(0, size, grain):
            pieces = (address + step) // grain & ADDRESS_MASK
            new = lanes.copy()  # lanes whose neighbour does not touch the same piece
            new[:, 1:] &= ~lanes[:, :-1] | (pieces[:, 1:] != pieces[:, :-1])
            keys.append(high[new.nonzero()[0]] | pieces[new])
    return Pieces(grain, _distinct(np.concatenate(keys)))


def _visits(touches: list[Touch], execution: Execution, rows: Rows) -> Visits | None:
    """Return the middle executions of a load instruction, in blocks at regular distances.

    A window must consist of the same executions, and of the same blocks, for all instructions of a
    loop. The numbers of executions and the distances of blocks are therefore powers of two.
    """
    if len(touches) > 1 or not _reads(touches[0], execution):
        return None
    touch, per_block = touches[0], execution.warps_per_block
    time = _times(touch.warps)
    most = int(time.max()) + 1
    kept = min(most, _power_below(_MAX_VISITED // per_block))
    # For example, with 1,000 executions of which 64 are kept, they start at 936 // 2 // 64 * 64 =
    # 448.
    first = (most - kept) // 2 // kept * kept
    block = touch.warps // per_block
    apart = 1
    while apart < len(execution.blocks) and (
        kept * per_block * len(execution.blocks) > _MAX_VISITED * apart
    ):
        apart *= 2
    some = (time >= first) & (time < first + kept) & (block % apart == 0)
    some &= (lanes := touch.in_buffers).any(axis=1)
    if not some.any():
        return None
    size = max(touch.memory.bytes, 1)
    steps = np.arange(0, size, min(size, SECTOR_BYTES), dtype=np.int64)
    address = touch.addresses[some].astype(np.int64)
    nearest = np.take_along_axis(address, lanes[some].argmax(axis=1)[:, None], axis=1)
    address = np.where(lanes[some], address, nearest)
    pieces = np.sort(
        ((address[:, :, None] + steps) // SECTOR_BYTES).reshape(len(address), -1), axis=1
    )
    new = np.ones(pieces.shape, np.bool_)
    np.not_equal(pieces[:, 1:], pieces[:, :-1], out=new[:, 1:])
    row = new.nonzero()[0]
    keys = (block[some].astype(np.int64) << ADDRESS_BITS)[row] | pieces[new] & ADDRESS_MASK
    asked = float(distinct_sectors(rows).sum()) * rows.every / len(execution.blocks)
    share = len(keys) / len(execution.blocks[::apart]) / asked
    warps = (touch.warps % per_block).astype(np.int64)[some][row]
    return Visits(
        SECTOR_BYTES, keys, warps, time[some][row], first, first + kept, most, apart, share
    )


def _times(warps: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return the position of each row among the rows of its warp.

    For example, rows of warps 5, 7, 5, 5 and 7:

    >>> _times(np.array([5, 7, 5, 5, 7])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(warps, kind="stable")
    starts = np.flatnonzero(np.diff(warps[order], prepend=-1))
    counts = np.diff(starts, append=len(warps))
    times = np.empty(len(warps), np.int64)
    times[order] = np.arange(len(warps)) - np.repeat(starts, counts)
    return times


def _power_below(number: int) -> int:
    """Return the largest power of two that is not larger than ``number``, or 1."""
    return 1 << max(0, number.bit_length() - 1)


def _reads(touch: Touch, execution: Execution) -> bool:
    return _kind(touch, execution) not in (Kind.STORE, Kind.ATOMIC)


def _meeting(touches: list[Touch], execution: Execution, sampled: Sampled) -> Meeting:
    """Return the addresses at which operations of an atomic contend."""
    own = [t for t in touches if _kind(t, execution) is Kind.ATOMIC]
    if not own:
        return NO_MEETING
    return meeting(
        np.concatenate([t.addresses for t in own]).astype(np.int64),
        np.concatenate([t.in_buffers for t in own]),
        np.concatenate([t.warps // execution.warps_per_block for t in own]).astype(np.int64),
        len(sampled.spread),
        sampled.total,
    )


def _kind(touch: Touch, execution: Execution) -> Kind:
    return execution.code.instructions[touch.instruction].operations[touch.part].kind


def _buffer(touches: list[Touch], regions: tuple[Region, ...]) -> tuple[str, int | None]:
    """Return name and size of the only buffer that lanes accessed; ("", None) for several."""
    spans = [t.addresses[t.in_buffers] >> np.uint64(SPAN_BITS) for t in touches]
    indices = {int(end) for own in spans if own.size for end in (own.min(), own.max())}
    index = indices.pop() - 1
    if indices or not 0 <= index < len(regions):
        return "", None
    return regions[index].name, regions[index].size


def _distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct values in ascending order; a sort is faster than numpy's ``unique``."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def distinct_sectors(rows: Rows) -> npt.NDArray[np.int64]:
    """Count the sectors of each execution of an instruction, by the first byte of every lane."""
    first = np.take_along_axis(rows.addresses, rows.lanes.argmax(axis=1)[:, None], axis=1)
    sectors = np.sort(np.where(rows.lanes, rows.addresses, first) // SECTOR_BYTES, axis=1)
    counts: npt.NDArray[np.int64] = 1 + (sectors[:, 1:] != sectors[:, :-1]).sum(axis=1)
    return counts
