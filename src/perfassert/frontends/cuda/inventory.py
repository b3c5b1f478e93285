"""Listing of the kernels of a file, with what their code shows without a launch."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.code_findings import CodeFinding, access_width, find_in_code
from perfassert.frontends.machine.opcodes import operation_class
from perfassert.frontends.toolchain import build, cache, containers, modules, tools
from perfassert.frontends.toolchain.architecture import architecture, best_code
from perfassert.frontends.toolchain.binary import Parameter, Source
from perfassert.frontends.toolchain.build import compiled_module, prepare
from perfassert.frontends.toolchain.elf import Cubin
from perfassert.frontends.toolchain.listing import run_nvdisasm, sections
from perfassert.frontends.toolchain.names import demangle, without_parameters
from perfassert.frontends.toolchain.source_settings import (
    AnyPath,
    check_source_file,
    source_of,
    source_path,
)
from perfassert.source import CUDA_SUFFIXES
from perfassert.system.process_pool import cores, map_in_threads
from perfassert.system.temporary import temporary_folder

_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<offset>[0-9a-f]{4,})\*/\s+\{?\s*(?:@!?U?P\w+\s+)?"
    r"(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;\n]*)",
    re.MULTILINE,
)
_COORDINATE = re.compile(r"\bSR_(TID|CTAID)\.([XYZ])\b")
_BUILT_IN = {"TID": "threadIdx", "CTAID": "blockIdx"}
_STACK_WORD = re.compile(r"\[R1(?:\+(0x[0-9a-f]+))?\]")
_WORDS = {"64": 2, "128": 4}
_SPACES = ("global_", "shared_", "local_")
_DIRECTIONS = ("_load", "_store")
_LABEL = re.compile(r"^(\.L_\w+):", re.MULTILINE)
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_PIECE = 1 << 19  # bytes of code per piece: nvdisasm takes 0.3 s for it, and 0.2 s to start
_MOST_KNOWN = 1 << 16
NEWEST = "newest"
"""Placeholder for an architecture: the newest one in a compiled file."""
Code = tuple[str, str, str]
"""A kernel's mangled name, its architecture, and the digest of its code."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Scope of the descriptions of a file's kernels.

    Attributes:
        findings: True if the code is also searched for findings, for a third of the time again.
        undescribed: code that is not disassembled, so that its mix, its accesses, its spills and
            its control flow stay empty; ``None``: that of all kernels.
    """

    findings: bool = False
    undescribed: frozenset[Code] | None = frozenset()

    def describes(self, code: Code) -> bool:
        """Return True for a kernel whose code is disassembled."""
        return self.undescribed is not None and code not in self.undescribed

    def key(self, kind: str, code: Iterable[Code] | None = None) -> list[str]:
        """Return the parts of a cache's key for an entry with this code; None: any code."""
        kind = f"{kind} with findings" if self.findings else kind
        if self.undescribed is None:
            return [kind, "*"]
        left_out = self.undescribed if code is None else self.undescribed.intersection(code)
        return [kind, *sorted(map(" ".join, left_out))]


DESCRIBED = Detail()
"""All code is disassembled, and not searched for findings."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel of a file for one architecture, as :func:`perfassert.kernels` finds it.

    Attributes:
        name: demangled, without the parameter list.
        mangled: the linker's name.
        arch: architecture of the code: ``"sm_80"``.
        registers: registers per thread.
        spill_bytes: stack bytes per thread that hold spilled registers. Compilers before CUDA 12.6
            do not record what they spill: there, stack bytes that are both stored and loaded at
            constant addresses.
        stack_bytes: bytes of stack per thread.
        shared_bytes: bytes of static shared memory per block.
        barriers: barriers that a block uses.
        code_bytes: size of the kernel's section.
        mix: operation class → instructions of that class in the code, each counted once.
        accesses: memory instructions by class and width of a thread: ``"global_load 16 B"``.
        digest: digest of the machine code with called functions, whatever its name and path.
        control_flow: digest of opcodes and jumps alone, whatever the registers.
        coordinates: those of threads and blocks that the code reads: ``"blockIdx.y"``.
        max_threads: the largest block that its launch bounds allow; 0 without launch bounds.
        register_limit: the most registers that an option of the compiler allows; 0 without one.
        findings: what its code shows by itself, the costliest first: only where ``perfassert
            survey`` lists it.

    Example:
        >>> import perfassert as pa
        >>> infos = pa.kernels("numba_axpy.ptx", arch="sm_80")  # doctest: +SKIP
        >>> infos[0].arch, infos[0].spill_bytes, infos[0].accesses  # doctest: +SKIP
        ('sm_80', 0, {'global_load 4 B': 2, 'global_store 4 B': 1})
    """

    name: str
    mangled: str
    arch: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int
    barriers: int
    code_bytes: int
    mix: Mapping[str, int]
    accesses: Mapping[str, int]
    digest: str
    control_flow: str
    coordinates: tuple[str, ...] = ()
    max_threads: int = 0
    register_limit: int = 0
    findings: tuple[CodeFinding, ...] = ()

    @property
    def code(self) -> Code:
        """Name, architecture and digest, which together say whether a kernel has changed."""
        return self.mangled, self.arch, self.digest


