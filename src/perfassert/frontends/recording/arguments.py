"""Arguments of a launch, decoded from the bytes in which the program passes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Union

from perfassert.errors import LaunchError
from perfassert.frontends.recording.code import KernelCode
from perfassert.frontends.recording.memory import Allocation, DeviceMemory
from perfassert.frontends.toolchain.binary import Parameter
from perfassert.kernel.buffer import PAGE_BYTES
from perfassert.kernel.machine import POINTER_BYTES, REGISTER_BYTES
from perfassert.kernel.tensor_map import SWIZZLES, TensorMap

_FLOATS = {"float": "<f", "double": "<d", "__half": "<e", "half": "<e"}
_NUMPY = {
    "float": "float32", "double": "float64", "__half": "float16", "half": "float16",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "bool": "bool",
    "short": "int16", "unsigned short": "uint16", "int": "int32", "unsigned int": "uint32",
    "unsigned": "uint32", "long": "int64", "unsigned long": "uint64", "long long": "int64",
    "unsigned long long": "uint64", "size_t": "uint64", "uint": "uint32",
    "float2": "float32", "float3": "float32", "float4": "float32", "double2": "float64",
    "int2": "int32", "int3": "int32", "int4": "int32", "uint2": "uint32", "uint4": "uint32",
    "uchar4": "uint8", "int8_t": "int8", "uint8_t": "uint8", "int32_t": "int32",
    "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "int16_t": "int16",
    "uint16_t": "uint16", "uchar": "uint8",
}  # fmt: skip
_BYTES = "uint8"
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer into an allocation.

    ``size`` is in bytes from the pointer to the end of the allocation. ``dtype`` is numpy's.
    ``alias`` names the pointer in whose memory this one lies, ``offset`` bytes behind it. Without
    ``alias``, ``offset`` is counted from a multiple of 256 B.

    ``data`` is the key of its content. ``pages`` is the key of the page numbers that the content
    has, empty for a whole buffer. ``address`` is the one in the program, which is not written down.
    """

    address: int
    size: int
    dtype: str
    offset: int = 0
    alias: str = ""
    data: str = ""
    pages: str = ""


_TENSOR_MAP = struct.Struct("<8sQ5Q4Q5H5BBBB22x")
"""Layout of a tensor map as ``runtime/tensor_map.hpp`` writes it, the fastest axis first.

The fields are mark, address, extents, strides, box, steps, type, rank and swizzle.
"""
_MARK = b"tensor\0\1"
_MAPPED = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
    "uint16", "float32", "float32", "float32",
)  # fmt: skip
"""``CUtensorMapDataType`` → dtype of an element, or a dtype of the same size."""

Number = Union[int, float, None]
Word = Union[int, Pointer, TensorMap]
ArgumentValue = Union[Number, Pointer, TensorMap, "dict[int, Word]"]
"""Value of an argument; a structure maps byte offsets to the words that lie there."""


@dataclass(frozen=True, slots=True)
class PointerPlace:
    """A pointer's place in the arguments, and the name that its memory gets from it."""

    parameter: Parameter
    inside: int
    pointer: Pointer
    allocation: Allocation
    read_only: bool

    @property
    def name(self) -> str:
        return self.parameter.at(self.inside)


