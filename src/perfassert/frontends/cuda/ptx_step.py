"""One PTX instruction being translated: operands as registers of words, results as targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfassert.frontends.cuda.ptx_text import PtxInstruction, bits_of, number_bits
from perfassert.frontends.cuda.semantics_step import AND, XOR, Registers, Untranslated
from perfassert.kernel.machine import Kind, Micro, Relation

Words = tuple[int, ...]
_AXES = {"%tid": "threadIdx", "%ctaid": "blockIdx", "%ntid": "blockDim", "%nctaid": "gridDim"}
_LANES = {
    "%laneid": "laneid", "%lanemask_eq": "lanemask_eq", "%lanemask_lt": "lanemask_lt",
    "%lanemask_le": "lanemask_le", "%lanemask_gt": "lanemask_gt", "%lanemask_ge": "lanemask_ge",
}  # fmt: skip
_WARP_BITS = 5
_WARP = 32
PREDICATE, SIGN = "pred", 1 << 31


@dataclass(frozen=True, slots=True)
class Symbol:
    """Where a variable lies: an offset in its space; -1: nobody knows."""

    space: str
    offset: int


@dataclass(frozen=True)
class Names:
    """What the names in a kernel mean; ``registers`` as in
    :class:`~perfassert.frontends.cuda.ptx_text.Routine`; ``places``: label → instruction."""

    registers: Mapping[str, str]
    symbols: Mapping[str, Symbol]
    places: Mapping[str, int]
    tables: Mapping[str, tuple[str, ...]]

    def type_of(self, register: str) -> str:
        """The type that a register is declared with."""
        found = self.registers.get(register)
        return found or self.registers.get(register.rstrip("0123456789"), "")


def words_of(kind: str) -> int:
    """How many words hold a value of a type."""
    return max(bits_of(kind) // 32, 1)


class PtxStep:
    """What a translation sees; it appends to ``operations``."""

    def __init__(self, instruction: PtxInstruction, registers: Registers, names: Names) -> None:
        self.instruction = instruction
        self.parts = instruction.parts
        self.operands = instruction.operands
        self.registers = registers
        self.names = names
        self.operations: list[Micro] = []
        self.type = next((p for p in reversed(self.parts) if bits_of(p)), "")
        self.bits = bits_of(self.type)
        self.signed = int(self.type.startswith("s"))

    def refuse(self) -> Untranslated:
        """Because there is no translation."""
        return Untranslated(self.instruction.opcode)

    def has(self, *parts: str) -> bool:
        """Whether the opcode has one of them."""
        return any(p in self.parts for p in parts)

    # Operands

    def words(self, place: int, kind: str = "") -> Words:
        """The operand at ``place`` in a type (the instruction's); narrow ones fill a word."""
        return self.value(self.operands[place], kind or self.type)

    def word(self, place: int, kind: str = "") -> int:
        """Its only word."""
        return self.words(place, kind or self.type)[0]

    def value(self, text: str, kind: str) -> Words:
        """The words of an operand."""
        found = self.raw(text, kind)
        bits = bits_of(kind)
        if bits in (8, 16) and self.is_register(text):
            width = self.literal(bits)
            found = (self.new(Kind.EXTEND, (found[0], width), (int(kind[0] == "s"), 0)),)
        elif bits in (8, 16) and kind[0] == "s":
            number = (number_bits(text, kind) or 0) << (32 - bits)
            found = (self.literal((number - (1 << 32) if number >> 31 else number) >> (32 - bits)),)
        return found

    def raw(self, text: str, kind: str) -> Words:
        """The words of an operand as the register has them."""
        count = words_of(kind)
        if text.startswith("!"):
            return (self.inverted(self.raw(text[1:], PREDICATE)[0]),)
        if text.startswith("%") or self.names.type_of(text):
            return (*self.register(text), *(0,) * count)[:count]
        if text == "WARP_SZ":
            return (self.literal(_WARP),)
        name, _, offset = text.partition("+")
        symbol = self.names.symbols.get(name.strip())
        if symbol is not None:
            if symbol.offset < 0:
                raise self.refuse()
            address = symbol.offset + int(offset.strip() or "0", 0)
            return (self.literal(address), *(0,) * (count - 1))
        bits = number_bits(text, kind)
        if bits is None:
            raise self.refuse()
        return tuple(self.literal(bits >> 32 * k) for k in range(count))

    def is_register(self, text: str) -> bool:
        """Whether the name is that of a register, special ones included."""
        return text.startswith("%") or bool(self.names.type_of(text))

    def register(self, name: str) -> Words:
        """The words that a register holds."""
        kind = self.names.type_of(name)
        if kind:
            return tuple(self.registers.named(_named(name, k)) for k in range(words_of(kind)))
        base, _, axis = name.partition(".")
        if base in _AXES and axis in ("x", "y", "z"):
            return (self.registers.special(f"{_AXES[base]}.{axis}"),)
        if name in _LANES:
            return (self.registers.special(_LANES[name]),)
        if name == "%warpid":
            return (self.warp(),)
        raise self.refuse()

    def warp(self) -> int:
        """The number of the warp in its block."""
        special = self.registers.special
        row = self.new(
            Kind.MULTIPLY,
            (special("threadIdx.z"), special("blockDim.y"), special("threadIdx.y"), 0),
        )
        thread = self.new(Kind.MULTIPLY, (row, special("blockDim.x"), special("threadIdx.x"), 0))
        return self.new(Kind.SHIFT, (0, self.literal(_WARP_BITS), thread), (1, 0, 32, 0, 1))

    def inverted(self, predicate: int) -> int:
        """Its opposite."""
        return self.new(Kind.LOGIC, (predicate, self.literal(1), 0), (XOR,))

    def predicate(self, text: str) -> int:
        """A predicate operand."""
        return self.value(text, PREDICATE)[0]

    def literal(self, value: int) -> int:
        """A literal's register."""
        return self.registers.literal(value)

    # Results

    @property
    def targets(self) -> list[str]:
        """The names of the results: ``d`` or ``d|p``."""
        return [t.strip() for t in self.operands[0].split("|")]

    def target_words(self, name: str) -> Words:
        """The words of a register that is written; -1 where the result is discarded."""
        if name == "_":
            return (-1,)
        kind = self.names.type_of(name)
        if not kind:
            raise self.refuse()
        return tuple(self.registers.named(_named(name, k)) for k in range(words_of(kind)))

    def write(self, words: Words, kind: str = "", name: str = "") -> None:
        """To the target; a narrow value fills a register that is wider, by its sign."""
        kind = kind or self.type
        target = self.target_words(name or self.targets[0])
        above = 0
        if len(target) > len(words) and kind[0] == "s":
            above = self.shifted((words[-1],), 31, True)[0]
        for place, register in enumerate(target):
            value = words[place] if place < len(words) else above
            self.emit(Kind.MOVE, (register,), (value,))

    # Operations

    def emit(self, kind: Kind, targets: Words, sources: Words, detail: Words = ()) -> None:
        """Append an operation."""
        self.operations.append(Micro(kind, targets, sources, detail))

    def new(self, kind: Kind, sources: Words, detail: Words = ()) -> int:
        """Append an operation whose result is a temporary."""
        register = self.registers.temporary()
        self.emit(kind, (register,), sources, detail)
        return register

    def several(self, count: int, kind: Kind, sources: Words, detail: Words = ()) -> Words:
        """As :meth:`new`, of several words."""
        found = tuple(self.registers.temporary() for _ in range(count))
        self.emit(kind, found, sources, detail)
        return found

    def logic(self, table: int, a: Words, b: Words, c: Words = ()) -> Words:
        """A bitwise function, word by word."""
        third = c or (0,) * len(a)
        return tuple(
            self.new(Kind.LOGIC, (x, y, z), (table,)) for x, y, z in zip(a, b, third, strict=True)
        )

    def masked(self, word: int, mask: int) -> int:
        """Some bits of a word."""
        return self.new(Kind.LOGIC, (word, self.literal(mask), 0), (AND,))

    def shifted(self, words: Words, by: int, signed: bool) -> Words:
        """To the right, by a number."""
        return self.right(words, self.literal(by), int(signed))

    def right(self, words: Words, amount: int, signed: int) -> Words:
        """To the right, by a register; everything goes from its width on."""
        if len(words) == 1:
            return (self.new(Kind.SHIFT, (0, amount, words[0]), (1, 0, 32, signed, 1)),)
        low, high = words
        return tuple(
            self.new(Kind.SHIFT, (low, amount, high), (1, 0, 64, signed, k)) for k in (0, 1)
        )

    def left(self, words: Words, amount: int) -> Words:
        """To the left."""
        if len(words) == 1:
            return (self.new(Kind.SHIFT, (words[0], amount, 0), (0, 0, 32, 0, 0)),)
        low, high = words
        return tuple(self.new(Kind.SHIFT, (low, amount, high), (0, 0, 64, 0, k)) for k in (0, 1))

    def total(self, a: Words, b: Words, minus: int = 0, carry: int | None = None) -> Words:
        """a + b or a − b and the carry out (of a subtraction: 1 where nothing is borrowed);
        ``carry``: into the lowest word."""
        ones = self.literal(-1)
        if minus:
            b = self.logic(XOR, b, (ones,) * len(b))
            carry = self.literal(1) if carry is None else carry
        moved = carry or 0
        found = []
        for x, y in zip(a, b, strict=True):
            word, moved = self.several(2, Kind.ADD, (x, y, 0, moved), (0,))
            found.append(word)
        return (*found, moved)

    def added(self, a: Words, b: Words, minus: int = 0) -> Words:
        """The sum or the difference alone."""
        if len(a) == 1:
            return (self.new(Kind.ADD, (a[0], b[0], 0), (minus << 1,)),)
        return self.total(a, b, minus)[:-1]

    def chosen(self, a: Words, b: Words, predicate: int) -> Words:
        """a where the predicate holds, else b."""
        return tuple(self.new(Kind.SELECT, (x, y, predicate)) for x, y in zip(a, b, strict=True))

    def compared(self, relation: Relation, a: Words, b: Words, signed: int) -> int:
        """A predicate: integers."""
        if len(a) == 1:
            return self.new(Kind.COMPARE, (a[0], b[0]), (relation, signed))
        return self.new(Kind.COMPARE_WIDE, (*a, *b), (relation, signed))

    def negative(self, words: Words) -> int:
        """A predicate: the sign is set."""
        return self.new(Kind.COMPARE, (words[-1], 0), (Relation.LT, 1))


def _named(register: str, word: int) -> str:
    """A name for each word; no name of machine code begins so."""
    return f"ptx {register}:{word}"
