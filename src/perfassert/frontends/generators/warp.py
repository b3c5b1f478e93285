"""``from_warp``: a kernel from a ``@wp.kernel``, compiled by NVIDIA Warp without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from math import prod
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
from perfassert.kernel.program import Member
from perfassert.system.temporary import temporary_folder

_TESTED = ((1, 19), (1, 19))
_BOUNDS = "dim"
_MOST = 4  # dimensions
_POINTERS = ("data", "grad")
_FLOATS = {"f": "float", "d": "double"}
_SIZES = {name: int("".join(filter(str.isdigit, name)) or 8) // 8 for name in C_TYPES}
_ADJOINT = "adj_"


def from_warp(
    kernel: Any,
    *,
    adjoint: bool = False,
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Read a kernel from an NVIDIA Warp function under ``@wp.kernel``, compiled without a GPU.

    It is compiled when it is first predicted, for that device. ``Launch.args`` takes the function's
    own parameters (for an array an array, a :class:`Buffer` or a shape), and ``dim`` as
    ``wp.launch`` takes it; for a kernel with one index the default is the threads of the launch.

    Args:
        kernel: the function under ``@wp.kernel``; one of type ``Any`` as ``wp.overload`` gives it.
        adjoint: take the generated backward kernel, whose further parameters are called ``adj_x``.
            Default: False.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        A kernel whose registers, instructions and addresses are those of the compiled code.

    Raises:
        KernelSourceError: no kernel of Warp's, or one with parameters of type ``Any``.
        ToolchainMissing: Warp is not installed.
        KernelError: malformed ``trip_counts``, ``assume`` or ``updates_per_thread``.

    Example:
        >>> import perfassert as pa
        >>> import warp as wp  # doctest: +SKIP
        >>> @wp.kernel  # doctest: +SKIP
        ... def double(x: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     x[i] = 2.0 * x[i]
        >>> pa.from_warp(double).name  # doctest: +SKIP
        'double'
    """
    warp = package("warp", "warp", _TESTED, "warp-lang")
    if not isinstance(kernel, warp.Kernel):
        raise KernelSourceError(
            f"{in_short(kernel)} is no kernel; decorate a function with @wp.kernel"
        )
    if getattr(kernel, "is_generic", False):
        raise KernelSourceError(
            f"{kernel.key!r} has parameters of type Any; pass what wp.overload makes of it"
        )
    kinds = {argument.label: argument.type for argument in kernel.adj.args}
    if adjoint:
        kinds |= {_ADJOINT + name: kind for name, kind in kinds.items()}
    hints = Hints.validate(updates_per_thread, trip_counts, assume)
    call = _Call(kernel.key, kinds, _indices(kernel))
    side = "backward" if adjoint else "forward"
    return generated_kernel(
        kernel.key, _Compiler(warp, kernel, side), hints, tuple(call.parameters()), call.spelled_out
    )


def _indices(kernel: Any) -> int:
    """Return the number of ``wp.tid()``'s indices; Warp counts them when it reads the function."""
    if getattr(kernel.adj, "kernel_dim", None) is None:
        kernel.adj.get_references()
    return int(kernel.adj.kernel_dim)


@dataclass(frozen=True, eq=False)
class _Compiler:
    """Compiler of a kernel's module to PTX, for one architecture at a time."""

    warp: Any
    kernel: Any
    side: str

    def __call__(self, arch: str) -> Source:
        with temporary_folder() as private:
            folder = private / "module"  # Warp makes others beside it, which nobody locks
            folder.mkdir()
            try:
                self.warp.compile_aot_module(
                    self.kernel.module, arch=number(arch), module_dir=folder, use_ptx=True
                )
                text = next(folder.glob("*.ptx")).read_bytes()
            except Exception as error:  # whatever a compiler in this process raises
                code = self.kernel.func.__code__
                raise KernelSourceError(
                    f"{code.co_filename}:{code.co_firstlineno}: Warp cannot compile "
                    f"{self.kernel.key!r} for {arch}: {error or type(error).__name__}"
                ) from error
        source = ptx_source(text, f"{self.kernel.key}.ptx")
        return replace(source, kernel=f"{self.kernel.get_mangled_name()}_cuda_kernel_{self.side}")


