"""CUDA C++ and PTX → a cubin, by NVRTC, nvcc or ptxas."""

from __future__ import annotations

import json
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

from . import options, toolchains, tools
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
from .inputs import Inputs
from .names import check_template_name, demangle, without_addresses, without_parameters
from .nvcc import INSTANCE, Compilation, compile_with_nvcc
from .signature import global_functions

_WORKER = Path(__file__).with_name("nvrtc_worker.py")
_NAME_MAP = "__nv_name_map"  # the file name under which NVRTC complains about name expressions
_VOLTA = "compute_75"  # the oldest PTX that current compilers make
_OWN_FEATURES = re.compile(
    r"\b(?:wgmma|tcgen05|setmaxnreg|block_scale)\b"
    r"|__CUDA_ARCH_(?:FEAT_SM\w+|SPECIFIC__|FAMILY_SPECIFIC__)"
)
_DEBUGGED = ("--device-debug",)
_DEBUG_LIMIT = 20.0  # seconds; types are a help that nobody waits a minute for
_UNWRITABLE = re.compile(r"\(anonymous|\{|\[abi:|\b__nv_")  # names that only compilers give
_OF_A_HOST = re.compile(
    r"unrecognized option|function without execution space annotations|"
    r"is not supported when compiling with NVRTC"  # headers of CCCL that include those of a host
)
_TELLS_COMPILERS_APART = re.compile(
    r"^[ \t]*#[ \t]*(?:el)?if[^\n]*\b(?:__CUDACC_RTC__|__NVCC__)\b", re.MULTILINE
)
_COMPILED_BY_NVRTC = (
    "compiled by NVRTC, and the text tells it from nvcc (__CUDACC_RTC__): what nvcc would compile "
    "may be other code; install nvcc and g++"
)
_HOST_TEXT = re.compile(
    r"<<<|\bmain\s*\(|#\s*include\s*<(?:std\w+\.h|(?:math|assert|string|float|limits|errno|time)\.h"
    r"|[a-z_]+|c\w+|cuda_runtime(?:_api)?\.h|cuda\.h|sys/.*)>"
)


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """One module: machine code and PTX of all kernels in it.

    ``kernel`` is the mangled name, where the compiler itself knows which one is meant.

    ``arch`` is what the machine code is for.
    """

    cubin: bytes
    ptx: str | None
    tools: tuple[str, ...]
    kernel: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    arch: str = ""


@dataclass(frozen=True)  # without slots: headers are decoded once
class _NvrtcProgram:
    """A CUDA source with the files behind it, and the private folder that it is compiled in."""

    source: Source
    files: Mapping[Path, bytes]
    folder: Path
    inputs: Inputs

    @property
    def content(self) -> bytes:
        """The source's text, without the mark of its encoding, which NVRTC takes for code."""
        return self.files[self.source.path.resolve()].removeprefix(BOM_UTF8)

    @cached_property
    def texts(self) -> list[str]:
        """Of the source and its headers."""
        return [content.decode(errors="replace") for content in self.files.values()]

    @cached_property
    def wanted(self) -> str | None:
        """The instance of a template that is asked for, if one is."""
        return expression(self.source.kernel, self.texts)

    def readable(self) -> tuple[str, ...]:
        """Folders that a compiler needs: of options, of the environment, of headers followed."""
        folders = [*options.search_dirs(self.source), *tools.header_folders()]
        for path in self.files:
            if is_source(path):
                folders += [path.parent, path.resolve().parent]
        return tuple(dict.fromkeys(str(f) for f in folders if not holds_more_than_sources(f)))

    @cached_property
    def needs_nvcc(self) -> bool:
        """Whether NVRTC would compile something else, or cannot read a header: for the mark of its
        encoding, or for a name that it does not escape."""
        source = self.source.path.resolve()
        unread = any(
            text.startswith(BOM_UTF8) or encode_file_name(str(path)) != str(path)
            for path, text in self.files.items()
            if path != source
        )
        return unread or any(map(_TELLS_COMPILERS_APART.search, self.texts))

    def log(self, text: str) -> str:
        """What a compiler prints, with the names that files have."""
        names = {encode_file_name(str(path)): str(path) for path in self.files}
        for encoded, name in names.items():
            text = text if encoded == name else text.replace(encoded, name)
        return text


