"""CUDA C++ and PTX → a cubin, by NVRTC, nvcc or ptxas."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, ToolchainMissing, close_matches
from perfassert.source import Assumption

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
from .names import demangle, without_addresses, without_parameters
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
_OF_A_HOST = re.compile(r"unrecognized option|function without execution space annotations")
_HOST_TEXT = re.compile(
    r"<<<|\bmain\s*\(|#\s*include\s*<(?:std\w+\.h|math\.h|assert\.h|string\.h|[a-z_]+|c\w+"
    r"|cuda_runtime(?:_api)?\.h|cuda\.h|sys/.*)>"
)


@dataclass(frozen=True, slots=True)
class Compiled:
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


def from_cuda(source: Source, files: Mapping[Path, bytes], arch: str, folder: Path) -> Compiled:
    """Compiles with NVRTC; with nvcc where the file has host code or NVRTC is missing.

    Where the options ask for PTX only, ptxas assembles it for ``arch`` as a driver would.
    """
    nvrtc, nvcc = toolchains.compilers(source.toolchain)
    texts = [content.decode(errors="replace") for content in files.values()]
    goal, real = _goal(source, texts, architecture(arch))
    by_way = legacy(str(real)) and not toolchains.knows_legacy(nvrtc or nvcc)
    product = _VOLTA if by_way else str(real) if goal == real else goal.virtual
    wanted = expression(source.kernel, texts)
    made = None
    if nvrtc is not None:
        content = files[source.path.resolve()]
        made = _with_nvrtc(nvrtc, source, content, product, folder, wanted, texts, nvcc is None)
    if made is None and nvcc is not None:
        made = _with_nvcc(nvcc, source, product, folder, wanted, texts)
    if made is None:
        raise AssertionError("one of the two exists")
    if product != str(real):
        made = _assembled(made, source, str(real), folder)
    return replace(made, arch=str(real))


def with_debug_information(
    source: Source, files: Mapping[Path, bytes], arch: str, folder: Path
) -> bytes:
    """The same without optimisation, for what the compiler then says about types; ``b""`` where
    no compiler takes it."""
    nvrtc, nvcc = toolchains.compilers(source.toolchain)
    texts = [content.decode(errors="replace") for content in files.values()]
    wanted = expression(source.kernel, texts)
    content = files[source.path.resolve()]
    made = _nvrtc_debugged(nvrtc, source, content, arch, folder, wanted) if nvrtc else b""
    if made or nvcc is None or not any(map(_HOST_TEXT.search, texts)):
        return made
    return _with_nvcc(nvcc, source, arch, folder, wanted, texts, _DEBUGGED, _DEBUG_LIMIT).cubin


def _nvrtc_debugged(
    nvrtc: tools.Tool, source: Source, content: bytes, arch: str, folder: Path, wanted: str | None
) -> bytes:
    request = _request(nvrtc, source, content, arch, folder, wanted)
    kept = [o for o in request["options"] if o != "--generate-line-info"]
    response = _ask({**request, "options": [*kept, "--device-debug"]}, str(source.path))
    return b"" if response["status"] else (folder / "cubin").read_bytes()


def from_ptx(source: Source, text: str, arch: str, folder: Path) -> Compiled:
    """Assembles with ptxas; the PTX's own target may be older than ``arch``."""
    ptxas = toolchains.assembler(source.toolchain, legacy(arch))
    device = architecture(arch)
    real = _asked(source, device)
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
    return Compiled(cubin, text, (str(ptxas),), arch=str(real or device))


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
    if real := _asked(source, device):
        virtual = next(target.virtual for target in asked if target.real == real)
        return (virtual, real) if virtual.number != real.number else (real, real)
    ptx = best_ptx([target.virtual for target in asked if target.real is None], device)
    if ptx is None:
        listed = ", ".join(str(t.real or t.virtual.virtual) for t in asked)
        raise KernelSourceError(
            f"{source.path}: the options compile for {listed}; none of it runs on {device}"
        )
    return ptx, assembled_for(ptx, device)


def _asked(source: Source, device: Architecture) -> Architecture | None:
    """The machine code among what the options ask for that the device takes."""
    return best_code((t.real for t in options.targets(source) if t.real), device)


def expression(kernel: str | None, texts: Iterable[str]) -> str | None:
    """What instantiates the template that ``kernel`` names; ``None`` for what is no template.

    Namespaces left out are filled in where only one template among ``texts`` fits.
    """
    name = without_addresses(without_parameters(demangle(kernel))) if kernel else ""
    if "<" not in name or _UNWRITABLE.search(name):
        return None
    base = name.split("<", 1)[0].strip()
    known = {found for text in texts for found, template in global_functions(text) if template}
    fits = [found for found in known if f"::{found}".endswith(f"::{base}")]
    return fits[0] + name[len(base) :] if len(fits) == 1 else name


