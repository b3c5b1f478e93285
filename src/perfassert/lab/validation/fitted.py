"""Reader of ``[[fitted_on]]`` in suite files, and of filters for rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfassert.errors import UnknownDevice, close_matches
from perfassert.hardware.load import device as load_device
from perfassert.lab.validation.schema import FITTED_ON
from perfassert.lab.validation.suite import CellCondition, FittedOn
from perfassert.toml.tables import TableReader

HALF, ALL = "half", "all"
"""Rows that a fit has seen: the fitting half of the configurations, or all of them."""


def conditions(
    reader: TableReader, where: str, filters: Mapping[str, Any]
) -> tuple[CellCondition, ...]:
    """Read a filter table: a value, a list of values or ``{ min, max }`` for each column."""
    return tuple(_condition(reader, f"{where}.{k}", k, v) for k, v in filters.items())


def _condition(reader: TableReader, key: str, column: str, value: Any) -> CellCondition:
    if isinstance(value, dict):
        reader.check_keys(key, value, ("min", "max"))
        bounds = {k: reader.number(f"{key}.{k}", v) for k, v in value.items()}
        if not bounds:
            reader.fail(key, "give min, max or both")
        low, high = bounds.get("min", float("-inf")), bounds.get("max", float("inf"))
        return CellCondition(column, None, low, high)
    values = value if isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            reader.fail(key, f"must be a value, a list of values or {{ min, max }}, not {item!r}")
    return CellCondition(column, tuple(values))


def read_fitted_on(
    reader: TableReader, suite: Mapping[str, Any], metrics: Sequence[str]
) -> tuple[FittedOn, ...]:
    """Return the entries of a suite's table; raises its error with the key."""
    entries = suite.get("fitted_on", [])
    if not isinstance(entries, list):
        reader.fail("fitted_on", "must be a list of tables, [[fitted_on]]")
    halves = bool(suite.get("configuration"))
    return tuple(
        _read_fit(reader, f"fitted_on[{i}]", e, halves, metrics) for i, e in enumerate(entries)
    )


def _read_fit(
    reader: TableReader, key: str, value: Any, halves: bool, metrics: Sequence[str]
) -> FittedOn:
    table = reader.section(key, value)
    reader.check_keys(key, table, FITTED_ON)
    devices, values, sources = (
        reader.strings(f"{key}.{k}", table.get(k, [])) for k in ("devices", "values", "sources")
    )
    rows = reader.string(f"{key}.rows", table.get("rows"))
    if rows not in (HALF, ALL):
        reader.fail(f"{key}.rows", f"must be {HALF!r} or {ALL!r}, not {rows!r}")
    if rows == HALF and not halves:
        reader.fail(f"{key}.rows", "the suite has no configuration = [COLUMN, ...] to halve by")
    note = reader.string(f"{key}.note", table.get("note", ""))
    if not (values or sources or note):
        reader.fail(key, "says nothing; name values, sources or a note")
    if bool(values) != bool(devices):
        reader.fail(key, "values and devices go together: which values of which device files")
    _check_values(reader, key, devices, values)
    for source in sources:
        if not (reader.path.parent / source).is_file():
            reader.fail(f"{key}.sources", f"there is no file {source}, seen from the suite")
    filters = conditions(reader, f"{key}.filter", reader.section(key, table.get("filter", {})))
    seen = reader.strings(f"{key}.metrics", table.get("metrics", []))
    for name in seen:
        if name not in metrics:
            reader.fail(f"{key}.metrics", f"has no metric {name!r}{close_matches(name, metrics)}")
    return FittedOn(devices, values, sources, rows == HALF, filters, seen, note)


def _check_values(
    reader: TableReader, key: str, devices: tuple[str, ...], values: tuple[str, ...]
) -> None:
    for name in devices:
        try:
            provenance = load_device(name).provenance
        except UnknownDevice as error:
            reader.fail(f"{key}.devices", str(error))
        known = [key.removeprefix("values.") for key in provenance]
        for value in values:
            if value not in known:
                hint = close_matches(value, known)
                reader.fail(f"{key}.values", f"{name} has no value {value!r}{hint}")
