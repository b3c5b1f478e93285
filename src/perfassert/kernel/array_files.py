"""Reading of arrays from numpy's ``.npy`` and ``.npz`` files and Matrix Market's ``.mtx``.

A file may come with a pull request and is not trusted: one that is damaged, or that states more
than it holds, is reported as a :class:`~perfassert.errors.LaunchError`.
"""

from __future__ import annotations

import io
import lzma
import os
import zlib
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from perfassert.errors import LaunchError, close_matches
from perfassert.system.confined import open_file

Array = npt.NDArray[Any]
FILES = (".npy", ".npz", ".mtx")
_PARTS = ("rows", "columns", "values")
_UNPACKED = 1 << 30  # bytes of one array of an archive
_ROWS = 1 << 25  # of a matrix, whose pointers need memory whatever the file holds
# What numpy and the readers of archives raise where a file is not as its beginning says.
_DAMAGED = (
    OSError, ValueError, EOFError, OverflowError, MemoryError, RuntimeError, SyntaxError, TypeError,
    LookupError, AttributeError, Warning, TokenError, BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


def read_array(place: str) -> Array:
    """Read an array from ``.npy``, ``.npz`` (``file.npz:name``) or ``.mtx`` (``file.mtx:columns``).

    Raises:
        LaunchError: there is no such file, or it is damaged.
    """
    path, part = file_and_part(place)
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        raise LaunchError(f"{place}: data is read from .npy, .npz and .mtx files")
    reader, step = _READERS[suffix]
    try:
        array = reader(path, part)
    except FileNotFoundError:
        folder = "" if Path(path).is_absolute() else f" in {Path.cwd()}"
        raise LaunchError(f"{path} cannot be read: there is no such file{folder}") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise LaunchError(f"{path} cannot be read: {why}; name a file to read") from None
    except _DAMAGED as error:
        why = str(error).partition(". ")[0] or type(error).__name__  # then numpy advises pickle
        raise LaunchError(f"{path} cannot be read: {why}; {step}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
        what = getattr(array, "dtype", "no array")
        raise LaunchError(f"{place} holds no numbers, but {what}; write them with numpy.save")
    return array


def file_and_part(place: str) -> tuple[str, str]:
    """Split ``"a.npz:rows"`` into ``"a.npz"`` and ``"rows"``.

    A place that is an existing file is not split, though its name may have a colon.
    """
    if os.path.isfile(place) or ":" not in place:
        return place, ""
    path, _, part = place.rpartition(":")
    return path, part


def _from_file(path: str, part: str) -> Array:
    if part:
        raise LaunchError(f"{path} holds one array, which has no name; leave out ':{part}'")
    with open_file(path) as file:  # which numpy leaves open where it fails
        _check_beginning(file, np.lib.format.MAGIC_PREFIX, "array")
        loaded: Array = np.load(file, allow_pickle=False)
        return loaded


def _from_archive(path: str, part: str) -> Array:
    with open_file(path) as file:
        _check_beginning(file, b"PK", "archive of arrays")
        with np.load(file, allow_pickle=False) as archive:
            return _member(path, part, archive)


def _check_beginning(file: BinaryIO, expected: bytes, what: str) -> None:
    """Raise an error unless a file begins as numpy writes it; numpy takes others for pickles."""
    if file.read(len(expected)) != expected:
        raise ValueError(f"it is no {what} that numpy has written")
    file.seek(0)


def _member(path: str, part: str, archive: Any) -> Array:
    names = archive.files
    if not part and len(names) == 1:
        part = names[0]
    if part not in names:
        raise LaunchError(
            f"{path} holds {', '.join(names)}; name one behind a colon"
            f"{close_matches(part, names) or f': {path}:{names[0]}'}"
            if names else f"{path} holds no array"
        )  # fmt: skip
    if any(member.file_size > _UNPACKED for member in archive.zip.infolist()):
        raise LaunchError(f"{path} holds more than 1 GiB unpacked; write a part of it")
    array: Array = archive[part]
    return array


def _from_matrix(path: str, part: str) -> Array:
    """Read a part of a sparse matrix in coordinate format, converted to compressed rows (CSR).

    ``part``: ``"rows"`` (row pointers), ``"columns"`` (column of each entry), or ``"values"``.
    """
    # Entries (1, 2) and (3, 1) of a 3 × 3 matrix: rows 0 1 1 2, columns 1 0, both counted from 0.
    if part not in _PARTS:
        near = close_matches(part, _PARTS)
        raise LaunchError(
            f"{path}: name what of the matrix, as {path}:rows ({', '.join(_PARTS)}){near}"
        )
    with io.TextIOWrapper(open_file(path), "utf-8") as file:
        head = file.readline().lower().split()
        if head[:3] != ["%%matrixmarket", "matrix", "coordinate"] or len(head) < 5:
            raise LaunchError(f"{path} is no Matrix Market file in coordinate format")
        lines = (line for line in file if line.strip() and not line.startswith("%"))
        rows, columns, entries = (int(n) for n in next(lines, "").split())
        if max(rows, columns) > _ROWS:
            raise LaunchError(f"{path} states more than {_ROWS} rows or columns; write it as .npz")
        first = next(lines, None)
        table = np.empty((0, 3)) if first is None else np.loadtxt(chain([first], lines), ndmin=2)
    if len(table) != entries:
        raise LaunchError(f"{path} states {entries} entries and has {len(table)}")
    if head[3] == "complex":
        raise LaunchError(f"{path} has complex values, which no index or guard is made of")
    if entries and not (_lie_within(table[:, 0], rows) and _lie_within(table[:, 1], columns)):
        raise LaunchError(f"{path}: an entry lies outside of {rows} rows and {columns} columns")
    row, column = table[:, 0].astype(np.int64) - 1, table[:, 1].astype(np.int64) - 1
    value = table[:, 2] if table.shape[1] > 2 else np.ones(len(table))
    if head[4] in ("symmetric", "skew-symmetric", "hermitian"):
        off = row != column
        sign = -1.0 if head[4] == "skew-symmetric" else 1.0
        row, column = np.r_[row, column[off]], np.r_[column, row[off]]
        value = np.r_[value, sign * value[off]]
    order = np.lexsort((column, row))
    if part == "columns":
        return column[order].astype(np.int32)
    if part == "values":
        return value[order]
    return np.searchsorted(row[order], np.arange(rows + 1)).astype(np.int32)


_READERS: Mapping[str, tuple[Callable[[str, str], Array], str]] = {
    ".npy": (_from_file, "write an array of numbers with numpy.save"),
    ".npz": (_from_archive, "write arrays of numbers with numpy.savez"),
    ".mtx": (_from_matrix, "write the matrix again"),
}
"""Suffix → reader of such files, and the next step if one is damaged."""


def _lie_within(places: Array, most: int) -> bool:
    """Return True if all indices, counted from 1, lie between 1 and ``most``."""
    return bool(places.min() >= 1 and places.max() <= most)
