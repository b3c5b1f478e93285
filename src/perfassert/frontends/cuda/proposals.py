"""Proposal of a first launch, for a kernel whose launches nobody has recorded."""

from __future__ import annotations

from pathlib import Path

from perfassert.frontends.cuda.written_launches import (
    WrittenLaunch,
    launch_of,
    written_launches,
)
from perfassert.frontends.toolchain.binary import Parameter

DOMAINS = ((1 << 20,), (1 << 10, 1 << 10), (1 << 7, 1 << 7, 1 << 6))
"""Threads of the proposed launch, by number of dimensions; the user replaces them."""
BLOCK = (256,)
"""Threads of a proposed block, if the source has none and launch bounds allow it."""
_REAL = ("float", "double", "__half", "half", "__nv_bfloat16")


def proposed_block(source: Path, name: str, most: int) -> tuple[int, ...]:
    """Return the block with which a source launches a kernel, else a proposed one.

    Args:
        source: file of the kernel.
        name: name of the kernel, without parameters; ``""`` for several kernels.
        most: most threads of a block by its launch bounds; 0 without bounds.
    """
    return choose_block(launch_of(name, written_launches(source)) if name else None, most)


def choose_block(written: WrittenLaunch | None, most: int) -> tuple[int, ...]:
    """Return the written block, else :data:`BLOCK` cut to ``most`` threads (0: no bounds).

    Example:
        >>> choose_block(None, 128)
        (128,)
    """
    if written:
        return written.block
    return (min(*BLOCK, most),) if most else BLOCK


def is_structure(parameter: Parameter) -> bool:
    """Return True for a structure, whose members only its author knows."""
    return bool(parameter.members) or parameter.size > 8


def start_value(parameter: Parameter, domain: tuple[int, ...]) -> int | float:
    """Choose a first value; an integer is most likely the length of the domain."""
    if parameter.dtype in _REAL:
        return 1.0
    return 1 if parameter.size == 1 else domain[0]
