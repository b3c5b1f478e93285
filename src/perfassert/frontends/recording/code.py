"""Code that a program contains: the answers to the runtime's questions about its kernels."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.frontends.toolchain import containers, modules, signature
from perfassert.frontends.toolchain.architecture import Architecture, architecture
from perfassert.frontends.toolchain.binary import Parameter
from perfassert.frontends.toolchain.elf import Cubin
from perfassert.frontends.toolchain.names import demangle, parameter_types
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy
from perfassert.system.confined import may_be_shown, read_text
from perfassert.system.temporary import temporary_folder

_PATH = re.compile(rb"[\x20-\x7e]+")
_CONST = re.compile(r"\bconst\s*[*&]")
_FOUND, _UNKNOWN = 0, 98  # cudaSuccess, cudaErrorInvalidDeviceFunction


@dataclass(frozen=True, slots=True)
class KernelCode:
    """Resources and parameters of a kernel, read from its machine code.

    ``read_only`` has the positions of pointer parameters through which the kernel does not write.
    """

    mangled: str
    parameters: tuple[Parameter, ...]
    read_only: frozenset[int]
    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    arch: Architecture
    threads: int

    def facts(self) -> bytes:
        """Return the answer to a ``FUNCTION`` message."""
        version = self.arch.number
        numbers = (
            _FOUND, self.registers, self.shared_bytes, self.local_bytes, self.constant_bytes,
            self.threads, version, version,
        )  # fmt: skip
        places = (struct.pack("<II", p.offset, p.size) for p in self.parameters)
        return struct.pack("<8i", *numbers) + b"".join(places)


UNKNOWN_FUNCTION = struct.pack("<8i", _UNKNOWN, *(0,) * 7)


class Module:
    """A fat binary, cubin or PTX text as the program registered or loaded it.

    ``sources`` has texts that may declare the kernels' parameters, in addition to the files that
    line tables name.
    """

    def __init__(self, content: bytes, device: Device, sources: Iterable[str] = ()) -> None:
        self.content = content
        self.digest = hashlib.sha256(content).hexdigest()
        self._device = device
        self._sources = tuple(sources)
        self._held: dict[str, KernelCode] = {}
        self._images: dict[str, Cubin] = {}

    @property
    def suffix(self) -> str:
        """Suffix of a file with this content: ``.cubin``, ``.fatbin`` or ``.ptx``."""
        if self.content.startswith(b"\x7fELF"):
            return ".cubin"
        return ".fatbin" if containers.begins_as_code(self.content) else ".ptx"

    def kernel(self, mangled: str) -> KernelCode:
        """Return the code of a kernel, which is read once.

        Raises :class:`PerfAssertError` if the module lacks the kernel, or has no code for this
        device.
        """
        if mangled not in self._held:
            self._held[mangled] = self._read(mangled)
        return self._held[mangled]

    def resident_blocks(self, mangled: str, threads: int, shared_bytes: int) -> int:
        """Return the resident blocks per SM; 0 if not even one block fits."""
        code = self.kernel(mangled)
        used = code.shared_bytes + shared_bytes
        try:
            return occupancy(self._device, threads, code.registers, used).resident_blocks
        except PerfAssertError:
            return 0

    def constants(self) -> frozenset[str]:
        """Return the ``__constant__`` symbols that a program can set."""
        symbols = (
            s for c in self._images.values() for s in (*c.unset_symbols(), *c.valued_symbols())
        )
        return frozenset(name for name, *_ in symbols)

    def variable(self, name: str) -> bytes:
        """Return the initial content of a variable; ``b""`` stands for zeros."""
        for cubin in self._images.values():
            for symbol in cubin.symbols:
                if symbol.name == name and 0 < symbol.section < len(cubin.sections):
                    data = cubin.sections[symbol.section].data
                    return data[symbol.offset : symbol.offset + symbol.size]
        return b""

    def _read(self, mangled: str) -> KernelCode:
        cubin = self._image(mangled)
        layout = cubin.parameters(mangled)
        texts = (*self._sources, *_sources(cubin))
        parameters = signature.parameters(mangled, layout, texts, None)
        types = parameter_types(demangle(mangled))
        read_only = {i for i, kind in enumerate(types) if _CONST.search(kind)}
        return KernelCode(
            mangled, parameters, frozenset(read_only if len(types) == len(parameters) else ()),
            cubin.registers(mangled), cubin.shared_bytes(mangled), cubin.local_bytes(mangled),
            sum(map(len, cubin.constants(mangled).values())), architecture(cubin.arch),
            self._device.max_threads_per_block,
        )  # fmt: skip

    def _image(self, mangled: str) -> Cubin:
        """Return the machine code that a driver would load; PTX is assembled first."""
        for cubin in self._images.values():
            if mangled in cubin.kernels():
                return cubin
        with temporary_folder() as folder:
            path = folder / f"module{self.suffix}"
            path.write_bytes(self.content)
            cubin = self._choose_cubin(path, mangled)
        if mangled not in cubin.kernels():
            raise KernelSourceError(f"the program's code has no kernel {mangled!r}")
        self._images[mangled] = cubin
        return cubin

    def _choose_cubin(self, path: Path, mangled: str) -> Cubin:
        where, device = "the program's code", self._device.arch
        if self.suffix == ".ptx":
            text = containers.ContainerMember("", architecture(device), True, path)
            return _assemble(text, where, device)
        with containers.open_members(path, self.content) as members:
            try:
                choice = containers.choose_code(members, mangled, architecture(device), where)
                member = choice.members[0]
            except PerfAssertError:
                having = [m for m in members if not m.ptx and mangled in m.kernels(where)]
                if not having:
                    raise
                member = having[-1]  # code for another device has the same parameters
            return _assemble(member, where, device) if member.ptx else member.cubin(where)


def _assemble(member: containers.ContainerMember, where: str, arch: str) -> Cubin:
    return Cubin(modules.module(modules.assembly(member, where, arch)).cubin, where)


def _sources(cubin: Cubin) -> list[str]:
    """Return the texts of those source files in the line table that still exist."""
    table = cubin.section(".debug_line")
    words = [w.decode() for w in _PATH.findall(table.data)] if table else []
    folders = [Path(w) for w in words if w.startswith("/")]
    names = [w for w in words if w.endswith((".cu", ".cuh", ".h", ".hpp", ".cpp", ".inl"))]
    places = dict.fromkeys(path for n in names for path in (Path(n), *(f / n for f in folders)))
    shown = (p for p in places if p.is_absolute() and p.is_file() and may_be_shown(p))
    return [read_text(path, errors="replace") for path in shown]
