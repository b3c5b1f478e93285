"""The one way from a kernel source to its binary: compile, disassemble, read the facts, remember.

Tools run only for what the cache does not hold; nothing of NVIDIA's is imported or loaded into
this process.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.source import Assumption

from . import cache, compilers, listing, names, options, signature, tools
from .architecture import architecture, legacy, number
from .binary import Binary, Parameter, Source
from .compilers import Compiled
from .elf import Cubin
from .fixture import from_fixture, parameter_base, to_fixture
from .includes import Closure, closure

Layout = Sequence[tuple[int, int]]
_OLDEST = 70  # compute capability × 10 of the oldest architecture with this encoding (Volta)


def build(source: Source, arch: str) -> Binary:
    """``source`` as machine code for ``arch`` (such as ``"sm_80"``).

    :class:`~perfassert.KernelSourceError` where the source cannot be read or compiled, with its
    place; :class:`~perfassert.ToolchainMissing` where a tool for it is not installed.
    """
    _check_architecture(arch)
    content = _read(source)
    if source.kind == "sass":
        text = content.decode(errors="replace")
        return from_fixture(text, source.kernel, arch, str(source.path))
    files = _files(source, content)
    entry = _key(source, arch, files) if files.complete else None
    found = cache.load(entry) if entry else None
    if found is None:
        found = _built(source, content, files.files, arch)
        if entry:
            cache.store(entry, found)
    return found


def image(source: Source, arch: str) -> bytes:
    """The cubin that :func:`build` describes, for a driver to load; compiled anew."""
    _check_architecture(arch)
    content = _read(source)
    target, _ = _target(source, arch)
    files = _files(source, content).files
    with tempfile.TemporaryDirectory(prefix="perfassert-") as folder:
        return _compiled(source, content, files, target, Path(folder)).cubin


def _built(source: Source, content: bytes, files: Mapping[Path, bytes], arch: str) -> Binary:
    target, notes = _target(source, arch)
    nvdisasm = _disassembler(target)
    with tempfile.TemporaryDirectory(prefix="perfassert-") as folder:
        made = _compiled(source, content, files, target, Path(folder))
    cubin = Cubin(made.cubin, str(source.path))
    _check_same(source, cubin, target)
    target = made.arch or cubin.arch
    kernels = cubin.kernels()
    kernel = made.kernel
    if kernel not in kernels:
        hint = _template_hint(source, files)
        kernel = names.choose(source.kernel, kernels, str(source.path), hint)
    sources = [body.decode(errors="replace") for body in files.values()]
    binary = _described(cubin, made, kernel, target, nvdisasm)
    return replace(
        binary,
        parameters=signature.parameters(kernel, cubin.parameters(kernel), sources, binary.ptx),
        files=_mentioned(binary.listing, files),
        assumptions=(*notes, *made.assumptions),
    ).sealed()


def from_compiler(
    made: Compiled, where: str, arch: str, parameters: Callable[[Layout], tuple[Parameter, ...]]
) -> Binary:
    """What a compiler outside the toolchain made of a kernel; ``where`` names it in errors.

    ``parameters`` gets offset and size of each, in bytes, and names them.
    """
    _check_architecture(arch)
    cubin = Cubin(made.cubin, where)
    kernel = names.choose(made.kernel, cubin.kernels(), where)
    binary = _described(cubin, made, kernel, arch, _disassembler(arch))
    places = (Path(name) for name in listing.mentioned(binary.listing))
    files = {path: path.read_bytes() for path in places if path.is_file()}
    return replace(
        binary,
        parameters=parameters(cubin.parameters(kernel)),
        files=_mentioned(binary.listing, files),
        assumptions=made.assumptions,
    ).sealed()


def _described(
    cubin: Cubin, made: Compiled, kernel: str, arch: str, nvdisasm: tools.Tool
) -> Binary:
    """What the cubin says; who wrote it knows parameters and files."""
    text = listing.disassemble(nvdisasm, cubin, made.cubin, kernel)
    text, ptx = listing.one_ptx(text, cubin.ptx(), made.ptx)
    base = cubin.parameter_base(kernel)
    return Binary(
        kernel=names.without_parameters(names.demangle(kernel)),
        mangled=kernel,
        arch=arch,
        ptx=_text(ptx.encode()) if ptx is not None else None,
        listing=text,
        registers=cubin.registers(kernel),
        shared_bytes=cubin.shared_bytes(kernel),
        local_bytes=cubin.local_bytes(kernel),
        parameter_base=parameter_base(arch) if base is None else base,
        parameters=(),
        constants=cubin.constants(kernel),
        code_bytes=_code_bytes(cubin, kernel),
        files={},
        tools=", ".join((*made.tools, str(nvdisasm))),
    )


def _compiled(
    source: Source, content: bytes, files: Mapping[Path, bytes], arch: str, folder: Path
) -> Compiled:
    if source.kind == "cubin":
        return Compiled(content, None, ())
    if source.kind == "ptx":
        return compilers.from_ptx(source, _text(content), arch, folder)
    return compilers.from_cuda(source, files, arch, folder)


def _check_architecture(arch: str) -> None:
    if number(arch) < _OLDEST:
        raise KernelSourceError(
            f"compiled code cannot be predicted on {arch}: no current tool knows it and its "
            "encoding differs; describe the kernel with Kernel.from_accesses or "
            "Kernel.from_graph, or predict on a device of sm_70 or later"
        )


def _check_same(source: Source, cubin: Cubin, arch: str) -> None:
    if not architecture(cubin.arch).code_runs_on(architecture(arch)):
        raise KernelSourceError(
            f"{source.path} is a cubin for {cubin.arch}, which does not run on {arch}: compile for "
            "it, or predict on a device that it was compiled for"
        )


def _target(source: Source, arch: str) -> tuple[str, tuple[Assumption, ...]]:
    """What is compiled for: Volta's successor where no tool for Volta is installed."""
    if not legacy(arch) or source.kind == "cubin":
        return arch, ()
    if tools.before("ptxas", 13) and tools.before("nvdisasm", 13):
        return arch, ()
    return "sm_75", (Assumption(f"compiled for sm_75: no tool for {arch} is installed"),)


