"""Integer, logic, predicate and warp-wide PTX instructions as executable operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfassert.frontends.cuda.ptx_step import PREDICATE, PtxStep, Words
from perfassert.frontends.cuda.semantics_step import AND, XOR
from perfassert.kernel.machine import Combining, Kind, Relation, Shuffling, Voting

OR, SAME = 0xFC, 0xC3  # truth tables of a and b
_INSERT = 0xE4  # a where c, else b; rows 4a + 2b + c
_JOIN = {"and": AND, "or": OR, "xor": XOR}
RELATIONS = {
    "eq": Relation.EQ, "ne": Relation.NE, "lt": Relation.LT, "le": Relation.LE,
    "gt": Relation.GT, "ge": Relation.GE, "lo": Relation.LT, "ls": Relation.LE,
    "hi": Relation.GT, "hs": Relation.GE,
}  # fmt: skip
_COMBINES = {"add": Combining.ADD, "min": Combining.MIN, "max": Combining.MAX,
             "and": Combining.AND, "or": Combining.OR, "xor": Combining.XOR}  # fmt: skip


def _sum(i: PtxStep) -> None:
    """``add``, ``sub`` and, with a carry in or out, ``.cc``, ``addc``, ``subc``."""
    if i.has("sat") or i.type.endswith("x2"):
        raise i.refuse()
    minus = int(i.parts[0].startswith("sub"))
    _carried(i, i.words(1), i.words(2), minus)


def _carried(i: PtxStep, a: Words, b: Words, minus: int) -> None:
    taken = i.parts[0] in ("addc", "subc", "madc")
    if not taken and not i.has("cc"):
        i.write(i.added(a, b, minus))
        return
    flag = i.registers.named("ptx carry")
    carry = None
    if taken:
        carry = i.inverted(flag) if minus else flag
    *words, out = i.total(a, b, minus, carry)
    if i.has("cc"):
        i.emit(Kind.MOVE, (flag,), (i.inverted(out) if minus else out,))
    i.write(tuple(words))


def _product(i: PtxStep, a: Words, b: Words) -> Words:
    """By ``lo``, ``hi`` or ``wide``."""
    if i.bits == 16:
        word = (i.new(Kind.MULTIPLY, (a[0], b[0], 0, 0)),)
        return i.shifted(word, 16, bool(i.signed)) if i.has("hi") else word
    if i.bits == 64:
        return _high(i, a, b) if i.has("hi") else _low(i, a, b)
    if i.has("wide", "hi"):
        both = i.several(2, Kind.MULTIPLY_WIDE, (a[0], b[0], 0, 0, 0), (i.signed,))
        return both if i.has("wide") else both[1:]
    return (i.new(Kind.MULTIPLY, (a[0], b[0], 0, 0)),)


def _low(i: PtxStep, a: Words, b: Words) -> Words:
    low, high = i.several(2, Kind.MULTIPLY_WIDE, (a[0], b[0], 0, 0, 0), (0,))
    high = i.new(Kind.MULTIPLY, (a[0], b[1], high, 0))
    return low, i.new(Kind.MULTIPLY, (a[1], b[0], high, 0))


def _high(i: PtxStep, a: Words, b: Words) -> Words:
    """The upper 64 of 128 bits; of signed ones, less what the signs add."""

    def wide(x: int, y: int, low: int, carry: int) -> Words:
        return i.several(2, Kind.MULTIPLY_WIDE, (x, y, low, 0, carry), (0,))

    _, carried = wide(a[0], b[0], 0, 0)
    middle, above = wide(a[0], b[1], carried, 0)
    _, over = wide(a[1], b[0], middle, 0)
    high = wide(a[1], b[1], above, over)
    if not i.signed:
        return high
    zero = (0, 0)
    high = i.added(high, i.chosen(b, zero, i.negative(a)), 1)
    return i.added(high, i.chosen(a, zero, i.negative(b)), 1)


def _mul(i: PtxStep) -> None:
    kind = _product_type(i)
    i.write(_product(i, i.words(1), i.words(2)), kind)


def _product_type(i: PtxStep) -> str:
    return f"{i.type[0]}{2 * i.bits}" if i.has("wide") else i.type


def _mad(i: PtxStep) -> None:
    if i.has("sat"):
        raise i.refuse()
    product = _product(i, i.words(1), i.words(2))
    third = i.words(3, _product_type(i))
    if i.parts[0] == "madc" or i.has("cc"):
        _carried(i, product, third, 0)
    else:
        i.write(i.added(product, third), _product_type(i))


def _product24(i: PtxStep) -> None:
    if i.has("hi", "sat"):
        raise i.refuse()
    width = i.literal(24)
    a, b = (i.new(Kind.EXTEND, (i.word(p), width), (i.signed, 0)) for p in (1, 2))
    third = i.word(3) if i.parts[0] == "mad24" else 0
    i.write((i.new(Kind.MULTIPLY, (a, b, third, 0)),))


def _divided(i: PtxStep) -> None:
    """``div`` and ``rem``."""
    a, b = (_paired(i, i.words(p)) for p in (1, 2))
    found = i.several(4, Kind.DIVIDE, (*a, *b), (i.signed,))
    words = found[2:] if i.parts[0] == "rem" else found[:2]
    i.write(words[: 2 if i.bits == 64 else 1])


def _paired(i: PtxStep, words: Words) -> Words:
    if len(words) == 2:
        return words
    return (*words, i.shifted(words, 31, True)[0] if i.signed else 0)


def _extreme(i: PtxStep) -> None:
    if i.has("relu") or i.type.endswith("x2"):
        raise i.refuse()
    a, b = i.words(1), i.words(2)
    relation = Relation.LT if i.parts[0] == "min" else Relation.GT
    i.write(i.chosen(a, b, i.compared(relation, a, b, i.signed)))


def _negated(i: PtxStep) -> None:
    a = i.words(1)
    i.write(i.added((0,) * len(a), a, 1))


def _absolute(i: PtxStep) -> None:
    a = i.words(1)
    i.write(i.chosen(i.added((0,) * len(a), a, 1), a, i.negative(a)))


def _logic(i: PtxStep) -> None:
    kind = i.type
    i.write(i.logic(_JOIN[i.parts[0]], i.words(1, kind), i.words(2, kind)))


def _not(i: PtxStep) -> None:
    a = i.words(1)
    ones = i.literal(1 if i.type == PREDICATE else -1)
    i.write(i.logic(XOR, a, (ones,) * len(a)))


def _cnot(i: PtxStep) -> None:
    a = i.words(1)
    zero = i.compared(Relation.EQ, a, (0,) * len(a), 0)
    i.write((zero, *(0,) * (len(a) - 1)))


def _lop3(i: PtxStep) -> None:
    if len(i.operands) != 5:
        raise i.refuse()
    words = tuple(i.word(p) for p in (1, 2, 3))
    i.write((i.new(Kind.LOGIC, words, (int(i.operands[4], 0) & 0xFF,)),))


def _shift(i: PtxStep) -> None:
    a, amount = i.words(1), i.word(2, "u32")
    i.write(i.left(a, amount) if i.parts[0] == "shl" else i.right(a, amount, i.signed))


def _funnel(i: PtxStep) -> None:
    right, wrap = int(i.parts[1] == "r"), int(i.has("wrap"))
    sources = (i.word(1), i.word(3, "u32"), i.word(2))
    i.write((i.new(Kind.SHIFT, sources, (right, wrap, 32, 0, 1 - right)),))


def _byte(i: PtxStep, place: int) -> int:
    """Positions and lengths of fields have eight bits."""
    return i.masked(i.word(place, "u32"), 0xFF)


def _rest(i: PtxStep, length: int) -> int:
    """64 less a length, 0 where that is beyond."""
    most = i.literal(64)
    length = i.new(Kind.MINIMUM, (length, most, i.literal(1)), (0,))
    return i.new(Kind.ADD, (most, length, 0), (2,))


def _extracted(i: PtxStep) -> None:
    position, length = _byte(i, 2), _byte(i, 3)
    words = i.right(i.words(1), position, i.signed)
    if i.bits == 32:
        words = (i.new(Kind.EXTEND, (words[0], length), (i.signed, 0)),)
    else:
        rest = _rest(i, length)
        words = i.right(i.left(words, rest), rest, i.signed)
    i.write(words)


def _inserted(i: PtxStep) -> None:
    a, b, position, length = i.words(1), i.words(2), _byte(i, 3), _byte(i, 4)
    if i.bits == 32:
        mask: Words = (i.new(Kind.BIT_FIELD, (position, length), (0,)),)
    else:
        ones = (i.literal(-1),) * 2
        mask = i.left(i.right(ones, _rest(i, length), 0), position)
    i.write(i.logic(_INSERT, i.left(a, position), b, mask))


def _find(i: PtxStep) -> None:
    if i.bits != 32:
        raise i.refuse()
    i.write((i.new(Kind.FIND_BIT, (i.word(1),), (i.signed, int(i.has("shiftamt")))),), "u32")


def _leading_zeros(i: PtxStep) -> None:
    counts = []
    for word in i.words(1):
        place = i.new(Kind.FIND_BIT, (word,), (0, 0))
        counts.append(i.new(Kind.ADD, (i.literal(31), place, 0), (2,)))
    if len(counts) == 2:
        beyond = i.new(Kind.ADD, (counts[0], i.literal(32), 0), (0,))
        empty = i.new(Kind.COMPARE, (i.words(1)[1], 0), (Relation.EQ, 0))
        counts = [i.new(Kind.SELECT, (beyond, counts[1], empty))]
    i.write((counts[0],), "u32")


def _count(i: PtxStep) -> None:
    counts = [i.new(Kind.COUNT_BITS, (word,)) for word in i.words(1)]
    i.write((i.new(Kind.ADD, (*counts, 0, 0)[:3], (0,)),), "u32")


def _reverse(i: PtxStep) -> None:
    i.write(tuple(i.new(Kind.REVERSE_BITS, (w,)) for w in reversed(i.words(1))))


def _permute(i: PtxStep) -> None:
    if len(i.parts) != 2:
        raise i.refuse()
    i.write((i.new(Kind.PERMUTE, (i.word(1), i.word(3), i.word(2))),))


def _difference(i: PtxStep) -> None:
    """``sad``."""
    if i.bits != 32:
        raise i.refuse()
    a, b = i.words(1), i.words(2)
    above = i.compared(Relation.GT, a, b, i.signed)
    sizes = i.chosen(i.added(a, b, 1), i.added(b, a, 1), above)
    i.write(i.added(sizes, i.words(3)))


def _dot(i: PtxStep) -> None:
    signs = tuple(int(p == "s32") for p in i.parts[-2:])
    i.write((i.new(Kind.DOT, tuple(i.word(p, "b32") for p in (1, 2, 3)), signs),), "b32")


def compare_words(i: PtxStep, relation: str, first: int = 1) -> int:
    """Of the integer operands from ``first`` on."""
    a, b = i.words(first), i.words(first + 1)
    return i.compared(RELATIONS[relation], a, b, i.signed)


def write_predicates(i: PtxStep, holds: int) -> None:
    """``p|q``: the result and its opposite, each joined with a further predicate."""
    other = i.inverted(holds)
    if len(i.operands) > 3:
        table = _JOIN[i.parts[2]]
        third = i.predicate(i.operands[3])
        holds, other = (i.new(Kind.LOGIC, (p, third, 0), (table,)) for p in (holds, other))
    for name, word in zip(i.targets, (holds, other), strict=False):
        i.write((word,), PREDICATE, name)


def _setp(i: PtxStep) -> None:
    write_predicates(i, compare_words(i, i.parts[1]))


def _set(i: PtxStep) -> None:
    target = i.parts[-2]
    if len(i.operands) != 3 or target not in ("u32", "s32", "f32"):
        raise i.refuse()
    one = i.literal(0x3F800000 if target == "f32" else -1)
    i.write(i.chosen((one,), (0,), compare_words(i, i.parts[1])), target)


def _selected(i: PtxStep) -> None:
    i.write(i.chosen(i.words(1), i.words(2), i.predicate(i.operands[3])))


def _by_sign(i: PtxStep) -> None:
    kind = i.parts[-2]
    if i.type != "s32":
        raise i.refuse()
    i.write(i.chosen(i.words(2, kind), i.words(1, kind), i.negative(i.words(3))), kind)


def _mov(i: PtxStep) -> None:
    """Also packs a vector into a register and takes one apart."""
    target, source = i.operands[:2]
    if i.type == PREDICATE:
        i.write((i.predicate(source),))
    elif target.startswith("{"):
        unpack(i, i.words(1), i.bits, _listed(target))
    elif source.startswith("{"):
        i.write(pack(i, _listed(source), i.bits))
    else:
        i.write(i.words(1))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.strip("{} ").split(",")]


def unpack(i: PtxStep, words: Words, bits: int, names: list[str]) -> None:
    """Parts of a value, the lowest first."""
    width = bits // len(names)
    for place, name in enumerate(names):
        if name != "_":
            i.write(part(i, words, width, place), f"b{width}", name)


def part(i: PtxStep, words: Words, width: int, place: int, signed: int = 0) -> Words:
    """One of the equal parts of a value."""
    if width >= 32:
        count = width // 32
        return words[place * count : (place + 1) * count]
    at = place * width
    word = i.shifted((words[at // 32],), at % 32, False) if at % 32 else (words[at // 32],)
    return (i.new(Kind.EXTEND, (word[0], i.literal(width)), (signed, 0)),)


def pack(i: PtxStep, names: list[str], bits: int) -> Words:
    """Parts put together, the lowest first."""
    width = bits // len(names)
    kind = f"u{width}"
    if width >= 32:
        return tuple(word for name in names for word in i.value(name, kind))
    words: list[int] = []
    for place, name in enumerate(names):
        value: Words = (i.value(name, kind)[0],)
        at = place * width % 32
        value = i.left(value, i.literal(at)) if at else value
        if at:
            words[-1] = i.new(Kind.LOGIC, (words[-1], value[0], 0), (OR,))
        else:
            words.append(value[0])
    return tuple(words)


def _vote(i: PtxStep) -> None:
    modes = {"all": Voting.ALL, "any": Voting.ANY, "uni": Voting.EQUAL, "ballot": Voting.ALL}
    mode = next(p for p in i.parts if p in modes)
    ballot, truth = i.several(2, Kind.VOTE, (i.predicate(i.operands[1]),), (modes[mode],))
    i.write((ballot,) if mode == "ballot" else (truth,), "b32")


def _active(i: PtxStep) -> None:
    i.write(i.several(2, Kind.VOTE, (i.literal(1),), (Voting.ALL,))[:1], "b32")


def _shuffle(i: PtxStep) -> None:
    modes = {"idx": Shuffling.INDEX, "up": Shuffling.UP, "down": Shuffling.DOWN,
             "bfly": Shuffling.BUTTERFLY}  # fmt: skip
    mode = modes[next(p for p in i.parts if p in modes)]
    sources = (i.word(1), i.word(2, "u32"), i.word(3, "u32"))
    for name, word in zip(i.targets, i.several(2, Kind.SHUFFLE, sources, (mode,)), strict=False):
        i.write((word,), "b32", name)


def _match(i: PtxStep) -> None:
    everyone = int(i.has("all"))
    found = i.several(2, Kind.MATCH, (*i.words(1), 0)[:2], (everyone,))
    for name, word in zip(i.targets, found, strict=False):
        i.write((word,), "b32", name)


def _reduce(i: PtxStep) -> None:
    mode = next(p for p in i.parts[1:] if p in _COMBINES)
    if i.type.startswith("f"):
        raise i.refuse()
    i.write((i.new(Kind.REDUCE, (i.word(1),), (_COMBINES[mode], i.signed)),))


def _elect(i: PtxStep) -> None:
    lane = i.registers.special("laneid")
    first = i.new(Kind.FIRST, (lane,))
    mine = i.new(Kind.COMPARE, (lane, first), (Relation.EQ, 0))
    for name, word in zip(i.targets, (first, mine), strict=False):
        i.write((word,), "b32", name)


INTEGER: Mapping[str, Callable[[PtxStep], None]] = {
    **dict.fromkeys(("add", "sub", "addc", "subc"), _sum),
    "mul": _mul, "mad": _mad, "madc": _mad, "mul24": _product24, "mad24": _product24,
    "div": _divided, "rem": _divided, "min": _extreme, "max": _extreme, "neg": _negated,
    "abs": _absolute, "and": _logic, "or": _logic, "xor": _logic, "not": _not, "cnot": _cnot,
    "lop3": _lop3, "shl": _shift, "shr": _shift, "shf": _funnel, "bfe": _extracted,
    "bfi": _inserted, "bfind": _find, "clz": _leading_zeros, "popc": _count, "brev": _reverse,
    "prmt": _permute, "sad": _difference, "dp4a": _dot, "setp": _setp, "set": _set,
    "selp": _selected, "slct": _by_sign, "mov": _mov, "vote": _vote, "activemask": _active,
    "shfl": _shuffle, "match": _match, "redux": _reduce, "elect": _elect,
}  # fmt: skip
