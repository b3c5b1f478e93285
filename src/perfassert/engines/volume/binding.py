"""Groups of accesses of a kernel, bound to one launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfassert.engines.volume.groups import AccessGroup, Ties
from perfassert.engines.volume.written import bound_expressions
from perfassert.kernel.affine import Affine, below_zero, split_axis
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel, Description, WrittenKernel
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch
from perfassert.kernel.roles import Role


def bind_groups(kernel: Description, launch: Launch) -> tuple[AccessGroup, ...]:
    """Return all accesses of ``kernel`` to global memory as groups, ordered by first occurrence.

    Raises :class:`AddressExpressionError` for unknown names, subscripts outside interior and halo,
    or addresses beyond 64 bits.
    """
    if isinstance(kernel, BoundKernel):
        return _bound_groups(kernel, launch.block, "global")
    assert isinstance(kernel, WrittenKernel)
    expressions = bound_expressions(kernel, launch)
    expressions.check(launch)
    return expressions.groups


def loads_past_l1(kernel: Description) -> frozenset[int]:
    """Return the instructions that read from the L2 even if the L1 holds the data."""
    instructions = kernel.program.instructions if kernel.program else ()
    return frozenset(i.index for i in instructions if Role.READS_L2 in i.roles)


def space_groups(kernel: Description, launch: Launch, space: str) -> tuple[AccessGroup, ...]:
    """Return the accesses to ``"shared"``, ``"local"`` or ``"constant"`` memory as groups.

    Only compiled code has accesses to these spaces.
    """
    return _bound_groups(kernel, launch.block, space)


def _bound_groups(
    kernel: Description, block: tuple[int, int, int], space: str
) -> tuple[AccessGroup, ...]:
    """Group accesses of compiled code that differ by a constant only and have the same guards."""
    members: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    shapes: dict[tuple[object, ...], tuple[BoundAccess, Affine, frozenset[str]]] = {}
    known: dict[tuple[object, ...], list[tuple[int, int]]] = {}  # by terms before the split
    strong = loads_past_l1(kernel)
    for number, access in enumerate(kernel.bound):
        if access.space != space or access.touched is not None:
            continue
        bounds = tuple(sorted(access.ranges.items(), key=str))
        common = (
            access.field, access.direction, access.bytes, access.loops, bounds, access.conditions,
            access.atomic, access.merged, bool(access.pieces), access.instruction in strong,
            access.turn,
        )  # fmt: skip
        # For example, loads of ``a[x - 1]``, ``a[x]`` and ``a[x + 1]`` of 4-byte items become one
        # group with the offsets -4, 0 and 4.
        own = known.get((common, access.address.terms))
        if own is None:
            address, split = access.address, _split_of(access)
            for axis in sorted(split):
                address = split_axis(address, axis, block[AXES.index(axis)])
            key = (common, frozenset(address.terms), split)
            own = known[common, access.address.terms] = members.setdefault(key, [])
            shapes.setdefault(key, (access, address, split))
        own.append((access.address.constant, number))
    ties: Ties = {}
    return tuple(
        _group(kernel, *shapes[key], numbers, block, strong, ties)
        for key, numbers in members.items()
    )


def _split_of(access: BoundAccess) -> frozenset[str]:
    used = {*access.address.symbols(), *access.ranges}
    used.update(*(c.symbols() for c in access.conditions))
    return frozenset(a for a in AXES if {f"threadIdx.{a}", f"blockIdx.{a}"} & used)


def _group(
    kernel: Description,
    access: BoundAccess,
    address: Affine,
    split: frozenset[str],
    numbers: Sequence[tuple[int, int]],
    block: tuple[int, int, int],
    strong: frozenset[int],
    ties: Ties,
) -> AccessGroup:
    ranges, conditions = dict(access.ranges), list(access.conditions)
    for axis in sorted(split):
        if axis in ranges:  # it bounds a coordinate that is now a sum of two symbols
            conditions += _as_conditions(axis, ranges.pop(axis))
    field = kernel.fields.get(access.field)
    return AccessGroup(
        access.field, access.direction, access.bytes,
        tuple(sorted(address.terms, key=str)),
        np.array([constant for constant, _ in numbers], dtype=np.int64),
        field.alignment if field is not None else 256, split,
        tuple(sorted(ranges.items(), key=str)),
        tuple(_split_all(c, split, block) for c in conditions),
        access.loops, tuple(number for _, number in numbers), access.atomic and not access.merged,
        bool(access.pieces), access.instruction in strong, access.turn, access.atomic, ties,
    )  # fmt: skip


def _as_conditions(symbol: str, span: tuple[int, int]) -> list[Affine]:
    below = Affine(-span[1] - 1, ((symbol, 1),))
    above = Affine(span[0] - 1, ((symbol, -1),))
    return [below_zero(below), below_zero(above)]


def _split_all(form: Affine, axes: frozenset[str], block: tuple[int, int, int]) -> Affine:
    for axis in axes:
        form = split_axis(form, axis, block[AXES.index(axis)])
    return form
