"""Choice of the blocks to execute, and a summary of their loops and accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.memory import SPAN_BITS
from perfassert.engines.execution.provenance import ARGUMENT, BUFFERS, CONSTANT, buffer_bit
from perfassert.engines.execution.result import Counts, Execution, Touch
from perfassert.engines.execution.touched import collect_touched, guessed_branches, is_decided
from perfassert.engines.execution.work import work
from perfassert.kernel.executed import (
    Executed,
    LoopTrips,
    Sampled,
    Spread,
    Touched,
    WorkingBlocks,
    stretches,
)
from perfassert.kernel.machine import SECTOR_BYTES, Kind, MachineCode, Space

_OWN = (Space.SHARED, Space.LOCAL, Space.CONSTANT)
_ROWS = 1 << 12  # warp instructions whose addresses are evaluated together


def consecutive_blocks(total: int, wave: int, affordable: int) -> tuple[int, ...]:
    """Return consecutive blocks, at most ``affordable`` ones.

    If all blocks are affordable, all are returned. If only a wave is affordable, the result is the
    wave in the middle of the grid, preceded by up to one more wave of blocks. Otherwise the result
    consists of equally long ranges that are spread over the wave in the middle.
    """
    if affordable >= total:
        return tuple(range(total))
    # For example, 100 blocks and waves of 40 (the one in the middle is 30 to 69). If 60 are
    # affordable, the result is 10 to 69. If 16 are, it is 30-33, 42-45, 54-57 and 66-69.
    first = max(0, (total - wave) // 2)
    if affordable >= wave:
        count = min(affordable, 2 * wave)
        start = max(0, first + wave - count)
        return tuple(range(start, start + count))
    count = stretches(affordable)
    length = max(1, affordable // count)
    starts = (first + i * (wave - length) // max(1, count - 1) for i in range(count))
    return tuple(dict.fromkeys(s + k for s in starts for k in range(length) if s + k < total))


def summarize_execution(
    execution: Execution,
    loops: Mapping[int, tuple[Iterable[int], int]],
    blocks: WorkingBlocks,
    run: Execution | None = None,
    alone: bool = False,
) -> Executed:
    """Summarize the trip counts and addresses of an execution.

    ``loops``: byte address of a loop's first instruction → the addresses of all its instructions,
    and the address of the first instruction of the code around it. ``blocks``: the blocks that the
    executed ones represent. ``run``: an execution of consecutive blocks. ``alone``: True if the
    execution is that of a single block without the contents of buffers. All blocks are then assumed
    to execute the same instructions, except at the end of the grid, each in its own shared and
    local memory. Which global memory the blocks touch or share is then unknown.

    Instructions are identified by their address. Addresses that occur in several functions are left
    out.
    """
    where = _places(execution.code)
    run = run or execution
    sampled = None
    if is_decided(execution) and is_decided(run):
        spread, following = map(blocks.numbers, (execution.blocks, run.blocks))
        sampled = Sampled(spread, following, len(blocks))
    went = {} if sampled is None else collect_touched(execution, run, sampled, where, alone)
    return Executed(
        len(execution.blocks),
        len(blocks),
        _loops(execution, loops, where),
        _accesses(execution, set(where.values())),
        _outside(execution),
        went,
        None if alone else sampled,
        None if sampled is None else work(execution, where, _of_global(went)),
        on_chip=sampled if alone else None,
        cut=bool(len(execution.cut)),
    )


def _loops(
    execution: Execution, loops: Mapping[int, tuple[Iterable[int], int]], where: Mapping[int, int]
) -> dict[int, LoopTrips]:
    trips = {}
    for header, (members, around) in loops.items():
        places = [where[a] for a in members if a in where]
        if header in where and around in where:
            trips[header] = _trips(execution, where[header], places, where[around])
    return trips


def _outside(execution: Execution) -> tuple[tuple[int, str], ...]:
    return tuple(
        (
            execution.code.instructions[o.instruction].address,
            f"{o.lanes} threads of the sample leave {o.region}, the first by address {o.offset}",
        )
        for o in execution.outside
    )


def _of_global(accesses: Mapping[tuple[int, str], Touched]) -> dict[int, Touched]:
    """Return the accesses to global memory by address."""
    return {address: access for (address, space), access in accesses.items() if space == "global"}


def _places(code: MachineCode) -> dict[int, int]:
    """Return the instruction at each address, without addresses that occur twice."""
    places: dict[int, int] = {}
    twice = set()
    for number, instruction in enumerate(code.instructions):
        if instruction.address in places:
            twice.add(instruction.address)
        places[instruction.address] = number
    return {a: n for a, n in places.items() if a not in twice}


def _trips(execution: Execution, header: int, members: list[int], around: int) -> LoopTrips:
    executed = execution.executed[:, header]
    # For example, a warp executes the header 12 times, 10 of them along the back edge: it enters
    # the loop twice and makes 12 / 2 = 6 iterations per entry.
    entries = executed - _from_inside(execution, header, frozenset(members))
    ended = np.ones(len(executed), np.bool_)
    ended[execution.cut] = False
    some = ended & (entries > 0)
    unended = bool((executed[~ended] > 0).any())
    outer = int(execution.executed[ended, around].sum())
    inside = int(entries[some].sum())
    unknown = 0
    for place in guessed_branches(execution):
        # A guessed branch can change the trip count if it is in the loop. If some warps did not
        # enter the loop, a guessed branch before it may be the cause; if no warp entered, any.
        if place in members or not inside or (inside < outer and place < header):
            unknown |= execution.guesses[place]
    names = origins(execution, unknown)
    if not inside:
        return LoopTrips(0, 0.0, 0, 0.0, names, unended or not outer)
    each = executed[some] / entries[some]
    mean = float(executed[some].sum() / inside)
    share = min(inside / outer, 1.0) if outer else 1.0
    return LoopTrips(int(each.min()), mean, int(np.ceil(each.max())), share, names, unended)


def _from_inside(execution: Execution, header: int, members: frozenset[int]) -> Counts:
    """Count how often each warp reached the header along a back edge."""
    arrived = np.zeros(len(execution.executed), np.int64)
    for place, counts in execution.taken.items():
        operation = execution.code.instructions[place].operations[-1]
        if place in members and operation.kind is Kind.BRANCH and operation.detail[0] == header:
            arrived += counts[:, 0]
    before = header - 1
    if before in members:  # the back edge falls through to the header
        jumped = execution.taken.get(before)
        arrived += execution.executed[:, before] if jumped is None else jumped[:, 1]
    return arrived


def origins(execution: Execution, unknown: int) -> tuple[str, ...]:
    """Return the names of the sources of an unknown value, in the user's terms."""
    names = [r.name for i, r in enumerate(execution.regions) if unknown & buffer_bit(i)]
    if unknown & CONSTANT:
        names.append("__constant__ memory without a value")
    if unknown & ARGUMENT:
        names.append("an argument that is not given")
    if unknown & ~(CONSTANT | ARGUMENT) & ~((1 << BUFFERS) - 1):
        names.append("a value that cannot be executed")
    return tuple(names)


