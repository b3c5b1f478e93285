"""Lowering of SASS to executable operations (:mod:`perfassert.kernel.machine`).

What has no translation becomes :attr:`Kind.UNKNOWN`, whose results nobody may rely on; it is never
a wrong value. Calls are not inlined: return addresses are values like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from perfassert.frontends.machine.lower_control import CONTROL
from perfassert.frontends.machine.lower_floats import FLOAT
from perfassert.frontends.machine.lower_integers import INTEGER
from perfassert.frontends.machine.lower_memory import MEMORY, inputs
from perfassert.frontends.machine.lowering_step import LoweringStep, Registers, Untranslated
from perfassert.frontends.machine.opcodes import opcode_roles
from perfassert.frontends.machine.registers import descriptors, read_registers, written_registers
from perfassert.frontends.machine.sass import Instruction, Listing, parse_listing
from perfassert.frontends.toolchain.binary import Binary
from perfassert.kernel.machine import (
    Kind,
    MachineCode,
    MachineInstruction,
    MemoryOperand,
    Micro,
    ParameterSlot,
    Space,
    UnsetConstant,
)
from perfassert.kernel.roles import Role
from perfassert.shipped import model_integer

SECTION_BYTES = 1 << 24  # code addresses of a section start at a multiple of it
_WINDOW_RESERVED = model_integer("reserved_shared_bytes")
_DEEP_STACK = 1 << 14  # bytes of stack where recursion leaves the size open
_MAX_STACK = model_integer("max_local_bytes")
_TABLE: Mapping[str, Callable[[LoweringStep], None]] = {**INTEGER, **FLOAT, **MEMORY, **CONTROL}


def executable(binary: Binary) -> MachineCode:
    """Return the kernel as it can be executed.

    Raises :class:`~perfassert.KernelSourceError` for a listing that cannot be read.
    """
    return lower(binary)[1]


Lowered = tuple[Listing, MachineCode]
"""Instructions of a listing, and the operations that they stand for."""


def lower(binary: Binary) -> Lowered:
    """Read the kernel's listing, and translate its instructions to operations."""
    listing = parse_listing(binary.listing, f"listing of {binary.kernel}", binary.files)
    return listing, _machine_code(binary, listing)


def translates(opcode: str) -> bool:
    """Return True if an opcode has a translation, for some of its modifiers at least.

    >>> translates("IADD3"), translates("HMMA")
    (True, False)
    """
    return opcode.partition(".")[0] in _TABLE


def _machine_code(binary: Binary, listing: Listing) -> MachineCode:
    """Return the binary's listing as machine operations."""
    addresses = code_addresses(listing)
    registers = Registers()
    instructions = tuple(
        _translate(i, addresses, listing, registers, binary.arch) for i in listing.instructions
    )
    number = int("".join(filter(str.isdigit, binary.arch)) or 0)
    block, grid, stack = (0x360, 0x370, 0x37C) if number >= 100 else (0, 12, 0x28)
    base = binary.parameter_base
    return MachineCode(
        instructions=instructions,
        registers=registers.count,
        uniform=frozenset(registers.uniform),
        presets=registers.presets,
        entries={address: i for i, address in enumerate(addresses)},
        landings=_valid_places(listing.labels.values(), listing),
        returns=_valid_places(
            (i.index + 1 for i in listing.instructions if i.base == "CALL"), listing
        ),
        parameters=tuple(ParameterSlot(base + p.offset, p.size) for p in binary.parameters),
        banks=binary.constants,
        unset=tuple(UnsetConstant(u.bank, u.offset, u.size) for u in binary.unset),
        block=block,
        grid=grid,
        stack=stack,
        shared_base=_WINDOW_RESERVED if number >= 90 else 0,
        shared_bytes=binary.shared_bytes,
        local_bytes=binary.local_bytes if binary.local_bytes <= _MAX_STACK else _DEEP_STACK,
        names=registers.names,
    )


def _valid_places(places: Iterable[int], listing: Listing) -> frozenset[int]:
    return frozenset(n for n in places if n < len(listing.instructions))


def code_addresses(listing: Listing) -> list[int]:
    """Return a byte address for every instruction, unique over the listing's sections."""
    addresses = []
    section, last = 0, -1
    for instruction in listing.instructions:
        if instruction.address <= last:
            section += SECTION_BYTES
        last = instruction.address
        addresses.append(section + last)
    return addresses


def _translate(
    instruction: Instruction,
    addresses: list[int],
    listing: Listing,
    registers: Registers,
    arch: str,
) -> MachineInstruction:
    step = LoweringStep(instruction, registers, listing, addresses)
    guard, holds = -1, 1
    if instruction.guard is not None and instruction.guard != ("PT", False):
        name, negated = instruction.guard
        guard, holds = registers.number_of(name), int(not negated)
    translate = _TABLE.get(instruction.base)
    try:
        if translate is None:
            raise Untranslated(instruction.base)
        translate(step)
        if missing := step.missing_results():
            step.emit(Kind.UNKNOWN, missing, ())
        reads = descriptors(instruction)
    except Untranslated:
        step.operations = _unknown_operations(instruction, step, arch)
        reads = read_registers(instruction)
    return MachineInstruction(
        instruction.address,
        tuple(step.operations),
        guard,
        holds,
        instruction.span,
        instruction.text,
        inputs(step),
        tuple(map(registers.number_of, reads)),
    )


def _unknown_operations(instruction: Instruction, step: LoweringStep, arch: str) -> list[Micro]:
    """Return stand-ins for an untranslated instruction: they set what it may have changed."""
    targets = tuple(map(step.registers.number_of, written_registers(instruction)))
    roles = opcode_roles(instruction.opcode, arch)
    if Role.IS_GRANTED in roles:
        true = (step.literal(1),)
        granted = [Micro(Kind.MOVE, (p,), true) for p in step.predicates]
        rest = tuple(t for t in targets if t not in step.predicates)
        return [*granted, Micro(Kind.UNKNOWN, rest)] if rest else granted
    if Role.JUMPS in roles:
        return [Micro(Kind.LOST)]
    if Role.WRITES_GLOBAL in roles:
        return [Micro(Kind.UNKNOWN, targets, memory=MemoryOperand(Space.GLOBAL, 0))]
    if Role.WRITES_SHARED in roles:
        return [Micro(Kind.UNKNOWN, targets, memory=MemoryOperand(Space.SHARED, 0))]
    return [Micro(Kind.UNKNOWN, targets)]
