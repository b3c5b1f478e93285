"""A reference interpreter of PTX: executes one block and records what each thread did.

An oracle for tests; it shares nothing with the package. Clarity over speed: every thread is a
generator that runs until it must meet others (a barrier, a shuffle, a vote), and threads of a
block take turns in the order of their linear index, so atomics have a fixed order.

Where things lie
    global    absolute addresses: pointer arguments as passed; ``.global`` variables of the
              module follow each other from ``GLOBAL_VARIABLES``.
    shared    offsets in the window of the block: the ``.shared`` variables that the entry and
              the functions it reaches mention or declare, in order of declaration in the text,
              each at its alignment; unsized (``.extern``) ones all start behind the last
              (``shared_layout``).
    local     offsets in the window of the thread; const: the module's ``.const`` variables in
              order; param: the function's own parameters (results first), then ``.param``
              variables of its body, each at its alignment.
    generic   addresses of these spaces lie in ``WINDOWS``; all others are global.

Simplifications: f32 and f16 arithmetic is done in float64 and rounded once (an fma may be off by
a last bit), approximate functions are exact, rounding modes matter in conversions to integers
only; caches, memory order and asynchrony do not exist (``cp.async`` copies at once).
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

GLOBAL_VARIABLES = 0x7F00_0000_0000
WINDOWS = {"shared": 1 << 56, "local": 2 << 56, "param": 3 << 56, "const": 4 << 56}
_WINDOW_BYTES = 1 << 32
_WARP = 32
_SPACES = ("global", "shared", "local", "param", "const")

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Step:
    """One instruction as one thread executed it (its guard, if any, was true)."""

    line: int
    """1-based line of the instruction in the PTX text."""
    opcode: str
    """In full: ``ld.global.nc.f32``."""
    space: str | None
    """For memory instructions the state space (generic addresses resolved), else None.
    ``cp.async`` makes two steps of one line, the global read and then the shared write."""
    address: int | None
    """In bytes, see the module docstring."""
    bytes: int
    """Accessed by this thread, all elements of a vector together."""
    block: int
    """Number of the basic block, unique in the module."""


def trace(
    ptx: str,
    entry: str,
    args: Sequence[int | float | bytes],
    grid: int | Sequence[int],
    block: int | Sequence[int],
    block_index: int | Sequence[int] = 0,
    thread_index: Sequence[int] | Iterable[Sequence[int]] | None = None,
    memory: Memory | None = None,
    max_steps: int = 200_000,
) -> dict[Index, list[Step]]:
    """Execute one block of ``entry`` and return the steps of its threads by (x, y, z).

    ``thread_index`` (one index, or several) restricts the result; where threads have nothing
    to do with each other, only these are executed. ``memory`` is global memory before and
    after; ``max_steps`` per thread guards against endless loops. What it does not know raises
    NotImplementedError by decision: an oracle that guesses is none.
    """
    module = parse(ptx)
    launch = _Launch(module, entry, _three(grid, 1), _three(block, 1), _three(block_index, 0))
    launch.max_steps = max_steps
    launch.memory["global"] = memory if memory is not None else Memory()
    chosen = list(launch.threads()) if thread_index is None else _indices(thread_index)
    alone = not launch.layout and not launch.meets
    launch.run(args, chosen if alone else list(launch.threads()))
    return {index: launch.steps[index] for index in chosen}


def shared_layout(ptx: str, entry: str) -> dict[str, int]:
    """The offset of every shared variable of an entry in the window of its block."""
    return dict(_Launch(parse(ptx), entry, (1, 1, 1), (1, 1, 1), (0, 0, 0)).layout)


def small_integer(address: int, size: int) -> int:
    """Initial content of global memory: an integer below 64, a hash of its address."""
    return ((address * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 40) % 64


class Memory:
    """Sparse bytes, little-endian; ``initial(address, bytes)`` is what was never written."""

    def __init__(self, initial: Callable[[int, int], int] = small_integer) -> None:
        self._initial = initial
        self._bytes: dict[int, int] = {}

    def read(self, address: int, size: int) -> int:
        places = range(address, address + size)
        if any(place not in self._bytes for place in places):
            self.preset(address, _bytes(self._initial(address, size), size))
        return int.from_bytes(bytes(self._bytes[place] for place in places), "little")

    def write(self, address: int, size: int, value: int) -> None:
        self._bytes.update(enumerate(_bytes(value, size), address))

    def preset(self, address: int, content: bytes) -> None:
        """Fill in bytes that were neither read nor written before."""
        for place, byte in enumerate(content, address):
            self._bytes.setdefault(place, byte)

    def store(self, address: int, kind: str, values: Iterable[int | float]) -> None:
        """Write an array of PTX type ``kind`` (``"f32"``, ``"s32"``, …)."""
        size = _WIDTH[kind] // 8
        for i, value in enumerate(values):
            self.write(address + i * size, size, encode(value, kind))

    def load(self, address: int, kind: str, count: int) -> list[int | float]:
        """Read an array of PTX type ``kind``."""
        size = _WIDTH[kind] // 8
        return [decode(self.read(address + i * size, size), kind) for i in range(count)]


def _bytes(value: int, size: int) -> bytes:
    return (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _three(extent: int | Sequence[int], fill: int) -> Index:
    values = (extent,) if isinstance(extent, int) else tuple(int(e) for e in extent)
    x, y, z = (*values, fill, fill, fill)[:3]
    return x, y, z


def _indices(index: Sequence[int] | Iterable[Sequence[int]]) -> list[Index]:
    many = list(index)
    if all(isinstance(i, int) for i in many):
        return [_three(many, 0)]
    return [_three(one, 0) for one in many]


# ---- numbers: a register holds bits, a type says what they mean -----------------------------

_WIDTH = {f"{kind}{width}": width for kind in "bus" for width in (8, 16, 32, 64)}
_WIDTH |= {"b128": 128, "pred": 1, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_WIDTH |= {"f16x2": 32, "bf16x2": 32, "s16x2": 32, "u16x2": 32}
_FLOAT_FORMAT = {"f16": "<e", "f32": "<f", "f64": "<d"}


def _is_float(kind: str) -> bool:
    return kind[0] == "f" or kind.startswith("bf")


def decode(bits: int, kind: str) -> int | float:
    """The number that the lowest bits are in type ``kind``."""
    width = _WIDTH[kind]
    bits &= (1 << width) - 1
    if kind == "bf16":
        return decode(bits << 16, "f32")
    if kind in _FLOAT_FORMAT:
        return struct.unpack(_FLOAT_FORMAT[kind], bits.to_bytes(width // 8, "little"))[0]
    return bits - (1 << width) if kind[0] == "s" and bits >> width - 1 else bits


def encode(value: int | float, kind: str) -> int:
    """The bits of a number, wrapped or rounded to ``kind``; signed ones extended to 64 bits."""
    if kind == "bf16":
        bits = encode(value, "f32")
        return bits + 0x7FFF + (bits >> 16 & 1) >> 16 if value == value else 0x7FFF
    if kind in _FLOAT_FORMAT:
        try:
            return int.from_bytes(struct.pack(_FLOAT_FORMAT[kind], value), "little")
        except OverflowError:
            return encode(math.copysign(math.inf, value), kind)
    wrapped = int(value) & (1 << _WIDTH[kind]) - 1
    return int(decode(wrapped, kind)) & (1 << 64) - 1 if kind[0] == "s" else wrapped


def _limits(kind: str) -> tuple[int, int]:
    width = _WIDTH[kind]
    return (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return a if a != a else math.nan if not a else math.copysign(math.inf, a) * math.copysign(1, b)


def _square_root(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def _power_of_two(a: float) -> float:
    return math.inf if a >= 1024 else 2.0**a


def _logarithm(a: float) -> float:
    return math.log2(a) if a > 0 else -math.inf if a == 0 else math.nan


def _fused(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return math.copysign(math.inf, exact.numerator)


def _number_first(choose: Callable[..., float]) -> Callable[..., float]:
    def chosen(*values: float) -> float:
        return choose([v for v in values if v == v] or [math.nan])

    return chosen


_FLOAT: dict[str, Callable[..., float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divide,
    "fma": _fused, "mad": _fused, "abs": abs, "neg": operator.neg,
    "min": _number_first(min), "max": _number_first(max),
    "rcp": lambda a: _divide(1.0, a), "sqrt": _square_root,
    "rsqrt": lambda a: _divide(1.0, _square_root(a)),
    "sin": lambda a: math.sin(a) if math.isfinite(a) else math.nan,
    "cos": lambda a: math.cos(a) if math.isfinite(a) else math.nan,
    "ex2": _power_of_two, "lg2": _logarithm, "tanh": math.tanh,
    "copysign": lambda a, b: math.copysign(b, a),
}  # fmt: skip


def _quotient(a: int, b: int) -> int:
    """Rounded towards zero; by zero all bits are set, as the hardware has it."""
    if not b:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "div": _quotient,
    "rem": lambda a, b: a - b * _quotient(a, b) if b else a,
    "min": lambda *v: min(v), "max": lambda *v: max(v), "abs": abs, "neg": operator.neg,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
    "cnot": lambda a: int(a == 0), "sad": lambda a, b, c: c + abs(a - b),
}  # fmt: skip


# ---- instructions whose result depends on their operands only -------------------------------


def _arithmetic(ins: Instruction, *raw: int) -> int:
    kind = ins.type
    if kind.endswith("x2"):
        low, high = (
            _arithmetic(ins.typed(kind[:-2]), *(r >> shift for r in raw)) for shift in (0, 16)
        )
        return low & 0xFFFF | (high & 0xFFFF) << 16
    values = [decode(r, kind) for r in raw]
    if not _is_float(kind):
        result: float = _INTEGER[ins.op](*values)
        if "sat" in ins.modifiers:
            lowest, highest = _limits(kind)
            result = min(max(result, lowest), highest)
        return encode(result, kind)
    flush = "ftz" in ins.modifiers
    result = _FLOAT[ins.op](*map(_flushed, values) if flush else values)
    if "sat" in ins.modifiers:
        result = min(max(result, 0.0), 1.0) if result == result else 0.0
    return encode(_flushed(result) if flush else result, kind)


def _flushed(value: float) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def _product(ins: Instruction, a: int, b: int, c: int = 0) -> int:
    """``mul`` and ``mad`` of integers (``lo``, ``hi``, ``wide``), and all of floats."""
    kind = ins.type
    if _is_float(kind):
        return _arithmetic(ins, a, b, c) if ins.op == "mad" else _arithmetic(ins, a, b)
    width = _WIDTH[kind]
    product = int(decode(a, kind)) * int(decode(b, kind))
    if "wide" in ins.modifiers:
        wide = f"{kind[0]}{2 * width}"
        return encode(product + decode(c, wide), wide)
    return encode((product >> width if "hi" in ins.modifiers else product) + c, kind)


def _product24(ins: Instruction, a: int, b: int, c: int = 0) -> int:
    signed = ins.type[0] == "s"
    x, y = (v & 0xFFFFFF for v in (a, b))
    if signed:
        x, y = (v - (1 << 24) if v >> 23 else v for v in (x, y))
    return encode((x * y >> (16 if "hi" in ins.modifiers else 0)) + c, ins.type)


def _shift(ins: Instruction, a: int, amount: int) -> int:
    places = min(amount & 0xFFFFFFFF, _WIDTH[ins.type])
    value = int(decode(a, ins.type))
    return encode(value << places if ins.op == "shl" else value >> places, ins.type)


def _funnel(ins: Instruction, a: int, b: int, c: int) -> int:
    c &= 0xFFFFFFFF
    places = c & 31 if "wrap" in ins.modifiers else min(c, 32)
    both = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    return (both << places >> 32 if "l" in ins.modifiers else both >> places) & 0xFFFFFFFF


def _extract(ins: Instruction, a: int, position: int, length: int) -> int:
    position, length, width = position & 0xFF, length & 0xFF, _WIDTH[ins.type]
    value = int(decode(a, ins.type))
    part = value >> min(position, width) & (1 << length) - 1
    sign = value >> min(position + length - 1, width - 1) & 1 if length else 0
    return encode(part - (1 << length) if ins.type[0] == "s" and sign else part, ins.type)


def _insert(ins: Instruction, a: int, b: int, position: int, length: int) -> int:
    hole = (1 << (length & 0xFF)) - 1 << (position & 0xFF)
    return encode(b & ~hole | a << (position & 0xFF) & hole, ins.type)


def _find_highest(ins: Instruction, a: int) -> int:
    value = int(decode(a, ins.type))
    place = (~value if value < 0 else value).bit_length() - 1
    if "shiftamt" in ins.modifiers and place >= 0:
        place = _WIDTH[ins.type] - 1 - place
    return place & 0xFFFFFFFF


def _reverse(ins: Instruction, a: int) -> int:
    width = _WIDTH[ins.type]
    return int(f"{int(decode(a, ins.type)):0{width}b}"[::-1], 2)


def _permute(ins: Instruction, a: int, b: int, selector: int) -> int:
    if ins.modifiers[-2:-1]:
        raise ins.unknown()
    source = _bytes(a, 4) + _bytes(b, 4)
    result = bytearray()
    for nibble in (selector >> 4 * i & 0xF for i in range(4)):
        byte = source[nibble & 7]
        result.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
    return int.from_bytes(result, "little")


def _lookup(ins: Instruction, a: int, b: int, c: int, table: int) -> int:
    result = 0
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result & 0xFFFFFFFF


def _convert(ins: Instruction, *raw: int) -> int:
    target, source = ins.modifiers[-2:]
    if "pack" in ins.modifiers:
        raise ins.unknown()
    if target.endswith("x2"):
        high, low = (encode(decode(r, source), target[:-2]) for r in raw)
        return low | high << 16
    value = decode(raw[0], source)
    if isinstance(value, float):
        value = _rounded(value, ins.modifiers)
        if not _is_float(target):
            return encode(_clamped(value, target), target)
        if "sat" in ins.modifiers:
            value = min(max(value, 0.0), 1.0) if value == value else 0.0
        return encode(_flushed(value) if "ftz" in ins.modifiers else value, target)
    if "sat" in ins.modifiers and not _is_float(target):
        value = _clamped(value, target)
    return encode(value, target)


def _rounded(value: float, modifiers: Sequence[str]) -> float:
    rounding = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    for name, function in rounding.items():
        if name in modifiers and math.isfinite(value):
            return math.copysign(float(function(value)), value)
    return value


def _clamped(value: float, kind: str) -> int:
    lowest, highest = _limits(kind)
    if value != value:
        return 0 if _WIDTH[kind] < 64 else 1 << 63
    return lowest if value <= lowest else highest if value >= highest else int(value)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_COMBINE: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


def _compare(ins: Instruction, a: int, b: int) -> bool:
    name, (x, y) = ins.modifiers[0], (decode(v, ins.type) for v in (a, b))
    if "ftz" in ins.modifiers:
        x, y = _flushed(x), _flushed(y)
    ordered = x == x and y == y
    if name in ("num", "nan"):
        return ordered == (name == "num")
    if name not in _COMPARE:
        return not ordered or _COMPARE[name[:-1]](x, y)
    return ordered and _COMPARE[name](x, y)


def _combined(ins: Instruction, holds: bool, other: Sequence[int]) -> int:
    return _COMBINE[ins.modifiers[1]](int(holds), other[0] & 1) if other else int(holds)


def _set(ins: Instruction, a: int, b: int, *c: int) -> int:
    target = ins.modifiers[-2]
    holds = _combined(ins, _compare(ins, a, b), c)
    return encode(float(holds) if _is_float(target) else -holds, target)


def _select_by_sign(ins: Instruction, a: int, b: int, c: int) -> int:
    return a if decode(c, ins.type) >= 0 else b


def _dot4(ins: Instruction, a: int, b: int, c: int) -> int:
    kinds = [f"{kind[0]}8" for kind in ins.modifiers[-2:]]
    pairs = ((decode(a >> s, kinds[0]), decode(b >> s, kinds[1])) for s in (0, 8, 16, 24))
    return encode(sum(x * y for x, y in pairs) + c, "u32")


def _test_property(ins: Instruction, a: int) -> int:
    value = decode(a, ins.type)
    smallest = {"f32": 2.0**-126, "f64": 2.0**-1022}[ins.type]
    return {
        "finite": math.isfinite(value), "infinite": math.isinf(value),
        "number": value == value, "notanumber": value != value,
        "normal": math.isfinite(value) and abs(value) >= smallest,
        "subnormal": 0 < abs(value) < smallest,
    }[ins.modifiers[0]]  # fmt: skip


def _to_address(ins: Instruction, a: int) -> int:
    window = WINDOWS.get(ins.space or "", 0)
    return (a - window if "to" in ins.modifiers else a + window) & (1 << 64) - 1


def _in_space(ins: Instruction, a: int) -> int:
    return int(_generic(a)[0] == ins.space)


def _generic(address: int) -> tuple[str, int]:
    """Space and offset of a generic address."""
    for space, base in WINDOWS.items():
        if base <= address < base + _WINDOW_BYTES:
            return space, address - base
    return "global", address


_PURE: dict[str, Callable[..., int]] = {
    **dict.fromkeys({*_FLOAT, *_INTEGER}, _arithmetic),
    "mul": _product, "mad": _product, "mul24": _product24, "mad24": _product24,
    "shl": _shift, "shr": _shift, "shf": _funnel, "bfe": _extract, "bfi": _insert,
    "bfind": _find_highest, "brev": _reverse, "prmt": _permute, "lop3": _lookup,
    "popc": lambda ins, a: f"{int(decode(a, ins.type)):b}".count("1"),
    "clz": lambda ins, a: _WIDTH[ins.type] - int(decode(a, ins.type)).bit_length(),
    "cvt": _convert, "set": _set, "slct": _select_by_sign, "dp4a": _dot4,
    "selp": lambda ins, a, b, p: a if p & 1 else b,
    "testp": _test_property, "cvta": _to_address, "isspacep": _in_space,
}  # fmt: skip


# ---- the text ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatLiteral:
    """``0f…``, ``0d…`` or a decimal fraction; its bits follow the instruction's type."""

    value: float
    bits: int

    def as_type(self, kind: str | None) -> int:
        return encode(self.value, kind) if kind and kind in _FLOAT_FORMAT else self.bits


