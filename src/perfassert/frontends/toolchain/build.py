"""Building of a kernel's binary from its source: compile, disassemble, read facts, remember.

Tools run only for what the cache does not hold. Nothing of NVIDIA's is imported or loaded into this
process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.kernel.program import Member
from perfassert.shipped import model_integer
from perfassert.source import Assumption
from perfassert.system.confined import confining, may_be_shown, read_bytes

from . import (
    containers,
    layout,
    listing,
    modules,
    names,
    signature,
    toolchains,
    tools,
)
from .architecture import legacy, number
from .binary import Binary, LaunchLimits, Parameter, Source, Unset, from_dict, to_dict
from .cache import Recall, recall_nothing
from .compilers import CompiledModule
from .elf import Cubin
from .fixture import from_fixture, parameter_base, to_fixture
from .inputs import FilesChanged, FileStates, Inputs, remember
from .modules import CompileJob

T = TypeVar("T")
Layout = Sequence[tuple[int, int]]
_ATTEMPTS = 3  # compilations of files that are being edited
_TURING = "sm_75"
_OLDEST = model_integer("oldest_architecture")


def build(
    source: Source,
    arch: str,
    on_miss: Callable[[Source, str], None] | None = None,
    recall: Recall = recall_nothing,
) -> Binary:
    """Build ``source`` as machine code for ``arch`` (such as ``"sm_80"``).

    ``on_miss`` is called with both before a compilation that the cache does not hold. ``recall``
    keeps in memory what was read from the cache.

    Raises :class:`~perfassert.KernelSourceError` with the place if the source cannot be read or
    compiled, and :class:`~perfassert.ToolchainMissing` if a tool for it is not installed.
    """
    _check_architecture(arch)
    if source.kind == "sass":
        text = _read_source(source).decode(errors="replace")
        return from_fixture(text, source.kernel, arch, str(source.path))

    def find_or_make(job: CompileJob) -> Binary:
        inputs = job.inputs()

        def make() -> Binary:
            if on_miss is not None:
                on_miss(source, arch)
            return _build(job, inputs)

        key = job.key("kernel", source.kernel or "")
        return remember(key, inputs, make, from_dict, to_dict, recall=recall)

    return _repeat_until_unchanged(source, arch, find_or_make)


def _repeat_until_unchanged(source: Source, arch: str, work: Callable[[CompileJob], T]) -> T:
    """Return what ``work`` makes of a source, repeated until no file changes meanwhile.

    Raises :class:`KernelSourceError` if a file changes in every attempt.
    """
    for _ in range(_ATTEMPTS):
        try:
            return work(prepare(source, arch))
        except FilesChanged as change:
            changed = change.path
    raise KernelSourceError(
        f"{changed} was changed while {source.path} was compiled, {_ATTEMPTS} times; run it again "
        "once the file stays as it is"
    )


def compiled_module(source: Source, arch: str) -> CompiledModule:
    """Compile a source or recall the module, of which :func:`build` describes a kernel."""
    return _repeat_until_unchanged(source, arch, modules.module)


class _NotBuilt(Exception):
    """The cache does not hold what was asked for."""


def is_built(source: Source, arch: str) -> bool:
    """Return True if the cache holds the machine code of a kernel."""

    def raise_not_built(source: Source, arch: str) -> None:
        raise _NotBuilt

    try:
        build(source, arch, raise_not_built)
    except _NotBuilt:
        return False
    return True


def compile_for_later(source: Source, arch: str) -> None:
    """Compile a source, whose code the next run of nvdisasm for the architecture then reads.

    Raises :class:`KernelSourceError` and :class:`ToolchainMissing` as :func:`build` does.
    """
    if source.kind in ("cubin", "sass"):
        build(source, arch)
        return
    if is_built(source, arch):
        return
    made, _ = _repeat_until_unchanged(source, arch, _module_with_parameters)
    disassemble_later(made, str(source.path), made.arch or Cubin(made.cubin, "").arch)


def disassemble_later(made: CompiledModule, where: str, arch: str) -> None:
    """Have the next run of nvdisasm for the architecture read this module, too."""
    listing.disassemble_later(_disassembler(arch), Cubin(made.cubin, where), made.cubin)


def with_layouts(binary: Binary, source: Source, arch: str) -> Binary:
    """Return the binary with layouts of its constants, taken from debug information."""
    if source.kind != "cuda" or not (binary.unset or binary.valued):
        return binary

    def find_or_make(job: CompileJob) -> dict[str, tuple[Member, ...]]:
        inputs = job.inputs()
        return remember(
            job.key("variables", source.kernel or ""),
            inputs,
            lambda: layout.variables(modules.debug_information(job, inputs, binary.mangled)),
            _members_from_json,
            lambda known: {name: [*map(asdict, members)] for name, members in known.items()},
        )

    known = _repeat_until_unchanged(source, arch, find_or_make)

    def with_members(symbols: tuple[Unset, ...]) -> tuple[Unset, ...]:
        return tuple(replace(u, members=known.get(u.name, ())) for u in symbols)

    return replace(binary, unset=with_members(binary.unset), valued=with_members(binary.valued))


def _members_from_json(data: Any) -> dict[str, tuple[Member, ...]]:
    return {str(name): tuple(Member(**m) for m in members) for name, members in data.items()}


def with_content(source: Source) -> Source:
    """Return a CUDA source with its file's present text; any other source as it is."""
    return replace(source, content=_read_source(source)) if source.kind == "cuda" else source


