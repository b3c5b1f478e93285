"""Accesses of a program for one launch: their addresses, and the assumptions that these rest on."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from perfassert.frontends.binding.binder import BEYOND, Binder
from perfassert.frontends.binding.boxes import box_of_copy
from perfassert.frontends.binding.stand_ins import (
    ANYTHING,
    dependence,
    describe_dependence,
    element_distance,
    spread_form,
)
from perfassert.kernel.affine import (
    Affine,
    add,
    below_zero,
    interval,
    with_global_coordinates,
)
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.expression_pool import Expression
from perfassert.kernel.names import LoopCounter, Name
from perfassert.kernel.program import (
    BulkCopy,
    MemoryAccess,
    ProgramInstruction,
)
from perfassert.source import Assumption, SourceSpan


def bind_accesses(binder: Binder) -> tuple[tuple[BoundAccess, ...], dict[int, tuple[int, ...]]]:
    """Return every access of the program that can happen, and those that each instruction makes."""
    program, symbols = binder.program, binder.symbols
    bound: list[BoundAccess] = []
    made: dict[int, tuple[int, ...]] = {}
    for block in program.blocks.values():
        if block.skipped:
            continue
        for number in range(block.start, block.stop):
            instruction = program.instructions[number]
            if not instruction.accesses and instruction.bulk is None:
                continue
            guard = block.condition
            if instruction.guard is not None:
                guard = symbols.logical_and(guard, instruction.guard)
            chain = program.chain(block.loop)
            for loop in chain:
                guard = symbols.logical_and(guard, program.loops[loop].entry)
            bound_guard = binder.guard(guard, instruction.span)
            if bound_guard is None or not _loops_run(binder, chain):
                continue
            known = binder.counts_executions and not binder.is_unknown(instruction)
            if binder.least and not known and binder.is_left_open(guard):
                continue  # nothing happens behind a condition that data decides
            own = []
            if instruction.bulk is not None:
                bound.append(_bulk(binder, instruction, instruction.bulk, bound_guard, chain))
                made[number] = (len(bound) - 1,)
                continue
            for access in instruction.accesses:
                own.append(len(bound))
                bound.append(_bind_access(binder, access, bound_guard, chain, instruction))
            made[number] = tuple(own)
    return tuple(bound), made


def _loops_run(binder: Binder, chain: tuple[int, ...]) -> bool:
    """Return True if the loops around an access run; a mean may round to 0 although they do."""
    return all(binder.loops[i].most > 0 or binder.loops[i].weighted for i in chain)


def _bind_access(
    binder: Binder,
    access: MemoryAccess,
    guard: tuple[dict[Name, tuple[int, int]], list[Affine]],
    chain: tuple[int, ...],
    instruction: ProgramInstruction,
) -> BoundAccess:
    span = instruction.span
    ranges, conditions = dict(guard[0]), list(guard[1])
    loops = []
    for loop in chain:
        loop_range, symbol = binder.loops[loop], LoopCounter(loop)
        if loop_range.most > 1:
            loops.append(symbol)
            ranges.setdefault(symbol, (0, loop_range.most - 1))
        within = binder.within(loop)
        if within is not None:
            conditions.append(within)
    rests_on = access.rests_on
    if beyond := not access.unresolved and binder.is_beyond(access.address):
        access = replace(access, unresolved=f"needs {BEYOND}")
    if beyond or (access.unresolved and not binder.has_assumed_value(access.address)):
        rests_on = _assume_address(binder, access, span)
    binder.what = f"the address of {access.text!r}" + (f" at {span}" if span else "")
    form = _sampled_form(binder, access) if rests_on == () and access.unresolved else None
    if form is None:
        form = binder.stand_in() if beyond else binder.form(access.address)
    binder.what = "an address"
    around = {LoopCounter(loop) for loop in chain}
    # Behind a loop its counter has its last value; what asks for that is how the loop was left.
    conditions = [c for c in conditions if not _counters(c) - around]
    ranges = {s: r for s, r in ranges.items() if s in around or not isinstance(s, LoopCounter)}
    used = _counters(form).union(*map(_counters, conditions))
    for symbol in sorted(used - set(loops)):
        last = max(binder.loops[symbol.loop].most - 1, 0)
        loops.append(symbol)
        ranges[symbol] = (last, last)
    return BoundAccess(
        access.field, access.space, access.direction, access.bytes, form, ranges,
        tuple(conditions), tuple(loops), access.atomic, access.text, span, rests_on,
        instruction=instruction.index, merged=access.merged, turn=access.turn,
    )  # fmt: skip


def _bulk(
    binder: Binder,
    instruction: ProgramInstruction,
    copy: BulkCopy,
    guard: tuple[dict[Name, tuple[int, int]], list[Affine]],
    chain: tuple[int, ...],
) -> BoundAccess:
    """Return a box or run of bytes as an access with loops of its own."""
    box, guesses = box_of_copy(binder, instruction, copy)
    box = replace(box, access=replace(box.access, unresolved=copy.unresolved))
    own: dict[Name, tuple[int, int]] = {name: (0, count - 1) for name, count in box.loops.items()}
    binder.ranges |= own
    made = _bind_access(binder, box.access, guard, chain, instruction)
    clipped = []
    for coordinate, extent in box.clip:
        form = binder.form(coordinate)
        low, high = interval(form, binder.ranges)
        beyond = add(form, Affine(-extent))
        clipped += [below_zero(beyond)] if high >= extent else []
        clipped += [below_zero(add(form.scale(-1), Affine(-1)))] if low < 0 else []
    return replace(
        made, loops=(*made.loops, *box.loops), ranges={**made.ranges, **own},
        pieces=max(box.pieces, 1), conditions=(*made.conditions, *clipped),
        rests_on=(*made.rests_on, *guesses),
        reaches=prod(binder.launch.cluster) if copy.multicast else 1,
    )  # fmt: skip


def _assume_address(
    binder: Binder, access: MemoryAccess, span: SourceSpan | None
) -> tuple[Assumption, ...]:
    """Return the stand-in of an address without a closed form: the executed sample, or a guess.

    How an address moves with the loops around it a sample does not tell whose warps were cut off.
    """
    executed = binder.executed
    ended = executed is not None and executed.sampled is not None
    if executed is not None and (
        _is_sampled(binder, access) or (ended and _sampled_form(binder, access))
    ):
        text = f"the address of {access.field} {access.unresolved}; it is that of {executed.sample}"
        if executed.cut:
            text += ", executed in part: later iterations are taken to be like the first"
            return (binder.assume(text, span, "sample"),)
        binder.assume(text, span)
        return ()
    if access.field in binder.program.tables:
        size = binder.program.sizes.get(access.field, 0)
        binder.assume(f"values are looked up all over {access.field}, {size} B of the compiler's")
        return ()
    pattern = _describe_unknowns(binder, access.address)
    guess = binder.assume(
        f"the address of {access.field} {access.unresolved}; {pattern}",
        span, "layout" if access.space == "constant" or access.atomic else "address",
    )  # fmt: skip
    return (guess,)


def _is_sampled(binder: Binder, access: MemoryAccess) -> bool:
    """Return True if the executed sample stands for every unknown of the address."""
    return all(a.name in binder.spread for a in binder.symbols.unknowns(access.address))


def _sampled_form(binder: Binder, access: MemoryAccess) -> Affine | None:
    """Return the address as the executed sample found it, if unknowns are inside functions."""
    seen = binder.seen.get(access.address.index)
    if seen is None or _is_sampled(binder, access):
        return None
    form = spread_form(element_distance(seen, access.bytes), ANYTHING, binder.launch, binder.ranges)
    return with_global_coordinates(form.scale(access.bytes), binder.names)


def _describe_unknowns(binder: Binder, address: Expression) -> str:
    """Return how the unknowns of an address are taken to differ from thread to thread."""
    unknowns = [
        dependence(binder.program, a)
        for index in sorted(address.atoms)
        for a in (binder.symbols.atoms[index],)
        if a.function == "data" and a.name not in binder.assumed_values
    ]
    apart = [d for d in unknowns if d.scattered]
    return describe_dependence((apart or unknowns or [ANYTHING])[0])


def _counters(form: Affine) -> set[LoopCounter]:
    return {s for s in form.symbols() if isinstance(s, LoopCounter)}
