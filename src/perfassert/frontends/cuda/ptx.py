"""PTX text: the instructions of one kernel, and what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from perfassert.frontends.cuda.control_flow import EXIT, Flow, Jump, analyse
from perfassert.frontends.cuda.evaluate import Read
from perfassert.frontends.cuda.ptx_text import (
    SPACES,
    PtxInstruction,
    Routine,
    Variable,
    parse_module,
)
from perfassert.kernel.symbols import Symbols, Value

_REGISTER = re.compile(r"%[\w$]+(?:\.[xyz])?")
_ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\s*\w+))?\s*\]")
_SPECIAL = {"%tid": "threadIdx", "%ctaid": "blockIdx", "%ntid": "blockDim", "%nctaid": "gridDim"}
_MEMORY = ("ld", "st", "atom", "red", "ldu", "prefetch")
_TYPE_BYTES = re.compile(r"^[usbf](\d+)$")
_RELATIONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Memory:
    """What a memory instruction touches; ``bytes`` of one thread."""

    space: str
    store: bool
    bytes: int
    atomic: bool = False


@dataclass(frozen=True)
class PtxKernel:
    """The body of an entry: instructions, labels (instruction they stand before), parameters."""

    name: str
    instructions: tuple[PtxInstruction, ...]
    labels: Mapping[str, int]
    parameters: tuple[str, ...]
    variables: frozenset[str] = field(default=frozenset())
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def flow(self) -> Flow:
        """The control-flow graph."""
        jumps: dict[int, Jump] = {}
        for instruction in self.instructions:
            root = instruction.parts[0]
            conditional = instruction.guard is not None
            if root == "bra":
                target = self.labels.get("".join(instruction.operands[-1:]), EXIT)
                jumps[instruction.index] = Jump((target,), conditional)
            elif root in ("ret", "exit", "trap"):
                jumps[instruction.index] = Jump((EXIT,), conditional)
            elif root == "brx":
                named = self.tables.get("".join(instruction.operands[1:2]), self.labels)
                targets = {self.labels[t] for t in named if t in self.labels}
                jumps[instruction.index] = Jump(tuple(sorted(targets)), conditional)
        return analyse(len(self.instructions), jumps, tuple(self.labels.values()))


def memory_of(instruction: PtxInstruction) -> Memory | None:
    """What the instruction touches, if it is one of memory."""
    parts = instruction.parts
    if parts[0] == "cp" and parts[1:2] == ["async"] and len(instruction.operands) >= 3:
        copied = instruction.operands[2]
        return Memory("global", False, int(copied) if copied.isdecimal() else 16)
    if parts[0] not in _MEMORY:
        return None
    space = next((p.partition("::")[0] for p in parts if p.partition("::")[0] in SPACES), "generic")
    found = _TYPE_BYTES.match(parts[-1])
    size = int(found[1]) // 8 if found else 4
    size *= 4 if "v4" in parts else 2 if "v2" in parts else 8 if "v8" in parts else 1
    atomic = parts[0] in ("atom", "red")
    return Memory(space, parts[0] in ("st", "red", "atom"), size, atomic)


def parse_ptx(text: str, kernel: str, name: str) -> PtxKernel:
    """One entry of a PTX text; ``name`` is what errors call the text.

    Raises :class:`KernelSourceError` where the entry is missing or its body does not end.
    """
    module = parse_module(text, kernel, name)
    return kernel_of(module.entry, module.variables)


def kernel_of(routine: Routine, more: Iterable[Variable]) -> PtxKernel:
    """A routine as one that can be evaluated; ``more``: the module's variables."""
    held = [v for v in routine.variables if v.space != "param"]
    return PtxKernel(
        routine.name,
        routine.instructions,
        routine.labels,
        tuple(p.name for p in routine.parameters),
        frozenset(v.name for v in (*held, *more)),
        routine.tables,
    )


