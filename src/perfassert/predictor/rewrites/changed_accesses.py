"""Accesses of compiled code at their best: neighbouring threads touch neighbouring elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from perfassert.kernel.affine import Affine, AffineCall, Quotient, Symbol, names_of
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch

_UNKNOWN = 62  # bits: of a field that nothing is known of, no address is beyond the end


def coalesce(kernel: BoundKernel, chosen: frozenset[int], launch: Launch) -> BoundKernel:
    """Return the kernel with these accesses laid out anew.

    The order is the threads of a block, then blocks, then iterations, then accesses of the same
    kind, as far as the field reaches. Beyond the field they meet what others have touched. Executed
    accesses keep their addresses.

    Accesses whose distance is a multiple of that between threads are of one kind: they are the same
    member of an element, and of its neighbours.
    """
    planes: dict[tuple[str, int], dict[int, int]] = {}
    reached: dict[tuple[str, int], list[int]] = {}
    for number in sorted(chosen):
        a = kernel.bound[number]
        if a.touched is None:
            kind = a.field, _step(a)
            known = planes.setdefault(kind, {})
            known.setdefault(_split(a)[1], len(known))
            reached.setdefault(kind, []).append(a.address.constant)

    def move_access(number: int, a: BoundAccess) -> BoundAccess:
        if number not in chosen or a.touched is not None:
            return a
        kind = a.field, _step(a)
        return _lay_out(a, planes[kind], _field_bytes(a, reached[kind], launch), launch)

    return replace(kernel, bound=tuple(move_access(n, a) for n, a in enumerate(kernel.bound)))


def _step(access: BoundAccess) -> int:
    """Return the bytes between neighbouring threads, 0 if they access the same."""
    for axis in AXES:
        coordinates = {axis, f"threadIdx.{axis}"}
        steps = [abs(c) for symbol, c in access.address.terms if coordinates & names_of(symbol)]
        if steps:
            return min(steps)
    return 0


def _split(access: BoundAccess) -> tuple[int, int]:
    """Return the elements that an access is away from its thread's, and its place in the element.

    Elements are as large as the distance of threads.
    """
    step = _step(access)
    return divmod(access.address.constant, step) if step else (0, access.address.constant)


def _field_bytes(access: BoundAccess, constants: Sequence[int], launch: Launch) -> int:
    """Return the bytes of the field; where these are unknown, the bytes that the accesses reach."""
    given = launch.args.get(access.field) if isinstance(launch.args, Mapping) else None
    if isinstance(given, Buffer) and given.shape:
        return prod(given.shape) * access.bytes
    if any(isinstance(symbol, (Quotient, AffineCall)) for symbol, _ in access.address.terms):
        return access.bytes << _UNKNOWN
    extents = _extents(access, launch)
    reach = sum(abs(c) * (extents.get(s, 1) - 1) for s, c in access.address.terms)
    return reach + access.bytes + max(constants) - min(constants)


def _extents(access: BoundAccess, launch: Launch) -> dict[Symbol, int]:
    """Return the number of values that each symbol of an access can take."""
    extents: dict[Symbol, int] = {}
    for axis, threads, blocks in zip(AXES, launch.block, launch.grid, strict=True):
        extents[axis] = threads * blocks
        extents[f"threadIdx.{axis}"] = threads
        extents[f"blockIdx.{axis}"] = blocks
    for name in access.loops:
        low, high = access.ranges.get(name, (0, 0))
        extents[name] = high - low + 1
    return extents


def _lay_out(
    access: BoundAccess, planes: Mapping[int, int], room: int, launch: Launch
) -> BoundAccess:
    used = set(access.address.symbols())
    extents = _extents(access, launch)
    digits: list[tuple[Symbol, int]] = []
    for part in ("threadIdx", "blockIdx"):
        digits += [
            (f"{part}.{a}", extents[f"{part}.{a}"]) for a in AXES
            if used & {a, f"{part}.{a}"}
        ]  # fmt: skip
    digits += [(name, extents[name]) for name in reversed(access.loops) if name in used]
    terms: list[tuple[Symbol, int]] = []
    stride = access.bytes
    for name, extent in digits:
        inner = name not in access.loops
        if extent > 1 and (inner or stride * extent <= room):
            terms.append((name, stride))
            stride *= extent
    away, member = _split(access)
    constant = access.address.constant
    if stride * len(planes) <= room:
        constant = stride * planes[member] + away * access.bytes
    return replace(access, address=Affine(constant, tuple(terms)))
