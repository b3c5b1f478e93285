"""Reasons for which a launch does nothing: the conditions that keep it from storing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfassert.frontends.binding.binder import Binder
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import interval
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.expression_pool import Expression
from perfassert.kernel.names import Argument
from perfassert.kernel.program import MemoryAccess, ProgramBlock

_SHOWN = 3  # of the lines that a note names


def note_idleness(binder: Binder, bound: Iterable[BoundAccess]) -> None:
    """Note code that stores to global memory and never does so at a launch, with the reason."""
    if any(_changes(a) and (a.touched is None or a.touched.rows is not None) for a in bound):
        return
    instructions = binder.program.instructions
    storing = [
        block for block in binder.program.blocks.values()
        if any(_changes(a) for i in instructions[block.start : block.stop] for a in i.accesses)
    ]  # fmt: skip
    if not storing:
        return
    reasons = list(dict.fromkeys(reason for block in storing for reason in _reasons(binder, block)))
    why = f", as {' and '.join(reasons[:_SHOWN])}" if reasons else ""
    span = instructions[storing[0].start].span
    binder.assume(f"no thread of the launch stores to global memory{why}", span)


def _changes(access: BoundAccess | MemoryAccess) -> bool:
    return access.space == "global" and (access.direction is Direction.STORE or access.atomic)


def _reasons(binder: Binder, block: ProgramBlock) -> Iterator[str]:
    """Yield the reasons: the conditions that never hold on the way to a block."""
    program, symbols = binder.program, binder.symbols
    entries = (program.loops[i].entry for i in program.chain(block.loop))
    for condition in (block.condition, *entries):
        for part in symbols.conjuncts(condition):
            if symbols.depends_on_data(part):
                yield "a condition on loaded data does not hold in executed blocks"
            elif _never_holds(binder, part):
                yield from _values(binder, part)


def _never_holds(binder: Binder, condition: Expression) -> bool:
    if binder.why_undecided(condition):
        return False
    return interval(binder.form(condition), binder.ranges)[1] <= 0


def _values(binder: Binder, condition: Expression) -> Iterator[str]:
    """``"n = 0"`` for each argument of a condition."""
    for index in sorted(binder.symbols.free_atoms(condition)):
        name = binder.symbols.atoms[index].name
        if isinstance(name, Argument) and name in binder.names:
            parameter = binder.program.parameters[name.position]
            shown = parameter.at(name.offset) if name.offset else parameter.name
            yield f"{shown} = {binder.names[name]}"