def prepare(source: Source, arch: str) -> CompileJob:
    """Read a source; return the job for ``arch``, or for the nearest that the tools support."""
    _check_architecture(arch)
    states = FileStates(tools.versioned_folders(), tools.toolkit_folders())
    job = CompileJob(source, _read_source(source), arch, states)
    if confining() is not None:
        _ = job.closure  # raises if an include leads out of the folder
    if not legacy(arch) or source.kind == "cubin":
        return job
    nvrtc, nvcc = (toolchains.find(name, source.toolchain) for name in ("nvrtc", "nvcc"))
    makes = source.kind == "cuda" and toolchains.knows_legacy(nvrtc or nvcc)
    if (makes or tools.find_older("ptxas", 13)) and tools.find_older("nvdisasm", 13):
        return job
    note = Assumption(f"compiled for {_TURING}: no tool for {arch} is installed")
    return replace(job, arch=_TURING, notes=(note,))


def _build(job: CompileJob, inputs: Inputs) -> Binary:
    source, files = job.source, job.files(inputs)
    made = modules.module(job, inputs)
    cubin = Cubin(made.cubin, str(source.path))
    kernel = made.kernel
    if kernel not in cubin.kernels():
        hint = modules.template_hint(files) if source.kind == "cuda" else ""
        kernel = names.choose(source.kernel, cubin.kernels(), str(source.path), hint)
    alone = source.kind == "cubin"
    binary = _describe(cubin, made, kernel, made.arch or cubin.arch, alone=alone)
    return replace(
        binary,
        parameters=_parameters(job, inputs, cubin, kernel, _ptx_by_kernel(cubin, made.ptx)[kernel]),
        files=_mentioned_files(binary.listing, files),
        assumptions=(*job.notes, *made.assumptions),
    ).with_digest()


def _parameters(
    job: CompileJob, inputs: Inputs, cubin: Cubin, kernel: str, ptx: str | None
) -> tuple[Parameter, ...]:
    sources = job.texts(inputs) if job.source.kind != "cubin" else []
    known = signature.parameters(kernel, cubin.parameters(kernel), sources, ptx)
    if job.source.kind == "cuda" and layout.is_incomplete(known):
        debug = layout.parameters(modules.debug_information(job, inputs, kernel), kernel)
        known = layout.complete(known, debug)
    return signature.number_packs(known)