class RecordedArguments:
    """Arguments of one launch.

    ``values`` is keyed by parameter name. ``pointers`` has the pointers among them in the code's
    order.
    """

    def __init__(self, code: KernelCode, content: bytes, memory: DeviceMemory) -> None:
        self._memory = memory
        self.pointers: list[PointerPlace] = []
        self.values: dict[str, ArgumentValue] = {}
        self.unknown: list[str] = []
        for position, parameter in enumerate(code.parameters):
            part = content[parameter.offset : parameter.offset + parameter.size]
            self._take(parameter, part, position in code.read_only)
        self._resolve_aliases()

    def _take(self, parameter: Parameter, part: bytes, read_only: bool) -> None:
        """Decode one parameter; a pointer into unknown memory is left out."""
        name, address = parameter.name, int.from_bytes(part, "little")
        pointer = None
        if parameter.size == POINTER_BYTES and (parameter.pointer or not _is_number(parameter)):
            pointer = self._pointer(parameter, 0, address, read_only)
        if pointer is not None:
            is_pointer = parameter.pointer or parameter.dtype is None
            self.values[name] = pointer if is_pointer else {0: pointer}
        elif parameter.pointer and address:
            self.unknown.append(name)
        elif parameter.pointer:
            self.values[name] = None
        elif parameter.size in (1, 2, 4, 8):
            self.values[name] = number(part, parameter.dtype)
        else:
            words = dict(self._words(parameter, part))
            whole = len(part) == _TENSOR_MAP.size and isinstance(words[0], TensorMap)
            self.values[name] = words[0] if whole else words

    def _words(self, parameter: Parameter, part: bytes) -> Iterator[tuple[int, Word]]:
        """Decode a structure: tensor maps, pointers into an allocation, and numbers elsewhere."""
        at = 0
        while at < len(part):
            if (tensor := tensor_map(part[at : at + _TENSOR_MAP.size])) is not None:
                yield at, tensor
                at += _TENSOR_MAP.size
                continue
            address = int.from_bytes(part[at : at + POINTER_BYTES], "little")
            aligned = at % POINTER_BYTES == 0 and at + POINTER_BYTES <= len(part)
            pointer = self._pointer(parameter, at, address, False) if aligned else None
            if pointer is not None:
                yield at, pointer
                at += POINTER_BYTES
            else:
                word = part[at : at + REGISTER_BYTES]
                yield at, int.from_bytes(word, "little", signed=len(word) == REGISTER_BYTES)
                at += REGISTER_BYTES

    def _pointer(
        self, parameter: Parameter, inside: int, address: int, read_only: bool
    ) -> Pointer | None:
        allocation = self._memory.around(address) if address else None
        if allocation is None:
            return None
        dtype = numpy_type(parameter.dtype) if not inside and parameter.pointer else _BYTES
        size = allocation.address + allocation.size - address
        pointer = Pointer(address, size, dtype, address % PAGE_BYTES)
        self.pointers.append(PointerPlace(parameter, inside, pointer, allocation, read_only))
        return pointer

    def _resolve_aliases(self) -> None:
        """Make the lowest pointer into each allocation its memory, and the others aliases of it."""
        for places in _by_allocation(self.pointers):
            root = min(places, key=lambda p: p.pointer.address)
            for place in places:
                if place is not root:
                    behind = place.pointer.address - root.pointer.address
                    self.replace_pointer(
                        place, replace(place.pointer, offset=behind, alias=root.name)
                    )

    def contents(self) -> dict[tuple[str, int], Pointer]:
        """Return the pointers whose contents are kept, by name and size in bytes."""
        return {(p.name, p.pointer.size): p.pointer for p in self.pointers if p.pointer.data}

    def take_over(self, kept: Mapping[tuple[str, int], Pointer]) -> None:
        """Take over the contents that the same buffers (name, size) had in an earlier launch."""
        for place in list(self.pointers):
            content = kept.get((place.name, place.pointer.size))
            if content is not None and not place.pointer.alias and place.allocation.may_be_known:
                self.replace_pointer(
                    place, replace(place.pointer, data=content.data, pages=content.pages)
                )

    def replace_pointer(self, place: PointerPlace, pointer: Pointer) -> None:
        """Replace the pointer at a place, in the values and in the list of pointers."""
        value = self.values[place.parameter.name]
        if isinstance(value, dict):
            value[place.inside] = pointer
        else:
            self.values[place.parameter.name] = pointer
        self.pointers[self.pointers.index(place)] = replace(place, pointer=pointer)


def _by_allocation(places: list[PointerPlace]) -> list[list[PointerPlace]]:
    by_address: dict[int, list[PointerPlace]] = {}
    for place in places:
        by_address.setdefault(place.allocation.address, []).append(place)
    return list(by_address.values())


def tensor_map(part: bytes) -> TensorMap | None:
    """Return the tensor map in these bytes; None if they hold none or no copy can use it."""
    if len(part) != _TENSOR_MAP.size or not part.startswith(_MARK):
        return None
    _, _, *numbers = _TENSOR_MAP.unpack(part)
    kind, rank, swizzle = numbers[-3:]
    if kind >= len(_MAPPED) or swizzle >= len(SWIZZLES):
        return None
    extents, strides, box, steps = (
        tuple(reversed(numbers[first : first + count]))
        for first, count in ((0, rank), (5, rank - 1), (9, rank), (14, rank))
    )
    try:
        return TensorMap(
            extents, box, _MAPPED[kind], strides=strides, element_strides=steps,
            swizzle=SWIZZLES[swizzle],
        )  # fmt: skip
    except LaunchError:
        return None


def number(part: bytes, dtype: str | None) -> Number:
    """Return the value of a scalar parameter, decoded by its C type."""
    form = _FLOATS.get(dtype or "")
    if form is not None and struct.calcsize(form) == len(part):
        (value,) = struct.unpack(form, part)
        return shortest(float(value), form)
    signed = not (dtype or "").startswith(("unsigned", "uint", "size_t", "bool"))
    return int.from_bytes(part, "little", signed=signed)


def shortest(value: float, form: str) -> float:
    """Return the shortest decimal that rounds to the same value in the float's own format."""
    for digits in range(1, 17):
        rounded = float(f"{value:.{digits}g}")
        try:
            same = struct.pack(form, rounded) == struct.pack(form, value)
        except OverflowError:
            same = False
        if same:
            return rounded
    return value


def numpy_type(dtype: str | None) -> str:
    """Return numpy's dtype for a pointee's C type; the dtype of bytes if it is no number."""
    words = [w for w in (dtype or "").split() if w not in ("const", "volatile")]
    return _NUMPY.get(" ".join(words), _BYTES)


def item_size(dtype: str) -> int:
    """Return the bytes of one item of a numpy dtype."""
    return 1 if dtype == "bool" else _SIZES[dtype.lstrip("abcdefghijklmnopqrstuvwxyz")]


def _is_number(parameter: Parameter) -> bool:
    """Return True if a parameter is a single number."""
    dtype = parameter.dtype or ""
    return numpy_type(dtype) != _BYTES or dtype in ("unsigned char", "uchar", "uint8_t")
