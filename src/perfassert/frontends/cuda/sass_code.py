"""What SASS instructions compute, as far as addresses, guards and trip counts need it.

64-bit values live in register pairs; only the low word is followed, which is enough for an address
relative to the pointer that it starts from. Calls are inlined: every call site gets a copy of the
function, so that everything behind this file sees one flow of control.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from perfassert.frontends.cuda.barriers import barrier_operands
from perfassert.frontends.cuda.bulk_copies import PARAMETERS, copy_operands
from perfassert.frontends.cuda.control_flow import EXIT, Flow, Jump, analyse
from perfassert.frontends.cuda.evaluate import Read
from perfassert.frontends.cuda.matrix import descriptor_operands
from perfassert.frontends.cuda.registers import defined, operand_registers, results, used
from perfassert.frontends.cuda.sass import Instruction, Listing, Operand
from perfassert.frontends.cuda.stack import stack_words
from perfassert.frontends.toolchain.binary import Unset
from perfassert.frontends.toolchain.names import demangle
from perfassert.kernel.program import CLUSTERED, CONSTANT
from perfassert.kernel.symbols import Symbols, Value

_MAX_PLACED = 100_000
_MAX_DEPTH = 8
_TWICE_GUARDED = ("BRA", "EXIT", "KILL")
"""Instructions with a predicate among their operands that must hold, too."""
_SPECIAL = {
    f"SR_{sass}.{axis.upper()}": f"{name}.{axis}"
    for sass, name in (("TID", "threadIdx"), ("CTAID", "blockIdx"), ("NTID", "blockDim"),
                       ("NCTAID", "gridDim"))
    for axis in "xyz"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constants:
    """Constant bank 0 of one kernel: where the launch and the parameters lie.

    ``parameters``: (offset, size) by position; ``block``, ``grid``, ``stack``: offsets of
    ``blockDim.x``, ``gridDim.x``, of the stack pointer, of the address at which parameters lie in
    memory, of a 1 where the launch has clusters; ``banks``: initialised banks;
    ``unset``: what in them only the program fills.
    """

    parameters: tuple[tuple[int, int], ...]
    block: int = 0
    grid: int = 12
    stack: int = 0x28
    memory: int = 0x198
    cluster: int = 0x140
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


@dataclass(frozen=True, slots=True)
class Placed:
    """An instruction in the inlined flow; ``calls``: the call instructions around it."""

    instruction: Instruction
    calls: tuple[int, ...]


def place(listing: Listing) -> tuple[tuple[Placed, ...], dict[int, Jump], tuple[str, ...]]:
    """Instructions with calls inlined, their jumps, and what had to be left out."""
    return _Placer(listing).place()


class _Placer:
    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        targets = [
            i.operands[-1].name for i in listing.instructions if i.base == "CALL" and i.operands
        ]
        names = dict.fromkeys((*listing.functions, *targets))
        entries = {listing.labels[n] for n in names if n in listing.labels}
        named = {listing.labels[n] for n in listing.functions if n in listing.labels}
        self.starts = sorted({0} | named | {e for e in entries if self.returns(e, entries)})
        self.placed: list[Placed] = []
        self.jumps: dict[int, Jump] = {}
        self.notes: dict[str, None] = {}

    def returns(self, entry: int, entries: Collection[int]) -> bool:
        """Whether what is called there comes back; ptxas leaves loops by calls that do not."""
        end = min((e for e in entries if e > entry), default=len(self.listing.instructions))
        return any(i.base == "RET" for i in self.listing.instructions[entry:end])

    def place(self) -> tuple[tuple[Placed, ...], dict[int, Jump], tuple[str, ...]]:
        self.function(0, (), ())
        return tuple(self.placed), self.jumps, tuple(self.notes)

    def function(self, start: int, calls: tuple[int, ...], active: tuple[int, ...]) -> int:
        """Append a copy of the function that starts at ``start``; where the copy begins."""
        following = [s for s in self.starts if s > start]
        stop = following[0] if following else len(self.listing.instructions)
        shift = len(self.placed) - start
        body = self.listing.instructions[start:stop]
        self.placed.extend(Placed(i, calls) for i in body)
        returns = []
        for instruction in body:
            here = instruction.index + shift
            jump = self.jump(instruction, start, stop, shift)
            if instruction.base == "RET" and calls:
                returns.append(here)
            elif instruction.base == "CALL":
                target = self.target(instruction)
                if target is not None and start < target < stop:
                    self.jumps[here] = Jump((target + shift,), instruction.guard is not None)
                else:
                    self.call(instruction, here, calls, (*active, start))
            elif jump is not None:
                self.jumps[here] = jump
        if calls:
            for here in returns:
                conditional = self.placed[here].instruction.guard is not None
                self.jumps[here] = Jump((calls[-1] + 1,), conditional)
        return start + shift

    def call(
        self, instruction: Instruction, here: int, calls: tuple[int, ...], active: tuple[int, ...]
    ) -> None:
        target = self.target(instruction)
        too_many = len(active) >= _MAX_DEPTH or len(self.placed) > _MAX_PLACED
        if target is None or target in active or too_many:
            self.notes[f"the call {instruction.text!r} is not followed"] = None
            return
        entry = self.function(target, (*calls, here), active)
        self.jumps[here] = Jump((entry,), instruction.guard is not None)

    def target(self, instruction: Instruction) -> int | None:
        for operand in reversed(instruction.operands):
            if operand.kind == "target":
                return self.listing.labels.get(operand.name)
            if operand.kind == "number":
                return self._at(operand.value)
        return None

    def _at(self, address: int) -> int | None:
        for instruction in self.listing.instructions:
            if instruction.address == address:
                return instruction.index
        return None

    def jump(self, instruction: Instruction, start: int, stop: int, shift: int) -> Jump | None:
        base = instruction.base
        conditional = instruction.guard is not None
        own = any(o.kind == "predicate" and o.name[-1] != "T" for o in instruction.operands)
        if base in _TWICE_GUARDED:
            conditional |= own
        if base in ("EXIT", "KILL") or (base == "RET" and not conditional):
            return Jump((EXIT,), conditional)
        if base == "BRA":
            if "DIV" in instruction.modifiers:
                return None  # taken only by warps that have lost their convergence
            if "ANY" in instruction.modifiers and "U" in instruction.modifiers:
                return None  # repeats a uniform instruction for each lane, of which one is active
            target = self.target(instruction)
            if target is None or not start <= target < stop:
                self.notes[f"the jump {instruction.text!r} leaves the function"] = None
                return Jump((EXIT,), True)
            return Jump((target + shift,), conditional)
        if base in ("BRX", "JMX", "BRXU", "JMXU", "JMP"):
            self.notes[f"the targets of {instruction.text!r} are taken to be all labels"] = None
            targets = {i for i in self.listing.labels.values() if start < i < stop}
            return Jump(tuple(sorted(t + shift for t in targets)) or (EXIT,), conditional)
        return None


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
        if instruction.base not in _SEMANTICS and index not in self._stack:
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
        if instruction.base in _TWICE_GUARDED:
            found += [o.name for o in instruction.operands if o.kind == "predicate"]
        return found

    def guards(self, index: int) -> Sequence[tuple[str, bool]]:
        """``@!P0 BRA P2`` and ``@P0 EXIT P1`` have two; see :class:`.evaluate.Code`."""
        instruction = self.code[index].instruction
        if instruction.base == "R2UR" and "BROADCAST" in instruction.modifiers:
            return []  # of one lane, for all
        found = [instruction.guard] if instruction.guard else []
        if instruction.base in _TWICE_GUARDED:
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
            value = s.number(_signed(operand.value))
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
        semantics = _SEMANTICS.get(instruction.base)
        if index in self._stack:
            return self._moved(instruction, self._stack[index], read)
        if semantics is None:
            if any(o.kind == "memory" for o in instruction.operands):
                s = self.symbols
                return {r: s.unknown(f"load {index}.{i}") for i, r in enumerate(self._defs[index])}
            return {}
        try:
            return semantics(_Step(self, instruction, read))
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
    """What must be known of barriers, bulk copies and matrix instructions of one thread."""
    return (
        *barrier_operands(instruction), *copy_operands(instruction),
        *descriptor_operands(instruction),
    )  # fmt: skip


def _signed(value: int) -> int:
    return value - 2**32 if 2**31 <= value < 2**32 else value


def _indexed(instruction: Instruction, operand: Operand) -> bool:
    """Whether it is read from a constant bank at a place that may differ from lane to lane."""
    return operand.kind == "constant" and instruction.base == "LDC" and bool(operand.parts)


class _Step:
    """One instruction being executed: its operands' values on demand."""

    def __init__(self, code: SassCode, instruction: Instruction, read: Read) -> None:
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


