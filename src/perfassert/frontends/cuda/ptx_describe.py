"""PTX without machine code → a :class:`~perfassert.kernel.program.Program`.

Each PTX instruction stands for one of the machine's that does its work; results are waited for
where they are read. What ptxas would merge, move or leave out, it stands for all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from perfassert.frontends.cuda.describe import Describer
from perfassert.frontends.cuda.ptx import PtxCode, kernel_of, memory_of
from perfassert.frontends.cuda.ptx_control import ADDRESS_STEP
from perfassert.frontends.cuda.ptx_converge import ENDS
from perfassert.frontends.cuda.ptx_float import FLOATS
from perfassert.frontends.cuda.ptx_machine import names_of, prepared
from perfassert.frontends.cuda.ptx_schedule import touched
from perfassert.frontends.cuda.ptx_text import PtxInstruction, Variable, bits_of, number_bits
from perfassert.frontends.cuda.sass import NO_BARRIER, Control, Instruction
from perfassert.frontends.cuda.sass_calls import Placed
from perfassert.frontends.toolchain.binary import Binary
from perfassert.kernel.access import Direction
from perfassert.kernel.program import MemoryAccess, Program, ProgramInstruction
from perfassert.kernel.roles import CountedWait
from perfassert.kernel.symbols import Value
from perfassert.source import SourceSpan

_IN_ORDER = Control(1, False, NO_BARRIER, NO_BARRIER, 0, 0)
_COUNTED = 0  # the barrier of groups of asynchronous copies
_FIRST = 1  # of those that stand for results
_WORD_BITS = 32
_WIDTHS = {1: "U8", 2: "U16", 4: "32", 8: "64", 12: "96", 16: "128", 32: "256"}
_MEMORY = {
    ("ld", "global"): "LDG", ("ld", "generic"): "LD", ("ld", "shared"): "LDS",
    ("ld", "local"): "LDL", ("ld", "const"): "LDC", ("ld", "param"): "MOV",
    ("st", "global"): "STG", ("st", "generic"): "ST", ("st", "shared"): "STS",
    ("st", "local"): "STL", ("st", "param"): "MOV", ("atom", "global"): "ATOMG",
    ("atom", "generic"): "ATOM", ("atom", "shared"): "ATOMS", ("red", "global"): "RED",
    ("red", "generic"): "RED", ("red", "shared"): "ATOMS",
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_INTEGER_INPUTS = ("s8", "u8", "s4", "u4")
_SIMPLE = {
    "mul": "IMAD", "mad": "IMAD", "madc": "IMAD", "mul24": "IMAD", "mad24": "IMAD", "div": "IMAD",
    "rem": "IMAD", "dp4a": "IDP", "dp2a": "IDP", "and": "LOP3", "or": "LOP3", "xor": "LOP3",
    "not": "LOP3", "cnot": "LOP3", "lop3": "LOP3", "shl": "SHF", "shr": "SHF", "shf": "SHF",
    "bfe": "SHF", "bfi": "SHF", "min": "IMNMX", "max": "IMNMX", "abs": "IABS", "prmt": "PRMT",
    "popc": "POPC", "clz": "FLO", "bfind": "FLO", "brev": "BREV", "setp": "ISETP", "set": "ISETP",
    "selp": "SEL", "slct": "SEL", "mov": "MOV", "cvta": "MOV", "isspacep": "QSPC", "shfl": "SHFL",
    "vote": "VOTE", "activemask": "VOTE", "match": "MATCH", "redux": "REDUX", "elect": "ELECT",
    "bra": "BRA", "brx": "BRX", "ret": "EXIT", "exit": "EXIT", "trap": "EXIT", "call": "CALL",
    "bssy": "BSSY", "bsync": "BSYNC", "break": "BREAK", "bclear": "BMOV", "warpsync": "WARPSYNC",
    "fence": "MEMBAR", "nanosleep": "NANOSLEEP", "ldmatrix": "LDSM",
    "stmatrix": "STSM", "prefetchu": "CCTL", "discard": "CCTL",
    **dict.fromkeys(("add", "sub", "addc", "subc", "neg", "sad"), "IADD3"),
}  # fmt: skip
_SPECIAL = dict.fromkeys(
    ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "div"), "MUFU"
)
_SINGLE = {
    "add": "FADD", "sub": "FADD", "neg": "FADD", "abs": "FADD", "copysign": "LOP3", "mul": "FMUL",
    "fma": "FFMA", "mad": "FFMA", "min": "FMNMX", "max": "FMNMX", "setp": "FSETP", "set": "FSET",
    "testp": "FSETP", "slct": "FSEL", "selp": "FSEL", **_SPECIAL,
}  # fmt: skip
_DOUBLE = {
    "add": "DADD", "sub": "DADD", "neg": "DADD", "abs": "DADD", "mul": "DMUL", "fma": "DFMA",
    "mad": "DFMA", "min": "DMNMX", "max": "DMNMX", "setp": "DSETP", "set": "DSETP",
    "testp": "DSETP", **_SPECIAL,
}  # fmt: skip
_HALF = {
    "add": "HADD2", "sub": "HADD2", "neg": "HADD2", "abs": "HADD2", "mul": "HMUL2",
    "fma": "HFMA2", "min": "HMNMX2", "max": "HMNMX2", "setp": "HSETP2", "set": "HSET2", **_SPECIAL,
}  # fmt: skip


def describe_ptx(binary: Binary) -> Program:
    """The program of a binary without machine code.

    Raises :class:`~perfassert.KernelSourceError` for a text that cannot be read.
    """
    return _PtxDescriber(binary).program()


class _PtxDescriber(Describer):
    """As of machine code, with closed forms, results and places of the PTX."""

    def read(self) -> None:
        binary = self.binary
        where = next(iter(binary.files))
        made = prepared(binary.ptx or "", binary.mangled, where)
        known = names_of(made)
        shared = [
            Variable(name, symbol.space, 0, 1) for name, symbol in made.layout.symbols.items()
        ]
        self.kernel = kernel_of(made.routine, shared)
        self.offsets = {
            f"array:{name}": symbol.offset
            for name, symbol in made.layout.symbols.items()
            if symbol.space in ("shared", "local")
        }
        self.steps = [touched(i, known) for i in made.routine.instructions]
        self.barriers = _barriers(self.steps)
        self.placed = tuple(_placed(i, where) for i in made.routine.instructions)
        self.jumps = {
            i.index for i in self.kernel.instructions if i.parts[0] in ("bra", "brx", *ENDS)
        }
        self.code = PtxCode(self.kernel, self.symbols)

    def _accesses(self, index: int) -> tuple[MemoryAccess, ...]:
        memory = memory_of(self.kernel.instructions[index])
        values = self.result.addresses[index]
        if memory is None or memory.space in ("const", "param") or not values:
            return ()
        s = self.symbols
        held = {a.index: s.number(self.offsets[a.name]) for a in s.atoms if a.name in self.offsets}
        values = tuple(s.substitute(v, held, {}) for v in values)
        space = "global" if memory.space == "generic" else memory.space
        made = self.access(self.placed[index].instruction, space, values[0])
        made = replace(made, bytes=memory.bytes)
        if len(values) == 1:
            return (made,)
        there = self.access(self.placed[index].instruction, "shared", values[1])
        return made, replace(there, bytes=memory.bytes, direction=Direction.STORE)

    def _sleeps(self, index: int) -> Value | None:
        """A literal; what a register holds is not asked for."""
        instruction = self.kernel.instructions[index]
        literal = instruction.operands[-1:] if instruction.parts[0] == "nanosleep" else ()
        found = [number_bits(text, "u32") for text in literal]
        return self.symbols.number(found[0]) if found and found[0] is not None else None

    def _instruction(self, index: int, accesses: tuple[MemoryAccess, ...]) -> ProgramInstruction:
        written, read = self.steps[index]
        waits = {self.barriers[r] for r in read if r in self.barriers}
        return replace(
            super()._instruction(index, accesses),
            sets=next((self.barriers[r] for r in written if r in self.barriers), -1),
            waits=tuple(sorted(waits)),
            defines=tuple(written),
            uses=tuple(read),
            counted=_counted(self.kernel.instructions[index]),
        )


def _barriers(steps: list[tuple[list[str], list[str]]]) -> Mapping[str, int]:
    """Registers that are written together, in one instruction or another, share a number."""
    number: dict[str, int] = {}
    for place, (written, _) in enumerate(steps):
        known = {number[r] for r in written if r in number}
        own = min(known, default=_FIRST + place)
        for register, held in number.items():
            if held in known:
                number[register] = own
        number.update(dict.fromkeys(written, own))
    return number


def _counted(instruction: PtxInstruction) -> tuple[CountedWait, ...]:
    if instruction.parts[0] != "cp":
        return ()
    if "wait_all" in instruction.parts:
        return (CountedWait(_COUNTED, 0),)
    if "wait_group" in instruction.parts and instruction.operands:
        return (CountedWait(_COUNTED, int(instruction.operands[0], 0)),)
    return ()


def _placed(i: PtxInstruction, where: str) -> Placed:
    text = f"{i.opcode} {', '.join(i.operands)}".strip()
    instruction = Instruction(
        i.index, ADDRESS_STEP * i.index, machine_opcode(i), (), i.guard, _IN_ORDER, text,
        SourceSpan(where, i.line), (), i.line,
    )  # fmt: skip
    return Placed(instruction, ())


def machine_opcode(instruction: PtxInstruction) -> str:
    """The machine's instruction that a PTX instruction is taken for; what has none keeps its name,
    which is an unknown opcode."""
    parts = instruction.parts
    root, kind = parts[0], parts[-1]
    memory = memory_of(instruction)
    if root == "cp":
        return _copy(parts)
    if memory is not None and root in ("ld", "ldu", "st", "atom", "red"):
        base = _MEMORY.get(("ld" if root == "ldu" else root, memory.space), "LD")
        return f"{base}.{_WIDTHS.get(memory.bytes, '32')}{_strength(parts)}"
    if root in ("membar", "fence") and {"proxy", "mbarrier_init"}.isdisjoint(parts):
        return f"MEMBAR{_scope(parts)}"
    if root == "prefetch":
        return "CCTL.PF1" if kind == "L1" else "CCTL.PF2"
    if root == "mov" and instruction.operands[1:] and instruction.operands[1].startswith("%tid"):
        return "S2R"
    if root in ("bar", "barrier"):
        return "BAR.ARV" if "arrive" in parts else "WARPSYNC" if "warp" in parts else "BAR.SYNC"
    if root == "cvt":
        return _conversion(parts[-2], kind)
    if root == "mma":
        return _matrix(parts)
    if root in ("ldmatrix", "stmatrix"):
        count = next((p[1] for p in parts if p in ("x2", "x4")), "1")
        return f"{_SIMPLE[root]}.{count}"
    if kind in FLOATS and root not in ("mov", "ld", "st", "atom", "red"):
        table = {"f32": _SINGLE, "f64": _DOUBLE}.get(kind, _HALF)
        return table.get(root, root.upper())
    return _SIMPLE.get(root, root.upper())


def _strength(parts: list[str]) -> str:
    """Of loads that the L1 does not answer (PTX ISA, "Cache Operators")."""
    if parts[0] != "ld":
        return ""
    if not {"volatile", "cv", "mmio"}.isdisjoint(parts):
        return ".STRONG.SYS"
    if "cg" in parts:
        return ".STRONG.GPU"
    ordered = not {"relaxed", "acquire"}.isdisjoint(parts)
    return f".STRONG{_scope(parts)}" if ordered else ""


def _scope(parts: list[str]) -> str:
    """Of a fence or a strong access; a cluster's, which no source tells of, as the GPU's."""
    if "sys" in parts:
        return ".SYS"
    return ".CTA" if "cta" in parts else ".GPU"


def _copy(parts: list[str]) -> str:
    if "commit_group" in parts:
        return "LDGDEPBAR"
    if "wait_group" in parts or "wait_all" in parts:
        return "DEPBAR.LE"
    return "LDGSTS.E.128" if "cg" in parts else "LDGSTS.E"


def _matrix(parts: list[str]) -> str:
    """By shape (``m16n8k16`` → ``16816``), input and accumulator."""
    found = next((m for p in parts if (m := _SHAPE.fullmatch(p))), None)
    result, *_, of, _ = parts[-4:]
    if found is None or parts[-4:] == parts:
        return "MMA"
    shape = "".join(found.groups())
    if of in _INTEGER_INPUTS:
        return f"IMMA.{shape}.{of.upper()}.{of.upper()}"
    if of == "f64":
        return f"DMMA.{shape}"
    kind = {"bf16": ".BF16", "tf32": ".TF32"}.get(of, "")
    return f"HMMA.{shape}.{result.upper()}{kind}"


def _conversion(target: str, source: str) -> str:
    floats = (target in FLOATS, source in FLOATS)
    if floats == (False, False):
        narrow = min(bits_of(target), bits_of(source)) < _WORD_BITS
        return "PRMT" if narrow else "MOV"
    return {(True, False): "I2F", (False, True): "F2I", (True, True): "F2F"}[floats]
