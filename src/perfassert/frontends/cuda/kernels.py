"""Kernels from CUDA source, PTX and compiled code, which are compiled when needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from perfassert.errors import (
    KernelError,
    KernelSourceError,
    LaunchError,
    check_kind,
    in_short,
)
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.binding.arguments import Arguments
from perfassert.frontends.binding.assumed_values import (
    assumed_value_texts,
    check_assumed_values,
    read_assumed_values,
)
from perfassert.frontends.binding.binder import (
    Binder,
    check_trip_counts,
)
from perfassert.frontends.binding.bound_accesses import bind_accesses
from perfassert.frontends.binding.constants import check_constants, with_constants
from perfassert.frontends.binding.executed_accesses import with_touched
from perfassert.frontends.binding.grid_strides import normalise_strides
from perfassert.frontends.binding.idle import note_idleness
from perfassert.frontends.graph.executed_counts import contradiction
from perfassert.frontends.graph.launch_graph import launch_graph, representative_block
from perfassert.frontends.machine.lowering import Lowered, lower
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
from perfassert.hardware.matrix import WARPS_OF_A_GROUP, MatrixVariant
from perfassert.kernel.content import content_digest, listing_without_folders
from perfassert.kernel.description import (
    BoundKernel,
    CompiledKernel,
    Kernel,
    LongestBlocks,
)
from perfassert.kernel.executed import Executed, SampleWork
from perfassert.kernel.field import Field
from perfassert.kernel.graph import InstructionGraph, Node
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import MachineCode
from perfassert.kernel.program import Program
from perfassert.kernel.roles import Role
from perfassert.quantity import to_integer, to_list
from perfassert.source import CORRECTED, DISAGREEMENT, Assumption

_GUESSED_ERROR = 0.5
"""Largest relative error of the executed blocks' mean work; beyond it, the mean is a guess."""
_REPORTED_ERROR = 0.1
"""Relative error of the mean work that needs no assumption; the standard error is 5 % then."""
_FLOPS = {
    "FFMA": 2, "FADD": 1, "FMUL": 1, "DFMA": 2, "DADD": 1, "DMUL": 1,
    "HFMA2": 4, "HADD2": 2, "HMUL2": 2, "FFMA2": 4, "FADD2": 2, "FMUL2": 2,
}  # fmt: skip
Rare = frozenset[tuple[int, bool]]
"""Sides of conditional jumps, by byte address, that never happen; True: the jump is taken."""
_DTYPES = {"D": "float64", "F": "float32", "H": "float16"}
_MATRIX_DTYPES = {"f64": "float64", "tf32": "float32", "s8": "int32", "s4": "int32", "b1": "int32"}


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
        return lower(binary)

    def program(self, binary: Binary, rare: Rare, executed: Rare) -> Program:
        """Describe a binary; see :func:`~perfassert.frontends.analysis.describe.describe`."""
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
            binary = with_layouts(binary, source, arch)
            if not self.hints.recorded:
                check_constants(binary, constants, analyses.lower(binary)[1])
        binary = self.hints.rename_parameters(with_constants(binary, constants))
        return BuiltCode(binary, self.hints, analyses, kept)

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
        kernel, work, contradicted = _bind(self, launch, warp_size, executed, rare, least)
        if executed is not None and contradicted and not executed.corrections:
            # Closed forms of some instructions do not fit counts of others, so all are counted.
            corrections = (Assumption(f"{CORRECTED}: {contradicted}"),)
            executed = replace(executed, corrections=corrections)
            kernel, work, _ = _bind(self, launch, warp_size, executed, rare, least)
        return kernel, work


