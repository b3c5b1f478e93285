"""Sides of jumps that no ordinary floating-point number takes: the slow paths of functions.

``sinf`` reduces large arguments in a loop, ``sqrtf`` and divisions mend denormal ones, ``pow`` asks
for infinities. Which jumps those are the compiler does not say. So a few blocks are executed with
ordinary numbers wherever the code loads floats of unknown content; a jump that all of them take
the same way is taken that way. What compares a float takes both signs; what looks at the bits of
one, which only functions do, need only be right for positive numbers. What a program decides by
its data goes both ways, and stays open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.plan import Limits
from perfassert.engines.execution.presets import Argument
from perfassert.engines.execution.sample import spread_blocks
from perfassert.engines.execution.slicing import control_slice
from perfassert.frontends.cuda.kernels import Rare
from perfassert.kernel.access import Direction
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import Kind, MachineCode, MachineInstruction, Micro, Preset, Source
from perfassert.kernel.program import Program

_BLOCKS = 2
_LIMITS = Limits(lane_instructions=2_000_000, instructions=20_000)
_WORDS = {"float": 1, "double": 2}
_COMPARISONS = (Kind.COMPARE, Kind.COMPARE_EXTENDED, Kind.COMPARE_WIDE)
_CONVERSIONS = (Kind.TO_INTEGER, Kind.ROUND)


def rare_sides(
    machine: MachineCode, program: Program, launch: Launch, given: list[Argument]
) -> Rare:
    """Jumps of which ordinary numbers never take one side, where floats that are not given decide:
    by address, with True where they never jump."""
    loads = dict(_loads(machine, program, given))
    if not loads:
        return frozenset()
    given = [_number(p.dtype) if g is None else g
             for p, g in zip(program.parameters, given, strict=False)]  # fmt: skip
    found: set[tuple[int, bool]] = set()
    for signed in (True, False):
        code = _with_ordinary_numbers(machine, loads, signed)
        blocks = spread_blocks(launch.blocks, _BLOCKS)
        run = execute(code, launch, given, blocks, _LIMITS, control_slice(code))
        if len(run.cut):
            return frozenset()
        bits = None if signed else _looking_at_bits(machine)
        for jump, counts in run.taken.items():
            jumped, fell = counts.sum(axis=0).tolist()
            if jump in run.guesses or bool(jumped) == bool(fell):
                continue
            if bits is None or jump in bits:
                found.add((machine.instructions[jump].address, not jumped))
    return frozenset(found)


def _loads(
    machine: MachineCode, program: Program, given: list[Argument]
) -> Iterator[tuple[int, str]]:
    """Instructions that load floats whose values nobody gives, with their type."""
    known = {g.name for g in given if isinstance(g, Region) and g.content is not None}
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


def _number(dtype: str | None) -> Argument:
    """A parameter that is not given: 1.5, if it is a float."""
    return {"float": b"\0\0\xc0\x3f", "double": b"\0\0\0\0\0\0\xf8\x3f"}.get(_floating(dtype))


def _with_ordinary_numbers(
    machine: MachineCode, loads: Mapping[int, str], signed: bool
) -> MachineCode:
    """The code with presets in the place of what loads read."""
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
                    Preset(register, Source.ORDINARY, 8 * number + value, word, dtype, signed)
                )
                operations.append(Micro(Kind.MOVE, (target,), (register,)))
        instructions[number] = replace(instruction, operations=tuple(operations))
    return replace(
        machine, instructions=tuple(instructions), registers=machine.registers + len(presets),
        presets=(*machine.presets, *presets),
    )  # fmt: skip


def _looking_at_bits(machine: MachineCode) -> frozenset[int]:
    """Jumps that comparisons of integers decide which no conversion of a float leads to. Registers
    are followed wherever they are written, so that some are missed and none is taken wrongly."""
    writers: dict[int, list[tuple[MachineInstruction, Micro]]] = {}
    for instruction in machine.instructions:
        for operation in instruction.operations:
            for target in operation.targets:
                writers.setdefault(target, []).append((instruction, operation))

    def only_bits(register: int) -> bool:
        seen, stack, compared = {register}, [register], False
        while stack:
            for _, operation in writers.get(stack.pop(), ()):
                if operation.kind in _CONVERSIONS:
                    return False
                compared |= operation.kind in _COMPARISONS
                if operation.kind.name.startswith(("FLOAT", "DOUBLE")) or operation.memory:
                    continue
                stack += [r for r in operation.sources if r not in seen]
                seen.update(operation.sources)
        return compared

    return frozenset(
        number
        for number, instruction in enumerate(machine.instructions)
        if any(o.kind is Kind.BRANCH for o in instruction.operations)
        and instruction.guard >= 0
        and only_bits(instruction.guard)
    )
