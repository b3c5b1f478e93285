"""``from_numba``: a kernel from a ``@cuda.jit`` function, compiled by Numba without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, LaunchError, in_short
from perfassert.frontends.cuda.kernels import Hints
from perfassert.frontends.generators.generated import (
    C_TYPES,
    by_name,
    generated_kernel,
    package,
    ptx_source,
    with_args,
)
from perfassert.frontends.toolchain.architecture import number
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.signature import Declared
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Buffer, Launch

_TESTED = ((0, 30), (0, 30))
_KEPT = ("fastmath", "opt", "launch_bounds")  # options of @cuda.jit that shape the code
_DATA = "data"


def from_numba(
    dispatcher: Any,
    signature: Any,
    *,
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Read a kernel from a Numba function under ``@cuda.jit``, compiled without a GPU.

    It is compiled when it is first predicted, for that device. ``Launch.args`` takes the function's
    own parameters: for an array an array, a :class:`Buffer` or a shape, from which extents and
    strides follow (``x.shape[0]`` and ``x.strides[0]`` may be given as well).

    Args:
        dispatcher: the function under ``@cuda.jit``, which has no signature in the decorator.
        signature: Numba's: ``"void(float32, float32[::1])"``, ``void(...)`` or a tuple of types; or
            a tuple of arguments such as a call has.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        A kernel whose registers, instructions and addresses are those of the compiled code.

    Raises:
        KernelSourceError: no kernel, or a signature that is not its.
        ToolchainMissing: Numba is not installed.
        KernelError: malformed ``trip_counts``, ``assume`` or ``updates_per_thread``.

    Example:
        >>> import perfassert as pa
        >>> from numba import cuda  # doctest: +SKIP
        >>> @cuda.jit  # doctest: +SKIP
        ... def double(x):
        ...     i = cuda.grid(1)
        ...     if i < x.shape[0]:
        ...         x[i] *= 2
        >>> pa.from_numba(double, "void(float32[::1])").name  # doctest: +SKIP
        'double'
    """
    cuda = package("numba.cuda", "numba", _TESTED, "numba-cuda")
    function = getattr(dispatcher, "py_func", None)
    if function is None or getattr(dispatcher, "targetoptions", {}).get("device"):
        raise KernelSourceError(
            f"{in_short(dispatcher)} is no kernel; decorate a function with @cuda.jit"
        )
    types = _types(function, signature)
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    if len(types) != len(names):
        raise KernelSourceError(
            f"the signature of {function.__name__!r} has {len(types)} types, the function "
            f"{len(names)} parameters: {', '.join(names)}"
        )
    kinds = dict(zip(names, types, strict=True))
    hints = Hints.validate(updates_per_thread, trip_counts, assume)
    call = _Call(function.__name__, kinds)
    return generated_kernel(
        function.__name__,
        _Compiler(cuda, function, types, dict(dispatcher.targetoptions)),
        hints,
        tuple(call.parameters()),
        call.spelled_out,
    )


def _types(function: Any, signature: Any) -> tuple[Any, ...]:
    """Return the parameters' types as Numba has them."""
    numba: Any = import_module("numba")
    sigutils: Any = import_module("numba.core.sigutils")
    types, name = numba.types, function.__name__
    try:
        if isinstance(signature, (tuple, list)) and not all(
            isinstance(s, types.Type) for s in signature
        ):
            return tuple(s if isinstance(s, types.Type) else numba.typeof(s) for s in signature)
        args, returned = sigutils.normalize_signature(signature)
    except (
        numba.core.errors.NumbaError,
        TypeError,
        ValueError,
        NameError,
        AttributeError,
    ) as error:
        raise KernelSourceError(
            f"{signature!r} is no signature of {name!r} ({error}); give Numba's, such as "
            '"void(float32, float32[::1])", or a tuple of arguments'
        ) from None
    if returned not in (None, types.none, types.void):
        raise KernelSourceError(f"{name!r} is to return {returned}; a kernel returns nothing")
    return tuple(args)


@dataclass(frozen=True, eq=False)
class _Compiler:
    """Compiler of a function to PTX, for one architecture at a time."""

    cuda: Any
    function: Any
    types: tuple[Any, ...]
    options: Mapping[str, Any]

    def __call__(self, arch: str) -> Source:
        code = self.function.__code__
        place = f"{code.co_filename}:{code.co_firstlineno}"
        kept = {k: self.options[k] for k in _KEPT if self.options.get(k) is not None}
        try:
            text, _ = self.cuda.compile_ptx(
                self.function, self.types, lineinfo=True, cc=divmod(number(arch), 10), **kept
            )
        except Exception as error:  # a compiler in this process may raise anything
            raise KernelSourceError(
                f"{place}: Numba cannot compile {self.function.__name__!r} for {arch}: "
                f"{_first_lines(error)}"
            ) from error
        most = self.options.get("max_registers")
        source = ptx_source(text, f"{Path(place).name}.ptx")
        return source if most is None else ptx_source(
            text, str(source.path), (f"-maxrregcount={most}",)
        )  # fmt: skip


