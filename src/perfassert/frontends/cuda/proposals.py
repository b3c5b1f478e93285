"""Proposal of a first launch, for a kernel whose launches nobody has recorded."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from pathlib import Path

from perfassert.frontends.cuda.written_launches import (
    WrittenLaunch,
    launch_of,
    written_launches,
)
from perfassert.frontends.toolchain.binary import Parameter

DOMAINS = ((1 << 20,), (1 << 10, 1 << 10), (1 << 7, 1 << 7, 1 << 6))
"""Threads of the proposed launch, by number of dimensions; the user replaces them."""
BLOCKS = ((256,), (32, 8), (32, 4, 2))
"""Threads of a proposed block, if the source has none and launch bounds allow it."""
_REAL = ("float", "double", "__half", "half", "__nv_bfloat16")


def proposed_block(
    source: Path, name: str, most: int, coordinates: Iterable[str]
) -> tuple[int, ...]:
    """Return the block with which a source launches a kernel, else a proposed one.

    Args:
        source: file of the kernel.
        name: name of the kernel, without parameters; ``""`` for several kernels.
        most: most threads of a block by its launch bounds; 0 without bounds.
        coordinates: those of threads and blocks that the code reads.
    """
    written = launch_of(name, written_launches(source)) if name else None
    return choose_block(written, most, coordinates)


def choose_block(
    written: WrittenLaunch | None, most: int, coordinates: Iterable[str]
) -> tuple[int, ...]:
    """Return the written block, else one of :data:`BLOCKS` cut to ``most`` threads (0: no bounds).

    It has as many dimensions as the code reads coordinates of: a launch with fewer of them would
    leave out rows of the domain.

    Example:
        >>> choose_block(None, 128, ["threadIdx.x", "threadIdx.y"])
        (32, 4)
        >>> choose_block(None, 0, ["threadIdx.x", "blockIdx.y"])
        (256, 1)
    """
    read = [*coordinates]
    block = written.block if written else _cut(BLOCKS[_dimensions(read, "threadIdx") - 1], most)
    dimensions = _dimensions(read)
    while len(block) > dimensions and block[-1] == 1:
        block = block[:-1]
    return block + (1,) * (dimensions - len(block))


def _dimensions(coordinates: Iterable[str], of: str = "") -> int:
    """Return the number of dimensions that coordinates (``of`` threads or blocks) span."""
    return max(("xyz".index(c[-1]) + 1 for c in coordinates if c.startswith(of)), default=1)


def _cut(block: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return a block of at most ``most`` threads, the first extents as large as they may be."""
    extents: list[int] = []
    for extent in block:
        extents.append(min(extent, most // prod(extents)) if most else extent)
    return tuple(extents)


def is_structure(parameter: Parameter) -> bool:
    """Return True for a structure, whose members only its author knows."""
    return bool(parameter.members) or parameter.size > 8


def start_value(parameter: Parameter, domain: tuple[int, ...]) -> int | float:
    """Choose a first value; an integer is most likely the length of the domain."""
    if parameter.dtype in _REAL:
        return 1.0
    return 1 if parameter.size == 1 else domain[0]
