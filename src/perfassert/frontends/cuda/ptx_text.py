"""PTX text → statements: what a module declares, and the routines that one entry needs."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.operands import split_operands

SPACES = ("global", "shared", "local", "param", "const")
_MOST_INITIAL = 1 << 16  # bytes that constant memory holds
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINES = re.compile(r"^[ \t]*(?:\.(?:loc|file|version|target|address_size)\b|@@DWARF)[^\n]*", re.M)
_HEADER = re.compile(r"\.(entry|func)\b([^;{]*)([;{])")
_SECTION = re.compile(r"\.section[^{]*\{[^}]*\}")
_BRACE = re.compile(r"[{}]")
_MARK = re.compile(r"[;{}:\n]")
_LABEL = re.compile(r"[$%\w]+$")
_STATEMENT = re.compile(r"(?:@\s*(!?)\s*([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.S)
_NAME = re.compile(r"[%\w$]+")
_ELEMENT = re.compile(r"([%\w$.]+)\s*(?:<\s*\d+\s*>)?((?:\s*\[[^\]]*\])*)\s*(?:=\s*(.*))?$", re.S)
_EXTENT = re.compile(r"\[\s*(\w*)\s*\]")
_REGISTERS = re.compile(r"\.reg\s+(?:\.v[24]\s+)?\.(\w+)\s+(.*)")
_BITS = re.compile(r"[busf](?:f)?(8|16|32|64|128)(x2)?$")


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction; ``line`` counts from 1 in the whole text."""

    index: int
    line: int
    opcode: str
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None

    @property
    def parts(self) -> list[str]:
        """The opcode's dotted parts."""
        return self.opcode.split(".")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter; ``size`` in bytes, 0 where it has none of its own; ``content``: what
    it is initialised with, None: not with numbers."""

    name: str
    space: str
    size: int
    alignment: int
    content: bytes | None = None


@dataclass(frozen=True)
class Routine:
    """An entry or a function. ``registers``: name, or what stands before ``<n>``, → type;
    ``tables``: of targets, by their label."""

    name: str
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    instructions: tuple[PtxInstruction, ...]
    labels: Mapping[str, int]
    tables: Mapping[str, tuple[str, ...]]
    registers: Mapping[str, str]
    variables: tuple[Variable, ...]


@dataclass(frozen=True)
class Module:
    """An entry, the functions that it may call, and the module's variables."""

    entry: Routine
    functions: Mapping[str, Routine]
    variables: tuple[Variable, ...]


def kernels(text: str) -> tuple[str, ...]:
    """Names of the entries."""
    return tuple(re.findall(r"\.entry\s+([\w$]+)", text))


def bits_of(kind: str) -> int:
    """Of a type's name, 1 for predicates; 0 for what is none."""
    found = _BITS.match(kind)
    if found:
        return int(found[1]) * (2 if found[2] else 1)
    return 1 if kind == "pred" else 0


def parse_module(text: str, entry: str, name: str) -> Module:
    """An entry of a PTX text with all that it calls; ``name`` is what errors call the text.

    Raises :class:`KernelSourceError` where the entry is missing, a body does not end or has a
    statement that is none.
    """
    plain = _LINES.sub(_blank, _COMMENT.sub(_blank, text))
    headers = {_header_name(h): h for h in _HEADER.finditer(plain) if h[3] == "{"}
    found = headers.get(entry)
    if found is None or found[1] != "entry":
        known = ", ".join(kernels(text)) or "none"
        raise KernelSourceError(f"{name}: no entry {entry!r}; it has {known}")
    routines: dict[str, Routine] = {}
    wanted = [entry]
    while wanted:
        one = wanted.pop()
        if one in routines or one not in headers:
            continue
        routines[one] = _routine(plain, headers[one], one, name)
        wanted += [c for i in routines[one].instructions if (c := callee(i))]
    start = routines.pop(entry)
    return Module(start, routines, tuple(_module_variables(plain)))


def callee(instruction: PtxInstruction) -> str:
    """The function that a call names; ``""`` for what is no call."""
    if instruction.parts[0] != "call":
        return ""
    return next((o for o in instruction.operands if not o.startswith(("(", "%"))), "")


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n") or " "