def _disassembler(arch: str) -> tools.Tool:
    if not legacy(arch):
        return tools.need("nvdisasm")
    found = tools.before("nvdisasm", 13)
    if found is None:
        raise ToolchainMissing(
            f"no installed nvdisasm knows {arch}; that of CUDA 12 does: pip install 'triton<3.6'"
        )
    return found


def _read(source: Source) -> bytes:
    """The file, once what is asked of it makes sense."""
    if source.kind not in ("cuda", "ptx", "cubin", "sass"):
        raise KernelSourceError(f"{source.kind!r} is no kind of source: cuda, ptx, cubin or sass")
    if source.kind != "cuda" and (source.defines or source.include_dirs):
        raise KernelSourceError(f"{source.path}: defines and include_dirs need CUDA source")
    if source.kind in ("cubin", "sass") and source.options:
        raise KernelSourceError(f"{source.path}: options need a source that is compiled")
    try:
        content = source.path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise KernelSourceError(f"{source.path} cannot be read: {why}") from None
    if source.kind == "ptx":
        content = content.rstrip(b"\0")  # as a compiler's library hands out strings
    if source.kind != "cubin" and b"\0" in content:
        raise KernelSourceError(f"{source.path} is no text: it has a NUL byte")
    return content


def _files(source: Source, content: bytes) -> Closure:
    if source.kind != "cuda":
        return Closure({source.path: content}, True)
    extra = [o.value or "" for o in options.parsed(source) if o.name == "--pre-include"]
    return closure(source.path.resolve(), content, options.search_dirs(source), extra)


def _key(source: Source, arch: str, files: Closure) -> str:
    place = str(source.path.resolve()) if source.kind == "cuda" else ""
    content = (
        files.digest()
        if source.kind == "cuda"
        else hashlib.sha256(files.files[source.path]).hexdigest()
    )
    asked = [place, source.kind, repr(source.kernel), arch, *source.options, *source.include_dirs]
    return cache.key([*asked, *options.definitions(source.defines), content, *tools.identity()])


def _template_hint(source: Source, files: Mapping[Path, bytes]) -> str:
    if source.kind != "cuda":
        return ""
    texts = (content.decode(errors="replace") for content in files.values())
    templates = [name for name in compilers.declarations(texts) if name.endswith("<…>")]
    if not templates:
        return ""
    return f"; templates need their arguments: {', '.join(templates)}"


def _mentioned(text: str, files: Mapping[Path, bytes]) -> dict[str, str]:
    """Listing's file name → text, for those of the user's files that the listing refers to."""
    known = {os.path.realpath(path): content for path, content in files.items()}
    return {
        name: _text(known[real])
        for name in sorted(listing.mentioned(text))
        if (real := os.path.realpath(name)) in known
    }


def _text(content: bytes) -> str:
    """Without what stands at the ends of lines, so that a fixture keeps it whole."""
    lines = content.decode(errors="replace").replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _code_bytes(cubin: Cubin, kernel: str) -> int:
    section = cubin.section(f".text.{kernel}")
    return section.size if section else 0


__all__ = ["Binary", "Parameter", "Source", "build", "to_fixture"]
