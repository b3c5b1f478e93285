"""``from_pystencils``: kernels from stencils, as generated CUDA or as address expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, LaunchError, in_short
from perfassert.frontends.cuda.kernels import CompiledCode, Hints
from perfassert.frontends.generators.generated import C_TYPES, by_name, package, with_args
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.signature import Declared
from perfassert.kernel.buffer import PAGE_BYTES
from perfassert.kernel.description import AccessKernel, CompiledKernel, Kernel
from perfassert.kernel.field import Field, item_bytes
from perfassert.kernel.launch import Buffer, Launch

_TESTED = ((2, 0), (2, 0))
_PRELUDE = """#define RESTRICT __restrict__
#define FUNC_PREFIX __global__
typedef signed char int8_t; typedef short int16_t; typedef int int32_t;
typedef long long int64_t; typedef unsigned char uint8_t; typedef unsigned short uint16_t;
typedef unsigned int uint32_t; typedef unsigned long long uint64_t;
"""
_COORDINATES = "xyz"


def from_pystencils(
    kernel: Any,
    *,
    registers: int = 32,
    fold: Sequence[int] = (1, 1, 1),
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> Kernel:
    """Read a kernel from pystencils: generated CUDA, or assignments before code is generated.

    What ``ps.create_kernel`` makes for CUDA is compiled for the device; ``Launch.args`` takes its
    fields by name, as arrays, a :class:`Buffer` or shapes, and its symbols. Assignments, whose
    fields have fixed shapes, become address expressions. Thread (0, 0, 0) is the first point that
    has all neighbours.

    Args:
        kernel: the result of ``ps.create_kernel``; or an assignment, a list of them, or an
            ``AssignmentCollection``.
        registers: registers per thread, for assignments. Default: 32.
        fold: points that a thread makes along x, y and z, for assignments; a launch covers as many
            fewer. Default: one each.
        updates_per_thread: results of a thread, for each of its points. Default: 1.
        trip_counts: for generated code: iterations of loops whose end depends on data, as for
            :func:`from_cuda`.
        assume: for generated code: assumed values loaded through a parameter, as for
            :func:`from_cuda`.

    Returns:
        A kernel: compiled, or from address expressions.

    Raises:
        KernelSourceError: neither of the two, a kernel of a CPU, ``fold`` of generated code, or
            assignments with fields whose shape is not fixed.
        ToolchainMissing: pystencils is not installed.
        KernelError: malformed ``trip_counts``, ``assume`` or ``updates_per_thread``.

    Example:
        >>> import perfassert as pa
        >>> import pystencils as ps  # doctest: +SKIP
        >>> src, dst = ps.fields("src, dst: float64[66,66]", layout="fzyx")  # doctest: +SKIP
        >>> mean = ps.Assignment(dst[0, 0], (src[1, 0] + src[-1, 0]) / 2)  # doctest: +SKIP
        >>> len(pa.from_pystencils([mean]).loads)  # doctest: +SKIP
        2
    """
    package("pystencils", "pystencils", _TESTED, "pystencils")
    if hasattr(kernel, "get_c_code") and hasattr(kernel, "parameters"):
        if prod(fold) != 1:
            raise KernelSourceError("generated code makes one point per thread; fold assignments")
        return _compiled_kernel(kernel, Hints.validate(updates_per_thread, trip_counts, assume))
    return _access_kernel(_assignments(kernel), registers, _fold_extents(fold), updates_per_thread)


# Generated code


def _compiled_kernel(kernel: Any, hints: Hints) -> CompiledKernel:
    text, name = kernel.get_c_code(), str(kernel.name)
    if "__global__" not in text:
        raise KernelSourceError(
            f"{name!r} is a kernel of a CPU; create it with "
            "ps.CreateKernelConfig(target=ps.Target.CUDA)"
        )
    source = Source(Path(f"{name}.cu"), "cuda", name, content=(_PRELUDE + text).encode())
    parameters = tuple(map(_declared_parameter, kernel.parameters))
    call = _Call(name, {field.name: field for field in kernel.get_fields()}, parameters)
    return CompiledKernel(
        name=name,
        updates_per_thread=hints.updates_per_thread,
        compiled=CompiledCode(source, hints, parameters),
        spelled_out=call.spelled_out,
    )


def _declared_parameter(parameter: Any) -> Declared:
    """Return a parameter named by its field (pointer, shape, strides), or by its own symbol."""
    names: dict[str, Callable[[Any], str]] = {
        "FieldBasePtr": lambda p: p.field.name,
        "FieldShape": lambda p: f"{p.field.name}.shape[{p.coordinate}]",
        "FieldStride": lambda p: f"{p.field.name}.strides[{p.coordinate}]",
    }
    for property_ in parameter.properties:
        name = names.get(type(property_).__name__)
        if name is not None:
            pointer = type(property_).__name__ == "FieldBasePtr"
            dtype = str(property_.field.dtype) if pointer else "int64"
            return Declared(name(property_), C_TYPES.get(dtype), pointer)
    words = str(parameter.dtype).replace("const", " ").split()
    return Declared(parameter.name, C_TYPES.get(" ".join(words)), pointer=False)


@dataclass(frozen=True, eq=False)
class _Call:
    """Translation of fields into the kernel's parameters."""

    kernel: str
    fields: Mapping[str, Any]
    parameters: Sequence[Declared]

    def spelled_out(self, launch: Launch) -> Launch:
        """Add the extents and strides of fields for which the kernel has parameters."""
        known = {str(p.name) for p in self.parameters}
        arguments = dict(by_name(launch, list(self.fields), self.kernel))
        args: dict[str, Any] = {}
        for name, value in arguments.items():
            field = self.fields.get(name)
            if field is None:
                args[name] = value
                continue
            more = self._split_field(name, field, value)
            args |= {k: v for k, v in more if k == name or (k in known and k not in arguments)}
        return with_args(launch, args)

    def _split_field(self, name: str, field: Any, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a field; its strides are in elements, as pystencils has them."""
        if isinstance(value, (tuple, list)):
            value = Buffer(value, str(field.dtype))
        yield name, value
        if not isinstance(value, Buffer) or value.alias is not None:
            return
        if len(value.shape) != len(field.shape):
            raise LaunchError(
                f"field {name!r} of {self.kernel!r} has {len(field.shape)} dimensions, those of "
                f"its index included; {value.shape} does not fit"
            )
        for axis, extent in enumerate(value.shape):
            yield f"{name}.shape[{axis}]", extent
        if field.index_dimensions:
            return  # only the array has the order of position and index
        for axis in field.layout:
            inner = field.layout[field.layout.index(axis) + 1 :]
            yield f"{name}.strides[{axis}]", prod(value.shape[a] for a in inner)


# Addresses alone


def _assignments(given: Any) -> tuple[Any, ...]:
    """Return all assignments, subexpressions first."""
    assignments = getattr(given, "all_assignments", given)
    assignments = tuple(assignments) if isinstance(assignments, (list, tuple)) else (assignments,)
    if not assignments or not all(hasattr(a, "lhs") and hasattr(a, "rhs") for a in assignments):
        raise KernelSourceError(
            f"{in_short(given)} is neither a kernel of pystencils nor assignments; pass what "
            "ps.create_kernel makes, an AssignmentCollection, or a list of ps.Assignment"
        )
    return assignments


def _fold_extents(fold: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(fold) <= 3 or not all(type(n) is int and n > 0 for n in fold):
        raise KernelSourceError(f"fold must be up to three integers above 0, not {in_short(fold)}")
    x, y, z = (*fold, 1, 1)[:3]
    return x, y, z


def _access_kernel(
    assignments: tuple[Any, ...], registers: int, fold: tuple[int, int, int], updates: int
) -> AccessKernel:
    access: Any = import_module("pystencils").Field.Access
    loads = {a: None for s in assignments for a in _sort_accesses(s.rhs.atoms(access))}
    stores = {a: None for s in assignments for a in _sort_accesses(s.lhs.atoms(access))}
    touched = [*loads, *stores]
    if not stores:
        raise KernelSourceError("the assignments store to no field")
    ghosts = max((abs(int(o)) for a in touched for o in _offsets(a)), default=0)
    fields = {a.field.name: a.field for a in touched}
    _check_fields(fields.values())
    operations = import_module("pystencils").AssignmentCollection(list(assignments))
    counted = {k: v for k, v in operations.operation_count.items() if isinstance(v, int)}
    return Kernel.from_accesses(
        name="_".join(dict.fromkeys(a.field.name for a in stores)),
        fields=[_kernel_field(field, ghosts) for field in fields.values()],
        loads=list(dict.fromkeys(text for a in loads for text in _access_texts(a, fold))),
        stores=list(dict.fromkeys(text for a in stores for text in _access_texts(a, fold))),
        flops=sum(counted.values()) * prod(fold),
        dtype=str(next(iter(stores)).field.dtype),
        registers=registers,
        updates_per_thread=updates * prod(fold),
    )


def _sort_accesses(accesses: set[Any]) -> list[Any]:
    return sorted(accesses, key=str)


def _offsets(access: Any) -> tuple[Any, ...]:
    try:
        return tuple(int(o) for o in access.offsets)
    except TypeError:
        raise KernelSourceError(
            f"{access}: its offset depends on data; generate the kernel and pass that"
        ) from None


def _check_fields(fields: Any) -> None:
    spatial = {tuple(map(str, f.spatial_shape)) for f in fields}
    dynamic = [f.name for f in fields if not all(str(n).isdigit() for n in f.shape)]
    if dynamic:
        raise KernelSourceError(
            f"the shape of {', '.join(sorted(dynamic))} is not fixed; say it, as in "
            'ps.fields("src, dst: float64[512,512,512]"), or pass the generated kernel'
        )
    if len(spatial) > 1:
        raise KernelSourceError("fields of several shapes; pass the generated kernel")
    if len(next(iter(spatial))) > len(_COORDINATES):
        raise KernelSourceError("fields with more than three spatial dimensions are not known")


def _axes(field: Any) -> list[int]:
    """Return the axes, the one with the largest stride first."""
    return sorted(range(len(field.shape)), key=lambda axis: (-int(field.strides[axis]), axis))


def _kernel_field(field: Any, ghosts: int) -> Field:
    """Return the field: element 0 is aligned, and the interior begins behind the ghost layers."""
    axes, spatial = _axes(field), field.spatial_dimensions
    halo = [ghosts if axis < spatial else 0 for axis in axes]
    dtype = str(field.dtype)
    start = sum(ghosts * int(field.strides[axis]) for axis in range(spatial)) * item_bytes(dtype)
    return Field(
        field.name,
        dtype,
        [int(field.shape[axis]) - 2 * ghost for axis, ghost in zip(axes, halo, strict=True)],
        halo,
        alignment=PAGE_BYTES,
        offset=start,
    )


def _access_texts(access: Any, fold: tuple[int, int, int]) -> Iterator[str]:
    """Yield ``"src[z, y, x + 1]"`` for each point that a thread computes.

    Threads run along x, the axis with the smallest stride.
    """
    field = access.field
    fastest = [axis for axis in reversed(_axes(field)) if axis < field.spatial_dimensions]
    names = dict(zip(fastest, zip(_COORDINATES, fold, strict=True), strict=False))
    for point in product(*(range(n) for n in fold)):
        beside = dict(zip(fastest, point, strict=False))
        subscripts = []
        for axis in _axes(field):
            if axis < field.spatial_dimensions:
                offset = int(access.offsets[axis]) + beside[axis]
                subscripts.append(_subscript(*names[axis], offset))
            else:
                subscripts.append(str(int(access.index[axis - field.spatial_dimensions])))
        yield f"{field.name}[{', '.join(subscripts)}]"


def _subscript(name: str, fold: int, offset: int) -> str:
    scaled = name if fold == 1 else f"{fold} * {name}"
    return f"{scaled} + {offset}" if offset >= 0 else f"{scaled} - {-offset}"
