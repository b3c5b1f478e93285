"""Translation of one SASS instruction: its operands as registers, its results as targets."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import SupportsIndex, TypeAlias, TypeVar, overload

from perfassert.frontends.machine.registers import consecutive_registers, results
from perfassert.frontends.machine.sass import Instruction, Listing, Operand
from perfassert.kernel.machine import Kind, Micro, Preset, PresetSource

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Translation: TypeAlias = "Callable[[LoweringStep], None]"
XOR, AND = 0x3C, 0xC0  # truth tables of a and b
_SIGN = 1 << 31
_ZEROS = frozenset(("RZ", "URZ"))
_TRUE = frozenset(("PT", "UPT"))
_NAMED = re.compile(r"U?[RP]\d+")
_PART = re.compile(r"\.([BH])([0-3])(?:_.*)?")
_HEXADECIMAL = re.compile(r"-?0[xX][0-9a-fA-F]+")
_NUMBERED = re.compile(r"\D+\d+")


class Untranslated(Exception):
    """Instruction without a translation, or with operands that its translation does not know."""


def knows(modifiers: str) -> Callable[[Translation], Translation]:
    """Limit a translation to the modifiers that it knows; any other one may change the result."""
    known = frozenset(modifiers.split())

    def limit(translate: Translation) -> Translation:
        def translate_known(step: LoweringStep) -> None:
            if not known.issuperset(step.modifiers):
                raise Untranslated(step.instruction.text)
            translate(step)

        return translate_known

    return limit


class Known(dict[K, V]):
    """Table of known names; looking up any other one raises :class:`Untranslated`."""

    def __missing__(self, key: K) -> V:
        raise Untranslated(str(key))


class Words(tuple[T, ...]):
    """Operands or modifiers; a place beyond the last raises :class:`Untranslated`."""

    __slots__ = ()

    @overload
    def __getitem__(self, place: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> T | tuple[T, ...]:
        try:
            return super().__getitem__(place)
        except IndexError:
            raise Untranslated(f"there is no operand {place}") from None


def require(values: Iterable[T]) -> T:
    """Return the first value; where there is none, the instruction is :class:`Untranslated`."""
    for value in values:
        return value
    raise Untranslated("an operand or modifier is missing")


class Registers:
    """Numbers for registers as they are first met; number 0 is always 0."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._presets: list[Preset] = []
        self._temporary = 0
        self._uniform = False
        self.count = 1
        self.uniform: set[int] = set()

    @property
    def names(self) -> dict[int, str]:
        """Names of registers and predicates in the listing, by number."""
        return {
            number: key
            for key, number in self._numbers.items()
            if isinstance(key, str) and _NAMED.fullmatch(key)
        }

    @property
    def presets(self) -> tuple[Preset, ...]:
        """Registers that are filled before the first instruction."""
        return tuple(self._presets)

    def number_of(self, name: str) -> int:
        """``R4``, ``P0``, ``UR7``, ``B1``, …"""
        if name in _ZEROS:
            return 0
        if name in _TRUE:
            return self.literal(1)
        number = self._number(name)
        if name.startswith("U"):
            self.uniform.add(number)
        return number

    def literal(self, value: int) -> int:
        """A register that holds the low word of ``value``."""
        word = value & 0xFFFFFFFF
        if not word:
            return 0
        return self._preset_register(("literal", word), PresetSource.LITERAL, word)

    def constant(self, bank: int, offset: int) -> int:
        """The word at ``offset`` of a constant bank."""
        return self._preset_register(
            ("constant", bank, offset), PresetSource.CONSTANT, offset, bank
        )

    def special(self, name: str) -> int:
        """Return the register of a value that the launch sets: ``threadIdx.x``, ``laneid``, …"""
        return self._preset_register(("special", name), PresetSource.SPECIAL, name=name)

    def temporary(self) -> int:
        """A register that no other instruction reads."""
        self._temporary += 1
        number = self._number(("temporary", self._uniform, self._temporary))
        if self._uniform:
            self.uniform.add(number)
        return number

    def start(self, uniform: bool) -> None:
        """Start an instruction, whose results are uniform or not."""
        self._temporary = 0
        self._uniform = uniform

    def _preset_register(
        self, key: object, source: PresetSource, value: int = 0, bank: int = 0, name: str = ""
    ) -> int:
        known = self._numbers.get(key)
        number = self._number(key) if known is None else known
        if known is None:
            self._presets.append(Preset(number, source, value, bank, name))
        return number

    def _number(self, key: object) -> int:
        if key not in self._numbers:
            self._numbers[key] = self.count
            self.count += 1
        return self._numbers[key]


