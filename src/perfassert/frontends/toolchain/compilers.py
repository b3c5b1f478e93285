"""Compilation of CUDA C++ and PTX to a cubin, by NVRTC, nvcc or ptxas."""

from __future__ import annotations

import json
import logging
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, ToolchainMissing, close_matches
from perfassert.source import Assumption, SourceSpan, encode_file_name
from perfassert.system.confined import holds_more_than_sources, is_source

from . import cache, dialects, options, toolchains, tools
from .architecture import (
    Architecture,
    architecture,
    assembled_for,
    best_code,
    best_ptx,
    legacy,
    own_features,
)
from .binary import Source
from .diagnostics import failure
from .dialects import MayDiffer
from .inputs import Inputs, remember
from .names import (
    check_template_name,
    demangle,
    split_commas,
    without_addresses,
    without_parameters,
)
from .nvcc import INSTANCE, Compilation, Product, compile_with_nvcc, preprocessor
from .signature import GlobalFunction, global_functions

LOG = logging.getLogger("perfassert.toolchain")
_FOR_NVCC_ALONE = ("-U", "--compiler-options", "--compiler-bindir")
"""Options that change what nvcc reads, and that NVRTC does not accept."""
_WORKER = Path(__file__).with_name("nvrtc_worker.py")
_NAME_MAP = "__nv_name_map"  # the file name under which NVRTC complains about name expressions
_VOLTA = "compute_75"  # the oldest PTX that current compilers make
_OWN_FEATURES = re.compile(
    r"\b(?:wgmma|tcgen05|setmaxnreg|block_scale)\b"
    r"|__CUDA_ARCH_(?:FEAT_SM\w+|SPECIFIC__|FAMILY_SPECIFIC__)"
)
_DEBUGGED = ("--device-debug",)
_DEBUG_LIMIT = 20.0  # seconds; types are worth no longer wait
_UNWRITABLE = re.compile(r"\(anonymous|\{|\[abi:|\b__nv_")  # names that only compilers can write
_OF_A_HOST = re.compile(
    r"unrecognized option|function without execution space annotations|"
    r"is not supported when compiling with NVRTC"  # headers of CCCL that include those of a host
)
_COMPILED_BY_NVRTC = (
    "compiled by NVRTC: nvcc, which reads the host's headers first, may make other code of it; {}"
)
_HOST_TEXT = re.compile(
    r"<<<|\bmain\s*\(|#\s*include\s*<(?:std\w+\.h|(?:math|assert|string|float|limits|errno|time)\.h"
    r"|[a-z_]+|c\w+|cuda_runtime(?:_api)?\.h|cuda\.h|sys/.*)>"
)


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """A compiled module: machine code and PTX of all its kernels.

    ``kernel`` is the mangled name if the compiler knows which kernel is meant. ``arch`` is the
    architecture of the machine code.
    """

    cubin: bytes
    ptx: str | None
    tools: tuple[str, ...]
    kernel: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    arch: str = ""


@dataclass(frozen=True)  # without slots: headers are decoded once
class _NvrtcProgram:
    """A CUDA source with its files, and the private folder in which it is compiled."""

    source: Source
    files: Mapping[Path, bytes]
    folder: Path
    inputs: Inputs

    @property
    def content(self) -> bytes:
        """Text of the source without a byte-order mark, which NVRTC would compile as code."""
        return self.files[self.source.path.resolve()].removeprefix(BOM_UTF8)

    @cached_property
    def texts(self) -> list[str]:
        """Texts of the source and its headers."""
        return [content.decode(errors="replace") for content in self.files.values()]

    @cached_property
    def of_host(self) -> bool:
        """True if any text contains host code."""
        return any(map(_HOST_TEXT.search, self.texts))

    @cached_property
    def preamble(self) -> dialects.Preamble:
        """Macros and names that nvcc reads before the source.

        Raises :class:`MayDiffer` if nvcc cannot be asked.
        """
        return _read_preamble(self)

    @cached_property
    def wanted(self) -> str | None:
        """Instance of a template that is requested, if any."""
        return expression(self.source.kernel, self.texts)

    def readable(self) -> tuple[str, ...]:
        """Folders that a compiler must read: from options, the environment, and followed headers.

        For a folder that also holds other files, such as the user's own, only the headers are
        listed.
        """
        paths = [*options.search_dirs(self.source), *tools.header_folders()]
        for path in filter(is_source, self.files):
            paths += [path.parent, path.resolve().parent, path]
        return tuple(
            dict.fromkeys(str(path) for path in paths if not holds_more_than_sources(path))
        )

    def unread(self) -> str:
        """Reason why NVRTC cannot read a header, or ``""``.

        The reason is a byte-order mark, or a name that NVRTC does not escape.
        """
        source = self.source.path.resolve()
        for path, text in self.files.items():
            if path != source and text.startswith(BOM_UTF8):
                return f"{path.name} begins with the mark of its encoding"
            if path != source and encode_file_name(str(path)) != str(path):
                return f"{path} has letters that NVRTC does not escape"
        return ""

    def log(self, text: str) -> str:
        """Return a compiler's output with the real names of files."""
        names = {encode_file_name(str(path)): str(path) for path in self.files}
        for encoded, name in names.items():
            text = text if encoded == name else text.replace(encoded, name)
        return text


