"""Accesses bound to a launch: byte addresses as affine forms, grouped by shape.

Accesses of one field that differ only by a constant form one :class:`AccessGroup`; all engines
work on groups, so 25 loads of a stencil cost little more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from perfassert.errors import AddressExpressionError
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.affine import (
    Affine,
    Call,
    Fail,
    Forms,
    Quotient,
    Symbol,
    add,
    below_zero,
    bind,
    interval,
    split_axis,
    with_global_coordinates,
)
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel, Description, WrittenKernel
from perfassert.kernel.expression import AXES, BLOCK, DIMENSIONS, THREAD, variables
from perfassert.kernel.field import Field
from perfassert.kernel.launch import Launch
from perfassert.source import caret

IntArray = npt.NDArray[np.int64]
_LIMIT = 2**62  # addresses beyond this could overflow 64-bit arithmetic on the way


@dataclass(frozen=True, slots=True)
class Tied:
    """Coordinates that terms which are not affine, or conditions, tie together; none occurs in
    another such set.

    ``forms``: the part of the address that depends on them, and their conditions; ``known``: what
    they amount to, by range and count of each name, where no block index is among them.
    """

    names: tuple[str, ...]
    forms: Forms
    known: dict[tuple[object, ...], IntArray] = field(default_factory=dict, compare=False)

    @property
    def same_in_blocks(self) -> bool:
        """Whether only coordinates within a block are tied."""
        return not any(name in AXES or name.startswith("blockIdx") for name in self.names)


@dataclass(frozen=True, eq=False)
class AccessGroup:
    """Accesses of one field and direction whose addresses differ by a constant.

    The byte address of access ``i`` is ``offsets[i] + Σ coefficient · symbol``. ``split`` names
    the axes for which ``symbols`` holds thread and block index apart; for the others it holds the
    global coordinate. Of compiled code: ``ranges`` of single symbols, among them the loop counters
    in ``loops``; ``conditions``: forms that are 0 where a thread is masked; ``members``: numbers
    of the kernel's accesses.
    """

    field: str
    direction: Direction
    item_bytes: int
    terms: tuple[tuple[Symbol, int], ...]
    offsets: IntArray
    alignment: int
    split: frozenset[str]
    ranges: tuple[tuple[str, tuple[int, int]], ...] = ()
    conditions: tuple[Affine, ...] = ()
    loops: tuple[str, ...] = ()
    members: tuple[int, ...] = ()

    @cached_property
    def coefficients(self) -> dict[str, int]:
        """Coefficients of the symbols that occur outside quotients."""
        return {s: c for s, c in self.terms if isinstance(s, str)}

    @cached_property
    def opaque(self) -> tuple[tuple[Quotient | Call, int], ...]:
        """The terms that are not affine."""
        return tuple((s, c) for s, c in self.terms if not isinstance(s, str))

    @cached_property
    def tied(self) -> tuple[Tied, ...]:
        """The coordinates that are tied together, in as many sets as possible."""
        ties = [frozenset(_symbols(term)) for term in self.opaque]
        ties += [frozenset(condition.symbols()) for condition in self.conditions]
        sets: list[frozenset[str]] = []
        for tie in ties:
            together = tie.union(*(s for s in sets if s & tie))
            sets = [*(s for s in sets if not s & tie and s != tie), together]
        return tuple(
            Tied(
                tuple(sorted(names)),
                Forms(
                    [
                        Affine(0, tuple(t for t in self.terms if names.issuperset(_symbols(t)))),
                        *(c for c in self.conditions if names.issuperset(c.symbols())),
                    ]
                ),
            )
            for names in sets
        )

    @cached_property
    def forms(self) -> Forms:
        """The address less the offset, and the conditions."""
        return Forms([Affine(0, self.terms), *self.conditions])

    @cached_property
    def rigid(self) -> bool:
        """Whether every block touches the same pattern, shifted, but for the domain's end."""
        narrowed = {s for s, _ in self.ranges}
        own = {*(f"threadIdx.{a}" for a in AXES), *self.loops}
        return not self.opaque and not self.conditions and narrowed <= own


def _symbols(term: tuple[Symbol, int]) -> Iterable[str]:
    return Affine(0, (term,)).symbols()


def of(direction: Direction, groups: Sequence[AccessGroup]) -> list[AccessGroup]:
    """The groups of one direction."""
    return [g for g in groups if g.direction is direction]


def bind_groups(kernel: Description, launch: Launch) -> tuple[AccessGroup, ...]:
    """All accesses of ``kernel`` as groups, in the order in which they first occur.

    Raises :class:`AddressExpressionError` for unknown names, subscripts outside interior and
    halo, or addresses beyond 64 bits.
    """
    if isinstance(kernel, BoundKernel):
        return _bound_groups(kernel, launch.block, "global")
    assert isinstance(kernel, WrittenKernel)
    names = dict(launch.scalar_args()) | dict(
        zip(DIMENSIONS, (*launch.block, *launch.grid), strict=True)
    )
    used = _names_used(kernel)
    known = tuple((name, names[name]) for name in sorted(names) if name in used)
    _check_ranges(kernel, launch, known)
    return _grouped(kernel, known)