@dataclass(frozen=True)
class Address:
    """``[base + offset]``, or ``base + offset`` of a ``mov``."""

    base: Any
    offset: int


@dataclass(frozen=True)
class Negated:
    """``!p``."""

    operand: str


@dataclass(frozen=True)
class Pair:
    """``d|p``: two destinations."""

    first: str
    second: str


@dataclass(frozen=True)
class Instruction:
    """One instruction; operands are names, ints, literals, vectors (tuples) or addresses."""

    line: int
    opcode: str
    guard: tuple[str, bool] | None
    """Predicate, and whether it is negated."""
    operands: tuple[Any, ...]
    block: int

    @cached_property
    def op(self) -> str:
        return self.opcode.split(".")[0]

    @cached_property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @cached_property
    def type(self) -> str:
        """The last type in the opcode; empty where there is none."""
        return next((m for m in reversed(self.modifiers) if m in _WIDTH), "")

    @cached_property
    def space(self) -> str | None:
        return next((m.split("::")[0] for m in self.modifiers if m.split("::")[0] in _SPACES), None)

    @cached_property
    def step(self) -> Step:
        return Step(self.line, self.opcode, None, None, 0, self.block)

    def typed(self, kind: str) -> Instruction:
        opcode = ".".join([self.op, *(m for m in self.modifiers if m not in _WIDTH), kind])
        return Instruction(self.line, opcode, self.guard, self.operands, self.block)

    def unknown(self) -> NotImplementedError:
        return NotImplementedError(f"{self.opcode} (line {self.line})")


