"""``constants=``: what a program writes into ``__constant__`` memory before the launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perfassert.errors import KernelError, close_matches
from perfassert.frontends.cuda.encoding import Misfit, encoded, flat, packed
from perfassert.frontends.toolchain.binary import Binary, Unset
from perfassert.frontends.toolchain.names import demangle
from perfassert.kernel.launch import plain_value

_WORD, _LARGEST = 4, 8  # bytes of a number


def with_constants(binary: Binary, given: Mapping[str, Any]) -> Binary:
    """The binary as if its file had held these values.

    Raises :class:`KernelError` for a name that is no symbol without a value, and for a value that
    does not fit.
    """
    if not given:
        return binary
    banks = {bank: bytearray(content) for bank, content in binary.constants.items()}
    left = list(binary.unset)
    for name, value in given.items():
        symbol = _symbol(binary, name)
        for at, content in _parts(name, symbol, value):
            if at < 0 or at + len(content) > symbol.size:
                raise _wrong(name, f"has {symbol.size} bytes; {len(content)} at {at} do not fit")
            start = symbol.offset + at
            banks[symbol.bank][start : start + len(content)] = content
            left = [rest for u in left for rest in _without(u, symbol.bank, start, len(content))]
    constants = {bank: bytes(content) for bank, content in banks.items()}
    return replace(binary, constants=constants, unset=tuple(left)).sealed()


def _symbol(binary: Binary, name: str) -> Unset:
    known = {demangle(u.name): u for u in binary.unset} | {u.name: u for u in binary.unset}
    found = known.get(name)
    ends = [u for u in binary.unset if demangle(u.name).endswith(f"::{name}")]
    if found is None and len(ends) == 1:
        found = ends[0]
    if found is not None and found.bank in binary.constants:
        return found
    shown = sorted({demangle(u.name) for u in binary.unset})
    listed = f"; __constant__ symbols without a value in the binary: {', '.join(shown) or 'none'}"
    raise KernelError(f"constants: no symbol {name!r}{close_matches(name, shown) or listed}")


def _parts(name: str, symbol: Unset, value: Any) -> Iterator[tuple[int, bytes]]:
    """Byte offset in the symbol, and content."""
    value = plain_value(value)
    if isinstance(value, (bytes, bytearray)):
        yield 0, bytes(value)
    elif getattr(value, "data", None) is not None:  # an array, as a Buffer
        yield 0, value.data.tobytes()
    elif isinstance(value, Mapping):
        yield from _members(name, symbol, value)
    elif isinstance(value, (list, tuple)) and value:
        size = symbol.size // len(value)
        for i, element in enumerate(value):
            yield i * size, _number(name, element, size)
    else:
        yield 0, _number(name, value, symbol.size)


def _members(name: str, symbol: Unset, value: Mapping[Any, Any]) -> Iterator[tuple[int, bytes]]:
    known = {m.name: m for m in symbol.members}
    for path, element in flat(value):
        if isinstance(path, int):
            yield path, _number(name, element, _WORD)
        elif path in known:
            member = known[path]
            content = _number(f"{name}.{path}", element, member.size, member.dtype, member.pointer)
            yield member.offset, content
        elif known:
            near = close_matches(path, known) or f"; it has: {', '.join(known)}"
            raise _wrong(name, f"has no member {path!r}{near}")
        else:
            raise _wrong(name, f"nobody knows where its member {path!r} lies; give byte offsets")


def _number(
    name: str, value: Any, size: int, dtype: str | None = None, pointer: bool = False
) -> bytes:
    if not 0 < size <= _LARGEST or size & (size - 1):
        raise _wrong(name, f"{value!r} is no value of {size} bytes; give an array with its type")
    try:
        number = encoded(value, dtype, size, pointer)
    except Misfit as error:
        raise _wrong(name, str(error)) from None
    return packed(number, size)


def _without(unset: Unset, bank: int, start: int, size: int) -> Iterator[Unset]:
    """What remains of a symbol without a value when bytes of it get one."""
    end, last = start + size, unset.offset + unset.size
    if unset.bank != bank or end <= unset.offset or last <= start:
        yield unset
        return
    if unset.offset < start:
        yield replace(unset, size=start - unset.offset)
    if end < last:
        moved = end - unset.offset
        yield replace(unset, offset=end, size=last - end, start=unset.start + moved)


def _wrong(name: str, why: str) -> KernelError:
    return KernelError(f"constants[{name!r}]: {why}")
