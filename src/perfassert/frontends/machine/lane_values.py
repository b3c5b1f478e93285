"""Differences of registers between the lanes of a warp, from a listing, without a launch.

The listing is read once, from top to bottom. The value of a register is a number that all lanes
share, plus a difference for each lane. The shared number can be unknown. If the value depends on
loaded data, the differences are unknown, too. For example, ``IMAD R2, R0, 0xc, R4`` with
``R0 = threadIdx.x`` and a parameter in ``R4`` gives R2 = *unknown + (0, 12, 24, …)*: the addresses
of neighbouring threads differ by 12, whatever the parameter is. The values are those of the first
warp of a block that is at least one warp wide in x.

A forward jump passes its values on to its target. Where two paths join, values that differ between
them become unknown. Guards and backward jumps are ignored. Therefore the result is only a hint for
a reader of the listing, and no predicted number depends on it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from perfassert.kernel.machine import WARP_LANES

LANES = WARP_LANES
Lanes = tuple[int, ...]
SAME: Lanes = (0,) * LANES
"""The differences of a value that all lanes have in common."""
_NUMBERS: Lanes = tuple(range(LANES))

FAR = 1 << 20
"""Factor used for an unknown number in lane differences, such as the length of a row."""
_LARGEST = 1 << 50  # larger numbers are not addresses
_WORD_BITS = 32
_SIGN_BITS = 31  # a right shift by this many bits leaves only the sign of a 32-bit integer
_REGISTER = re.compile(r"(?<![\w.])(-?)(U?R\d+|RZ|URZ)\b(?:\.X(\d+)\b)?")
_TARGET = re.compile(r"(U?R)(\d+)")
_PREDICATE = re.compile(r"!?(U?P(?:\d+|T))$")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_HEXADECIMAL = re.compile(r"(-?)(0x[0-9a-f]+)$")
_OFFSET = re.compile(r"([+-])(0x[0-9a-f]+|-0x[0-9a-f]+)\s*$")


class LaneValue(NamedTuple):
    """Value of a register in each lane: ``base + lanes[i]`` in lane i.

    ``base`` is None if it is unknown. ``lanes`` is None if the differences depend on loaded data.
    """

    base: int | None
    lanes: Lanes | None

    @property
    def is_uniform(self) -> bool:
        """Return True if all lanes have the same value."""
        return self.lanes == SAME


UNIFORM = LaneValue(None, SAME)
VARIED = LaneValue(None, None)


class Address(NamedTuple):
    """Address in each lane, in bytes: an unknown start + ``offset`` + ``lanes[i]`` in lane i.

    ``base`` identifies the start: addresses with equal ``base`` have the same one.
    """

    lanes: Lanes | None
    offset: int
    base: tuple[object, ...]


class LaneValues:
    """Values of registers and predicates at one place of a listing."""

    def __init__(self) -> None:
        self._values: dict[str, LaneValue] = {}
        self._versions: dict[str, int] = {}
        self._from_data: set[str] = set()
        self._writes = 0

    def copy(self) -> LaneValues:
        """Copy the values, for the target of a jump."""
        other = LaneValues()
        other._values, other._versions = self._values.copy(), self._versions.copy()
        other._from_data = self._from_data.copy()
        return other

    def meet(self, other: LaneValues, is_reached: bool) -> None:
        """Join the values of another path that arrives here.

        ``is_reached``: False if the code before this place never gets here, so that only the other
        path counts.
        """
        if not is_reached:
            self._values, self._versions = other._values.copy(), other._versions.copy()
            self._from_data = other._from_data.copy()
            return
        self._from_data |= other._from_data
        for name, value in other._values.items():
            own = self._values.setdefault(name, value)
            if own != value:
                self._assign(name, join(own, value), name in self._from_data)

    def step(self, base: str, opcode: str, operands: Sequence[str]) -> None:
        """Execute one instruction, ignoring its guard; ``base`` is the opcode's first part."""
        if not operands or base in _WITHOUT_TARGET:
            return
        first = operands[0]
        if first[:1] == "P" or first[:2] == "UP":
            count = 2 if len(operands) > 1 and _PREDICATE.match(operands[1]) else 1
            value = _condition([self.read(text) for text in operands[count:]])
            from_data = any(map(self.depends_on_data, operands[count:]))
            for target in operands[:count]:
                self._assign(target, value, from_data)
            return
        match = _TARGET.match(first)
        if match is None:
            return
        sources = operands[1:]
        rule = _RULES.get(base, _default_rule)
        from_data = base in _FROM_MEMORY or any(map(self.depends_on_data, sources))
        value = rule(self, opcode, sources, [self.read(t) for t in sources])
        self._assign(match[0], value, from_data)
        if (words := _words(base, opcode)) > 1:
            others = VARIED if base in _LOADS else UNIFORM
            number = int(match[2])
            for following in range(number + 1, number + words):
                self._assign(f"{match[1]}{following}", others, from_data)

    def depends_on_data(self, text: str) -> bool:
        """Return True if anything in an operand was computed from loaded data."""
        names = [match[2] for match in _REGISTER.finditer(text)]
        if match := _PREDICATE.match(text):
            names.append(match[1])
        return not self._from_data.isdisjoint(names)

    def _assign(self, target: str, value: LaneValue, from_data: bool = False) -> None:
        (self._from_data.add if from_data else self._from_data.discard)(target)
        self._values[target] = value
        self._writes += 1
        self._versions[target] = self._writes

    def read(self, text: str) -> LaneValue:
        """Return the value of an operand."""
        first = text[:1]
        if first == "c":
            return UNIFORM
        if (first == "0" or first == "-") and (match := _HEXADECIMAL.fullmatch(text)):
            return LaneValue(int(match[1] + match[2], 16), SAME)
        if match := _REGISTER.match(text):
            value = self.register(match[2])
            return scale(value, -1) if match[1] else value
        if match := _PREDICATE.match(text):
            return UNIFORM if match[1] in ("PT", "UPT") else self._values.get(match[1], UNIFORM)
        if text.startswith("|") or text.startswith("-|"):
            inner = self.read(text.strip("-|"))
            return UNIFORM if inner.is_uniform else VARIED
        return UNIFORM  # a word of constant memory, or a literal of another kind

    def register(self, name: str) -> LaneValue:
        """Return the value of a register; one that was not written yet is assumed to be uniform."""
        return _ZERO if name in ("RZ", "URZ") else self._values.get(name, UNIFORM)

    def address(self, operands: Sequence[str]) -> Address | None:
        """Return the address of a memory instruction, or None if no operand has one."""
        for text in operands:
            groups = [g for g in _BRACKETS.findall(text) if _REGISTER.search(g)]
            if not groups or text.startswith("c["):
                continue
            inside = groups[-1]
            terms = [(match[2], int(match[3] or 1)) for match in _REGISTER.finditer(inside)]
            total = add(*(scale(self.register(name), factor) for name, factor in terms))
            offset = _OFFSET.search(inside)
            bytes_ = int(offset[1] + offset[2].lstrip("-"), 16) if offset else 0
            version = tuple((n, self._versions.get(n, 0)) for n, _ in terms)
            return Address(total.lanes, bytes_, version)
        return None


