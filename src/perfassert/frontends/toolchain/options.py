"""Compiler options: nvcc's spellings, translated to those of each tool."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from perfassert.errors import KernelSourceError

from . import tools
from .architecture import Architecture, architecture
from .binary import Source

# Options that take a value, which nvcc also accepts as a separate word: spelling → one name.
_VALUED = {
    "-maxrregcount": "--maxrregcount",
    "-std": "--std",
    "-I": "-I",
    "--include-path": "-I",
    "-isystem": "-I",
    "--system-include": "-I",
    "-D": "-D",
    "--define-macro": "-D",
    "-U": "-U",
    "--undefine-macro": "-U",
    "-include": "--pre-include",
    "--pre-include": "--pre-include",
    "-Xptxas": "--ptxas-options",
    "-Xcompiler": "--compiler-options",
    "-ccbin": "--compiler-bindir",
    "-diag-suppress": "--diag-suppress",
    "-ftz": "--ftz",
    "-fmad": "--fmad",
    "-prec-div": "--prec-div",
    "-prec-sqrt": "--prec-sqrt",
    "-rdc": "--relocatable-device-code",
    "-t": "--threads",
    "-O": "--optimize",
    "-arch": "--gpu-architecture",
    "-gencode": "--generate-code",
    "-code": "--gpu-code",
}
_NAMES = {**_VALUED, **{name: name for name in _VALUED.values()}}
_GLUED = ("-I", "-D", "-U", "-O")  # the value follows without a separator
_ARCHITECTURE = frozenset(("--gpu-architecture", "--generate-code", "--gpu-code"))
_ANY = frozenset(("native", "all", "all-major"))  # values that leave the choice to the device
_PRODUCT = frozenset(
    ("-o", "-c", "-dc", "-ptx", "-cubin", "-fatbin", "-E", "-M", "-MM", "-lto", "-dlto", "-run")
) | frozenset(
    ("--output-file", "--compile", "--ptx", "--cubin", "--fatbin", "--dlink-time-opt", "--run")
)
_DEBUG = frozenset(("-G", "--device-debug"))
_IMPLIED = frozenset(
    ("-lineinfo", "--generate-line-info", "-g", "--debug", "-m64", "-v", "--verbose")
)
_LAMBDA = ("extended-lambda", "expt-extended-lambda", "expt-relaxed-constexpr")
_HOST_ONLY = {dashes + name for dashes in ("-", "--") for name in _LAMBDA} | {
    *("--optimize", "--compiler-options", "--compiler-bindir", "--threads"),
    "-Wno-deprecated-gpu-targets",
}
_OF_HOST = frozenset(("-I", "-D", "-U", "--pre-include", "--compiler-options"))
_PTXAS = frozenset(("--maxrregcount", "--ptxas-options", "--optimize"))


_READING = {dashes + name for dashes in ("-", "--") for name in ("pch", "use-pch", "pch-dir")} | {
    *("--options-file", "-optf"),
}
_READ_BY_HOST = ("@", "-I", "-i", "-B", "-specs", "/I", "/FI", "/Yu")


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """A product of a compilation: machine code for ``real`` via ``virtual``, or PTX."""

    virtual: Architecture
    real: Architecture | None


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    value: str | None = None

    def __str__(self) -> str:
        if self.value is None:
            return self.name
        return self.name + ("" if self.name in _GLUED else "=") + self.value


@dataclass(frozen=True, slots=True)
class HostArguments:
    """Arguments for the host's preprocessor: options, folders, macros, files included first."""

    folders: tuple[str, ...] = ()
    macros: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


def parse(source: Source) -> list[Option]:
    """Return the source's options without architectures and those that are implied.

    Raises for options that perfassert decides itself.
    """
    options = []
    for option in _all_options(source):
        if option.name in _PRODUCT:
            raise KernelSourceError(f"option {option}: perfassert chooses what is produced")
        if option.name in _DEBUG:
            raise KernelSourceError(f"option {option}: unoptimised code says nothing about time")
        if option.name not in _IMPLIED | _ARCHITECTURE:
            options.append(option)
    return options


