"""Tensor maps, the ``CUtensorMap`` parameters of kernels that copy boxes of a tensor in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from perfassert.errors import LaunchError, in_short
from perfassert.kernel.buffer import type_name
from perfassert.quantity import to_integer, to_integers
from perfassert.shipped import model_integer

_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
MAP_BYTES = model_integer("tensor_map_bytes")
"""Bytes of a ``CUtensorMap``; only bulk copies read it."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes of the swizzle patterns, in the order of ``CUtensorMapSwizzle``."""
_MAX_BOX_BYTES = model_integer("max_bulk_copy_bytes")
"""Most bytes that a copy moves: as many as a barrier can wait for (PTX manual)."""


@dataclass(frozen=True, slots=True, init=False)
class TensorMap:
    """Argument of a ``CUtensorMap`` parameter: a tensor in global memory, and the box of one copy.

    Extents are in C order (last axis contiguous), one to five axes; a number is a single axis.

    Args:
        shape: extents of the tensor, in elements.
        box: extents of the box that one bulk copy moves, in elements; less than 1 MiB in all.
        dtype: type of an element, as numpy calls it, of 1 to 8 bytes; 8-bit floats are ``"uint8"``.
            Default: ``"float16"``.
        strides: bytes between elements of each axis but the last; 0 repeats the same ones. Default:
            without gaps.
        element_strides: in elements, by axis. Default: 1 each.
        swizzle: bytes of the swizzle pattern: 0 (none, the default), 32, 64 or 128.

    Raises:
        LaunchError: extents that do not fit together, a box that no copy moves, or an
            unsupported ``dtype`` or ``swizzle``.

    Example:
        >>> import perfassert as pa
        >>> tiles = pa.TensorMap((4096, 1024), box=(128, 64), swizzle=128)
        >>> tiles.item_bytes, tiles.byte_strides
        (2, (2048, 2))

    Source:
        CUDA Driver API, ``cuTensorMapEncodeTiled``.
    """

    shape: tuple[int, ...]
    box: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int

    def __init__(
        self,
        shape: int | Sequence[int],
        box: int | Sequence[int],
        dtype: str = "float16",
        *,
        strides: int | Sequence[int] | None = None,
        element_strides: int | Sequence[int] | None = None,
        swizzle: int = 0,
    ) -> None:
        extents = _numbers("shape", shape)
        object.__setattr__(self, "shape", extents)
        object.__setattr__(self, "box", _numbers("box", box, len(extents)))
        dtype = type_name(dtype)
        digits = "".join(c for c in dtype if c.isdigit())
        if digits not in _BYTES:
            raise LaunchError(
                f"TensorMap: dtype must be a type of 1 to 8 bytes, not {in_short(dtype)}"
            )
        object.__setattr__(self, "dtype", dtype)
        if (size := prod(self.box) * self.item_bytes) > _MAX_BOX_BYTES:
            raise LaunchError(
                f"TensorMap: a box of {size} bytes; a bulk copy moves at most {_MAX_BOX_BYTES}"
            )
        every = element_strides if element_strides is not None else (1,) * len(extents)
        object.__setattr__(
            self, "element_strides", _numbers("element_strides", every, len(extents))
        )
        dense = [prod(extents[i + 1 :]) * self.item_bytes for i in range(len(extents) - 1)]
        given = dense if strides is None else strides
        lengths = _numbers("strides", given, len(extents) - 1, 0) if len(extents) > 1 else ()
        object.__setattr__(self, "strides", lengths)
        swizzle = to_integer(swizzle, "TensorMap: swizzle", LaunchError)
        if swizzle not in SWIZZLES:
            raise LaunchError(
                f"TensorMap: swizzle must be 0, 32, 64 or 128, not {in_short(swizzle)}"
            )
        object.__setattr__(self, "swizzle", swizzle)

    @property
    def item_bytes(self) -> int:
        """Size of one element in bytes."""
        return _BYTES["".join(c for c in self.dtype if c.isdigit())]

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Bytes between elements along every axis, the last one included."""
        return (*self.strides, self.item_bytes)


def _numbers(
    what: str, values: int | Sequence[int], count: int = 0, least: int = 1
) -> tuple[int, ...]:
    numbers = to_integers(values, f"TensorMap: {what}", LaunchError, minimum=least)
    if not 1 <= len(numbers) <= 5 or (count and len(numbers) != count):
        wanted = count or "one to five"
        raise LaunchError(
            f"TensorMap: {what} must be {wanted} integers from {least} on: {in_short(values)}"
        )
    return numbers
