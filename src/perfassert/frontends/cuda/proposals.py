"""A launch to start from, for a kernel whose launches nobody has recorded."""

from __future__ import annotations

from pathlib import Path

from perfassert.frontends.cuda.written_launches import launch_of, written_launches
from perfassert.frontends.toolchain.binary import Parameter

DOMAINS = ((1 << 20,), (1 << 10, 1 << 10), (1 << 7, 1 << 7, 1 << 6))
"""Threads of a launch to start from, by dimensions; whoever knows the kernel replaces them."""
BLOCK = (256,)
"""Threads of a block, where the source does not write them down."""
_REAL = ("float", "double", "__half", "half", "__nv_bfloat16")


def proposed_block(source: Path, name: str) -> tuple[int, ...]:
    """Find the block with which a source launches a kernel, named without its parameters."""
    written = launch_of(name, written_launches(source)) if name else None
    return written.block if written else BLOCK


def is_structure(parameter: Parameter) -> bool:
    """Tell whether it has members, which only its author knows."""
    return bool(parameter.members) or parameter.size > 8


def start_value(parameter: Parameter, domain: tuple[int, ...]) -> int | float:
    """Choose a number to start from; the length of a domain is the most likely integer."""
    if parameter.dtype in _REAL:
        return 1.0
    return 1 if parameter.size == 1 else domain[0]