def _accesses(execution: Execution, unique: set[int]) -> dict[int, Spread]:
    """Return the mean sectors and lanes, and the extent in bytes, of each global memory access."""
    totals: dict[int, list[float]] = {}
    ends: dict[int, list[int]] = {}
    for touch in execution.touches:
        if touch.instruction not in unique or touch.memory.space in _OWN:
            continue
        for addresses, lanes in _known_rows(touch):
            sums = totals.setdefault(touch.instruction, [0.0, 0.0, 0.0])
            sums[0] += float(_sectors(addresses, lanes, touch.memory.bytes).sum())
            sums[1] += float(lanes.sum())
            sums[2] += len(lanes)
            known = addresses[lanes]
            low, high = int(known.min()), int(known.max()) + touch.memory.bytes
            end = ends.setdefault(touch.instruction, [low, high])
            end[0], end[1] = min(end[0], low), max(end[1], high)
    instructions = execution.code.instructions
    spreads = {
        instructions[place].address: Spread(
            sums[0] / sums[2], sums[1] / sums[2], ends[place][1] - ends[place][0],
            origins(execution, execution.guesses.get(place, 0)),
        )
        for place, sums in totals.items()
    }  # fmt: skip
    for place, mask in execution.guesses.items():
        if place not in totals and place in unique and place not in execution.taken:
            spreads[instructions[place].address] = Spread(0.0, 0.0, 0, origins(execution, mask))
    for place in unique - totals.keys():
        unknown = any(o.kind is Kind.UNKNOWN for o in instructions[place].operations)
        if unknown and execution.executed[:, place].any():
            unsaid = ("an instruction that is not executed",)
            spreads.setdefault(instructions[place].address, Spread(0.0, 0.0, 0, unsaid))
    return spreads


def _known_rows(
    touch: Touch,
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]]:
    """Yield addresses and lanes of warp instructions with known addresses, in cache-sized parts."""
    for first in range(0, len(touch.steps), _ROWS):
        addresses = touch.part_addresses(first, first + _ROWS)
        lanes = touch.lanes[first : first + _ROWS] & ((addresses >> np.uint64(SPAN_BITS)) > 0)
        some = lanes.any(axis=1)
        if some.any():
            yield addresses[some], lanes[some]


def _sectors(
    addresses: npt.NDArray[np.uint64], lanes: npt.NDArray[np.bool_], size: int
) -> npt.NDArray[np.int64]:
    """Count the distinct sectors of each warp instruction."""
    steps = np.arange(0, max(size, 1), min(size, SECTOR_BYTES), dtype=np.uint64)
    first = np.take_along_axis(addresses, lanes.argmax(axis=1)[:, None], axis=1)
    filled = np.where(lanes, addresses, first)
    sectors = ((filled[:, :, None] + steps) // np.uint64(SECTOR_BYTES)).reshape(len(filled), -1)
    ordered = np.sort(sectors, axis=1)
    distinct: npt.NDArray[np.int64] = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return distinct