@dataclass(frozen=True, eq=False)
class _Call:
    """Translation of a call's arguments into the kernel's parameters.

    ``indices`` is the number of indices of ``wp.tid()``.
    """

    kernel: str
    kinds: Mapping[str, Any]
    indices: int

    def parameters(self) -> Iterator[Declared]:
        """Yield the parameters of the code: the launch bounds, then those of the function."""
        types: Any = import_module("warp._src.types")
        bounds = type(types.launch_bounds_t((1,) * self.indices))
        yield Declared(_BOUNDS, None, False, tuple(_structure_members(bounds)))
        for name, kind in self.kinds.items():
            yield _declared_parameter(types, name, kind)

    def spelled_out(self, launch: Launch) -> Launch:
        """Return the launch with bounds as numbers, and arrays as Warp's structures."""
        arguments = dict(by_name(launch, list(self.kinds), self.kernel))
        args = {_BOUNDS: self._bounds(arguments.pop(_BOUNDS, None), launch)}
        args |= {name: self._array_argument(name, value) for name, value in arguments.items()}
        return with_args(launch, args)

    def _bounds(self, dim: Any, launch: Launch) -> Any:
        if isinstance(dim, Mapping):
            return dim
        if dim is None and self.indices > 1:
            raise LaunchError(
                f"kernel {self.kernel!r} has {self.indices} indices; give dim in Launch.args, as "
                "wp.launch has it"
            )
        shape = list(dim) if isinstance(dim, (tuple, list)) else [dim or launch.threads]
        if len(shape) != self.indices:
            raise LaunchError(
                f"kernel {self.kernel!r} has {self.indices} indices; dim={in_short(dim)} does not "
                "fit"
            )
        return {"shape": shape, "size": prod(shape), "coord_mult": 1}

    def _array_argument(self, name: str, value: Any) -> Any:
        kind: Any = self.kinds.get(name)
        if not hasattr(kind, "ndim") or isinstance(value, Mapping) or value is None:
            return value
        if isinstance(value, (tuple, list)) or (isinstance(value, int) and kind.ndim == 1):
            inner, scalar = _element_type(kind.dtype)
            outer = (value,) if isinstance(value, int) else tuple(value)
            value = Buffer((*outer, *inner), scalar)
        if not isinstance(value, Buffer):
            raise LaunchError(
                f"argument {name!r} of {self.kernel!r} is an array; {in_short(value)} does not fit"
            )
        return _array(kind, name, value, self.kernel)


def _array(kind: Any, name: str, value: Buffer, kernel: str) -> dict[str, Any]:
    """Return Warp's structure for an array without gaps, whose last index is the fastest.

    The components of a vector or matrix are the last extents of the buffer.
    """
    inner, scalar = _element_type(kind.dtype)
    shape = value.shape[: kind.ndim]
    if len(shape) != kind.ndim or value.shape[kind.ndim :] not in ((), inner):
        raise LaunchError(
            f"argument {name!r} of {kernel!r} has {kind.ndim} dimensions of {kind.dtype.__name__}; "
            f"{value.shape} does not fit"
        )
    size = prod(inner) * _SIZES[scalar]
    steps = [size * prod(shape[axis + 1 :]) for axis in range(kind.ndim)]
    rest = [0] * (_MOST - kind.ndim)
    return {
        "data": value, "grad": None, "shape": [*shape, *rest], "strides": [*steps, *rest],
        "ndim": kind.ndim, "flags": 0,
    }  # fmt: skip


def _element_type(dtype: Any) -> tuple[tuple[int, ...], str]:
    """Return the extents of an element (vector or matrix), and the name of its scalar type."""
    scalar = getattr(dtype, "_wp_scalar_type_", dtype)
    name = "bool" if scalar is bool else getattr(scalar, "__name__", "")
    if name in _SIZES:
        return tuple(getattr(dtype, "_shape_", ())), name
    return (ctypes.sizeof(dtype.ctype),), "uint8"  # a structure of the user's


def _declared_parameter(types: Any, name: str, kind: Any) -> Declared:
    if hasattr(kind, "ndim"):
        _, scalar = _element_type(kind.dtype)
        members = (replace(m, dtype=C_TYPES.get(scalar, "char")) if m.pointer else m
                   for m in _structure_members(types.array_t))  # fmt: skip
        return Declared(name, None, False, tuple(members))
    layout = getattr(kind, "ctype", kind)
    if isinstance(layout, type) and issubclass(layout, (ctypes.Structure, ctypes.Array)):
        return Declared(name, None, False, tuple(_structure_members(layout)))
    return Declared(name, C_TYPES.get(getattr(kind, "__name__", "")), pointer=False)


def _structure_members(layout: Any, name: str = "", at: int = 0) -> Iterator[Member]:
    """Yield the numbers and pointers in a C structure, by their paths."""
    if issubclass(layout, ctypes.Structure) and hasattr(layout, "_fields_"):
        for part, inner, *_ in layout._fields_:
            path = f"{name}.{part}" if name else part
            yield from _structure_members(inner, path, at + getattr(layout, part).offset)
    elif issubclass(layout, ctypes.Array):
        step = ctypes.sizeof(layout._type_)
        for i in range(layout._length_):
            yield from _structure_members(layout._type_, f"{name}[{i}]", at + i * step)
    else:
        pointer = name.rpartition(".")[2] in _POINTERS
        dtype = _FLOATS.get(getattr(layout, "_type_", ""))
        yield Member(name, at, ctypes.sizeof(layout), pointer, None if pointer else dtype)
