"""Names, types and structure layouts of parameters, from debug information."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import islice, product
from math import prod
from typing import Any, TypeVar

from perfassert.kernel.program import Member

from .binary import Parameter

T = TypeVar("T")
_NUMBER = 8  # bytes
_MOST = 1024  # members of one structure that are listed: 4 kB of parameters in words
_THROUGH = (
    "DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type",
)  # fmt: skip
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_STRUCTURES = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")


def parameters(cubin: bytes, mangled: str) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel in a cubin with debug information; all offsets are 0.

    Returns ``()`` without debug information (``--device-debug``) or without pyelftools.
    """

    def of_kernel(entries: Iterator[Any]) -> tuple[Parameter, ...]:
        for entry in entries:
            if entry.tag == "DW_TAG_subprogram" and _linkage(entry) == mangled:
                return tuple(_parameters(entry))
        return ()

    return _read_entries(cubin, of_kernel) or ()


def variables(cubin: bytes) -> dict[str, tuple[Member, ...]]:
    """Return the members of global variables, by mangled name.

    A number or pointer has one member without a name.
    """

    def globally(entries: Iterator[Any]) -> dict[str, tuple[Member, ...]]:
        global_entries = (e for e in entries if e.tag == "DW_TAG_variable" and _is_global(e))
        return {
            _linkage(e): tuple(islice(_type_members(_type_of(e), "", 0), _MOST))
            for e in global_entries
        }

    return _read_entries(cubin, globally) or {}


def _is_global(entry: Any) -> bool:
    parent = entry.get_parent()
    return parent is not None and parent.tag in ("DW_TAG_compile_unit", "DW_TAG_namespace")


def _read_entries(cubin: bytes, read: Callable[[Iterator[Any]], T]) -> T | None:
    """Return what ``read`` makes of all debug entries; None if they cannot be read."""
    try:
        errors, elf = map(import_module, ("elftools.common.exceptions", "elftools.elf.elffile"))
    except ImportError:
        return None
    try:
        file = elf.ELFFile(io.BytesIO(cubin))
        if not file.has_dwarf_info():
            return None
        dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
        return read(entry for unit in dwarf.iter_CUs() for entry in unit.iter_DIEs())
    except (errors.ELFError, errors.DWARFError, ValueError, KeyError, IndexError, AssertionError):
        return None


def _linkage(entry: Any) -> str:
    names = ("DW_AT_MIPS_linkage_name", "DW_AT_linkage_name", "DW_AT_name")
    return next((_attribute_text(entry, name) for name in names if name in entry.attributes), "")


def _parameters(entry: Any) -> Iterator[Parameter]:
    for child in entry.iter_children():
        if child.tag == "DW_TAG_formal_parameter":
            members = list(_type_members(_type_of(child), "", 0))
            member = members[0] if len(members) == 1 and not members[0].name else None
            size = _size(_type_of(child))
            name = _attribute_text(child, "DW_AT_name")
            if member is not None:
                yield Parameter(name, 0, size, member.pointer, member.dtype)
            else:
                yield Parameter(name, 0, size, members=tuple(members[:_MOST]))


def _type_members(kind: Any, path: str, offset: int) -> Iterator[Member]:
    """Yield the numbers and pointers in a type, with their paths and offsets."""
    kind = _underlying_type(kind)
    if kind is None:
        return
    if kind.tag in _STRUCTURES:
        for child in kind.iter_children():
            if child.tag in ("DW_TAG_member", "DW_TAG_inheritance"):
                name = _attribute_text(child, "DW_AT_name")
                inner = f"{path}.{name}" if path and name else path or name
                yield from _type_members(_type_of(child), inner, offset + _location(child))
    elif kind.tag == "DW_TAG_array_type":
        size = _size(_type_of(kind))
        places = product(*map(range, _extents(kind)))
        for i, place in enumerate(islice(places, _MOST)):
            inner = path + "".join(f"[{index}]" for index in place)
            yield from _type_members(_type_of(kind), inner, offset + i * size)
    elif kind.tag in _POINTERS:
        pointee = _underlying_type(_type_of(kind)) if "DW_AT_type" in kind.attributes else None
        yield Member(
            path, offset, 8, True, _attribute_text(pointee, "DW_AT_name") if pointee else "void"
        )
    else:
        yield Member(path, offset, _size(kind), False, _attribute_text(kind, "DW_AT_name") or None)


def _underlying_type(kind: Any) -> Any:
    while kind is not None and kind.tag in _THROUGH:
        kind = _type_of(kind)
    return kind


def _type_of(entry: Any) -> Any:
    return entry.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in entry.attributes else None


def _attribute_text(entry: Any, name: str) -> str:
    attribute = entry.attributes.get(name)
    return attribute.value.decode(errors="replace") if attribute else ""


def _location(entry: Any) -> int:
    attribute = entry.attributes.get("DW_AT_data_member_location")
    if attribute is None:
        return 0
    if isinstance(attribute.value, int):
        return int(attribute.value)
    number, shift = 0, 0  # DW_OP_plus_uconst and a ULEB128
    for byte in attribute.value[1:]:
        number |= (byte & 127) << shift
        shift += 7
    return number


def _extents(array: Any) -> list[int]:
    extents = []
    for child in array.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            bound = child.attributes.get("DW_AT_upper_bound")
            count = child.attributes.get("DW_AT_count")
            extents.append(int(count.value) if count else int(bound.value) + 1 if bound else 0)
    return extents


def _size(kind: Any) -> int:
    kind = _underlying_type(kind)
    if kind is None:
        return 0
    if kind.tag in _POINTERS:
        return 8
    if kind.tag == "DW_TAG_array_type":
        return prod(_extents(kind)) * _size(_type_of(kind))
    attribute = kind.attributes.get("DW_AT_byte_size")
    return int(attribute.value) if attribute else 0


def complete(known: tuple[Parameter, ...], debug: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return ``known`` with names, types and members of ``debug``; unchanged if sizes differ."""
    if [p.size for p in known] != [p.size for p in debug]:
        return known
    return tuple(
        replace(
            p, name=f.name or p.name, members=f.members,
            pointer=p.pointer or f.pointer, dtype=p.dtype or f.dtype,
        )
        for p, f in zip(known, debug, strict=True)
    )  # fmt: skip


def is_incomplete(known: tuple[Parameter, ...]) -> bool:
    """Return True if a name or the layout of a structure is unknown."""
    return any(
        p.name == f"arg{i}" or (not p.pointer and p.size > _NUMBER) for i, p in enumerate(known)
    )
