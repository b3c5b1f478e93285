"""A kernel of SASS instructions as the evaluation sees it.

64-bit values live in register pairs; only the low word is followed, which is enough for an address
relative to the pointer that it starts from.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from perfassert.frontends.cuda.barriers import barrier_operands
from perfassert.frontends.cuda.bulk_copies import PARAMETERS, copy_operands
from perfassert.frontends.cuda.control_flow import Flow, Jump, analyse
from perfassert.frontends.cuda.evaluate import Read
from perfassert.frontends.cuda.matrix import descriptor_operands
from perfassert.frontends.cuda.registers import (
    defined,
    operand_registers,
    sleep_operands,
    used,
)
from perfassert.frontends.cuda.sass import Instruction, Operand
from perfassert.frontends.cuda.sass_calls import TWICE_GUARDED, Placed
from perfassert.frontends.cuda.sass_step import Step, signed
from perfassert.frontends.cuda.sass_values import SEMANTICS
from perfassert.frontends.cuda.stack import stack_words
from perfassert.frontends.toolchain.binary import Unset
from perfassert.frontends.toolchain.names import demangle
from perfassert.kernel.program import CLUSTERED, CONSTANT
from perfassert.kernel.symbols import Symbols, Value

_SPECIAL = {
    f"SR_{sass}.{axis.upper()}": f"{name}.{axis}"
    for sass, name in (("TID", "threadIdx"), ("CTAID", "blockIdx"), ("NTID", "blockDim"),
                       ("NCTAID", "gridDim"))
    for axis in "xyz"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constants:
    """Constant bank 0 of one kernel: where the launch and the parameters lie.

    ``parameters``: (offset, size) by position; ``block``, ``grid``, ``stack``, ``memory``,
    ``cluster``: offsets of ``blockDim.x``, ``gridDim.x``, of the stack pointer, of the address at
    which parameters lie in memory, of a 1 where the launch has clusters (-1: the architecture has
    no such word, what lies there may be a parameter); ``banks``: initialised banks; ``unset``:
    what in them only the program fills.
    """

    parameters: tuple[tuple[int, int], ...]
    block: int = 0
    grid: int = 12
    stack: int = 0x28
    memory: int = -1
    cluster: int = -1
    banks: Mapping[int, bytes] | None = None
    unset: tuple[Unset, ...] = ()

    def symbol(self, bank: int, offset: int) -> str:
        """The variable that stands for a word which only the program fills; else ``""``."""
        for symbol in self.unset:
            inside = offset - symbol.offset
            if symbol.bank == bank and 0 <= inside < symbol.size:
                inside += symbol.start
                return f"{CONSTANT}{demangle(symbol.name)}" + (f"+{inside}" if inside else "")
        return ""

    def name(self, offset: int) -> str:
        """What the word at ``offset`` of bank 0 is called."""
        for start, what in ((self.block, "blockDim"), (self.grid, "gridDim")):
            if start <= offset < start + 12 and offset % 4 == 0:
                return f"{what}.{'xyz'[(offset - start) // 4]}"
        if offset in (self.memory, self.cluster):
            return PARAMETERS if offset == self.memory else CLUSTERED
        for i, (start, size) in enumerate(self.parameters):
            if start <= offset < start + size:
                inside = offset - start
                if inside == 0:
                    return f"arg:{i}"
                return f"high word of arg:{i}" if size == 8 else f"arg:{i}+{inside}"
        return f"c[0x0][{offset:#x}]"


class SassCode:
    """A kernel as the evaluation sees it."""

    def __init__(
        self,
        placed: Sequence[Placed],
        jumps: Mapping[int, Jump],
        symbols: Symbols,
        constants: Constants,
    ) -> None:
        self.code = placed
        self.symbols = symbols
        self.constants = constants
        self.jumps = jumps
        self._stack = stack_words([p.instruction for p in placed])
        self._defs = [
            self._stack[i] if p.instruction.base == "STL" and i in self._stack
            else defined(p.instruction)
            for i, p in enumerate(placed)
        ]  # fmt: skip

    @cached_property
    def flow(self) -> Flow:
        """The control-flow graph."""
        return analyse(len(self.code), self.jumps)

    def defines(self, index: int) -> Sequence[str]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        return self._defs[index]

    def uses(self, index: int) -> Sequence[str]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        instruction = self.code[index].instruction
        if instruction.base not in SEMANTICS and index not in self._stack:
            return ()
        result = (*used(instruction), *self._stack.get(index, ()))
        if instruction.guard:
            return (*result, *self._defs[index])
        return result

    def roots(self, index: int) -> Sequence[str]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        instruction = self.code[index].instruction
        found = [instruction.guard[0]] if instruction.guard else []
        for operand in instruction.operands:
            if operand.kind == "memory" or _indexed(instruction, operand):
                found += [r for part in operand.parts for r in operand_registers(part, 1)]
        more = own_operands(instruction)
        found += [r for o in more for r in operand_registers(o, 1)]
        if instruction.base in TWICE_GUARDED:
            found += [o.name for o in instruction.operands if o.kind == "predicate"]
        return found

    def guards(self, index: int) -> Sequence[tuple[str, bool]]:
        """``@!P0 BRA P2`` and ``@P0 EXIT P1`` have two; see :class:`.evaluate.Code`."""
        instruction = self.code[index].instruction
        if instruction.base == "R2UR" and "BROADCAST" in instruction.modifiers:
            return []  # of one lane, for all
        found = [instruction.guard] if instruction.guard else []
        if instruction.base in TWICE_GUARDED:
            predicates = [o for o in instruction.operands if o.kind == "predicate"]
            found += [(o.name, o.sign == "!") for o in predicates]
        return [(name, negated) for name, negated in found if name[-1] != "T" or negated]

    def addresses(self, index: int, read: Read) -> tuple[Value, ...]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        instruction = self.code[index].instruction
        if own := own_operands(instruction):
            return tuple(
                self._address(o, read) if o.kind == "memory" else self.operand(o, read) for o in own
            )
        found = [o for o in instruction.operands if o.kind == "memory" or _indexed(instruction, o)]
        if not found:
            return ()
        values = tuple(self._address(o, read) for o in found)
        return values[::-1] if instruction.base == "LDGSTS" else values  # the global one first

    def _address(self, operand: Operand, read: Read) -> Value:
        s = self.symbols
        parts = []
        for part in operand.parts:
            value = self.operand(part, read)
            scale = part.suffix.partition(".X")[2]
            parts.append(s.scale(value, int(scale)) if scale.isdecimal() else value)
        return s.add(*parts, s.number(operand.value if operand.kind == "constant" else 0))

    def operand(self, operand: Operand, read: Read) -> Value:
        """The value of an operand: register, number, constant or special register."""
        s = self.symbols
        if operand.kind == "register":
            value = s.zero if operand.name in ("RZ", "URZ") else read(operand.name)
            if operand.suffix.startswith((".H", ".B")):
                return s.unknown(f"part of {operand.name}", value)
        elif operand.kind == "number":
            value = s.number(signed(operand.value))
        elif operand.kind == "constant":
            value = self.constant(operand)
        elif operand.kind == "predicate":
            value = s.one if operand.name[-1] == "T" else read(operand.name)
            return s.negated(value) if operand.sign == "!" else value
        elif operand.kind == "special":
            return self._special(operand.name)
        else:
            return s.unknown(f"operand {operand.text}")
        if operand.sign == "-":
            return s.scale(value, -1)
        if operand.sign == "~":
            return s.add(s.scale(value, -1), s.number(-1))
        return value

    def _special(self, name: str) -> Value:
        s = self.symbols
        if name in _SPECIAL:
            return s.variable(_SPECIAL[name])
        if name in ("SRZ", "SR_CgaCtaId", "SR_SWINHI"):
            return s.zero  # without clusters; the shared window starts at 0
        if name == "SR_LANEID":
            return s.variable("laneid")
        return s.unknown(name)

    def constant(self, operand: Operand) -> Value:
        """A word of a constant bank; the value itself where the binary holds it."""
        s = self.symbols
        if operand.parts or operand.bank < 0:
            return s.unknown(f"indexed constant {operand.text}")
        if operand.bank == 0 and operand.value == self.constants.stack:
            return s.zero  # the stack's base: local addresses count from it
        if operand.bank == 0:
            name = self.constants.name(operand.value)
            return s.unknown(name) if name.startswith(("high", "c[")) else s.variable(name)
        symbol = self.constants.symbol(operand.bank, operand.value)
        if symbol:
            return s.variable(symbol)
        held = (self.constants.banks or {}).get(operand.bank, b"")
        word = held[operand.value : operand.value + 4]
        if len(word) == 4 and operand.bank != 4:
            return s.number(struct.unpack("<i", word)[0])
        if operand.bank == 4:
            return s.variable(f"pointer:{operand.value:#x}")
        return s.unknown(f"constant c[{operand.bank:#x}][{operand.value:#x}]")

    def execute(self, index: int, read: Read) -> Mapping[str, Value]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        instruction = self.code[index].instruction
        semantics = SEMANTICS.get(instruction.base)
        if index in self._stack:
            return self._moved(instruction, self._stack[index], read)
        if semantics is None:
            if any(o.kind == "memory" for o in instruction.operands):
                s = self.symbols
                return {r: s.unknown(f"load {index}.{i}") for i, r in enumerate(self._defs[index])}
            return {}
        try:
            return semantics(Step(self, instruction, read))
        except (
            IndexError,
            ValueError,
            ArithmeticError,
            struct.error,
        ):  # an operand list that this form does not know
            return {}

    def _moved(
        self, instruction: Instruction, words: Sequence[str], read: Read
    ) -> Mapping[str, Value]:
        """A register spilled to the stack's words, or filled from them."""
        if instruction.base == "LDL":
            return dict(zip(defined(instruction), map(read, words), strict=False))
        source = instruction.operands[-1]
        registers = operand_registers(source, len(words))
        if not registers:
            return dict.fromkeys(words, self.operand(source, read))
        return dict(zip(words, map(read, registers), strict=False))


def own_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """What must be known of barriers, bulk copies, matrix instructions of one thread, and sleep."""
    return (
        *barrier_operands(instruction), *copy_operands(instruction),
        *descriptor_operands(instruction), *sleep_operands(instruction),
    )  # fmt: skip


def _indexed(instruction: Instruction, operand: Operand) -> bool:
    """Whether it is read from a constant bank at a place that may differ from lane to lane."""
    return operand.kind == "constant" and instruction.base == "LDC" and bool(operand.parts)
