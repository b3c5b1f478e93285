"""Parameters of a test: rows of values, and ``{NAME}`` in its entries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfassert.errors import close_matches
from perfassert.toml.tables import TableReader

_NAME = re.compile(r"[A-Za-z_]\w*")
_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")
Row = Mapping[str, Any]
Rows = list[tuple[tuple[str, ...], Row]]
"""Ids of the parameters, and the values."""


def read_rows(reader: TableReader, key: str, given: Any) -> Rows:
    """A table of lists: their product; a list of tables: a row each, which may have an ``id``."""
    if isinstance(given, list):
        return _rows_of_list(reader, key, given)
    table = reader.section(key, given)
    if not table:
        reader.fail(key, "is empty; give NAME = [value, …]")
    for name, values in table.items():
        if not isinstance(values, list) or not values:
            reader.fail(f"{key}.{name}", f"must be a list of values, not {values!r}")
        for i, value in enumerate(values):
            _check_parameter(reader, f"{key}.{name}", f"{key}.{name}[{i}]", name, value)
    combined = reader.combinations(key, list(table.values()))
    rows = (dict(zip(table, row, strict=True)) for row in combined)
    return [(_ids(reader, key, row), row) for row in rows]


def _rows_of_list(reader: TableReader, key: str, given: list[Any]) -> Rows:
    if not given:
        reader.fail(key, "is empty; give at least one table")
    names = [name for name in reader.section(f"{key}[0]", given[0]) if name != "id"]
    rows: Rows = []
    for i, entry in enumerate(given):
        where = f"{key}[{i}]"
        row = dict(reader.section(where, entry))
        own = reader.string(f"{where}.id", row.pop("id")) if "id" in row else ""
        if set(row) != set(names) or not row:
            reader.fail(where, f"must have the names of the first: {', '.join(names) or 'none'}")
        for name, value in row.items():
            _check_parameter(reader, f"{where}.{name}", f"{where}.{name}", name, value)
        ordered = {name: row[name] for name in names}
        rows.append(((own,) if own else _ids(reader, where, ordered), ordered))
    return rows


def read_constants(reader: TableReader, given: Any) -> Row:
    """``[constants]``: names for values."""
    table = reader.section("constants", given)
    for name, value in table.items():
        _check_parameter(reader, f"constants.{name}", f"constants.{name}", name, value)
    return table


def _check_parameter(reader: TableReader, name_key: str, key: str, name: str, value: Any) -> None:
    if not _NAME.fullmatch(name):
        reader.fail(name_key, "is no name; use letters, digits and _")
    for item in value if isinstance(value, list) and value else [value]:
        if not isinstance(item, (str, int, float)):
            reader.fail(key, f"must be a number, a string or a list of them, not {value!r}")


def _ids(reader: TableReader, key: str, row: Row) -> tuple[str, ...]:
    """``{"BLOCK": [16, 2, 8]}`` → ``("16x2x8",)``."""
    ids = []
    for value in row.values():
        ids.append(_format_value(value))
        reader.count_filled(key, len(ids[-1]))
    return tuple(ids)


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "x".join(map(_format_value, value)) if isinstance(value, list) else str(value)


def fill(reader: TableReader, key: str, value: Any, names: Row) -> Any:
    """``{NAME}`` replaced in every string below; one that is nothing else becomes the value.

    Each value, key and character counts, so that a row of parameters pays for the table that it
    makes.
    """
    if isinstance(value, dict):
        reader.count_filled(key, sum(map(len, value)))
        return {k: fill(reader, f"{key}.{k}", v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(reader, f"{key}[{i}]", v, names) for i, v in enumerate(value)]
    reader.count_filled(key, 1)
    if not isinstance(value, str):
        return value
    reader.count_filled(key, len(value))
    for name in _PLACE.findall(value):
        if name not in names:
            hint = close_matches(name, names) or f"; known: {', '.join(names) or 'none'}"
            reader.fail(key, f"no parameter or constant {name!r}{hint}")
    if alone := _PLACE.fullmatch(value):
        reader.count_filled(key, _size(names[alone[1]]))
        return names[alone[1]]

    def replacement(place: re.Match[str]) -> str:
        text = _format_value(names[place[1]])
        reader.count_filled(key, len(text))
        return text

    return _PLACE.sub(replacement, value)


def _size(value: Any) -> int:
    """Characters of a value, at least one for each item of a list."""
    if isinstance(value, list):
        return len(value) + sum(map(_size, value))
    return len(value) if isinstance(value, str) else 1
