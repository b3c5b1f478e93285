"""Values that a program writes into ``__constant__`` memory before the launch (``constants=``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perfassert.errors import KernelError, UnreadOverride, close_matches
from perfassert.frontends.binding.encoding import Misfit, encode, flat, pack
from perfassert.frontends.toolchain.binary import Binary, Unset
from perfassert.frontends.toolchain.names import demangle
from perfassert.kernel.launch import member_key, plain_value
from perfassert.kernel.machine import MachineCode, PresetSource, Space
from perfassert.kernel.program import Member

_REAL = ("float", "double")
_WORD, _LARGEST = 4, 8  # bytes of a number: the default and the largest
_ADDRESSES = 4  # constant bank that holds addresses of variables


def with_constants(binary: Binary, values: Mapping[str, Any]) -> Binary:
    """Return a copy of the binary in which the symbols have these values.

    Raises :class:`UnreadOverride` for a name that is no symbol, and :class:`KernelError` for a
    value that does not fit.
    """
    if not values:
        return binary
    banks = {bank: bytearray(content) for bank, content in binary.constants.items()}
    left = list(binary.unset)
    for name, value in _by_symbol(binary, values).items():
        symbol = _symbol(binary, name)
        for at, content in _parts(name, symbol, value):
            if at < 0 or at + len(content) > symbol.size:
                given = f"{len(content)} bytes at offset {at}"
                raise _constant_error(name, f"has {symbol.size} bytes; {given} do not fit")
            start = symbol.offset + at
            banks[symbol.bank][start : start + len(content)] = content
            left = [
                rest for u in left for rest in _remaining_parts(u, symbol.bank, start, len(content))
            ]
    constants = {bank: bytes(content) for bank, content in banks.items()}
    return replace(binary, constants=constants, unset=tuple(left)).with_digest()


def check_constants(binary: Binary, values: Mapping[str, Any], code: MachineCode) -> None:
    """Raise :class:`UnreadOverride` for a symbol that the kernel does not read.

    ``binary`` is the binary without the values. An indexed access may read any symbol of its bank.
    A kernel that loads the address of a variable may read any symbol.
    """
    words = [(p.bank, p.value) for p in code.presets if p.source is PresetSource.CONSTANT]
    operands = (o.memory for i in code.instructions for o in i.operations if o.memory is not None)
    indexed = {memory.bank for memory in operands if memory.space is Space.CONSTANT}
    if any(bank == _ADDRESSES for bank, _ in words):
        return
    for name in _by_symbol(binary, values):
        symbol = _symbol(binary, name)
        first, end = symbol.offset - _WORD + 1, symbol.offset + symbol.size
        if symbol.bank in indexed or any(b == symbol.bank and first <= w < end for b, w in words):
            continue
        kernel = demangle(binary.kernel)
        raise UnreadOverride(f"constants: kernel {kernel!r} does not read {name!r}; leave it out")


def _by_symbol(binary: Binary, values: Mapping[str, Any]) -> dict[str, Any]:
    """Group values by symbol.

    For example, ``{"params.n": 1, "params.8": 2}`` becomes ``{"params": {"n": 1, 8: 2}}``.
    """
    names = {name for u in _constant_symbols(binary) for name in _symbol_names(u)}
    by_symbol: dict[str, Any] = {}
    for name, value in values.items():
        base, dot, member = name.partition(".")
        if name in names or not dot or base not in names:
            by_symbol[name] = value
            continue
        whole = by_symbol.setdefault(base, {})
        if not isinstance(whole, dict):
            raise _constant_error(
                name, f"{base!r} has a value, too; give either the symbol or its members"
            )
        whole[member_key(member)] = value
    return by_symbol


def _symbol_names(symbol: Unset) -> tuple[str, ...]:
    """Return the names of a symbol: mangled, whole, and without namespaces."""
    plain = demangle(symbol.name)
    return symbol.name, plain, plain.rpartition("::")[2]


def _constant_symbols(binary: Binary) -> tuple[Unset, ...]:
    """Return all ``__constant__`` symbols, with and without a value in the file."""
    return (*binary.unset, *binary.valued)


def _symbol(binary: Binary, name: str) -> Unset:
    symbols = _constant_symbols(binary)
    known = {demangle(u.name): u for u in symbols} | {u.name: u for u in symbols}
    symbol = known.get(name)
    ends = [u for u in symbols if demangle(u.name).endswith(f"::{name}")]
    if symbol is None and len(ends) == 1:
        symbol = ends[0]
    if symbol is not None and symbol.bank in binary.constants:
        return symbol
    shown = sorted({demangle(u.name) for u in symbols})
    listed = f"; the __constant__ symbols of the binary: {', '.join(shown) or 'none'}"
    raise UnreadOverride(f"constants: no symbol {name!r}{close_matches(name, shown) or listed}")


def _parts(name: str, symbol: Unset, value: Any) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a symbol's value: byte offset in the symbol, and content."""
    value = plain_value(value)
    if isinstance(value, (bytes, bytearray)):
        yield 0, bytes(value)
    elif getattr(value, "data", None) is not None:  # an array, as a Buffer
        yield 0, _cast_to_symbol(name, symbol, value.data).tobytes()
    elif isinstance(value, Mapping):
        yield from _encode_members(name, symbol, value)
    elif isinstance(value, (list, tuple)) and value:
        if any(isinstance(element, Mapping) for element in value):
            yield from _encode_members(name, symbol, value)
            return
        elements = [element for _, element in flat(value)]
        member = _element_member(symbol, symbol.size // len(elements))
        for i, element in enumerate(elements):
            yield i * member.size, _encode_member(name, element, member)
    else:
        member = _element_member(symbol, symbol.size)
        yield 0, _encode_member(name, value, replace(member, size=symbol.size))


def _element_member(symbol: Unset, size: int) -> Member:
    """Return the type of a scalar symbol or of an array's elements.

    If the type is unknown, the result has no type and ``size`` bytes.
    """
    kinds = {replace(m, name="", offset=0) for m in symbol.members}
    plain = all(re.fullmatch(r"(\[\d+\])*", m.name) for m in symbol.members)
    return kinds.pop() if plain and len(kinds) == 1 else Member("", 0, size)


def _cast_to_symbol(name: str, symbol: Unset, data: Any) -> Any:
    """Convert an array of numbers to the symbol's element type, if that is known."""
    member = _element_member(symbol, data.dtype.itemsize)
    if member.dtype is None or member.pointer or data.dtype.kind not in "iuf":
        return data
    kind = "f" if member.dtype in _REAL else "u" if "unsigned" in member.dtype else "i"
    numbers = data.astype(f"{kind}{member.size}")
    if kind != "f" and (numbers != data).any():
        raise _constant_error(name, f"holds {member.dtype}; values of {data.dtype} do not fit")
    return numbers


def _encode_members(name: str, symbol: Unset, value: Any) -> Iterator[tuple[int, bytes]]:
    known = {m.name: m for m in symbol.members}
    for path, element in flat(value):
        if isinstance(path, int):
            member = next((m for m in symbol.members if m.offset == path), None)
            yield path, _encode_member(name, element, member or Member("", path, _WORD))
        elif path in known:
            yield known[path].offset, _encode_member(f"{name}.{path}", element, known[path])
        elif known:
            near = close_matches(path, known) or f"; it has: {', '.join(known)}"
            raise _constant_error(name, f"has no member {path!r}{near}")
        else:
            raise _constant_error(
                name, f"the offset of its member {path!r} is unknown; give byte offsets"
            )


def _encode_member(name: str, value: Any, kind: Member) -> bytes:
    size = kind.size
    if not 0 < size <= _LARGEST or size & (size - 1):
        raise _constant_error(
            name, f"{value!r} is not a number of {size} bytes; give a typed array"
        )
    try:
        number = encode(value, kind.dtype, size, kind.pointer)
    except Misfit as error:
        raise _constant_error(name, str(error)) from None
    return pack(number, size)


def _remaining_parts(unset: Unset, bank: int, start: int, size: int) -> Iterator[Unset]:
    """Yield the parts of a symbol that remain without a value after some bytes have got one."""
    end, last = start + size, unset.offset + unset.size
    if unset.bank != bank or end <= unset.offset or last <= start:
        yield unset
        return
    if unset.offset < start:
        yield replace(unset, size=start - unset.offset)
    if end < last:
        moved = end - unset.offset
        yield replace(unset, offset=end, size=last - end, start=unset.start + moved)


def _constant_error(name: str, why: str) -> KernelError:
    return KernelError(f"constants[{name!r}]: {why}")
