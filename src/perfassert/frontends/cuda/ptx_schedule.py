"""The order of PTX instructions within a basic block as an assembler would have it.

A list schedule: of what is ready, the instruction with the most latency behind it comes first, so
that loads are on their way before the first result is waited for. What one register or memory asks
for is kept; loads pass each other, and nothing passes what else touches memory or other threads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfassert.frontends.cuda.ptx import kernel_of, memory_of
from perfassert.frontends.cuda.ptx_step import Names
from perfassert.frontends.cuda.ptx_text import PtxInstruction, Routine

_NO_RESULT = frozenset(
    "st red bar barrier bra brx call ret exit trap bssy bsync break bclear warpsync membar fence "
    "cp prefetch prefetchu nanosleep discard setmaxnreg griddepcontrol mbarrier stmatrix".split()
)
_LOADS = ("ld", "ldu")
_STAYS = frozenset(
    "st red atom bar barrier bra brx call ret exit trap membar fence cp shfl vote match redux "
    "activemask elect nanosleep mbarrier wgmma tcgen05 ldmatrix stmatrix mma wmma prefetch "
    "prefetchu discard setmaxnreg griddepcontrol".split()
)
_ORDERED = frozenset(("volatile", "acquire", "relaxed"))
_AHEAD = 64  # instructions of latency behind a load: more than a block's own work


def scheduled(routine: Routine, known: Names) -> Routine:
    """The same computation, blocks in the order of the text."""
    flow = kernel_of(routine, ()).flow
    code = list(routine.instructions)
    for block in flow.blocks.values():
        inside = routine.instructions[block.start : block.stop]
        order = _order(inside, [touched(i, known) for i in inside])
        code[block.start : block.stop] = [
            replace(inside[place], index=block.start + n) for n, place in enumerate(order)
        ]
    return replace(routine, instructions=tuple(code))


def _order(
    code: Sequence[PtxInstruction], steps: Sequence[tuple[list[str], list[str]]]
) -> list[int]:
    after, waiting = _dependences(code, steps)
    behind = [0] * len(code)
    for place in reversed(range(len(code))):
        own = _AHEAD if _is_far(code[place]) else 1
        behind[place] = own + max((behind[n] for n in after[place]), default=0)
    ready = [(-behind[p], p) for p in range(len(code)) if not waiting[p]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, place = heapq.heappop(ready)
        order.append(place)
        for following in after[place]:
            waiting[following] -= 1
            if not waiting[following]:
                heapq.heappush(ready, (-behind[following], following))
    return order


def _dependences(
    code: Sequence[PtxInstruction], steps: Sequence[tuple[list[str], list[str]]]
) -> tuple[list[set[int]], list[int]]:
    """What must come after each instruction, and how many must come before it."""
    after: list[set[int]] = [set() for _ in code]
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    fixed, carry = -1, -1
    loads: list[int] = []
    for place, (instruction, (written, read)) in enumerate(zip(code, steps, strict=True)):
        before = {writer[r] for r in (*read, *written) if r in writer}
        before.update(p for r in written for p in readers.get(r, ()))
        if _ends(instruction):
            before.update(range(place))
            fixed, loads = place, []
        elif instruction.parts[0] in _STAYS or not _ORDERED.isdisjoint(instruction.parts):
            before.update((*loads, fixed))
            fixed, loads = place, []
        elif instruction.parts[0] in _LOADS:  # parameters of calls, too, which stores fill
            before.add(fixed)
            loads.append(place)
        elif "cc" in instruction.parts or instruction.parts[0] in ("addc", "subc", "madc"):
            before.add(carry)
            carry = place
        for earlier in before - {place, -1}:
            after[earlier].add(place)
        for register in read:
            readers.setdefault(register, []).append(place)
        for register in written:
            writer[register] = place
            readers[register] = []
    counts = [0] * len(code)
    for following in after:
        for place in following:
            counts[place] += 1
    return after, counts


def _is_far(instruction: PtxInstruction) -> bool:
    memory = memory_of(instruction)
    return instruction.parts[0] in _LOADS and memory is not None and memory.space != "param"


def _ends(instruction: PtxInstruction) -> bool:
    return instruction.parts[0] in ("bra", "brx", "ret", "exit", "trap", "call")


def touched(instruction: PtxInstruction, known: Names) -> tuple[list[str], list[str]]:
    """The registers that an instruction writes, and those that it reads."""
    operands: Sequence[str] = instruction.operands
    first = 0 if instruction.parts[0] in _NO_RESULT or not operands else 1
    written = [r for o in operands[:first] for r in _registers(o, known)]
    read = [r for o in operands[first:] for r in _registers(o, known)]
    if instruction.guard is not None:
        read.append(instruction.guard[0])
    return written, read


def _registers(operand: str, known: Names) -> Iterator[str]:
    for mark in "{}[](),|!":
        operand = operand.replace(mark, " ")
    for word in operand.split():
        name = word.partition("+")[0]
        if known.type_of(name):
            yield name