def from_cuda(
    source: Source, files: Mapping[Path, bytes], arch: str, folder: Path, inputs: Inputs
) -> CompiledModule:
    """Compiles with NVRTC; with nvcc where the file has host code or NVRTC is missing, and where
    the text asks which of the two it is: production is built by nvcc.

    Where the options ask for PTX only, ptxas assembles it for ``arch`` as a driver would.
    """
    program = _NvrtcProgram(source, files, folder, inputs)
    nvrtc, nvcc = toolchains.compilers(source.toolchain)
    goal, real = _goal(source, program.texts, architecture(arch))
    by_way = legacy(str(real)) and not toolchains.knows_legacy(nvrtc or nvcc)
    product = _VOLTA if by_way else str(real) if goal == real else goal.virtual
    notes: tuple[Assumption, ...] = ()
    made = None
    if program.needs_nvcc and nvrtc is not None:
        if nvcc is None or not _has_host_compiler(source):
            notes = (Assumption(_COMPILED_BY_NVRTC, SourceSpan(str(source.path))),)
        else:
            nvrtc = None
    if nvrtc is not None:
        made = _with_nvrtc(nvrtc, program, product, nvcc is None)
    if made is None and nvcc is not None:
        made = _with_nvcc(nvcc, program, product)
    if made is None:
        raise AssertionError("one of the two exists")
    if product != str(real):
        made = _assemble_ptx(made, source, str(real), folder)
    return replace(made, arch=str(real), assumptions=(*made.assumptions, *notes))


def _has_host_compiler(source: Source) -> bool:
    named = any(option.name == "--compiler-bindir" for option in options.parse(source))
    return named or tools.host_compiler() is not None


def with_debug_information(
    source: Source, files: Mapping[Path, bytes], arch: str, folder: Path, inputs: Inputs
) -> bytes:
    """The same without optimisation, for what the compiler then says about types; ``b""`` where
    no compiler takes it."""
    program = _NvrtcProgram(source, files, folder, inputs)
    nvrtc, nvcc = toolchains.compilers(source.toolchain)
    made = _nvrtc_debugged(nvrtc, program, arch) if nvrtc and not program.needs_nvcc else b""
    by_nvcc = program.needs_nvcc or any(map(_HOST_TEXT.search, program.texts))
    if made or nvcc is None or not by_nvcc:
        return made
    return _with_nvcc(nvcc, program, arch, _DEBUGGED, _DEBUG_LIMIT).cubin


def _nvrtc_debugged(nvrtc: tools.Tool, program: _NvrtcProgram, arch: str) -> bytes:
    kept = [o for o in _nvrtc_options(nvrtc, program, arch) if o != "--generate-line-info"]
    response = _ask(nvrtc, program, [*kept, "--device-debug"])
    return b"" if response["status"] else (program.folder / "cubin").read_bytes()