@dataclass(frozen=True)
class Variable:
    """A variable or parameter; ``count`` is None where it is unsized."""

    name: str
    space: str
    type: str
    count: int | None
    alignment: int
    initial: tuple[Any, ...]
    line: int

    @property
    def bytes(self) -> int:
        return _WIDTH[self.type] // 8 * (self.count or 0)


@dataclass
class Function:
    """An ``.entry`` or ``.func`` with a body, or only the declaration of one."""

    name: str
    results: list[Variable]
    parameters: list[Variable]
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    registers: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    defined: bool = False


@dataclass
class Module:
    """What a PTX text holds."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)


Tokens = list[tuple[str, int]]
_BRANCHES = ("bra", "brx", "ret", "exit", "trap")
_TOKEN = re.compile(r'"[^"\n]*"|(?:[\w$%.]|::)+|[^\s\w]|\n')
_LINE_DIRECTIVE = re.compile(
    r"^[ \t]*(\.(loc|file|version|target|address_size)\b|@@DWARF).*$", re.M
)


@lru_cache(maxsize=16)
def parse(ptx: str) -> Module:
    """Read a module; unknown opcodes are an error only when they are executed."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    text = re.sub(r"/\*.*?\*/", blank, ptx.rstrip("\0"), flags=re.S)
    text = _LINE_DIRECTIVE.sub("", re.sub(r"//.*", "", text))
    text = re.sub(r"\.section[^{]*\{[^}]*\}", blank, text)
    module, line, tokens = Module(), 1, []
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
        else:
            tokens.append((token, line))
    stream = iter(tokens)
    while header := _header(stream):
        _declare(module, header, stream)
    return module


