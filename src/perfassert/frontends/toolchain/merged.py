"""One cubin of several modules, so that one run of nvdisasm reads the code of all.

nvdisasm first reads a description of the instruction set, which takes 0.16 to 0.28 s whatever it
disassembles; 23 small modules for sm_90 take 9.0 s one after the other and 0.64 s as one. The
merged file has what a listing is made of: the modules' code, symbols and line tables. It cannot be
loaded or executed.

Functions of two modules may have the same name, so each name begins with the number of its module.
Tables that every module has once follow one another in one section; what refers to a place in them
is moved by the bytes before it::

    module 0: .text.k  .debug_line (100 B)     merged: .text.perfassert.0.k   .debug_line (180 B)
    module 1: .text.k  .debug_line (80 B)              .text.perfassert.1.k   its second table: 100

Source: *System V ABI*, chapter 4 (ELF64); the two flags of ``.text`` sections are CUDA's.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from .elf import (
    HEADER_BYTES,
    SECTION_HEAD,
    SYMBOL,
    Section,
    read_relocations,
    read_sections,
    read_string,
)

_SYMTAB, _STRTAB, _RELA, _REL = 2, 3, 4, 9  # sh_type
_ABSOLUTE, _RESERVED = 0xFFF1, 0xFF00  # st_shndx: no section; the first that stands for none
_SYMBOL_MASK = 0xFFFFFF  # sh_info of a .text section: its symbol; the rest is registers
_CODE = ".text."
_TABLES = (".debug_line", ".nv_debug_line_sass", ".debug_str")
_TYPES = ".debug_info"
_MARK = "perfassert."
_OF_MODULE = re.compile(r"perfassert\.(\d+)\.")


def prefix(number: int) -> str:
    """Return how the names of functions of a merged module begin."""
    return f"{_MARK}{number}."


def module_of(name: str) -> tuple[int, str] | None:
    """Return the module of a merged function and the function's name there.

    Example:
        >>> module_of("perfassert.2.k")
        (2, 'k')
    """
    marked = _OF_MODULE.match(name)
    return (int(marked[1]), name[marked.end() :]) if marked else None


def may_be_merged(content: bytes) -> bool:
    """Return True for a module without types in its debug information, and without such names.

    PTX that the module has beside its code may have such types.
    """
    if _MARK.encode() in content:
        return False
    if _TYPES.encode() not in content:
        return True
    with suppress(ValueError, struct.error, IndexError):
        return not any(section.name == _TYPES for section in read_sections(content))
    return False


def kind_of(content: bytes) -> bytes:
    """Return what modules that are merged have in common: file format and architecture."""
    return content[:24] + content[48:51]  # the last byte of the flags says what the code uses


def merge(modules: Sequence[bytes]) -> bytes:
    """Return a file with the code of modules of one kind.

    Args:
        modules: cubins, for which :func:`may_be_merged` is True.

    Raises:
        ValueError, struct.error, IndexError: a module is damaged.
    """
    merger = _Merger([read_sections(content) for content in modules])
    return _write(modules[0][:HEADER_BYTES], merger.sections())


class _Merger:
    def __init__(self, modules: Sequence[Sequence[Section]]) -> None:
        self.modules = modules
        self.merged = [_new_section("", 0)]
        self.places: dict[tuple[int, int], tuple[int, int]] = {}
        """Module and section → merged section, and where in it the module's part begins."""
        self.symbols: dict[tuple[int, int], int] = {}
        """Module and symbol → merged symbol."""
        self.referred: set[tuple[int, int]] = set()
        """Module and symbol, of the symbols that relocations refer to."""
        self.names = bytearray(1)

    def sections(self) -> list[Section]:
        """Return the merged sections; the tables of symbols and their names are the last ones."""
        for number, sections in enumerate(self.modules):
            self.place(number, sections)
        table, local = self.symbol_table()
        moved = list(self.relocations())
        at = len(self.merged) + len(moved)
        for (number, index), (place, _) in self.places.items():
            section = self.modules[number][index]
            if section.name.startswith(_CODE):
                own = self.symbols.get((number, section.info & _SYMBOL_MASK), 0)
                info = section.info & ~_SYMBOL_MASK | own
                self.merged[place] = replace(self.merged[place], info=info, link=at)
        moved = [replace(section, link=at) for section in moved]
        symbols = replace(
            _new_section(".symtab", _SYMTAB, table),
            info=local, link=at + 1, align=8, entry_bytes=SYMBOL.size,
        )  # fmt: skip
        return [*self.merged, *moved, symbols, _new_section(".strtab", _STRTAB, bytes(self.names))]

    def place(self, number: int, sections: Sequence[Section]) -> None:
        """Add the code and the tables of a module."""
        tables = {section.name: index for index, section in enumerate(self.merged)}
        for index, section in enumerate(sections):
            if section.name.startswith(_CODE):
                self.places[number, index] = len(self.merged), 0
                self.merged.append(replace(section, name=self.new_name(number, section.name)))
            elif section.name in tables:
                at = tables[section.name]
                before = self.merged[at].data
                self.places[number, index] = at, len(before)
                self.merged[at] = replace(section, data=before + section.data)
            elif section.name in _TABLES:
                self.places[number, index] = len(self.merged), 0
                self.merged.append(section)
        self.referred |= {
            (number, symbol)
            for section in self.moving(number)
            for _, symbol, _, _ in read_relocations(section.data, section.entry_bytes)
        }

    def moving(self, number: int) -> Iterator[Section]:
        """Yield the relocations of a module that belong to a merged section."""
        for section in self.modules[number]:
            if section.kind in (_RELA, _REL) and (number, section.info) in self.places:
                yield section

    def symbol_table(self) -> tuple[bytes, int]:
        """Return the merged symbols, local ones first as ELF demands, and how many are local."""
        table, local = bytearray(SYMBOL.size), 0
        for is_local in (True, False):
            for number, sections in enumerate(self.modules):
                for index, symbol in self.moved_symbols(number, sections, is_local):
                    self.symbols[number, index] = len(table) // SYMBOL.size
                    table += symbol
            local = local or len(table) // SYMBOL.size
        return bytes(table), local

    def moved_symbols(
        self, number: int, sections: Sequence[Section], is_local: bool
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the symbols of a module with their numbers in it."""
        (symbols,) = (s for s in sections if s.kind == _SYMTAB)
        names = sections[symbols.link].data
        for index, (name_at, info, other, section, value, size) in enumerate(
            SYMBOL.iter_unpack(symbols.data)
        ):
            kept = (number, section) in self.places or (number, index) in self.referred
            if not index or not kept or (info >> 4 == 0) is not is_local:
                continue
            name = read_string(names, name_at)
            if (number, section) in self.places:
                is_code = sections[section].name.startswith(_CODE)
                section, before = self.places[number, section]
                value += before
                name = self.new_name(number, name) if is_code else name
            elif 0 < section < _RESERVED:
                section = _ABSOLUTE
            yield index, SYMBOL.pack(self.add_name(name), info, other, section, value, size)

    def new_name(self, number: int, name: str) -> str:
        if name.startswith(_CODE):
            return _CODE + prefix(number) + name.removeprefix(_CODE)
        return prefix(number) + name if name else name

    def add_name(self, name: str) -> int:
        at = len(self.names)
        self.names += name.encode() + b"\0"
        return at

    def relocations(self) -> Iterator[Section]:
        """Yield the relocations of the merged sections, one section of each kind for each."""
        by_target: dict[tuple[int, int], Section] = {}
        for number in range(len(self.modules)):
            for section in self.moving(number):
                target, before = self.places[number, section.info]
                data = bytearray()
                for place, symbol, how, addend in read_relocations(
                    section.data, section.entry_bytes
                ):
                    moved = place + before, self.symbols.get((number, symbol), 0) << 32 | how
                    data += struct.pack("<QQ", *moved) + addend
                kind = ".rela" if section.kind == _RELA else ".rel"
                new = replace(section, name=kind + self.merged[target].name, info=target, data=b"")
                known = by_target.get((target, section.kind), new)
                by_target[target, section.kind] = replace(known, data=known.data + data)
        yield from by_target.values()


def _new_section(name: str, kind: int, data: bytes = b"") -> Section:
    return Section(name, kind, flags=0, info=0, size=len(data), data=data)


def _write(header: bytes, sections: Sequence[Section]) -> bytes:
    """Return an ELF file with the head of another one, without segments."""
    names, heads, body = bytearray(), [], bytearray(header)
    places = []
    for name in (*(section.name for section in sections), ".shstrtab"):
        places.append(len(names))
        names += name.encode() + b"\0"
    whole = [*sections, _new_section(".shstrtab", _STRTAB, bytes(names))]
    for section, at in zip(whole, places, strict=True):
        body += bytes(-len(body) % max(1, section.align))
        heads.append(
            SECTION_HEAD.pack(
                at, section.kind, section.flags, 0, len(body), len(section.data),
                section.link, section.info, section.align, section.entry_bytes,
            )
        )  # fmt: skip
        body += section.data
    body += bytes(-len(body) % 8)
    struct.pack_into("<QQ", body, 32, 0, len(body))
    struct.pack_into("<HHHH", body, 56, 0, SECTION_HEAD.size, len(heads), len(heads) - 1)
    return bytes(body) + b"".join(heads)
