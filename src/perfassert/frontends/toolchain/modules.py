"""Compilation of a source to a module, remembered for all kernels of the file."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.source import INSTANCE, Assumption, SourceSpan
from perfassert.system.temporary import temporary_folder

from . import cache, compilers, containers, options, tools
from .architecture import architecture
from .binary import Source, read_assumptions
from .compilers import CompiledModule, expression
from .elf import Cubin
from .includes import Closure, check_confined, closure
from .inputs import FileStates, Inputs, digest, remember
from .names import base_name, demangle, fits, short_name, without_parameters

_NAME = 160  # characters shown of an instance's name
_INSTANCES = re.compile(r"\btemplate\s+(?:\w+\s+)*__global__|<<<")


@dataclass(frozen=True)  # without slots, for the cached closure
class CompileJob:
    """A source to be compiled for ``arch``.

    ``notes`` has the reasons for that choice. ``content`` is the source's own text or bytes.
    ``states`` are the states of files during one request.
    """

    source: Source
    content: bytes
    arch: str
    states: FileStates = field(default_factory=FileStates)
    notes: tuple[Assumption, ...] = ()

    @cached_property
    def closure(self) -> Closure:
        """Source and included files, as far as includes can be followed.

        Raises :class:`KernelSourceError` for an include outside the confined folder.
        """
        source = self.source
        if source.kind != "cuda":
            return Closure({source.path: self.content}, "")
        extra = [o.value or "" for o in options.parse(source) if o.name == "--pre-include"]
        folders = options.search_dirs(source)
        files = closure(source.path.resolve(), self.content, folders, extra, tools.header_folders())
        check_confined(files, folders)
        return files

    def files(self, inputs: Inputs) -> dict[Path, bytes]:
        """Return the files of the closure and add them to ``inputs``."""
        read = {**self.closure.around, **self.closure.files}
        inputs.add(
            {
                str(path): self.states.of(str(path), content)
                for path, content in read.items()
                if content is not self.content  # the source's own text is in the key
            }
        )
        return self.closure.files

    def inputs(self) -> Inputs:
        """Return an empty record of files for one result."""
        return Inputs(self.states, self._suggested_states)

    def _suggested_states(self) -> Mapping[str, str] | str:
        if options.reads_unseen(self.source):
            return f"{self.source.path}: an option reads files that are not looked for"
        if self.closure.unknown:
            return f"{self.source.path}: {self.closure.unknown}"
        return {name: self.states.get(name) for name in self.closure.looked_up}

    def key(self, *more: str) -> str:
        """Return the cache key: all that a module depends on, except files."""
        source = self.source
        asked = [source.kind, self.arch, source.arch or "", *source.options, *source.include_dirs]
        asked += [f"toolchain {source.toolchain}"] if source.toolchain else []
        defines = options.definitions(source.defines)
        content = [digest(self.content)]
        if source.kind == "cuda":  # the path of other kinds does not matter
            content.append(str(source.path.resolve()))
        return cache.key(["module", *content, *asked, *defines, *tools.identity(), *more])

    def of_file(self) -> CompileJob:
        """Return the job for the whole file, whichever kernel is meant."""
        return replace(self, source=replace(self.source, kernel=None))

    def texts(self, inputs: Inputs) -> list[str]:
        return [content.decode(errors="replace") for content in self.files(inputs).values()]


def module(job: CompileJob, inputs: Inputs | None = None) -> CompiledModule:
    """Return the module that has the kernel; ``inputs`` gathers the files it is made of.

    The file is compiled as it stands if it instantiates the requested template. Otherwise it is
    compiled with that instance added.
    """
    if job.source.kind == "cubin":
        return _container_module(job)
    wanted, inputs = job.source.kernel, inputs or job.inputs()
    texts = job.texts(inputs)
    if job.source.kind != "cuda" or expression(wanted, texts) is None:
        return _module(job.of_file(), inputs)
    if wanted and any(map(_INSTANCES.search, texts)):
        whole = _module(job.of_file(), inputs)
        names = Cubin(whole.cubin, str(job.source.path)).kernels()
        kernels = fits(wanted, names)
        if len(kernels) == 1:
            return replace(whole, kernel=kernels[0])
        if not kernels and (note := _missing_instance(job.source, wanted, whole, names)):
            made = _module(job, inputs)
            return replace(made, assumptions=(*made.assumptions, note))
    return _module(job, inputs)


def _missing_instance(
    source: Source, wanted: str, whole: CompiledModule, names: Sequence[str]
) -> Assumption | None:
    """Return an assumption if the file has instances of the template, but not the wanted one.

    Only nvcc compiles the launches of a file, which instantiate the templates they launch.
    """
    others = [name for name in map(demangle, names) if base_name(name) == base_name(wanted)]
    if not others or not whole.tools or not whole.tools[0].startswith("nvcc"):
        return None
    known = short_name(without_parameters(others[0]), _NAME)
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    text = f"nothing in the source instantiates {short_name(wanted, _NAME)}; it has {known}{more}"
    return Assumption(text, SourceSpan(str(source.path)), INSTANCE)


def _container_module(job: CompileJob) -> CompiledModule:
    """Return the module of a compiled file that a driver would load; PTX is assembled."""
    source, where = job.source, str(job.source.path)
    with containers.open_members(source.path, job.content) as members:
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
    """Return the job for the PTX in a file that holds compiled code."""
    source = Source(Path(f"{where}: {member.name}"), "ptx", toolchain=toolchain)
    return CompileJob(source, member.text().encode(), arch)


def _ambiguous(choice: containers.Choice, where: str) -> tuple[Assumption, ...]:
    """Return an assumption if modules have different code of this name: the linker would choose."""
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


def _module(job: CompileJob, outer: Inputs) -> CompiledModule:
    key, inputs = job.key(job.source.kernel or ""), job.inputs()
    make = partial(compile_module, job, inputs)
    return remember(key, inputs, make, _read_module, _to_json, outer)


def debug_information(job: CompileJob, inputs: Inputs, kernel: str = "") -> bytes:
    """Return a cubin for its debug information about types; ``b""`` if there is none.

    ``kernel`` is a mangled name; if the file lacks this instance, the cubin is made for it.
    """
    texts = job.texts(inputs)
    if expression(job.source.kernel, texts) is None:
        return _debug_cubin(job.of_file(), inputs)
    if any(map(_INSTANCES.search, texts)):
        made = _debug_cubin(job.of_file(), inputs)
        if made and kernel in Cubin(made, str(job.source.path)).kernels():
            return made
    return _debug_cubin(job, inputs)


def _debug_cubin(job: CompileJob, outer: Inputs) -> bytes:
    key, inputs = job.key("debug", job.source.kernel or ""), job.inputs()
    try:
        return remember(
            key,
            inputs,
            partial(_compile_for_types, job, inputs),
            base64.b64decode,
            lambda content: base64.b64encode(content).decode(),
            outer,
        )
    except tools.TooSlow:  # a later run may be quick enough
        return b""


def _compile_for_types(job: CompileJob, inputs: Inputs) -> bytes:
    with temporary_folder() as folder:
        try:
            return compilers.with_debug_information(
                job.source, job.files(inputs), job.arch, folder, inputs
            )
        except tools.TooSlow:
            raise
        except KernelSourceError:
            return b""


def compile_module(job: CompileJob, inputs: Inputs) -> CompiledModule:
    """Compile with the tools, without the cache."""
    source = job.source
    with temporary_folder() as folder:
        if source.kind == "ptx":
            text = job.content.decode(errors="replace")
            return compilers.from_ptx(source, one_line_ends(text), job.arch, folder)
        return compilers.from_cuda(source, job.files(inputs), job.arch, folder, inputs)


def one_line_ends(text: str) -> str:
    """Return the text without blanks at line ends, so that a fixture reproduces it exactly."""
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))


def template_hint(files: Mapping[Path, bytes]) -> str:
    """Return a hint for a file without compiled kernels: templates, and how to name an instance."""
    texts: Sequence[str] = [content.decode(errors="replace") for content in files.values()]
    templates = [function for function in compilers.declarations(texts) if function.template]
    if not templates:
        return ""
    examples = (example for one in templates if (example := one.instance()))
    example = next(examples, f"{templates[0].name}<…>")
    return (
        f"; templates need their arguments: {', '.join(map(str, templates))}; name an instance, as "
        f"{example!r}, or add it to the file: template __global__ void {example}(…);"
    )


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
