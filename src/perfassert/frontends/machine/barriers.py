"""Barriers that SASS instructions use: mbarriers in shared memory, named ones, the cluster's."""

from __future__ import annotations

from collections.abc import Sequence

from perfassert.frontends.machine.sass import Instruction, Operand
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.program import BarrierUse

_BULK = ("UTMALDG", "UBLKCP")
_COMMIT = "UTCBAR"
_COPIED = "ARRIVES"
_OF_CLUSTER = ("UCGABAR_ARV", "UCGABAR_WAIT")


def barrier_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the operand that names the barrier, then the parity that is waited for, the bytes that
    an arrival expects or the threads of a named barrier."""
    base, operands = instruction.base, instruction.operands
    memory = [o for o in operands if o.kind == "memory"]
    if base == "SYNCS" and memory and _arrives_or_waits(instruction):
        return (memory[0], operands[-1])
    if base == "UBLKCP" and instruction.modifiers[:1] != ("S",):
        return ()
    if base == _COPIED and "TRANSCNT" not in instruction.modifiers:
        return tuple(memory[:1])
    if base == _COMMIT and memory:
        return (memory[0].parts[0],)
    if base in _BULK and memory and len(memory[0].parts) == 1:
        return _barrier_of_copy(memory[0].parts[0])
    if base == "BAR":
        return tuple(o for o in operands if o.kind in ("number", "register"))[:2]
    return ()


def barrier_use(
    instruction: Instruction, values: Sequence[Expression], symbols: ExpressionPool
) -> BarrierUse | None:
    """Return the use of a barrier, from ``values`` of its operands; None without a barrier."""
    base, modifiers = instruction.base, instruction.modifiers
    if base in _OF_CLUSTER:
        arrives = base == "UCGABAR_ARV"
        return BarrierUse("cluster", symbols.zero, arrives=arrives, waits=not arrives)
    if not values or not barrier_operands(instruction):
        return None
    detail = values[1] if len(values) > 1 else None
    if base == "BAR":
        waits = "ARV" not in modifiers
        return BarrierUse("named", values[0], arrives=True, waits=waits, threads=detail)
    if base in _BULK:
        return BarrierUse("shared", values[0], copies=True)
    if base == _COPIED:
        return BarrierUse("shared", values[0], arrives=True, gathers=True)
    if base == _COMMIT:
        return BarrierUse("shared", values[0], arrives=True, late=True)
    waits = "PHASECHK" in modifiers
    if waits:
        return BarrierUse("shared", values[0], waits=True, parity=detail)
    return BarrierUse("shared", values[0], arrives=True, bytes=detail)


def _arrives_or_waits(instruction: Instruction) -> bool:
    """``A0T…`` only expects bytes, ``EXCH`` initialises, ``CCTL`` invalidates."""
    modifiers = instruction.modifiers
    expects = any(m.startswith("A0T") for m in modifiers)
    return "PHASECHK" in modifiers or ("ARRIVE" in modifiers and not expects)


def _barrier_of_copy(target: Operand) -> tuple[Operand, ...]:
    """The register after the one with the address in shared memory."""
    prefix = target.name.rstrip("0123456789")
    if target.kind != "register" or len(prefix) == len(target.name):
        return ()
    return (Operand("register", f"{prefix}{int(target.name[len(prefix) :]) + 1}"),)
