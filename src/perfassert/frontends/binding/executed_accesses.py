"""Replacement of accesses without a closed form by the addresses that executed blocks touched.

A field is counted as executed as a whole: where one access of it has no closed form, what others
touch before it is as much a part of its reuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfassert.frontends.binding.binder import Binder
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.executed import Executed, Touched
from perfassert.kernel.program import Program, ProgramBlock, ProgramInstruction


def with_touched(
    binder: Binder, bound: tuple[BoundAccess, ...], made: Mapping[int, tuple[int, ...]]
) -> tuple[BoundAccess, ...]:
    """Return the accesses; those of fields without a closed form are replaced by executed ones.

    ``made``: by number of an instruction, those of its accesses.
    """
    executed = binder.executed
    if executed is None:
        return bound
    instructions = binder.program.instructions
    maker = {number: instructions[i] for i, numbers in made.items() for number in numbers}
    touched = {n: _touched_by(executed, maker[n], a.space) for n, a in enumerate(bound)}
    result = [_with_buffer_name(access, touched[n]) for n, access in enumerate(bound)]
    fields: dict[tuple[str, str], list[int]] = {}
    for number, access in enumerate(result):
        fields.setdefault((access.space, access.field), []).append(number)
    for (space, _), numbers in fields.items():
        if space == "local":  # where on the stack is known; whether at all is not
            sampled = executed.sampled_for(space)
            for n in numbers:
                if sampled is not None and _is_never_run(executed, maker[n]):
                    result[n] = replace(result[n], touched=Touched(sampled), rests_on=())
            continue
        if all(touched[n] is not None for n in numbers) and _open(binder, bound, maker, numbers):
            for n in numbers:
                result[n] = replace(result[n], touched=touched[n], rests_on=())
    _forget(binder, bound, result)
    return tuple(result)


def _is_never_run(executed: Executed, instruction: ProgramInstruction) -> bool:
    """Return True if no executed warp reached an instruction, as far as each warp is counted."""
    counts = None if executed.work is None else executed.work.counts.get(instruction.address)
    return counts is not None and not any(counts)


def _forget(binder: Binder, before: Iterable[BoundAccess], after: Iterable[BoundAccess]) -> None:
    """Remove guesses on which no access rests any more."""
    kept = {assumption for access in after for assumption in access.rests_on}
    for assumption in {a for access in before for a in access.rests_on} - kept:
        binder.assumptions.pop(assumption, None)


def _with_buffer_name(access: BoundAccess, touched: Touched | None) -> BoundAccess:
    """Return the access with the buffer that it went to, if its pointer does not name one."""
    if touched is None or not touched.buffer or touched.buffer == access.field:
        return access
    return replace(access, field=touched.buffer)


def _touched_by(executed: Executed, instruction: ProgramInstruction, space: str) -> Touched | None:
    """Return what the instruction touched: nothing if no warp reached it, None if unknown."""
    sampled = executed.sampled_for(space)
    if instruction.bulk is not None or sampled is None:
        return None
    touched = executed.touched.get((instruction.address, space))
    if touched is not None:
        return touched
    came = instruction.address in executed.accesses
    return None if came else Touched(sampled)


def _open(
    binder: Binder,
    bound: tuple[BoundAccess, ...],
    maker: Mapping[int, ProgramInstruction],
    numbers: list[int],
) -> bool:
    """Return True if no closed form says where some of the accesses go, or how often. Values that
    the user has stated stay."""
    around = _blocks_by_instruction(binder.program)
    loose = bool(binder.corrections)
    for number in numbers:
        instruction = maker[number]
        block = around[instruction.index]
        chain = binder.program.chain(block.loop)
        own = [a for a in instruction.accesses if a.space == bound[number].space]
        loops = [binder.program.loops[i] for i in chain]
        if any(binder.stated_trips(loop) is not None for loop in loops):
            return False
        if any(a.unresolved and binder.has_assumed_value(a.address) for a in own):
            return False
        guards = [block.condition, *(loop.entry for loop in loops)]
        if instruction.guard is not None:
            guards.append(instruction.guard)
        parts = (part for guard in guards for part in binder.symbols.conjuncts(guard))
        loose = loose or any(a.unresolved or binder.is_beyond(a.address) for a in own)
        loose = loose or any(binder.loops[i].assumed for i in chain)
        loose = loose or any(binder.why_undecided(part) for part in parts)
    return loose


def _blocks_by_instruction(program: Program) -> dict[int, ProgramBlock]:
    """Return the block of each instruction."""
    return {i: block for block in program.blocks.values() for i in range(block.start, block.stop)}
