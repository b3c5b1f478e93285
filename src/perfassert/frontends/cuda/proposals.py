"""A launch to start from, for a kernel whose launches nobody has recorded."""

from __future__ import annotations

from pathlib import Path

from perfassert.frontends.cuda.written_launches import (
    WrittenLaunch,
    launch_of,
    written_launches,
)
from perfassert.frontends.toolchain.binary import Parameter

DOMAINS = ((1 << 20,), (1 << 10, 1 << 10), (1 << 7, 1 << 7, 1 << 6))
"""Threads of a launch to start from, by dimensions; whoever knows the kernel replaces them."""
BLOCK = (256,)
"""Threads of a block, where the source does not write them down and launch bounds allow them."""
_REAL = ("float", "double", "__half", "half", "__nv_bfloat16")


def proposed_block(source: Path, name: str, most: int) -> tuple[int, ...]:
    """Find the block with which a source launches a kernel.

    Args:
        source: of the kernel.
        name: of the kernel, without its parameters; ``""``: of several.
        most: threads that its launch bounds allow; 0 without bounds.
    """
    return choose_block(launch_of(name, written_launches(source)) if name else None, most)


def choose_block(written: WrittenLaunch | None, most: int) -> tuple[int, ...]:
    """Return the written block, or :data:`BLOCK` as far as launch bounds allow it (0: they do).

    Example:
        >>> choose_block(None, 128)
        (128,)
    """
    if written:
        return written.block
    return (min(*BLOCK, most),) if most else BLOCK


def is_structure(parameter: Parameter) -> bool:
    """Tell whether it has members, which only its author knows."""
    return bool(parameter.members) or parameter.size > 8


def start_value(parameter: Parameter, domain: tuple[int, ...]) -> int | float:
    """Choose a number to start from; the length of a domain is the most likely integer."""
    if parameter.dtype in _REAL:
        return 1.0
    return 1 if parameter.size == 1 else domain[0]
