"""Operands that an instruction writes, and the registers that one without a translation writes and
reads."""

from __future__ import annotations

from functools import lru_cache

from perfassert.frontends.machine.matrix import fragment_words
from perfassert.frontends.machine.sass import Instruction, Operand

_NO_RESULT = frozenset(
    "ST STG STS STL RED REDG BRA EXIT BAR BSSY BSYNC MEMBAR NOP WARPSYNC DEPBAR CCTL RET CALL BRX "
    "JMP JMX LDGSTS LDGDEPBAR ERRBAR YIELD NANOSLEEP KILL BPT BREAK BMOV CCTLL ARRIVES "
    "UTMALDG UTMASTG UTMAPF UTMACMDFLUSH UBLKCP UBLKRED FENCE BRXU JMXU ACQBULK WARPGROUP "
    "USETMAXREG PREEXIT RPCMOV CGAERRBAR ENDCOLLECTIVE SUST STSM".split()
)
_TWO_PREDICATES = frozenset("ISETP UISETP FSETP DSETP HSETP2 PSETP PLOP3 UPLOP3 FSETP2".split())
_CARRIES = frozenset(
    "IADD3 LEA UIADD3 ULEA IMAD UIMAD IADD UIADD VOTE VOTEU VIMNMX UVIMNMX".split()
)
_VOTES = ("VOTE", "VOTEU")
_WORDS = {"64": 2, "128": 4, "96": 3, "256": 8}
_PAIRS = ("DMNMX", "FADD2", "FMUL2", "FFMA2")


def written_registers(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers and predicates that an instruction without a translation writes."""
    names: list[str] = []
    behind = False  # the register: a negated predicate there is read, a carry
    for operand in instruction.operands[: results(instruction)]:
        if operand.kind == "predicate":
            if operand.name[-1] != "T" and not (behind and operand.sign):
                names.append(operand.name)
        elif instruction.base not in _TWO_PREDICATES:
            names += operand_registers(operand, _result_words(instruction))
            behind = True
    return tuple(names)


def results(instruction: Instruction) -> int:
    """Return how many leading operands are written: predicates, a register, carries or a vote."""
    base, operands = instruction.base, instruction.operands
    if base in _NO_RESULT and "TRY_ALLOC" not in instruction.modifiers:
        return 0
    if base in _TWO_PREDICATES:
        return min(2, len(operands))
    if base == "FCHK":
        return 1
    place = _predicates_from(instruction, 0)
    if base in _VOTES and place == len(operands):
        return place - 1  # the last one is voted on
    if place < len(operands) and operands[place].kind == "register":
        place += 1
        if base in _CARRIES:
            following = _predicates_from(instruction, place)
            place = min(following, place + 1) if base in _VOTES else following
    return place


def _predicates_from(instruction: Instruction, place: int) -> int:
    """Return the place after a run of predicates."""
    operands = instruction.operands
    while place < len(operands) and operands[place].kind == "predicate":
        place += 1
    return place


def read_registers(instruction: Instruction) -> tuple[str, ...]:
    """Return what an instruction without a translation reads, guard included."""
    result: list[str] = []
    if instruction.guard and instruction.guard[0][-1] != "T":
        result.append(instruction.guard[0])
    operands = instruction.operands[results(instruction) :]
    for place, operand in enumerate(operands):
        if operand.kind == "predicate":
            if operand.name[-1] != "T":
                result.append(operand.name)
        elif operand.kind == "register":
            result += operand_registers(operand, _source_words(instruction, place))
        elif operand.kind in ("memory", "constant"):
            indirect = operand.kind == "memory" or operand.name.startswith("UR")
            if operand.name and indirect:
                result += operand_registers(Operand("register", operand.name), 2)
            for part in operand.parts:
                result += operand_registers(part, 2 if ".64" in part.suffix else 1)
    return tuple(dict.fromkeys(result))


def operand_registers(operand: Operand, words: int) -> tuple[str, ...]:
    """Return an operand's registers: ``R4``, ``R5`` for two words; none for ``RZ``."""
    if operand.kind != "register" or operand.name in ("RZ", "URZ"):
        return ()
    return consecutive_registers(operand.name, words)


@lru_cache(maxsize=4096)
def consecutive_registers(name: str, words: int) -> tuple[str, ...]:
    """Return ``R4`` and as many registers behind it as make up ``words``."""
    prefix = name.rstrip("0123456789")
    first = int(name[len(prefix) :])
    return tuple(f"{prefix}{first + i}" for i in range(words))


def descriptors(instruction: Instruction) -> tuple[str, ...]:
    """Registers with the properties of the memory that is accessed: ``desc[UR4]``."""
    named = (o.name for o in instruction.operands if o.kind in ("memory", "constant"))
    return tuple(
        r for name in named if name.startswith("UR") for r in consecutive_registers(name, 2)
    )


def _result_words(instruction: Instruction) -> int:
    base, modifiers = instruction.base, instruction.modifiers
    if base.endswith("MMA") and base != "HFMA2":
        return fragment_words(instruction, "D")
    if base == "LDSM":
        return int(modifiers[-1]) if modifiers and modifiers[-1] in ("2", "4") else 1
    if "WIDE" in modifiers or base in _PAIRS:
        return 2
    if base == "CS2R":
        return 1 if "32" in modifiers else 2
    if base in ("F2F", "I2F") and modifiers and modifiers[0] == "F64":
        return 2
    for modifier in modifiers:
        if modifier in _WORDS and base not in ("SHF", "USHF", "ISETP"):
            return _WORDS[modifier]
    return 1


def _source_words(instruction: Instruction, place: int) -> int:
    base, modifiers = instruction.base, instruction.modifiers
    if base.endswith("MMA") and base != "HFMA2":
        roles = "ACC" if base.endswith("GMMA") else "ABC"  # a group's B is never in registers
        return fragment_words(instruction, roles[place]) if place < 3 else 1
    if base in _PAIRS or (base in ("F2F", "F2I") and modifiers and modifiers[-1] == "F64"):
        return 2
    return 1