def targets(source: Source) -> list[CompileTarget]:
    """Return the products that the options ask for; empty if the device decides."""
    result: list[CompileTarget] = []
    virtual, codes = "", ""
    for option in _all_options(source):
        value = option.value or ""
        if option.name == "--generate-code":
            result += _parse_generate_code(option)
        elif option.name == "--gpu-architecture":
            virtual = value
        elif option.name == "--gpu-code":
            codes = value
    if codes and not virtual:
        raise KernelSourceError(f"option --gpu-code={codes} needs --gpu-architecture")
    if virtual in _ANY:
        return result
    if virtual and not codes:
        codes = ",".join((virtual, architecture(virtual).virtual))
    return result + (_products(virtual, codes) if virtual else [])


def _parse_generate_code(option: Option) -> list[CompileTarget]:
    """Parse ``arch=compute_80,code=[sm_80,sm_86]``."""
    text = (option.value or "").replace('"', "")
    match = re.fullmatch(r"arch=(compute_\w+),code=\[?([\w,]+)\]?", text)
    if match is None:
        raise KernelSourceError(f"option {option}: one looks like arch=compute_80,code=sm_80")
    return _products(match[1], match[2])


def _products(virtual: str, codes: str) -> list[CompileTarget]:
    made = architecture(virtual)
    products = []
    for code in codes.split(","):
        real = architecture(code)
        products.append(CompileTarget(made, real if code.startswith("sm_") else None))
    return products


def _check_one_line(what: str, text: str) -> None:
    """Raise for a text of several lines, which would add lines to the source."""
    if any(letter in text for letter in "\n\r\0"):
        raise KernelSourceError(f"{what} = {text!r} is more than one line")


def _all_options(source: Source) -> Iterator[Option]:
    for option in source.options:
        _check_one_line("option", str(option))
    words = [word for option in source.options for word in _words(str(option))]
    while words:
        yield _next(words)


def definitions(defines: Mapping[str, object]) -> list[str]:
    """Return ``["-DBLOCK_X=32"]`` for ``{"BLOCK_X": 32}``; booleans become 0 and 1."""
    macros = []
    for name, value in defines.items():
        if not re.fullmatch(r"[A-Za-z_]\w*(\([\w, .]*\))?", name):
            raise KernelSourceError(f"defines: {name!r} is no macro name")
        text = str(int(value)) if isinstance(value, bool) else str(value)
        _check_one_line(f"defines: {name}", text)
        macros.append(f"-D{name}={text}" if value is not None else f"-D{name}")
    return macros


def search_dirs(source: Source) -> list[Path]:
    """Return the user's include folders, absolute, with the source's own folder last."""
    home = source.path.resolve().parent
    for folder in source.include_dirs:
        if not os.path.isdir(home / folder):
            raise KernelSourceError(f"include_dirs: no folder {str(home / folder)!r}")
    named = [option.value for option in parse(source) if option.name == "-I"]
    return [*(home / d for d in source.include_dirs), *(home / d for d in named if d), home]


def reads_unseen(source: Source) -> bool:
    """Return True if options, or those the environment adds, read files that were not searched."""
    try:
        added = parse(replace(source, options=tuple(tools.added_flags())))
    except KernelSourceError:
        return True
    named = any(option.name in ("-I", "--pre-include") for option in added)
    return named or any(map(_reads, (*parse(source), *added)))


def _reads(option: Option) -> bool:
    words = (option.value or "").replace(",", " ").split()
    hosts = option.name == "--compiler-options" and any(w.startswith(_READ_BY_HOST) for w in words)
    return hosts or option.name in _READING


def for_nvrtc(source: Source) -> list[str]:
    """Return the options for NVRTC; the caller adds paths and macros."""
    return _options_without(source, _HOST_ONLY | {"-I"})


def for_nvcc(source: Source) -> list[str]:
    """Return the options for nvcc itself; those for the preprocessor are in :func:`for_host`."""
    return _options_without(source, _OF_HOST)


