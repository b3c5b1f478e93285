"""Recognition of other packages' kernel objects by their type's module, without imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from perfassert.errors import KernelSourceError, LaunchError, PluginError, in_short
from perfassert.frontends.generators.cute import from_cute
from perfassert.frontends.generators.numba import from_numba
from perfassert.frontends.generators.objects import from_cupy, from_source_object
from perfassert.frontends.generators.pystencils import from_pystencils
from perfassert.frontends.generators.triton import from_triton
from perfassert.frontends.generators.warp import from_warp
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Buffer, Launch
from perfassert.kernel.machine import WARP_LANES
from perfassert.plugins import Contributions, gather, wrap_errors

Make = Callable[[Any, Launch], Kernel]
_TRITON = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def kernel_of(source: Any, launch: Launch) -> Kernel:
    """Return the kernel for a generator's object; types come from the launch's arguments.

    Raises :class:`~perfassert.KernelSourceError` for an unknown kind of object.
    """
    plugged = plugged_generators()
    for root in _roots(source):
        make = _OWN.get(root) or plugged.get(root)
        if make is None:
            continue
        made = make(source, launch)
        if isinstance(made, Kernel):
            return made
        raise PluginError(f"what makes kernels of {root} gave {in_short(made)}, which is no Kernel")
    if any(isinstance(getattr(source, name, None), (str, bytes)) for name in ("ptx", "code")):
        return from_source_object(source)
    known = ", ".join(sorted({*_OWN, *plugged.by_name}))
    raise KernelSourceError(
        f"{in_short(source)} is no kernel, and nothing known makes one of it: objects of {known} "
        f"are known, and what has .code or .ptx{plugged.note()}"
    )


def _roots(source: Any) -> Iterator[str]:
    """Yield the packages of an object's type and of the bases of its type."""
    for kind in type(source).__mro__:
        yield kind.__module__.partition(".")[0]


def plugged_generators() -> Contributions[Make]:
    """Return the makers that plug-ins add: package → function that makes kernels of its objects."""
    return gather("perfassert_generators", _read_makers, _OWN)


def _read_makers(plugin: str, makers: Any) -> Iterator[tuple[str, Make]]:
    for name, make in dict(makers).items():
        if not isinstance(name, str) or not name.isidentifier() or not callable(make):
            raise TypeError(f"{name!r}: {make!r} is no package's name with a function")
        yield name, wrap_errors(plugin, f"the front end for objects of {name}", make)


def _numba(dispatcher: Any, launch: Launch) -> Kernel:
    code = getattr(getattr(dispatcher, "py_func", None), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    values = [_argument_of(name, i, launch, "pa.from_numba") for i, name in enumerate(names)]
    return from_numba(dispatcher, tuple(map(_example, values)))


def _argument_of(name: str, place: int, launch: Launch, by_hand: str) -> Any:
    args = launch.args
    known = name in args if isinstance(args, Mapping) else place < len(args)
    if not known:
        raise LaunchError(
            f"the type of {name!r} is that of its argument, and the launch has none; give it in "
            f"args, or the types in {by_hand}"
        )
    value = args[name] if isinstance(args, Mapping) else args[place]
    if isinstance(value, (tuple, list)):
        raise LaunchError(
            f"{name!r} is {value!r}, which says no type; give pa.Buffer(shape, dtype), or the "
            f"types in {by_hand}"
        )
    return value


def _example(value: Any) -> Any:
    """Return an empty array like a buffer, for Numba's typing of a call; other values unchanged."""
    if not isinstance(value, Buffer):
        return value
    from numpy import empty

    return empty((0,) * len(value.shape), value.dtype)


def _triton(function: Any, launch: Launch) -> Kernel:
    args = launch.args
    if not isinstance(args, Mapping):
        raise LaunchError("give args by name: some of a Triton function's are constants")
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for place, parameter in enumerate(getattr(function, "params", ())):
        name = parameter.name
        if parameter.is_constexpr:
            constants |= {name: args[name]} if name in args else {}
        elif name in args or not parameter.has_default:
            types[name] = _triton_type(_argument_of(name, place, launch, "pa.from_triton"))
    return from_triton(function, types, constants, num_warps=max(launch.block[0] // WARP_LANES, 1))


def _triton_type(value: Any) -> str:
    if isinstance(value, Buffer):
        return f"*{_TRITON.get(value.dtype, value.dtype)}"
    if isinstance(value, float):
        return "fp32"
    return "i32" if not isinstance(value, int) or -(2**31) <= value < 2**31 else "i64"


_OWN: Mapping[str, Make] = {
    "numba": _numba,
    "triton": _triton,
    "pystencils": lambda kernel, launch: from_pystencils(kernel),
    "warp": lambda kernel, launch: from_warp(kernel),
    "cupy": lambda kernel, launch: from_cupy(kernel),
    "cutlass": lambda kernel, launch: from_cute(kernel),
}