def _with_nvrtc(
    nvrtc: tools.Tool,
    source: Source,
    content: bytes,
    arch: str,
    folder: Path,
    wanted: str | None,
    texts: Sequence[str],
    last: bool,
) -> Compiled | None:
    """``None`` where nvcc should have a go, if this is not the ``last`` compiler there is."""
    request = _request(nvrtc, source, content, arch, folder, wanted)
    response = _ask(request, str(source.path))
    log = response["log"]
    if response["status"]:
        if not (_OF_A_HOST.search(log) or any(map(_HOST_TEXT.search, texts))):
            raise _explained(log, wanted, source, texts)
        if not last:
            return None
        why = failure("NVRTC", log, str(source.path))
        raise KernelSourceError(
            f"{why}\nNVRTC compiles device code only: move the kernel to a file without host "
            "headers and host code, or install nvcc"
        )
    ptx, cubin = (folder / "ptx", folder / "cubin")
    return Compiled(
        cubin.read_bytes() if cubin.exists() else b"",
        ptx.read_text(errors="replace"),
        (str(nvrtc),),
        response["lowered"].get(wanted) if wanted else None,
    )


def _request(
    nvrtc: tools.Tool, source: Source, content: bytes, arch: str, folder: Path, wanted: str | None
) -> dict[str, Any]:
    """What the worker reads; the compiler gets the very text that the cache's key is made of."""
    copy = folder / "source.cu"
    copy.write_bytes(content)
    own = tools.include_dirs() if source.toolchain is None else tools.headers_of(nvrtc)
    dirs = [*map(str, options.search_dirs(source)), *own]
    return {
        "library": nvrtc.path,
        "name": str(source.path.resolve()),
        "source": str(copy),
        "options": [
            f"--gpu-architecture={arch}",
            "--generate-line-info",
            *options.for_nvrtc(source),
            *options.definitions(source.defines),
            *(f"-I{d}" for d in dirs),
        ],
        "expressions": [wanted] if wanted else [],
        "out": str(folder),
    }


def _ask(request: Mapping[str, Any], where: str) -> dict[str, Any]:
    """One run of the worker."""
    command = [sys.executable, "-I", str(_WORKER)]
    run = tools.run_tool("NVRTC", command, stdin=json.dumps(request))
    try:
        response: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        why = run.log.splitlines()[-1:] or [f"it ended with status {run.status}"]
        raise KernelSourceError(f"{where}: NVRTC broke off: {why[0]}") from None
    return response


def _explained(
    log: str, wanted: str | None, source: Source, texts: Sequence[str]
) -> KernelSourceError:
    """A failed name expression is an unknown kernel; all else is the compiler's error."""
    error = failure("NVRTC", log, str(source.path))
    if wanted is None or not str(error).startswith(_NAME_MAP):
        return error
    reason = str(error).split("\n", 1)[0].split(": ", 1)[-1]
    return _unknown(source, texts, f" ({reason})")


def _unknown(source: Source, texts: Sequence[str], reason: str = "") -> KernelSourceError:
    declared = declarations(texts)
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
    source: Source,
    arch: str,
    folder: Path,
    wanted: str | None,
    texts: Sequence[str],
    lines: Sequence[str] = ("-lineinfo",),
    limit: float | None = None,
) -> Compiled:
    """A template is instantiated by a wrapper that takes its address."""
    path = source.path.resolve()
    if source.content is not None:
        path = folder / source.path.name
        path.write_bytes(source.content)
    main = path
    if wanted:
        main = folder / "instantiate.cu"
        taken = f"static const void* perfassert_kernel = (const void*)&{wanted};"
        main.write_text(f'#include "{path}"\n{taken}\n')
    product = "ptx" if arch.startswith("compute") else "cubin"
    out = folder / f"nvcc.{product}"
    command = [nvcc.path, f"-{product}", *lines, f"-arch={arch}", "-o", str(out)]
    command += [*options.for_nvcc(source), *options.definitions(source.defines)]
    command += [f"-I{d}" for d in options.search_dirs(source)]
    if nvcc.version is not None:  # it knows the headers of its own wheel only
        own = tools.wheel_include_dirs() if source.toolchain is None else tools.headers_of(nvcc)
        command += [f"-isystem={d}" for d in own]
    run = tools.run_tool("nvcc", [*command, str(main)], cwd=str(folder), limit=limit)
    if run.status or not out.exists():
        error = failure("nvcc", run.log, str(source.path))
        if wanted and str(error).startswith(str(main)):
            error = _unknown(source, texts)
        raise error
    if product == "ptx":
        return Compiled(b"", out.read_text(errors="replace"), (str(nvcc),))
    return Compiled(out.read_bytes(), None, (str(nvcc),))


def _assembled(made: Compiled, source: Source, arch: str, folder: Path) -> Compiled:
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
    parsed = options.parsed(source)
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
    run = tools.run_tool("ptxas", command, memory=tools.reading_memory(len(text)))
    if run.status or not out.exists():
        log = run.log.replace(str(given), where)
        if "option 'gpu-name'" in log:
            raise ToolchainMissing(
                f"{ptxas} does not know {arch}; install a newer one: pip install -U "
                "nvidia-cuda-nvcc"
            )
        error = failure("ptxas", log, where, {where: text})
        newer = "\ninstall a newer ptxas: pip install -U nvidia-cuda-nvcc"
        raise KernelSourceError(f"{error}{newer}") if "Unsupported .version" in log else error
    return out.read_bytes()
