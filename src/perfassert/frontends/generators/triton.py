"""``from_triton``: a :class:`Kernel` from a JIT function, compiled by Triton without a GPU.

Functions under ``@gluon.jit`` belong to Triton, too; their layouts are constants.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from inspect import getsourcelines
from operator import index
from types import ModuleType
from typing import Any

from perfassert.errors import KernelSourceError, LaunchError, check_kind, close_matches, in_short
from perfassert.frontends.cuda.kernels import BuiltCode, Hints, PerLaunch
from perfassert.frontends.generators.generated import by_name, package, with_args
from perfassert.frontends.toolchain.architecture import number
from perfassert.frontends.toolchain.binary import Binary, Parameter
from perfassert.frontends.toolchain.build import Layout, disassemble_later, from_compiler
from perfassert.frontends.toolchain.compilers import CompiledModule
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Buffer, Launch
from perfassert.kernel.machine import WARP_LANES
from perfassert.source import SourceSpan

_TESTED = ((3, 4), (3, 9))
_SCRATCH = ("global_scratch", "profile_scratch")  # pointers that Triton appends, in this order
_DIVISIBLE = ["tt.divisibility", 16]
_INTEGER = re.compile(r"[iu](?:8|16|32|64)")
_SIMPLE = re.compile(r"\*?k?\w+")  # types that become one parameter each: no tuple, no descriptor
_DTYPES = {
    "i1": "bool", "u1": "bool", "i8": "signed char", "u8": "unsigned char", "i16": "short",
    "u16": "unsigned short", "i32": "int", "u32": "unsigned int", "i64": "long long",
    "u64": "unsigned long long", "fp16": "__half", "bf16": "__nv_bfloat16", "fp32": "float",
    "fp64": "double",
}  # fmt: skip


def from_triton(
    jit_function: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any] | None = None,
    *,
    num_warps: int = 4,
    num_stages: int | None = None,
    maxnreg: int | None = None,
    attrs: Mapping[tuple[int, ...], Sequence[Sequence[Any]]] | None = None,
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Read a kernel from a Triton or Gluon function, compiled by Triton without a GPU.

    It is compiled when it is first predicted, for that device. A launch has ``num_warps * 32``
    threads per block. Pass an autotuned kernel as ``kernel.fn``, or rank its configurations with
    :func:`rank_autotune`.

    Args:
        jit_function: a function under ``@triton.jit`` or ``@gluon.jit``.
        signature: Triton's types by parameter: ``{"x": "*fp32", "n": "i32"}``.
        constexprs: values of the other parameters, where they have no default. Default: none.
        num_warps: warps of a block. Default: 4.
        num_stages: stages of software pipelining. Default: Triton's.
        maxnreg: most registers of a thread. Default: Triton's.
        attrs: what Triton may rely on, as its ``ASTSource`` takes it. Default: what Triton itself
            takes from a launch: pointers and integers in ``Launch.args`` that are multiples of 16,
            integers that are 1. A pointer that is not in ``Launch.args`` counts as aligned.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        A kernel whose registers, instructions and addresses are those of the compiled code.

    Raises:
        KernelSourceError: no JIT function, or a signature that is not its.
        ToolchainMissing: Triton is not installed.
        KernelError: malformed ``trip_counts``, ``assume`` or ``updates_per_thread``.

    Example:
        >>> import perfassert as pa
        >>> import triton  # doctest: +SKIP
        >>> import triton.language as tl  # doctest: +SKIP
        >>> @triton.jit  # doctest: +SKIP
        ... def double(x, BLOCK: tl.constexpr):
        ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     tl.store(x + i, 2 * tl.load(x + i))
        >>> pa.from_triton(double, {"x": "*fp32"}, {"BLOCK": 256}).name  # doctest: +SKIP
        'double'
    """
    triton = triton_module()
    function = _jit_function(triton, jit_function)
    check_kind({} if constexprs is None else constexprs, Mapping, "constexprs", KernelSourceError)
    types, constants = _parameters(function, signature, dict(constexprs or {}))
    options = _options(num_warps, num_stages, maxnreg)
    hints = Hints.validate(updates_per_thread, trip_counts, assume)
    source = TritonSource(function, types, constants, options, attrs)
    return CompiledKernel(
        name=function.__name__,
        updates_per_thread=updates_per_thread,
        compiled=TritonCode(source, hints),
    )


