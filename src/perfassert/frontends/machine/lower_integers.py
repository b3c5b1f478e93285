"""Integer, logic, predicate and warp-wide SASS instructions as executable operations."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Mapping, Sequence

from perfassert.frontends.machine.lowering_step import (
    AND,
    Known,
    LoweringStep,
    Translation,
    Untranslated,
    Words,
    knows,
    parse_float,
    part_of_word,
    require,
)
from perfassert.kernel.machine import (
    Combining,
    Kind,
    Relation,
    Shuffling,
    Voting,
)

_OR = 0xFC  # truth table of LOP3: a or b
_SAME = 0xC3  # truth table of LOP3: a equal to b
_RELATIONS = Known({
    "F": Relation.NEVER, "LT": Relation.LT, "EQ": Relation.EQ, "LE": Relation.LE,
    "GT": Relation.GT, "NE": Relation.NE, "GE": Relation.GE, "T": Relation.ALWAYS,
})  # fmt: skip
_JOIN: Mapping[str, Callable[[int, int], int]] = Known({
    "AND": operator.and_, "OR": operator.or_, "XOR": operator.xor,
})  # fmt: skip
_SPECIAL = {
    f"SR_{sass}.{axis.upper()}": f"{name}.{axis}"
    for sass, name in (("TID", "threadIdx"), ("CTAID", "blockIdx"), ("NTID", "blockDim"),
                       ("NCTAID", "gridDim"))
    for axis in "xyz"
}  # fmt: skip
_LANES = {"SR_LANEID": "laneid", "SR_EQMASK": "lanemask_eq", "SR_LTMASK": "lanemask_lt",
          "SR_LEMASK": "lanemask_le", "SR_GTMASK": "lanemask_gt", "SR_GEMASK": "lanemask_ge",
          "SR_SWINHI": "shared window", "SR_LWINHI": "local window"}  # fmt: skip
_NOTHING = ("SRZ", "SR_CgaCtaId")
_WORD = 32  # bits
_PACKED = "16x2 U16x2 S16x2 8x4 U8x4 S8x4"
_LANE = re.compile(r"([SU]?)(8|16|32)(?:x[24])?")


@knows("64 SPILL")
def _mov(i: LoweringStep) -> None:
    if "64" in i.modifiers:
        low, high = i.pair(0)
        target = i.target_pair
        i.emit(Kind.MOVE, target[:1], (low,))
        i.emit(Kind.MOVE, target[1:], (high,))
    else:
        i.emit(Kind.MOVE, (i.target,), (i.word(0),))


@knows("BROADCAST")
def _r2ur(i: LoweringStep) -> None:
    broadcast = (1,) if "BROADCAST" in i.modifiers else ()
    i.emit(Kind.FIRST, (i.target,), (i.word(0),), broadcast)


def _add(i: LoweringStep, places: tuple[int, ...]) -> None:
    """Translate a sum of two or three terms, with the carries that ``.X`` adds."""
    if "64" in i.modifiers:
        _add_pairs(i, places)
        return
    terms = [i.split_minus(p) for p in places]
    registers = [r for r, _ in terms] + [0] * (3 - len(terms))
    negated = sum(flag << n for n, (_, flag) in enumerate(terms))
    carries: tuple[int, ...] = ()
    if "X" in i.modifiers:
        carries = tuple(i.predicate(p) for p in range(len(places), len(i.operands)))
    i.emit(Kind.ADD, (i.target, *i.predicates), (*registers, *carries), (negated,))


def _add_pairs(i: LoweringStep, places: tuple[int, ...]) -> None:
    low, high = i.target_pair
    pairs = [i.pair(p) for p in places]
    flags = [int(i.operands[p].sign == "-" and i.operands[p].kind != "number") for p in places]
    filled = [*(p[0] for p in pairs), 0][: 3 if len(pairs) == 2 else len(pairs)]
    carries = (i.registers.temporary(), i.registers.temporary())
    kept = i.registers.temporary()
    i.emit(Kind.ADD, (kept, *carries), tuple(filled), (sum(f << n for n, f in enumerate(flags)),))
    ones = i.literal(-1)
    highs = [
        i.new(Kind.LOGIC, (p[1], ones, 0), (0x3C,)) if flag else p[1]
        for p, flag in zip(pairs, flags, strict=True)
    ]
    i.emit(
        Kind.ADD, (high, *i.predicates), (*[*highs, 0][: len(filled)], *carries), (0,)
    )  # fmt: skip
    i.emit(Kind.MOVE, (low,), (kept,))


@knows("X 64")
def _iadd3(i: LoweringStep) -> None:
    _add(i, (0, 1, 2))


@knows(f"X 64 {_PACKED}")
def _iadd(i: LoweringStep) -> None:
    if _lane(i)[0] == _WORD:
        _add(i, (0, 1))
    else:
        i.emit(Kind.MOVE, (i.target,), (_add_lanes(i),))


def _add_lanes(i: LoweringStep) -> int:
    """Translate the sum of the first two operands, lane by lane."""
    (a, first), (b, second) = i.split_minus(0), i.split_minus(1)
    minus = (first | second << 1,)
    return _each_lane(i, (a, b), lambda left, right: i.new(Kind.ADD, (left, right, 0), minus))


@knows("X WIDE HI U32 MOV SHL IADD")
def _imad(i: LoweringStep) -> None:
    signed = int("U32" not in i.modifiers)
    wide = "WIDE" in i.modifiers or "HI" in i.modifiers
    if any(i.operands[p].suffix.startswith((".H", ".B")) for p in (0, 1)):
        raise Untranslated(i.instruction.text)
    carry = (i.predicate(3),) if "X" in i.modifiers else (0,)
    if not wide:
        _multiply(i, carry)
        return
    third = i.operands[2]
    if third.sign:
        raise Untranslated(i.instruction.text)
    targets = i.target_pair if "WIDE" in i.modifiers else (-1, i.target)
    out = i.predicates[:1] or (-1,)
    sources = (i.word(0), i.word(1), *i.pair(2), *carry)
    i.emit(Kind.MULTIPLY_WIDE, (*targets, *out), sources, (signed,))


def _multiply(i: LoweringStep, carry: tuple[int, ...]) -> None:
    """Translate the low words of products; moves and sums are written as products with 0 and 1."""
    a, b = i.word(0), i.word(1)
    c, negated = i.split_minus(2)
    if not a or not b:
        i.emit(Kind.ADD, (i.target,), (c, 0, 0, *carry), (negated,))
    elif b == i.literal(1):
        i.emit(Kind.ADD, (i.target,), (a, c, 0, *carry), (negated << 1,))
    else:
        i.emit(Kind.MULTIPLY, (i.target,), (a, b, i.word(2), *carry))


@knows("HI SX32 X")
def _lea(i: LoweringStep) -> None:
    """(a << s) + b; with ``HI`` its high word, a being a pair or sign-extended."""
    high = "HI" in i.modifiers
    extended = "SX32" in i.modifiers
    a, minus = (i.word(0), 0) if high else i.split_minus(0)
    b, negated = i.split_minus(1)
    place = 3 if high and not extended else 2
    amount = i.word(place)
    above = 0
    if extended:
        above = i.new(Kind.SHIFT, (0, i.literal(31), a), (1, 0, 32, 1, 1))
    elif high:
        above = i.word(2)
    shifted = i.new(Kind.SHIFT, (a, amount, above), (0, 0, 64 if high else 32, 0, int(high)))
    carries = (i.predicate(place + 1),) if "X" in i.modifiers else ()
    i.emit(Kind.ADD, (i.target, *i.predicates), (shifted, b, 0, *carries), (minus | negated << 1,))


@knows("LUT PAND")
def _lop3(i: LoweringStep) -> None:
    numbers = [o.value for o in i.operands if o.kind == "number"]
    place = 3 if i.operands[3].kind == "number" else 2
    words = tuple(i.word(p) for p in range(3))
    table = numbers[-1]
    value = i.registers.temporary()
    target = next((i.result(o) for o in i.written if o.kind == "register"), -1)
    i.emit(Kind.LOGIC, (value,), words, (table,))
    behind = i.predicate(place + 1) if len(i.operands) > place + 1 else 0
    for predicate in i.predicates:
        if predicate >= 0:
            some = i.new(Kind.COMPARE, (value, 0), (Relation.NE, 0))
            joined = AND if "PAND" in i.modifiers else _OR
            i.emit(Kind.DECIDE, (predicate,), (some, behind, 0), (joined,))
    i.emit(Kind.MOVE, (target,), (value,))


@knows("AND OR XOR PASS_B")
def _lop(i: LoweringStep) -> None:
    table = {"AND": AND, "OR": _OR, "XOR": 0x3C, "PASS_B": 0xCC}
    name = require(m for m in i.modifiers if m in table)
    i.emit(Kind.LOGIC, (i.target,), (i.word(0), i.word(1), 0), (table[name],))


@knows("L R U32 S32 U64 S64 HI W")
def _shf(i: LoweringStep) -> None:
    m = i.modifiers
    bits = 64 if "U64" in m or "S64" in m else 32
    detail = (int(m[0] == "R"), int("W" in m), bits, int("S32" in m or "S64" in m), int("HI" in m))
    i.emit(Kind.SHIFT, (i.target,), (i.word(0), i.word(1), i.word(2)), detail)


@knows("64")
def _select_words(i: LoweringStep) -> None:
    if "64" in i.modifiers:
        chosen = i.predicate(2)
        low, high = i.target_pair
        first, second = i.pair(0), i.pair(1)
        kept = i.new(Kind.SELECT, (first[0], second[0], chosen))
        i.emit(Kind.SELECT, (high,), (first[1], second[1], chosen))
        i.emit(Kind.MOVE, (low,), (kept,))
    else:
        i.emit(Kind.SELECT, (i.target,), (i.word(0), i.word(1), i.predicate(2)))


@knows(f"U32 S32 U64 S64 RELU {_PACKED}")
def _minmax(i: LoweringStep) -> None:
    if "U64" in i.modifiers or "S64" in i.modifiers:
        _minmax_pairs(i)
    else:
        _extreme(i, (i.word(0), i.word(1)), i.predicate(2))


def _minmax_pairs(i: LoweringStep) -> None:
    first, second = i.pair(0), i.pair(1)
    detail = (Relation.LT, int("S64" in i.modifiers))
    below = i.new(Kind.COMPARE_WIDE, (*first, *second), detail)
    chosen = i.new(Kind.DECIDE, (below, i.predicate(2), 0), (_SAME,))
    kept = i.new(Kind.SELECT, (first[0], second[0], chosen))
    low, high = i.target_pair
    i.emit(Kind.SELECT, (high,), (first[1], second[1], chosen))
    i.emit(Kind.MOVE, (low,), (kept,))


@knows(f"U32 S32 RELU {_PACKED}")
def _add_minmax(i: LoweringStep) -> None:
    """min(a + b, c), or max."""
    _extreme(i, (_add_lanes(i), i.word(2)), i.predicate(3))


@knows(f"U32 S32 RELU {_PACKED}")
def _minmax3(i: LoweringStep) -> None:
    if len(i.operands) != 4:
        raise Untranslated(i.instruction.text)
    _extreme(i, (i.word(0), i.word(1), i.word(2)), i.predicate(3))


def _extreme(i: LoweringStep, words: tuple[int, ...], least: int) -> None:
    """The least or the greatest lane of words, with ``RELU`` 0 at least; predicates say where it is
    the first word's."""
    signed = (_lane(i)[1],)
    equal: list[int] = []

    def choose(first: int, *others: int) -> int:
        best = first
        for other in others:
            best = i.new(Kind.MINIMUM, (best, other, least), signed)
        equal.append(i.new(Kind.COMPARE, (best, first), (Relation.EQ, 0)) if i.predicates else 0)
        return i.new(Kind.MINIMUM, (best, 0, 0), signed) if "RELU" in i.modifiers else best

    i.emit(Kind.MOVE, (i.target,), (_each_lane(i, words, choose),))
    for predicate, value in zip(i.predicates, equal, strict=False):
        i.emit(Kind.MOVE, (predicate,), (value,))


