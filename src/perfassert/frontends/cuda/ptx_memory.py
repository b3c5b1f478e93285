"""Memory PTX instructions and addresses as executable operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from perfassert.frontends.cuda.ptx_integer import pack, part
from perfassert.frontends.cuda.ptx_step import PtxStep, Symbol, Words
from perfassert.frontends.cuda.ptx_text import SPACES
from perfassert.kernel.machine import Combining, Kind, Memory, Micro, Relation, Space

BANK = 3  # of the constants that a module declares
_ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\s*\w+))?\s*\]$")
_SPACES = {"global": Space.GLOBAL, "shared": Space.SHARED, "local": Space.LOCAL}
_COMBINES = {"add": Combining.ADD, "min": Combining.MIN, "max": Combining.MAX,
             "inc": Combining.INCREMENT, "dec": Combining.DECREMENT, "and": Combining.AND,
             "or": Combining.OR, "xor": Combining.XOR, "exch": Combining.EXCHANGE,
             "cas": Combining.COMPARE_SWAP}  # fmt: skip
_WINDOWS = {"shared": "shared window", "local": "local window"}
_ALL_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def space_of(i: PtxStep) -> str:
    """``global``, …; ``""``: the address is generic."""
    return next((p.partition("::")[0] for p in i.parts if p.partition("::")[0] in SPACES), "")


def _located(i: PtxStep, operand: str, space: str) -> tuple[Space, Words, int, int]:
    """Space, the register pair of an address, its offset, and the bank of a constant."""
    found = _ADDRESS.match(operand)
    if not found:
        raise i.refuse()
    offset = int(found[2].replace(" ", ""), 0) if found[2] else 0
    symbol = i.names.symbols.get(found[1])
    if symbol is None:
        kind = Space.GENERIC if not space else _SPACES.get(space)
        words = (*i.raw(found[1], "b64"), 0)[:2]
        if i.names.type_of(found[1]) != "" and len(i.register(found[1])) == 1:
            words = (words[0], 0)
        if kind is None:  # constants, and parameters by a register
            return Space.CONSTANT, words, offset, 0 if space == "param" else BANK
        return kind, words, offset, 0
    return _of_symbol(i, symbol, offset)


def _of_symbol(i: PtxStep, symbol: Symbol, offset: int) -> tuple[Space, Words, int, int]:
    if symbol.offset < 0:
        raise i.refuse()
    place = symbol.offset + offset
    if symbol.space in ("param", "const"):
        return Space.CONSTANT, (0, 0), place, 0 if symbol.space == "param" else BANK
    return _SPACES[symbol.space], (0, 0), place, 0


def _listed(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{} ").split(",")]


def _load(i: PtxStep) -> None:
    names = _listed(i.operands[0])
    space, pair, offset, bank = _located(i, i.operands[1], space_of(i))
    size = i.bits // 8 * len(names)
    if size not in _ALL_WIDTHS:
        raise i.refuse()
    fixed = space is Space.CONSTANT and pair == (0, 0) and offset % 4 == 0 and size >= 4
    if fixed:
        words = tuple(i.registers.constant(bank, offset + 4 * k) for k in range(size // 4))
    else:
        signed = bool(i.signed) and size < 4
        memory = Memory(space, size, offset, 1, signed, bank)
        words = tuple(i.registers.temporary() for _ in range(max(size // 4, 1)))
        i.operations.append(Micro(Kind.LOAD, words, (*pair, 0, 0), (), memory))
    for place, name in enumerate(names):
        one = part(i, words, i.bits, place, i.signed) if len(names) > 1 else words
        i.write(one, i.type, name)


def _store(i: PtxStep) -> None:
    space, pair, offset, _ = _located(i, i.operands[0], space_of(i))
    names = _listed(i.operands[1])
    size = i.bits // 8 * len(names)
    if size not in _ALL_WIDTHS or space is Space.CONSTANT:
        raise i.refuse()
    kind = f"b{i.bits}"
    single = i.operands[1].startswith("{")
    data = pack(i, names, 8 * size) if single else i.raw(names[0], _data_type(i, names[0], kind))
    memory = Memory(space, size, offset)
    i.operations.append(
        Micro(Kind.STORE, (), (*pair, 0, 0, *data[: max(size // 4, 1)]), (), memory)
    )


def _data_type(i: PtxStep, name: str, kind: str) -> str:
    """Literals are of the instruction's type."""
    return kind if i.is_register(name) else i.type


