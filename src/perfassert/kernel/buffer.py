"""What a pointer argument points to: shape, type, place, and what it holds."""

from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Union

from perfassert.errors import LaunchError, in_short
from perfassert.kernel.field import ITEM_BYTES
from perfassert.quantity import to_integer, to_integers

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PAGE_BYTES = 256
_DEFAULT = "float32"
_GENERATED = "int32"  # what a generator makes is meant for indices


@dataclass(frozen=True, slots=True, init=False)
class Buffer:
    """What a pointer argument points to: shape, type, alignment, and contents where they matter.

    Contents are needed only where addresses, branches or trip counts depend on them. At most one of
    ``data``, ``fill`` and ``alias`` is given.

    Args:
        shape: extents in C order; a number for a single axis. Default: that of ``data``; with
            ``alias`` it may be left out, with ``fill`` not.
        dtype: type of an element, as numpy calls it, or ``"bfloat16"``. Default: that of ``data``;
            ``"int32"`` with ``fill``, else ``"float32"``.
        alignment: in bytes: the address is ≡ ``offset`` (mod ``alignment``). Default: 256.
        offset: in bytes. Default: 0. With ``alias``, from where the other argument's memory starts.
        data: an array, or a path to a ``.npy``, ``.npz`` or ``.mtx`` file; a part of the last two
            is named behind a colon.
        fill: a generator in text: ``"random(0, n)"``, ``"sorted random(0, n)"``, ``"permutation"``,
            ``"arange % 7"``, ``"constant 3"``, ``"csr_rows(nnz_per_row=16, skew='power-law')"``.
        alias: name of the argument that points to the same memory.
        seed: of the generator. Default: 0.
        pages: an array, or a path as for ``data``: the ascending numbers of the pages of 256 bytes
            that ``data`` holds, a row of bytes each; ``shape`` and ``dtype`` are then those of the
            whole buffer, and what other pages hold is not known. Pages start where the address is a
            multiple of 256 bytes; page 0 holds the first element. This is how ``perfassert
            record`` keeps of a large buffer what its kernel reads.

    Attributes:
        digest: SHA-256 of ``data``; empty without.

    Raises:
        LaunchError: data that cannot be read or does not fit, several of ``data``, ``fill`` and
            ``alias``, or no shape at all.

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
    digest: str
    data: npt.NDArray[Any] | None = field(compare=False, repr=False)
    pages: npt.NDArray[np.int64] | None = field(compare=False, repr=False)

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
        numbers = None if pages is None else _array(pages, "int64").reshape(-1)
        array = None if data is None else _array(data, dtype if numbers is None else "uint8")
        given = None
        if shape is not None:
            given = to_integers(shape, "a Buffer's shape", LaunchError, minimum=0)
        if numbers is not None:
            _check_pages(numbers, array, given, dtype, offset)
        elif array is not None:
            array = _reshape(array, given)
            given = tuple(int(n) for n in array.shape)
        elif given is None and alias is None:
            raise LaunchError("a Buffer needs a shape, or data that has one")
        kind = dtype or (_GENERATED if fill else _DEFAULT)
        if array is not None and numbers is None:
            kind = str(array.dtype)
        values = {
            "shape": given or (), "dtype": kind,
            "alignment": to_integer(alignment, "a Buffer's alignment", LaunchError, 1),
            "offset": to_integer(offset, "a Buffer's offset", LaunchError, 0),
            "fill": fill, "alias": alias,
            "seed": to_integer(seed, "a Buffer's seed", LaunchError, 0), "data": array,
            "digest": _digest(array, numbers), "pages": numbers,
        }  # fmt: skip
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def described(self) -> bool:
        """Whether its contents are known: it has ``data`` or ``fill``."""
        return self.data is not None or self.fill is not None

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


def _digest(array: npt.NDArray[Any] | None, pages: npt.NDArray[Any] | None) -> str:
    if array is None:
        return ""
    digest = _digest_of(array)
    return (
        digest
        if pages is None
        else hashlib.sha256((digest + _digest_of(pages)).encode()).hexdigest()
    )


_digests: dict[int, tuple[weakref.ref[npt.NDArray[Any]], str]] = {}
"""Of arrays that are in use and that nobody writes to: many launches may have the same one."""


def _digest_of(array: npt.NDArray[Any]) -> str:
    known = _digests.get(id(array))
    if known is not None and known[0]() is array:
        return known[1]
    digest, place = hashlib.sha256(array.tobytes()).hexdigest(), id(array)
    _digests[place] = weakref.ref(array, lambda _: _digests.pop(place, None)), digest
    return digest


def _check_pages(
    pages: npt.NDArray[Any],
    content: npt.NDArray[Any] | None,
    shape: tuple[int, ...] | None,
    dtype: str | None,
    offset: int,
) -> None:
    if shape is None or dtype is None or content is None:
        raise LaunchError("a Buffer with pages needs shape, dtype and data")
    if content.size != len(pages) * PAGE_BYTES:
        raise LaunchError(
            f"a Buffer's data holds {content.size} bytes, its pages are {len(pages)} of "
            f"{PAGE_BYTES} bytes"
        )
    size = math.prod(shape) * _item_bytes(dtype)
    most = (size + offset % PAGE_BYTES) // PAGE_BYTES
    ascending = bool((pages[1:] > pages[:-1]).all())
    if len(pages) and not (ascending and pages[0] >= 0 and pages[-1] <= most):
        raise LaunchError(f"a Buffer's pages ascend from 0 to {most} at most")


def type_name(dtype: Any) -> str:
    """As numpy calls it; types that only a kernel knows are names."""
    import numpy

    if isinstance(dtype, str):
        return dtype
    try:
        return str(numpy.dtype(dtype))
    except (TypeError, ValueError):
        raise LaunchError(f"{in_short(dtype)} is no type that numpy knows") from None


def _array(data: npt.NDArray[Any] | str | PathLike[str], dtype: str | None) -> npt.NDArray[Any]:
    import numpy

    from perfassert.kernel.array_files import read_array

    if isinstance(data, str) or hasattr(data, "__fspath__"):
        given = read_array(str(data))
    else:
        try:
            given = numpy.asarray(data)
        except (TypeError, ValueError, OverflowError, MemoryError) as reason:
            raise LaunchError(f"a Buffer's data is no array of numbers: {reason}") from None
    if given.dtype.hasobject:
        raise LaunchError(f"a Buffer holds numbers, not Python objects ({given.dtype})")
    try:
        array = numpy.ascontiguousarray(given, dtype=dtype)
    except TypeError:
        raise LaunchError(f"{in_short(dtype)} is no type that numpy knows") from None
    except (ValueError, OverflowError) as reason:
        raise LaunchError(f"a Buffer's data is not of type {in_short(dtype)}: {reason}") from None
    mine = array is not given or not array.flags.writeable  # nobody changes it behind our back
    copy = array if mine and array.base is None else array.copy()
    copy.flags.writeable = False
    return copy


def _reshape(array: npt.NDArray[np.generic], shape: tuple[int, ...] | None) -> npt.NDArray[Any]:
    if shape is None or shape == array.shape:
        return array
    try:
        return array.reshape(shape)
    except ValueError:
        raise LaunchError(f"data of shape {array.shape} does not fit a Buffer of {shape}") from None
