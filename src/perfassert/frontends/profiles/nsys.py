"""Reader for databases of ``nsys export --type sqlite``: the launches in the table of kernels.

The reader uses the columns that the version of Nsight Systems writes.
https://docs.nvidia.com/nsight-systems/UserGuide (SQLite schema reference)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from perfassert.errors import RecordError
from perfassert.frontends.profiles.launch import (
    Extent,
    MeasuredFile,
    Measurement,
    Shape,
    describe_shape,
    only_name,
)

MAGIC = b"SQLite format 3\x00"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_NAMES = ("mangledName", "demangledName", "shortName")
_NEEDED = ("start", "end", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")


def read_nsys(path: Path) -> MeasuredFile:
    """Read the launches on all devices; :class:`~perfassert.RecordError` if there are none."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            columns = _columns(database, path)
            launches = tuple(_launches(path, database, columns))
            return MeasuredFile("an export of Nsight Systems", launches, _device(database))
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        why = str(error) or "it states more than it holds"
        raise RecordError(
            f"{path}: cannot be read as an export of Nsight Systems: {why}; export it anew"
        ) from None


def _columns(database: sqlite3.Connection, path: Path) -> set[str]:
    if _KERNELS not in _tables(database):
        raise RecordError(f"{path}: has no kernels; profile with nsys profile --trace=cuda")
    columns = {row["name"] for row in database.execute(f"PRAGMA table_info({_KERNELS})")}
    missing = [c for c in _NEEDED if c not in columns]
    if missing or not columns & set(_NAMES):
        lacking = ", ".join(missing) or " or ".join(_NAMES)
        raise RecordError(f"{path}: {_KERNELS} lacks {lacking}; export it with a newer nsys")
    return columns


def _launches(path: Path, database: sqlite3.Connection, columns: set[str]) -> Iterator[Measurement]:
    if "StringIds" not in _tables(database):
        raise RecordError(f"{path}: has no table StringIds; export it anew")
    names = dict(database.execute("SELECT id, value FROM StringIds").fetchall())
    for row in database.execute(f"SELECT * FROM {_KERNELS} ORDER BY start, rowid"):
        try:
            shape = _shape(row, columns, names)
            seconds = (int(row["end"]) - int(row["start"])) * 1e-9
            yield Measurement(describe_shape(shape), shape, {"time": seconds})
        except (TypeError, ValueError, OverflowError):
            shown = str(dict(row))[:200]
            raise RecordError(f"{path}: this launch has no integers: {shown}") from None


def _shape(row: sqlite3.Row, columns: set[str], names: Mapping[Any, Any]) -> Shape:
    shared = row["dynamicSharedMemory"] if "dynamicSharedMemory" in columns else None
    return Shape(
        name=next((str(names[row[c]]) for c in _NAMES if c in columns and names.get(row[c])), ""),
        grid=_extent(row, "grid"),
        block=_extent(row, "block"),
        shared_bytes=None if shared is None else max(0, int(shared)),
        cluster=_extent(row, "cluster") if "clusterX" in columns else (1, 1, 1),
    )


def _tables(database: sqlite3.Connection) -> set[str]:
    """Return the names of the tables, without views: the query of a view might never end."""
    return {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")}


def _extent(row: sqlite3.Row, what: str) -> Extent:
    """Return an extent from its three columns; zeros, as for a missing cluster, become ones."""
    x, y, z = (max(1, int(row[f"{what}{axis}"] or 1)) for axis in "XYZ")
    return x, y, z


def _device(database: sqlite3.Connection) -> str:
    """Return the name of the GPU, empty if the database names no GPU or several kinds."""
    if "TARGET_INFO_GPU" not in _tables(database):
        return ""
    return only_name([str(row[0]) for row in database.execute("SELECT name FROM TARGET_INFO_GPU")])
