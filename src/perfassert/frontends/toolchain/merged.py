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

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

_HEADER_BYTES = 64  # of the file
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _STRTAB, _RELA, _REL = 2, 3, 4, 9  # sh_type
_RELOCATION_BYTES = {_RELA: 24, _REL: 16}
_ABSOLUTE, _RESERVED = 0xFFF1, 0xFF00  # st_shndx: no section; the first that stands for none
_SYMBOL_MASK = 0xFFFFFF  # sh_info of a .text section: its symbol; the rest is registers
_CODE = ".text."
_TABLES = (".debug_line", ".nv_debug_line_sass", ".debug_str")
_DEBUG = ".debug_info"


@dataclass(slots=True)
class _Section:
    """A section with its head: ``link`` and ``info`` as the file that it is in numbers them."""

    name: str
    kind: int
    flags: int = 0
    link: int = 0
    info: int = 0
    align: int = 1
    entry_bytes: int = 0
    data: bytearray = field(default_factory=bytearray)


def prefix(number: int) -> str:
    """Return how the names of functions of a merged module begin."""
    return f"perfassert.{number}."


def may_be_merged(content: bytes) -> bool:
    """Return True for a module without types in its debug information, and without such names."""
    return _DEBUG.encode() not in content and b"perfassert." not in content


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
    merger = _Merger([_read(content) for content in modules])
    return _write(modules[0][:_HEADER_BYTES], merger.sections())