class PtxCode:
    """A kernel as the evaluation sees it; parameters are variables ``arg:<index>``."""

    def __init__(self, kernel: PtxKernel, symbols: Symbols) -> None:
        self.kernel = kernel
        self.symbols = symbols
        self.flow = kernel.flow
        self._parameters = {p: i for i, p in enumerate(kernel.parameters)}
        self._memory = [memory_of(i) for i in kernel.instructions]
        self._defs = [self._targets(i) for i in kernel.instructions]

    def _targets(self, instruction: PtxInstruction) -> tuple[str, ...]:
        root = instruction.parts[0]
        if root in _EFFECTS or not instruction.operands:
            return ()
        if root == "call":
            return tuple(_REGISTER.findall(instruction.operands[0]))
        return tuple(_REGISTER.findall(instruction.operands[0].replace("|", " ")))

    def defines(self, index: int) -> Sequence[str]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        return self._defs[index]

    def uses(self, index: int) -> Sequence[str]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        instruction = self.kernel.instructions[index]
        memory = self._memory[index]
        if memory is not None:
            return ()  # what is loaded is unknown, whatever the address
        used = _REGISTER.findall(" ".join(instruction.operands[1:]))
        if instruction.guard:
            used += [instruction.guard[0], *self._defs[index]]
        return used

    def roots(self, index: int) -> Sequence[str]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        instruction = self.kernel.instructions[index]
        memory = self._memory[index]
        found: list[str] = [instruction.guard[0]] if instruction.guard else []
        if memory is not None and memory.space != "param":
            for operand in instruction.operands:
                if operand.startswith("["):
                    found += _REGISTER.findall(operand)
        return found

    def guards(self, index: int) -> Sequence[tuple[str, bool]]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        guard = self.kernel.instructions[index].guard
        return (guard,) if guard else ()

    def addresses(self, index: int, read: Read) -> tuple[Value, ...]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        memory = self._memory[index]
        if memory is None or memory.space == "param":
            return ()
        instruction = self.kernel.instructions[index]
        found = [o for o in instruction.operands if o.startswith("[")]
        values = tuple(self._address(o, read) for o in found)
        return values[::-1] if instruction.parts[0] == "cp" else values  # the global one first

    def _address(self, operand: str, read: Read) -> Value:
        found = _ADDRESS.match(operand)
        if not found:
            return self.symbols.unknown(f"address {operand}")
        base = self.operand(found[1], read)
        try:
            offset = int(found[2].replace(" ", ""), 0) if found[2] else 0
        except ValueError:
            return self.symbols.unknown(f"address {operand}")
        return self.symbols.add(base, self.symbols.number(offset))

    def operand(self, text: str, read: Read) -> Value:
        """The value of a register, a number, a special register or an array's address."""
        s = self.symbols
        if text.startswith("%"):
            name, _, axis = text.partition(".")
            if axis and name in _SPECIAL:
                return s.variable(f"{_SPECIAL[name]}.{axis}")
            if name in ("%laneid", "%warpid"):
                return s.variable(name[1:])
            return read(text)
        if text in self._parameters:
            return s.variable(f"arg:{self._parameters[text]}")
        if text in self.kernel.variables:
            return s.variable(f"array:{text}")
        try:
            return s.number(int(text.rstrip("U"), 0))
        except ValueError:
            return s.unknown(f"operand {text}")

    def execute(self, index: int, read: Read) -> Mapping[str, Value]:
        """See :class:`~perfassert.frontends.cuda.evaluate.Code`."""
        try:
            return self._executed(index, read)
        except (IndexError, TypeError, ValueError):  # an operand list that this form does not know
            return {}

    def _executed(self, index: int, read: Read) -> Mapping[str, Value]:
        instruction = self.kernel.instructions[index]
        parts = instruction.parts
        memory = self._memory[index]
        if memory is not None:
            return self._loaded(instruction, memory, read)
        targets = self._defs[index]
        if parts[0] == "mov" and instruction.operands[0].startswith("{"):
            return self._unpacked(instruction, read)
        if parts[0] == "setp":
            return self._compared(instruction, read)
        function = _SEMANTICS.get(parts[0])
        if function is None or not targets or parts[-1] in _FLOATS:
            return {}
        if any("{" in o for o in instruction.operands):
            return self._packed(instruction, read)
        arguments = [self.operand(o, read) for o in instruction.operands[1:]]
        value = function(self.symbols, parts, arguments)
        return {} if value is None else {targets[0]: value}

    def _loaded(
        self, instruction: PtxInstruction, memory: Memory, read: Read
    ) -> Mapping[str, Value]:
        s = self.symbols
        targets = self._defs[instruction.index]
        if memory.space == "param":
            found = _ADDRESS.match(instruction.operands[-1])
            if found and found[1] in self._parameters and targets:
                offset = int(found[2].replace(" ", ""), 0) if found[2] else 0
                name = f"arg:{self._parameters[found[1]]}" + (f"+{offset}" if offset else "")
                if len(targets) == 1:
                    return {targets[0]: s.variable(name)}
            return {}
        return {t: s.unknown(f"load {instruction.index}.{i}") for i, t in enumerate(targets)}

    def _unpacked(self, instruction: PtxInstruction, read: Read) -> Mapping[str, Value]:
        s = self.symbols
        targets = self._defs[instruction.index]
        if len(targets) != 2 or not instruction.parts[-1].endswith("64"):
            return {}
        value = self.operand(instruction.operands[1], read)
        return {targets[0]: value, targets[1]: s.unknown(f"high word at {instruction.index}")}

    def _packed(self, instruction: PtxInstruction, read: Read) -> Mapping[str, Value]:
        words = _REGISTER.findall(instruction.operands[1])
        if instruction.opcode != "mov.b64" or not words:
            return {}
        return {self._defs[instruction.index][0]: read(words[0])}

    def _compared(self, instruction: PtxInstruction, read: Read) -> Mapping[str, Value]:
        s = self.symbols
        parts, targets = instruction.parts, self._defs[instruction.index]
        if parts[-1] in _FLOATS or parts[1] not in _RELATIONS:
            return {}
        left, right = (self.operand(o, read) for o in instruction.operands[1:3])
        result = s.compare(_RELATIONS[parts[1]], left, right)
        other = s.negated(result)
        if len(instruction.operands) > 3:
            third = instruction.operands[3]
            extra = read(third.lstrip("!"))
            extra = s.negated(extra) if third.startswith("!") else extra
            join = {"and": s.both, "or": s.either}.get(parts[2])
            if join is None:
                return {}
            result, other = join(result, extra), join(other, extra)
        return dict(zip(targets, (result, other), strict=False))