def shared_groups(kernel: Description, launch: Launch) -> tuple[AccessGroup, ...]:
    """The accesses of shared memory as groups; only compiled code has them."""
    return _bound_groups(kernel, launch.block, "shared") if isinstance(kernel, BoundKernel) else ()


def local_groups(kernel: Description, launch: Launch) -> tuple[AccessGroup, ...]:
    """The accesses of the threads' stacks as groups; only compiled code has them."""
    return _bound_groups(kernel, launch.block, "local") if isinstance(kernel, BoundKernel) else ()


def _bound_groups(
    kernel: BoundKernel, block: tuple[int, int, int], space: str
) -> tuple[AccessGroup, ...]:
    """Accesses of compiled code that differ by a constant only, guards included, are one group."""
    members: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    shapes: dict[tuple[object, ...], tuple[BoundAccess, Affine, frozenset[str]]] = {}
    known: dict[tuple[object, ...], list[tuple[int, int]]] = {}  # members, by terms not yet split
    for number, access in enumerate(kernel.bound):
        if access.space != space:
            continue
        bounds = tuple(sorted(access.ranges.items()))
        common = (
            access.field, access.direction, access.bytes, access.loops, bounds, access.conditions,
            access.atomic,
        )  # fmt: skip
        own = known.get((common, access.address.terms))
        if own is None:
            address, split = access.address, _split_of(access)
            for axis in sorted(split):
                address = split_axis(address, axis, block[AXES.index(axis)])
            key = (common, frozenset(address.terms), split)
            own = known[common, access.address.terms] = members.setdefault(key, [])
            shapes.setdefault(key, (access, address, split))
        own.append((access.address.constant, number))
    return tuple(_group(kernel, *shapes[key], numbers, block) for key, numbers in members.items())


def _split_of(access: BoundAccess) -> frozenset[str]:
    used = {*access.address.symbols(), *access.ranges}
    used.update(*(c.symbols() for c in access.conditions))
    return frozenset(a for a in AXES if {f"threadIdx.{a}", f"blockIdx.{a}"} & used)


def _group(
    kernel: BoundKernel,
    access: BoundAccess,
    address: Affine,
    split: frozenset[str],
    numbers: Sequence[tuple[int, int]],
    block: tuple[int, int, int],
) -> AccessGroup:
    ranges, conditions = dict(access.ranges), list(access.conditions)
    for axis in sorted(split):
        if axis in ranges:  # the range of a global coordinate that is held in two parts
            conditions += _as_conditions(axis, ranges.pop(axis))
    field = kernel.fields.get(access.field)
    return AccessGroup(
        access.field, access.direction, access.bytes,
        tuple(sorted(address.terms, key=str)),
        np.array([constant for constant, _ in numbers], dtype=np.int64),
        field.alignment if field is not None else 256, split,
        tuple(sorted(ranges.items())),
        tuple(_split_all(c, split, block) for c in conditions),
        access.loops, tuple(number for _, number in numbers),
    )  # fmt: skip


def _as_conditions(symbol: str, span: tuple[int, int]) -> list[Affine]:
    below = Affine(-span[1] - 1, ((symbol, 1),))
    above = Affine(span[0] - 1, ((symbol, -1),))
    return [below_zero(below), below_zero(above)]


def _split_all(form: Affine, axes: frozenset[str], block: tuple[int, int, int]) -> Affine:
    for axis in axes:
        form = split_axis(form, axis, block[AXES.index(axis)])
    return form


@lru_cache(maxsize=512)
def _names_used(kernel: WrittenKernel) -> frozenset[str]:
    """Names on which the bound form can depend; block sizes where thread or block indices occur."""
    used = {v.name for a in kernel.accesses for s in a.subscripts for v in variables(s)}
    indices = {name[-1] for name in used if name in (*THREAD, *BLOCK)}
    return frozenset(used | {f"blockDim.{axis}" for axis in indices})


@dataclass(frozen=True, slots=True)
class _Bound:
    """One access: its subscripts and its byte address."""

    subscripts: tuple[Affine, ...]
    address: Affine


@lru_cache(maxsize=512)
def _bound(kernel: WrittenKernel, names: tuple[tuple[str, int], ...]) -> tuple[_Bound, ...]:
    known = dict(names)
    result = []
    for access in kernel.accesses:
        fail = _failing(access)
        forms = tuple(
            with_global_coordinates(bind(s, known, fail), known) for s in access.subscripts
        )
        result.append(_Bound(forms, _address(kernel.fields[access.field], forms)))
    return tuple(result)


def _failing(access: Access) -> Fail:
    def fail(reason: str, column: int, text: str) -> NoReturn:
        shown = caret(text or access.text, column)
        raise AddressExpressionError(f"{access.span}: {reason}\n{shown}")

    return fail