_ZERO = LaneValue(0, SAME)


def add(*values: LaneValue) -> LaneValue:
    """Return the sum of values."""
    lanes: Lanes | None = SAME
    base: int | None = 0
    for value in values:
        base = None if base is None or value.base is None else base + value.base
        if lanes is None or value.lanes is None:
            return VARIED
        if value.lanes is not SAME:
            lanes = tuple(a + b for a, b in zip(lanes, value.lanes, strict=True))
    return LaneValue(base, lanes)


def scale(value: LaneValue, factor: int) -> LaneValue:
    """Return the product of a value with a known number."""
    if value.lanes is None:
        return VARIED
    base = None if value.base is None else _within_range(value.base * factor)
    if value.is_uniform:
        return LaneValue(base, SAME)
    lanes = tuple(factor * x for x in value.lanes)
    return LaneValue(base, lanes) if abs(lanes[-1]) <= _LARGEST else VARIED


def _within_range(number: int) -> int | None:
    return number if abs(number) <= _LARGEST else None


def multiply(one: LaneValue, other: LaneValue) -> LaneValue:
    """Return the product of two values; the differences are unknown if both values vary."""
    for a, b in ((one, other), (other, one)):
        if a.is_uniform and a.base is not None:
            return scale(b, a.base) if a.base else _ZERO
    for a, b in ((one, other), (other, one)):
        if a.is_uniform and b.lanes is not None:  # an unknown factor
            return UNIFORM if b.is_uniform else LaneValue(None, scale(b, FAR).lanes)
    return VARIED