def from_cuda(
    source: Source, files: Mapping[Path, bytes], arch: str, folder: Path, inputs: Inputs
) -> CompiledModule:
    """Compile a source as nvcc would, since nvcc makes the code that users run.

    NVRTC takes a third of the time. It compiles sources for which it is known to make the same code
    (:mod:`.dialects`). NVRTC also compiles, with an assumption that says so, if nvcc or a host
    compiler is missing or rejects the source. If the options ask for PTX only, ptxas assembles the
    PTX for ``arch``, as a driver would.
    """
    program = _NvrtcProgram(source, files, folder, inputs)
    nvrtc, nvcc = toolchains.compilers(source.toolchain)
    goal, real = _goal(source, program.texts, architecture(arch))
    by_way = legacy(str(real)) and not toolchains.knows_legacy(nvrtc or nvcc)
    product = _VOLTA if by_way else str(real) if goal == real else goal.virtual
    if nvcc is None or not _has_host_compiler(source):
        made = _without_host_compiler(nvrtc, nvcc, program, product)
    elif nvrtc is None:
        made = _with_nvcc(nvcc, program, product)
    else:
        made = _as_nvcc_would(nvrtc, nvcc, program, product)
    if product != str(real):
        made = _assemble_ptx(made, source, str(real), folder)
    return replace(made, arch=str(real))


def _without_host_compiler(
    nvrtc: tools.Tool | None, nvcc: tools.Tool | None, program: _NvrtcProgram, arch: str
) -> CompiledModule:
    """Compile with NVRTC, and state the assumption that nvcc would make the same code."""
    made = None
    if nvrtc is not None:
        made = _with_nvrtc(nvrtc, program, arch, nvcc is None)
    if made is None:
        assert nvcc is not None
        return _with_nvcc(nvcc, program, arch)
    missing = "a C++ compiler" if nvcc else "nvcc and a C++ compiler"
    return _add_note(made, program, _COMPILED_BY_NVRTC.format(f"install {missing}"))


def _as_nvcc_would(
    nvrtc: tools.Tool, nvcc: tools.Tool, program: _NvrtcProgram, arch: str
) -> CompiledModule:
    """Compile with NVRTC if its code cannot differ from nvcc's, else with nvcc."""
    try:
        check = _check_of(nvrtc, nvcc, program)
        made = _with_nvrtc(nvrtc, program, arch, False, check)
        if made is not None:
            return made
    except MayDiffer as difference:
        LOG.debug("%s: nvcc compiles it: %s", program.source.path, difference)
    try:
        return _with_nvcc(nvcc, program, arch)
    except tools.TooSlow:
        raise
    except KernelSourceError as refused:
        why = str(refused).splitlines()[0]
        try:
            made = _with_nvrtc(nvrtc, program, arch, True)
        except KernelSourceError:
            raise refused from None
        assert made is not None
        return _add_note(made, program, _COMPILED_BY_NVRTC.format(f"nvcc does not take it: {why}"))


def _add_note(made: CompiledModule, program: _NvrtcProgram, text: str) -> CompiledModule:
    note = Assumption(text, SourceSpan(str(program.source.path)))
    return replace(made, assumptions=(*made.assumptions, note))