@lru_cache(maxsize=512)
def _grouped(kernel: WrittenKernel, names: tuple[tuple[str, int], ...]) -> tuple[AccessGroup, ...]:
    known = dict(names)
    found: dict[tuple[str, Direction, frozenset[tuple[Symbol, int]]], list[tuple[int, int]]] = {}
    for number, bound in enumerate(_bound(kernel, names)):
        access = kernel.accesses[number]
        address = bound.address
        for axis in _split_axes(address):
            address = split_axis(address, axis, known[f"blockDim.{axis}"])
        key = (access.field, access.direction, frozenset(address.terms))
        found.setdefault(key, []).append((address.constant, number))
    return tuple(
        AccessGroup(
            name,
            direction,
            kernel.fields[name].item_bytes,
            tuple(sorted(terms, key=str)),
            np.array([constant for constant, _ in numbers], dtype=np.int64),
            kernel.fields[name].alignment,
            frozenset(_split_axes(Affine(0, tuple(terms)))),
            members=tuple(number for _, number in numbers),
        )
        for (name, direction, terms), numbers in found.items()
    )


def _address(field: Field, subscripts: tuple[Affine, ...]) -> Affine:
    """Byte address, counted from an address that is 0 modulo the field's alignment."""
    scaled = (s.scaled(stride) for s, stride in zip(subscripts, field.strides, strict=True))
    return add(Affine(field.offset), *scaled)


def _split_axes(form: Affine) -> list[str]:
    used = set(form.symbols())
    return [a for a in AXES if f"threadIdx.{a}" in used or f"blockIdx.{a}" in used]


def _check_ranges(
    kernel: WrittenKernel, launch: Launch, names: tuple[tuple[str, int], ...]
) -> None:
    used = _coordinates_used(kernel, names)
    ranges = tuple((s, r) for s, r in coordinate_ranges(launch).items() if s in used)
    for index, axis in _doubtful(kernel, names, ranges):
        access, bound = kernel.accesses[index], _bound(kernel, names)[index]
        bounds = interval(bound.subscripts[axis], dict(ranges))
        if max(map(abs, bounds)) < _LIMIT:
            bounds = _exact_bounds(bound.subscripts[axis], launch)
        field = kernel.fields[access.field]
        allowed = _allowed(field, axis)
        if not _inside(bounds, allowed):
            _failing(access)(_out_of_range(field, axis, bounds, allowed), 0, "")


@lru_cache(maxsize=512)
def _coordinates_used(kernel: WrittenKernel, names: tuple[tuple[str, int], ...]) -> frozenset[str]:
    forms = (form for bound in _bound(kernel, names) for form in bound.subscripts)
    return frozenset(symbol for form in forms for symbol in form.symbols())


@lru_cache(maxsize=512)
def _doubtful(
    kernel: WrittenKernel,
    names: tuple[tuple[str, int], ...],
    ranges: tuple[tuple[str, tuple[int, int]], ...],
) -> tuple[tuple[int, int], ...]:
    """Accesses and axes that interval arithmetic cannot clear; most launches share the answer."""
    span = dict(ranges)
    found = []
    for index, bound in enumerate(_bound(kernel, names)):
        access = kernel.accesses[index]
        field = kernel.fields[access.field]
        for axis, subscript in enumerate(bound.subscripts):
            if not _inside(interval(subscript, span), _allowed(field, axis)):
                found.append((index, axis))
        low, high = interval(bound.address, span)
        if not found and max(abs(low), abs(high)) >= _LIMIT:
            _failing(access)("the address does not fit into 64 bits", 0, "")
    return tuple(found)


def _allowed(field: Field, axis: int) -> tuple[int, int]:
    """First and last index along an axis, halo included."""
    return (-field.halo[axis], field.shape[axis] + field.halo[axis] - 1)


def _inside(bounds: tuple[int, int], allowed: tuple[int, int]) -> bool:
    return allowed[0] <= bounds[0] and bounds[1] <= allowed[1]


def _out_of_range(
    field: Field, axis: int, bounds: tuple[int, int], allowed: tuple[int, int]
) -> str:
    return (
        f"subscript {axis} of {field.name!r} runs from {bounds[0]} to {bounds[1]}, interior and "
        f"halo from {allowed[0]} to {allowed[1]}; enlarge shape or halo, or mask the threads "
        "with Launch.cover"
    )


def coordinate_ranges(launch: Launch) -> dict[str, tuple[int, int]]:
    """Inclusive range of every coordinate over the launch, masked threads left out."""
    ranges: dict[str, tuple[int, int]] = {}
    for i, axis in enumerate(AXES):
        top = launch.extent[i] - 1
        ranges[axis] = (0, top)
        ranges[f"threadIdx.{axis}"] = (0, min(launch.block[i] - 1, top))
        ranges[f"blockIdx.{axis}"] = (0, min(launch.grid[i] - 1, top // launch.block[i]))
    return ranges


def _exact_bounds(form: Affine, launch: Launch) -> tuple[int, int]:
    """The exact range of a form with quotients or a masked edge, by integer sets."""
    import islpy

    from perfassert.engines.volume.integer_sets import as_isl, thread_set

    for i, axis in enumerate(AXES):
        form = split_axis(form, axis, launch.block[i])
    value = islpy.PwAff(as_isl(form)).intersect_domain(thread_set(launch))
    return value.min_val().to_python(), value.max_val().to_python()