@knows("U32 S32 U8 S8 ACC")
def _absolute_difference(i: LoweringStep) -> None:
    """|a - b| + c; of four bytes the differences, or with ``ACC`` their sum."""
    signed = (_lane(i)[1],)
    differences: list[int] = []

    def subtract(left: int, right: int) -> int:
        least, most = (
            i.new(Kind.MINIMUM, (left, right, which), signed) for which in (i.literal(1), 0)
        )
        differences.append(i.new(Kind.ADD, (most, least, 0), (2,)))
        return differences[-1]

    packed = _each_lane(i, (i.word(0), i.word(1)), subtract)
    if "ACC" in i.modifiers:
        total = i.word(2)
        for difference in differences:
            total = i.new(Kind.ADD, (total, difference, 0), (0,))
        i.emit(Kind.MOVE, (i.target,), (total,))
    elif len(differences) > 1 and i.word(2):
        raise Untranslated(i.instruction.text)
    else:
        i.emit(Kind.ADD, (i.target,), (packed, i.word(2), 0), (0,))


def _each_lane(i: LoweringStep, words: tuple[int, ...], function: Callable[..., int]) -> int:
    """Apply a function to each lane of words, and pack the results."""
    width, signed = _lane(i)
    if width == _WORD:
        return function(*words)
    packed = 0
    for start in range(0, _WORD, width):
        result = function(*(_extract_field(i, w, start, width, signed) for w in words))
        low = _extract_field(i, result, 0, width, 0)
        packed = i.new(Kind.MULTIPLY, (low, i.literal(1 << start), packed, 0))
    return packed


