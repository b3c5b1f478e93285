"""Flow of control, barriers and what has no effect on values, as executable operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from perfassert.frontends.machine.lowering_step import AND, LoweringStep, Untranslated, require
from perfassert.kernel.machine import Combining, Kind

_INDIRECT = re.compile(r"(U?R\d+|U?RZ)(?:\s+(-?(?:0x[0-9a-f]+|\d+)))?$")
_EVERYONE = 0xFFFFFFFF  # mask of all lanes
_NO_EFFECT = (
    "NOP MEMBAR ERRBAR CCTLL CCTLT DEPBAR LDGDEPBAR FENCE CGAERRBAR ENDCOLLECTIVE PREEXIT "
    "ACQBULK WARPGROUP UCGABAR_ARV UCGABAR_WAIT RPCMOV BPT UTMAPF UBLKPF"
).split()


def _branch(i: LoweringStep) -> None:
    """Translate a branch: a predicate operand decides besides the guard."""
    target = i.place_of(i.all_operands[-1])
    if "DIV" in i.modifiers or "CONV" in i.modifiers:
        i.emit(Kind.BRANCH_DIVERGED, (), (), (target, int("CONV" in i.modifiers)))
        return
    i.operands = i.all_operands
    own = [p for p, o in enumerate(i.operands) if o.kind == "predicate"]
    sources: tuple[int, ...] = ()
    for place in own:
        if i.operands[place].name[-1] != "T" or i.operands[place].sign:
            condition = i.predicate(place)
            if sources:
                condition = i.new(Kind.DECIDE, (*sources, condition, 0), (AND,))
            sources = (condition,)
    i.emit(Kind.BRANCH, (), sources, (target,))


def _call(i: LoweringStep) -> None:
    operand = i.all_operands[-1]
    if operand.kind in ("target", "number"):
        i.emit(Kind.BRANCH, (), (), (i.place_of(operand),))
    elif i.modifiers[0] == "REL":  # others go to addresses that the driver fills in
        _branch_into_function(i, returns=0)
    else:
        raise Untranslated(i.instruction.text)


def _return(i: LoweringStep) -> None:
    _branch_into_function(i, returns=1)


def _branch_into_function(i: LoweringStep, returns: int) -> None:
    """Translate a jump by a register that counts from the start of the named function."""
    text = i.all_operands[-1].text
    match = _INDIRECT.match(_register_text(text))
    if match is None:
        raise Untranslated(i.instruction.text)
    function = re.search(r"`\((.*)\)", text)
    base = i.code_address(function[1]) if function else 0
    i.emit(Kind.BRANCH_INDIRECT, (), (i.registers.number_of(match[1]),), (base, returns))


def _code_address(i: LoweringStep) -> None:
    """``LEPC R20, `(label)``: where a routine returns to."""
    operand = i.operands[-1]
    if operand.kind != "target":
        raise Untranslated(i.instruction.text)
    address = i.code_address(operand.name)
    low, high = i.target_pair
    i.emit(Kind.MOVE, (low,), (i.literal(address),))
    i.emit(Kind.MOVE, (high,), (i.literal(address >> 32),))


def _register_text(text: str) -> str:
    return text.partition("`")[0].strip()


def _indirect(i: LoweringStep) -> None:
    """Translate ``BRX R2 -0x180``: the offset is relative to the next instruction."""
    match = _INDIRECT.match(_register_text(i.all_operands[-1].text))
    if match is None:
        raise Untranslated(i.instruction.text)
    offset = i.next_address() + int(match[2] or "0", 0)
    i.emit(Kind.BRANCH_INDIRECT, (), (i.registers.number_of(match[1]),), (offset, 0))


def _exit(i: LoweringStep) -> None:
    i.operands = i.all_operands
    own = tuple(i.predicate(p) for p, o in enumerate(i.operands) if o.kind == "predicate")
    i.emit(Kind.EXIT, (), own[:1])