def _header(stream: Iterator[tuple[str, int]]) -> Tokens:
    """Tokens up to and with ``;``, or the ``{`` that opens a body."""
    taken: Tokens = []
    initialised = False
    for token in stream:
        taken.append(token)
        initialised |= token[0] == "="
        if token[0] == ";" or (token[0] == "{" and not initialised):
            break
    return taken


def _declare(module: Module, header: Tokens, stream: Iterator[tuple[str, int]]) -> None:
    words = [word for word, _ in header]
    if ".entry" not in words and ".func" not in words:
        module.variables += _variables(header[:-1])
        return
    at = words.index(".entry" if ".entry" in words else ".func") + 1
    results: list[Variable] = []
    if words[at] == "(":
        results, at = _parameters(header, at)
    name, at = words[at], at + 1
    parameters = _parameters(header, at)[0] if words[at] == "(" else []
    function = Function(name, results, parameters)
    if words[-1] == "{":
        first = max((f.code[-1].block + 1 for f in module.functions.values() if f.code), default=0)
        _body(function, stream, first)
    elif name in module.functions:
        return
    module.functions[name] = function


def _parameters(header: Tokens, at: int) -> tuple[list[Variable], int]:
    end = next(i for i in range(at, len(header)) if header[i][0] == ")")
    return [v for part in _split(header[at + 1 : end]) for v in _variables(part)], end + 1


