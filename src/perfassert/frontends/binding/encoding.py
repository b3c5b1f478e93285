"""Encoding of a caller's values as the bits that a parameter holds."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from operator import index
from typing import Any

_FORMATS = {
    "float": "<f", "double": "<d", "__half": "<e", "half": "<e", "_Float16": "<e",
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16",
}  # fmt: skip
_OF_SIZE = {2: "<e", 4: "<f", 8: "<d"}
_INTEGER = re.compile(
    r"\b(?:int|char|short|long|unsigned|signed|bool|_Bool|size_t|ptrdiff_t|u?int\d+_t|uint|ushort"
    r"|uchar|ulong|wchar_t)\b"
)


_NUMPY = re.compile(r"(?P<name>u?int|float)(?P<bits>\d+)")
_ELEMENTS = {
    **dict.fromkeys(("char", "signed char", "unsigned char", "bool"), ("i", 1)),
    **dict.fromkeys(("short", "unsigned short"), ("i", 2)),
    **dict.fromkeys(("int", "unsigned int", "unsigned"), ("i", 4)),
    **dict.fromkeys(("long long", "unsigned long long"), ("i", 8)),
    "float": ("f", 4), "double": ("f", 8),
}  # fmt: skip
"""Types of C++ as numpy has them: integer or float, and bytes."""


class Misfit(ValueError):
    """Value that a parameter cannot take; the message says why."""


def encode(value: Any, dtype: str | None, size: int, pointer: bool = False) -> int:
    """Return the number whose two's complement lies in ``size`` bytes.

    Floats and integers are taken as the type says; where that is unknown, as they are given.
    """
    if pointer or (value is None and dtype is None):
        return _pointer_value(value)
    form = _FORMATS.get(_without_qualifiers(dtype))
    if form is None and isinstance(value, float) and not _is_integer(dtype):
        form = _OF_SIZE.get(size)
    if form is not None and isinstance(value, (int, float)):
        return _pattern(float(value), form)
    return _integer_value(value, dtype, size)


def check_elements(written: str | None, given: str) -> None:
    """Compare the type that a pointer points to with the elements of the array given for it.

    Bytes fit anything, and so does what neither C++ nor numpy has a number for.

    Args:
        written: the type as the source has it, ``"const int"``.
        given: the array's, as numpy has it: ``"float32"``.

    Raises:
        Misfit: the kernel would read other numbers than the array has.
    """
    wanted, kind = _ELEMENTS.get(_without_qualifiers(written)), _NUMPY.fullmatch(given)
    if wanted is None or kind is None:
        return
    elements = ("f" if kind["name"] == "float" else "i", int(kind["bits"]) // 8)
    if elements != wanted and elements[1] > 1:
        fitting = f"{'float' if wanted[0] == 'f' else 'int'}{8 * wanted[1]}"
        raise Misfit(
            f"points to {_without_qualifiers(written)}, whose numbers an array of {given} does "
            f"not have: give it as {fitting}, or its bytes as uint8"
        )


def pack(number: int, size: int) -> bytes:
    """Return the bytes of the value as they lie in memory."""
    return (number % (1 << 8 * size)).to_bytes(size, "little")


def _without_qualifiers(dtype: str | None) -> str:
    return " ".join(w for w in (dtype or "").split() if w not in ("const", "volatile"))


def _is_integer(dtype: str | None) -> bool:
    return bool(_INTEGER.search(dtype or ""))


def _pointer_value(value: Any) -> int:
    """Return the address of a pointer; ``None`` is the null pointer."""
    if value is None:
        return 0
    if not hasattr(value, "__index__"):
        raise Misfit(f"is a pointer; give None, an address or a Buffer, not {value!r}")
    return _twos_complement(index(value), 8)


def _pattern(value: float, form: str) -> int:
    """Return IEEE 754 bits as a signed integer; a bfloat16 is the upper half of a float."""
    try:
        bits = struct.pack("<f" if form == "bfloat16" else form, value)
    except OverflowError:
        raise Misfit(f"{value!r} is beyond its type") from None
    if form == "bfloat16":
        bits = bits[2:]
    return int.from_bytes(bits, "little", signed=True)


def _integer_value(value: Any, dtype: str | None, size: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not hasattr(value, "__index__"):
        kind = dtype or f"{8 * size} bits"
        raise Misfit(f"is {kind}; {value!r} does not fit")
    return _twos_complement(index(value), size)


def _twos_complement(number: int, size: int) -> int:
    bits = 8 * min(size, 8)
    if not -(2 ** (bits - 1)) <= number < 2**bits:
        raise Misfit(f"has {bits} bits; {number} does not fit")
    return number if number < 2**63 else number - 2**64


def flat(structure: Any, path: str = "") -> Iterator[tuple[str | int, Any]]:
    """``{"a": {"b": [1, 2]}}`` → ``a.b[0]``, ``a.b[1]``; byte offsets stay numbers."""
    if isinstance(structure, Mapping):
        for name, value in structure.items():
            if not isinstance(name, str):
                yield index(name), value
            else:
                yield from flat(value, f"{path}.{name}" if path else name)
    elif isinstance(structure, (list, tuple)):
        for i, value in enumerate(structure):
            yield from flat(value, f"{path}[{i}]")
    else:
        yield path, structure
