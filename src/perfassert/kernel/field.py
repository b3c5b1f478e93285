"""Arrays in device memory: shape, halo, pitch, alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfassert.errors import KernelError, check_kind, close_matches, in_short
from perfassert.quantity import to_integer, to_integers

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element; raise :class:`KernelError` for an unknown ``dtype``."""
    try:
        return ITEM_BYTES[dtype]
    except (KeyError, TypeError):
        hint = close_matches(dtype, ITEM_BYTES) or f"; known: {', '.join(ITEM_BYTES)}"
        raise KernelError(f"unknown dtype {in_short(dtype)}{hint}") from None


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """An array in device memory: shape, ghost layers, row length and alignment.

    Index 0 is the first interior element, so that with ``halo=1`` the index -1 is legal. The last
    axis is contiguous. The model assumes that fields do not overlap.

    Args:
        name: name of the field in address expressions.
        dtype: type of an element: ``float64`` (the default), ``float32 float16 bfloat16 complex128
            complex64 int64 int32 int16 int8``, the integers with ``u`` in front, or ``bool``.
        shape: interior extents in elements, in C order; a number for a single axis. At least one.
        halo: ghost layers on each side, in elements: one number for all axes, or one for each.
            Default: 0.
        pitch: length of a row in elements. Default: interior plus halo on both sides.
        alignment: in bytes, a multiple of the element's size. Default: 256.
        offset: in bytes: the address of element ``[0, 0, 0]`` is ≡ ``offset`` (mod ``alignment``).
            Default: 0. ``cudaMalloc`` aligns a corner of the halo, not the first interior element.

    Raises:
        KernelError: a name that is no text, no axis, an unknown ``dtype``, a ``halo`` of another
            number of axes, a ``pitch`` shorter than the row, or an ``alignment`` or ``offset`` that
            cuts elements.

    Example:
        >>> import perfassert as pa
        >>> src = pa.Field("src", "float64", shape=(510, 1022), halo=1)
        >>> src.pitch, src.strides, src.item_bytes
        (1024, (8192, 8), 8)
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    halo: tuple[int, ...]
    pitch: int
    alignment: int
    offset: int

    def __init__(
        self,
        name: str,
        dtype: str = "float64",
        shape: Sequence[int] | int = (),
        halo: Sequence[int] | int = 0,
        pitch: int | None = None,
        alignment: int = 256,
        offset: int = 0,
    ) -> None:
        check_kind(name, str, "a field's name", KernelError)
        where = f"field {in_short(name)}"
        _check_dtype(where, dtype)
        extents = to_integers(shape, f"{where}: shape", KernelError, minimum=1)
        if not extents:
            raise KernelError(f"{where}: shape must have at least one axis")
        ghosts = to_integers(halo, f"{where}: halo", KernelError, minimum=0)
        if not hasattr(halo, "__len__"):
            ghosts *= len(extents)
        if len(ghosts) != len(extents):
            raise KernelError(f"{where}: halo has {len(ghosts)} axes, shape has {len(extents)}")
        row = extents[-1] + 2 * ghosts[-1]
        if pitch is not None:
            pitch = to_integer(pitch, f"{where}: pitch", KernelError, minimum=1)
        pitch = row if pitch is None else pitch
        if pitch < row:
            raise KernelError(f"{where}: pitch {pitch} is shorter than interior + halo = {row}")
        alignment = to_integer(alignment, f"{where}: alignment", KernelError, minimum=1)
        offset = to_integer(offset, f"{where}: offset", KernelError, minimum=0)
        if (offset % item_bytes(dtype)) or (alignment % item_bytes(dtype)):
            reason = f"must be multiples of the {item_bytes(dtype)} bytes of {dtype}"
            raise KernelError(f"{where}: alignment {alignment} and offset {offset} {reason}")
        values = (name, dtype, extents, ghosts, pitch, alignment, offset % alignment)
        for slot, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, slot, value)

    @classmethod
    def pointer(cls, name: str, alignment: int = 256) -> Field:
        """Return a field of unknown bounds, for the memory of a pointer in compiled code.

        Args:
            name: the parameter's name.
            alignment: of its address, in bytes. Default: 256.
        """
        return cls(name, "uint8", (1,), alignment=alignment)

    @property
    def item_bytes(self) -> int:
        """Size of one element in bytes."""
        return item_bytes(self.dtype)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each axis, in the order of ``shape``."""
        strides = [self.item_bytes]
        length = self.pitch
        for extent, ghost in zip(reversed(self.shape[:-1]), reversed(self.halo[:-1]), strict=True):
            strides.append(length * self.item_bytes)
            length *= extent + 2 * ghost
        return tuple(reversed(strides))


def _check_dtype(where: str, dtype: str) -> None:
    try:
        item_bytes(dtype)
    except KernelError as error:
        raise KernelError(f"{where}: {error}") from None