_MOST = {"num_warps": 32, "num_stages": 64, "maxnreg": 255}


def _options(num_warps: int, num_stages: int | None, maxnreg: int | None) -> dict[str, int]:
    """Return the options that are given; Triton has defaults for the others."""
    optional = {"num_stages": num_stages, "maxnreg": maxnreg}
    options = {"num_warps": num_warps, **{k: v for k, v in optional.items() if v is not None}}
    for what, value in options.items():
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not 0 < value <= _MOST[what]:
            raise KernelSourceError(
                f"{what} must be an integer from 1 to {_MOST[what]}, not {in_short(value)}"
            )
    return options


@dataclass(frozen=True)
class CheckedText:
    """Lines of a checked text, under the file name that its functions have."""

    file: str
    lines: tuple[str, ...]

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Make the lines available to ``linecache``, where Triton looks for them.

        Triton reads the source of a function when the function is made; 3.4 reads it again to
        compile.
        """
        size = sum(map(len, self.lines))
        linecache.cache[self.file] = (size, None, [*self.lines], self.file)
        try:
            yield
        finally:
            linecache.cache.pop(self.file, None)


@dataclass(frozen=True, eq=False)
class _TritonModule:
    """A compiled module: types of its parameters, dynamic shared memory in bytes, warps of a block.

    ``where`` names the function in errors.
    """

    module: CompiledModule
    where: str
    arch: str
    types: Mapping[str, str]
    shared_bytes: int
    warps: int

    @cached_property
    def binary(self) -> Binary:
        """Its machine code, which is disassembled when it is first asked for."""
        binary = from_compiler(
            self.module, self.where, self.arch, lambda layout: _named_parameters(self.types, layout)
        )
        shared = binary.shared_bytes + self.shared_bytes
        return replace(binary, shared_bytes=shared).with_digest()


@dataclass(frozen=True, eq=False)
class TritonSource:
    """A JIT function with all that Triton needs to compile it, except the architecture.

    ``types`` has every parameter in order, ``"constexpr"`` for those in ``constants``.
    """

    function: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, int]
    attrs: Mapping[tuple[int, ...], Sequence[Sequence[Any]]] | None = None
    _made: dict[object, _TritonModule] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> SourceSpan:
        """Place of the function's definition."""
        file = getattr(self.function, "file_name", None)  # not before Triton 3.8, unless set here
        return SourceSpan(file or self.function.fn.__code__.co_filename, _definition(self.function))

    def build(self, arch: str, args: Mapping[str, Any]) -> tuple[Binary, int]:
        """Return machine code specialised for ``arch`` and ``args``, and its warps per block."""
        made = self.compile(arch, args)
        return made.binary, made.warps

    def compile(self, arch: str, args: Mapping[str, Any]) -> _TritonModule:
        """Return what Triton's compiler makes for ``arch`` and ``args``, not disassembled."""
        ones, attrs = self._specialise(args)
        key = (arch, ones, repr(attrs))
        if key not in self._made:
            self._made[key] = self._compile(arch, ones, attrs)
        return self._made[key]

    def _specialise(
        self, args: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], dict[tuple[int, ...], Any]]:
        """Return the parameters that are 1, and the attributes, as Triton specialises a launch."""
        if self.attrs is not None:
            return (), dict(self.attrs)
        ones: list[str] = []
        attrs: dict[tuple[int, ...], Any] = {}
        for position, parameter in enumerate(self.function.params):
            name = parameter.name
            kind, given = self.types[name], args.get(name)
            if parameter.do_not_specialize or kind == "constexpr":
                continue
            if kind.startswith("*"):
                divisible = not isinstance(given, Buffer) or given.alignment % 16 == 0
            else:
                value = _to_integer(given) if _INTEGER.fullmatch(kind) else None
                if value == 1:
                    ones.append(name)
                    continue
                divisible = value is not None and value % 16 == 0
            if divisible and not parameter.do_not_specialize_on_alignment:
                attrs[(position,)] = [_DIVISIBLE]
        return tuple(ones), attrs

    def _compile(
        self, arch: str, ones: tuple[str, ...], attrs: Mapping[tuple[int, ...], Any]
    ) -> _TritonModule:
        triton = triton_module()
        from triton.backends.compiler import GPUTarget

        types = dict(self.types) | dict.fromkeys(ones, "constexpr")
        constants = dict(self.constants) | dict.fromkeys(ones, 1)
        target = GPUTarget("cuda", number(arch), WARP_LANES)
        try:
            text = getattr(self.function, "checked_text", None)
            with text.readable() if text else nullcontext(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Triton's own, about Triton
                source = _source_type(self.function)(self.function, types, constants, dict(attrs))
                made = triton.compile(source, target=target, options=dict(self.options))
            cubin, metadata = made.asm["cubin"], made.metadata
        except Exception as error:  # a compiler in this process may raise anything
            raise self._failure(arch, error) from error
        tools = (f"triton {triton.__version__}",)
        module = CompiledModule(cubin, None, tools, metadata.name)
        kept = {name: kind for name, kind in types.items() if kind != "constexpr"}
        where, shared, warps = str(self.where), metadata.shared, metadata.num_warps
        return _TritonModule(module, where, arch, kept, shared, warps)

    def _failure(self, arch: str, error: Exception) -> KernelSourceError:
        """Return an error with the line in this function and the message of the innermost error."""
        place = self.where
        line = getattr(getattr(error, "node", None), "lineno", 1)  # counted from the definition
        place = replace(place, line=place.line + line - 1)
        inner: BaseException = error
        while type(inner.__cause__).__module__.startswith("triton"):
            inner = inner.__cause__  # type: ignore[assignment]
        reason = str(inner.__cause__ or "")  # Triton 3.4 leaves it out of its own message
        message = str(inner).strip() or type(inner).__name__
        message += "" if reason in message else f"\n{reason}"
        return KernelSourceError(f"{place}: Triton cannot compile this for {arch}: {message}")


@dataclass(frozen=True, eq=False)
class TritonCode(PerLaunch):
    """Code that Triton makes; see :class:`~perfassert.kernel.description.CompilableCode`."""

    source: TritonSource
    hints: Hints

    def binary(self, arch: str, args: Mapping[str, Any]) -> Binary:
        """Compile for ``arch``, specialised for the known ``args``."""
        return self.source.build(arch, args)[0]

    def compile_for_later(self, launch: Launch, arch: str) -> None:
        """Compile for a launch; see :class:`~perfassert.frontends.cuda.kernels.PerLaunch`."""
        made = self.source.compile(arch, self._args(launch))
        disassemble_later(made.module, made.where, arch)

    def build_for(self, launch: Launch, arch: str, warp_size: int) -> tuple[BuiltCode, Launch]:
        """Return the code for a launch; see :class:`~perfassert.frontends.cuda.kernels.PerLaunch`.

        Raises :class:`LaunchError` for a block that differs from the one Triton would launch.
        """
        args = self._args(launch)
        binary, warps = self.source.build(arch, args)
        block = (warps * warp_size, 1, 1)
        if launch.block != block:
            raise LaunchError(
                f"Triton starts {binary.kernel!r} in blocks of {block[0]} threads ({warps} warps); "
                f"use block={block[0]}, not {_block_text(launch.block)}, or another num_warps"
            )
        kept = {n: v for n, v in args.items() if self._is_parameter(n, binary)}
        return BuiltCode(binary, self.hints), with_args(launch, kept)

    def _args(self, launch: Launch) -> Mapping[str, Any]:
        names = [n for n, t in self.source.types.items() if t != "constexpr"]
        return by_name(launch, names, self.source.function.__name__)

    def _is_parameter(self, name: str, binary: Binary) -> bool:
        """Return False for a parameter that compilation made a constant."""
        return name not in self.source.types or any(p.name == name for p in binary.parameters)


def triton_module() -> ModuleType:
    """Return the module ``triton``, with its compiler imported."""
    module = package("triton", "triton", _TESTED, "triton")
    import_module("triton.compiler")
    return module


def _source_type(function: Any) -> Any:
    """Return Triton's source class for the function; functions of Gluon have their own class."""
    from triton.compiler import ASTSource

    if not getattr(function, "is_gluon", lambda: False)():
        return ASTSource
    if triton_module().__version__.startswith("3.4."):
        raise KernelSourceError("Triton 3.4 compiles no Gluon function without a GPU; 3.6 does")
    from triton.experimental.gluon._runtime import GluonASTSource

    return GluonASTSource


def _jit_function(triton: ModuleType, given: Any) -> Any:
    """Return ``given`` if it is a JIT function; raise for an autotuner and other objects."""
    kind = type(given).__name__
    if isinstance(given, triton.JITFunction):
        return given
    if kind in ("Autotuner", "Heuristics"):
        raise KernelSourceError(
            f"a kernel under @triton.{kind.lower()} has no one configuration: pass the function "
            "itself, kernel.fn, and the values of one configuration as constexprs, or rank them "
            "all with pa.rank_autotune"
        )
    if kind == "InterpretedFunction":
        raise KernelSourceError("TRITON_INTERPRET is set, so that there is nothing to compile")
    raise KernelSourceError(f"{in_short(given)} is no JIT function; decorate it with @triton.jit")


def _parameters(
    function: Any, signature: Mapping[str, str], constants: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the type of every parameter in order, and the values of the constant ones."""
    name = function.__name__
    if not isinstance(signature, Mapping):
        raise KernelSourceError(
            f"the signature of {name!r} must map names to types, not {in_short(signature)}"
        )
    names = [p.name for p in function.params]
    for key in (*signature, *constants):
        if key not in names:
            near = close_matches(key, names) if isinstance(key, str) else ""
            raise KernelSourceError(f"{name!r} has no parameter {in_short(key)}{near}")
    types = {}
    for parameter in function.params:
        key, kind = parameter.name, signature.get(parameter.name, "constexpr")
        if not isinstance(kind, str):
            raise KernelSourceError(f"the type of {key!r} must be text, not {in_short(kind)}")
        if key in constants or parameter.is_constexpr:
            kind = "constexpr"
        if kind == "constexpr" and key not in constants:
            if not parameter.has_default:
                what = (
                    "a value in constexprs" if parameter.is_constexpr else "a type in the signature"
                )
                raise KernelSourceError(f"parameter {key!r} of {name!r} needs {what}")
            constants[key] = parameter.default
        types[key] = kind
    return types, constants


def _named_parameters(types: Mapping[str, str], layout: Layout) -> tuple[Parameter, ...]:
    """Return ``layout`` with the function's parameter names, then names for Triton's pointers."""
    flat = all(_SIMPLE.fullmatch(kind) for kind in types.values())
    known = list(types.items()) if flat and len(types) <= len(layout) else []
    if known:
        extra = (*_SCRATCH, *(f"scratch{i}" for i in range(len(layout))))
        known += [(n, "*i8") for n in extra[: len(layout) - len(known)]]
    parameters = []
    for i, (offset, size) in enumerate(layout):
        name, kind = known[i] if known else (f"arg{i}", "")
        dtype = _DTYPES.get(kind.removeprefix("*").removeprefix("k"))
        parameters.append(Parameter(name, offset, size, kind.startswith("*"), dtype))
    return tuple(parameters)


def _to_integer(value: Any) -> int | None:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return index(value)


def _definition(function: Any) -> int:
    """Return the line of ``def``, which is below the decorators."""
    text: Sequence[str] = ()
    with suppress(OSError):  # Triton 3.4 has no raw_src; a checked text starts with its definition
        lines = getattr(function, "raw_src", None) or getsourcelines(function.fn)[0]
        text = lines.splitlines() if isinstance(lines, str) else lines
    skipped = next((i for i, line in enumerate(text) if re.match(r"\s*def\b", line)), 0)
    return int(function.starting_line_number) + skipped


def _block_text(block: tuple[int, int, int]) -> str:
    return f"{block[0]}" if block[1:] == (1, 1) else f"{block}"