_Semantics = Callable[[_Step], Mapping[str, Value]]


def _mov(i: _Step) -> Mapping[str, Value]:
    return i.result(i[0])


def _load_constant(i: _Step) -> Mapping[str, Value]:
    """``LDC``, ``ULDC``: one to four words of a constant bank."""
    operand = i.operands[0]
    words = 2 if "64" in i.modifiers else 4 if "128" in i.modifiers else 1
    prefix = i.target.rstrip("0123456789")
    if i.target[-1] == "Z":
        return {}
    first = int(i.target[len(prefix) :])
    values = {}
    for w in range(words):
        shifted = Operand(
            operand.kind, operand.name, operand.sign, operand.suffix, operand.bank,
            operand.value + 4 * w, operand.parts, operand.text,
        )  # fmt: skip
        values[f"{prefix}{first + w}"] = i.code.constant(shifted)
    return values


def _imad(i: _Step) -> Mapping[str, Value]:
    s = i.s
    if "X" in i.modifiers:
        return {}
    if "MOV" in i.modifiers:
        return i.result(i[2])
    product = s.mul(i[0], i[1])
    low = s.add(product, i[2])
    if "HI" not in i.modifiers and "WIDE" not in i.modifiers:
        return i.result(low)
    divided = _by_inverse(s, i[0], i[1]) if "HI" in i.modifiers else None
    if divided is not None:
        return i.result(divided)
    if "U32" in i.modifiers:
        product = s.mul(s.unsigned(i[0]), s.unsigned(i[1]))
    high = s.add(i.high(2), s.div(s.add(product, i[2]), s.number(2**32)))
    if "HI" in i.modifiers:
        return i.result(high)
    if i.target[-1] == "Z":
        return {}
    second = i.following(i.target)
    counted = "U32" in i.modifiers and i.high(2) is s.zero and s.nonnegative(i[2])
    return {i.target: low, second: high} if counted or i[2] is s.zero else {i.target: low}


