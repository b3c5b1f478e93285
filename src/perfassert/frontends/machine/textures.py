"""Bytes that a texture or surface instruction is taken to touch.

Its coordinates say nothing of addresses: which layout and which element type the array has is known
when the program runs. A texel per thread stands in, threads side by side in the order of the grid.
"""

from __future__ import annotations

from perfassert.frontends.machine.sass import Instruction
from perfassert.kernel.access import Direction
from perfassert.kernel.expression_pool import Expression, ExpressionPool

_FETCHES = frozenset("TEX TLD TLD4 TXD".split())
_SURFACES = {"SULD": Direction.LOAD, "SUST": Direction.STORE, "SURED": Direction.STORE}
_CHANNEL = 4  # bytes
_WIDTHS = {"64": 8, "128": 16}


def texel(instruction: Instruction) -> tuple[str, Direction, int] | None:
    """Return (``"texture"`` or ``"surface"``, direction, bytes); None for any other instruction."""
    if instruction.base in _FETCHES:
        channels = next((o.value for o in instruction.operands[::-1] if o.kind == "number"), 1)
        return "texture", Direction.LOAD, _CHANNEL * max((channels & 0xF).bit_count(), 1)
    if instruction.base in _SURFACES:
        width = next((_WIDTHS[m] for m in instruction.modifiers if m in _WIDTHS), _CHANNEL)
        return "surface", _SURFACES[instruction.base], width
    return None


def place_of_thread(s: ExpressionPool, bytes_: int) -> Expression:
    """Return the texel's place for each thread, in bytes; rows of the grid follow one another."""
    place, width = s.zero, s.number(bytes_)
    for axis in "xyz":
        names = (f"{name}.{axis}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim"))
        thread, block, size, blocks = map(s.variable, names)
        own = s.add(s.mul(block, size), thread)
        place = s.add(place, s.mul(own, width))
        width = s.mul(width, s.mul(size, blocks))
    return place
