"""Roles of SASS instructions: the only reader of opcodes for the layers above."""

from __future__ import annotations

import re
from itertools import zip_longest

from perfassert.frontends.machine.inlining import PlacedInstruction
from perfassert.frontends.machine.opcodes import opcode_roles
from perfassert.frontends.machine.sass import Instruction
from perfassert.kernel.roles import CountedWait, Role

_BARRIER = re.compile(r"(SB|gsb)(\d)")
_MATRIX = 8
"""Offset of the numbers of the barriers that groups of matrix instructions have."""
_ALL_OF = re.compile(r"\{([\d,\s]+)\}")


def roles_of(placed: PlacedInstruction, arch: str) -> frozenset[Role]:
    """Return the roles of an instruction, also those of the routine that it lies in."""
    roles = opcode_roles(placed.instruction.opcode, arch)
    if placed.instruction.base == "HFMA2" and _multiplies_zeros(placed.instruction):
        roles |= {Role.BUILDS_CONSTANT}
    return roles | {Role.IN_LIBRARY} if placed.in_library else roles


def _multiplies_zeros(instruction: Instruction) -> bool:
    """``HFMA2.MMA R, -RZ, RZ, 1.5, 0``: the constant 1.5 in the upper half of a word."""
    _, *sources = (o.name for o in instruction.operands if o.kind == "register")
    return sources == ["RZ", "RZ"]


def counted_waits(instruction: Instruction) -> tuple[CountedWait, ...]:
    """``DEPBAR.LE SB0, 0x1, {3,2}``: all groups of SB0 but one; of the others, all."""
    waits: list[CountedWait] = []
    for operand, following in zip_longest(instruction.operands, instruction.operands[1:]):
        if barrier := _BARRIER.fullmatch(operand.name):
            counted = following is not None and following.kind == "number"
            waits.append(CountedWait(_barrier_number(barrier), following.value if counted else 0))
        elif several := _ALL_OF.fullmatch(operand.name):
            waits += [CountedWait(int(n), 0) for n in several[1].split(",")]
    return tuple(waits)


def closes_group(instruction: Instruction) -> int:
    """Return the barrier that counts the group of ``HGMMA …, gsb0``; -1 if there is none."""
    if instruction.base == "WARPGROUP":
        return -1
    matches = (_BARRIER.fullmatch(o.name) for o in instruction.operands)
    return next((_barrier_number(b) for b in matches if b is not None and b[1] == "gsb"), -1)


def _barrier_number(barrier: re.Match[str]) -> int:
    return int(barrier[2]) + (_MATRIX if barrier[1] == "gsb" else 0)
