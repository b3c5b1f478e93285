"""Sections, symbols and per-kernel facts of a cubin.

The layout is ELF64. The attributes of ``.nv.info`` are undocumented; their numbers are those that
``cuobjdump -elf`` prints as ``EIATTR_…``. Every malformed file raises :class:`KernelSourceError`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeVar

from perfassert.errors import KernelSourceError
from perfassert.shipped import model_integer

_EM_CUDA = 190  # e_machine
T = TypeVar("T")
_CUDA_SYSTEMS = (51, 65)  # ELFOSABI_CUDA, and its value since CUDA 13
HEADER_BYTES = 64
SECTION_HEAD, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_RELOCATIONS = {"rel": 16, "rela": 24}  # kind → bytes of an entry
_NOBITS = 8
_FUNCTION = 2  # STT_FUNC
_ENTRY = 0x10  # STO_CUDA_ENTRY in st_other
_RESERVED_SHARED = model_integer(
    "reserved_shared_bytes"
)  # before .nv.shared.<kernel>, sm_90 and later
_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT = 0x11, 0x12, 0x2F
_NUM_BARRIERS = 0x4C  # EIATTR of the kernel's barriers
_MAX_THREADS, _REQUIRED_THREADS, _MAX_REGISTERS = 0x05, 0x10, 0x1B
_CLUSTER = 0x3D  # blocks in x, y, z
_NO_LIMIT = 0xFF  # value if no option limits the registers
_BARRIER_FLAGS = 20  # first of the 7 bits of the barrier count in the flags of a .text section
_COMPILER_RELEASE, _ANNOTATIONS = 0x37, 0x55  # 126: CUDA 12.6
_FIRST_WITH_SPILLS = 126  # release whose compiler records where it spills registers
_SPILL = 1  # kind of an annotation
_OWN_TARGET = 0x09  # in .nv.compat: code for one compute capability alone
_PARAM_CBANK, _KPARAM_INFO, _KPARAM_INFO_V2 = 0x0A, 0x17, 0x45


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    kind: int
    flags: int
    info: int
    size: int
    data: bytes
    link: int = 0
    align: int = 1
    entry_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    index: int
    name: str
    function: bool
    entry: bool
    section: int
    offset: int
    size: int


class Cubin:
    """A parsed cubin; ``where`` names it in errors."""

    def __init__(self, content: bytes, where: str) -> None:
        self.where = where
        try:
            number = _architecture(content)
            self.sections = read_sections(content)
            self.symbols = _symbol_table(self.sections, content)
        except (struct.error, IndexError, OverflowError):
            raise self.error("it is truncated or damaged") from None
        except ValueError as error:
            raise self.error(str(error)) from None
        self._by_name = {section.name: section for section in self.sections}
        self.arch = f"sm_{number}{self._features()}"

    def _features(self) -> str:
        """Return the suffix ``"a"``, ``"f"`` or ``""``; ``"f"`` is only in the assembler's note."""
        note = self.section(".note.nv.tkinfo")
        match = re.search(rb"-arch[= ]sm_\d+([af])\b", note.data) if note else None
        if match:
            return match[1].decode()
        compat = self._attributes(".nv.compat")
        return "a" if any(a == _OWN_TARGET and value[:1] == b"\1" for a, value in compat) else ""

    def error(self, why: str) -> KernelSourceError:
        return KernelSourceError(f"{self.where} is no readable cubin: {why}")

    def section(self, name: str) -> Section | None:
        return self._by_name.get(name)

    def kernels(self) -> list[str]:
        """Return the mangled names of the kernels, in the order of the symbol table."""
        return [s.name for s in self.symbols if s.entry and self.section(f".text.{s.name}")]

    def code_bytes(self) -> int:
        """Return the code bytes of all functions."""
        return sum(s.size for s in self.sections if s.name.startswith(".text."))

    def code_symbols(self, kernel: str) -> list[int]:
        """Return the symbol indices of the kernel and of functions outside other kernels' code."""
        others = {s.section for s in self.symbols if s.entry and s.name != kernel} | {0}
        return [s.index for s in self.symbols if s.function and s.section not in others]

    @cached_property
    def functions(self) -> Mapping[int, str]:
        """Symbol index → name of functions with code here; ``printf`` is in the driver."""
        return {s.index: s.name for s in self.symbols if s.function and s.section}

    def function(self, name: str) -> int:
        """Return the symbol index of a function."""
        return self._function_indices[name]

    def linked_functions(self, kernel: str) -> list[str]:
        """Return the kernel and the functions with sections of their own whose addresses the loader
        or the linker writes into its code or theirs, in the order of the places."""
        linked = [kernel]
        for name in linked:  # the list grows during the loop
            for kind, size in _RELOCATIONS.items():
                fixes = self.section(f".{kind}.text.{name}")
                for _, symbol, _, _ in sorted(read_relocations(fixes.data, size) if fixes else ()):
                    function = self.functions.get(symbol)
                    if function and function not in linked and self.section(f".text.{function}"):
                        linked.append(function)
        return linked

    @cached_property
    def _function_indices(self) -> Mapping[str, int]:
        return {name: index for index, name in self.functions.items()}

    def ptx(self) -> dict[str, str]:
        """Return section → PTX text (``-lineinfo``), which has one line per NUL and no comments."""
        return {
            s.name: s.data.replace(b"\0", b"\n").decode(errors="replace").rstrip("\n") + "\n"
            for s in self.sections
            if s.name.startswith(".nv_debug_ptx_txt")
        }

    def constants(self, kernel: str) -> dict[int, bytes]:
        """Return the initialised constant banks except 0, which has the launch and the parameters.

        A bank that the loader patches (it has relocations) is left out.
        """
        banks = {}
        for section in self.sections:
            number, _, owner = section.name.removeprefix(".nv.constant").partition(".")
            if not section.name.startswith(".nv.constant") or number not in tuple("123456789"):
                continue
            fixes = (self.section(f".{rel}{section.name}") for rel in ("rel", "rela"))
            patched = any(fix.size for fix in fixes if fix)  # empty for tables of jump targets
            if owner in ("", kernel) and not patched:
                banks[int(number)] = section.data
        return banks

    def variables(self, kernel: str) -> list[tuple[str, int, int, int]]:
        """Return the variables in global memory: name, bank, offset of the address in it, size.

        The size is in bytes, and 0 for a function of the driver. The loader writes the addresses.
        """
        symbols = {}
        for name in (".nv.constant4", f".nv.constant4.{kernel}"):
            for kind, size in _RELOCATIONS.items():
                fixes = self.section(f".{kind}{name}")
                data = b"" if fixes is None else fixes.data
                for offset, symbol, _, _ in read_relocations(data, size):
                    if symbol < len(self.symbols):
                        symbols[offset & ~7] = self.symbols[symbol]
        return [
            (s.name, 4, offset, s.size)
            for offset, s in symbols.items()
            if bool(s.size) != s.function
        ]

    def unset_symbols(self) -> list[tuple[str, int, int, int]]:
        """Return the constant symbols with zero bytes only: name, bank, offset, size in bytes.

        A file stores uninitialised symbols as zeros; the program sets them before the launch.
        """
        return self._constant_symbols(valued=False)

    def valued_symbols(self) -> list[tuple[str, int, int, int]]:
        """Return the constant symbols with a value, which the program may overwrite."""
        return self._constant_symbols(valued=True)

    def _constant_symbols(self, valued: bool) -> list[tuple[str, int, int, int]]:
        symbols = []
        for symbol in self.symbols:
            if not 0 < symbol.section < len(self.sections) or symbol.function or not symbol.size:
                continue
            section = self.sections[symbol.section]
            number = section.name.removeprefix(".nv.constant")
            data = section.data[symbol.offset : symbol.offset + symbol.size]
            if section.name.startswith(".nv.constant") and number == "3" and any(data) == valued:
                symbols.append((symbol.name, 3, symbol.offset, symbol.size))
        return symbols

    def registers(self, kernel: str) -> int:
        """Return registers per thread, from the attribute or else from the section header."""
        count = self._function_attribute(kernel, _REGCOUNT)
        text = self.section(f".text.{kernel}")
        return count if count is not None else (text.info >> 24 if text else 0)

    def local_bytes(self, kernel: str) -> int:
        """Return the bytes of a thread's stack frame, callees included."""
        sizes = (self._function_attribute(kernel, a) for a in (_FRAME_SIZE, _MIN_STACK_SIZE))
        return max(size or 0 for size in sizes)

    def shared_bytes(self, kernel: str) -> int:
        """Return the bytes of static shared memory per block, as declared."""
        own = self.section(f".nv.shared.{kernel}")
        reserved = _RESERVED_SHARED if self.section(".nv.shared.reserved.0") else 0
        return max(own.size - reserved, 0) if own else 0

    def barriers(self, kernel: str) -> int:
        """Return the barriers that a block uses; 0 if the file does not state them.

        They are an attribute of the kernel, and before CUDA 13 flags of its section.
        """
        for attribute, value in self._attributes(f".nv.info.{kernel}"):
            if attribute == _NUM_BARRIERS and value:
                return value[0]
        text = self.section(f".text.{kernel}")
        return text.flags >> _BARRIER_FLAGS & 0x7F if text else 0

    def max_threads(self, kernel: str) -> int:
        """Return the most threads of a block by the launch bounds; 0 without launch bounds."""
        limit = self._first(kernel, (_REQUIRED_THREADS, _MAX_THREADS), lambda v: prod(_extent(v)))
        return limit or 0

    def required_block(self, kernel: str) -> tuple[int, ...]:
        """Return the only block size allowed; ``()`` if other sizes are allowed."""
        return self._first(kernel, (_REQUIRED_THREADS,), _extent) or ()

    def cluster(self, kernel: str) -> tuple[int, ...]:
        """Return the extent of a cluster in blocks if the code fixes it, else ``()``."""
        return self._first(kernel, (_CLUSTER,), _extent) or ()

    def register_limit(self, kernel: str) -> int:
        """Return the most registers of a thread that a compiler option allows; 0 without one."""
        limit = self._first(kernel, (_MAX_REGISTERS,), lambda v: int.from_bytes(v[:2], "little"))
        return 0 if limit in (None, _NO_LIMIT) else limit

    def spills(self, kernel: str) -> frozenset[int] | None:
        """Return the offsets in a kernel's code of the instructions that spill or refill registers.

        None for compilers before CUDA 12.6, which do not record them.
        """
        release = self._first(kernel, (_COMPILER_RELEASE,), lambda v: int.from_bytes(v, "little"))
        if (release or 0) < _FIRST_WITH_SPILLS:
            return None
        notes = [v for a, v in self._attributes(f".nv.info.{kernel}") if a == _ANNOTATIONS]
        pairs = (pair for v in notes for pair in struct.iter_unpack("<II", v[: len(v) // 8 * 8]))
        return frozenset(offset for kind, offset in pairs if kind == _SPILL)

    def _first(self, kernel: str, wanted: tuple[int, ...], read: Callable[[bytes], T]) -> T | None:
        for attribute, value in self._attributes(f".nv.info.{kernel}"):
            if attribute in wanted and value:
                return read(value)
        return None

    def code(self, function: str) -> bytes:
        """Return the machine code of a kernel or function."""
        text = self.section(f".text.{function}")
        return text.data if text else b""

    def parameter_base(self, kernel: str) -> int | None:
        """Return the offset of the parameters in bank 0; ``None`` if the file does not state it."""
        for attribute, value in self._attributes(f".nv.info.{kernel}"):
            if attribute == _PARAM_CBANK and len(value) >= 8:
                return int(struct.unpack_from("<H", value, 4)[0])
        return None

    def parameters(self, kernel: str) -> list[tuple[int, int]]:
        """Return offset and size in bytes of each parameter, by position."""
        places = {}
        for attribute, value in self._attributes(f".nv.info.{kernel}"):
            if attribute in (_KPARAM_INFO, _KPARAM_INFO_V2) and len(value) >= 12:
                ordinal, offset, size = struct.unpack_from("<HHI", value, 4)
                old = attribute == _KPARAM_INFO
                places[ordinal] = (offset, size >> 18 if old else size & 0xFFFF)
        return [places[ordinal] for ordinal in sorted(places)]

    def _function_attribute(self, kernel: str, wanted: int) -> int | None:
        return self._function_attributes.get((kernel, wanted))

    @cached_property
    def _function_attributes(self) -> Mapping[tuple[str, int], int]:
        """Return (function, attribute) → value; the first entry counts."""
        functions = self.functions
        values: dict[tuple[str, int], int] = {}
        for attribute, value in self._attributes(".nv.info"):
            if len(value) >= 8:
                index, size = struct.unpack_from("<II", value)
                if index in functions:
                    values.setdefault((functions[index], attribute), int(size))
        return values

    def _attributes(self, section: str) -> Iterator[tuple[int, bytes]]:
        """Yield attribute number and payload; format 4 has a length, others a two-byte value."""
        information = self.section(section)
        data = information.data if information else b""
        at = 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form == 4:
                yield attribute, data[at : at + size]
                at += size
            else:
                yield attribute, data[at - 2 : at]


def _extent(value: bytes) -> tuple[int, ...]:
    return struct.unpack_from("<3I", value.ljust(12, b"\0"))


def is_host_elf(content: bytes) -> bool:
    """Return True for an undamaged ELF file of a host, which may hold cubins."""
    return (
        len(content) >= HEADER_BYTES
        and content[:6] == b"\x7fELF\2\1"
        and content[7] not in _CUDA_SYSTEMS
        and content[18:20] != _EM_CUDA.to_bytes(2, "little")
    )


def _architecture(content: bytes) -> int:
    """Return the architecture; ABI version 8 (CUDA 13) stores it one byte higher in ``e_flags``."""
    if content[:4] != b"\x7fELF":
        raise ValueError("it does not start as an ELF file does; sources end in .cu or .ptx")
    if content[4] != 2 or content[5] != 1:
        raise ValueError("it is no little-endian 64-bit ELF file")
    machine = struct.unpack_from("<H", content, 18)[0]
    if machine != _EM_CUDA:
        raise ValueError(f"it is an ELF file for machine {machine}, not for CUDA ({_EM_CUDA})")
    flags = struct.unpack_from("<I", content, 48)[0]
    number = int(flags >> 8 if content[8] >= 8 else flags) & 0xFF
    if number < 10:
        raise ValueError(f"it is for architecture {number}, which does not exist")
    return number


def read_sections(content: bytes) -> tuple[Section, ...]:
    """Return the sections of an ELF file.

    Raises ``ValueError``, :class:`struct.error` or ``IndexError`` for a damaged file.
    """
    segments, start = struct.unpack_from("<QQ", content, 32)
    segment_size, segment_count, size, count, names_at = struct.unpack_from("<5H", content, 54)
    if size != SECTION_HEAD.size or not count:
        raise ValueError("it has no section table")
    if segments + segment_size * segment_count > len(content):
        raise ValueError("it is truncated or damaged")
    heads = [SECTION_HEAD.unpack_from(content, start + size * i) for i in range(count)]
    bodies = [_body(content, kind, offset, length) for _, kind, _, _, offset, length, *_ in heads]
    return tuple(
        Section(
            read_string(bodies[names_at], name), kind, flags, info, size, body, link, align, entry
        )
        for (name, kind, flags, _, _, size, link, info, align, entry), body in zip(
            heads, bodies, strict=True
        )
    )


def _body(content: bytes, kind: int, offset: int, length: int) -> bytes:
    if kind in (0, _NOBITS):
        return b""
    if offset + length > len(content):
        raise ValueError("it is truncated or damaged")
    return content[offset : offset + length]


def _symbol_table(sections: tuple[Section, ...], content: bytes) -> tuple[Symbol, ...]:
    table = next((s for s in sections if s.name == ".symtab"), None)
    names = next((s for s in sections if s.name == ".strtab"), None)
    if table is None or names is None:
        raise ValueError("it has no symbol table")
    whole = len(table.data) // SYMBOL.size * SYMBOL.size
    return tuple(
        Symbol(
            index,
            read_string(names.data, name),
            info & 15 == _FUNCTION,
            info & 15 == _FUNCTION and bool(other & _ENTRY),
            section,
            offset,
            size,
        )
        for index, (name, info, other, section, offset, size) in enumerate(
            SYMBOL.iter_unpack(table.data[:whole])
        )
    )


def read_relocations(data: bytes, size: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield place, symbol, type and addend of relocations of ``size`` bytes each."""
    for at in range(0, len(data) - size + 1, size):
        place, how = struct.unpack_from("<QQ", data, at)
        yield place, how >> 32, how & 0xFFFFFFFF, data[at + 16 : at + size]


def read_string(table: bytes, offset: int) -> str:
    """Return the text of a table of strings that begins at an offset."""
    end = table.find(b"\0", offset)
    return table[offset : end if end >= 0 else None].decode(errors="replace")
