"""Stand-ins for numbers that depend on data, and their distance between two threads.

A number that was loaded from the same address by all threads of a block is the same for all of
them: it differs from block to block, and what is added to it keeps its own pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, AffineCall, Quotient, add, interval, quotient
from perfassert.kernel.executed import Executed, Spread
from perfassert.kernel.expression import AXES
from perfassert.kernel.expression_pool import Atom
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import REGISTER_BYTES, SECTOR_BYTES
from perfassert.kernel.names import LoopCounter, Name, loaded_name
from perfassert.kernel.program import MemoryAccess, Program
from perfassert.shipped import model_integer

SCATTER = model_integer("unknown_stride")
"""Elements by which consecutive threads are taken to be apart where an index depends on data."""
_LANES = ("laneid", "warpid")
Ranges = Mapping[Name, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class CoordinateDependence:
    """Coordinates and loop counters that an unknown depends on."""

    threads: frozenset[str]
    blocks: frozenset[str]
    loops: frozenset[LoopCounter]

    @property
    def scattered(self) -> bool:
        """Return True if the value differs from thread to thread."""
        return bool(self.threads)


ANYTHING = CoordinateDependence(frozenset(AXES), frozenset(AXES), frozenset())


def dependence(program: Program, *atoms: Atom) -> CoordinateDependence:
    """Return what the addresses of loaded unknowns depend on; for any other unknown, everything."""
    names: set[Name] = set()
    stack, seen = list(atoms), {atom.index for atom in atoms}
    while stack:
        unknown = stack.pop()
        address = program.loaded.get(unknown.name)
        if address is None:
            return ANYTHING
        for index in program.symbols.free_atoms(address):
            inner = program.symbols.atoms[index]
            if not inner.function:
                names.add(inner.name)
            elif inner.function == "data" and index not in seen:
                seen.add(index)
                stack.append(inner)
    if names.intersection(_LANES):
        names |= {f"threadIdx.{axis}" for axis in AXES}
    return CoordinateDependence(
        frozenset(a for a in AXES if f"threadIdx.{a}" in names),
        frozenset(a for a in AXES if f"blockIdx.{a}" in names),
        frozenset(n for n in names if isinstance(n, LoopCounter)),
    )


def stand_in(
    depends: CoordinateDependence,
    scale: int,
    launch: Launch,
    ranges: Ranges,
    side_by_side: bool = False,
) -> Affine:
    """Return a number that differs wherever the unknown may, ``scale`` bytes apart for each 1."""
    scattered = depends.scattered and abs(scale) < SECTOR_BYTES and not side_by_side
    factor = SCATTER if scattered else 1
    return add(*_coordinates(depends, launch, ranges)).scale(factor)


def _coordinates(depends: CoordinateDependence, launch: Launch, ranges: Ranges) -> Sequence[Affine]:
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


@dataclass(frozen=True, slots=True)
class ElementDistance:
    """Pattern of an index in an executed sample: consecutive threads are ``step`` apart, or
    ``shared`` of them alike, within ``within`` values."""

    step: int
    shared: int
    within: int


def spreads(program: Program, executed: Executed | None) -> dict[Name, ElementDistance]:
    """Return for each unknown that an address is a multiple of, its pattern in the sample."""
    by_name: dict[Name, ElementDistance] = {}
    for access, seen in _executed_accesses(program, executed):
        for monomial, scale in access.address.terms:
            atom = program.symbols.atoms[monomial[0]] if len(monomial) == 1 else None
            if atom is not None and atom.function == "data":
                by_name.setdefault(atom.name, element_distance(seen, abs(scale)))
    return by_name


def extents(program: Program, sizes: Mapping[str, int]) -> dict[Name, int]:
    """Return how many values of each unknown there can be: so many as its bytes can hold, and as
    stay inside a buffer whose address it scales."""
    counts: dict[Name, int] = {}

    def note(name: Name, values: int) -> None:
        counts[name] = min(counts.get(name, values), values)

    for instruction in program.instructions:
        for access in instruction.accesses:
            if access.direction is Direction.LOAD and access.bytes < REGISTER_BYTES:
                note(loaded_name(instruction.index), 1 << 8 * access.bytes)
            size = sizes.get(access.field)
            if size is None or not access.unresolved or access.space != "global":
                continue
            for monomial, scale in access.address.terms:
                atom = program.symbols.atoms[monomial[0]] if len(monomial) == 1 else None
                if atom is not None and atom.function == "data":
                    note(atom.name, max(size // abs(scale), 1))
    return counts


def within(index: Affine, values: int | None, ranges: Ranges) -> Affine:
    """Return the index, or its remainder by ``values`` if it may reach ``values`` or more."""
    if values is None or interval(index, ranges)[1] < values:
        return index
    return add(index, quotient(index, values).scale(-values))


def seen_addresses(program: Program, executed: Executed | None) -> dict[int, Spread]:
    """Addresses without a closed form as the executed sample found them, by their value's index."""
    return {access.address.index: seen for access, seen in _executed_accesses(program, executed)}


def _executed_accesses(
    program: Program, executed: Executed | None
) -> Iterator[tuple[MemoryAccess, Spread]]:
    if executed is None:
        return
    for instruction in program.instructions:
        seen = executed.accesses.get(instruction.address)
        if seen is None or seen.unknown or not seen.sectors:
            continue
        for access in instruction.accesses:
            if access.unresolved and access.space == "global":
                yield access, seen


def element_distance(seen: Spread, scale: int) -> ElementDistance:
    """Return the pattern whose step asks for as many sectors as were counted."""
    # 32 sectors of 32 B for 32 lanes, 4 B for each 1: step 32·32 / (32·4) = 8, ``shared`` is 1.
    # 1 sector: step 1/4, so 4 consecutive threads have the same index.
    step = seen.sectors * SECTOR_BYTES / (seen.lanes * scale)
    within = max(seen.extent // scale, 1)
    return ElementDistance(max(round(step), 1), max(round(1 / step), 1), within)


def spread_form(
    distance: ElementDistance, depends: CoordinateDependence, launch: Launch, ranges: Ranges
) -> Affine:
    """A number that is as far apart from thread to thread as was found, and no larger."""
    parts = list(_coordinates(replace(depends, loops=frozenset()), launch, ranges))
    stride = 1 + sum(
        term * ranges[symbol][1] for p in parts for symbol, term in p.terms
        if not isinstance(symbol, (Quotient, AffineCall))
    )  # fmt: skip
    for counter in sorted(depends.loops):
        if counter in ranges:
            parts.append(Affine(0, ((counter, stride),)))
            stride *= ranges[counter][1] + 1
    index = add(*parts)
    index = quotient(index, distance.shared) if distance.shared > 1 else index.scale(distance.step)
    return within(index, distance.within, ranges)


def describe_dependence(depends: CoordinateDependence) -> str:
    """Return the text of an assumption about the dependence."""
    if depends.scattered:
        return f"threads are taken to be {SCATTER} elements apart"
    if depends.blocks:
        return "it is the same for all threads of a block, and taken to differ from block to block"
    return "it is the same for all threads"
