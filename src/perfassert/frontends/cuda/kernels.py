"""Kernels from CUDA source, PTX and compiled code, which are compiled when needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfassert.errors import (
    KernelError,
    KernelSourceError,
    LaunchError,
    check_kind,
    in_short,
)
from perfassert.frontends.toolchain.ahead import build
from perfassert.frontends.toolchain.build import (
    Binary,
    Source,
    with_content,
    with_layouts,
)
from perfassert.frontends.toolchain.fixture import LISTING
from perfassert.frontends.toolchain.signature import Declared
from perfassert.frontends.toolchain.source_settings import (
    AnyPath,
    check_source_file,
    source_of,
    source_path,
)
from perfassert.kernel.content import content_digest, listing_without_folders
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.executed import Executed
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import MachineCode
from perfassert.quantity import to_integer, to_list

if TYPE_CHECKING:  # analyses are imported where code is described or bound
    from perfassert.frontends.machine.lowering import Lowered
    from perfassert.kernel.program import Program

Rare = frozenset[tuple[int, bool]]
"""Sides of conditional jumps, by byte address, that never happen; True: the jump is taken."""


def from_cuda(
    path: AnyPath,
    kernel: str | None = None,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: AnyPath | Sequence[AnyPath] = (),
    options: Sequence[str] = (),
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    toolchain: str | None = None,
) -> CompiledKernel:
    """Read a kernel from CUDA source; it is compiled for the device that it is predicted on.

    The file is compiled when the kernel is first predicted: compile errors come then.

    Args:
        path: the ``.cu`` file.
        kernel: its name, mangled, or demangled with namespaces and template arguments:
            ``"ns::star<double, 4>"``. Default (None): the only kernel of the file.
        defines: macro → value. Default: none.
        include_dirs: folders of headers; a single one may stand alone. Default: none.
        options: compiler options, as nvcc spells them: ``("-use_fast_math", "-maxrregcount=64")``.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: ``{"stencil.cu:42": 128}``: iterations of loops whose end depends on data, by
            the line of the loop's head. Without it such a loop has 16, and an assumption says so.
        assume: assumed values: ``{"index": "threadIdx.x * 7 % n"}`` says what is loaded through
            the parameter ``index`` (or at ``"file.cu:line"``); each becomes an assumption.
        constants: ``__constant__`` symbol → what the program writes there before the launch.
        toolchain: CUDA release whose compiler is used: ``"12.4"``. Default: the preferred one.

    Returns:
        A kernel whose registers, instructions and addresses are those of the compiled code.

    Raises:
        KernelSourceError: no such file, a setting of another kind than its own, or a ``toolchain``
            that is no release.
        KernelError: a malformed hint (``trip_counts``, ``assume``, ``constants``,
            ``updates_per_thread``).

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import perfassert as pa
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "twice.cu")
        ...     _ = path.write_text("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")
        ...     kernel = pa.from_cuda(path, "twice", options=("-use_fast_math",))
        >>> kernel.name
        'twice'
    """
    return _kernel(
        path, "cuda", kernel, Hints.validate(updates_per_thread, trip_counts, assume, constants),
        defines=defines, include_dirs=include_dirs, options=options, toolchain=toolchain,
    )  # fmt: skip


def from_ptx(
    path: AnyPath,
    kernel: str | None = None,
    *,
    options: Sequence[str] = (),
    parameters: Sequence[str] = (),
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    toolchain: str | None = None,
) -> CompiledKernel:
    """Read a kernel from PTX text; ptxas compiles it for the device that it is predicted on.

    Args:
        path: the ``.ptx`` file.
        kernel: its name, mangled or demangled. Default (None): the only kernel of the file.
        options: options of ptxas. Default: none.
        parameters: names of the kernel's parameters, by position. Default: as in the text.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: ``{"stencil.cu:42": 128}``: iterations of loops whose end depends on data.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.
        constants: ``__constant__`` symbol → what the program writes there before the launch.
        toolchain: CUDA release whose ptxas is used: ``"12.4"``. Default: the preferred one.

    Returns:
        A kernel whose registers, instructions and addresses are those of the compiled code. Without
        ptxas its first prediction raises :class:`ToolchainMissing`.

    Raises:
        KernelSourceError: no such file, a setting of another kind than its own, or a ``toolchain``
            that is no release.
        KernelError: a malformed hint (``trip_counts``, ``assume``, ``constants``,
            ``updates_per_thread``), or ``parameters`` that are not distinct names.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import perfassert as pa
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "empty.ptx")
        ...     _ = path.write_text(".version 8.0 .target sm_80 .visible .entry empty() { ret; }")
        ...     kernel = pa.from_ptx(path)
        >>> kernel.name
        'empty'
    """
    hints = Hints.validate(updates_per_thread, trip_counts, assume, constants, parameters)
    return _kernel(path, "ptx", kernel, hints, options=options, toolchain=toolchain)


def from_cubin(
    path: AnyPath,
    kernel: str | None = None,
    *,
    arch: str | None = None,
    parameters: Sequence[str] = (),
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    toolchain: str | None = None,
) -> CompiledKernel:
    """Read a kernel from compiled code: cubin, fat binary, object file, library or listing.

    Libraries may be static or shared; executables work, too. Where the file has several
    architectures, the kernel is read from what a driver would choose for the device: the nearest
    machine code of its major version, else PTX. What is not a cubin or a ``.sass`` listing
    (``nvdisasm -c -hex -gi``) needs ``cuobjdump``.

    Args:
        path: the file.
        kernel: its name, mangled or demangled. Default (None): the only kernel of the file.
        arch: the only architecture to consider: ``"sm_90a"``. Default: as a driver chooses.
        parameters: names of the kernel's parameters, by position; machine code has none.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: ``{"stencil.cu:42": 128}``: iterations of loops whose end depends on data.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.
        constants: ``__constant__`` symbol → what the program writes there before the launch.
        toolchain: CUDA release whose ptxas assembles PTX in the file: ``"12.4"``. Default: the
            preferred one.

    Returns:
        A kernel whose registers, instructions and addresses are those of the code.

    Raises:
        KernelSourceError: no such file, no such architecture, or a ``toolchain`` that is no
            release.
        KernelError: a malformed hint (``trip_counts``, ``assume``, ``constants``,
            ``updates_per_thread``), or ``parameters`` that are not distinct names.

    Example:
        >>> from importlib.resources import files
        >>> import perfassert as pa
        >>> saxpy = pa.from_cubin(files("perfassert.sensitivity") / "saxpy.sass")
        >>> prediction = pa.predict(saxpy, pa.Launch(4096, 256, args={"n": 1 << 20}), "a100")
        >>> prediction.resources.registers, prediction.volumes.dram_load.per_thread
        (10, 8 B/thread)
    """
    kind = "sass" if source_path(path).suffix == ".sass" else "cubin"
    hints = Hints.validate(updates_per_thread, trip_counts, assume, constants, parameters)
    return _kernel(path, kind, kernel, hints, arch=arch, toolchain=toolchain)


def with_toolchain(kernel: Kernel, toolchain: str) -> Kernel:
    """Return the kernel, to be compiled by this CUDA release.

    A kernel that NVIDIA's tools do not compile, or that names its own release, is returned as it
    is.
    """
    if not isinstance(kernel, CompiledKernel) or own_toolchain(kernel) is not None:
        return kernel
    code = kernel.compiled
    if not isinstance(code, CompiledCode):
        return kernel
    written = code.source
    if not isinstance(written, Source):
        return replace(kernel, compiled=replace(code, source=_Written(written, toolchain)))
    if written.kind == "sass":
        return kernel
    return replace(kernel, compiled=replace(code, source=replace(written, toolchain=toolchain)))


@dataclass(frozen=True, eq=False)
class _Written:
    """A source that a generator writes, to be compiled by one release of the toolkit."""

    write: Callable[[str], Source]
    toolchain: str

    def __call__(self, arch: str) -> Source:
        return replace(self.write(arch), toolchain=self.toolchain)


def own_toolchain(kernel: Kernel) -> str | None:
    """Return the release that the kernel names for its compilation, if any."""
    code = kernel.compiled
    named = code.source if isinstance(code, CompiledCode) else code
    return named.toolchain if isinstance(named, (Source, _Written, BuiltCode)) else None


def written_source(kernel: object) -> Source | None:
    """Return the source of a kernel, or None if a generator writes it."""
    code = kernel.compiled if isinstance(kernel, CompiledKernel) else None
    source = code.source if isinstance(code, CompiledCode) else None
    return source if isinstance(source, Source) else None


def _kernel(
    path: AnyPath, kind: str, kernel: str | None, hints: Hints, **settings: Any
) -> CompiledKernel:
    place = source_path(path)
    source = source_of(place, kind, kernel, **settings)
    check_source_file(place)
    code = CompiledCode(source, hints)
    return CompiledKernel(
        name=kernel or place.stem, updates_per_thread=hints.updates_per_thread, compiled=code
    )


@dataclass(frozen=True, eq=False)
class Hints:
    """Hints that the author of a kernel gives beyond its code.

    ``recorded`` is True if the constants are all those that a program has written; the kernel need
    not read every one.
    """

    updates_per_thread: int
    trip_counts: Mapping[str, int]
    assume: Mapping[str, str]
    constants: Mapping[str, Any]
    parameters: tuple[str, ...] = ()
    recorded: bool = False

    @classmethod
    def validate(
        cls,
        updates_per_thread: int,
        trip_counts: Mapping[str, int] | None,
        assume: Mapping[str, str] | None,
        constants: Mapping[str, Any] | None = None,
        parameters: Sequence[str] = (),
    ) -> Hints:
        """Return checked hints; :class:`KernelError` for a bad trip count, table or name."""
        tables = {"trip_counts": trip_counts, "assume": assume, "constants": constants}
        for what, table in tables.items():
            check_kind({} if table is None else table, Mapping, what, KernelError)
        counts = {
            key: to_integer(count, f"trip_counts[{in_short(key)}]", KernelError, 0)
            for key, count in (trip_counts or {}).items()
        }
        wrong = isinstance(parameters, str)
        names = () if wrong else tuple(to_list(parameters, "parameters", KernelError))
        if wrong or len(set(names)) < len(names):
            raise KernelError(f"parameters must be names, each another, not {in_short(parameters)}")
        updates = to_integer(updates_per_thread, "updates_per_thread", KernelError, 1)
        return cls(updates, counts, dict(assume or {}), dict(constants or {}), names)

    def rename_parameters(self, binary: Binary) -> Binary:
        """Return the binary with the parameter names of the hints."""
        known, names = binary.parameters, self.parameters
        if not names:
            return binary
        if len(known) != len(names):
            raise KernelError(
                f"parameters: kernel {binary.kernel!r} has {len(known)}, not {len(names)}"
            )
        renamed = (replace(p, name=name) for p, name in zip(known, names, strict=True))
        return replace(binary, parameters=tuple(renamed)).with_digest()


class Analyses:
    """Maker of binaries and their analyses, without memory; that of a session remembers them."""

    def binary(self, source: Source, arch: str) -> Binary:
        """Compile the source for ``arch`` from the present files."""
        return build(source, arch)

    def digest(self, code: BuiltCode) -> str:
        """Return a digest of the code that does not depend on the folders of its files."""
        return content_digest(code)

    def bound_digest(
        self, kernel: CompiledKernel, launch: Launch, arch: str, warp_size: int
    ) -> str:
        """Return a digest of the kernel as bound to a launch, for code that binds itself."""
        return content_digest(kernel.bind(launch, arch, warp_size)[0])

    def lower(self, binary: Binary) -> Lowered:
        """Return the instructions of the listing and the operations that they stand for."""
        from perfassert.frontends.machine.lowering import lower

        return lower(binary)

    def program(self, binary: Binary, rare: Rare, executed: Rare) -> Program:
        """Describe a binary; see :func:`~perfassert.frontends.analysis.describe.describe`."""
        from perfassert.frontends.analysis.describe import describe

        return describe(binary, rare, executed, self.lower(binary))


DIRECT = Analyses()


@dataclass(frozen=True, eq=False)
class CompiledCode:
    """A source, and the hints of its author.

    ``source`` is a function where a generator writes a source for each architecture. ``parameters``
    has the generator's parameters in order; it is empty where the code names them.
    """

    source: Source | Callable[[str], Source]
    hints: Hints
    parameters: tuple[Declared, ...] = ()

    def source_for(self, arch: str) -> Source:
        """Return the source for ``arch``."""
        return self.source if isinstance(self.source, Source) else self.source(arch)

    def binary(self, arch: str) -> Binary:
        """Compile for ``arch`` from the present files; return the binary."""
        return self.build(arch).built

    def build(self, arch: str, analyses: Analyses = DIRECT) -> BuiltCode:
        """Compile for ``arch`` from the present files; return the code with its hints.

        Args:
            arch: the architecture.
            analyses: maker of the code's analyses.
        """
        source, constants = self.source_for(arch), self.hints.constants
        kept = with_content(source)
        binary = self._with_declared_parameters(analyses.binary(source, arch))
        if constants:
            from perfassert.frontends.binding.constants import check_constants, with_constants

            binary = with_layouts(binary, source, arch)
            if not self.hints.recorded:
                check_constants(binary, constants, analyses.lower(binary)[1])
            binary = with_constants(binary, constants)
        return BuiltCode(self.hints.rename_parameters(binary), self.hints, analyses, kept)

    def _with_declared_parameters(self, binary: Binary) -> Binary:
        """Return the binary with the names and types of parameters that the generator declares."""
        known, declared = binary.parameters, self.parameters
        if not declared:
            return binary
        if len(known) != len(declared):
            raise KernelSourceError(
                f"kernel {binary.kernel!r} has {len(known)} parameters, not the {len(declared)} "
                "that its generator is known to make: its version is not one that perfassert knows"
            )
        merged = (
            replace(p, name=d.name or p.name, dtype=d.dtype, pointer=d.pointer, members=d.members)
            for p, d in zip(known, declared, strict=True)
        )
        return replace(binary, parameters=tuple(merged)).with_digest()

    def program(self, arch: str) -> Program:
        """Return the description of the code for ``arch``."""
        return self.build(arch).program()

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[BoundKernel, Launch]:
        """Return graph and accesses for a launch, and the launch that the volumes belong to."""
        return self.build(arch).bind(launch, arch, warp_size)

    def executable(self, arch: str) -> MachineCode:
        """Return the machine code for ``arch``, to be executed by ``engines/execution``."""
        return self.build(arch).executable()


def as_recorded(kernel: CompiledKernel) -> CompiledKernel:
    """Mark the constants of a kernel as recorded, so that it need not read all of them."""
    code = kernel.compiled
    if not isinstance(code, CompiledCode):
        return kernel
    return replace(kernel, compiled=replace(code, hints=replace(code.hints, recorded=True)))


@dataclass(frozen=True, eq=False)
class BuiltCode:
    """Code compiled for one device, and the hints of its author.

    ``analyses`` makes or recalls the analyses, which depend on the binary alone. ``source`` is what
    the code was compiled from.
    """

    built: Binary
    hints: Hints
    analyses: Analyses = DIRECT
    source: Source | None = None

    @property
    def toolchain(self) -> str | None:
        """CUDA release that was requested for the compilation, if any."""
        return None if self.source is None else self.source.toolchain

    @property
    def is_listing(self) -> bool:
        """True if the code is a listing, which may not state its static shared memory."""
        return self.built.tools == LISTING

    @property
    def is_cuda(self) -> bool:
        """True if the code is compiled from CUDA source, so that options can change it."""
        return self.source is not None and self.source.kind == "cuda"

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return max(self.built.registers, 1)

    def check_limits(self, launch: Launch) -> None:
        """Raise :class:`LaunchError` for a launch that the code's own limits do not allow."""
        if why := self.built.limits.find_violation(launch.grid, launch.block):
            raise LaunchError.exceeding(f"CUDA refuses the launch of {self.built.kernel}: {why}")

    @property
    def text(self) -> str:
        """Text that the code was compiled from; the code must have a source."""
        assert self.source is not None
        assert self.source.content is not None
        return self.source.content.decode(errors="replace")

    def compile_otherwise(self, options: Sequence[str] = (), text: str | None = None) -> BuiltCode:
        """Compile the source with further options or another text; the code must have a source.

        Raises :class:`KernelError` if its files have changed since.
        """
        source, arch, name = self.source, self.built.arch, self.built.kernel
        assert source is not None
        if CompiledCode(source, self.hints).build(arch, self.analyses).digest() != self.digest():
            raise KernelError(f"options: {source.path} has changed since kernel {name!r} was read")
        content = source.content if text is None else text.encode()
        changed = replace(source, options=(*source.options, *options), content=content)
        return CompiledCode(changed, self.hints).build(arch, self.analyses)

    def program(self, rare: Rare = frozenset(), executed: Rare = frozenset()) -> Program:
        """Return the description; see :func:`~perfassert.frontends.analysis.describe.describe`."""
        return self.analyses.program(self.built, rare, executed)

    def executable(self) -> MachineCode:
        """Return the machine code, to be executed by ``engines/execution``."""
        return self.analyses.lower(self.built)[1]

    def digest(self) -> str:
        """Return a digest of the code that does not depend on the folders of its files."""
        return self.analyses.digest(self)

    def content(self) -> tuple[object, ...]:
        """Return the content for a digest; see :mod:`perfassert.kernel.content`."""
        binary, hints = self.built, self.hints
        numbers = (
            binary.registers, binary.shared_bytes, binary.local_bytes, binary.parameter_base,
            binary.code_bytes,
        )  # fmt: skip
        return (
            binary.mangled, binary.arch, listing_without_folders(binary.listing), numbers,
            binary.parameters, binary.constants, binary.unset, binary.valued, binary.variables,
            binary.tools, binary.assumptions, hints.updates_per_thread, hints.trip_counts,
            hints.assume, hints.recorded,
        )  # fmt: skip

    def bind(
        self,
        launch: Launch,
        arch: str,
        warp_size: int,
        executed: Executed | None = None,
        rare: Rare = frozenset(),
        least: bool = False,
    ) -> tuple[BoundKernel, Launch]:
        """Return graph and accesses for a launch, and the launch that the volumes belong to.

        Args:
            launch: grid, block and arguments.
            arch: the architecture that the code was compiled for.
            warp_size: threads of a warp.
            executed: results of a sample of blocks, for accesses without a correct closed form.
            rare: sides of jumps that are assumed never to be executed.
            least: see :class:`~perfassert.frontends.binding.binder.Binder`.
        """
        from perfassert.frontends.cuda.code_binding import bind_code

        return bind_code(self, launch, warp_size, executed, rare, least)


class PerLaunch(ABC):
    """Code that is compiled anew for the arguments of a launch."""

    @abstractmethod
    def build_for(self, launch: Launch, arch: str, warp_size: int) -> tuple[BuiltCode, Launch]:
        """Return the code for a launch, and the launch with the arguments that this code has."""

    @abstractmethod
    def compile_for_later(self, launch: Launch, arch: str) -> None:
        """Compile for a launch; the next run of nvdisasm for the architecture reads the code.

        Raises :class:`KernelSourceError` if it cannot be compiled.
        """

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[BoundKernel, Launch]:
        """Return graph and accesses for a launch, and the launch that the volumes belong to."""
        code, launch = self.build_for(launch, arch, warp_size)
        return code.bind(launch, arch, warp_size)