def parameters(source: Source, arch: str) -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of all kernels of a file, by mangled name.

    The file is compiled or taken apart once, and not disassembled.
    """
    if source.kind != "cubin":
        return _repeat_until_unchanged(source, arch, _module_with_parameters)[1]
    job = prepare(source, arch)
    known: dict[str, tuple[Parameter, ...]] = {}
    with containers.open_members(source.path, job.content) as members:
        for member in members:
            if not member.ptx:
                content = member.path.read_bytes()
                known = {**_all_parameters(job, job.inputs(), content, None), **known}
            elif not known.keys() >= set(member.kernels(str(source.path))):
                assembly = modules.assembly(member, str(source.path), str(member.arch))
                inputs = assembly.inputs()
                made = modules.module(assembly, inputs)
                known = {**_all_parameters(job, inputs, made.cubin, made.ptx), **known}
    return known


def explain_templates(source: Source) -> str:
    """Return :func:`~perfassert.frontends.toolchain.modules.template_hint` of a CUDA source."""
    job = prepare(source, "sm_80")
    return modules.template_hint(job.files(job.inputs()))


def _module_with_parameters(
    job: CompileJob,
) -> tuple[CompiledModule, dict[str, tuple[Parameter, ...]]]:
    """Compile a source, a second time where the parameters need it."""
    inputs = job.inputs()
    made = modules.module(job, inputs)
    return made, _all_parameters(job, inputs, made.cubin, made.ptx)


def _all_parameters(
    job: CompileJob, inputs: Inputs, content: bytes, ptx: str | None
) -> dict[str, tuple[Parameter, ...]]:
    cubin = Cubin(content, str(job.source.path))
    texts = _ptx_by_kernel(cubin, ptx)
    return {kernel: _parameters(job, inputs, cubin, kernel, text) for kernel, text in texts.items()}


def _ptx_by_kernel(cubin: Cubin, ptx: str | None) -> dict[str, str | None]:
    """Return the PTX that names each kernel's parameters: the compiler's, else the embedded one.

    A linked module embeds one PTX text for each of its parts.
    """
    texts: dict[str, str | None] = dict.fromkeys(cubin.kernels(), ptx)
    for text in cubin.ptx().values() if ptx is None else ():
        texts.update((name, text) for name in containers.entries(text) if name in texts)
    return texts


def from_compiler(
    made: CompiledModule,
    where: str,
    arch: str,
    parameters: Callable[[Layout], tuple[Parameter, ...]],
) -> Binary:
    """Make a binary from a module that another compiler made; ``where`` names it in errors.

    ``parameters`` gets offset and size of each parameter in bytes, and returns named ones.
    """
    _check_architecture(arch)
    cubin = Cubin(made.cubin, where)
    kernel = names.choose(made.kernel, cubin.kernels(), where)
    binary = _describe(cubin, made, kernel, arch, alone=False)
    places = (Path(name) for name in listing.mentioned_files(binary.listing))
    files = {path: read_bytes(path) for path in places if path.is_file() and may_be_shown(path)}
    return replace(
        binary,
        parameters=parameters(cubin.parameters(kernel)),
        files=_mentioned_files(binary.listing, files),
        assumptions=made.assumptions,
    ).with_digest()


def _describe(cubin: Cubin, made: CompiledModule, kernel: str, arch: str, *, alone: bool) -> Binary:
    """Make a binary with what the cubin states; the caller adds parameters and files."""
    nvdisasm = _disassembler(arch)
    base = cubin.parameter_base(kernel)
    return Binary(
        kernel=names.without_parameters(names.demangle(kernel)),
        mangled=kernel,
        arch=arch,
        listing=listing.disassemble(nvdisasm, cubin, made.cubin, kernel, alone=alone),
        registers=cubin.registers(kernel),
        shared_bytes=cubin.shared_bytes(kernel),
        local_bytes=cubin.local_bytes(kernel),
        parameter_base=parameter_base(arch) if base is None else base,
        parameters=(),
        constants=cubin.constants(kernel),
        unset=tuple(Unset(*facts) for facts in cubin.unset_symbols()),
        valued=tuple(Unset(*facts) for facts in cubin.valued_symbols()),
        variables=tuple(Unset(*facts) for facts in cubin.variables(kernel)),
        limits=LaunchLimits(
            cubin.max_threads(kernel), cubin.required_block(kernel), cubin.cluster(kernel)
        ),
        code_bytes=_code_bytes(cubin, kernel),
        files={},
        tools=", ".join((*made.tools, str(nvdisasm))),
    )


def _check_architecture(arch: str) -> None:
    if number(arch) < _OLDEST:
        raise KernelSourceError(
            f"compiled code cannot be predicted on {arch}: no current tool knows it and its "
            "encoding differs; describe the kernel with Kernel.from_accesses or "
            "Kernel.from_graph, or predict on a device of sm_70 or later"
        )


def _disassembler(arch: str) -> tools.Tool:
    if not legacy(arch):
        return tools.need("nvdisasm")
    nvdisasm = tools.find_older("nvdisasm", 13)
    if nvdisasm is None:
        raise ToolchainMissing(
            f"no installed nvdisasm knows {arch}; that of CUDA 12 does: pip install 'triton<3.6'"
        )
    return nvdisasm


def _read_source(source: Source) -> bytes:
    """Check the source's fields and read its file."""
    if source.kind not in ("cuda", "ptx", "cubin", "sass"):
        raise KernelSourceError(f"{source.kind!r} is no kind of source: cuda, ptx, cubin or sass")
    if source.kind != "cuda" and (source.defines or source.include_dirs):
        raise KernelSourceError(f"{source.path}: defines and include_dirs need CUDA source")
    if source.toolchain is not None:
        toolchains.release_of(source.toolchain)
        if source.kind == "sass":
            raise KernelSourceError(f"{source.path}: a toolchain needs a source that is compiled")
    if source.kind in ("cubin", "sass") and source.options:
        raise KernelSourceError(f"{source.path}: options need a source that is compiled")
    try:
        content = read_bytes(source.path) if source.content is None else source.content
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise KernelSourceError(f"{source.path} cannot be read: {why}") from None
    if source.kind == "ptx":
        content = content.rstrip(b"\0")  # a compiler's library ends strings by NUL
    if source.kind != "cubin" and b"\0" in content:
        raise KernelSourceError(
            f"{source.path} is no text: it has a NUL byte, as in UTF-16; save it as UTF-8"
        )
    return content


def _mentioned_files(text: str, files: Mapping[Path, bytes]) -> dict[str, str]:
    """Return the user's files that the listing mentions, as the name in the listing → text."""
    known = {os.path.realpath(path): content for path, content in files.items()}
    return {
        name: modules.one_line_ends(known[real].decode(errors="replace"))
        for name in sorted(listing.mentioned_files(text))
        if (real := os.path.realpath(name)) in known
    }


def _code_bytes(cubin: Cubin, kernel: str) -> int:
    section = cubin.section(f".text.{kernel}")
    return section.size if section else 0


__all__ = ["Binary", "Parameter", "Source", "build", "to_fixture"]