# An integer division is x · ⌊2³² / d⌋ ≫ 32, corrected twice; the inverse is 1 / d as a float,
# rounded down. Only what a division does with it is given a meaning.


def _to_float(i: _Step) -> Mapping[str, Value]:
    return i.result(i.s.call("float", i[0]) if "RP" in i.modifiers else None)


def _reciprocal(i: _Step) -> Mapping[str, Value]:
    atom = i.s.lone_atom(i[0])
    if "RCP" not in i.modifiers or atom is None or atom.function != "float":
        return {}
    return i.result(i.s.call("reciprocal", *atom.arguments))


_ROUND_DOWN = 0xFFFFFFE
"""Added to the bits of the reciprocal, for a factor of 2³² a little too small."""


def _from_float(i: _Step) -> Mapping[str, Value]:
    atom = i.s.lone_atom(i.s.add(i[0], i.s.number(-_ROUND_DOWN)))
    if atom is None or atom.function != "reciprocal":
        return {}
    return i.result(i.s.call("inverse", *atom.arguments))


def _by_inverse(s: Symbols, left: Value, right: Value) -> Value | None:
    """The high word of a product with the inverse of ``d``: the quotient, or a better inverse."""
    for inverse, other in ((left, right), (right, left)):
        atom = s.lone_atom(inverse)
        if atom is None or atom.function != "inverse":
            continue
        divisor = atom.arguments[0]
        if other is s.scale(s.mul(inverse, divisor), -1):
            return inverse
        return s.div(other, divisor)
    return None


def _iadd3(i: _Step) -> Mapping[str, Value]:
    if "X" in i.modifiers:
        return {}
    return i.result(i.s.add(i[0], i[1], i[2]))


def _iadd(i: _Step) -> Mapping[str, Value]:
    return {} if "X" in i.modifiers else i.result(i.s.add(i[0], i[1]))


def _lea(i: _Step) -> Mapping[str, Value]:
    s = i.s
    if "X" in i.modifiers:
        return {}
    if "HI" in i.modifiers:
        if "SX32" in i.modifiers:
            amount = i.operands[2].value
            return i.result(s.add(s.shift_right(i[0], s.number(32 - amount)), i[1]))
        amount = i.operands[3].value
        if i[2] is not s.zero:
            return {}
        return i.result(s.add(s.logical_right(i[0], 32 - amount), i[1]))
    amount = i.operands[2].value if len(i.operands) > 2 else 0
    return i.result(s.add(s.scale(i[0], 1 << (amount & 31)), i[1]))


