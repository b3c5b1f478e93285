"""Buffers: the memory that a pointer argument of a kernel points to."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Union

from perfassert.errors import LaunchError, in_short
from perfassert.kernel.content import array_digest
from perfassert.kernel.field import ITEM_BYTES
from perfassert.quantity import to_integer, to_integers
from perfassert.shipped import model_integer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PAGE_BYTES = model_integer("allocation_bytes")
MAX_BYTES = 1 << 39
"""Bytes of the largest buffer, offset included.

This is more than any GPU's memory, and half of the address range that sampled block execution
reserves for each pointer.
"""
_MAX_GENERATED = 1 << 27
"""Most elements that a generator makes: 1 GiB at eight bytes each, the limit of array files."""
_DEFAULT = "float32"
_GENERATED = "int32"  # generators mostly make indices


Share = Callable[[str, "npt.NDArray[Any]"], "npt.NDArray[Any]"]
"""Function of (key of the content, array) that returns an unchanging array of equal content."""


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Buffer:
    """Memory that a pointer argument points to: shape, type, alignment, contents if they matter.

    Contents are needed only if addresses, branches or trip counts depend on them. At most one of
    ``data``, ``fill`` and ``alias`` is given.

    Args:
        shape: extents in C order; a number for a single axis. Default: that of ``data``. It may
            be left out with ``alias``, but not with ``fill``.
        dtype: type of an element, as numpy calls it, or ``"bfloat16"``. Default: that of ``data``;
            ``"int32"`` with ``fill``, else ``"float32"``.
        alignment: in bytes: the address is ≡ ``offset`` (mod ``alignment``). Default: 256.
        offset: in bytes. Default: 0. With ``alias``, it counts from the start of the other
            argument's memory.
        data: an array, or a path to a ``.npy``, ``.npz`` or ``.mtx`` file; a part of the last two
            is named behind a colon. The data are not copied: each prediction uses what the array
            or the file holds when the prediction is made. Their values are those of the array, in
            the byte order of the GPU; a float ``dtype`` rounds them, as a float parameter does.
        fill: a generator in text: ``"random(0, n)"``, ``"sorted random(0, n)"``, ``"permutation"``,
            ``"arange % 7"``, ``"constant 3"``, ``"csr_rows(nnz_per_row=16, skew='power-law')"``. It
            makes at most 2²⁷ elements.
        alias: name of the argument that points to the same memory.
        seed: of the generator. Default: 0.
        pages: an array, or a path as for ``data``: ascending numbers of the 256-byte pages that
            ``data`` holds, one row of bytes per page. ``shape`` and ``dtype`` are then those of
            the whole buffer; the contents of all other pages are unknown. Pages start at addresses
            that are multiples of 256 bytes; page 0 holds the first element. ``perfassert record``
            stores large buffers in this form: only the pages that their kernel reads.

    Attributes:
        data: current contents, as an array of this shape and type; None if it has no data.
        digest: SHA-256 of the contents; empty if it has no data.

    Raises:
        LaunchError: data that cannot be read or does not fit, values that ``dtype`` does not hold,
            several of ``data``, ``fill`` and ``alias``, no shape at all, or more than 2³⁹ bytes.

    Example:
        >>> import perfassert as pa
        >>> index = pa.Buffer(1 << 20, "int32", fill="random(0, 4096)", seed=1)
        >>> index.shape, index.dtype, index.described
        ((1048576,), 'int32', True)
        >>> pa.Launch(4096, 256, args={"idx": index, "out": pa.Buffer(1 << 20)}).args["out"].dtype
        'float32'
    """

    shape: tuple[int, ...]
    dtype: str
    alignment: int
    offset: int
    fill: str | None
    alias: str | None
    seed: int
    source: Any = field(repr=False)
    page_source: Any = field(repr=False)
    stated: tuple[tuple[int, ...] | None, str | None] = field(repr=False)

    def __init__(
        self,
        shape: int | Sequence[int] | None = None,
        dtype: str | None = None,
        alignment: int = 256,
        *,
        offset: int = 0,
        data: npt.NDArray[Any] | Union[str, PathLike[str]] | None = None,
        fill: str | None = None,
        alias: str | None = None,
        seed: int = 0,
        pages: npt.NDArray[Any] | Union[str, PathLike[str]] | None = None,
    ) -> None:
        if sum(x is not None for x in (data, fill, alias)) > 1:
            raise LaunchError("a Buffer takes one of data, fill and alias")
        for what, text in (("fill", fill), ("alias", alias)):
            if text is not None and not isinstance(text, str):
                raise LaunchError(f"a Buffer's {what} is a text, not {in_short(text)}")
        dtype = None if dtype is None else type_name(dtype)
        offset = to_integer(offset, "a Buffer's offset", LaunchError, 0, MAX_BYTES)
        given = None
        if shape is not None:
            given = to_integers(shape, "a Buffer's shape", LaunchError, minimum=0)
        values = {
            "shape": given or (), "dtype": dtype or (_GENERATED if fill else _DEFAULT),
            "alignment": to_integer(
                alignment, "a Buffer's alignment", LaunchError, 1, MAX_BYTES
            ),
            "offset": offset,
            "fill": fill, "alias": alias,
            "seed": to_integer(seed, "a Buffer's seed", LaunchError, 0), "source": _source(data),
            "page_source": _source(pages), "stated": (given, dtype),
        }  # fmt: skip
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if pages is not None:
            _check_pages(self)
        elif data is not None:
            array = self.data
            assert array is not None
            object.__setattr__(self, "shape", tuple(int(n) for n in array.shape))
            object.__setattr__(self, "dtype", str(array.dtype))
        elif given is None and alias is None:
            raise LaunchError("a Buffer needs a shape, or data that has one")
        _check_size(self.shape, self.dtype, offset, fill)

    @property
    def data(self) -> npt.NDArray[Any] | None:
        """Current contents, or the bytes of its pages if the buffer has pages."""
        if self.source is None:
            return None
        if self.page_source is not None:
            return _array(self.source, "uint8")
        shape, dtype = self.stated
        return _reshape(_array(self.source, dtype), shape)

    @property
    def pages(self) -> npt.NDArray[np.int64] | None:
        """Numbers of the pages that ``data`` holds; None if it holds the whole buffer."""
        if self.page_source is None:
            return None
        return _array(self.page_source, "int64", "pages have").reshape(-1)

    @property
    def digest(self) -> str:
        """SHA-256 of the current contents and page numbers; empty if it has no data."""
        data, pages = self.data, self.pages
        if data is None:
            return ""
        digest = array_digest(data)
        if pages is None:
            return digest
        return hashlib.sha256((digest + array_digest(pages)).encode()).hexdigest()

    def freeze(self, share: Share) -> Buffer:
        """Return a buffer with the current contents, which later changes do not affect.

        Args:
            share: see :data:`Share`; launches with equal contents can share one array.
        """
        if self.source is None:
            return self
        made = Buffer(
            self.stated[0], self.stated[1], self.alignment, offset=self.offset,
            data=self.source, pages=self.page_source,
        )  # fmt: skip
        for name, array in (("source", made.data), ("page_source", made.pages)):
            if array is not None:
                key = f"{array_digest(array)} {array.dtype} {array.shape}"
                object.__setattr__(made, name, share(key, array))
        return made

    def content(self) -> tuple[object, ...]:
        """Return all that distinguishes buffers, with contents as their digest.

        See :mod:`perfassert.kernel.content`.
        """
        place = (self.alignment, self.offset, self.fill, self.alias, self.seed)
        return (self.shape, self.dtype, *place, self.digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Buffer):
            return NotImplemented
        return self.content() == other.content()

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.alignment, self.offset, self.fill, self.alias))

    @property
    def described(self) -> bool:
        """True if its contents are known: it has ``data`` or ``fill``."""
        return self.source is not None or self.fill is not None

    @property
    def bytes(self) -> int:
        """Size in bytes; raises :class:`LaunchError` for a type of unknown size."""
        return math.prod(self.shape) * _item_bytes(self.dtype)


def _item_bytes(dtype: str) -> int:
    import numpy

    try:
        return ITEM_BYTES.get(dtype) or numpy.dtype(dtype).itemsize
    except TypeError:
        raise LaunchError(f"{in_short(dtype)} is no type that numpy knows") from None


def _source(data: Any) -> Any:
    """Return the array or path from which the contents are read each time they are needed."""
    if data is None or isinstance(data, str):
        return data
    if hasattr(data, "__fspath__"):
        return os.fspath(data)
    import numpy

    try:
        return numpy.asarray(data)
    except (TypeError, ValueError, OverflowError, MemoryError) as reason:
        raise LaunchError(f"a Buffer's data is no array of numbers: {reason}") from None


def _check_size(shape: tuple[int, ...], dtype: str, offset: int, fill: str | None) -> None:
    """Raise :class:`LaunchError` if a buffer is larger than any GPU's memory, or if it has more
    elements than a generator makes."""
    count = math.prod(shape)
    size = count * _known_item_bytes(dtype) + offset
    if size > MAX_BYTES:
        raise LaunchError(
            f"a Buffer of shape {in_short(shape)} and type {in_short(dtype)} at offset {offset} "
            f"ends after {in_short(size)} bytes; at most {MAX_BYTES} are modelled"
        )
    if fill is not None and count > _MAX_GENERATED:
        raise LaunchError(
            f"a Buffer's fill makes at most {_MAX_GENERATED} elements, not {count}; give a smaller "
            "shape, or data from a .npy file"
        )


def _known_item_bytes(dtype: str) -> int:
    """Return the bytes of an element; 1 for a type that numpy does not know."""
    try:
        return _item_bytes(dtype)
    except LaunchError:
        return 1


def _check_pages(buffer: Buffer) -> None:
    pages, content, (shape, dtype) = buffer.pages, buffer.data, buffer.stated
    if shape is None or dtype is None or content is None or pages is None:
        raise LaunchError("a Buffer with pages needs shape, dtype and data")
    if content.size != len(pages) * PAGE_BYTES:
        raise LaunchError(
            f"a Buffer's data holds {content.size} bytes, its pages are {len(pages)} of "
            f"{PAGE_BYTES} bytes"
        )
    size = math.prod(shape) * _item_bytes(dtype)
    most = (size + buffer.offset % PAGE_BYTES) // PAGE_BYTES
    ascending = bool((pages[1:] > pages[:-1]).all())
    if len(pages) and not (ascending and pages[0] >= 0 and pages[-1] <= most):
        raise LaunchError(f"a Buffer's pages ascend from 0 to {most} at most")


def type_name(dtype: Any) -> str:
    """Return numpy's name of a type; a string is returned as it is, known to numpy or not."""
    import numpy

    if isinstance(dtype, str):
        return dtype
    try:
        return str(numpy.dtype(dtype))
    except (TypeError, ValueError):
        raise LaunchError(f"{in_short(dtype)} is no type that numpy knows") from None


def _array(source: Any, dtype: str | None, what: str = "data has") -> npt.NDArray[Any]:
    """Return the current contents of an array or file as a read-only array in C order.

    An array that already has that order and type is not copied.
    """
    from perfassert.kernel.array_files import read_array
    from perfassert.kernel.elements import convert_elements

    given = read_array(source) if isinstance(source, str) else source
    shown = convert_elements(given, dtype, f"a Buffer's {what}").view()
    shown.flags.writeable = False
    return shown


def _reshape(array: npt.NDArray[np.generic], shape: tuple[int, ...] | None) -> npt.NDArray[Any]:
    if shape is None or shape == array.shape:
        return array
    try:
        return array.reshape(shape)
    except ValueError:
        raise LaunchError(f"data of shape {array.shape} does not fit a Buffer of {shape}") from None
