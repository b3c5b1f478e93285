"""Measured rows of a suite: found, read, filtered, and checked."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfassert.errors import RecordError, SuiteError, close_matches
from perfassert.frontends.profiles.launch import MeasuredFile
from perfassert.frontends.profiles.read import format_of
from perfassert.lab.validation.suite import Suite

ENVIRONMENT = "PERFASSERT_MEASURED"


@dataclass(frozen=True, slots=True)
class DataRow:
    """A row of the data file; ``line`` counts from 1, the header included."""

    line: int
    cells: Mapping[str, str]


def read_rows(suite: Suite, folder: Path | None = None, limit: int | None = None) -> list[DataRow]:
    """Return the rows that pass the filter, in the order of the file; at most ``limit``.

    Of rows that agree in the suite's ``distinct`` columns, only the first counts. A ``limit``
    selects evenly spread rows. ``folder``: where the data lies; see :func:`find_data`. Raises
    :class:`SuiteError`.
    """
    path = find_data(suite, folder)
    rows = _read(path)
    _check_columns(suite, path, rows[0].cells)
    kept = [r for r in rows if all(c.holds(r.cells[c.column]) for c in suite.filters)]
    if not kept:
        raise SuiteError(f"{suite.path}: filter: none of the {len(rows)} rows of {path} passes")
    _check_kernels(suite, kept)
    if suite.distinct:
        first: dict[tuple[str, ...], DataRow] = {}
        for row in kept:
            first.setdefault(tuple(row.cells[c] for c in suite.distinct), row)
        kept = list(first.values())
    if limit is None or limit >= len(kept):
        return kept
    return [kept[i * len(kept) // limit] for i in range(limit)]


def find_data(suite: Suite, folder: Path | None = None) -> Path:
    """Return the data file: in ``folder`` or ``PERFASSERT_MEASURED``, else beside the suite."""
    variable = os.environ.get(ENVIRONMENT)
    first = folder or (Path(variable) if variable else None)
    places = [*([first] if first else []), suite.path.parent]
    for place in places:
        if (path := place / suite.data).is_file():
            return path
    searched = " and ".join(str(place) for place in places)
    raise SuiteError(
        f"{suite.path}: data: there is no {suite.data} in {searched}; name its folder with "
        f"--data DIR or in the environment variable {ENVIRONMENT}"
    )


def _read(path: Path) -> list[DataRow]:
    try:
        form = format_of(path)
        if form is not None and form.suffix != ".csv":  # a CSV is the table that it is
            return _measured_rows(form.read(path))
    except RecordError as error:
        raise SuiteError(str(error)) from None
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
            rows = list(_rows(path, csv.reader(stream, strict=True)))
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError, EOFError) as error:
        raise SuiteError(f"{path}: not a CSV file: {error}") from None
    if not rows:
        raise SuiteError(f"{path}: there are no rows below the header")
    return rows


def _measured_rows(measured: MeasuredFile) -> list[DataRow]:
    """Return a row for each measurement, numbered from 2 as below a header.

    Columns are what the file calls them, and of a launch ``kernel``, ``grid_x`` … ``block_z``,
    ``shared_bytes``; ``device`` and ``time_s`` of all. A cell is empty where a row lacks it.
    """
    rows = []
    for one in measured.measurements:
        cells = {"device": measured.device, **one.cells}
        cells["time_s"] = repr(one.values["time"]) if "time" in one.values else ""
        if (shape := one.shape) is not None:
            cells["kernel"] = shape.name
            for what, extent in (("grid", shape.grid), ("block", shape.block)):
                cells |= {f"{what}_{axis}": str(n) for axis, n in zip("xyz", extent, strict=True)}
            cells["shared_bytes"] = "" if shape.shared_bytes is None else str(shape.shared_bytes)
        rows.append(cells)
    empty = dict.fromkeys((name for cells in rows for name in cells), "")
    return [DataRow(number, {**empty, **cells}) for number, cells in enumerate(rows, 2)]


def _rows(path: Path, lines: Iterator[list[str]]) -> Iterator[DataRow]:
    header = next(lines, [])
    if len(set(header)) < len(header):
        twice = next(name for i, name in enumerate(header) if name in header[:i])
        raise SuiteError(f"{path}: column {twice!r} is there twice")
    for number, cells in enumerate(lines, 2):
        if len(cells) != len(header):
            raise SuiteError(
                f"{path}: line {number}: {len(cells)} cells, but the header has {len(header)}"
            )
        yield DataRow(number, dict(zip(header, cells, strict=True)))


def _check_columns(suite: Suite, path: Path, columns: Mapping[str, str]) -> None:
    wanted = [("select", name) for name in suite.select]
    wanted += [("group", name) for name in suite.group]
    wanted += [(f"filter.{c.column}", c.column) for c in suite.filters]
    wanted += [("configuration", name) for name in suite.configuration]
    wanted += [("distinct", name) for name in suite.distinct]
    for i, entry in enumerate(suite.fitted_on):
        wanted += [(f"fitted_on[{i}].filter.{c.column}", c.column) for c in entry.filters]
    wanted += [("device.column", suite.device.column)] if suite.device.column else []
    for i, spec in enumerate(suite.metrics):
        wanted += [(f"metric[{i}].column", name) for name in spec.columns]
    for key, name in (*wanted, *suite.uses):
        if name not in columns:
            hint = close_matches(name, columns) or f"; columns: {', '.join(columns)}"
            raise SuiteError(f"{suite.path}: {key}: {path.name} has no column {name!r}{hint}")


def _check_kernels(suite: Suite, rows: Sequence[DataRow]) -> None:
    for row in rows:
        if (key := suite.kernel_key(row.cells)) not in suite.kernels:
            hint = close_matches(key, suite.kernels) or "; describe it, or leave it out by [filter]"
            raise SuiteError(
                f"{suite.path}: kernels: none for {key!r} ({suite.data}, line {row.line}){hint}"
            )