def _header_name(header: re.Match[str]) -> str:
    text = header[2].strip()
    if text.startswith("("):
        text = text[_closing(text) + 1 :].strip()
    found = _NAME.match(text)
    return found[0] if found else ""


def _closing(text: str) -> int:
    depth = 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return i
    return len(text)


def _body_end(plain: str, start: int) -> int:
    """Where the brace closes that opens before ``start``; -1: nowhere."""
    depth = 1
    for brace in _BRACE.finditer(plain, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    return -1


def _module_variables(plain: str) -> Iterator[Variable]:
    """Declared outside all bodies."""
    at = 0
    outside = []
    for header in _HEADER.finditer(plain):
        if header.start() < at:
            continue
        outside.append(plain[at : header.start()])
        end = _body_end(plain, header.end()) if header[3] == "{" else header.end()
        at = len(plain) if end < 0 else end + 1
    outside.append(plain[at:])
    for part in _SECTION.sub("", "".join(outside)).split(";"):
        start = part.find(".")
        if start >= 0:
            yield from declared(part[start:].strip())


def declared(text: str) -> list[Variable]:
    """The variables of one declaration; none where it declares something else."""
    space = kind = ""
    alignment, lanes, pointer = 0, 1, False
    rest = text
    while rest.startswith("."):
        word, _, rest = rest.partition(" ") if re.match(r"\S+\s", rest) else (rest, "", "")
        word, rest = word[1:].strip(), rest.strip()
        pointer |= word == "ptr"
        if word == "align":
            number, _, rest = rest.partition(" ")
            alignment = alignment if pointer or not number.isdecimal() else int(number)
            rest = rest.strip()
        elif word in ("v2", "v4"):
            lanes = int(word[1])
        elif word.partition("::")[0] in SPACES and not pointer:
            space = word.partition("::")[0]
        elif bits_of(word):
            kind = word
    if not space or not kind:
        return []
    size = lanes * bits_of(kind) // 8
    made = (_variable(part, space, kind, size, alignment or size) for part in split_operands(rest))
    return [v for v in made if v is not None]


def _variable(text: str, space: str, kind: str, size: int, alignment: int) -> Variable | None:
    found = _ELEMENT.match(text.strip())
    if found is None:
        return None
    content = _content(found[3], kind) if found[3] else None
    count = 1
    for extent in _EXTENT.findall(found[2]):
        if extent:
            count *= number_bits(extent, "u64") or 1
        else:
            count = len(content) // size if content and size else 0
    if content is not None:
        content = content.ljust(min(count * size, _MOST_INITIAL), b"\0")
    return Variable(found[1], space, count * size, max(alignment, 1), content)


def _content(text: str, kind: str) -> bytes | None:
    """Of an initialiser; None where it is not of numbers only."""
    made = b""
    for part in text.replace("{", " ").replace("}", " ").split(","):
        if part.strip():
            bits = number_bits(part.strip(), kind)
            if bits is None:
                return None
            made += bits.to_bytes(16, "little")[: bits_of(kind) // 8]
    return made


def number_bits(text: str, kind: str) -> int | None:
    """The bits of a literal in a type; None for what is no literal."""
    bits = bits_of(kind)
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        single = int(text[2:], 16)
        return (
            single
            if bits != 64
            else _repacked(struct.unpack("<f", single.to_bytes(4, "little"))[0])
        )
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return int(text[2:], 16)
    try:
        return int(_c_integer(text), 0) & (1 << max(bits, 1)) - 1
    except ValueError:
        pass
    try:
        value = float(text)
        return (
            _repacked(value) if bits == 64 else int.from_bytes(struct.pack("<f", value), "little")
        )
    except (ValueError, OverflowError):
        return None


def _repacked(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _c_integer(text: str) -> str:
    """As Python spells it: no ``U``, an octal number with ``0o``."""
    plain = text.rstrip("U").replace(" ", "")
    return re.sub(r"^(-?)0(?=[0-7]+$)", r"\g<1>0o", plain)


def _routine(plain: str, header: re.Match[str], name: str, where: str) -> Routine:
    end = _body_end(plain, header.end())
    if end < 0:
        raise KernelSourceError(f"{where}: the body of {name!r} has no end")
    results, parameters = _formal(header[2])
    body = _Body(where, plain.count("\n", 0, header.end()) + 1)
    body.read(plain[header.end() : end])
    return Routine(
        name, results, parameters, tuple(body.instructions), body.labels, body.tables,
        body.registers, tuple(body.variables),
    )  # fmt: skip


def _formal(text: str) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """Results and parameters of a header."""
    text = text.strip()
    results: tuple[Variable, ...] = ()
    if text.startswith("("):
        close = _closing(text)
        results, text = _listed(text[1:close]), text[close + 1 :]
    start = text.find("(")
    return results, _listed(text[start + 1 : start + _closing(text[start:])]) if start >= 0 else ()


def _listed(text: str) -> tuple[Variable, ...]:
    """``.reg`` parameters are taken as what a ``.param`` would be."""
    parts = (re.sub(r"^\.reg\b", ".param", " ".join(p.split())) for p in split_operands(text))
    return tuple(v for part in parts for v in declared(part))


@dataclass
class _Body:
    """Statements of a body, as they are read; names declared in inner braces get a number."""

    where: str
    line: int
    instructions: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    scopes: list[dict[str, str]] = field(default_factory=list)
    opened: int = 0
    pending: str = ""

    def read(self, text: str) -> None:
        """All statements."""
        statement, first, at = "", self.line, 0
        for mark in _MARK.finditer(text):
            piece = text[at : mark.start()]
            if not statement.strip() and piece.strip():
                first = self.line
            statement += piece
            at = mark.end()
            char = mark[0]
            if char == "\n":
                self.line += 1
                statement += " "
            elif char == ";":
                self.statement(statement.strip(), first)
                statement = ""
            elif statement.strip() and char == ":" and self.labelled(statement.strip()):
                statement = ""
            elif not statement.strip() and char in "{}":
                self.brace(char)
            else:
                statement += char
        if (statement + text[at:]).strip():
            self.statement((statement + text[at:]).strip(), first)

    def brace(self, char: str) -> None:
        if char == "{":
            self.opened += 1
            self.scopes.append({})
        elif self.scopes:
            self.scopes.pop()

    def labelled(self, text: str) -> bool:
        if not _LABEL.match(text):
            return False
        self.labels[text] = len(self.instructions)
        self.pending = text
        return True

    def statement(self, text: str, line: int) -> None:
        if not text:
            return
        if text.startswith("."):
            self.declare(" ".join(text.split()))
            return
        found = _STATEMENT.match(text)
        if not found:
            raise KernelSourceError(f"{self.where}:{line}: not an instruction: {text[:60]!r}")
        guard = (self.unique(found[2]), found[1] == "!") if found[2] else None
        operands = tuple(split_operands(" ".join(self.unique(found[4]).split())))
        self.instructions.append(
            PtxInstruction(len(self.instructions), line, found[3], operands, guard)
        )

    def unique(self, text: str) -> str:
        """With the names of inner scopes as they were made unique."""
        if not any(self.scopes):
            return text

        def renamed(found: re.Match[str]) -> str:
            return next((s[found[0]] for s in reversed(self.scopes) if found[0] in s), found[0])

        return _NAME.sub(renamed, text)

    def declare(self, text: str) -> None:
        if text.startswith((".branchtargets", ".calltargets")):
            self.tables[self.pending] = tuple(split_operands(text.partition(" ")[2]))
        elif text.startswith(".reg"):
            self.register(text)
        else:
            self.variables += [_renamed(v, self.own(v.name)) for v in declared(text)]

    def register(self, text: str) -> None:
        found = _REGISTERS.match(text)
        if found is None:
            return
        for part in split_operands(found[2]):
            name, several, _ = part.partition("<")
            self.registers[name.strip() if several else self.own(name.strip())] = found[1]

    def own(self, name: str) -> str:
        """The name under which an inner scope's variable is known."""
        if not self.scopes:
            return name
        self.scopes[-1][name] = f"{name}$in{self.opened}"
        return self.scopes[-1][name]


def _renamed(variable: Variable, name: str) -> Variable:
    v = variable
    return Variable(name, v.space, v.size, v.alignment, v.content)
