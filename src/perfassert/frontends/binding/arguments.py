"""Arguments of a launch as the numbers that the code of a kernel reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from perfassert.errors import LaunchError, MissingArgument, UnreadOverride, close_matches
from perfassert.frontends.binding.encoding import Misfit, check_elements, encode, flat, pack
from perfassert.kernel.affine import Affine, add
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Buffer, Launch
from perfassert.kernel.machine import POINTER_BYTES, REGISTER_BYTES
from perfassert.kernel.names import Argument, Name
from perfassert.kernel.program import (
    Member,
    Parameter,
    Program,
)
from perfassert.kernel.tensor_map import MAP_BYTES, TensorMap

T = TypeVar("T")
_APART = 2**40
"""Bytes between the made-up addresses of two pointers: no array reaches into the next one."""
_PLACES = 2**6  # pointers that one parameter has place for


class Arguments:
    """``numbers``: words of parameters by their variable (``arg:2``, ``arg:2+8`` in a structure);
    ``buffers``: what pointers point to, by the name of the field.

    A pointer that nobody gives is not null. Raises :class:`LaunchError` for a name that is no
    parameter and for a value that its parameter cannot take.
    """

    def __init__(self, program: Program, launch: Launch, kernel: str) -> None:
        self.kernel = kernel
        self.program = program
        self.numbers: dict[Name, int] = {}
        self.buffers: dict[str, Buffer] = {}
        self.maps: dict[Argument, TensorMap] = {}
        self._fields = {a.field for i in program.instructions for a in i.accesses}
        for position, value in self._by_position(launch.args):
            self._take(position, value)
        for pointer, field in self._pointers():
            if pointer not in self.numbers:
                self._set(pointer, POINTER_BYTES, self._address(pointer, field))

    def _by_position(self, args: Mapping[str, Any] | Sequence[Any]) -> Iterator[tuple[int, Any]]:
        names = [p.name for p in self.program.parameters]
        listed = f"its parameters: {', '.join(names) or 'none'}"
        if not isinstance(args, Mapping):
            if len(args) > len(names):
                raise LaunchError(f"{len(args)} arguments for kernel {self.kernel!r}; {listed}")
            for position, value in enumerate(args):
                if value is not None or self._may_point(position):
                    yield position, value  # None is a number that nobody needs, too
            return
        for name, value in args.items():
            if name not in names:
                near = close_matches(str(name), names) or f"; {listed}"
                raise LaunchError(f"kernel {self.kernel!r} has no parameter {name!r}{near}")
            yield names.index(name), value

    def _take(self, position: int, value: Any) -> None:
        parameter = self.program.parameters[position]
        whole = Argument(position)
        if isinstance(value, TensorMap):
            self._store(whole, parameter, parameter.name, value)
        elif isinstance(value, (bytes, bytearray)):
            self._bytes(position, bytes(value))
        elif isinstance(value, Mapping):
            self._members(position, value)
        elif value is None and not self._may_point(position):
            raise self._argument_error(parameter.name, "None is for pointers")
        else:
            self._store(whole, parameter, parameter.name, value)

    def _store(self, at: Argument, kind: Parameter | Member, shown: str, value: Any) -> None:
        """Store the words of one number, pointer or tensor map."""
        if isinstance(value, TensorMap):
            self._map(at, shown, value)
            return
        if isinstance(value, Buffer):
            if kind.size != POINTER_BYTES or (kind.dtype and not kind.pointer):
                raise self._argument_error(
                    shown, f"is {kind.dtype or 'no pointer'}; a buffer does not fit"
                )
            if value.source is not None or (value.fill is not None and value.stated[1]):
                self._name_misfit(shown, partial(check_elements, kind.dtype, value.dtype))
            self.buffers[self.field(at)] = value
            return
        encoding = partial(encode, value, kind.dtype, kind.size, kind.pointer)
        self._set(at, kind.size, self._name_misfit(shown, encoding))

    def _name_misfit(self, shown: str, fit: Callable[[], T]) -> T:
        """Return the result of ``fit``; the error of a misfit names the argument."""
        try:
            return fit()
        except Misfit as error:
            raise self._argument_error(shown, str(error)) from None

    def _map(self, at: Argument, shown: str, value: TensorMap) -> None:
        if self.program.parameters[at.position].size - at.offset < MAP_BYTES:
            raise self._argument_error(shown, f"has no place for a tensor map of {MAP_BYTES} bytes")
        self.maps[at] = value

    def _set(self, at: Argument, size: int, number: int) -> None:
        """Set the words of a parameter or a part of one, also the upper half of a part."""
        self.numbers[at] = number
        if size == POINTER_BYTES and self.program.parameters[at.position].size > POINTER_BYTES:
            self.numbers[Argument(at.position, at.offset + REGISTER_BYTES)] = number >> 32

    # Structures

    def _bytes(self, position: int, content: bytes) -> None:
        """Return the bytes of a structure as they lie in memory, as ``struct.pack`` makes them."""
        parameter = self.program.parameters[position]
        if len(content) > parameter.size:
            raise self._argument_error(
                parameter.name, f"has {parameter.size} bytes; {len(content)} do not fit"
            )
        for at in range(0, len(content) - len(content) % REGISTER_BYTES, REGISTER_BYTES):
            number = int.from_bytes(content[at : at + REGISTER_BYTES], "little", signed=True)
            self.numbers[Argument(position, at)] = number
        wholes = [(m.offset, m.size) for m in parameter.members]
        for at, size in wholes or [(0, parameter.size)]:
            part = content[at : at + size]
            if size <= POINTER_BYTES and len(part) == size:
                number = int.from_bytes(part, "little", signed=True)
                self._set(Argument(position, at), size, number)

    def _members(self, position: int, structure: Mapping[Any, Any]) -> None:
        """A structure by member, or by byte offset where nobody knows its layout."""
        parameter = self.program.parameters[position]
        known = {m.name: m for m in parameter.members}
        for path, value in flat(structure):
            if isinstance(path, int):
                known_member = next((m for m in parameter.members if m.offset == path), None)
                member = known_member or Member("", path, min(parameter.size - path, POINTER_BYTES))
                shown = f"{parameter.name} (byte {path})"
                if not 0 <= path < parameter.size:
                    raise self._argument_error(
                        parameter.name, f"has {parameter.size} bytes, none at {path}"
                    )
            elif path in known:
                member, shown = known[path], f"{parameter.name}.{path}"
            else:
                raise self._no_member(parameter, path)
            self._store(Argument(position, member.offset), member, shown, value)

    def _no_member(self, parameter: Parameter, path: str) -> LaunchError:
        if not parameter.members:
            return self._argument_error(
                parameter.name,
                f"nobody knows where its member {path!r} lies; give a structure as bytes or as "
                "numbers by byte offset",
            )
        names = [m.name for m in parameter.members]
        near = close_matches(path, names) or f"; it has: {', '.join(names)}"
        return self._argument_error(parameter.name, f"has no member {path!r}{near}")

    # Pointers

    def field(self, pointer: Argument) -> str:
        """Return the name of the memory behind a pointer."""
        return self.program.parameters[pointer.position].at(pointer.offset)

    def _may_point(self, position: int) -> bool:
        parameter = self.program.parameters[position]
        unsaid = parameter.dtype is None and parameter.size == POINTER_BYTES
        return parameter.pointer or unsaid or parameter.name in self._fields

    def _pointers(self) -> Iterator[tuple[Argument, str]]:
        """Arguments that are pointers, as declared, used or given; with their fields."""
        fields = self._fields | self.buffers.keys()
        for position, parameter in enumerate(self.program.parameters):
            if parameter.pointer or (parameter.size == POINTER_BYTES and parameter.name in fields):
                yield Argument(position), parameter.name
                continue
            known = {m.offset for m in parameter.members if m.pointer}
            used = {
                at
                for at in range(0, parameter.size, REGISTER_BYTES)
                if parameter.size > POINTER_BYTES and parameter.at(at) in fields
            }
            for at in sorted(known | used):
                yield Argument(position, at), parameter.at(at)

    def _address(self, pointer: Argument, field: str) -> int:
        """Return an address that is not null and, unless an alias, far from all others."""
        root, offset = self.place(field)
        owner = next((v for v, f in self._pointers() if f == root), pointer)
        slot = owner.position * _PLACES + owner.offset // POINTER_BYTES % _PLACES
        return (slot + 1) * _APART + offset

    def sizes(self) -> dict[str, int]:
        """Bytes of the buffers whose shape was given, by field."""
        return {
            field: buffer.bytes for field, buffer in self.buffers.items() if buffer.alias is None
        }

    def place(self, field: str) -> tuple[str, int]:
        """The field whose memory this one lies in, and how many bytes behind its aligned start."""
        offset, seen = 0, [field]
        while (buffer := self.buffers.get(field)) is not None:
            offset += buffer.offset
            if buffer.alias is None:
                break
            field = self._alias_target(field, buffer.alias)
            if field in seen:
                raise self._argument_error(
                    field, f"is an alias of itself: {' → '.join([*seen, field])}"
                )
            seen.append(field)
        return field, offset

    def _alias_target(self, field: str, alias: str) -> str:
        known = [f for _, f in self._pointers()]
        if alias not in known:
            near = close_matches(alias, known) or f"; pointers: {', '.join(known)}"
            raise self._argument_error(
                field, f"is an alias of {alias!r}, which is no pointer{near}"
            )
        return alias

    def place_access(self, access: BoundAccess) -> BoundAccess:
        """The access in the memory that its pointer points to."""
        field, offset = self.place(access.field)
        if not offset and field == access.field:
            return access
        return replace(access, field=field, address=add(access.address, Affine(offset)))

    # What is wrong

    def _argument_error(self, shown: str, why: str) -> LaunchError:
        return LaunchError(f"argument {shown!r} of kernel {self.kernel!r}: {why}")

    def missing(self, needed: Argument, what: str) -> LaunchError:
        """Return the error for a parameter that is needed and not given."""
        parameter, inside = self.program.parameters[needed.position], needed.offset
        shown, how, path = parameter.name, "", parameter.name
        if any(m.offset == inside for m in parameter.members):
            shown = parameter.at(inside)
            how = f", as {{{parameter.name!r}: {{{shown.partition('.')[2]!r}: …}}}}"
            path = shown
        elif inside:
            shown += f" (byte {inside})"
            how = f", as bytes or as {{{inside}: …}}"
            path = f"{parameter.name}.{inside}"
        others = [self.field(a) for a in self._not_given() if a != needed]
        beside = f"; not given either, for other places: {', '.join(others)}" if others else ""
        return MissingArgument(
            f"kernel {self.kernel!r} needs its argument {shown!r} for {what}",
            f"give it in Launch.args{how}", path, beside,
        )  # fmt: skip

    def _not_given(self) -> list[Argument]:
        """Parameters and members that any address, guard or trip count is made of, in order."""
        program, s = self.program, self.program.symbols
        values = [b.condition for b in program.blocks.values()]
        values += [v for loop in program.loops for v in (loop.entry, loop.trips) if v is not None]
        for i in program.instructions:
            values += [a.address for a in i.accesses] + ([i.guard] if i.guard is not None else [])
        names = {s.atoms[a].name for v in values for a in s.free_atoms(v)}
        absent = {n for n in names if isinstance(n, Argument)} - self.numbers.keys()
        return sorted(absent)


def content(parameter: Parameter, value: Any) -> bytes | None:
    """A number, a null pointer or a structure as it lies in memory; ``None`` where bytes of it are
    unknown. The value is one that the parameter takes."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).ljust(parameter.size, b"\0")
    if isinstance(value, TensorMap):
        return None
    if not isinstance(value, Mapping):
        number = encode(value, parameter.dtype, parameter.size, parameter.pointer)
        return pack(number, parameter.size)
    known = {m.name: m for m in parameter.members} | {m.offset: m for m in parameter.members}
    data = bytearray(parameter.size)
    missing = {m.offset for m in parameter.members}
    for path, element in flat(value):
        member = known.get(path)
        if member is None or isinstance(element, (Buffer, TensorMap)):
            return None
        number = encode(element, member.dtype, member.size, member.pointer)
        data[member.offset : member.offset + member.size] = pack(number, member.size)
        missing.discard(member.offset)
    return None if missing else bytes(data)


def check_strides(kernel: CompiledKernel, launch: Launch, program: Program) -> None:
    """Raises :class:`UnreadOverride` for a stride that differs from its array's and that the code
    does not read, as where the array is declared to have no gaps.

    ``launch``: with the arguments as the caller gives them.
    """
    args = launch.args
    if not isinstance(args, Mapping):
        return
    atoms = program.symbols.atoms
    read = {atom.name.position for atom in atoms if isinstance(atom.name, Argument)}
    names = [p.name for p in program.parameters]
    for name in (n for n in args if ".strides[" in n and names.index(n) not in read):
        others = {key: value for key, value in args.items() if key != name}
        usual = kernel.spell_out(replace(launch, args=others)).args
        if isinstance(usual, Mapping) and usual.get(name, args[name]) != args[name]:
            raise UnreadOverride(
                f"kernel {kernel.name!r} does not read {name!r}; leave it out, or declare an array "
                "whose strides are its own"
            )
