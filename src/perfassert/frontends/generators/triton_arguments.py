"""Types, constants and launch arguments, from the arguments of a real Triton call.

Tensors are asked for dtype, shape, strides and address only. PyTorch is not imported, and GPU
memory is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfassert.errors import KernelSourceError, in_short
from perfassert.kernel.buffer import PAGE_BYTES
from perfassert.kernel.launch import Buffer

_BITS = {"u1": "bool", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
"""Largest alignment in bytes that any compiler uses."""


@dataclass(frozen=True)
class CallArguments:
    """Arguments of a call in the form for :func:`from_triton`, and those of its launch."""

    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    launch: Mapping[str, Any]


def describe_arguments(function: Any, values: Mapping[str, Any]) -> CallArguments:
    """Describe a call of a JIT function with these values by name, as Triton specialises it.

    Parameters without a value are left out. Raises :class:`KernelSourceError` for a value that is
    neither tensor nor number nor None.
    """
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    launch: dict[str, Any] = {}
    for parameter in function.params:
        name = parameter.name
        if name not in values:
            continue
        value = values[name]
        if parameter.is_constexpr or value is None:
            constants[name] = value
            continue
        signature[name] = parameter.annotation_type or _type(name, value)
        if not hasattr(value, "data_ptr"):
            launch[name] = value
        elif (buffer := _buffer(value)) is not None:
            launch[name] = buffer
    return CallArguments(signature, constants, launch)


def _type(name: str, value: Any) -> str:
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return f"*{_element(value.dtype)}"
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return "i32"
        return "i64" if value < 2**63 else "u64"
    if isinstance(value, float):
        return "fp32"
    raise KernelSourceError(
        f"argument {name!r} is {in_short(value)}; tensors, numbers and None are predicted"
    )


def _element(dtype: Any) -> str:
    """Return Triton's name of a dtype: ``fp16`` for torch.float16."""
    from triton._utils import type_canonicalisation_dict

    name = str(dtype).rpartition(".")[2]
    return str(type_canonicalisation_dict.get(name, name))


def _buffer(tensor: Any) -> Buffer | None:
    """Return the memory from a tensor's first element to its last; None without memory."""
    address = 0 if hasattr(tensor, "fake_mode") else tensor.data_ptr()
    if not address or 0 in tensor.shape:  # a fake tensor of PyTorch, or a mock of Triton
        return None
    element = _element(tensor.dtype)
    dtype = _BITS.get(element) or f"{'u' * (element[0] != 'i')}int{_digits(element)}"
    extents = zip(tensor.shape, tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * abs(step) for size, step in extents)
    return Buffer(int(length), dtype, min(address & -address, PAGE_BYTES))


def _digits(element: str) -> int:
    """Return the bits of an element: 8 for ``fp8e4nv``, a type that numpy does not have."""
    return int(element.lstrip("abcdefghijklmnopqrstuvwxyz").partition("e")[0])