def _barrier_register(i: LoweringStep, place: int) -> int:
    return i.registers.number_of(i.all_operands[place].name)


def _bssy(i: LoweringStep) -> None:
    i.emit(Kind.SYNC_SET, (_first_barrier(i),), ())


def _first_barrier(i: LoweringStep) -> int:
    place = require(
        p for p, o in enumerate(i.all_operands) if re.fullmatch(r"B\d+", o.name)
    )  # fmt: skip
    return _barrier_register(i, place)


def _bsync(i: LoweringStep) -> None:
    i.emit(Kind.SYNC_WAIT, (), (_first_barrier(i),))


def _break(i: LoweringStep) -> None:
    i.emit(Kind.SYNC_LEAVE, (), (_first_barrier(i),))


def _bmov(i: LoweringStep) -> None:
    """Translate a move between a barrier register and another register."""
    target, source = i.all_operands[0], i.all_operands[1]
    if target.kind == "special":
        value = i.registers.number_of(source.name)
        i.emit(Kind.MOVE, (i.registers.number_of(target.name),), (value,))
        return
    barrier = i.registers.number_of(source.name)
    i.emit(Kind.MOVE, (i.result(target),), (barrier,))
    if "CLEAR" in i.modifiers:
        i.emit(Kind.MOVE, (barrier,), (0,))


def _warpsync(i: LoweringStep) -> None:
    i.operands = i.all_operands
    everyone = "ALL" in i.modifiers or not i.operands
    mask = i.literal(_EVERYONE) if everyone else i.word(0)
    i.emit(Kind.WARP_WAIT, (), (mask,))


def _bar(i: LoweringStep) -> None:
    i.operands = i.all_operands
    words = [p for p, o in enumerate(i.operands) if o.kind != "predicate"]
    predicates = [p for p, o in enumerate(i.operands) if o.kind == "predicate"]
    number = i.word(words[0]) if words else 0
    count = i.word(words[1]) if len(words) > 1 else 0
    if "RED" in i.modifiers:
        modes = {"POPC": Combining.ADD, "AND": Combining.AND, "OR": Combining.OR}
        mode = require(modes[m] for m in i.modifiers if m in modes)
        condition = i.predicate(predicates[0])
        targets = (i.registers.number_of("BAR result"), i.registers.number_of("BAR predicate"))
        i.emit(Kind.BARRIER_REDUCE, targets, (number, count, condition), (mode,))
        return
    i.emit(Kind.BARRIER, (), (number, count), (int("ARV" in i.modifiers),))


def _b2r(i: LoweringStep) -> None:
    if "RESULT" not in i.modifiers:
        raise Untranslated(i.instruction.text)
    for operand in i.all_operands:
        name = "BAR predicate" if operand.kind == "predicate" else "BAR result"
        i.emit(Kind.MOVE, (i.result(operand),), (i.registers.number_of(name),))


def _yield(i: LoweringStep) -> None:
    i.emit(Kind.YIELD, (), ())


def _no_operation(i: LoweringStep) -> None:
    return


def _request_registers(i: LoweringStep) -> None:
    if "TRY_ALLOC" in i.modifiers:
        raise Untranslated(i.instruction.text)


CONTROL: Mapping[str, Callable[[LoweringStep], None]] = {
    **dict.fromkeys(_NO_EFFECT, _no_operation),
    **dict.fromkeys(("BRA", "BRAU", "JMP"), _branch),
    **dict.fromkeys(("BRX", "BRXU"), _indirect),
    "CALL": _call, "RET": _return, "EXIT": _exit, "KILL": _exit, "BSSY": _bssy, "BSYNC": _bsync,
    "BREAK": _break, "BMOV": _bmov, "WARPSYNC": _warpsync, "BAR": _bar, "B2R": _b2r,
    "YIELD": _yield, "NANOSLEEP": _yield, "LEPC": _code_address, "USETMAXREG": _request_registers,
}  # fmt: skip