def kernels(
    path: AnyPath,
    arch: str | None = None,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: AnyPath | Sequence[AnyPath] = (),
    options: Sequence[str] = (),
    toolchain: str | None = None,
) -> tuple[KernelInfo, ...]:
    """List every kernel of a file with its resources and instruction mix, without a launch.

    Args:
        path: a cubin, fat binary, object file, library, program, PTX or CUDA file.
        arch: architecture: sources are compiled for it; of compiled files only the code that a
            driver would choose for it is listed. Default: all architectures of a compiled file, the
            target of PTX; CUDA source needs one.
        defines: macro → value, for CUDA source. Default: none.
        include_dirs: folders of headers, for CUDA source; a single one may stand alone. Default:
            none.
        options: options of the compiler, for CUDA source. Default: none.
        toolchain: CUDA release that compiles sources: ``"12.4"``. Default: the preferred one.

    Returns:
        A :class:`KernelInfo` for each kernel and architecture, in the file's order.

    Raises:
        KernelSourceError: the file cannot be read or compiled, has no code for ``arch``, or does
            not take these options.
        ToolchainMissing: a tool of NVIDIA's that the file needs is not installed.

    Example:
        >>> import perfassert as pa
        >>> [info.shared_bytes for info in pa.kernels("numba_axpy.ptx")]  # doctest: +SKIP
        [0]
    """
    return list_kernels(
        path, arch,
        defines=defines, include_dirs=include_dirs, options=options, toolchain=toolchain,
    )  # fmt: skip


def list_kernels(
    path: AnyPath,
    arch: str | None = None,
    *,
    newest: bool = False,
    detail: Detail = DESCRIBED,
    **compilation: Any,
) -> tuple[KernelInfo, ...]:
    """List the kernels of a file as :func:`kernels` does, which has the arguments of sources.

    Args:
        path: the file.
        arch: the architecture.
        newest: list the newest architecture of a compiled file where ``arch`` names none.
        detail: scope of their descriptions.
        compilation: arguments for sources; ``kernel`` is an instance of a template to be added.
    """
    if arch is not None:
        architecture(arch)
    source = _source(path, **compilation)
    if source.kind == "cubin":
        return _list_container(source.path, NEWEST if newest and arch is None else arch, detail)
    if source.kind == "ptx":
        return _list_source(source, arch or _stated_target(source.path), detail)
    if arch is None:
        way = "arch='sm_80', or --arch sm_80 on the command line"
        raise KernelSourceError(f"{source.path}: give the architecture to compile for: {way}")
    return _list_source(source, arch, detail)


