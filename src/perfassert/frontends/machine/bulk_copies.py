"""Bulk copies between global and shared memory: boxes of tensors (TMA) and plain bytes."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.frontends.machine.sass import Instruction, Operand
from perfassert.kernel.access import Direction
from perfassert.kernel.expression_pool import Expression
from perfassert.kernel.program import BulkCopy

_TENSOR = ("UTMALDG", "UTMASTG", "UTMAREDG")


def copy_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the descriptor and the coordinates, innermost first; or the address and the size."""
    base, operands = instruction.base, instruction.operands
    memory = [o for o in operands if o.kind == "memory" and len(o.parts) == 1]
    if base in _TENSOR and len(memory) == 2:
        first = 2 if base == "UTMALDG" else 1  # behind the barrier, where there is one
        count = next((int(m[0]) for m in instruction.modifiers if m[1:] == "D"), 0)
        return (memory[1].parts[0], *_registers(memory[0].parts[0], first, count))
    if base == "UBLKCP" and len(memory) == 2:
        loads = instruction.modifiers[:1] == ("S",)
        return (memory[1 if loads else 0].parts[0], operands[-1])
    return ()


def bulk_copy(instruction: Instruction, values: Sequence[Expression]) -> BulkCopy | None:
    """Return the bulk copy of an instruction, with ``values`` of the operands above."""
    if not values:
        return None
    loads = instruction.base == "UTMALDG" or instruction.modifiers[:1] == ("S",)
    direction = Direction.LOAD if loads else Direction.STORE
    if instruction.base == "UBLKCP":
        return BulkCopy(direction, values[0], (), values[1], multicast=_multicast(instruction))
    coordinates = tuple(values[1:])
    return BulkCopy(direction, values[0], coordinates, None, multicast=_multicast(instruction))


def _multicast(instruction: Instruction) -> bool:
    return "MULTICAST" in instruction.modifiers


def _registers(first: Operand, start: int, count: int) -> tuple[Operand, ...]:
    prefix = first.name.rstrip("0123456789")
    number = int(first.name[len(prefix) :] or 0)
    return tuple(Operand("register", f"{prefix}{number + start + i}") for i in range(count))