def _split(tokens: Tokens) -> list[Tokens]:
    """Split at the commas outside brackets."""
    parts: list[Tokens] = [[]]
    depth = 0
    for token in tokens:
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if token[0] == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _variables(tokens: Tokens) -> list[Variable]:
    """Variables of one declaration; none where it declares something else."""
    space = kind = None
    alignment, lanes, pointer, at = 0, 1, False, 0
    while at < len(tokens) and tokens[at][0].startswith("."):
        word = tokens[at][0][1:]
        at += 1
        pointer |= word == "ptr"
        if word == "align":
            alignment = alignment if pointer else int(tokens[at][0])
            at += 1
        elif word in ("v2", "v4"):
            lanes = int(word[1])
        elif word in _WIDTH:
            kind = word
        elif word.split("::")[0] in (*_SPACES, "reg") and not pointer:
            space = word.split("::")[0]
        elif word == "attribute":
            at += 3
    if space is None or kind is None:
        return []
    size = lanes * max(_WIDTH[kind] // 8, 1)
    return [_variable(part, space, kind, lanes, alignment or size) for part in _split(tokens[at:])]


def _variable(part: Tokens, space: str, kind: str, lanes: int, alignment: int) -> Variable:
    words = [word for word, _ in part]
    equals = words.index("=") if "=" in words else len(words)
    count: int | None = lanes
    if "<" in words:  # %r<10>: ten registers
        count = int(words[2])
    initial = tuple(
        _operand(element) for element in _split([t for t in part[equals + 1 :] if t[0] not in "{}"])
    )
    for at in (i for i in range(equals) if words[i] == "["):
        unsized = words[at + 1] == "]"
        count = (len(initial) or None) if unsized else (count or 1) * int(words[at + 1], 0)
    name = words[0] + ("<" if "<" in words else "")
    return Variable(name, space, kind, count, alignment, initial, part[0][1])


@dataclass
class _Scope:
    """A pair of braces in a body; names declared inside are renamed, so that they are unique."""

    number: int
    outer: _Scope | None
    names: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        if name in self.names and self.outer is not None:
            return f"{name}#{self.number}"
        return self.outer.unique(name) if self.outer else name


def _body(function: Function, stream: Iterator[tuple[str, int]], block: int) -> None:
    function.defined = True
    statements = list(_statements(stream))
    for tokens, scope, label in statements:
        if label:
            scope.names.add(tokens[0][0])
        elif tokens[0][0].startswith("."):
            scope.names.update(name for v in _variables(tokens) for name in _names(v))
    pending = ""
    for tokens, scope, label in statements:
        words = [(scope.unique(word), line) for word, line in tokens]
        first = words[0][0]
        if label:
            pending, function.labels[first] = first, len(function.code)
            block += bool(function.code)
        elif first == ".branchtargets":
            function.tables[pending] = [word for word, _ in words[1:] if word != ","]
        elif first.startswith("."):
            _declare_local(function, _variables(tokens), scope)
        else:
            function.code.append(_instruction(words, block))
            block += function.code[-1].op in _BRANCHES


def _declare_local(function: Function, variables: list[Variable], scope: _Scope) -> None:
    for variable in variables:
        if variable.space == "reg":
            function.registers += map(scope.unique, _names(variable))
        else:
            function.variables.append(replace(variable, name=scope.unique(variable.name)))


def _names(variable: Variable) -> list[str]:
    if not variable.name.endswith("<"):
        return [variable.name]
    return [f"{variable.name[:-1]}{i}" for i in range(variable.count or 0)]


def _statements(stream: Iterator[tuple[str, int]]) -> Iterator[tuple[Tokens, _Scope, bool]]:
    """(tokens, scope, whether it is a label) up to the end of the body."""
    scope = _Scope(0, None)
    scopes, taken = 1, []
    for token in stream:
        if token[0] == "{" and not taken:
            scope, scopes = _Scope(scopes, scope), scopes + 1
        elif token[0] == "}" and not taken:
            if scope.outer is None:
                return
            scope = scope.outer
        elif token[0] == ":" and len(taken) == 1:
            yield taken, scope, True
            taken = []
        elif token[0] == ";":
            if taken:
                yield taken, scope, False
            taken = []
        else:
            taken.append(token)


def _instruction(tokens: Tokens, block: int) -> Instruction:
    line, guard, at = tokens[0][1], None, 0
    if tokens[0][0] == "@":
        negated = tokens[1][0] == "!"
        guard, at = (tokens[1 + negated][0], negated), 2 + negated
    operands = tuple(_operand(part) for part in _split(tokens[at + 1 :]))
    return Instruction(line, tokens[at][0], guard, operands, block)


def _operand(tokens: Tokens) -> Any:
    words = [word for word, _ in tokens]
    first = words[0]
    if first in ("{", "("):
        return tuple(_operand(part) for part in _split(tokens[1:-1]))
    if first == "[":
        inner = _operand(tokens[1:-1])
        return inner if isinstance(inner, Address) else Address(inner, 0)
    if first == "!":
        return Negated(words[1])
    if "|" in words:
        return Pair(first, words[2])
    if words[:2] == ["generic", "("]:
        return Address(("generic", words[2]), 0)
    if len(words) > 1 and words[1] in "+-" and not _is_number(first):
        sign = (-1) ** words.count("-")
        return Address(first, sign * int(words[-1].rstrip("U"), 0))
    if first == "-":
        value = _operand(tokens[1:])
        return FloatLiteral(-value.value, 0) if isinstance(value, FloatLiteral) else -value
    return _number(first) if _is_number(first) else first


def _is_number(word: str) -> bool:
    return word[0].isdigit()


def _number(word: str) -> int | FloatLiteral:
    if word[:2] in ("0f", "0F") and len(word) == 10:
        return FloatLiteral(float(decode(int(word[2:], 16), "f32")), int(word[2:], 16))
    if word[:2] in ("0d", "0D") and len(word) == 18:
        return FloatLiteral(float(decode(int(word[2:], 16), "f64")), int(word[2:], 16))
    if "." in word:
        return FloatLiteral(float(word), encode(float(word), "f64"))
    word = word.rstrip("U")
    return int(word, 8) if re.fullmatch(r"0[0-7]+", word) else int(word, 0)


# ---- execution -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Meeting:
    """A thread waits for others: those of its warp in ``lanes``, or ``threads`` of the block."""

    key: tuple[Any, ...]
    payload: int
    lanes: int | None = None
    threads: int | None = None
    whoever: bool = False
    """Meet whoever is here once nobody can run (``activemask``)."""


_WARP_MEETINGS = {"shfl", "vote", "match", "redux", "activemask", "elect"}
_MEETINGS = _WARP_MEETINGS | {"bar", "barrier"}
_NOTHING = {"membar", "fence", "nanosleep", "pmevent", "griddepcontrol", "setmaxnreg"}
_CLOCKS = {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo"}


class _ThreadExit(Exception):
    """``exit``, from any depth of calls."""


class _Launch:
    """One block of one entry."""

    max_steps = 200_000

    def __init__(
        self, module: Module, entry: str, grid: Index, block: Index, block_index: Index
    ) -> None:
        if entry not in module.functions:
            raise KeyError(f"no entry {entry!r}; there are {sorted(module.functions)}")
        self.module, self.grid, self.block, self.block_index = module, grid, block, block_index
        self.entry = module.functions[entry]
        reached = _reached(module, self.entry)
        self.meets = any(ins.op in _MEETINGS for f in reached for ins in f.code)
        self.layout = _shared_layout(module, reached)
        self.memory: dict[str, Memory] = {
            "shared": Memory(lambda _address, _size: 0),
            "const": Memory(lambda _address, _size: 0),
        }
        self.symbols = {name: ("shared", offset) for name, offset in self.layout.items()}
        for space, start in (("global", GLOBAL_VARIABLES), ("const", 0)):
            mine = [v for v in module.variables if v.space == space]
            mine += [v for f in reached for v in f.variables if v.space == space]
            self.symbols |= {n: (space, at) for n, at in _placed(mine, start).items()}
        self.initialised = [*module.variables, *(v for f in reached for v in f.variables)]
        self.arrived: dict[int, int] = {}
        self.steps: dict[Index, list[Step]] = {}

    def threads(self) -> Iterator[Index]:
        """In the order of their linear index."""
        for z in range(self.block[2]):
            for y in range(self.block[1]):
                for x in range(self.block[0]):
                    yield (x, y, z)

    def run(self, args: Sequence[int | float | bytes], indices: Sequence[Index]) -> None:
        for variable in self.initialised:
            if variable.space in ("global", "const"):
                self._initialise(variable)
        threads = [_Thread(self, index) for index in indices]
        self.steps = {thread.index: thread.steps for thread in threads}
        running = {thread: thread.run(args) for thread in threads}
        waiting: dict[_Thread, _Meeting] = {}
        ready: list[tuple[_Thread, Any]] = [(thread, None) for thread in threads]
        while ready:
            for thread, message in sorted(ready, key=lambda item: item[0].linear):
                try:
                    waiting[thread] = running[thread].send(message)
                except StopIteration:
                    del running[thread]
            ready = self._released(waiting, list(running))
            if running and not ready:
                raise RuntimeError(f"deadlock: {set(waiting.values())}")

    def _initialise(self, variable: Variable) -> None:
        space, start = self.symbols[variable.name]
        size = _WIDTH[variable.type] // 8
        content = b"".join(_bytes(self._constant(i, variable.type), size) for i in variable.initial)
        self.memory[space].preset(start, content.ljust(variable.bytes, b"\0"))

    def _constant(self, value: Any, kind: str) -> int:
        if isinstance(value, FloatLiteral):
            return value.as_type(kind)
        if isinstance(value, Address):
            return self._constant(value.base, kind) + value.offset
        if isinstance(value, tuple):  # generic(symbol)
            space, offset = self.symbols[value[1]]
            return offset + WINDOWS.get(space, 0)
        return self.symbols[value][1] if isinstance(value, str) else encode(value, kind)

    def _released(
        self, waiting: dict[_Thread, _Meeting], live: list[_Thread]
    ) -> list[tuple[_Thread, dict[int, int]]]:
        """Who goes on, each with the payloads of all who met (by lane, or by linear index)."""
        groups: dict[tuple[Any, ...], list[_Thread]] = {}
        for thread, meeting in waiting.items():
            groups.setdefault(meeting.key, []).append(thread)
        complete = [g for g in groups.values() if self._complete(waiting[g[0]], g, live)]
        if not complete:
            complete = [g for g in groups.values() if waiting[g[0]].whoever]
        ready = []
        for group in complete:
            meetings = {thread: waiting.pop(thread) for thread in group}
            barrier = meetings[group[0]].threads is not None
            if barrier:
                self.arrived.pop(meetings[group[0]].key[1], None)
            payloads = {
                thread.linear if barrier else thread.lane: meeting.payload
                for thread, meeting in meetings.items()
            }
            ready += [(thread, payloads) for thread in group]
        return ready

    def _complete(self, meeting: _Meeting, group: list[_Thread], live: list[_Thread]) -> bool:
        if meeting.whoever:
            return False
        if meeting.threads is not None:
            arrived = len(group) + self.arrived.get(meeting.key[1], 0)
            return arrived >= meeting.threads or len(group) == len(live)
        here = {thread.lane for thread in group}
        return all(
            thread.lane in here
            for thread in live
            if thread.warp == group[0].warp and (meeting.lanes or 0) >> thread.lane & 1
        )


def _reached(module: Module, entry: Function) -> list[Function]:
    """The entry and the functions that it calls, directly or not."""
    found, fresh = [entry], [entry]
    while fresh:
        for ins in (ins for ins in fresh.pop().code if ins.op == "call"):
            name = next((o for o in ins.operands if isinstance(o, str)), "")
            callee = module.functions.get(name)
            if callee and callee not in found:
                found.append(callee)
                fresh.append(callee)
    return found


def _shared_layout(module: Module, reached: list[Function]) -> dict[str, int]:
    mentioned = {n for f in reached for ins in f.code for o in ins.operands for n in _mentions(o)}
    mine = [v for v in module.variables if v.space == "shared" and v.name in mentioned]
    mine += [v for f in reached for v in f.variables if v.space == "shared"]
    mine.sort(key=lambda v: v.line)
    sized = _placed([v for v in mine if v.count is not None], 0)
    end = max((sized[v.name] + v.bytes for v in mine if v.name in sized), default=0)
    unsized = {v.name: _aligned(end, v.alignment) for v in mine if v.count is None}
    return sized | unsized


def _mentions(operand: Any) -> Iterator[str]:
    if isinstance(operand, str):
        yield operand
    elif isinstance(operand, Address):
        yield from _mentions(operand.base)
    elif isinstance(operand, tuple):
        for part in operand:
            yield from _mentions(part)


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _placed(variables: Iterable[Variable], start: int) -> dict[str, int]:
    places = {}
    for variable in variables:
        places[variable.name] = _aligned(start, variable.alignment)
        start = places[variable.name] + variable.bytes
    return places


class _Thread:
    """State that survives calls: steps, local memory, carry flag."""

    def __init__(self, launch: _Launch, index: Index) -> None:
        x, y, z = index
        self.launch, self.index = launch, index
        self.linear = x + launch.block[0] * (y + launch.block[1] * z)
        self.warp, self.lane = divmod(self.linear, _WARP)
        self.steps: list[Step] = []
        self.local = Memory(lambda _address, _size: 0)
        self.local_top = 0
        self.carry = 0
        self.special = self._special()

    def _special(self) -> dict[str, int]:
        launch, lane = self.launch, self.lane
        vectors = {
            "tid": self.index, "ntid": launch.block, "ctaid": launch.block_index,
            "nctaid": launch.grid, "cluster_ctaid": (0, 0, 0), "cluster_nctaid": (1, 1, 1),
            "clusterid": launch.block_index, "nclusterid": launch.grid,
        }  # fmt: skip
        axes = {f"%{n}.{'xyz'[i]}": v for n, vs in vectors.items() for i, v in enumerate(vs)}
        return {
            **axes,
            "%laneid": lane, "%warpid": self.warp, "WARP_SZ": _WARP,
            "%nwarpid": -(-math.prod(launch.block) // _WARP),
            "%lanemask_eq": 1 << lane, "%lanemask_lt": (1 << lane) - 1,
            "%lanemask_le": (2 << lane) - 1, "%lanemask_ge": -(1 << lane) & 0xFFFFFFFF,
            "%lanemask_gt": -(2 << lane) & 0xFFFFFFFF, "%smid": 0, "%nsmid": 1, "%gridid": 0,
            "%cluster_ctarank": 0, "%cluster_nctarank": 1, "%dynamic_smem_size": 0,
        }  # fmt: skip

    def run(self, args: Sequence[int | float | bytes]) -> Generator[_Meeting, dict[int, int], None]:
        frame = _Frame(self, self.launch.entry)
        frame.take_arguments(args)
        try:
            yield from frame.run()
        except _ThreadExit:
            return

    def record(self, step: Step) -> None:
        self.steps.append(step)
        if len(self.steps) > self.launch.max_steps:
            raise RuntimeError(f"thread {self.index}: more than {self.launch.max_steps} steps")


class _Frame:
    """One activation of a function."""

    def __init__(self, thread: _Thread, function: Function) -> None:
        self.thread, self.function, self.launch = thread, function, thread.launch
        self.registers = thread.special | dict.fromkeys(function.registers, 0)
        self.parameters = Memory(lambda _address, _size: 0)
        formal = [*function.results, *function.parameters]
        self.registers |= {v.name: 0 for v in formal if v.space == "reg"}
        in_memory = [v for v in (*formal, *function.variables) if v.space == "param"]
        self.variables = {v.name: v for v in in_memory}
        local = _placed((v for v in function.variables if v.space == "local"), thread.local_top)
        self.symbols: Mapping[str, tuple[str, int]] = {
            **self.launch.symbols,
            **{name: ("param", at) for name, at in _placed(in_memory, 0).items()},
            **{name: ("local", at) for name, at in local.items()},
        }
        ends = (local[v.name] + v.bytes for v in function.variables if v.space == "local")
        self.local_end = max(ends, default=thread.local_top)

    def take_arguments(self, args: Sequence[int | float | bytes]) -> None:
        formal = self.function.parameters
        if len(args) != len(formal):
            raise ValueError(f"{self.function.name} takes {len(formal)} arguments, not {len(args)}")
        for variable, value in zip(formal, args, strict=True):
            if isinstance(value, bytes):
                value = int.from_bytes(value, "little")
            elif isinstance(value, float) and not _is_float(variable.type):
                value = encode(value, f"f{_WIDTH[variable.type]}")
            elif _is_float(variable.type):
                value = encode(value, variable.type)
            self.parameters.write(self.symbols[variable.name][1], variable.bytes, int(value))

    def run(self) -> Generator[_Meeting, dict[int, int], None]:
        bottom, self.thread.local_top = self.thread.local_top, self.local_end
        pc: int | None = 0
        while pc is not None and pc < len(self.function.code):
            ins = self.function.code[pc]
            pc += 1
            if ins.guard and bool(self.registers[ins.guard[0]] & 1) == ins.guard[1]:
                continue
            if ins.op in _BRANCHES:
                pc = self.branch(ins, pc)
            elif ins.op == "call":
                yield from self.call(ins)
            elif ins.op in _MEETINGS:
                yield from self.meet(ins)
            else:
                self.execute(ins)
        self.thread.local_top = bottom

    # values

    def fetch(self, operand: Any, kind: str | None = None) -> int:
        """The bits of a source operand."""
        if isinstance(operand, str):
            return self._named(operand)
        if isinstance(operand, int):
            return operand
        if isinstance(operand, FloatLiteral):
            return operand.as_type(kind)
        if isinstance(operand, Negated):
            return 1 - (self._named(operand.operand) & 1)
        if isinstance(operand, Address):
            return self.fetch(operand.base) + operand.offset
        if operand[:1] == ("generic",):
            space, offset = self.symbols[operand[1]]
            return offset + WINDOWS.get(space, 0)
        width = _WIDTH[kind or ""] // len(operand)
        parts = (self.fetch(part) & (1 << width) - 1 for part in operand)
        return sum(part << i * width for i, part in enumerate(parts))

    def _named(self, name: str) -> int:
        if name in self.registers:
            return self.registers[name]
        if name in self.symbols:
            return self.symbols[name][1]
        if name in _CLOCKS:
            return len(self.thread.steps)
        raise NotImplementedError(f"register or symbol {name}")

    def write(self, target: Any, bits: int, kind: str | None = None) -> None:
        if isinstance(target, tuple):
            width = _WIDTH[kind or ""] // len(target)
            for i, part in enumerate(target):
                self.write(part, bits >> i * width & (1 << width) - 1)
        elif isinstance(target, Pair):
            raise NotImplementedError(f"two destinations: {target}")
        elif target != "_":
            if target not in self.registers:
                raise NotImplementedError(f"register {target} is not declared")
            self.registers[target] = bits

    # instructions

    def execute(self, ins: Instruction) -> None:
        if ins.op in _MEMORY:
            _MEMORY[ins.op](self, ins)
            return
        self.thread.record(ins.step)
        if ins.op in ("addc", "subc", "madc") or "cc" in ins.modifiers:
            self.extended(ins)
        elif ins.op == "setp":
            self.set_predicate(ins)
        elif ins.op == "mov":
            self.write(ins.operands[0], self.fetch(ins.operands[1], ins.type), ins.type)
        elif ins.op in _PURE:
            raw = [self.fetch(o, ins.type) for o in ins.operands[1:]]
            try:
                self.write(ins.operands[0], _PURE[ins.op](ins, *raw))
            except KeyError as missing:  # the operation does not exist for this type
                raise ins.unknown() from missing
        elif ins.op not in _NOTHING:
            raise ins.unknown()

    def extended(self, ins: Instruction) -> None:
        """Additions with carry in (``c``) or out (``.cc``)."""
        width, kind, thread = _WIDTH[ins.type], ins.type, self.thread
        values = [int(decode(self.fetch(o), f"u{width}")) for o in ins.operands[1:]]
        if ins.op.startswith("mad"):
            product = math.prod(int(decode(self.fetch(o), kind)) for o in ins.operands[1:3])
            part = product >> width if "hi" in ins.modifiers else product
            values = [part & (1 << width) - 1, values[2]]
        sign = -1 if ins.op.startswith("sub") else 1
        total = values[0] + sign * (values[1] + (thread.carry if ins.op[-1] == "c" else 0))
        if "cc" in ins.modifiers:
            thread.carry = int(not 0 <= total < 1 << width)
        self.write(ins.operands[0], encode(total, kind))

    def set_predicate(self, ins: Instruction) -> None:
        target, a, b, *c = ins.operands
        holds = _compare(ins, self.fetch(a, ins.type), self.fetch(b, ins.type))
        other = [self.fetch(p) for p in c]
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, "_")
        self.write(first, _combined(ins, holds, other))
        self.write(second, _combined(ins, not holds, other))

    # control

    def branch(self, ins: Instruction, pc: int) -> int | None:
        self.thread.record(ins.step)
        if ins.op in ("exit", "trap"):
            raise _ThreadExit
        if ins.op == "ret":
            return None
        if ins.op == "bra":
            return self.function.labels[ins.operands[0]]
        table = self.function.tables[ins.operands[1]]
        return self.function.labels[table[self.fetch(ins.operands[0]) & 0xFFFFFFFF]]

    def call(self, ins: Instruction) -> Generator[_Meeting, dict[int, int], None]:
        self.thread.record(ins.step)
        at = next(i for i, o in enumerate(ins.operands) if isinstance(o, str))
        results = ins.operands[0] if at else ()
        actual = ins.operands[at + 1] if len(ins.operands) > at + 1 else ()
        callee = self.launch.module.functions.get(ins.operands[at])
        if callee is None or not callee.defined:
            if ins.operands[at] == "vprintf":
                return
            raise NotImplementedError(f"{ins.opcode} {ins.operands[at]} (line {ins.line})")
        frame = _Frame(self.thread, callee)
        for source, formal in zip(actual, callee.parameters, strict=True):
            _pass(self, source, frame, formal.name)
        yield from frame.run()
        for target, formal in zip(results, callee.results, strict=True):
            _pass(frame, formal.name, self, target)

    def meet(self, ins: Instruction) -> Generator[_Meeting, dict[int, int], None]:
        self.thread.record(ins.step)
        if ins.op in ("bar", "barrier") and "warp" not in ins.modifiers:
            yield from self.barrier(ins)
            return
        thread, operands = self.thread, ins.operands
        masked = "sync" in ins.modifiers
        lanes = self.fetch(operands[-1]) & 0xFFFFFFFF if masked else (1 << _WARP) - 1
        source = ins.op not in ("bar", "barrier", "activemask", "elect")
        payload = self.fetch(operands[1], ins.type) if source else 0
        key = ("warp", thread.warp, id(ins), lanes)
        met = yield _Meeting(key, payload, lanes, whoever=ins.op == "activemask")
        if ins.op not in ("bar", "barrier"):
            _WARP_RESULT[ins.op](self, ins, met)

    def barrier(self, ins: Instruction) -> Generator[_Meeting, dict[int, int], None]:
        if "cluster" in ins.modifiers:
            raise ins.unknown()
        reduction = "red" in ins.modifiers
        target, *operands = ins.operands if reduction else (None, *ins.operands)
        payload = self.fetch(operands.pop()) & 1 if reduction else 0
        number = self.fetch(operands[0]) if operands else 0
        everyone = math.prod(self.launch.block)
        count = self.fetch(operands[1]) if len(operands) > 1 else everyone
        if "arrive" in ins.modifiers:
            self.launch.arrived[number] = self.launch.arrived.get(number, 0) + 1
            return
        met = yield _Meeting(("block", number), payload, threads=count)
        if reduction:
            how: dict[str, Callable[..., int]] = {"popc": sum, "and": all, "or": any}
            name = next(m for m in ins.modifiers if m in how)
            self.write(target, int(how[name](met.values())))

    # memory

    def locate(self, operand: Address, space: str | None) -> tuple[str, int]:
        """State space and address of a memory operand."""
        if isinstance(operand.base, str) and operand.base not in self.registers:
            space = space or self.symbols[operand.base][0]
        address = self.fetch(operand) & (1 << 64) - 1
        if space is None:
            space, address = _generic(address)
        return space, address if space == "global" else address & 0xFFFFFFFF

    def access(self, ins: Instruction, space: str, address: int, size: int) -> Memory:
        """Record an access; the memory to do it in."""
        if {"async", "bulk"} & set(ins.modifiers) and ins.op != "cp":
            raise ins.unknown()
        if size and address % (size & -size):
            raise RuntimeError(f"{ins.opcode} (line {ins.line}): misaligned address {address:#x}")
        self.thread.record(Step(ins.line, ins.opcode, space, address, size, ins.block))
        own = {"local": self.thread.local, "param": self.parameters}
        return own[space] if space in own else self.launch.memory[space]

    def load(self, ins: Instruction) -> None:
        target, operand, *_ = ins.operands
        targets, size = target if isinstance(target, tuple) else (target,), _WIDTH[ins.type] // 8
        space, address = self.locate(operand, ins.space)
        memory = self.access(ins, space, address, size * len(targets))
        for i, one in enumerate(targets):
            bits = memory.read(address + i * size, size)
            self.write(one, bits if _is_float(ins.type) else encode(bits, ins.type))

    def store(self, ins: Instruction) -> None:
        operand, source, *_ = ins.operands
        sources, size = source if isinstance(source, tuple) else (source,), _WIDTH[ins.type] // 8
        space, address = self.locate(operand, ins.space)
        memory = self.access(ins, space, address, size * len(sources))
        for i, one in enumerate(sources):
            memory.write(address + i * size, size, self.fetch(one, ins.type))

    def atomic(self, ins: Instruction) -> None:
        target, operand, *sources = ins.operands if ins.op == "atom" else ("_", *ins.operands)
        if isinstance(target, tuple) or isinstance(sources[0], tuple):
            raise ins.unknown()
        size = _WIDTH[ins.type] // 8
        space, address = self.locate(operand, ins.space)
        memory = self.access(ins, space, address, size)
        old = memory.read(address, size)
        memory.write(address, size, _updated(ins, old, *(self.fetch(s, ins.type) for s in sources)))
        self.write(target, encode(old, ins.type) if not _is_float(ins.type) else old)

    def prefetch(self, ins: Instruction) -> None:
        space, address = self.locate(ins.operands[0], ins.space)
        self.access(ins, space, address, 0)

    def copy_async(self, ins: Instruction) -> None:
        if ins.modifiers[1] in ("commit_group", "wait_group", "wait_all"):
            self.thread.record(ins.step)
            return
        if ins.modifiers[1] not in ("ca", "cg"):
            raise ins.unknown()
        target, source, size, *rest = ins.operands
        lengths = rest[:-1] if "L2::cache_hint" in ins.modifiers else rest
        length = self.fetch(lengths[0]) & 0xFFFFFFFF if lengths else size
        here = self.locate(source, "global")[1]
        value = self.access(ins, "global", here, length).read(here, length)
        there = self.locate(target, "shared")[1]
        self.access(ins, "shared", there, size).write(there, size, value)


def _pass(source: _Frame, name: Any, target: _Frame, formal: str) -> None:
    """Copy an argument or a result between frames, from register or ``.param`` to either."""
    if name in source.variables:
        size = source.variables[name].bytes
        value = source.parameters.read(source.symbols[name][1], size)
    else:
        size, value = 8, source.fetch(name)
    if formal in target.variables:
        target.parameters.write(target.symbols[formal][1], target.variables[formal].bytes, value)
    else:
        target.write(formal, value)


def _updated(ins: Instruction, old: int, new: int, *more: int) -> int:
    """What an atomic instruction leaves in memory."""
    kind = ins.type
    names = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    name = next((m for m in ins.modifiers if m in names), "")
    mask = (1 << _WIDTH[kind]) - 1
    if name == "exch":
        return new
    if name == "cas":
        return more[0] if (old ^ new) & mask == 0 else old
    if name == "inc":
        return 0 if old >= new & mask else old + 1
    if name == "dec":
        return new if old == 0 or old > new & mask else old - 1
    if not name:
        raise ins.unknown()
    return _arithmetic(Instruction(ins.line, f"{name}.{kind}", None, (), 0), old, new)


# what lanes of a warp make of the payloads that they met with


def _shuffle(frame: _Frame, ins: Instruction, met: Mapping[int, int]) -> None:
    target, _, b, c, *_ = ins.operands
    lane, mode = frame.thread.lane, ins.modifiers[-2]
    by, clamp = frame.fetch(b) & 31, frame.fetch(c)
    segment = clamp >> 8 & 31
    last = lane & segment | clamp & 31 & ~segment
    first = lane & segment
    source = {
        "up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first | by & ~segment,
    }[mode]  # fmt: skip
    inside = source >= last if mode == "up" else source <= last
    value = met.get(source if inside else lane, met[lane])
    _write_pair(frame, target, value, int(inside))


def _write_pair(frame: _Frame, target: Any, value: int, predicate: int) -> None:
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, "_")
    frame.write(first, value)
    frame.write(second, predicate)


def _vote(frame: _Frame, ins: Instruction, met: Mapping[int, int]) -> None:
    holds = {lane: value & 1 for lane, value in met.items()}
    result = {
        "all": int(all(holds.values())), "any": int(any(holds.values())),
        "uni": int(len(set(holds.values())) == 1),
        "ballot": sum(value << lane for lane, value in holds.items()),
    }[ins.modifiers[-2]]  # fmt: skip
    frame.write(ins.operands[0], result)


def _match(frame: _Frame, ins: Instruction, met: Mapping[int, int]) -> None:
    mine = decode(met[frame.thread.lane], ins.type)
    same = sum(1 << lane for lane, value in met.items() if decode(value, ins.type) == mine)
    everyone = sum(1 << lane for lane in met)
    if "any" in ins.modifiers:
        frame.write(ins.operands[0], same)
    else:
        _write_pair(frame, ins.operands[0], same if same == everyone else 0, same == everyone)


def _reduce(frame: _Frame, ins: Instruction, met: Mapping[int, int]) -> None:
    result, *rest = met.values()
    for value in rest:
        result = _updated(ins, result, value)
    frame.write(ins.operands[0], result)


_WARP_RESULT: dict[str, Callable[[_Frame, Instruction, Mapping[int, int]], None]] = {
    "shfl": _shuffle, "vote": _vote, "match": _match, "redux": _reduce,
    "activemask": lambda frame, ins, met: frame.write(ins.operands[0], sum(1 << i for i in met)),
    "elect": lambda frame, ins, met: _write_pair(
        frame, ins.operands[0], min(met), int(frame.thread.lane == min(met))
    ),
}  # fmt: skip
_MEMORY: dict[str, Callable[[_Frame, Instruction], None]] = {
    "ld": _Frame.load, "ldu": _Frame.load, "st": _Frame.store, "atom": _Frame.atomic,
    "red": _Frame.atomic, "prefetch": _Frame.prefetch, "prefetchu": _Frame.prefetch,
    "cp": _Frame.copy_async,
}  # fmt: skip