def _lane(i: LoweringStep) -> tuple[int, int]:
    """Bits of the numbers that a word holds, and whether they are signed: ``S16x2`` is (16, 1)."""
    packed = next(filter(None, map(_LANE.fullmatch, i.modifiers)), None)
    return (int(packed[2]), int(packed[1] != "U")) if packed else (_WORD, 1)


@knows("F LT EQ LE GT NE GE T U32 S32 U64 S64 AND OR XOR EX")
def _isetp(i: LoweringStep) -> None:
    m = i.modifiers
    relation = _RELATIONS[m[0]]
    signed = int("U32" not in m and "U64" not in m)
    result = i.registers.temporary()
    if "U64" in m or "S64" in m:
        i.emit(Kind.COMPARE_WIDE, (result,), (*i.pair(0), *i.pair(1)), (relation, signed))
    elif "EX" in m:
        sources = (i.word(0), i.word(1), i.predicate(3))
        i.emit(Kind.COMPARE_EXTENDED, (result,), sources, (relation, signed))
    else:
        i.emit(Kind.COMPARE, (result,), (i.word(0), i.word(1)), (relation, signed))
    join_predicates(i, result, 2)


def join_predicates(i: LoweringStep, result: int, place: int) -> None:
    """The first target is ``result op p``, the second ``!result op p``."""
    results = [result]
    if any(predicate >= 0 for predicate in i.predicates[1:]):
        results.append(i.new(Kind.LOGIC, (result, i.literal(1), 0), (0x3C,)))
    write_joined_predicates(i, results, place)