def _first_lines(error: Exception) -> str:
    """Return the first two lines of Numba's error: reason and place."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:2]) or type(error).__name__


@dataclass(frozen=True, eq=False)
class _Call:
    """Translation of a call's arguments into the kernel's parameters."""

    kernel: str
    kinds: Mapping[str, Any]

    def parameters(self) -> Iterator[Declared]:
        """Yield the parameters of the code; Numba's data model splits arrays and tuples."""
        from numba.cuda.descriptor import cuda_target

        models = cuda_target.target_context.data_model_manager
        for name, kind in self.kinds.items():
            yield from _leaves(models, kind, name)

    def spelled_out(self, launch: Launch) -> Launch:
        """Add extents and strides of arrays; values that the launch names itself come first."""
        arguments = by_name(launch, list(self.kinds), self.kernel)
        args: dict[str, Any] = {}
        for name, value in arguments.items():
            args |= self._split_argument(name, value, arguments)
        return with_args(launch, args)

    def _split_argument(self, name: str, value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        kind = self.kinds.get(name)
        if kind is not None and hasattr(kind, "ndim") and f"{name}.nitems" not in given:
            return {k: v for k, v in self._array(name, kind, value) if k == name or k not in given}
        if kind is not None and isinstance(value, (tuple, list)):
            return {f"{name}[{i}]": v for i, v in enumerate(value)}
        if isinstance(value, complex):
            return {f"{name}.real": value.real, f"{name}.imag": value.imag}
        return {name: value}

    def _array(self, name: str, kind: Any, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield the parts of an array argument.

        ``value`` is a Buffer (arrays were converted to one) or a shape; else it is a bare pointer.
        """
        if isinstance(value, (tuple, list)) or (isinstance(value, int) and kind.ndim == 1):
            value = Buffer(value, str(kind.dtype))
        if not isinstance(value, Buffer) or value.alias is not None:
            yield name, value
            return
        yield name, _in_columns(value) if kind.layout == "F" else value
        if len(value.shape) != kind.ndim:
            raise LaunchError(
                f"argument {name!r} of {self.kernel!r} has {kind.ndim} dimensions; "
                f"{value.shape} does not fit"
            )
        size = kind.dtype.bitwidth // 8
        steps = _strides(value.shape, size, kind.layout)
        total = 1
        for axis, (extent, step) in enumerate(zip(value.shape, steps, strict=True)):
            yield f"{name}.shape[{axis}]", extent
            yield f"{name}.strides[{axis}]", step
            total *= extent
        yield f"{name}.nitems", total
        yield f"{name}.itemsize", size


def _in_columns(value: Buffer) -> Buffer:
    """Return the buffer in column-major order, the layout that Numba was told of."""
    if value.data is None:
        return value
    columns = value.data.ravel(order="F")
    return Buffer(data=columns, alignment=value.alignment, offset=value.offset)


def _strides(shape: Sequence[int], size: int, layout: str) -> list[int]:
    """Return the strides in bytes of an array without gaps; layout ``"A"`` counts as C's order."""
    steps = []
    for extent in shape if layout == "F" else reversed(shape):
        steps.append(size)
        size *= extent
    return steps if layout == "F" else steps[::-1]


def _leaves(models: Any, kind: Any, name: str) -> Iterator[Declared]:
    """Yield the parameters that one of Numba's types becomes."""
    model = models[kind]
    if not isinstance(model.get_argument_type(), (tuple, list)):
        dtype = C_TYPES.get(str(kind))
        yield Declared(name, dtype, pointer=False)
    elif hasattr(kind, "layout"):
        yield from _of_array(models, kind, model, name)
    elif hasattr(model, "_fields"):
        for part, inner in zip(model._fields, model._members, strict=True):
            yield from _leaves(models, inner, f"{name}.{part}")
    else:
        for i, inner in enumerate(kind):
            yield from _leaves(models, inner, f"{name}[{i}]")


def _of_array(models: Any, kind: Any, model: Any, name: str) -> Iterator[Declared]:
    for part, inner in zip(model._fields, model._members, strict=True):
        if part == _DATA:
            yield Declared(name, C_TYPES.get(str(kind.dtype)), pointer=True)
        else:
            yield from _leaves(models, inner, f"{name}.{part}")