def _lop3(i: _Step) -> Mapping[str, Value]:
    lut = i.operands[3].value
    value = _truth(i.s, lut, [i[0], i[1], i[2]])
    if value is None:
        return {}
    result = {} if i.target in ("RZ", "URZ") else {i.target: value}
    some = i.s.compare("!=", value, i.s.zero)
    if len(i.operands) > 4:  # a predicate behind the table is joined
        join = i.s.both if "PAND" in i.modifiers else i.s.either
        some = join(some, i[4])
    return {**result, **{p: some for p in i.predicates if p[-1] != "T"}}


_TWO = {
    0x0: lambda s, a, b: s.zero,
    0x8: lambda s, a, b: s.bit_and(a, b),
    0xE: lambda s, a, b: s.bit_or(a, b),
    0x6: lambda s, a, b: s.bit_xor(a, b),
    0xC: lambda s, a, b: a,
    0xA: lambda s, a, b: b,
    0x4: lambda s, a, b: s.bit_and(a, s.bit_xor(b, s.number(-1))),
    0x2: lambda s, a, b: s.bit_and(s.bit_xor(a, s.number(-1)), b),
    0x3: lambda s, a, b: s.bit_xor(a, s.number(-1)),
    0x5: lambda s, a, b: s.bit_xor(b, s.number(-1)),
    0xF: lambda s, a, b: s.number(-1),
}
"""Functions of two operands by truth table; bit 2a + b."""
_THREE: dict[int, Callable[[Symbols, Value, Value, Value], Value]] = {
    0x80: lambda s, a, b, c: s.bit_and(s.bit_and(a, b), c),
    0xFE: lambda s, a, b, c: s.bit_or(s.bit_or(a, b), c),
    0x96: lambda s, a, b, c: s.bit_xor(s.bit_xor(a, b), c),
    0xF8: lambda s, a, b, c: s.bit_or(a, s.bit_and(b, c)),
    0xEA: lambda s, a, b, c: s.bit_or(s.bit_and(a, b), c),
    0xEC: lambda s, a, b, c: s.bit_or(s.bit_and(a, c), b),
    0xA8: lambda s, a, b, c: s.bit_and(s.bit_or(a, b), c),
    0xE0: lambda s, a, b, c: s.bit_and(a, s.bit_or(b, c)),
    0xC8: lambda s, a, b, c: s.bit_and(s.bit_or(a, c), b),
    0x78: lambda s, a, b, c: s.bit_xor(a, s.bit_and(b, c)),
    0x6C: lambda s, a, b, c: s.bit_xor(b, s.bit_and(a, c)),
    0x6A: lambda s, a, b, c: s.bit_xor(c, s.bit_and(a, b)),
    0x48: lambda s, a, b, c: s.bit_and(b, s.bit_xor(a, c)),
    0x60: lambda s, a, b, c: s.bit_and(a, s.bit_xor(b, c)),
    0x28: lambda s, a, b, c: s.bit_and(c, s.bit_xor(a, b)),
    0x1E: lambda s, a, b, c: s.bit_xor(a, s.bit_or(b, c)),
    0x36: lambda s, a, b, c: s.bit_xor(b, s.bit_or(a, c)),
    0x56: lambda s, a, b, c: s.bit_xor(c, s.bit_or(a, b)),
    0xF6: lambda s, a, b, c: s.bit_or(a, s.bit_xor(b, c)),
    0xCA: lambda s, a, b, c: _chosen(s, a, b, c),
    0xAC: lambda s, a, b, c: _chosen(s, a, c, b),
    0xE2: lambda s, a, b, c: _chosen(s, b, a, c),
    0xB8: lambda s, a, b, c: _chosen(s, b, c, a),
    0xE4: lambda s, a, b, c: _chosen(s, c, a, b),
    0xD8: lambda s, a, b, c: _chosen(s, c, b, a),
}


def _chosen(s: Symbols, mask: Value, ones: Value, zeros: Value) -> Value:
    """Bits of ``ones`` where the mask has them, else of ``zeros``."""
    kept = s.bit_and(zeros, s.bit_xor(mask, s.number(-1)))
    return s.bit_or(s.bit_and(ones, mask), kept)