def join(one: LaneValue, other: LaneValue) -> LaneValue:
    """Return the value after a selection of one of the two; unknown where they differ."""
    if one == other:
        return one
    return LaneValue(None, one.lanes) if one.lanes == other.lanes else VARIED


def apply(function: Callable[..., int], *values: LaneValue) -> LaneValue:
    """Apply a function of integers to known values, lane by lane."""
    if all(v.is_uniform for v in values) and any(v.base is None for v in values):
        return UNIFORM
    if any(v.base is None or v.lanes is None for v in values):
        return VARIED
    each = [[v.base + x for x in v.lanes] for v in values]  # type: ignore[union-attr, operator]
    results = [function(*numbers) for numbers in zip(*each, strict=True)]
    return LaneValue(results[0], tuple(x - results[0] for x in results))


def _condition(sources: Sequence[LaneValue]) -> LaneValue:
    """Return the value of a predicate: it depends on data, on the lane, or is uniform."""
    if any(s.lanes is None for s in sources):
        return VARIED
    return UNIFORM if all(s.is_uniform for s in sources) else LaneValue(None, _NUMBERS)


_Rule = Callable[[LaneValues, str, Sequence[str], Sequence[LaneValue]], LaneValue]


def _default_rule(
    _: LaneValues, __: str, ___: Sequence[str], sources: Sequence[LaneValue]
) -> LaneValue:
    return UNIFORM if all(s.is_uniform for s in sources) else VARIED


def _special(_: LaneValues, __: str, texts: Sequence[str], ___: Sequence[LaneValue]) -> LaneValue:
    return LaneValue(0, _NUMBERS) if texts and texts[-1] in ("SR_TID.X", "SR_LANEID") else UNIFORM


def _copy(_: LaneValues, __: str, ___: Sequence[str], sources: Sequence[LaneValue]) -> LaneValue:
    return sources[0] if sources else UNIFORM


