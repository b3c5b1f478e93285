"""Address expressions bound to a launch: byte addresses as affine forms, checked and grouped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, coordinate_ranges
from perfassert.errors import AddressExpressionError
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.affine import (
    Affine,
    Fail,
    Symbol,
    add,
    bind,
    interval,
    split_axis,
    with_global_coordinates,
)
from perfassert.kernel.description import WrittenKernel
from perfassert.kernel.expression import AXES, BLOCK, DIMENSIONS, THREAD, variables
from perfassert.kernel.field import Field
from perfassert.kernel.launch import Launch
from perfassert.kernel.memo import Memo
from perfassert.kernel.names import Name
from perfassert.source import caret

_LIMIT = 2**62  # addresses beyond this could overflow 64-bit arithmetic on the way


@dataclass(frozen=True, slots=True)
class _Bound:
    """The subscripts and the byte address of one access."""

    subscripts: tuple[Affine, ...]
    address: Affine


def bound_expressions(kernel: WrittenKernel, launch: Launch) -> BoundExpressions:
    """Return the kernel's address expressions bound to a launch.

    The kernel caches them: launches with equal values of all names that occur share the result.
    """
    names = dict(launch.scalar_args()) | dict(
        zip(DIMENSIONS, (*launch.block, *launch.grid), strict=True)
    )
    used = kernel.found.once(_names_used, lambda: _names_used(kernel))
    known = tuple((name, names[name]) for name in sorted(names) if name in used)
    return kernel.found.once((BoundExpressions, known), lambda: BoundExpressions(kernel, known))


@dataclass(frozen=True, eq=False)
class BoundExpressions:
    """The accesses of a kernel with the values of ``names`` substituted."""

    kernel: WrittenKernel
    names: tuple[tuple[str, int], ...]
    _cleared: Memo = field(default_factory=Memo, repr=False)

    @cached_property
    def accesses(self) -> tuple[_Bound, ...]:
        """Subscripts and byte addresses, in the kernel's order."""
        known = dict(self.names)
        result = []
        for access in self.kernel.accesses:
            fail = _failing(access)
            forms = tuple(
                with_global_coordinates(bind(s, known, fail), known) for s in access.subscripts
            )
            result.append(_Bound(forms, _address(self.kernel.fields[access.field], forms)))
        return tuple(result)

    @cached_property
    def groups(self) -> tuple[AccessGroup, ...]:
        """The accesses as groups, in the order in which they first occur."""
        known, fields = dict(self.names), self.kernel.fields
        members: dict[tuple[str, Direction, frozenset[tuple[Symbol, int]]], list[tuple[int, int]]]
        members = {}
        for number, (access, bound) in enumerate(
            zip(self.kernel.accesses, self.accesses, strict=True)
        ):
            address = bound.address
            for axis in _split_axes(address):
                address = split_axis(address, axis, known[f"blockDim.{axis}"])
            key = (access.field, access.direction, frozenset(address.terms))
            members.setdefault(key, []).append((address.constant, number))
        return tuple(
            AccessGroup(
                name,
                direction,
                fields[name].item_bytes,
                tuple(sorted(terms, key=str)),
                np.array([constant for constant, _ in numbers], dtype=np.int64),
                fields[name].alignment,
                frozenset(_split_axes(Affine(0, tuple(terms)))),
                members=tuple(number for _, number in numbers),
            )
            for (name, direction, terms), numbers in members.items()
        )

    def check(self, launch: Launch) -> None:
        """Raise :class:`AddressExpressionError` for subscripts outside interior and halo."""
        ranges = tuple((s, r) for s, r in coordinate_ranges(launch).items() if s in self._used)
        for index, axis in self._cleared.once(ranges, lambda: self._doubtful(dict(ranges))):
            access, subscript = self.kernel.accesses[index], self.accesses[index].subscripts[axis]
            bounds = interval(subscript, dict(ranges))
            if max(map(abs, bounds)) < _LIMIT:
                bounds = _exact_bounds(subscript, launch)
            field = self.kernel.fields[access.field]
            allowed = _allowed_range(field, axis)
            if not _inside(bounds, allowed):
                _failing(access)(_out_of_range(field, axis, bounds, allowed), 0, "")

    @cached_property
    def _used(self) -> frozenset[Name]:
        """Coordinates that occur in the subscripts."""
        forms = (form for bound in self.accesses for form in bound.subscripts)
        return frozenset(symbol for form in forms for symbol in form.symbols())

    def _doubtful(self, span: Mapping[Name, tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Return the accesses and axes whose bounds interval arithmetic cannot confirm."""
        doubtful = []
        for index, bound in enumerate(self.accesses):
            access = self.kernel.accesses[index]
            field = self.kernel.fields[access.field]
            for axis, subscript in enumerate(bound.subscripts):
                if not _inside(interval(subscript, span), _allowed_range(field, axis)):
                    doubtful.append((index, axis))
            low, high = interval(bound.address, span)
            if not doubtful and max(abs(low), abs(high)) >= _LIMIT:
                _failing(access)("the address does not fit into 64 bits", 0, "")
        return tuple(doubtful)


def _names_used(kernel: WrittenKernel) -> frozenset[str]:
    """Return the names that the bound form can depend on.

    If thread or block indices occur, the block size along their axis is one of them.
    """
    used = {v.name for a in kernel.accesses for s in a.subscripts for v in variables(s)}
    indices = {name[-1] for name in used if name in (*THREAD, *BLOCK)}
    return frozenset(used | {f"blockDim.{axis}" for axis in indices})


def _failing(access: Access) -> Fail:
    def fail(reason: str, column: int, text: str) -> NoReturn:
        shown = caret(text or access.text, column)
        raise AddressExpressionError(f"{access.span}: {reason}\n{shown}")

    return fail


def _address(field: Field, subscripts: tuple[Affine, ...]) -> Affine:
    """Return the byte address, counted from an address that is 0 modulo the field's alignment."""
    scaled = (s.scale(stride) for s, stride in zip(subscripts, field.strides, strict=True))
    return add(Affine(field.offset), *scaled)


def _split_axes(form: Affine) -> list[str]:
    used = set(form.symbols())
    return [a for a in AXES if f"threadIdx.{a}" in used or f"blockIdx.{a}" in used]


def _allowed_range(field: Field, axis: int) -> tuple[int, int]:
    """Return the first and last index along an axis, including the halo."""
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


def _exact_bounds(form: Affine, launch: Launch) -> tuple[int, int]:
    """Return the exact range of a form with quotients or a masked edge, by integer sets."""
    from perfassert.engines.volume.integer_sets import ends

    for i, axis in enumerate(AXES):
        form = split_axis(form, axis, launch.block[i])
    return ends(form, launch)
