"""Parser of a disassembly listing (``nvdisasm -c -hex -gi``): instructions with control codes.

The text is no contract of NVIDIA's, so nothing here depends on more than: a line
``/*0090*/ @P0 BRA `(.L_x_1) ; /* 0x… */``, a second line with the high 64-bit word, labels at the
start of a line, and ``//## File "…", line N`` before the instructions it holds for.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from perfassert.errors import KernelSourceError
from perfassert.frontends.machine.operand_lists import split_operands
from perfassert.source import SourceSpan, file_name

NO_BARRIER = 7  # scoreboard field of an instruction that names none
PTX_SECTION = ".nv_debug_ptx_txt"  # `nvdisasm -gp` names lines of it, which are no source's
_CODE = re.compile(r"\s*/\*([0-9a-fA-F]{4,})\*/\s*(.*?)\s*;?\s*/\* 0x([0-9a-fA-F]{16}) \*/\s*$")
_HIGH = re.compile(r"\s*/\* 0x([0-9a-fA-F]{16}) \*/\s*$")
_LABEL = re.compile(r"^([.$\w][^\s:]*):\s*$")
_FILE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_NOTE = re.compile(r"\s*\(\*.*?\*\)")  # a remark of the disassembler, as `(*"SpillRefill"*)`
_GUARD = re.compile(r"@(!?)(U?P[0-9T]+)\s+(.*)", re.S)
_REGISTER = re.compile(r"(-|~|\+)?\|?(U?R(?:\d+|Z))\|?((?:\.[\w]+)*)$")
_PREDICATE = re.compile(r"(!?)(U?P(?:\d|T))$")
_CONSTANT = re.compile(r"(-|~)?\|?cx?\[(0x[0-9a-f]+|UR\d+)\]\[(.*?)\]\|?((?:\.\w+)*)$")
_NUMBER = re.compile(r"-?(0x[0-9a-f]+|\d+)$")
_FUNCTION = re.compile(r"\s*\.type\s+([^\s,]+),@function")
_MEMORY = re.compile(r"(?:g?desc\[(UR\d+|URZ)\])?\[(.*)\]((?:\.\w+)*)$")
_TARGET = re.compile(r"`\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Control:
    """The scheduling fields of an encoding; barriers are numbers 0–5, 7 for none.

    ``stall`` in cycles; ``wait``: bit ``i`` set where barrier ``i`` must be clear before issue.
    """

    stall: int
    yields: bool
    write_barrier: int
    read_barrier: int
    wait: int
    reuse: int

    @classmethod
    def from_word(cls, word: int) -> Control:
        """Read the fields out of the high 64-bit word of a 128-bit encoding (sm_70 on)."""
        return cls(
            stall=word >> 41 & 15,
            yields=not word >> 45 & 1,
            write_barrier=word >> 46 & 7,
            read_barrier=word >> 49 & 7,
            wait=word >> 52 & 63,
            reuse=word >> 58 & 15,
        )

    def waits(self) -> tuple[int, ...]:
        """Numbers of the barriers that are waited for."""
        return tuple(b for b in range(6) if self.wait >> b & 1)


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand. ``kind``: register, predicate, constant, number, float, memory, special, target.

    ``name``: register, predicate, special register or label; ``sign`` is ``"-"``, ``"~"``, ``"!"``
    or empty; ``parts``: what is added up in a memory operand; ``bank``, ``value``: a constant's
    bank and offset, a number's value.
    """

    kind: str
    name: str = ""
    sign: str = ""
    suffix: str = ""
    bank: int = -1
    value: int = 0
    parts: tuple[Operand, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A SASS instruction; ``address`` in bytes from the start of its section."""

    index: int
    address: int
    opcode: str
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None  # predicate register, and whether it is negated
    control: Control
    text: str
    span: SourceSpan | None
    inlined: tuple[SourceSpan, ...]

    @property
    def base(self) -> str:
        """The opcode without modifiers: ``"LDG"`` of ``"LDG.E.64"``."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """``("E", "64")`` of ``"LDG.E.64"``."""
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True, slots=True)
class Listing:
    """Instructions in layout order, and the index of the instruction that a label stands before."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int] = field(hash=False)
    functions: tuple[str, ...]


def parse_listing(text: str, name: str, own: Collection[str] = ()) -> Listing:
    """Return the instructions of a listing; ``name`` is what errors call it.

    An instruction's place is the innermost of its line table that lies in one of the ``own`` files,
    those of the user: ``atomicAdd(r, 1)`` is a line of ``k.cu``, not of the header of CUDA's that
    nvcc takes it from.

    Raises :class:`KernelSourceError` for text that holds no instruction or a broken encoding.
    """
    reader = _ListingReader(name, own)
    for number, line in enumerate(text.split("\n"), 1):
        reader.line(number, line)
    return reader.finish()


class _ListingReader:
    def __init__(self, name: str, own: Collection[str]) -> None:
        self.name = name
        self.own = own
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.functions: list[str] = []
        self.pending: tuple[int, int, str] | None = None
        self.span: SourceSpan | None = None
        self.inlined: tuple[SourceSpan, ...] = ()
        self.fresh = False

    def line(self, number: int, line: str) -> None:
        high = _HIGH.match(line)
        if high:
            if self.pending is None:
                self.fail(number, "an encoding's second word without its first")
            self.instruction(int(high[1], 16))
            return
        if self.pending is not None:
            self.fail(number, "the second word of the encoding before this line is missing")
        code = _CODE.match(line)
        if code:
            self.pending = (number, int(code[1], 16), code[2])
        elif "//##" in line:
            self.place(line)
        else:
            self.label(line)

    def label(self, line: str) -> None:
        label = _LABEL.match(line)
        if label:
            self.labels[label[1]] = len(self.instructions)
        elif function := _FUNCTION.match(line):
            self.functions.append(function[1])

    def place(self, line: str) -> None:
        match = _FILE.match(line)
        if not match:
            return
        if match[1].endswith(PTX_SECTION):
            self.fresh = False
            return
        span = SourceSpan(file_name(match[1]), int(match[2]))
        if self.fresh:  # "inlined at" lines follow one another, innermost first
            self.inlined = (*self.inlined, span)
        else:
            self.span, self.inlined = span, ()
        if match[3]:
            self.inlined = (*self.inlined, SourceSpan(file_name(match[3]), int(match[4])))
        self.fresh = match[3] is not None

    def instruction(self, word: int) -> None:
        assert self.pending is not None
        number, address, text = self.pending
        self.pending = None
        self.fresh = False
        guard = None
        text = _NOTE.sub("", text).rstrip(" ;")
        body = text
        if body.startswith(("{", "}")):
            body = body.strip("{} ")
        match = _GUARD.match(body)
        if match:
            guard, body = (match[2], match[1] == "!"), match[3]
        opcode, _, rest = body.partition(" ")
        if not opcode:
            self.fail(number, "an instruction without an opcode")
        try:
            operands = tuple(parse_operand(o) for o in split_operands(rest.strip()))
        except ValueError as error:
            self.fail(number, str(error))
        except RecursionError:
            self.fail(number, "brackets are nested too deep")
        if opcode.startswith("LDGSTS") and guard is None:
            guard, operands = _copying(operands)
        places = (self.span, *self.inlined)
        first = next((n for n, s in enumerate(places) if s is not None and s.file in self.own), 0)
        self.instructions.append(
            Instruction(
                len(self.instructions), address, opcode, operands, guard,
                Control.from_word(word), text, places[first], self.inlined[first:],
            )
        )  # fmt: skip

    def finish(self) -> Listing:
        if self.pending is not None:
            self.fail(self.pending[0], "the listing ends in the middle of an instruction")
        if not self.instructions:
            self.fail(0, "no instruction found; `nvdisasm -c -hex -gi` writes what is read here")
        return Listing(tuple(self.instructions), self.labels, tuple(self.functions))

    def fail(self, number: int, reason: str) -> None:
        where = f"{self.name}:{number}" if number else self.name
        raise KernelSourceError(f"{where}: {reason}")


def _copying(
    operands: tuple[Operand, ...],
) -> tuple[tuple[str, bool] | None, tuple[Operand, ...]]:
    """``LDGSTS [R1], [R2], !P0`` reads where its predicate holds, as under a guard; what it fills
    with zeros elsewhere (PTX: ``ignore-src`` of ``cp.async``) is left out."""
    last = operands[-1] if operands else None
    if last is None or last.kind != "predicate" or last.name[-1] == "T":
        return None, operands
    return (last.name, last.sign == "!"), operands[:-1]


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Operand:
    """Return one operand; an unknown form is kept as ``special`` text."""
    bare = text.replace(".reuse", "")
    if match := _REGISTER.match(bare):
        return Operand("register", match[2], match[1] or "", match[3], text=text)
    if match := _PREDICATE.match(bare):
        return Operand("predicate", match[2], match[1], text=text)
    if _NUMBER.match(bare):
        return Operand("number", value=int(bare, 0) if "x" in bare else int(bare), text=text)
    if match := _CONSTANT.match(bare):
        return _constant(match, text)
    if match := _TARGET.match(bare):
        return Operand("target", match[1], text=text)
    if match := _MEMORY.match(bare):
        return Operand("memory", match[1] or "", suffix=match[3], parts=_sum(match[2]), text=text)
    try:
        float(bare)
    except ValueError:
        return Operand("special", bare, text=text)
    return Operand("float", bare, text=text)


def _constant(match: re.Match[str], text: str) -> Operand:
    parts = _sum(match[3])
    bank = int(match[2], 16) if match[2].startswith("0x") else -1
    offset = sum(p.value for p in parts if p.kind == "number")
    registers = tuple(p for p in parts if p.kind != "number" and p.name not in ("RZ", "URZ"))
    return Operand("constant", match[2], match[1] or "", match[4], bank, offset, registers, text)


def _sum(text: str) -> tuple[Operand, ...]:
    """``R4.64+UR6+0x10`` → its three parts; a sign belongs to the part that follows."""
    parts = [p for p in re.split(r"\+|(?=-)", text) if p.strip()]
    return tuple(parse_operand(p.strip()) for p in parts)