def _truth(s: Symbols, lut: int, values: Sequence[Value]) -> Value | None:
    """A bitwise function of three operands by its table (bit 4a + 2b + c)."""
    a, b, c = values
    for place, value in enumerate(values):
        number = value.constant
        if number not in (0, -1):
            continue
        bit = 1 if number else 0
        weights = (4, 2, 1)
        kept = [w for p, w in enumerate(weights) if p != place]
        table = 0
        for x in (0, 1):
            for y in (0, 1):
                row = x * kept[0] + y * kept[1] + bit * weights[place]
                table |= (lut >> row & 1) << (2 * x + y)
        left, right = [v for p, v in enumerate(values) if p != place]
        function = _TWO.get(table)
        return None if function is None else function(s, left, right)
    three = _THREE.get(lut)
    return None if three is None else three(s, a, b, c)


def _shf(i: _Step) -> Mapping[str, Value]:
    s, m = i.s, i.modifiers
    if m[0] == "L":
        return {} if ("HI" in m and i[2] is not s.zero) or "U64" in m else i.result(
            s.shift_left(i[0], i[1]))  # fmt: skip
    if "HI" in m and i[0] is s.zero:
        amount = i[1].constant
        if "S32" in m:
            if amount == 31:
                return i.result(s.scale(s.negative(i[2]), -1))
            return i.result(s.shift_right(i[2], i[1]))
        if amount is not None:
            return i.result(s.logical_right(i[2], amount))
        return i.result(s.shift_right(i[2], i[1]))
    if "U64" in m or "S64" in m:
        return {} if "HI" in m else i.result(s.shift_right(i[0], i[1]))
    return {}


def _sel(i: _Step) -> Mapping[str, Value]:
    return i.result(i.s.select(i[2], i[0], i[1]))


def _minmax(i: _Step) -> Mapping[str, Value]:
    least = i[2].constant
    if least is None:
        return {}
    return i.result((i.s.minimum if least else i.s.maximum)(i[0], i[1]))


def _add_minmax(i: _Step) -> Mapping[str, Value]:
    """``VIADDMNMX``: the smaller or larger one of a sum and a third operand."""
    least = i[3].constant
    if least is None:
        return {}
    return i.result((i.s.minimum if least else i.s.maximum)(i.s.add(i[0], i[1]), i[2]))


def _iabs(i: _Step) -> Mapping[str, Value]:
    return i.result(i.s.maximum(i[0], i.s.scale(i[0], -1)))


_RELATIONS = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}


def _isetp(i: _Step) -> Mapping[str, Value]:
    s = i.s
    if "EX" in i.modifiers:  # the high words decide; the low ones have been compared before
        result = i[3]
    else:
        relation = _RELATIONS.get(i.modifiers[0])
        if relation is None:
            return {}
        result = s.compare(relation, i[0], i[1])
    extra = i[2]
    join = s.either if "OR" in i.modifiers else s.both if "AND" in i.modifiers else None
    if join is None:
        return {}
    values = (join(result, extra), join(s.negated(result), extra))
    return {p: v for p, v in zip(i.predicates, values, strict=True) if p[-1] != "T"}


def _plop3(i: _Step) -> Mapping[str, Value]:
    s = i.s
    inputs = [i[0], i[1], i[2]]
    tables = [o.value for o in i.operands if o.kind == "number"][:2]
    result = {}
    for predicate, lut in zip(i.predicates, tables, strict=False):
        if predicate[-1] != "T":
            result[predicate] = _combined(s, lut, inputs)
    return result


def _combined(s: Symbols, lut: int, inputs: Sequence[Value]) -> Value:
    """A function of three predicates by its table, as a disjunction of its rows."""
    result = s.zero
    free = [v for v in inputs if v.constant is None]
    for row in range(8):
        if not lut >> row & 1:
            continue
        term = s.one
        for bit, value in zip((4, 2, 1), inputs, strict=True):
            term = s.both(term, value if row & bit else s.negated(value))
        result = s.either(result, term)
    full = all(lut >> row & 1 for row in range(8))
    return s.one if full or (free and len(free) == 0) else result


def _s2r(i: _Step) -> Mapping[str, Value]:
    value = i[0]
    if i.instruction.base == "CS2R" and i.target[-1] != "Z":
        return {i.target: value, i.following(i.target): i.s.zero}
    return i.result(value)


def _hfma2(i: _Step) -> Mapping[str, Value]:
    """``HFMA2.MMA R, -RZ, RZ, a, b`` builds an integer out of two halves."""
    registers = [o for o in i.operands if o.kind == "register"]
    if len(i.operands) != 4 or any(o.name != "RZ" for o in registers) or len(registers) != 2:
        return {}
    halves = [_half(o) for o in i.operands[2:]]
    word = halves[0] << 16 | halves[1]
    return i.result(i.s.number(_signed(word)))