def write_joined_predicates(i: LoweringStep, results: Sequence[int], place: int) -> None:
    """The targets are ``result op p``, each with its own result."""
    join = _join_table(require(m for m in i.modifiers[1:] if m in _JOIN))
    extra = i.predicate(place)
    written = [(p, r) for p, r in zip(i.predicates, results, strict=False) if p >= 0]
    kept = [(p, i.new(Kind.DECIDE, (result, extra, 0), (join,))) for p, result in written]
    for predicate, value in kept:
        i.emit(Kind.MOVE, (predicate,), (value,))


def _join_table(join: str) -> int:
    function = _JOIN[join]
    return sum(function(row >> 2 & 1, row >> 1 & 1) << row for row in range(8))


@knows("LUT")
def _plop3(i: LoweringStep) -> None:
    tables = [o.value for o in i.operands if o.kind == "number"]
    inputs = tuple(i.predicate(p) for p in range(3))
    kept = [i.new(Kind.DECIDE, inputs, (table,)) for table in tables[: len(i.predicates)]]
    for predicate, value in zip(i.predicates, kept, strict=False):
        i.emit(Kind.MOVE, (predicate,), (value,))


@knows("AND OR XOR")
def _psetp(i: LoweringStep) -> None:
    inner, outer = _JOIN[i.modifiers[0]], _JOIN[i.modifiers[1]]
    inputs = tuple(i.predicate(p) for p in range(3))
    rows = [(r >> 2 & 1, r >> 1 & 1, r & 1) for r in range(8)]
    tables = [
        sum(outer(inner(a, b) ^ flip, c) << n for n, (a, b, c) in enumerate(rows))
        for flip in (0, 1)
    ]
    kept = [i.new(Kind.DECIDE, inputs, (table,)) for table in tables]
    for predicate, value in zip(i.predicates, kept, strict=False):
        i.emit(Kind.MOVE, (predicate,), (value,))


@knows("")
def _prmt(i: LoweringStep) -> None:
    i.emit(Kind.PERMUTE, (i.target,), (i.word(0), i.word(1), i.word(2)))


@knows("")
def _popc(i: LoweringStep) -> None:
    i.emit(Kind.COUNT_BITS, (i.target,), (i.word(0),))