def _bind(
    code: BuiltCode,
    launch: Launch,
    warp_size: int,
    executed: Executed | None,
    rare: Rare,
    least: bool,
) -> tuple[BoundKernel, Launch, str]:
    """Bind as :meth:`BuiltCode.bind`; also return how graph and executed counts differ, if so."""
    binary, hints, contradicted = code.built, code.hints, ""
    code.check_limits(launch)
    program = code.program(rare)
    if executed and (sides := _executed_slow_paths(program, executed.work)):
        program = code.program(rare, sides)
    arguments = Arguments(program, launch, binary.kernel)
    check_trip_counts(program, hints.trip_counts)
    values = read_assumed_values(hints.assume, program)
    binder = Binder(
        program, launch, arguments, hints.trip_counts, values, warp_size, executed, least
    )
    for text, place in assumed_value_texts(hints.assume, program):
        binder.assume(text, place)
    bound, touches = bind_accesses(binder)
    bound = with_touched(binder, bound, touches)
    bound = tuple(map(arguments.place_access, bound))
    note_idleness(binder, bound)
    effective_launch, bound = normalise_strides(binder, bound)
    stands = representative_block(program, binder, warp_size, launch.working_grid(effective_launch))
    graph = launch_graph(program, binder, touches, warp_size, stands.block)
    longest = None
    if stands.longest is not None and executed is None:
        noted = dict(binder.assumptions)
        blocks = launch_graph(program, binder, touches, warp_size, stands.longest.block)
        longest = LongestBlocks(blocks, stands.longest.count)
        binder.assumptions = noted
    flops, dtype, arithmetic = _arithmetic(graph, program, launch, warp_size)
    unmasked = prod(launch.working_grid(effective_launch))
    if stands.amount is not None:  # the mean of all threads
        flops *= stands.amount / unmasked
    if executed is not None:
        warps = -(-launch.threads_per_block // warp_size)
        share, idle = (stands.amount or unmasked) / executed.of, 1 - unmasked / executed.of
        if executed.blocks == 1:  # the executed block is the simulated one
            share, idle = 1.0, 0.0
        contradicted = contradiction(graph, executed.work, warps, share, idle)
        if contradicted and executed.corrections:
            binder.assume(contradicted, stands_for=DISAGREEMENT)
        if executed.work_error > _REPORTED_ERROR:
            binder.assume(
                f"blocks differ in work: the mean of {executed.sample} may be off by "
                f"{executed.work_error:.0%}",
                stands_for="sample" if executed.work_error > _GUESSED_ERROR else "",
            )
    elif not rare:
        read = binder.assumed_and_read
        check_assumed_values(hints.assume, program, read)
    aligned = {n: b.alignment for n, b in arguments.buffers.items()}
    names = dict.fromkeys(a.field for a in bound)
    kernel = BoundKernel(
        name=binary.kernel,
        fields={n: Field.pointer(n, aligned.get(n, 256)) for n in names},
        flops=flops,
        dtype=dtype,
        registers=code.registers,
        shared_bytes=binary.shared_bytes,
        updates_per_thread=hints.updates_per_thread,
        assumptions=(*_relevant_assumptions(program, graph), *binder.assumptions),
        graph=graph,
        bound=bound,
        spill_bytes=binary.local_bytes,
        program=program,
        code_bytes=program.code_bytes,
        working=stands.working,
        amount=stands.amount,
        idle=stands.idle,
        longest=longest,
        standing=stands.block,
        executed=executed,
        rare=rare,
        arithmetic=arithmetic,
    )
    return kernel, effective_launch, contradicted


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


def _relevant_assumptions(program: Program, graph: InstructionGraph) -> Iterator[Assumption]:
    """Yield the assumptions about the code, without those about calls that the launch skips."""
    made = {assumption for node in graph.nodes for assumption in node.rests_on}
    return (a for a in program.assumptions if a.stands_for != "call" or a in made)


def _executed_slow_paths(program: Program, work: SampleWork | None) -> Rare:
    """Return the sides of jumps that a sample took into blocks assumed never to be executed."""
    if work is None:
        return frozenset()
    never = {index for index, block in program.blocks.items() if block.skipped}
    starts = (program.instructions[program.blocks[index].start] for index in never)
    if not any(any(work.counts.get(start.address, ())) for start in starts):
        return frozenset()
    jumps = {
        program.instructions[block.stop - 1].address
        for block in program.blocks.values()
        if not block.skipped and never.intersection(block.successors)
    }
    return frozenset(side for side in work.sides if side[0] in jumps)


def _arithmetic(
    graph: InstructionGraph, program: Program, launch: Launch, warp_size: int
) -> tuple[float, str, str]:
    """Return flops per thread, their main type, and the matrix class of that type if any."""
    warps = -(-launch.threads_per_block // warp_size)
    counts: dict[str, float] = {}
    variants = {name: MatrixVariant.from_name(name) for name in {n.operation for n in graph.nodes}}
    for node in graph.nodes:
        name, flops = _flops(node, variants[node.operation], program, warp_size)
        if flops:
            times = graph.executions(node, warps)
            counts[name] = counts.get(name, 0.0) + times * flops / warps
    if not counts:
        return 0.0, "float32", ""
    most = max(counts, key=lambda name: counts[name])
    variant = MatrixVariant.from_name(most)
    if variant is None:
        return sum(counts.values()), most, ""
    return sum(counts.values()), _MATRIX_DTYPES.get(variant.input, "float16"), most


def _flops(
    node: Node, variant: MatrixVariant | None, program: Program, warp_size: int
) -> tuple[str, float]:
    """Return type or matrix variant of an instruction, and its flops per lane."""
    if node.operation == "move":
        return "", 0.0
    if variant is not None:
        together = WARPS_OF_A_GROUP if variant.unit == "wgmma" else 2 if variant.paired else 1
        return variant.name, 2 * variant.multiply_adds / together / warp_size
    instruction = program.instructions[node.program]
    if Role.BUILDS_CONSTANT in instruction.roles:
        return "", 0.0
    base = instruction.opcode.partition(".")[0]
    return (_DTYPES[base[0]], _FLOPS[base]) if base in _FLOPS else ("", 0.0)