def _check_of(nvrtc: tools.Tool, nvcc: tools.Tool, program: _NvrtcProgram) -> str:
    """Return a header with which NVRTC accepts a source only if nvcc makes the same code of it.

    Raises:
        MayDiffer: the codes may differ, so NVRTC need not run.
    """
    source = program.source
    parsed = options.parse(source)
    if nvrtc.release() != nvcc.release():
        raise MayDiffer(f"{nvrtc} and {nvcc} are of different releases")
    if why := program.unread():
        raise MayDiffer(why)
    for option in (*(o for o in parsed if o.name in _FOR_NVCC_ALONE), *tools.added_flags()):
        raise MayDiffer(f"{option} is an option for nvcc alone")
    macros = [str(o) for o in parsed if o.name == "-D"] + options.definitions(source.defines)
    words = dialects.read_words(program.files, options.search_dirs(source), macros)
    preamble = program.preamble
    dialects.find_difference(words, preamble)
    given = {re.split(r"\W", macro[2:], maxsplit=1)[0] for macro in macros}
    return dialects.write_check(words, preamble, given)


def _read_preamble(program: _NvrtcProgram) -> dialects.Preamble:
    """Return what nvcc reads before a source's first line, with nvcc's own options.

    One architecture suffices: its macros are the same in both compilers.

    Raises:
        MayDiffer: nvcc cannot be asked.
    """
    nvcc = toolchains.find("nvcc", program.source.toolchain)
    assert nvcc is not None
    asked = options.for_preprocessing(program.source)
    inputs = program.inputs.begin_part()

    def make() -> dialects.Preamble:
        try:
            return _ask_for_preamble(nvcc, program, asked, inputs)
        except (KernelSourceError, ToolchainMissing) as error:
            raise MayDiffer(str(error)) from None

    compiler = str(tools.host_compiler())
    key = cache.key(["preamble", str(nvcc), compiler, *asked, *tools.identity()])
    return remember(
        key,
        inputs,
        make,
        dialects.preamble_from_json,
        dialects.preamble_to_json,
        program.inputs,
    )


def _ask_for_preamble(
    nvcc: tools.Tool, program: _NvrtcProgram, asked: Sequence[str], inputs: Inputs
) -> dialects.Preamble:
    system = _headers_of_nvcc(nvcc, program.source)
    empty = program.folder / "empty.cu"
    empty.touch()
    host = options.HostArguments(tuple(word for f in system for word in ("-isystem", f)))
    compilation = Compilation(
        nvcc, empty, _VOLTA, program.folder, tuple(asked), host, reads=tuple(system)
    )
    own = (Path(nvcc.path).resolve().parent.parent, *map(Path, system))
    preprocess = preprocessor(compilation)
    text = preprocess("-dD", inputs)
    preamble, macros = dialects.read_preamble(text, [str(f.resolve()) for f in own])
    empty.write_text(dialects.write_expansions(macros))
    expanded = preprocess("", None)  # expanded behind the same headers
    return replace(preamble, macros=dialects.read_expansions(expanded, macros))


def _has_host_compiler(source: Source) -> bool:
    named = any(option.name == "--compiler-bindir" for option in options.parse(source))
    return named or tools.host_compiler() is not None


def with_debug_information(
    source: Source, files: Mapping[Path, bytes], arch: str, folder: Path, inputs: Inputs
) -> bytes:
    """Compile without optimisation for the debug information about types.

    Returns ``b""`` if no compiler accepts the source.
    """
    program = _NvrtcProgram(source, files, folder, inputs)
    nvrtc, nvcc = toolchains.compilers(source.toolchain)
    made = _nvrtc_debugged(nvrtc, program, arch) if nvrtc and not program.unread() else b""
    if made or nvcc is None or not (program.of_host or program.unread()):
        return made
    return _with_nvcc(nvcc, program, arch, _DEBUGGED, _DEBUG_LIMIT).cubin


def _nvrtc_debugged(nvrtc: tools.Tool, program: _NvrtcProgram, arch: str) -> bytes:
    kept = [o for o in _nvrtc_options(nvrtc, program, arch) if o != "--generate-line-info"]
    response = _ask(nvrtc, program, [*kept, "--device-debug"])
    return b"" if response["status"] else (program.folder / "cubin").read_bytes()