@knows("U32 S32 SH")
def _flo(i: LoweringStep) -> None:
    detail = (int("U32" not in i.modifiers), int("SH" in i.modifiers))
    i.emit(Kind.FIND_BIT, (i.target,), (i.word(0),), detail)


@knows("")
def _brev(i: LoweringStep) -> None:
    i.emit(Kind.REVERSE_BITS, (i.target,), (i.word(0),))


@knows("W C")
def _bmsk(i: LoweringStep) -> None:
    i.emit(Kind.BIT_FIELD, (i.target,), (i.word(0), i.word(1)), (int("W" in i.modifiers),))


@knows("U32 W")
def _sgxt(i: LoweringStep) -> None:
    detail = (int("U32" not in i.modifiers), int("W" in i.modifiers))
    i.emit(Kind.EXTEND, (i.target,), (i.word(0), i.word(1)), detail)


@knows("")
def _iabs(i: LoweringStep) -> None:
    i.emit(Kind.ABSOLUTE, (i.target,), (i.word(0),))


@knows("4A 2A LO HI S8 U8 S16 U16")
def _idp(i: LoweringStep) -> None:
    """Sums of products: of four bytes each, or of two halves with two of the four bytes."""
    kinds = Words(m for m in i.modifiers if m in ("S8", "U8", "S16", "U16"))
    signed = (int(kinds[0][0] == "S"), int(kinds[1][0] == "S"))
    if "4A" in i.modifiers:
        i.emit(Kind.DOT, (i.target,), (i.word(0), i.word(1), i.word(2)), signed)
        return
    total, start = i.word(2), 16 if "HI" in i.modifiers else 0
    for n in range(2):
        half = _extract_field(i, i.word(0), 16 * n, 16, signed[0])
        byte = _extract_field(i, i.word(1), start + 8 * n, 8, signed[1])
        total = i.new(Kind.MULTIPLY, (half, byte, total, 0))
    i.emit(Kind.MOVE, (i.target,), (total,))


def _extract_field(i: LoweringStep, word: int, start: int, width: int, signed: int) -> int:
    """Return a register with ``width`` bits of a word from bit ``start``, as a number."""
    shifted = i.new(Kind.SHIFT, (word, i.literal(start), 0), (1, 0, 64, 0, 0))
    return i.new(Kind.EXTEND, (shifted, i.literal(width)), (signed, 0))


@knows("MMA")
def _hfma2(i: LoweringStep) -> None:
    """``HFMA2.MMA R, -RZ, RZ, a, b`` builds a word out of two halves."""
    registers = [o for o in i.operands if o.kind == "register"]
    if len(i.operands) != 4 or [o.name for o in registers] != ["RZ", "RZ"]:
        raise Untranslated(i.instruction.text)
    high, low = _half(i.operands[2].text), _half(i.operands[3].text)
    i.emit(Kind.MOVE, (i.target,), (i.literal(high << 16 | low),))


def _half(text: str) -> int:
    if "NAN" in text:
        return 0xFFFF if text.startswith("-") else 0x7FFF
    try:
        packed = struct.pack("<e", parse_float(text.strip()))
    except OverflowError:
        raise Untranslated(text) from None
    return int.from_bytes(packed, "little")


@knows("32 64")
def _s2r(i: LoweringStep) -> None:
    name = i.operands[0].name
    if name in _NOTHING:
        value = 0
    elif name in _SPECIAL:
        value = i.registers.special(_SPECIAL[name])
    elif name in _LANES:
        value = i.registers.special(_LANES[name])
    else:
        raise Untranslated(name)
    pair = i.instruction.base.endswith("CS2R") and "32" not in i.modifiers
    kind = Kind.FIRST if i.instruction.base == "S2UR" and "TID" in name else Kind.MOVE
    i.emit(kind, (i.target,), (value,))
    if pair:
        i.emit(Kind.MOVE, i.target_pair[1:], (0,))


@knows("ALL ANY EQ")
def _vote(i: LoweringStep) -> None:
    operands = i.all_operands
    mode = {"ALL": Voting.ALL, "ANY": Voting.ANY, "EQ": Voting.EQUAL}[i.modifiers[0]]
    register = [i.result(o) for o in operands[:1] if o.kind == "register"]
    predicate = [i.result(o) for o in operands[len(register) : -1]]
    i.operands = operands
    targets = (*(register or [-1]), *(predicate or [-1]))
    i.emit(Kind.VOTE, targets, (i.predicate(len(operands) - 1),), (mode,))


