"""Matrix instructions of SASS: which shape and types an opcode stands for, and its registers.

``HMMA.16816.F32`` is m16n8k16 of halves, ``IMMA.SP.16864.S8.S8`` m16n8k64 of bytes of which half
are left out, ``HGMMA.64x128x16.F32.BF16`` what four warps do together. Types of one rate share a
name: signed and unsigned, all floating formats of 8 bits and below (``e4m3``), those that share a
scale per block (``mxf8``, ``mxf4``).
"""

from __future__ import annotations

import re

from perfassert.frontends.cuda.sass import Instruction
from perfassert.hardware.matrix import BITS, WARPS_OF_A_GROUP, MatrixVariant

_LANES = 32
_REGISTER_BITS = 32
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)|(16|8)(8)(\d+)")
_BASES = {"HMMA": "f16", "HGMMA": "f16", "IMMA": "s8", "IGMMA": "s8", "BMMA": "b1", "BGMMA": "b1",
          "QMMA": "e4m3", "QGMMA": "e4m3", "OMMA": "mxf4", "DMMA": "f64"}  # fmt: skip
_INTEGERS = ("s8", "b1")
_QUARTER, _HALF = (8, 8, 4), (16, 8, 4)
"""What one step of Volta's HMMA.884 does of m16n16k4, to 32 and to 16 bits."""


def matrix_variant(instruction: Instruction) -> MatrixVariant | None:
    """The shape and types of a matrix instruction; None for any other."""
    base, modifiers = instruction.base, instruction.modifiers
    if base not in _BASES:
        return None
    shape = next((m for m in map(_SHAPE.fullmatch, modifiers) if m), None)
    if shape is None:
        return None
    m, n, k = (int(shape[i] or shape[i + 3]) for i in (1, 2, 3))
    kind, accumulator = _input(base, modifiers), _accumulator(base, modifiers)
    if any(modifier.startswith("STEP") for modifier in modifiers):
        m, n, k = _QUARTER if accumulator == "f32" else _HALF
    group = base.endswith("GMMA")
    shared = group and len(instruction.operands) > 1 and instruction.operands[1].kind != "register"
    return MatrixVariant(
        "wgmma" if group else "tensor", m, n, k, kind, accumulator, "SP" in modifiers, shared
    )


def _input(base: str, modifiers: tuple[str, ...]) -> str:
    kind = _BASES[base]
    if kind == "f16":
        return next((m.lower() for m in modifiers if m in ("BF16", "TF32")), kind)
    if kind == "e4m3" and "SF" in modifiers:
        return "mxf8"
    if kind == "s8" and any(m in ("S4", "U4") for m in modifiers):
        return "s4"
    return kind


def _accumulator(base: str, modifiers: tuple[str, ...]) -> str:
    kind = _BASES[base]
    if kind in _INTEGERS:
        return "s32"
    if kind == "f64":
        return "f64"
    return "f16" if "F16" in modifiers and "F32" not in modifiers else "f32"


def fragment_words(instruction: Instruction, role: str) -> int:
    """Registers of a lane that hold its part of operand ``"A"``, ``"B"``, ``"C"`` or ``"D"``."""
    variant = matrix_variant(instruction)
    if variant is None:
        return 1
    if any(modifier.startswith("STEP") for modifier in instruction.modifiers):
        return 2
    m, n, k = variant.m, variant.n, variant.k
    elements = {"A": m * k // (2 if variant.sparse else 1), "B": k * n}.get(role, m * n)
    bits = elements * BITS[variant.input if role in "AB" else variant.accumulator]
    lanes = _LANES * (WARPS_OF_A_GROUP if variant.unit == "wgmma" else 1)
    return max(1, bits // (lanes * _REGISTER_BITS))