def from_ptx(source: Source, text: str, arch: str, folder: Path) -> CompiledModule:
    """Assembles with ptxas; the PTX's own target may be older than ``arch``."""
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
    """What is compiled for, and what that is assembled for: one and the same, as a rule.

    As the options say. Otherwise for the device, with its own features where the text has any.
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
    """The machine code among what the options ask for that the device takes."""
    return best_code((t.real for t in options.targets(source) if t.real), device)


def expression(kernel: str | None, texts: Iterable[str]) -> str | None:
    """What instantiates the template that ``kernel`` names; ``None`` for what is no template.

    Namespaces left out are filled in where only one template among ``texts`` fits.
    """
    name = without_addresses(without_parameters(demangle(kernel))) if kernel else ""
    if "<" not in name or _UNWRITABLE.search(name):
        return None
    check_template_name(name)
    base = name.split("<", 1)[0].strip()
    known = {
        function for text in texts for function, template in global_functions(text) if template
    }
    fits = [function for function in known if f"::{function}".endswith(f"::{base}")]
    return fits[0] + name[len(base) :] if len(fits) == 1 else name


def _with_nvrtc(
    nvrtc: tools.Tool, program: _NvrtcProgram, arch: str, last: bool
) -> CompiledModule | None:
    """``None`` where nvcc should have a go, if this is not the ``last`` compiler there is."""
    source, folder, wanted = program.source, program.folder, program.wanted
    response = _ask(nvrtc, program, _nvrtc_options(nvrtc, program, arch))
    log = program.log(response["log"])
    if response["status"]:
        of_host = any(map(_HOST_TEXT.search, program.texts)) or _OF_A_HOST.search(log)
        if not of_host:
            raise _explain_failure(log, program)
        if not last:
            return None
        why = failure("NVRTC", log, str(source.path))
        raise KernelSourceError(
            f"{why}\nNVRTC compiles device code only: move the kernel to a file without host "
            "headers and host code, or install nvcc"
        )
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
    """What NVRTC's worker answers; it gets the very text that the cache's key is made of."""
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
        reads=(*program.readable(), *_own_headers(nvrtc, program.source), *_beside(nvrtc)),
        stdin=json.dumps(request),
        inputs=program.inputs,
    )
    try:
        response: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        why = run.log.splitlines()[-1:] or [f"it ended with status {run.status}"]
        raise KernelSourceError(f"{path}: NVRTC broke off: {why[0]}") from None
    return response


def _beside(tool: tools.Tool) -> tuple[str, ...]:
    """Folders of a library's own files, wherever a link leads."""
    return tuple({str(Path(path).parent) for path in (tool.path, os.path.realpath(tool.path))})


def _explain_failure(log: str, program: _NvrtcProgram) -> KernelSourceError:
    """A failed name expression is an unknown kernel; all else is the compiler's error."""
    error = failure("NVRTC", log, str(program.source.path))
    if program.wanted is None or not str(error).startswith(_NAME_MAP):
        return error
    reason = str(error).split("\n", 1)[0].split(": ", 1)[-1]
    return _unknown_kernel(program, f" ({reason})")


def _unknown_kernel(program: _NvrtcProgram, reason: str = "") -> KernelSourceError:
    source, declared = program.source, declarations(program.texts)
    asked = str(source.kernel)
    near = close_matches(asked.split("<", 1)[0], {name.split("<", 1)[0] for name in declared})
    listed = ", ".join(declared) or "none"
    return KernelSourceError(f"no kernel {asked!r}: {source.path} has: {listed}{near}{reason}")


def declarations(texts: Iterable[str]) -> list[str]:
    """``["axpy", "star<…>"]``: the kernels that the texts declare."""
    return [
        name + ("<…>" if template else "")
        for text in texts
        for name, template in global_functions(text)
    ]


def _with_nvcc(
    nvcc: tools.Tool,
    program: _NvrtcProgram,
    arch: str,
    lines: Sequence[str] = ("-lineinfo",),
    limit: float | None = None,
) -> CompiledModule:
    """A template is instantiated by a variable that takes its address."""
    source, folder, wanted = program.source, program.folder, program.wanted
    path = source.path.resolve()
    if source.content is not None:
        path = folder / source.path.name
        path.write_bytes(source.content)
    system: Sequence[str] = ()
    if nvcc.version is not None:  # it knows the headers of its own wheel only
        system = tools.wheel_include_dirs() if source.toolchain is None else tools.headers_of(nvcc)
    instance = f"static const void* perfassert_kernel = (const void*)&{wanted};\n"
    product, log = compile_with_nvcc(
        Compilation(
            nvcc,
            path,
            arch,
            folder,
            options=(*lines, *options.for_nvcc(source)),
            host=options.for_host(source, system),
            appended=instance if wanted else "",
            reads=(*program.readable(), *system),
            inputs=program.inputs,
        ),
        limit,
    )
    if not product:
        error = failure("nvcc", program.log(log), str(source.path))
        raise _unknown_kernel(program) if str(error).startswith(str(folder / INSTANCE)) else error
    if arch.startswith("compute"):
        return CompiledModule(b"", product.decode(errors="replace"), (str(nvcc),))
    return CompiledModule(product, None, (str(nvcc),))


def _assemble_ptx(made: CompiledModule, source: Source, arch: str, folder: Path) -> CompiledModule:
    """PTX that a compiler made, as machine code.

    Volta's has its header rewritten in place, so that line numbers stay, for a ptxas of CUDA 12.
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
