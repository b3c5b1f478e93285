"""Sides of jumps that no ordinary floating-point number takes: the slow paths of functions.

``sinf`` reduces large arguments in a loop, ``sqrtf`` and divisions mend denormal ones, ``pow`` asks
for infinities. Which jumps those are the compiler does not say. So a few blocks are executed with
ordinary numbers wherever the code loads floats of unknown content; a jump that all of them take
the same way is taken that way, and so is one that few take to the slow path of a function. What
compares a float takes both signs; what looks at the bits of one, which only functions do, need only
be right for positive numbers. What a program decides by its data goes both ways, and stays open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.execution.presets import ArgumentValue
from perfassert.engines.execution.provenance import ORDINARY
from perfassert.engines.execution.reads import Reads
from perfassert.engines.execution.result import Counts
from perfassert.engines.execution.slicing import control_slice
from perfassert.frontends.cuda.kernels import Rare
from perfassert.kernel.access import Direction
from perfassert.kernel.executed import WorkingBlocks, spread_blocks
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import (
    WARP_LANES,
    Kind,
    MachineCode,
    Micro,
    Preset,
    PresetSource,
    Relation,
)
from perfassert.kernel.program import Program, ProgramInstruction
from perfassert.kernel.roles import Role
from perfassert.shipped import model_number

_BLOCKS = 2
_LIMITS = ExecutionLimits(lane_instructions=2_000_000, instructions=20_000)
_WORDS = {"float": 1, "double": 2}
_COMPARISONS = (Kind.COMPARE, Kind.COMPARE_EXTENDED, Kind.COMPARE_WIDE)
_CONVERSIONS = (Kind.TO_INTEGER, Kind.ROUND, Kind.DOUBLE_ROUND)
_OF_FLOATS = (Kind.FLOAT_COMPARE, Kind.DOUBLE_COMPARE)
_NEAR = 200  # instructions before a jump that are looked at
_SAME = (Relation.EQ, Relation.NE)
_MAGNITUDE = 0x7FFFFFFF  # of a float's bits: all but the sign
_INFINITIES = (0x7F800000, 0x7FF00000)  # bits of an infinite float, and of a double's upper word
_SELDOM = model_number("slow_path_share")
_SELDOM_BY_BITS = 1 - (1 - 1 / WARP_LANES) ** WARP_LANES
"""Shares of the warps up to which a function's slow path is taken never to be executed: the second
where it takes a number apart, as the reduction of a large argument of ``sinf`` does. A product of
ordinary numbers is so large in one of 32 lanes or fewer."""


def rare_sides(
    machine: MachineCode,
    program: Program,
    launch: Launch,
    arguments: list[ArgumentValue],
    blocks: WorkingBlocks,
    reads: Reads | None = None,
) -> Rare:
    """Jumps of which ordinary numbers never take one side, where floats that are not given decide:
    by address, with True where they never jump."""
    loads = dict(_loads(machine, program, arguments))
    if not loads:
        return frozenset()
    arguments = [_number(p.dtype) if g is None else g
             for p, g in zip(program.parameters, arguments, strict=False)]  # fmt: skip
    code = _with_ordinary_numbers(machine, loads)
    some = tuple(map(blocks.in_grid, spread_blocks(len(blocks), _BLOCKS)))
    needed = control_slice(code)
    infinities = {p.register for p in code.presets if p.source is PresetSource.LITERAL
                  and p.value & _MAGNITUDE in _INFINITIES}  # fmt: skip
    sides: set[tuple[int, bool]] = set()
    for signed in (True, False):
        presets = tuple(replace(p, signed=signed) for p in code.presets)
        run = execute(
            replace(code, presets=presets), launch, arguments, some, _LIMITS, needed, reads=reads
        )
        by_numbers = [
            _Jump.of(program, machine.instructions[jump].address, jump, counts)
            for jump, counts in run.taken.items()
            if run.guesses.get(jump) == ORDINARY  # else something else decides
        ]
        seen_elsewhere = _reads_stack_elsewhere(program, by_numbers)
        for jump in by_numbers:
            behind = _deciding(machine, jump.place)
            private = not any(map(_is_seen, jump.own))
            of_a_function = _is_of_a_function(jump.own, seen_elsewhere)
            if jump.seldom:
                most = _SELDOM if of_a_function else 0.0
                if _reads_bits(program, jump.address, jump.own):
                    most = _SELDOM_BY_BITS
                if jump.seldom > most:
                    continue
            elif (
                any(map(_is_seen, (*jump.own, *jump.other)))
                and not of_a_function
                and (_asks_for_equality(behind, infinities if private else set()) or len(run.cut))
            ):
                continue  # what more iterations would tell
            if signed or _looks_at_bits(behind):
                sides.add((jump.address, jump.side))
    return frozenset(sides)


@dataclass(frozen=True, slots=True)
class _Jump:
    """A jump that executed blocks took; ``seldom``: the share of the warps on the ``side`` that is
    taken less often, if at all, to which ``own`` instructions belong: True where the jump is."""

    place: int
    address: int
    side: bool
    seldom: float
    own: Sequence[ProgramInstruction]
    other: Sequence[ProgramInstruction]

    @classmethod
    def of(cls, program: Program, address: int, place: int, counts: Counts) -> _Jump:
        jumped, fell = counts.sum(axis=0).tolist()
        fallen, behind = _instructions_by_side(program, address)
        own, other = (behind, fallen) if jumped < fell else (fallen, behind)
        return cls(place, address, jumped < fell, min(jumped, fell) / (jumped + fell), own, other)


def _is_seen(instruction: ProgramInstruction) -> bool:
    return bool(instruction.accesses or instruction.fence or instruction.bulk)


def _reads_stack_elsewhere(program: Program, jumps: Sequence[_Jump]) -> bool:
    """Return True if code that no such jump leads to reads an array on the stack.

    A register that is spilled there has a place of its own; that of an array's item is computed.
    """
    inside = {i.index for jump in jumps for i in jump.own}
    return any(
        a.space == "local" and a.direction is Direction.LOAD and a.address.constant is None
        for i in program.instructions if i.index not in inside
        for a in i.accesses
    )  # fmt: skip


def _loads(
    machine: MachineCode, program: Program, arguments: list[ArgumentValue]
) -> Iterator[tuple[int, str]]:
    """Instructions that load floats whose values nobody gives, with their type."""
    known = {g.name for g in arguments if isinstance(g, Region) and g.content is not None}
    types = {p.at(0): p.dtype for p in program.parameters if not p.members}
    types |= {p.at(m.offset): m.dtype for p in program.parameters for m in p.members}
    places = Counter(i.address for i in machine.instructions)
    numbers = {i.address: n for n, i in enumerate(machine.instructions)}
    for instruction in program.instructions:
        for access in instruction.accesses[:1]:
            dtype = _floating(types.get(access.field))
            single = places[instruction.address] == 1
            loads = access.direction is Direction.LOAD and not access.atomic
            if dtype and single and loads and access.field not in known:
                yield numbers[instruction.address], dtype


def _floating(dtype: str | None) -> str:
    """``"float"`` for ``const float4``, ``"double"`` for ``double2``; else empty."""
    words = (w.rstrip("1234") for w in (dtype or "").split())
    return next((w for w in words if w in _WORDS), "")


def _number(dtype: str | None) -> ArgumentValue:
    """Return the value of a parameter that is not given: 1.5 if it is a float."""
    return {"float": b"\0\0\xc0\x3f", "double": b"\0\0\0\0\0\0\xf8\x3f"}.get(_floating(dtype))


def _with_ordinary_numbers(machine: MachineCode, loads: Mapping[int, str]) -> MachineCode:
    """Return the code with presets in the place of what loads read."""
    instructions = list(machine.instructions)
    presets: list[Preset] = []
    for number, dtype in loads.items():
        instruction = instructions[number]
        operations: list[Micro] = []
        for operation in instruction.operations:
            if operation.kind is not Kind.LOAD or len(operation.targets) % _WORDS[dtype]:
                operations.append(operation)
                continue
            for place, target in enumerate(operation.targets):
                value, word = divmod(place, _WORDS[dtype])
                register = machine.registers + len(presets)
                presets.append(
                    Preset(register, PresetSource.ORDINARY, 8 * number + value, word, dtype)
                )
                operations.append(Micro(Kind.MOVE, (target,), (register,)))
        instructions[number] = replace(instruction, operations=tuple(operations))
    return replace(
        machine, instructions=tuple(instructions), registers=machine.registers + len(presets),
        presets=(*machine.presets, *presets),
    )  # fmt: skip


def _looks_at_bits(behind: Sequence[Micro]) -> bool:
    """Return True if integers are compared that no conversion of a float leads to.

    Only mathematical functions look at the bits of a number.
    """
    kinds = {o.kind for o in behind}
    return not kinds.isdisjoint(_COMPARISONS) and kinds.isdisjoint(_CONVERSIONS)


def _asks_for_equality(behind: Sequence[Micro], infinities: Set[int]) -> bool:
    """Return True if floats are compared for equality, as programs do with a mask.

    Ordinary numbers that fail such a comparison mean little, unless it is one with infinity.
    ``infinities``: registers of literals whose bits are those of an infinity's upper word.
    """
    return any(
        o.kind in _OF_FLOATS and o.detail[0] in _SAME and infinities.isdisjoint(o.sources)
        for o in behind
    )


def _is_of_a_function(side: Sequence[ProgramInstruction], seen_elsewhere: bool) -> bool:
    """Return True if a side is a function's slow path.

    Such a path is a routine of the compiler, or uses an array on the stack of its own, and touches
    nothing that other threads or the program see. ``seen_elsewhere``: what is on the stack is.
    """
    private = all(a.space == "local" and not seen_elsewhere for i in side for a in i.accesses)
    own = any(i.accesses or Role.IN_LIBRARY in i.roles for i in side)
    return private and own and not any(i.fence or i.bulk for i in side)


def _reads_bits(program: Program, address: int, side: Sequence[ProgramInstruction]) -> bool:
    """Return True if integer arithmetic on this side uses the number compared before the branch.

    The side must not touch memory.
    """
    if any(i.accesses or i.fence or i.bulk for i in side):
        return False
    jump = next(i for i in program.instructions if i.address == address)
    guards = {jump.predicate.lstrip("!"), *jump.uses} - {""}
    before = reversed(program.instructions[: jump.index])
    deciding = next((i for i in before if guards.intersection(i.defines)), None)
    if deciding is None:
        return False
    return any(
        i.operation in _OF_INTEGERS and not set(deciding.uses).isdisjoint(i.uses) for i in side
    )


_OF_INTEGERS = ("int32", "imad")


def _instructions_by_side(
    program: Program, address: int
) -> tuple[list[ProgramInstruction], list[ProgramInstruction]]:
    """Instructions that only one side of a jump leads to: by falling through, and by jumping."""
    place = {block: n for n, block in enumerate(program.order)}

    def reachable_from(start: int) -> set[int]:
        visited, stack = {start}, [start]
        while stack:
            block = stack.pop()
            for successor in program.blocks[block].successors if block in program.blocks else ():
                if successor not in visited and place.get(successor, -1) > place.get(block, -1):
                    visited.add(successor)
                    stack.append(successor)
        return visited

    fallen: list[ProgramInstruction] = []
    jumped: list[ProgramInstruction] = []
    for block in program.blocks.values():
        if program.instructions[block.stop - 1].address == address and len(block.successors) == 2:
            target, following = map(reachable_from, block.successors)
            for side, own in ((jumped, target - following), (fallen, following - target)):
                inside = (program.blocks[b] for b in own if b in program.blocks)
                side += [i for b in inside for i in program.instructions[b.start : b.stop]]
    return fallen, jumped


def _deciding(machine: MachineCode, jump: int) -> list[Micro]:
    """Return the operations that lead to a jump's condition, up to those of floats and memory.

    For each register the nearest operation before its use in the code counts.
    """
    instruction = machine.instructions[jump]
    wanted = {instruction.guard, *(s for o in instruction.operations for s in o.sources)} - {-1, 0}
    operations = []
    for place in range(jump - 1, max(jump - _NEAR, 0), -1):
        for operation in reversed(machine.instructions[place].operations):
            if wanted.isdisjoint(operation.targets):
                continue
            operations.append(operation)
            wanted.difference_update(operation.targets)
            if not operation.kind.name.startswith(("FLOAT", "DOUBLE")) and not operation.memory:
                wanted.update(operation.sources)
                wanted.discard(0)
    return operations