@knows("IDX UP DOWN BFLY")
def _shfl(i: LoweringStep) -> None:
    modes = {"IDX": Shuffling.INDEX, "UP": Shuffling.UP, "DOWN": Shuffling.DOWN,
             "BFLY": Shuffling.BUTTERFLY}  # fmt: skip
    sources = (i.word(0), i.word(1), i.word(2))
    i.emit(Kind.SHUFFLE, (i.target, *i.predicates[:1]), sources, (modes[i.modifiers[0]],))


@knows("ANY ALL U32 U64")
def _match(i: LoweringStep) -> None:
    wide = "U64" in i.modifiers
    sources = i.pair(0) if wide else (i.word(0), 0)
    predicate = i.predicates[:1] or (-1,)
    i.emit(Kind.MATCH, (i.target, *predicate), sources, (int("ALL" in i.modifiers),))


@knows("SUM MIN MAX AND OR XOR S32 U32")
def _redux(i: LoweringStep) -> None:
    modes = {"SUM": Combining.ADD, "MIN": Combining.MIN, "MAX": Combining.MAX,
             "AND": Combining.AND, "OR": Combining.OR, "XOR": Combining.XOR}  # fmt: skip
    mode = next((modes[m] for m in i.modifiers if m in modes), Combining.AND)
    i.emit(Kind.REDUCE, (i.target,), (i.word(0),), (mode, int("S32" in i.modifiers)))


@knows("")
def _p2r(i: LoweringStep) -> None:
    mask = i.operands[-1].value
    names = ["P" + str(n) for n in range(7)] if i.operands[0].name == "PR" else []
    if not names:
        raise Untranslated(i.instruction.text)
    value = i.new(Kind.LOGIC, (i.word(1), i.literal(~mask), 0), (AND,))
    for n, name in enumerate(names):
        if mask >> n & 1:
            register = i.registers.number_of(name)
            value = i.new(Kind.MULTIPLY, (register, i.literal(1 << n), value, 0))
    i.emit(Kind.MOVE, (i.target,), (value,))


@knows("")
def _r2p(i: LoweringStep) -> None:
    operands = i.all_operands
    i.operands = operands
    suffix = operands[1].suffix
    shift = part_of_word(suffix) if suffix.startswith(".B") else 0
    source, mask = i.plain(1), operands[2].value
    for n in range(7):
        if mask >> n & 1:
            lifted = i.new(Kind.SHIFT, (source, i.literal(n + shift), 0), (1, 0, 64, 0, 0))
            i.emit(
                Kind.LOGIC, (i.registers.number_of(f"P{n}"),), (lifted, i.literal(1), 0), (AND,)
            )  # fmt: skip


@knows("")
def _elect(i: LoweringStep) -> None:
    lane = i.registers.special("laneid")
    elected = i.new(Kind.FIRST, (lane,))
    predicate = require(o for o in i.all_operands if o.kind == "predicate")
    i.emit(Kind.COMPARE, (i.result(predicate),), (lane, elected), (Relation.EQ, 0))


_BOTH: Mapping[str, Translation] = {
    "MOV": _mov, "IADD3": _iadd3, "IADD": _iadd, "VIADD": _iadd, "IMAD": _imad, "LEA": _lea,
    "LOP3": _lop3, "LOP": _lop, "SHF": _shf, "SEL": _select_words, "IMNMX": _minmax,
    "VIMNMX": _minmax, "VIADDMNMX": _add_minmax, "VIMNMX3": _minmax3, "ISETP": _isetp,
    "PLOP3": _plop3, "PSETP": _psetp, "PRMT": _prmt, "POPC": _popc, "FLO": _flo, "BREV": _brev,
    "BMSK": _bmsk, "SGXT": _sgxt,
}  # fmt: skip
INTEGER: Mapping[str, Translation] = {
    **_BOTH,
    **{f"U{name}": translation for name, translation in _BOTH.items()},
    "MOV32I": _mov, "R2UR": _r2ur, "IABS": _iabs, "IDP": _idp, "HFMA2": _hfma2, "S2R": _s2r,
    "S2UR": _s2r, "CS2R": _s2r, "CS2UR": _s2r, "VOTE": _vote, "VOTEU": _vote, "SHFL": _shfl,
    "VABSDIFF": _absolute_difference, "VABSDIFF4": _absolute_difference, "MATCH": _match,
    "REDUX": _redux, "P2R": _p2r, "R2P": _r2p, "ELECT": _elect,
}  # fmt: skip