def _sum(_: LaneValues, opcode: str, texts: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    if ".X" in opcode:
        return UNIFORM  # the high word
    return add(*(v for t, v in zip(texts, s, strict=True) if not _PREDICATE.match(t)))


def _product(_: LaneValues, opcode: str, texts: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    given = [v for t, v in zip(texts, s, strict=True) if not _PREDICATE.match(t)]
    if ".X" in opcode:
        return UNIFORM
    if ".MOV" in opcode and given:
        return given[-1]
    if ".HI" in opcode or len(given) < 3:
        return UNIFORM if all(v.is_uniform for v in given) else VARIED
    return add(multiply(given[0], given[1]), given[2])


def _shifted_sum(
    _: LaneValues, opcode: str, texts: Sequence[str], s: Sequence[LaneValue]
) -> LaneValue:
    given = [v for t, v in zip(texts, s, strict=True) if not _PREDICATE.match(t)]
    if ".X" in opcode or ".HI" in opcode:
        return UNIFORM if ".X" in opcode else _default_rule(_, opcode, texts, given)
    amount = given[-1].base if len(given) > 2 else 0
    if len(given) < 2 or amount is None or not 0 <= amount < _WORD_BITS:
        return UNIFORM if all(v.is_uniform for v in given) else VARIED
    return add(scale(given[0], 1 << amount), given[1])


def _shift(_: LaneValues, opcode: str, __: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    low, amount, high = (*s, _ZERO, _ZERO)[:3]
    if amount.base is None or not amount.is_uniform or not 0 <= amount.base < _WORD_BITS:
        return UNIFORM if all(v.is_uniform for v in s) else VARIED
    if ".R" in opcode.partition(".")[2] or ".R." in opcode:
        value = high if ".HI" in opcode else low
        if value.base is None and amount.base == _SIGN_BITS:
            return UNIFORM  # the sign of an index
        return apply(lambda x: x >> amount.base, value)
    return scale(high if ".HI" in opcode else low, 1 << amount.base)


def _logic(_: LaneValues, __: str, texts: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    if len(s) < 4 or s[3].base is None:
        return _default_rule(_, "", texts, s)
    a, b, c, table = *s[:3], s[3].base
    union = table in (0xFC, 0xFE, 0xEE, 0xFA)
    lasting = [v for v in (a, b, c) if v != _ZERO]
    unknown = [v for v in lasting if v.base is None]
    if union and len(unknown) == 1 and all(v.lanes is not None for v in lasting):
        return add(*lasting)  # disjoint bits, as in blockIdx.x * 256 | threadIdx.x
    return apply(lambda x, y, z: _by_table(table, x, y, z), a, b, c)


def _by_table(table: int, x: int, y: int, z: int) -> int:
    result = 0
    for bit in range(8):
        if table >> bit & 1:
            result |= (x if bit & 4 else ~x) & (y if bit & 2 else ~y) & (z if bit & 1 else ~z)
    return result & 0xFFFFFFFF


def _select(_: LaneValues, __: str, ___: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    return join(s[0], s[1]) if len(s) > 2 else _default_rule(_, "", (), s)


def _least(_: LaneValues, __: str, ___: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    """Return the minimum or maximum, as an index that is clamped to a uniform bound.

    The differences are those of the index: only lanes beyond the bound would have others.
    """
    one, two = (*s, VARIED, VARIED)[:2]
    for a, b in ((one, two), (two, one)):
        if a.is_uniform and b.lanes is not None:
            return LaneValue(None, b.lanes)
    return VARIED


def _load(values: LaneValues, _: str, texts: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    address = values.address(texts)
    return UNIFORM if address is None or address.lanes == SAME else VARIED


def _pack_halves(_: LaneValues, __: str, texts: Sequence[str], s: Sequence[LaneValue]) -> LaneValue:
    """Return the 32-bit constant that ``HFMA2 R, -RZ, RZ, high, low`` loads as two halves."""
    if tuple(texts[:2]) != ("-RZ", "RZ") or len(texts) != 4:
        return _default_rule(_, "", texts, s)
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(t)))[0] for t in texts[2:])
    except (ValueError, OverflowError):
        return UNIFORM
    return LaneValue(high << 16 | low, SAME)


def _vary(_: LaneValues, __: str, ___: Sequence[str], ____: Sequence[LaneValue]) -> LaneValue:
    return VARIED


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(("S2R", "CS2R", "S2UR"), _special),
    **dict.fromkeys(("MOV", "UMOV", "R2UR", "MOV32I"), _copy),
    **dict.fromkeys(("IADD3", "IADD", "VIADD", "UIADD3", "IADD32I"), _sum),
    **dict.fromkeys(("IMAD", "UIMAD", "XMAD"), _product),
    **dict.fromkeys(("LEA", "ULEA"), _shifted_sum),
    **dict.fromkeys(("SHF", "USHF", "SHL", "SHR"), _shift),
    **dict.fromkeys(("LOP3", "ULOP3"), _logic),
    **dict.fromkeys(("HFMA2",), _pack_halves),
    **dict.fromkeys(("SEL", "FSEL", "USEL"), _select),
    **dict.fromkeys(("IMNMX", "VIMNMX"), _least),
    **dict.fromkeys(("LDG", "LD", "LDS", "LDL", "LDC", "LDCU"), _load),
    **dict.fromkeys(("ATOMG", "ATOM", "ATOMS", "SHFL", "TEX", "TLD", "MATCH"), _vary),
}  # fmt: skip
_LOADS = {"LDG", "LD", "LDS", "LDL", "LDC", "LDCU"}
_FROM_MEMORY = {"LDG", "LD", "LDS", "LDL", "LDSM", "ATOM", "ATOMG", "ATOMS"}
"""Opcodes that load data. Constant memory is left out, because it holds arguments."""
_WITHOUT_TARGET = {"STG", "ST", "STS", "STL", "RED", "REDG", "BRA", "EXIT", "BAR", "CALL", "RET"}
_WIDTHS = {".64": 2, ".128": 4}


def _words(base: str, opcode: str) -> int:
    """Return the number of registers that an instruction writes."""
    if base in _LOADS:
        return next((words for part, words in _WIDTHS.items() if part in opcode), 1)
    return 2 if ".WIDE" in opcode or base == "CS2R" else 1