def for_preprocessing(source: Source) -> list[str]:
    """Return nvcc's own options without those that only ptxas reads."""
    return _options_without(source, _OF_HOST | _PTXAS)


def _options_without(source: Source, names: Set[str]) -> list[str]:
    """Return a source's options as words, without those of some names."""
    return [str(option) for option in parse(source) if option.name not in names]


def for_host(source: Source, system: Sequence[str] = ()) -> HostArguments:
    """Return the preprocessor's arguments; ``system`` has the folders of the tools' headers."""
    options = parse(source)
    words = [
        word
        for option in options
        if option.name == "--compiler-options"
        for word in (option.value or "").split(",")
    ]
    folders = [f"-I{folder}" for folder in search_dirs(source)]
    for folder in system:
        folders += ["-isystem", folder]
    macros = [str(option) for option in options if option.name in ("-D", "-U")]
    includes = []
    for option in options:
        if option.name == "--pre-include":
            includes += ["-include", option.value or ""]
    return HostArguments(
        (*words, *folders), (*macros, *definitions(source.defines)), tuple(includes)
    )


def for_ptxas(source: Source) -> list[str]:
    """Return the options for ptxas, unpacked from ``--ptxas-options``; others are refused."""
    words: list[str] = []
    for option in parse(source):
        if option.name not in _PTXAS:
            raise KernelSourceError(f"option {option} does not apply to PTX")
        if option.name == "--ptxas-options":
            words += (option.value or "").replace(",", " ").split()
        else:
            words.append(f"-O{option.value}" if option.name == "--optimize" else str(option))
    return words


def _words(option: str) -> Sequence[str]:
    """Split an option given as one string, ``"--maxrregcount 64"``, into two words."""
    first, _, rest = option.strip().partition(" ")
    return (first, rest.strip()) if first in _NAMES and rest else (option.strip(),)


def _next(words: list[str]) -> Option:
    word = words.pop(0)
    if not word.startswith("-"):
        raise KernelSourceError(f"option {word!r} does not start with '-'")
    name, equals, value = word.partition("=")
    for glued in _GLUED:
        if word.startswith(glued) and len(word) > 2 and not word.startswith("--"):
            return Option(_NAMES[glued], word[2:])
    if equals:
        return Option(_NAMES.get(name, name), value)
    if word not in _NAMES:
        return Option(word)
    if not words:
        raise KernelSourceError(f"option {word} needs a value")
    return Option(_NAMES[word], words.pop(0))


_OF_FILES = frozenset(
    (
        "--maxrregcount", "--std", "-I", "-D", "-U", "--ftz", "--fmad", "--prec-div", "--prec-sqrt",
        "--use_fast_math", "-use_fast_math", "--relocatable-device-code", "--optimize",
        "--diag-suppress", "--restrict", "-restrict", "-w", "--disable-warnings",
        "--extra-device-vectorization", "--default-device", "-default-device",
        "-Wno-deprecated-gpu-targets", "--split-compile",
    )
) | {dashes + name for dashes in ("-", "--") for name in _LAMBDA}  # fmt: skip
_FOR_PTXAS = re.compile(
    r"-O[0-3]|-v|--verbose|-w|--?(?:dlcm|dscm|flcm|fscm|def-load-cache|def-store-cache)=\w+"
    r"|--?(?:maxrregcount|fmad|opt-level|allow-expensive-optimizations)=\w+"
    r"|--?warn-(?:on-)?(?:spills|lmem-usage|local-memory-usage|double-usage)"
)


def check_of_file(source: Source) -> None:
    """Check the options that a file asks for; its author may be a stranger.

    Options may change the code, but may not run, read or write anything elsewhere. Raises
    :class:`KernelSourceError` with the option.
    """
    for option in parse(source):
        words = (option.value or "").replace(",", " ").split()
        inner = option.name == "--ptxas-options"
        if inner and all(map(_FOR_PTXAS.fullmatch, words)):
            continue
        if inner or option.name not in _OF_FILES:
            raise KernelSourceError(
                f"option {option} is not among those that a file may ask for; give it in Python"
            )