def parameters(
    path: AnyPath,
    arch: str,
    **compilation: Any,
) -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of all kernels of a file, by mangled name; see :func:`list_kernels`."""
    return build.parameters(_source(path, **compilation), arch)


def templates_alone(path: Path, **compilation: Any) -> str:
    """Return why a file has no kernels if it is CUDA source with templates; else ""."""
    source = _source(path, **compilation)
    hint = build.explain_templates(source) if source.kind == "cuda" else ""
    return f"{path}: there is no kernel in it{hint}" if hint else ""


def _source(path: AnyPath, **settings: Any) -> Source:
    """Return the source that a path and the settings of :func:`kernels` name."""
    place = source_path(path)
    kind = "cuda" if place.suffix in CUDA_SUFFIXES else "ptx" if place.suffix == ".ptx" else "cubin"
    source = source_of(place, kind, **settings)
    check_source_file(place)
    if kind != "cuda" and (source.defines or source.include_dirs or source.options):
        raise KernelSourceError(f"{place}: defines, include_dirs and options need CUDA source")
    if kind == "cubin" and source.toolchain:
        raise KernelSourceError(f"{place}: a toolchain needs a source that is compiled")
    return source


def _stated_target(path: Path) -> str:
    """Return the target that a PTX file states."""
    text = prepare(Source(path, "ptx"), "sm_80").content.decode(errors="replace")
    match = re.search(r"^[ \t]*\.target\s+(sm_\d{2,4}[af]?)\b", text, re.MULTILINE)
    if match is None:
        raise KernelSourceError(f"{path} states no .target")
    return match[1]


def _list_source(source: Source, arch: str, detail: Detail) -> tuple[KernelInfo, ...]:
    made = compiled_module(source, arch)
    return _list_module(made.cubin, made.arch, str(source.path), detail)


def _list_container(path: Path, arch: str | None, detail: Detail) -> tuple[KernelInfo, ...]:
    """List the kernels of a compiled file; the cache remembers the list as a whole."""
    job = prepare(Source(path, "cubin"), "sm_80" if arch in (None, NEWEST) else arch)
    digest = hashlib.sha256(job.content).hexdigest()
    entry = cache.key([*detail.key("survey"), digest, arch or "", *tools.identity()])
    infos = cache.remember(
        entry, lambda: _container_kernels(job, arch, detail), _read_infos, _to_json
    )
    return _with_demangled_names(infos)


def _container_kernels(
    job: modules.CompileJob, arch: str | None, detail: Detail
) -> tuple[KernelInfo, ...]:
    path = job.source.path
    result: list[KernelInfo] = []
    with containers.open_members(path, job.content) as members:
        code = [m for m in members if not m.ptx]
        if arch == NEWEST:
            archs = [m.arch for m in code or members]
            arch = str(max(archs, key=lambda one: (one.number, one.suffix)))
        if arch is not None:
            best = best_code((m.arch for m in code), architecture(arch))
            exact = architecture(arch)
            best = exact if any(m.arch == exact for m in code) else best
            code = [m for m in code if m.arch == best]
        for infos in map_in_threads(partial(_list_member, path, detail), code):
            result += infos
        have = {info.mangled for info in result}
        for member in members:
            runs = arch is None or member.arch.ptx_runs_on(architecture(arch))
            if member.ptx and runs and not have.issuperset(member.kernels(str(path))):
                assembly = modules.assembly(member, str(path), arch or str(member.arch))
                made = modules.module(assembly)
                new = _list_module(made.cubin, made.arch, f"{path}: {member.name}", detail)
                result += [info for info in new if info.mangled not in have]
                have |= {info.mangled for info in new}
    if arch is not None and not result:
        listed = ", ".join(sorted({f"{'PTX ' if m.ptx else ''}{m.arch}" for m in members}))
        raise KernelSourceError(f"{path} has nothing for {arch}: it has {listed}")
    return tuple(_unique(result))


def _list_member(
    path: Path, detail: Detail, member: containers.ContainerMember
) -> tuple[KernelInfo, ...]:
    where = f"{path}: {member.name}" if member.name else str(path)
    return _list_module(member.path.read_bytes(), str(member.arch), where, detail)


def _unique(infos: Sequence[KernelInfo]) -> list[KernelInfo]:
    """Drop duplicates: an instance of a template may be in several modules."""
    kept: dict[Code, KernelInfo] = {}
    for info in infos:
        kept.setdefault(info.code, info)
    return list(kept.values())


@dataclass(frozen=True)
class _Module:
    """A cubin, and its kernels as it describes them without a disassembly, by name."""

    content: bytes
    arch: str
    where: str

    @cached_property
    def cubin(self) -> Cubin:
        return Cubin(self.content, self.where)

    @cached_property
    def undescribed(self) -> Mapping[str, KernelInfo]:
        kernels = self.cubin.kernels()
        return {name: _without_code(self.cubin, name, self.arch) for name in kernels}


def _list_module(content: bytes, arch: str, where: str, detail: Detail) -> tuple[KernelInfo, ...]:
    """List the kernels of one module; the cache remembers the list."""
    nvdisasm = tools.need("nvdisasm")
    digest = hashlib.sha256(content).hexdigest()
    module = _Module(content, arch, where)
    code = [info.code for info in module.undescribed.values()] if detail.undescribed else ()
    entry = cache.key([*detail.key("kernels", code), digest, arch, nvdisasm.identity()])
    infos = cache.remember(
        entry, lambda: _describe(nvdisasm, module, detail), _read_infos, _to_json
    )
    return _with_demangled_names(infos)


def _with_demangled_names(infos: Sequence[KernelInfo]) -> tuple[KernelInfo, ...]:
    """Fill in the names, demangled by the demangler of this process."""
    return tuple(replace(info, name=without_parameters(demangle(info.mangled))) for info in infos)


def _to_json(infos: Sequence[KernelInfo]) -> list[dict[str, Any]]:
    named = [field.name for field in fields(KernelInfo)]
    plain = [{name: getattr(info, name) for name in named} for info in infos]
    return [info | {"findings": [*map(asdict, info["findings"])]} for info in plain]


def _read_infos(data: Any) -> tuple[KernelInfo, ...]:
    infos = tuple(
        KernelInfo(
            **{
                **info,
                "coordinates": tuple(info["coordinates"]),
                "findings": tuple(CodeFinding(**f) for f in info["findings"]),
            }
        )
        for info in data
    )
    _note_code(infos)
    return infos


def _disassemble(nvdisasm: tools.Tool, module: _Module, kernels: Sequence[str]) -> dict[str, str]:
    """Return the listings of kernels by name.

    Encodings and line numbers are left out, which halves the time. Large code is disassembled in
    pieces in parallel.
    """
    cubin = module.cubin
    code_bytes = sum(len(cubin.code(kernel)) for kernel in kernels)
    pieces = min(cores(), len(kernels), 1 + code_bytes // _PIECE)
    whole = pieces == 1 and len(kernels) == len(cubin.kernels())

    def of_piece(number: int) -> dict[str, str]:
        own = ",".join(str(cubin.function(kernel)) for kernel in kernels[number::pieces])
        wanted = [] if whole else ["-fun", own]  # with all that is in the kernels' sections
        return sections(run_nvdisasm(nvdisasm, ["-c", *wanted], path, cubin.where))

    with temporary_folder() as folder:
        path = folder / "kernels.cubin"
        path.write_bytes(module.content)
        texts: dict[str, str] = {}
        for part in map_in_threads(of_piece, range(pieces)):
            texts.update(part)
    return texts


_KNOWN_CODE: dict[tuple[str, str], KernelInfo] = {}  # (digest, architecture) → kernel with the code


def _note_code(infos: Sequence[KernelInfo]) -> None:
    """Remember descriptions by digest: one code may have several names, in several files."""
    if len(_KNOWN_CODE) > _MOST_KNOWN:
        _KNOWN_CODE.clear()
    _KNOWN_CODE.update(((i.digest, i.arch), i) for i in infos if i.control_flow and not i.findings)


def _describe(nvdisasm: tools.Tool, module: _Module, detail: Detail) -> tuple[KernelInfo, ...]:
    """Describe the kernels of a module with one disassembly of those that are new."""
    infos = dict(module.undescribed)
    wanted = [i for i in infos.values() if detail.describes(i.code)]
    known = {
        info.mangled: made
        for info in wanted
        if not detail.findings and (made := _KNOWN_CODE.get((info.digest, info.arch)))
    }
    new = [info.mangled for info in wanted if info.mangled not in known]
    texts = _disassemble(nvdisasm, module, new) if new else {}
    for info in wanted:
        made = known.get(info.mangled)
        infos[info.mangled] = (
            replace(info, **{part: getattr(made, part) for part in _OF_CODE})
            if made
            else _with_code(
                info,
                texts.get(info.mangled, ""),
                module.cubin.spills(info.mangled),
                detail.findings,
            )
        )
    _note_code([*infos.values()])
    return tuple(infos.values())


def _without_code(cubin: Cubin, name: str, arch: str) -> KernelInfo:
    """Return what a module says of a kernel without a disassembly."""
    return KernelInfo(
        name="",
        mangled=name,
        arch=arch,
        registers=cubin.registers(name),
        spill_bytes=0,
        stack_bytes=cubin.local_bytes(name),
        shared_bytes=cubin.shared_bytes(name),
        barriers=cubin.barriers(name),
        code_bytes=len(cubin.code(name)),
        mix={},
        accesses={},
        digest=_digest(cubin, name),
        control_flow="",
        max_threads=cubin.max_threads(name),
        register_limit=cubin.register_limit(name),
    )


_OF_CODE = ("spill_bytes", "mix", "accesses", "control_flow", "coordinates")


def _with_code(
    info: KernelInfo, text: str, spills: frozenset[int] | None, findings: bool
) -> KernelInfo:
    """Add what the listing of a kernel's code shows, which is the same for equal code."""
    instructions = [*_INSTRUCTION.finditer(text)]
    code = [(m["opcode"], m["operands"]) for m in instructions]
    mix = Counter(operation_class(opcode, info.arch) or "unknown" for opcode, _ in code)
    if spills is None:
        spill_bytes = _spill_bytes(code)
    else:
        spilling = (int(m["offset"], 16) in spills for m in instructions)
        spill_bytes = _spill_bytes([*compress(code, spilling)])
    return replace(
        info,
        spill_bytes=spill_bytes,
        mix=dict(sorted(mix.items())),
        accesses=_access_widths(code, info.arch),
        control_flow=_control_flow(text, instructions),
        coordinates=_coordinates(code),
        findings=find_in_code(text, spill_bytes) if findings else (),
    )


