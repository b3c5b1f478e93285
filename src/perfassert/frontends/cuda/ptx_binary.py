"""A kernel of PTX that nothing here assembles, as a binary without machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfassert.frontends.cuda.control_flow import EXIT
from perfassert.frontends.cuda.ptx import kernel_of
from perfassert.frontends.cuda.ptx_machine import PARAMETERS, Prepared, names_of, prepared
from perfassert.frontends.cuda.ptx_memory import BANK
from perfassert.frontends.cuda.ptx_schedule import touched
from perfassert.frontends.cuda.ptx_step import PREDICATE, Names, words_of
from perfassert.frontends.cuda.ptx_text import kernels
from perfassert.frontends.toolchain import names, signature
from perfassert.frontends.toolchain.binary import Binary, Unset
from perfassert.source import Assumption


def unassembled(text: str, kernel: str | None, arch: str, where: str, why: str) -> Binary:
    """Of an entry of a PTX text; ``where`` names it, ``why``: there is no machine code.

    Raises :class:`~perfassert.KernelSourceError` for a text that cannot be read.
    """
    mangled = names.choose(kernel, kernels(text), where)
    made = prepared(text, mangled, where)
    held = made.layout
    registers = live_registers(made)
    said = (
        f"{why.partition(';')[0]}: predicted from PTX, whose instructions are taken for the "
        f"machine's; {registers} registers of a thread are alive at once"
    )
    slots = [(slot.offset - PARAMETERS, slot.size) for slot in held.parameters]
    return Binary(
        kernel=names.without_parameters(names.demangle(mangled)),
        mangled=mangled,
        arch=arch,
        ptx=text,
        listing="",
        registers=registers,
        shared_bytes=held.shared_bytes,
        local_bytes=held.local_bytes,
        parameter_base=PARAMETERS,
        parameters=signature.parameters(mangled, slots, [], text),
        constants={BANK: held.constants} if held.constants else {},
        unset=tuple(Unset(_at(made, u.offset), u.bank, u.offset, u.size) for u in held.unset),
        code_bytes=0,
        files={where: text},
        tools="",
        assumptions=(Assumption(said),),
    ).sealed()


def _at(made: Prepared, offset: int) -> str:
    found = made.layout.symbols.items()
    return next(n for n, s in found if s.space == "const" and s.offset == offset)


def live_registers(made: Prepared) -> int:
    """The most words of registers that hold a value still needed, without predicates."""
    known = names_of(made)
    code = made.routine.instructions
    steps = [touched(i, known) for i in code]
    flow = kernel_of(made.routine, ()).flow
    weight = _weights(steps, known)
    live: dict[int, set[str]] = {b: set() for b in flow.blocks}
    most, changed = 1, True
    while changed:
        changed = False
        for number in reversed(flow.order):
            block = flow.blocks[number]
            after = {e.target for e in block.edges if e.target != EXIT}
            alive = set().union(*(live[t] for t in after))
            for index in range(block.stop - 1, block.start - 1, -1):
                written, read = steps[index]
                if code[index].guard is None:
                    alive.difference_update(written)
                alive.update(read)
                most = max(most, sum(weight[r] for r in alive))
            if alive - live[number]:
                live[number] |= alive
                changed = True
    return most


def _weights(steps: Sequence[tuple[list[str], list[str]]], known: Names) -> Mapping[str, int]:
    """Words of each register; predicates have a file of their own."""
    found = {r for written, read in steps for r in (*written, *read)}
    kinds = {r: known.type_of(r) for r in found}
    return {r: 0 if kind == PREDICATE else words_of(kind) for r, kind in kinds.items()}