def from_ptx(source: Source, text: str, arch: str, folder: Path) -> CompiledModule:
    """Assemble PTX with ptxas; the target that the PTX states may be older than ``arch``."""
    try:
        ptxas = toolchains.assembler(source.toolchain, legacy(arch))
    except ToolchainMissing as error:
        raise ToolchainMissing(f"{source.path}: PTX is compiled by ptxas, but {error}") from None
    device = architecture(arch)
    real = _requested_code(source, device)
    stated = re.search(r"^[ \t]*\.target\s+(sm_\d{2,4}[af]?)\b", text, re.MULTILINE)
    if stated:
        written = architecture(stated[1])
        if not written.ptx_runs_on(device):
            line = text.count("\n", 0, stated.start(1)) + 1
            later = {"": " or later", "f": " and its family"}.get(written.suffix, " alone")
            raise KernelSourceError(
                f"{source.path}:{line}: the PTX is for {written}{later}; the device is {arch}"
            )
        real = real or assembled_for(written, device)
    cubin = _assemble(
        ptxas, text, str(real or device), options.for_ptxas(source), str(source.path), folder
    )
    return CompiledModule(cubin, text, (str(ptxas),), arch=str(real or device))


def _goal(
    source: Source, texts: Sequence[str], device: Architecture
) -> tuple[Architecture, Architecture]:
    """Return the architecture to compile for, and the one to assemble for; mostly the same.

    Options decide. Without options it is the device's, with its ``a`` suffix if a text needs that.
    """
    asked = options.targets(source)
    if not asked:
        target = own_features(device) if any(map(_OWN_FEATURES.search, texts)) else device
        return target, target
    if real := _requested_code(source, device):
        virtual = next(target.virtual for target in asked if target.real == real)
        return (virtual, real) if virtual.number != real.number else (real, real)
    ptx = best_ptx([target.virtual for target in asked if target.real is None], device)
    if ptx is None:
        listed = ", ".join(str(t.real or t.virtual.virtual) for t in asked)
        raise KernelSourceError(
            f"{source.path}: the options compile for {listed}; none of it runs on {device}"
        )
    return ptx, assembled_for(ptx, device)


def _requested_code(source: Source, device: Architecture) -> Architecture | None:
    """Return the machine code that the device loads, among those the options ask for."""
    return best_code((t.real for t in options.targets(source) if t.real), device)


def expression(kernel: str | None, texts: Iterable[str]) -> str | None:
    """Return the expression that instantiates the template ``kernel``; ``None`` for no template.

    Missing namespaces are filled in if only one template among ``texts`` fits.
    """
    name = without_addresses(without_parameters(demangle(kernel))) if kernel else ""
    if "<" not in name or _UNWRITABLE.search(name):
        return None
    check_template_name(name)
    base = name.split("<", 1)[0].strip()
    known = {function.name for function in declarations(texts) if function.template}
    fits = [function for function in known if f"::{function}".endswith(f"::{base}")]
    return fits[0] + name[len(base) :] if len(fits) == 1 else name


def _with_nvrtc(
    nvrtc: tools.Tool, program: _NvrtcProgram, arch: str, last: bool, check: str = ""
) -> CompiledModule | None:
    """Compile with NVRTC; return ``None`` if nvcc should compile, unless NVRTC is the ``last``.

    ``check`` is a header that NVRTC reads first. If it does not compile, or if NVRTC prints any
    warning, nvcc should compile.
    """
    source, folder, wanted = program.source, program.folder, program.wanted
    words = _nvrtc_options(nvrtc, program, arch)
    if check:
        (folder / dialects.CHECK).write_text(check)
        words.append(f"--pre-include={folder / dialects.CHECK}")
    response = _ask(nvrtc, program, words)
    log = program.log(response["log"])
    if response["status"]:
        if not (program.of_host or _OF_A_HOST.search(log) or dialects.CHECK in log):
            raise _explain_failure(log, program)
        if not last:
            return None
        why = failure("NVRTC", log, str(source.path))
        raise KernelSourceError(
            f"{why}\nNVRTC compiles device code only: move the kernel to a file without host "
            "headers and host code, or install nvcc"
        )
    if check and "warning" in log:  # e.g. of undefined behaviour
        return None
    ptx, cubin = (folder / "ptx", folder / "cubin")
    return CompiledModule(
        cubin.read_bytes() if cubin.exists() else b"",
        ptx.read_text(errors="replace"),
        (str(nvrtc),),
        response["lowered"].get(wanted) if wanted else None,
    )


