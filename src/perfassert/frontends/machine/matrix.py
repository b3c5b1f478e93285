"""Matrix instructions of SASS: which shape and types an opcode stands for, and its registers.

``HMMA.16816.F32`` is m16n8k16 of halves, ``IMMA.SP.16864.S8.S8`` m16n8k64 of bytes of which half
are left out, ``HGMMA.64x128x16.F32.BF16`` what four warps do together. Types of one rate share a
name: signed and unsigned, all floating formats of 8 bits and below (``e4m3``), those that share a
scale per block (``mxf8``, ``mxf4``).
"""

from __future__ import annotations

import re

from perfassert.frontends.machine.sass import Instruction, Operand
from perfassert.hardware.matrix import BITS, WARPS_OF_A_GROUP, MatrixVariant
from perfassert.kernel.machine import WARP_LANES
from perfassert.shipped import model_integer

_REGISTER_BITS = 32
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)|(16|8)(8)(\d+)")
_BASES = {"HMMA": "f16", "HGMMA": "f16", "IMMA": "s8", "IGMMA": "s8", "BMMA": "b1", "BGMMA": "b1",
          "QMMA": "e4m3", "QGMMA": "e4m3", "OMMA": "mxf4", "DMMA": "f64"}  # fmt: skip
_ONE_THREAD = {"UTCHMMA": ("f16", "bf16", "tf32"), "UTCQMMA": ("e4m3",), "UTCIMMA": ("s8",),
               "UTCOMMA": ("mxf4",)}  # fmt: skip
"""Input types of ``tcgen05.mma``, by the format of the first operand; others as the first."""
_DESCRIPTOR = re.compile(r"idesc\[(UR\d+)\]")
_BITS_OF_K = model_integer("matrix_row_bits")
"""Bits of one row of an operand."""
_INTEGERS = ("s8", "b1")
_QUARTER, _HALF = (8, 8, 4), (16, 8, 4)
"""Parts of m16n16k4 that one step of Volta's HMMA.884 computes, to 32 and to 16 bits."""


def matrix_variant(instruction: Instruction) -> MatrixVariant | None:
    """Return the shape and types of a matrix instruction; None for any other."""
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


def descriptor_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the register with the shape and types of a ``tcgen05.mma``."""
    if instruction.base not in _ONE_THREAD:
        return ()
    matches = (_DESCRIPTOR.fullmatch(o.name) for o in instruction.operands)
    return tuple(Operand("register", f[1]) for f in matches if f is not None)[:1]


def described_variant(instruction: Instruction, descriptor: int | None) -> MatrixVariant | None:
    """Return the variant of a ``tcgen05.mma`` from the bits of its instruction descriptor (PTX ISA,
    "Instruction descriptor"); None if they are not known."""
    kinds = _ONE_THREAD.get(instruction.base)
    if kinds is None or descriptor is None:
        return None
    kind = kinds[descriptor >> 7 & 7] if len(kinds) > descriptor >> 7 & 7 else kinds[0]
    if kind == "e4m3" and _has_scales(instruction):
        kind = "mxf8"
    n, m = (descriptor >> 17 & 63) << 3, (descriptor >> 24 & 31) << 4
    if not n or not m:
        return None
    sums = 1 if kind.startswith("mx") else descriptor >> 4 & 3  # of scaled ones: which scales
    accumulator = "s32" if kind == "s8" else "f32" if sums == 1 else "f16"
    return MatrixVariant(
        "tcgen05", m, n, _BITS_OF_K // BITS[kind], kind, accumulator,
        sparse="SP" in instruction.modifiers,
        shared=instruction.operands[0].name.startswith("gdesc"),
        paired="2CTA" in instruction.modifiers,
    )  # fmt: skip


def _has_scales(instruction: Instruction) -> bool:
    """Return True if scales in tensor memory stand behind the descriptor of a ``tcgen05.mma``."""
    names = [o.name for o in instruction.operands]
    place = next(i for i, name in enumerate(names) if _DESCRIPTOR.fullmatch(name))
    return any(name.startswith("tmem") for name in names[place + 1 :])


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
    """Return a lane's registers with its part of operand ``"A"``, ``"B"``, ``"C"`` or ``"D"``."""
    variant = matrix_variant(instruction)
    if variant is None:
        return 1
    if any(modifier.startswith("STEP") for modifier in instruction.modifiers):
        return 2
    m, n, k = variant.m, variant.n, variant.k
    elements = {"A": m * k // (2 if variant.sparse else 1), "B": k * n}.get(role, m * n)
    bits = elements * BITS[variant.input if role in "AB" else variant.accumulator]
    lanes = WARP_LANES * (WARPS_OF_A_GROUP if variant.unit == "wgmma" else 1)
    return max(1, bits // (lanes * _REGISTER_BITS))