_EFFECTS = frozenset(
    "st red bar barrier bra ret exit trap brx membar fence cp prefetch prefetchu nanosleep "
    "bssy bsync break bclear warpsync pragma discard mbarrier wgmma tcgen05 setmaxnreg "
    "griddepcontrol stmatrix".split()
)
_FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32"))
_Semantics = Callable[[Symbols, list[str], list[Value]], "Value | None"]


def _bits(parts: list[str]) -> int:
    return min(int(parts[-1][1:]), 64)


def _multiplied(s: Symbols, parts: list[str], v: list[Value]) -> Value | None:
    if ("hi" in parts or "wide" in parts) and parts[-1] == "u32":
        v = [s.unsigned(v[0]), s.unsigned(v[1]), *v[2:]]
    product = s.mul(v[0], v[1])
    if "hi" in parts:
        product = s.div(product, s.number(1 << _bits(parts)))
    return product


def _multiply_add(s: Symbols, parts: list[str], v: list[Value]) -> Value | None:
    product = _multiplied(s, parts, v)
    return None if product is None else s.add(product, v[2])


def _converted(s: Symbols, parts: list[str], v: list[Value]) -> Value | None:
    if any(p in _FLOATS for p in parts):
        return None
    target, source = parts[-2], parts[-1]
    if target in ("u8", "u16") and int(source[1:]) > int(target[1:]):
        return s.mod(v[0], s.number(1 << int(target[1:])))
    return v[0]


def _shifted_right(s: Symbols, parts: list[str], v: list[Value]) -> Value:
    amount = v[1].constant
    if amount is None:
        return s.shift_right(v[0], v[1])
    signed = parts[-1][0] == "s"
    bits = _bits(parts)
    if amount == bits - 1:
        return s.scale(s.negative(v[0]), -1) if signed else s.negative(v[0])
    if signed or bits != 32:
        return s.shift_right(v[0], v[1])
    return s.logical_right(v[0], amount)


def _truncated(s: Symbols, parts: list[str], v: list[Value]) -> Value:
    """C's division; the same as floor division for what is not negative."""
    return s.div(v[0], v[1])


def _extracted(s: Symbols, parts: list[str], v: list[Value]) -> Value | None:
    if parts[-1][0] != "u" or v[2].constant is None or not 0 <= v[2].constant <= 64:
        return None
    return s.mod(s.shift_right(v[0], v[1]), s.number(1 << v[2].constant))


_SEMANTICS: dict[str, _Semantics] = {
    "mov": lambda s, p, v: v[0],
    "cvta": lambda s, p, v: v[0],
    "add": lambda s, p, v: s.add(v[0], v[1]),
    "sub": lambda s, p, v: s.sub(v[0], v[1]),
    "neg": lambda s, p, v: s.scale(v[0], -1),
    "mul": _multiplied,
    "mul24": _multiplied,
    "mad": _multiply_add,
    "shl": lambda s, p, v: s.shift_left(v[0], v[1]),
    "shr": _shifted_right,
    "and": lambda s, p, v: s.both(*v) if p[-1] == "pred" else s.bit_and(*v),
    "or": lambda s, p, v: s.either(*v) if p[-1] == "pred" else s.bit_or(*v),
    "xor": lambda s, p, v: s.compare("!=", *v) if p[-1] == "pred" else s.bit_xor(*v),
    "not": lambda s, p, v: s.negated(v[0]) if p[-1] == "pred"
    else s.add(s.scale(v[0], -1), s.number(-1)),
    "min": lambda s, p, v: s.minimum(v[0], v[1]),
    "max": lambda s, p, v: s.maximum(v[0], v[1]),
    "abs": lambda s, p, v: s.maximum(v[0], s.scale(v[0], -1)),
    "selp": lambda s, p, v: s.select(v[2], v[0], v[1]),
    "div": _truncated,
    "rem": lambda s, p, v: s.sub(v[0], s.mul(v[1], s.div(v[0], v[1]))),
    "cvt": _converted,
    "bfe": _extracted,
}  # fmt: skip