class _Merger:
    def __init__(self, modules: Sequence[Sequence[_Section]]) -> None:
        self.modules = modules
        self.merged = [_Section("", 0)]
        self.places: dict[tuple[int, int], tuple[int, int]] = {}
        """Module and section → merged section, and where in it the module's part begins."""
        self.symbols: dict[tuple[int, int], int] = {}
        """Module and symbol → merged symbol."""
        self.referred: set[tuple[int, int]] = set()
        """Module and symbol, of the symbols that relocations refer to."""
        self.names = bytearray(1)

    def sections(self) -> list[_Section]:
        """Return the merged sections; the tables of symbols and their names are the last ones."""
        for number, sections in enumerate(self.modules):
            self.place(number, sections)
        table, local = self.symbol_table()
        moved = list(self.relocations())
        at = len(self.merged) + len(moved)
        for number, sections in enumerate(self.modules):
            for index, section in enumerate(sections):
                if section.name.startswith(_CODE) and section.kind not in _RELOCATION_BYTES:
                    own = self.symbols.get((number, section.info & _SYMBOL_MASK), 0)
                    code = self.merged[self.places[number, index][0]]
                    code.info = section.info & ~_SYMBOL_MASK | own
                    code.link = at
        moved = [replace(section, link=at) for section in moved]
        symbols = _Section(".symtab", _SYMTAB, 0, at + 1, local, 8, _SYMBOL.size, table)
        return [*self.merged, *moved, symbols, _Section(".strtab", _STRTAB, data=self.names)]

    def place(self, number: int, sections: Sequence[_Section]) -> None:
        """Add the code and the tables of a module."""
        tables = {section.name: index for index, section in enumerate(self.merged)}
        for index, section in enumerate(sections):
            if section.name.startswith(_CODE):
                name = _CODE + prefix(number) + section.name.removeprefix(_CODE)
                self.places[number, index] = len(self.merged), 0
                self.merged.append(replace(section, name=name))
            elif section.name in _TABLES:
                at = tables.get(section.name, len(self.merged))
                if at == len(self.merged):
                    self.merged.append(replace(section, data=bytearray()))
                self.places[number, index] = at, len(self.merged[at].data)
                self.merged[at].data += section.data
        for section in sections:
            if (number, section.info) in self.places:
                self.referred |= {(number, symbol) for _, symbol, _, _ in _relocations(section)}

    def symbol_table(self) -> tuple[bytearray, int]:
        """Return the merged symbols, local ones first as ELF demands, and how many are local."""
        table, local = bytearray(_SYMBOL.size), 0
        for is_local in (True, False):
            for number, sections in enumerate(self.modules):
                for index, symbol in self.moved_symbols(number, sections, is_local):
                    self.symbols[number, index] = len(table) // _SYMBOL.size
                    table += symbol
            local = local or len(table) // _SYMBOL.size
        return table, local

    def moved_symbols(
        self, number: int, sections: Sequence[_Section], is_local: bool
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the symbols of a module with their numbers in it."""
        (symbols,) = (s for s in sections if s.kind == _SYMTAB)
        names = sections[symbols.link].data
        for index, (name_at, info, other, section, value, size) in enumerate(
            _SYMBOL.iter_unpack(symbols.data)
        ):
            kept = (number, section) in self.places or (number, index) in self.referred
            if not index or not kept or (info >> 4 == 0) is not is_local:
                continue
            name = _text(names, name_at)
            if (number, section) in self.places:
                is_code = sections[section].name.startswith(_CODE)
                section, before = self.places[number, section]
                value += before
                name = self.new_name(number, name) if is_code else name
            elif 0 < section < _RESERVED:
                section = _ABSOLUTE
            yield index, _SYMBOL.pack(self.add_name(name), info, other, section, value, size)

    def new_name(self, number: int, name: str) -> str:
        if name.startswith(_CODE):
            return _CODE + prefix(number) + name.removeprefix(_CODE)
        return prefix(number) + name if name else name

    def add_name(self, name: str) -> int:
        at = len(self.names)
        self.names += name.encode() + b"\0"
        return at

    def relocations(self) -> Iterator[_Section]:
        """Yield the relocations of the merged sections, one section of each kind for each."""
        by_target: dict[tuple[int, int], _Section] = {}
        for number, sections in enumerate(self.modules):
            for section in sections:
                if not (
                    section.kind in _RELOCATION_BYTES and (number, section.info) in self.places
                ):
                    continue
                target, before = self.places[number, section.info]
                name = (".rela" if section.kind == _RELA else ".rel") + self.merged[target].name
                merged = by_target.setdefault(
                    (target, section.kind),
                    replace(section, name=name, info=target, data=bytearray()),
                )
                for place, symbol, how, addend in _relocations(section):
                    moved = place + before, self.symbols.get((number, symbol), 0) << 32 | how
                    merged.data += struct.pack("<QQ", *moved) + addend
        yield from by_target.values()


def _relocations(section: _Section) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield place, symbol, type and addend of relocations; none of another kind of section."""
    size = _RELOCATION_BYTES.get(section.kind, 0)
    for at in range(0, len(section.data), size) if size else ():
        place, how = struct.unpack_from("<QQ", section.data, at)
        yield place, how >> 32, how & 0xFFFFFFFF, bytes(section.data[at + 16 : at + size])


def _read(content: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", content, 40)
    count, names_at = struct.unpack_from("<HH", content, 60)
    heads = [_SECTION.unpack_from(content, start + _SECTION.size * i) for i in range(count)]
    names = content[heads[names_at][4] :]
    sections = []
    for name, kind, flags, _, offset, size, link, info, align, entry_bytes in heads:
        data = bytearray(content[offset : offset + size])
        section = _Section(_text(names, name), kind, flags, link, info, align, entry_bytes, data)
        sections.append(section)
    return sections


def _write(header: bytes, sections: Sequence[_Section]) -> bytes:
    """Return an ELF file with the head of another one, without segments."""
    names, heads, body = bytearray(), [], bytearray(header)
    whole = [*sections, _Section(".shstrtab", _STRTAB)]
    places = []
    for section in whole:
        places.append(len(names))
        names += section.name.encode() + b"\0"
    whole[-1].data = names
    for section, name in zip(whole, places, strict=True):
        body += bytes(-len(body) % max(1, section.align))
        heads.append(
            _SECTION.pack(
                name, section.kind, section.flags, 0, len(body), len(section.data),
                section.link, section.info, section.align, section.entry_bytes,
            )
        )  # fmt: skip
        body += section.data
    body += bytes(-len(body) % 8)
    struct.pack_into("<QQ", body, 32, 0, len(body))
    struct.pack_into("<HHHH", body, 56, 0, _SECTION.size, len(heads), len(heads) - 1)
    return bytes(body) + b"".join(heads)


def _text(table: bytes | bytearray, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode(errors="replace")
