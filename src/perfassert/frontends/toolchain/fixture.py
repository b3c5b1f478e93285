"""Listings as text files: what nvdisasm prints, and the same with the facts of its binary.

A file that :func:`to_fixture` writes needs no toolchain. It starts with lines of the form
``//perfassert: key=value …`` (values percent-encoded), with the keys

- ``arch kernel mangled``: ``sm_80``, the demangled and the mangled name;
- ``registers shared_bytes local_bytes parameter_base code_bytes``: integers, ``0x`` allowed;
- ``parameters``: ``name:offset:size:pointer|value[:dtype]``, separated by commas;
- ``constants``: ``bank:hexadecimal bytes``, separated by commas;
- ``unset``, ``valued``, ``variables``: ``name:bank:offset:size`` of constants without a value,
  with one, and of variables in global memory, separated by commas;
- ``assumption``: ``text[:file:line:column]``, once for each.

Then comes the listing, then the source files (``//file: path`` followed by ``//src: line`` …).
Lines ``//ptx: …``, which earlier versions wrote, are passed over. A listing without the header
gives the facts that it has; the rest is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from perfassert.errors import KernelSourceError, close_matches
from perfassert.quantity import LARGEST
from perfassert.shipped import model_integer
from perfassert.source import Assumption, SourceSpan

from .binary import Binary, Parameter, Unset
from .listing import cut, sections
from .names import choose, demangle, without_parameters

_SAFE = "()[]{}<>*&+-_.;'/=|"
LISTING = "listing"
"""Tools of a binary that is read from a listing, which may not state all of its sizes."""
_NUMBERS = ("registers", "shared_bytes", "local_bytes", "parameter_base", "code_bytes")
_SYMBOLS = ("unset", "valued", "variables")
_KEYS = ("arch", "kernel", "mangled", *_NUMBERS, "parameters", "constants", *_SYMBOLS, "assumption")
# End of the launch's own words in constant bank 0; a cubin states it, a bare listing does not.
_PARAMETER_BASE = ((100, 0x380), (90, 0x210), (70, 0x160))
_BANK_BYTES = model_integer("constant_bank_bytes")  # parameters included
_ADDRESS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/", re.MULTILINE)


def to_fixture(binary: Binary) -> str:
    """Return a listing from which :func:`from_fixture` makes an equal binary, except ``tools``."""
    facts = {"arch": binary.arch, "kernel": binary.kernel, "mangled": binary.mangled}
    numbers = {name: getattr(binary, name) for name in _NUMBERS}
    numbers["parameter_base"] = hex(binary.parameter_base)
    lines = [_header_line(facts), _header_line(numbers)]
    if binary.parameters:
        written = (_parameter(p) for p in binary.parameters)
        lines.append(f"//perfassert: parameters={','.join(written)}")
    if binary.constants:
        banks = (f"{bank}:{content.hex()}" for bank, content in sorted(binary.constants.items()))
        lines.append(f"//perfassert: constants={','.join(banks)}")
    for key in _SYMBOLS:
        symbols = getattr(binary, key)
        words = (f"{quote(u.name, safe=_SAFE)}:{u.bank}:{u.offset}:{u.size}" for u in symbols)
        lines += [f"//perfassert: {key}={','.join(words)}"] if symbols else []
    for a in binary.assumptions:
        span = (a.span.file, a.span.line, a.span.column) if a.span else ()
        parts = [quote(str(part), safe=_SAFE) for part in (a.text, *span)]
        lines.append(f"//perfassert: assumption={':'.join(parts)}")
    lines.append(binary.listing.rstrip("\n"))
    for path, text in binary.files.items():
        lines += [f"//file: {path}", *(f"//src: {line}".rstrip(" ") for line in text.split("\n"))]
    return "\n".join(lines) + "\n"


def from_fixture(text: str, kernel: str | None, arch: str, where: str) -> Binary:
    """Return the binary of a listing; ``arch`` must agree with the one that the listing states."""
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    header = _read_header(text, where)
    body = [line for line in text.split("\n") if not _is_directive(line)]
    listing = "\n".join(body).rstrip("\n") + "\n"
    mangled = _stated_kernel(header, listing, kernel, where)
    stated = _last_value(header, "arch") or _stated_arch(text)
    if stated and stated.rstrip("af") != arch.rstrip("af"):
        raise KernelSourceError(f"{where} is a listing for {stated}; the device is {arch}")
    if "mangled" not in header:
        listing = cut(sections(listing), mangled, where)
    numbers, assumptions = _facts(header, listing, stated or arch, where)
    return Binary(
        kernel=_last_value(header, "kernel") or without_parameters(demangle(mangled)),
        mangled=mangled,
        arch=stated or arch,
        listing=listing,
        registers=numbers["registers"],
        shared_bytes=numbers["shared_bytes"],
        local_bytes=numbers["local_bytes"],
        parameter_base=numbers["parameter_base"],
        code_bytes=numbers["code_bytes"],
        parameters=_parameters(header, where),
        constants=_read_constants(header, where),
        unset=_read_symbols(header, "unset", where),
        valued=_read_symbols(header, "valued", where),
        variables=_read_symbols(header, "variables", where),
        files=_read_files(text),
        tools=LISTING,
        assumptions=assumptions,
    ).with_digest()


def _stated_kernel(
    header: dict[str, list[str]], listing: str, wanted: str | None, where: str
) -> str:
    stated = _last_value(header, "mangled")
    if stated:
        return choose(wanted or stated, [stated], where)
    return choose(wanted or _last_value(header, "kernel"), list(sections(listing)), where)


def _facts(
    header: dict[str, list[str]], listing: str, arch: str, where: str
) -> tuple[dict[str, int], tuple[Assumption, ...]]:
    """Return the numbers in the header, and assumptions about the numbers that are missing."""
    numbers = {
        name: int(_header_integer(header, name, where)) for name in _NUMBERS if name in header
    }
    span = SourceSpan(where)
    notes = [_assumption(text, where) for text in header.get("assumption", ())]
    if "registers" not in numbers:
        stated = re.search(r"SHI_REGISTERS=(\d+)", listing)
        if stated is None:
            raise KernelSourceError(
                f"{where} states no registers; add a line: //perfassert: registers=…"
            )
        numbers["registers"] = _parse_size(stated[1], "registers", where)
    if "code_bytes" not in numbers:
        first = next(iter(sections(listing).values()), listing)
        numbers["code_bytes"] = max((int(a, 16) + 16 for a in _ADDRESS.findall(first)), default=0)
    if "parameter_base" not in numbers:
        base = parameter_base(arch)
        numbers["parameter_base"] = base
        notes.append(Assumption(f"parameters start at c[0x0][{base:#x}]", span))
    for name, what in (("shared_bytes", "static shared memory"), ("local_bytes", "stack frame")):
        if name not in numbers:
            numbers[name] = 0
            notes.append(Assumption(f"no {what}: the listing does not state it", span))
    return numbers, tuple(notes)


def parameter_base(arch: str) -> int:
    """Return the usual offset of the first parameter in bank 0, if a binary does not state it."""
    digits = int(re.sub(r"\D", "", arch) or 0)
    return next((base for least, base in _PARAMETER_BASE if digits >= least), 0x160)


def _stated_arch(text: str) -> str | None:
    match = re.search(r"^\s*\.target\s+(sm_\d+[af]?)|\bEF_CUDA_SM(\d+)\b", text, re.MULTILINE)
    return (match[1] or f"sm_{match[2]}") if match else None


def _read_header(text: str, where: str) -> dict[str, list[str]]:
    header: dict[str, list[str]] = {}
    for count, line in enumerate(text.split("\n"), 1):
        if not line.startswith("//perfassert:"):
            continue
        for word in line.removeprefix("//perfassert:").split():
            key, equals, value = word.partition("=")
            if not equals or key not in _KEYS:
                near = close_matches(key, _KEYS)
                raise KernelSourceError(f"{where}:{count}: unknown header key {key!r}{near}")
            header.setdefault(key, []).append(value)
    return header


def _last_value(header: dict[str, list[str]], key: str) -> str | None:
    return unquote(header[key][-1]) if key in header else None


def _header_integer(header: dict[str, list[str]], key: str, where: str) -> int:
    limit = _BANK_BYTES if key == "parameter_base" else LARGEST
    return _parse_size(header[key][-1], key, where, limit)


def _parse_size(text: str, key: str, where: str, limit: int = LARGEST) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise KernelSourceError(
            f"{where}: header key {key}: {text[:40]!r} is no size in bytes or count"
        )
    if value > limit:
        raise KernelSourceError(f"{where}: header key {key}: {text[:40]} is more than {limit}")
    return value


def _parameter(p: Parameter) -> str:
    kind = "pointer" if p.pointer else "value"
    dtype = f":{quote(p.dtype, safe=_SAFE)}" if p.dtype is not None else ""
    return f"{quote(p.name, safe=_SAFE)}:{p.offset}:{p.size}:{kind}{dtype}"


def _parameters(header: dict[str, list[str]], where: str) -> tuple[Parameter, ...]:
    parameters = []
    for item in _items(header, "parameters"):
        name, *rest = item.split(":", 4)
        if len(rest) < 3 or rest[2] not in ("pointer", "value"):
            form = "name:offset:size:pointer|value[:dtype]"
            raise KernelSourceError(f"{where}: parameter {item!r} is not of the form {form}")
        offset, size = (_parse_size(text, "parameters", where, _BANK_BYTES) for text in rest[:2])
        dtype = unquote(rest[3]) if len(rest) > 3 else None
        parameters.append(Parameter(unquote(name), offset, size, rest[2] == "pointer", dtype))
    return tuple(parameters)


def _read_constants(header: dict[str, list[str]], where: str) -> dict[int, bytes]:
    try:
        pairs = (item.partition(":") for item in _items(header, "constants"))
        return {int(bank): bytes.fromhex(content) for bank, _, content in pairs}
    except ValueError:
        raise KernelSourceError(f"{where}: constants are not of the form bank:hex") from None


def _read_symbols(header: dict[str, list[str]], key: str, where: str) -> tuple[Unset, ...]:
    symbols = []
    for item in _items(header, key):
        name, *rest = item.split(":")
        if len(rest) != 3:
            form = "name:bank:offset:size"
            raise KernelSourceError(f"{where}: {key} {item!r} is not of the form {form}")
        limits = (LARGEST, _BANK_BYTES, LARGEST if key == "variables" else _BANK_BYTES)
        bank, offset, size = (
            _parse_size(text, key, where, limit) for text, limit in zip(rest, limits, strict=True)
        )
        symbols.append(Unset(unquote(name), bank, offset, size))
    return tuple(symbols)


def _items(header: dict[str, list[str]], key: str) -> list[str]:
    return [item for value in header.get(key, ()) for item in value.split(",") if item]


def _assumption(text: str, where: str) -> Assumption:
    message, *span = (unquote(part) for part in text.split(":"))
    if not span:
        return Assumption(message)
    if len(span) != 3:
        raise KernelSourceError(f"{where}: assumption is not of the form text[:file:line:column]")
    line, column = (_parse_size(part, "assumption", where) for part in span[1:])
    return Assumption(message, SourceSpan(span[0], line, column))


def _header_line(facts: Mapping[str, object]) -> str:
    words = (f"{key}={quote(str(value), safe=_SAFE + ':,')}" for key, value in facts.items())
    return f"//perfassert: {' '.join(words)}"


def _is_directive(line: str) -> bool:
    return line.startswith(("//perfassert:", "//file:", "//src:", "//ptx:"))


def _read_files(text: str) -> dict[str, str]:
    files: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.split("\n"):
        if line.startswith("//file: "):
            current = files.setdefault(line.removeprefix("//file: "), [])
        elif line.startswith("//src:"):
            current.append(line.removeprefix("//src:").removeprefix(" "))
    return {path: "\n".join(lines) for path, lines in files.items()}
