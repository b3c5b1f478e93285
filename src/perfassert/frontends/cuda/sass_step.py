"""One SASS instruction being evaluated: its operands' values on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from perfassert.frontends.cuda.evaluate import Read
from perfassert.frontends.cuda.registers import results
from perfassert.frontends.cuda.sass import Instruction, Operand
from perfassert.kernel.symbols import Symbols, Value


class Operands(Protocol):
    """What the kernel around an instruction says of its operands."""

    symbols: Symbols

    def operand(self, operand: Operand, read: Read) -> Value:
        """The value of an operand: register, number, constant or special register."""
        ...

    def constant(self, operand: Operand) -> Value:
        """A word of a constant bank."""
        ...


class Step:
    """One instruction being executed: its operands' values on demand."""

    def __init__(self, code: Operands, instruction: Instruction, read: Read) -> None:
        self.code = code
        self.s = code.symbols
        self.modifiers = instruction.modifiers
        self.read = read
        self.instruction = instruction
        count = results(instruction)
        written, self.operands = instruction.operands[:count], instruction.operands[count:]
        kinds = [o.kind for o in written]
        place = kinds.index("register") if "register" in kinds else count
        self.predicates = [o.name for o in written[:place]]
        self.target = written[place].name if place < count else ""

    def __getitem__(self, place: int) -> Value:
        return self.code.operand(self.operands[place], self.read)

    def high(self, place: int) -> Value:
        """The second word of a 64-bit operand."""
        operand = self.operands[place]
        if operand.kind == "register":
            if operand.name in ("RZ", "URZ"):
                return self.s.zero
            return self.read(self.following(operand.name))
        return self.s.unknown(f"high word of {operand.text}")

    def following(self, register: str) -> str:
        """The register that holds the second word."""
        prefix = register.rstrip("0123456789")
        return f"{prefix}{int(register[len(prefix) :]) + 1}"

    def result(self, value: Value | None) -> Mapping[str, Value]:
        """What a one-word instruction writes."""
        return {} if value is None else {self.target: value}


def signed(value: int) -> int:
    """A word as an integer."""
    return value - 2**32 if 2**31 <= value < 2**32 else value
