"""What stands in for a number that depends on data, and how far apart it is for two threads.

A number that was loaded from the same address by all threads of a block is the same for all of
them: it differs from block to block, and what is added to it keeps its own pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfassert.kernel.affine import Affine, add
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import COUNTER, Program
from perfassert.kernel.symbols import Atom

SCATTER = 8
"""Where an index depends on data: consecutive threads are taken to be so many elements apart."""
_SECTOR = 32  # bytes: what lies further apart than this is fetched apart, whatever the distance
_LANES = ("laneid", "warpid")
Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Dependence:
    """On which coordinates and loop counters an unknown depends."""

    threads: frozenset[str]
    blocks: frozenset[str]
    loops: frozenset[str]

    @property
    def scattered(self) -> bool:
        """Whether it differs from thread to thread."""
        return bool(self.threads)


ANYTHING = Dependence(frozenset(AXES), frozenset(AXES), frozenset())


def dependence(program: Program, atom: Atom) -> Dependence:
    """Of an unknown that was loaded: what its address depends on; of any other, everything."""
    names: set[str] = set()
    stack, seen = [atom], {atom.index}
    while stack:
        unknown = stack.pop()
        address = program.loaded.get(unknown.name)
        if address is None:
            return ANYTHING
        for index in program.symbols.inside(address):
            inner = program.symbols.atoms[index]
            if not inner.function:
                names.add(inner.name)
            elif inner.function == "data" and index not in seen:
                seen.add(index)
                stack.append(inner)
    if names.intersection(_LANES):
        names |= {f"threadIdx.{axis}" for axis in AXES}
    return Dependence(
        frozenset(a for a in AXES if f"threadIdx.{a}" in names),
        frozenset(a for a in AXES if f"blockIdx.{a}" in names),
        frozenset(n for n in names if n.startswith(COUNTER)),
    )


def stand_in(depends: Dependence, scale: int, launch: Launch, ranges: Ranges) -> Affine:
    """A number that differs wherever the unknown may, ``scale`` bytes apart for each 1."""
    factor = SCATTER if depends.scattered and abs(scale) < _SECTOR else 1
    return add(*_coordinates(depends, launch, ranges)).scaled(factor)


def _coordinates(depends: Dependence, launch: Launch, ranges: Ranges) -> Sequence[Affine]:
    """The linear index over what it depends on; loops count only where threads do not."""
    stride, parts = 1, [Affine(0)]
    for number, axis in enumerate(AXES):
        block, grid = launch.block[number], launch.grid[number]
        thread, whole = axis in depends.threads, axis in depends.blocks
        symbol = axis if thread and whole else f"threadIdx.{axis}" if thread else f"blockIdx.{axis}"
        extent = (block if thread else 1) * (grid if whole else 1)
        if extent > 1:
            parts.append(Affine(0, ((symbol, stride),)))
            stride *= extent
    for counter in sorted(depends.loops) if not depends.scattered else ():
        if counter in ranges:
            parts.append(Affine(0, ((counter, stride),)))
            stride *= ranges[counter][1] + 1
    return parts


def said(depends: Dependence) -> str:
    """What an assumption says of it."""
    if depends.scattered:
        return f"threads are taken to be {SCATTER} elements apart"
    if depends.blocks:
        return "it is the same for all threads of a block, and taken to differ from block to block"
    return "it is the same for all threads"