def _half(operand: Operand) -> int:
    text = operand.text.replace("+INF", "inf").replace("-INF", "-inf").replace("QNAN", "nan")
    value = float(operand.value) if operand.kind == "number" else float(text)
    packed: int = struct.unpack("<H", struct.pack("<e", value))[0]
    return packed


def _prmt(i: _Step) -> Mapping[str, Value]:
    s = i.s
    selector = i[1].constant
    if selector == 0x7610 or selector == 0x3210:
        return i.result(i[0])
    if selector == 0x9910:
        return i.result(i[0])
    if selector == 0x5410 and i[2] is s.zero:
        return i.result(s.mod(i[0], s.number(2**16)))
    if selector is not None and selector & 0xFFF0 == 0x7770 and i[2] is s.zero:
        return {}
    return {}


def _sgxt(i: _Step) -> Mapping[str, Value]:
    """The low bits as a number; without ``.U32`` the highest of them is its sign."""
    width, s = i[1].constant, i.s
    if width is None or not width & 31:
        return i.result(i[0])
    whole = 1 << (width & 31)
    if "U32" in i.modifiers:
        return i.result(s.mod(i[0], s.number(whole)))
    half = whole >> 1
    if half == 1:
        return i.result(s.scale(s.mod(i[0], s.number(2)), -1))
    return i.result(s.add(s.mod(s.add(i[0], s.number(half)), s.number(whole)), s.number(-half)))


def _packed(i: _Step) -> Mapping[str, Value]:
    """``P2R R0, PR, RZ, 0x7f``: predicates as bits."""
    s, mask = i.s, i.operands[-1].value
    bits = (s.select(i.read(f"P{n}"), s.number(1 << n), s.zero) for n in range(7) if mask >> n & 1)
    return i.result(s.add(i[1], *bits))


def _elect(i: _Step) -> Mapping[str, Value]:
    """The lowest lane of those that are active, which are taken to be all."""
    first = i.s.compare("==", i.s.variable("laneid"), i.s.zero)
    return {p: first for p in i.predicates if p[-1] != "T"}


def _voted(i: _Step) -> Mapping[str, Value]:
    """Whether all lanes, or any, say so: in each lane what it says itself, as a uniform instruction
    that not all exclude, or any one demands, is executed by warps with such a lane."""
    if i.target or len(i.predicates) != 1 or not i.operands:
        return {}
    return {i.predicates[0]: i[0]}


def _granted(i: _Step) -> Mapping[str, Value]:
    """A wait that is over, registers that were granted: who asks in a loop asks once, and waits."""
    return {p: i.s.one for p in i.predicates if p[-1] != "T"}


_SEMANTICS: dict[str, _Semantics] = {
    "P2R": _packed, "VOTEU": _voted, "ELECT": _elect, "SYNCS": _granted, "USETMAXREG": _granted,
    "UTCATOMSWS": _granted,
    "I2F": _to_float, "UI2F": _to_float, "MUFU": _reciprocal, "F2I": _from_float,
    "MOV": _mov, "UMOV": _mov, "MOV32I": _mov, "R2UR": _mov, "I2I": _mov, "I2IP": _mov,
    "LDC": _load_constant, "ULDC": _load_constant, "LDCU": _load_constant,
    "IMAD": _imad, "UIMAD": _imad, "IADD3": _iadd3, "UIADD3": _iadd3, "IADD": _iadd,
    "VIADD": _iadd, "UIADD": _iadd, "LEA": _lea, "ULEA": _lea, "LOP3": _lop3, "ULOP3": _lop3,
    "SHF": _shf, "USHF": _shf, "SEL": _sel, "USEL": _sel, "IMNMX": _minmax, "VIMNMX": _minmax,
    "UIMNMX": _minmax, "UVIMNMX": _minmax,
    "VIADDMNMX": _add_minmax, "UVIADD": _iadd,
    "IABS": _iabs, "ISETP": _isetp, "UISETP": _isetp, "PLOP3": _plop3,
    "UPLOP3": _plop3, "S2R": _s2r, "S2UR": _s2r, "CS2R": _s2r, "HFMA2": _hfma2, "PRMT": _prmt,
    "UPRMT": _prmt,
    "SGXT": _sgxt,
}  # fmt: skip