def _atomic(i: PtxStep) -> None:
    """``red`` returns nothing."""
    returns = i.parts[0] == "atom"
    space, pair, offset, _ = _located(i, i.operands[int(returns)], space_of(i))
    operands = i.operands[1 + int(returns) :]
    combine = next((_COMBINES[p] for p in i.parts if p in _COMBINES), None)
    count = 2 if combine is Combining.COMPARE_SWAP else 1
    if combine is None or i.bits not in (32, 64) or operands[0].startswith("{"):
        raise i.refuse()
    floating = i.type.startswith("f")
    if i.type == "f32" and combine is Combining.ADD:
        combine, floating = Combining.FLOAT_ADD, False
    exact = not floating and not i.type.endswith("x2")
    memory = Memory(
        space, i.bits // 8, offset,
        combine=combine if exact else None, combine_signed=bool(i.signed),
    )  # fmt: skip
    data = tuple(word for o in operands[:count] for word in i.value(o, i.type))
    targets = tuple(i.registers.temporary() for _ in range(i.bits // 32))
    kept = returns and i.targets[0] != "_"
    discarded = targets if kept else (-1,) * len(targets)
    i.operations.append(Micro(Kind.ATOMIC, discarded, (*pair, 0, 0, *data), (), memory))
    if kept:
        i.write(targets)


def _generic(i: PtxStep) -> None:
    """``cvta``: the window of a space is in the upper word."""
    space, words = space_of(i), i.words(1)
    if space not in ("global", *_WINDOWS) or len(words) != 2:
        raise i.refuse()
    if space != "global":
        window = 0 if i.has("to") else i.registers.special(_WINDOWS[space])
        words = (words[0], window)
    i.write(words)


def _in_space(i: PtxStep) -> None:
    space = space_of(i)
    high = i.words(1, "b64")[1]
    if space in _WINDOWS:
        window = i.registers.special(_WINDOWS[space])
        i.write((i.new(Kind.COMPARE, (high, window), (Relation.EQ, 0)),), "pred")
    elif space == "global":
        windows = [i.registers.special(name) for name in _WINDOWS.values()]
        apart = [i.new(Kind.COMPARE, (high, w), (Relation.NE, 0)) for w in windows]
        i.write((i.new(Kind.LOGIC, (*apart, 0), (0xC0,)),), "pred")
    else:
        raise i.refuse()


def _copy(i: PtxStep) -> None:
    """``cp.async``: from global to shared memory; groups of copies have no effect on values."""
    if i.parts[1] != "async" or i.has("bulk", "mbarrier"):
        raise i.refuse()
    if not i.has("ca", "cg"):
        return
    size = int(i.operands[2], 0) if len(i.operands) == 3 else 0
    if size not in (4, 8, 16):
        raise i.refuse()
    _, origin, offset, _ = _located(i, i.operands[1], "global")
    words = tuple(i.registers.temporary() for _ in range(size // 4))
    memory = Memory(Space.GLOBAL, size, offset, asynchronous=True)
    i.operations.append(Micro(Kind.LOAD, words, (*origin, 0, 0), (), memory))
    space, place, offset, _ = _located(i, i.operands[0], "shared")
    memory = Memory(space, size, offset, asynchronous=True)
    i.operations.append(Micro(Kind.STORE, (), (*place, 0, 0, *words), (), memory))


def _load_matrix(i: PtxStep) -> None:
    names = _listed(i.operands[0])
    _, pair, offset, _ = _located(i, i.operands[1], "shared")
    targets = tuple(i.target_words(name)[0] for name in names)
    memory = Memory(Space.SHARED, 16, offset)
    i.operations.append(Micro(Kind.MATRIX_LOAD, targets, (*pair, 0, 0), (8 * len(names),), memory))


MEMORY: Mapping[str, Callable[[PtxStep], None]] = {
    "ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic, "cvta": _generic,
    "isspacep": _in_space, "cp": _copy, "ldmatrix": _load_matrix,
}  # fmt: skip