def _nvrtc_options(nvrtc: tools.Tool, program: _NvrtcProgram, arch: str) -> list[str]:
    source = program.source
    folders = [*map(str, options.search_dirs(source)), *_own_headers(nvrtc, source)]
    return [
        f"--gpu-architecture={arch}",
        "--generate-line-info",
        *options.for_nvrtc(source),
        *options.definitions(source.defines),
        *(f"-I{folder}" for folder in folders),
    ]


def _own_headers(nvrtc: tools.Tool, source: Source) -> tuple[str, ...]:
    return tools.include_dirs() if source.toolchain is None else tools.headers_of(nvrtc)


def _ask(nvrtc: tools.Tool, program: _NvrtcProgram, words: Sequence[str]) -> dict[str, Any]:
    """Return the answer of NVRTC's worker for the text that the cache key was made of."""
    folder, path = program.folder, program.source.path
    copy = folder / "source.cu"
    copy.write_bytes(program.content)
    request = {
        "library": nvrtc.path,
        "name": encode_file_name(str(path.resolve())),
        "source": str(copy),
        "options": list(words),
        "expressions": [program.wanted] if program.wanted else [],
        "out": str(folder),
    }
    run = tools.run_tool(
        "NVRTC",
        [str(_WORKER)],
        script=True,
        folder=folder,
        reads=(*program.readable(), *_own_headers(nvrtc, program.source), *_library_folders(nvrtc)),
        stdin=json.dumps(request),
        inputs=program.inputs,
    )
    try:
        response: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        why = run.log.splitlines()[-1:] or [f"it ended with status {run.status}"]
        raise KernelSourceError(f"{path}: NVRTC broke off: {why[0]}") from None
    return response


def _library_folders(tool: tools.Tool) -> tuple[str, ...]:
    """Return the folders of a library's own files, with links followed and not."""
    return tuple({str(Path(path).parent) for path in (tool.path, os.path.realpath(tool.path))})


def _explain_failure(log: str, program: _NvrtcProgram) -> KernelSourceError:
    """Return the error: an unknown kernel for a failed name expression, else the compiler's."""
    error = failure("NVRTC", log, str(program.source.path))
    if program.wanted is None or not str(error).startswith(_NAME_MAP):
        return error
    reason = str(error).split("\n", 1)[0].split(": ", 1)[-1]
    return _unknown_kernel(program, f" ({reason})")


def _unknown_kernel(program: _NvrtcProgram, reason: str = "") -> KernelSourceError:
    source, declared = program.source, declarations(program.texts)
    asked = str(source.kernel)
    base, _, arguments = asked.strip().removesuffix(">").partition("<")
    given = split_commas(arguments) if arguments else []
    as_asked = f"{base}<{', '.join(given)}>"
    instances = {one.name: one.instance(given) for one in declared}
    known = {name: one for name, one in instances.items() if one not in ("", as_asked)}
    near = close_matches(base, known, known)
    listed = ", ".join(map(str, declared)) or "none"
    return KernelSourceError(f"no kernel {asked!r}: {source.path} has: {listed}{near}{reason}")


def declarations(texts: Iterable[str]) -> list[GlobalFunction]:
    """Return the kernels that the texts declare."""
    return [function for text in texts for function in global_functions(text)]


