"""PTX → executable operations (:mod:`perfassert.kernel.machine`), where there is no machine code.

Virtual registers become registers of words, calls are put in place, and where lanes meet again is
said by markers (:mod:`~perfassert.frontends.cuda.ptx_converge`). What has no translation becomes
:attr:`Kind.UNKNOWN`, whose results nobody may rely on; it is never a wrong value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.ptx_control import ADDRESS_STEP, CONTROL
from perfassert.frontends.cuda.ptx_converge import converged
from perfassert.frontends.cuda.ptx_float import FLOAT, FLOATS, converted
from perfassert.frontends.cuda.ptx_inline import inlined
from perfassert.frontends.cuda.ptx_integer import INTEGER
from perfassert.frontends.cuda.ptx_memory import BANK, MEMORY
from perfassert.frontends.cuda.ptx_schedule import scheduled
from perfassert.frontends.cuda.ptx_step import Names, PtxStep, Symbol
from perfassert.frontends.cuda.ptx_text import (
    Module,
    PtxInstruction,
    Routine,
    Variable,
    callee,
    parse_module,
)
from perfassert.frontends.cuda.semantics_step import Registers, Untranslated
from perfassert.kernel.machine import (
    Kind,
    MachineCode,
    MachineInstruction,
    Memory,
    Micro,
    ParameterSlot,
    Space,
    UnsetConstant,
)
from perfassert.source import SourceSpan

PARAMETERS = 0x160  # byte offset of the first one in constant bank 0
_JUMPS = frozenset("bra brx call bar barrier bssy bsync break bclear warpsync".split())
_WRITES = frozenset(
    "st red atom cp wgmma tcgen05 mbarrier stmatrix sust multimem tensormap".split()
)
_MOST_BYTES = 1 << 20  # of a variable that is not in global memory
_UNALIGNED = 16  # of what starts behind all other variables


@dataclass(frozen=True)
class Layout:
    """Where a module's variables lie, and how large each space is, in bytes."""

    symbols: Mapping[str, Symbol]
    parameters: tuple[ParameterSlot, ...]
    shared_bytes: int
    local_bytes: int
    constants: bytes
    unset: tuple[UnsetConstant, ...]


@dataclass(frozen=True)
class Prepared:
    """One list of instructions with markers, and where its variables lie."""

    routine: Routine
    layout: Layout


def prepared(text: str, kernel: str, name: str) -> Prepared:
    """An entry of a PTX text, ready to be executed or described; ``name``: the text's, for errors.

    Raises :class:`~perfassert.KernelSourceError` for a text that cannot be read.
    """
    module = parse_module(text, kernel, name)
    routine = inlined(module)
    if not routine.instructions:
        raise KernelSourceError(f"{name}: {kernel!r} has no instructions")
    _check_sizes((*module.variables, *routine.variables, *routine.parameters), name)
    held = layout(module, routine)
    ordered = scheduled(routine, names_of(Prepared(routine, held)))
    return Prepared(converged(ordered), held)


def _check_sizes(variables: Iterable[Variable], name: str) -> None:
    for variable in variables:
        if variable.space != "global" and variable.size > _MOST_BYTES:
            raise KernelSourceError(
                f"{name}: {variable.name} has {variable.size} bytes, more than {variable.space} "
                "memory holds"
            )


def names_of(made: Prepared) -> Names:
    """What the names in it mean."""
    routine = made.routine
    return Names(routine.registers, made.layout.symbols, routine.labels, routine.tables)


