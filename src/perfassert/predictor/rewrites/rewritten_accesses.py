"""Rewrites of address expressions: fields laid out for their threads, neighbours joined."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perfassert.engines.volume.written import bound_expressions
from perfassert.kernel.access import Access
from perfassert.kernel.affine import Affine, names_of
from perfassert.kernel.description import AccessKernel
from perfassert.kernel.expression import (
    AXES,
    BinaryOperation,
    Constant,
    ExpressionTree,
    to_text,
    varies,
)
from perfassert.kernel.field import ITEM_BYTES, Field
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WIDEST_ACCESS_BYTES

Subscripts = tuple[ExpressionTree, ...]


def rewrite(
    kernel: AccessKernel,
    launch: Launch,
    coalesced: Collection[int] = (),
    joined: Collection[int] = (),
    constant: Collection[int] = (),
) -> AccessKernel:
    """The kernel with accesses of these numbers changed, as far as it is known how."""
    gone = {kernel.accesses[n] for n in constant}
    if coalesced:
        kernel = _lay_out(kernel, launch, coalesced)
    if joined:
        kernel = _join(kernel, launch, joined)
    kept = tuple(a for a in kernel.accesses if a not in gone)
    return replace(kernel, accesses=kept) if gone and kept else kernel


@dataclass(frozen=True, slots=True)
class _Layout:
    """Axes of a field in another order, with the last one cut into pieces.

    A piece has ``stride`` elements; elements at the same place of their pieces lie side by side.
    """

    order: tuple[int, ...]
    stride: int

    def field(self, field: Field, name: str) -> Field:
        shape, halo = ([extents[a] for a in self.order] for extents in (field.shape, field.halo))
        if self.stride > 1:
            shape = [self.stride, *shape[:-1], -(-shape[-1] // self.stride)]
            halo = [0, *halo[:-1], -(-halo[-1] // self.stride)]
        return Field(name, field.dtype, shape, halo, alignment=field.alignment, offset=field.offset)

    def subscripts(self, subscripts: Subscripts) -> Subscripts:
        own = [subscripts[a] for a in self.order]
        if self.stride > 1:
            within, piece = (
                BinaryOperation(o, own[-1], Constant(self.stride)) for o in "% //".split()
            )
            own = [within, *own[:-1], piece]
        return tuple(own)


def _lay_out(kernel: AccessKernel, launch: Launch, chosen: Collection[int]) -> AccessKernel:
    """Let neighbouring threads access neighbouring elements.

    Other accesses of the field keep the elements that they had.
    """
    bound = bound_expressions(kernel, launch).accesses
    layouts = {
        n: layout for n in sorted(chosen) if (layout := _layout(bound[n].subscripts, launch))
    }
    fields, accesses = dict(kernel.fields), list(kernel.accesses)
    names: dict[tuple[str, _Layout], str] = {}
    for number, layout in layouts.items():
        access = accesses[number]
        name = names.setdefault((access.field, layout), f"{access.field} {len(names)}")
        fields[name] = layout.field(kernel.fields[access.field], name)
        accesses[number] = _with_subscripts(access, name, layout.subscripts(access.subscripts))
    used = {a.field for a in accesses}
    kept = {name: field for name, field in fields.items() if name in used}
    return replace(kernel, fields=kept, accesses=tuple(accesses)) if layouts else kernel


def _layout(subscripts: Sequence[Affine], launch: Launch) -> _Layout | None:
    """Return the layout with the axis last along which neighbouring threads differ.

    The result is None if more than one axis does, if its subscript is a quotient, or if the field
    already lies so.
    """
    fast = next((a for a, threads in zip(AXES, launch.block, strict=True) if threads > 1), "")
    coordinates = {fast, f"threadIdx.{fast}"}
    moving = [n for n, form in enumerate(subscripts) if coordinates & set(form.symbols())]
    if len(moving) != 1:
        return None
    last = moving[0]
    steps = [c for symbol, c in subscripts[last].terms if coordinates & names_of(symbol)]
    if len(steps) != 1 or not coordinates & {s for s, _ in subscripts[last].terms}:
        return None
    rest = [n for n in range(len(subscripts)) if n != last]
    rest.sort(key=lambda n: -_slowness(subscripts[n]))
    layout = _Layout((*rest, last), abs(steps[0]))
    lies_so = layout == _Layout(tuple(range(len(subscripts))), 1)
    return None if lies_so else layout


def _slowness(form: Affine) -> int:
    """Place of the first direction of the launch along which the value changes."""
    return min((AXES.index(str(s)[-1]) for s in form.symbols()), default=len(AXES))


def neighbours(kernel: AccessKernel, launch: Launch) -> Mapping[int, int]:
    """Return how many adjacent elements a thread accesses in as many accesses, by access.

    Only fields count whose accesses could all be of that width.
    """
    bound = bound_expressions(kernel, launch).accesses
    by_field: dict[str, list[int]] = {}
    for number, access in enumerate(kernel.accesses):
        by_field.setdefault(access.field, []).append(number)
    result: dict[int, int] = {}
    for name, numbers in by_field.items():
        field = kernel.fields[name]
        forms = {n: bound[n].subscripts for n in numbers}
        width = max((w for w in _widths(field) if _all_joined(kernel, forms, w)), default=1)
        if width > 1 and not any(kernel.accesses[n].assumed for n in numbers):
            result.update(dict.fromkeys(numbers, width))
    return result


def _widths(field: Field) -> Iterator[int]:
    """Elements that one access can have, for the size, rows and alignment of a field."""
    width = 2
    while width * field.item_bytes <= WIDEST_ACCESS_BYTES:
        layout = (field.pitch, field.halo[-1])
        place = (field.alignment, field.offset)
        if not any(n % width for n in layout) and not any(
            n % (width * field.item_bytes) for n in place
        ):
            yield width
        width *= 2


def _all_joined(kernel: AccessKernel, forms: Mapping[int, Sequence[Affine]], width: int) -> bool:
    """Return True if loads and stores each form whole groups of ``width`` adjacent elements."""
    groups: dict[object, list[int]] = {}
    for number, (*outer, last) in forms.items():
        if any(c % width for _, c in last.terms):
            return False
        place = (*((f.constant, frozenset(f.terms)) for f in outer), frozenset(last.terms))
        key = (kernel.accesses[number].direction, place, last.constant // width)
        groups.setdefault(key, []).append(last.constant % width)
    return all(sorted(own) == list(range(width)) for own in groups.values())


def _join(kernel: AccessKernel, launch: Launch, chosen: Collection[int]) -> AccessKernel:
    """Join accesses to neighbouring elements into one access of a field of wider elements."""
    widths = {n: w for n, w in neighbours(kernel, launch).items() if n in chosen}
    fields, accesses = dict(kernel.fields), []
    joined: set[object] = set()
    for number, access in enumerate(kernel.accesses):
        if number not in widths:
            accesses.append(access)
            continue
        field, width = kernel.fields[access.field], widths[number]
        fields[access.field] = _widen(field, width)
        *outer, last = access.subscripts
        subscripts = (*outer, BinaryOperation("//", last, Constant(width)))
        bound = bound_expressions(kernel, launch).accesses[number].subscripts
        places = tuple((f.constant, frozenset(f.terms)) for f in bound[:-1])
        key = (access.field, access.direction, places, frozenset(bound[-1].terms),
               bound[-1].constant // width)  # fmt: skip
        if key not in joined:
            joined.add(key)
            accesses.append(_with_subscripts(access, access.field, subscripts))
    return replace(kernel, fields=fields, accesses=tuple(accesses))


def _widen(field: Field, width: int) -> Field:
    bytes_ = width * field.item_bytes
    return Field(
        field.name,
        next(name for name, own in ITEM_BYTES.items() if own == bytes_),
        (*field.shape[:-1], -(-field.shape[-1] // width)),
        (*field.halo[:-1], field.halo[-1] // width),
        field.pitch // width,
        field.alignment,
        field.offset,
    )


def _with_subscripts(access: Access, field: str, subscripts: Subscripts) -> Access:
    text = f"{field}[{', '.join(map(to_text, subscripts))}]"
    return replace(access, field=field, subscripts=subscripts, text=text)


def read_by_all(kernel: AccessKernel) -> frozenset[int]:
    """Return the loads of an element common to all threads, from fields without stores."""
    stored = {a.field for a in kernel.stores}
    return frozenset(
        n for n, access in enumerate(kernel.accesses)
        if access.field not in stored and not any(map(varies, access.subscripts))
    )  # fmt: skip