def _coordinates(code: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    registers = (m for _, operands in code if (m := _COORDINATE.search(operands)))
    return tuple(sorted({f"{_BUILT_IN[m[1]]}.{m[2].lower()}" for m in registers}))


def _access_widths(code: Sequence[tuple[str, str]], arch: str) -> dict[str, int]:
    """Count memory instructions by class and bytes per thread, which shows lost vectorisation."""
    counts: Counter[str] = Counter()
    for opcode, _ in code:
        kind = operation_class(opcode, arch) or ""
        if kind.startswith(_SPACES) and kind.endswith(_DIRECTIONS):
            counts[f"{kind} {access_width(opcode)} B"] += 1
    return dict(sorted(counts.items()))


def _digest(cubin: Cubin, kernel: str) -> str:
    whole = hashlib.sha256()
    for name in cubin.linked_functions(kernel):
        code = cubin.code(name)
        whole.update(len(code).to_bytes(8, "little") + code)
    return whole.hexdigest()


def _spill_bytes(code: Sequence[tuple[str, str]]) -> int:
    """Return the bytes of the stack that instructions both store and load at constant addresses.

    A buffer whose address is passed on, as that of a printf, is only stored; an array with an index
    is stored or loaded at addresses that vary.
    """
    words: dict[str, set[int]] = {"STL": set(), "LDL": set()}
    for opcode, operands in code:
        base, *modifiers = opcode.split(".")
        place = _STACK_WORD.search(operands) if base in words else None
        if place:
            count = next((_WORDS[m] for m in modifiers if m in _WORDS), 1)
            start = int(place[1] or "0", 16)
            words[base].update(range(start, start + 4 * count, 4))
    return 4 * len(words["STL"] & words["LDL"])


def _control_flow(text: str, instructions: Sequence[re.Match[str]]) -> str:
    """Return a digest of opcodes and jump targets; a target is the index of an instruction."""
    starts = [m.start() for m in instructions]
    places = {m[1]: bisect_left(starts, m.start()) for m in _LABEL.finditer(text)}
    parts = []
    for m in instructions:
        called = _TARGET.findall(m["operands"]) if "`" in m["operands"] else ()
        parts.append(" ".join([m["opcode"], *(str(places.get(t, -1)) for t in called)]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