def layout(module: Module, routine: Routine) -> Layout:
    """Variables in the order of the text, those without a size behind all others."""
    symbols: dict[str, Symbol] = {}
    slots, place = [], 0
    for parameter in routine.parameters:
        place = -(-place // parameter.alignment) * parameter.alignment
        symbols[parameter.name] = Symbol("param", PARAMETERS + place)
        slots.append(ParameterSlot(PARAMETERS + place, parameter.size))
        place += parameter.size
    used = " ".join(o for i in routine.instructions for o in i.operands)
    mine = [*(v for v in module.variables if v.name in used), *routine.variables]
    shared = _placed(symbols, (v for v in mine if v.space == "shared"), "shared")
    local = _placed(symbols, (v for v in mine if v.space in ("local", "param")), "local")
    held = [v for v in module.variables if v.space == "const"]
    size = _placed(symbols, held, "const")
    content = bytearray(size)
    unset = []
    for variable in held:
        start = symbols[variable.name].offset
        content[start : start + variable.size] = variable.content or bytes(variable.size)
        if variable.content is None:
            unset.append(UnsetConstant(BANK, start, variable.size))
    symbols.update({v.name: Symbol("global", -1) for v in mine if v.space == "global"})
    return Layout(symbols, tuple(slots), shared, local, bytes(content), tuple(unset))


def _placed(symbols: dict[str, Symbol], variables: Iterable[Variable], space: str) -> int:
    place, behind = 0, []
    for variable in variables:
        if not variable.size:
            behind.append(variable)
            continue
        place = -(-place // variable.alignment) * variable.alignment
        symbols[variable.name] = Symbol(space, place)
        place += variable.size
    if behind:
        place = -(-place // _UNALIGNED) * _UNALIGNED
    symbols.update({v.name: Symbol(space, place) for v in behind})
    return place


def executable_ptx(
    text: str,
    kernel: str,
    name: str,
    banks: Mapping[int, bytes] | None = None,
    unset: Iterable[UnsetConstant] | None = None,
) -> MachineCode:
    """The kernel as it can be executed; ``banks``, ``unset``: constants as the program sets them.

    Raises :class:`~perfassert.KernelSourceError` for a text that cannot be read.
    """
    made = prepared(text, kernel, name)
    routine, held = made.routine, made.layout
    registers = Registers()
    names = names_of(made)
    notes: dict[str, None] = {}
    instructions = tuple(
        _translated(i, registers, names, name, notes) for i in routine.instructions
    )
    count = len(instructions)
    landings = {routine.labels[t] for table in routine.tables.values() for t in table
                if t in routine.labels}  # fmt: skip
    return MachineCode(
        instructions=(*instructions, _end(count)),
        registers=registers.count,
        uniform=frozenset(),
        presets=registers.presets,
        entries={ADDRESS_STEP * n: n for n in range(count)},
        landings=frozenset(landings),
        returns=frozenset(),
        parameters=held.parameters,
        banks={BANK: held.constants} if banks is None else banks,
        block=0,
        grid=12,
        stack=0x28,
        shared_base=0,
        shared_bytes=held.shared_bytes,
        local_bytes=held.local_bytes,
        unset=held.unset if unset is None else tuple(unset),
        notes=tuple(notes),
    )


def _end(count: int) -> MachineInstruction:
    """Behind the last instruction, where labels may stand."""
    return MachineInstruction(ADDRESS_STEP * count, (Micro(Kind.EXIT),))


def _translation(step: PtxStep) -> Callable[[PtxStep], None] | None:
    root = step.parts[0]
    if root == "cvt":
        return converted
    if step.type in FLOATS and root in FLOAT:
        return FLOAT[root]
    if step.type in FLOATS and root in INTEGER and root not in ("mov", "selp"):
        return None
    return INTEGER.get(root) or MEMORY.get(root) or CONTROL.get(root)


def _translated(
    instruction: PtxInstruction,
    registers: Registers,
    names: Names,
    where: str,
    notes: dict[str, None],
) -> MachineInstruction:
    registers.start(False)
    step = PtxStep(instruction, registers, names)
    translate = _translation(step)
    guard, holds = -1, 1
    try:
        if instruction.guard is not None:
            guard = step.register(instruction.guard[0])[0]
            holds = int(not instruction.guard[1])
        if translate is None:
            raise step.refuse()
        translate(step)
    except (Untranslated, IndexError, KeyError, ValueError, StopIteration, struct.error):
        notes.setdefault(f"{instruction.opcode} is not executed; what it writes is unknown")
        step.operations = _unknown(step)
    text = f"{instruction.opcode} {', '.join(instruction.operands)}".strip()
    return MachineInstruction(
        ADDRESS_STEP * instruction.index,
        tuple(step.operations),
        guard,
        holds,
        SourceSpan(where, instruction.line),
        text,
    )


def _unknown(step: PtxStep) -> list[Micro]:
    """What stands for an instruction without a translation."""
    root = step.parts[0]
    if root in _JUMPS or callee(step.instruction):
        return [Micro(Kind.LOST)]
    targets = _targets(step)
    if root in _WRITES:
        shared = any(p.startswith("shared") for p in step.parts) or root == "mbarrier"
        memory = Memory(Space.SHARED if shared else Space.GLOBAL, 0)
        return [Micro(Kind.UNKNOWN, targets, memory=memory)]
    return [Micro(Kind.UNKNOWN, targets)]


def _targets(step: PtxStep) -> tuple[int, ...]:
    """The registers of the first operand, which an instruction may write."""
    if not step.operands or step.operands[0].startswith("["):
        return ()
    named = step.operands[0].strip("{}").replace("|", ",").split(",")
    found: list[int] = []
    for name in filter(None, (n.strip() for n in named)):
        if step.names.type_of(name):
            found += step.target_words(name)
    return tuple(found)