class LoweringStep:
    """Translation of one instruction, as its rule sees it; rules append to ``operations``."""

    def __init__(
        self,
        instruction: Instruction,
        registers: Registers,
        listing: Listing,
        addresses: list[int],
    ) -> None:
        self.instruction = instruction
        self.modifiers = Words(instruction.modifiers)
        self.registers = registers
        self.operations: list[Micro] = []
        self._listing = listing
        self._addresses = addresses
        count = results(instruction)
        self.all_operands = Words(instruction.operands)
        self.operands = Words(instruction.operands[count:])
        self.written = Words(instruction.operands[:count])
        names = [o.name for o in self.written if o.name not in (*_ZEROS, *_TRUE)]
        registers.start(bool(names) and all(name.startswith("U") for name in names))

    # Results

    @property
    def target_operand(self) -> Operand:
        """The register that is written."""
        return require(o for o in self.written if o.kind == "register")

    @property
    def target(self) -> int:
        """Number of the register that is written; -1 if the result is discarded."""
        return self.result(self.target_operand)

    @property
    def target_pair(self) -> tuple[int, int]:
        """Two words that are written: low and high."""
        low, high = self.target_words(2)
        return low, high

    def target_words(self, count: int) -> tuple[int, ...]:
        """Consecutive registers that are written."""
        return self.words_of(self.target_operand, count)

    def words_of(self, operand: Operand, count: int) -> tuple[int, ...]:
        """Consecutive registers from ``operand`` on, as targets."""
        if operand.name in _ZEROS:
            return (-1,) * count
        if not _NUMBERED.fullmatch(operand.name):
            raise Untranslated(operand.text)
        return tuple(map(self.registers.number_of, consecutive_registers(operand.name, count)))

    @property
    def predicates(self) -> tuple[int, ...]:
        """Predicates that are written: those before the register, then carries."""
        return tuple(self.result(o) for o in self.written if o.kind == "predicate")

    def result(self, operand: Operand) -> int:
        """A written operand's number."""
        if operand.name in _ZEROS or operand.name in _TRUE:
            return -1
        return self.registers.number_of(operand.name)

    def missing_results(self) -> tuple[int, ...]:
        """Results that no operation computes: an operand list that the translation does not know
        in full."""
        written = {t for o in self.operations for t in o.targets}
        named = (o for o in self.written if o.kind in ("register", "predicate"))
        results = (self.result(o) for o in named if not (o.kind == "predicate" and o.sign))
        return tuple(r for r in results if r > 0 and r not in written)

    # Operands

    def word(self, place: int) -> int:
        """The 32-bit integer operand at ``place``, its sign applied."""
        operand = self.operands[place]
        register = self.plain(place)
        if operand.suffix.startswith((".H", ".B")):
            raise Untranslated(operand.text)
        if operand.kind == "number" or not operand.sign:
            return register
        if operand.sign == "~":
            return self.new(Kind.LOGIC, (register, self.literal(-1), 0), (XOR,))
        return self.new(Kind.ADD, (register, 0, 0), (1,))

    def split_minus(self, place: int) -> tuple[int, int]:
        """The operand without a minus, and 1 where it had one."""
        if self.operands[place].sign == "-" and self.operands[place].kind != "number":
            return self.plain(place), 1
        return self.word(place), 0

    def plain(self, place: int) -> int:
        """The operand's word without its sign."""
        operand = self.operands[place]
        if operand.kind == "register":
            return self.registers.number_of(operand.name)
        if operand.kind == "number":
            return self.literal(operand.value)
        if operand.kind == "constant":
            return self.constant(operand, 0)
        if operand.kind == "predicate":
            return self.predicate(place)
        if operand.kind in ("float", "special"):
            return self.literal(_single(operand))
        raise Untranslated(operand.text)

    def pair(self, place: int) -> tuple[int, int]:
        """A 64-bit integer operand, without its sign."""
        operand = self.operands[place]
        if operand.kind == "register":
            low, high = self.words_of(operand, 2)
            return max(low, 0), max(high, 0)
        if operand.kind == "number":
            return self.literal(operand.value), self.literal(operand.value >> 32)
        if operand.kind == "constant":
            return self.constant(operand, 0), self.constant(operand, 4)
        raise Untranslated(operand.text)

    def data(self, place: int, words: int) -> tuple[int, ...]:
        """A register operand of several words."""
        operand = self.operands[place]
        if operand.kind != "register":
            return (self.word(place),) + (0,) * (words - 1)
        return tuple(max(r, 0) for r in self.words_of(operand, words))

    def constant(self, operand: Operand, shift: int) -> int:
        """A word of a constant bank at a fixed place."""
        if operand.parts or operand.bank < 0 or operand.value % 4:
            raise Untranslated(operand.text)
        return self.registers.constant(operand.bank, operand.value + shift)

    def predicate(self, place: int) -> int:
        """A predicate operand, its sign applied."""
        operand = self.operands[place]
        if operand.name in _TRUE:
            return 0 if operand.sign else self.literal(1)
        register = self.registers.number_of(operand.name)
        if not operand.sign:
            return register
        return self.new(Kind.LOGIC, (register, self.literal(1), 0), (XOR,))

    def single(self, place: int) -> int:
        """A float operand, sign and bars applied."""
        operand = self.operands[place]
        if operand.kind in ("float", "special", "number"):
            return self.literal(_single(operand))
        register = self.plain(place)
        if "|" in operand.text:
            register = self.new(Kind.LOGIC, (register, self.literal(_SIGN - 1), 0), (AND,))
        if operand.sign == "-":
            register = self.new(Kind.LOGIC, (register, self.literal(_SIGN), 0), (XOR,))
        return register

    def double(self, place: int) -> tuple[int, int]:
        """A double operand, sign and bars applied."""
        operand = self.operands[place]
        if operand.kind in ("float", "special", "number"):
            bits = struct.unpack("<Q", struct.pack("<d", _float_value(operand)))[0]
            return self.literal(bits), self.literal(bits >> 32)
        low, high = self.pair(place)
        if "|" in operand.text:
            high = self.new(Kind.LOGIC, (high, self.literal(_SIGN - 1), 0), (AND,))
        if operand.sign == "-":
            high = self.new(Kind.LOGIC, (high, self.literal(_SIGN), 0), (XOR,))
        return low, high

    def literal(self, value: int) -> int:
        """A literal's register."""
        return self.registers.literal(value)

    # Code addresses

    def code_address(self, label: str) -> int:
        """The address of a label, as indirect jumps count."""
        return self._addresses[self._place_of_label(label)]

    def next_address(self) -> int:
        """Address of the next instruction."""
        return self._addresses[self.instruction.index] + 16

    def place_of(self, operand: Operand) -> int:
        """The instruction that a direct jump goes to."""
        if operand.kind == "target":
            return self._place_of_label(operand.name)
        here = self._addresses[self.instruction.index]
        if operand.kind == "number":
            wanted = here - self.instruction.address + operand.value
            return require(n for n, address in enumerate(self._addresses) if address == wanted)
        raise Untranslated(operand.text)

    def _place_of_label(self, label: str) -> int:
        place = self._listing.labels.get(label, len(self._addresses))
        if place >= len(self._addresses):
            raise Untranslated(label)
        return place

    # Operations

    def emit(
        self,
        kind: Kind,
        targets: tuple[int, ...],
        sources: tuple[int, ...],
        detail: tuple[int, ...] = (),
    ) -> None:
        """Append an operation."""
        self.operations.append(Micro(kind, targets, sources, detail))

    def new(self, kind: Kind, sources: tuple[int, ...], detail: tuple[int, ...] = ()) -> int:
        """Append an operation whose result is a temporary."""
        register = self.registers.temporary()
        self.emit(kind, (register,), sources, detail)
        return register


def _float_value(operand: Operand) -> float:
    text = operand.text.replace(".reuse", "").strip().upper()
    if "QNAN" in text or "SNAN" in text:
        return float("nan")
    if "INF" in text:
        return float("-inf") if text.startswith("-") else float("inf")
    return parse_float(operand.text)


def parse_float(text: str) -> float:
    """Return the number in a float literal; raises :class:`Untranslated` for any other text."""
    try:
        return float(text)
    except ValueError:
        raise Untranslated(text) from None


def part_of_word(suffix: str) -> int:
    """Return the first bit of the part that ``.B1`` or ``.H1`` names."""
    match = _PART.fullmatch(suffix)
    if match is None:
        raise Untranslated(suffix)
    return int(match[2]) * (8 if match[1] == "B" else 16)


def _single(operand: Operand) -> int:
    """The bits of a float literal; hexadecimal ones are bits already."""
    text = operand.text.strip()
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 0) & 0xFFFFFFFF
    value = _float_value(operand)
    if value != value:
        return 0xFFFFFFFF if text.startswith("-") else 0x7FFFFFFF
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    word: int = struct.unpack("<I", packed)[0]
    return word