def _with_nvcc(
    nvcc: tools.Tool,
    program: _NvrtcProgram,
    arch: str,
    lines: Sequence[str] = ("-lineinfo",),
    limit: float | None = None,
) -> CompiledModule:
    """Compile with nvcc; a variable with the kernel's address instantiates a template."""
    source, folder, wanted = program.source, program.folder, program.wanted
    path, content = source.path.resolve(), source.content
    if content is not None:
        folders = (str(path.parent), *source.include_dirs) if path.parent.is_dir() else ()
        source = replace(source, include_dirs=folders or source.include_dirs)
        path = folder / source.path.name
        path.write_bytes(content)
    system = _headers_of_nvcc(nvcc, source)
    instance = f"static const void* perfassert_kernel = (const void*)&{wanted};\n"
    compilation = Compilation(
        nvcc,
        path,
        arch,
        folder,
        options=(*lines, *options.for_nvcc(source)),
        host=options.for_host(source, system),
        appended=instance if wanted else "",
        reads=(*program.readable(), *system),
        inputs=program.inputs,
    )
    product = compile_with_nvcc(compilation, limit)
    if not product.code:
        error = failure("nvcc", program.log(product.log), str(source.path))
        raise _unknown_kernel(program) if str(error).startswith(str(folder / INSTANCE)) else error
    name = str(nvcc) + _host_of(product)
    if arch.startswith("compute"):
        return CompiledModule(b"", product.code.decode(errors="replace"), (name,))
    return CompiledModule(product.code, None, (name,))


def _host_of(product: Product) -> str:
    """Return ``" with gcc 12.2"``, or nothing if the host's compiler cannot be asked."""
    path = product.preprocessor
    if not path:
        return ""
    key = cache.key(["host compiler", tools.Tool("host compiler", path).identity()])
    try:
        name = cache.remember(
            key, lambda: dialects.host_compiler_name(tools.predefined_macros(path)), str, str
        )
    except (KernelSourceError, ToolchainMissing):
        return ""
    return f" with {name}"


def _headers_of_nvcc(nvcc: tools.Tool, source: Source) -> tuple[str, ...]:
    """Return the include folders that nvcc must be given; nvcc from a wheel knows only its own."""
    if nvcc.version is None:
        return ()
    return tools.wheel_include_dirs() if source.toolchain is None else tools.headers_of(nvcc)


def _assemble_ptx(made: CompiledModule, source: Source, arch: str, folder: Path) -> CompiledModule:
    """Assemble PTX that a compiler made.

    The PTX for Volta has its header rewritten in place for a ptxas of CUDA 12; line numbers stay.
    """
    ptx, notes = made.ptx or "", made.assumptions
    ptxas = toolchains.assembler(source.toolchain, legacy(arch))
    if legacy(arch):
        ptx = re.sub(r"^\.version .*$", ".version 8.0", ptx, count=1, flags=re.MULTILINE)
        ptx = re.sub(r"^\.target .*$", f".target {arch}", ptx, count=1, flags=re.MULTILINE)
        note = f"compiled for {arch} by way of PTX for {_VOLTA}: {ptxas} assembled it"
        notes = (*notes, Assumption(note))
    parsed = options.parse(source)
    kept = tuple(str(o) for o in parsed if o.name in ("--maxrregcount", "--ptxas-options"))
    flags = options.for_ptxas(Source(source.path, "ptx", options=kept))
    cubin = _assemble(ptxas, ptx, arch, flags, str(source.path), folder)
    return replace(made, cubin=cubin, ptx=ptx, tools=(*made.tools, str(ptxas)), assumptions=notes)


def _assemble(
    ptxas: tools.Tool, text: str, arch: str, flags: Sequence[str], where: str, folder: Path
) -> bytes:
    given, out = folder / "module.ptx", folder / "module.cubin"
    given.write_text(text, newline="\n")
    command = [ptxas.path, "-lineinfo", f"-arch={arch}", *flags, str(given), "-o", str(out)]
    memory = tools.reading_memory(len(text))
    run = tools.run_tool("ptxas", command, folder=folder, memory=memory)
    if run.status or not out.exists():
        log = run.log.replace(str(given), where)
        if "option 'gpu-name'" in log:
            raise ToolchainMissing(
                f"{where}: {ptxas} does not know {arch}; install a newer one: pip install -U "
                "nvidia-cuda-nvcc"
            )
        error = failure("ptxas", log, where, {where: text})
        newer = "\ninstall a newer ptxas: pip install -U nvidia-cuda-nvcc"
        raise KernelSourceError(f"{error}{newer}") if "Unsupported .version" in log else error
    return out.read_bytes()
