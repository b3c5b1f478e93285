"""One compilation of a source, remembered: it serves all kernels of the file."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.source import Assumption, SourceSpan

from . import cache, compilers, containers, options, tools
from .architecture import architecture
from .binary import Source, read_assumptions
from .compilers import CompiledModule, expression
from .elf import Cubin
from .includes import Closure
from .names import fits

_INSTANCES = re.compile(r"\btemplate\s+(?:\w+\s+)*__global__|<<<")


@dataclass(frozen=True, slots=True)
class CompileJob:
    """A source with the files behind it, to be compiled for ``arch``; ``notes``: why for that."""

    source: Source
    files: Closure
    arch: str
    notes: tuple[Assumption, ...] = ()

    def key(self, *more: str) -> str | None:
        """Of all that a module depends on; ``None`` where that is not known."""
        if not self.files.complete:
            return None
        source = self.source
        asked = [source.kind, self.arch, source.arch or "", *source.options, *source.include_dirs]
        asked += [f"toolchain {source.toolchain}"] if source.toolchain else []
        defines = options.definitions(source.defines)
        if source.kind == "cuda":
            content = [str(source.path.resolve()), self.files.digest()]
        else:  # wherever it lies
            content = [hashlib.sha256(self.files.files[source.path]).hexdigest()]
        return cache.key(["module", *content, *asked, *defines, *tools.identity(), *more])

    def texts(self) -> list[str]:
        return [content.decode(errors="replace") for content in self.files.files.values()]


def module(job: CompileJob) -> CompiledModule:
    """The module that has the kernel meant.

    The file as it stands, if that instantiates the template that is asked for; else compiled with
    the instance.
    """
    if job.source.kind == "cubin":
        return _container_module(job)
    wanted = job.source.kernel
    texts = job.texts()
    if job.source.kind != "cuda" or expression(wanted, texts) is None:
        return _module(replace(job, source=replace(job.source, kernel=None)))
    if wanted and any(map(_INSTANCES.search, texts)):
        whole = _module(replace(job, source=replace(job.source, kernel=None)))
        kernels = fits(wanted, Cubin(whole.cubin, str(job.source.path)).kernels())
        if len(kernels) == 1:
            return replace(whole, kernel=kernels[0])
    return _module(job)


def _container_module(job: CompileJob) -> CompiledModule:
    """What a driver would load from a file that holds compiled code; PTX is assembled."""
    source, where = job.source, str(job.source.path)
    with containers.open_members(source.path, job.files.files[source.path]) as members:
        if source.arch is not None:
            members = containers.of_architecture(members, source.arch, where)
        choice = containers.choose_code(members, source.kernel, architecture(job.arch), where)
        member = choice.members[0]
        if member.ptx:
            made = module(assembly(member, where, job.arch, source.toolchain))
            return replace(made, kernel=choice.kernel)
        notes = _ambiguous(choice, where)
        used = (str(tools.need("cuobjdump")),) if member.name else ()
        content = member.path.read_bytes()
    return CompiledModule(content, None, used, choice.kernel, notes, str(member.arch))


def assembly(
    member: containers.ContainerMember, where: str, arch: str, toolchain: str | None = None
) -> CompileJob:
    """Of the PTX in a file that holds compiled code."""
    path = Path(f"{where}: {member.name}")
    source = Source(path, "ptx", toolchain=toolchain)
    return CompileJob(source, Closure({path: member.text().encode()}, True), arch)


def _ambiguous(choice: containers.Choice, where: str) -> tuple[Assumption, ...]:
    """Which of several modules' kernels of one name is loaded is the linker's business."""
    section = f".text.{choice.kernel}"
    codes = {
        code.data if (code := member.cubin(where).section(section)) else b""
        for member in choice.members
    }
    if len(codes) == 1:
        return ()
    count = len(choice.members)
    message = (
        f"{count} modules have code of this name that differs; {choice.members[0].name} is taken"
    )
    return (Assumption(message, SourceSpan(where)),)


def _module(job: CompileJob) -> CompiledModule:
    entry = job.key(job.source.kernel or "")
    return cache.remember(entry, lambda: compile_module(job), _read_module, _to_json)


def debug_information(job: CompileJob, kernel: str = "") -> bytes:
    """A cubin whose only use is what it says about types; ``b""`` where there is none.

    ``kernel`` (its mangled name) needs one of its own where the file does not have its instance.
    """
    texts = job.texts()
    whole = replace(job, source=replace(job.source, kernel=None))
    if expression(job.source.kernel, texts) is None:
        return _debug_cubin(whole)
    if any(map(_INSTANCES.search, texts)):
        made = _debug_cubin(whole)
        if made and kernel in Cubin(made, str(job.source.path)).kernels():
            return made
    return _debug_cubin(job)


def _debug_cubin(job: CompileJob) -> bytes:
    entry = job.key("debug", job.source.kernel or "")
    try:
        return cache.remember(
            entry,
            lambda: _compile_for_types(job),
            base64.b64decode,
            lambda content: base64.b64encode(content).decode(),
        )
    except tools.TooSlow:  # the next time it may be quick enough
        return b""


def _compile_for_types(job: CompileJob) -> bytes:
    with tempfile.TemporaryDirectory(prefix="perfassert-") as folder:
        try:
            return compilers.with_debug_information(
                job.source, job.files.files, job.arch, Path(folder)
            )
        except tools.TooSlow:
            raise
        except KernelSourceError:
            return b""


def compile_module(job: CompileJob) -> CompiledModule:
    """By the tools, without looking at what is remembered."""
    source, files = job.source, job.files.files
    with tempfile.TemporaryDirectory(prefix="perfassert-") as folder:
        if source.kind == "ptx":
            text = files[source.path].decode(errors="replace")
            return compilers.from_ptx(source, one_line_ends(text), job.arch, Path(folder))
        return compilers.from_cuda(source, files, job.arch, Path(folder))


def one_line_ends(text: str) -> str:
    """Without what stands at the ends of lines, so that a fixture keeps it whole."""
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))


def template_hint(files: Mapping[Path, bytes]) -> str:
    """What to say where no kernel was compiled."""
    texts: Sequence[str] = [content.decode(errors="replace") for content in files.values()]
    templates = [name for name in compilers.declarations(texts) if name.endswith("<…>")]
    if not templates:
        return ""
    return f"; templates need their arguments: {', '.join(templates)}"


def _to_json(made: CompiledModule) -> dict[str, Any]:
    return {**asdict(made), "cubin": base64.b64encode(made.cubin).decode()}


def _read_module(data: Any) -> CompiledModule:
    return CompiledModule(
        **{
            **data,
            "cubin": base64.b64decode(data["cubin"], validate=True),
            "tools": tuple(data["tools"]),
            "assumptions": read_assumptions(data["assumptions"]),
        }
    )
