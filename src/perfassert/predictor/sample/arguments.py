"""A launch's arguments as the execution takes them: bytes, and regions that pointers point into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from perfassert.engines.execution.memory import Region, pointer
from perfassert.engines.execution.presets import ArgumentValue, PartlyGiven
from perfassert.frontends.binding.arguments import content
from perfassert.frontends.binding.encoding import encode, flat, pack
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.contents import contents
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import POINTER_BYTES
from perfassert.kernel.program import Member, Parameter
from perfassert.kernel.tensor_map import MAP_BYTES, TensorMap

_NOT_GIVEN = object()


def execution_arguments(parameters: tuple[Parameter, ...], launch: Launch) -> list[ArgumentValue]:
    """Return one argument per parameter, then the regions that only structures point into."""
    return _Arguments(parameters, launch).found


class _Arguments:
    def __init__(self, parameters: tuple[Parameter, ...], launch: Launch) -> None:
        self._parameters = parameters
        self._given = _by_position(parameters, launch)
        self._numbers = dict(launch.scalar_args())
        self._buffers = dict(self._named_buffers())
        self._regions: dict[str, Region] = {}
        self.found: list[ArgumentValue] = [self._region_of(p) for p in range(len(parameters))]
        for name, buffer in self._buffers.items():
            if buffer.alias is None and name not in self._regions:
                self.found.append(self._add(name, _region(name, buffer, self._numbers)))
        self._order = list(dict.fromkeys(a for a in self.found if isinstance(a, Region)))
        for place, parameter in enumerate(parameters):
            if self.found[place] is None:
                self.found[place] = self._bytes(parameter, self._given[place])

    def _named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Buffers by the name of the memory that they are."""
        for parameter, value in zip(self._parameters, self._given, strict=True):
            if isinstance(value, Buffer):
                yield parameter.name, value
            elif isinstance(value, Mapping):
                for member, element in _elements(parameter, value):
                    if isinstance(element, Buffer):
                        yield parameter.at(member.offset), element

    def _region_of(self, place: int) -> ArgumentValue:
        """Return the argument of a pointer to memory of its own; None if still to be set."""
        parameter, value = self._parameters[place], self._given[place]
        if isinstance(value, Buffer) and value.alias is None:
            return self._add(parameter.name, _region(parameter.name, value, self._numbers))
        pointing = value is _NOT_GIVEN or (value and not isinstance(value, (Buffer, Mapping)))
        if parameter.pointer and pointing:  # anything but null
            return self._add(parameter.name, Region(parameter.name))
        return None

    def _add(self, name: str, region: Region) -> Region:
        self._regions[name] = region
        return region

    def _bytes(self, parameter: Parameter, value: Any) -> ArgumentValue:
        if isinstance(value, Buffer):
            address = self._address(parameter.name)
            return None if address is None else pack(address, POINTER_BYTES)
        if isinstance(value, Mapping):
            return self._structure(parameter, value)
        if value is _NOT_GIVEN or (value is None and not parameter.pointer):
            return None
        return content(parameter, value)

    def _address(self, name: str) -> int | None:
        """Return the address of a pointer's memory through its aliases; None for a cycle."""
        behind, seen = 0, set()
        while (buffer := self._buffers.get(name)) is not None and buffer.alias is not None:
            if name in seen:
                return None
            seen.add(name)
            behind += buffer.offset
            name = buffer.alias
        region = self._regions.get(name)
        if region is None:
            return None
        return pointer(self._order.index(region), region.offset) + behind

    def _structure(self, parameter: Parameter, value: Mapping[Any, Any]) -> ArgumentValue:
        """Return a structure's bytes, with a mask if some are unknown; gaps count as known."""
        inside = {at for m in parameter.members for at in range(m.offset, m.offset + m.size)}
        content = bytearray(parameter.size)
        known = bytearray(bool(inside) and at not in inside for at in range(parameter.size))
        for member, element in sorted(_elements(parameter, value), key=lambda e: e[0].offset):
            if isinstance(element, Buffer):
                address = self._address(parameter.at(member.offset))
                if address is None:
                    continue
                part = pack(address, POINTER_BYTES)
            elif isinstance(element, TensorMap):
                part = bytes(MAP_BYTES)
            else:
                number = encode(element, member.dtype, member.size, member.pointer)
                part = pack(number, member.size)
            content[member.offset : member.offset + len(part)] = part
            known[member.offset : member.offset + len(part)] = b"\1" * len(part)
        whole = bytes(content[: parameter.size])
        return whole if all(known) else PartlyGiven(whole, bytes(known))


def _by_position(parameters: tuple[Parameter, ...], launch: Launch) -> list[Any]:
    if isinstance(launch.args, Mapping):
        return [launch.args.get(p.name, _NOT_GIVEN) for p in parameters]
    count = len(parameters)
    return [*launch.args, *(_NOT_GIVEN,) * count][:count]


def _elements(parameter: Parameter, value: Mapping[Any, Any]) -> Iterator[tuple[Member, Any]]:
    """Members with their values; a byte offset that no member has is a word."""
    known = {m.name: m for m in parameter.members} | {m.offset: m for m in parameter.members}
    for path, element in flat(value):
        if path in known:
            yield known[path], element
        elif isinstance(path, int):
            yield Member("", path, min(POINTER_BYTES, parameter.size - path)), element


def _region(name: str, buffer: Buffer, numbers: Mapping[str, int]) -> Region:
    array = contents(buffer, numbers)
    if array is None or buffer.pages is not None:
        content = None if array is None else array.view(np.uint8).reshape(-1)
        return Region(name, content, buffer.bytes, buffer.offset, buffer.pages)
    content = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    return Region(name, content, len(content), buffer.offset)
