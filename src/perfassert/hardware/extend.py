"""A device from its file and those that it extends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfassert.errors import DeviceFileError
from perfassert.hardware import schema
from perfassert.hardware.entries import CapacityCurve, Operation, Provenance
from perfassert.hardware.model import Device
from perfassert.hardware.read import DeviceEntry, DeviceFileReader, Tables, read_curves
from perfassert.shipped import fit_path, read_table

Find = Callable[[str, Path], Path]
"""What ``extends`` says and the file that says it → the file that is meant."""


def chain(path: Path, find: Find) -> tuple[DeviceFileReader, ...]:
    """The file, the one that it extends, and so on."""
    readers: list[DeviceFileReader] = []
    while True:
        reader = DeviceFileReader(path, read_table(path))
        readers.append(reader)
        if not reader.partial:
            return tuple(readers)
        base = reader.table["extends"]
        if not isinstance(base, str):
            reader.fail("extends", "must be the name or the path of a device file")
        path = find(base, path).resolve()
        if path in (r.path.resolve() for r in readers):
            way = " → ".join(str(r.path.stem) for r in readers)
            readers[0].fail("extends", f"goes round in a circle: {way} → {path.stem}")


def assemble_device(readers: tuple[DeviceFileReader, ...]) -> Device:
    """Assemble the device that the files describe together, and check it."""
    tables = readers[-1].tables()
    for reader in reversed(readers[:-1]):
        tables = reader.tables().over(tables)
    reader = readers[0]
    if not fit_path(tables.capacity_fits).is_file():
        known = ", ".join(sorted(p.stem for p in fit_path("").parent.glob("*.toml")))
        reason = f"no fits named {tables.capacity_fits!r}; known: {known}"
        reader.fail("capacity_fits", reason)
    curves, origins = read_curves(tables.capacity_fits)
    numbers = _Numbers(_entries_by_key(tables))
    operations = dict(_operations(tables, numbers))
    matrix = {name: float(numbers.value(f"matrix.{name}")) for name in tables.matrix}
    values: dict[str, Any] = {key: numbers.value(f"values.{key}") for key in schema.VALUES}
    choices: dict[str, Any] = {key: choice.value for key, choice in tables.choices.items()}
    device = Device(
        name=tables.name,
        arch=tables.arch,
        aliases=tables.aliases,
        capacity_fits=tables.capacity_fits,
        digest=_digest(tables, values | choices, operations, matrix, curves),
        operations=operations,
        matrix=matrix,
        pipelines=tables.pipelines,
        curves=curves,
        references=numbers.references,
        provenance={
            **{key: numbers.origin(key) for key in numbers.entries},
            **{
                f"values.{key}": _inherited_origin(choice.origin, choice.device)
                for key, choice in tables.choices.items()
            },
            **origins,
        },
        **values,
        **choices,
    )
    device.check(str(reader.path))
    return device


def _entries_by_key(tables: Tables) -> dict[str, DeviceEntry]:
    """Entries by the keys that messages and provenance use: ``values.l2_bytes``."""
    values = {f"values.{key}": entry for key, entry in tables.values.items()}
    costs = {f"operations.{o}.{part}": entry for (o, part), entry in tables.costs.items()}
    rates = {f"matrix.{name}": entry for name, entry in tables.matrix.items()}
    return values | costs | rates


def _operations(tables: Tables, numbers: _Numbers) -> Iterator[tuple[str, Operation]]:
    names = dict.fromkeys((*(name for name, _ in tables.costs), *tables.pipeline_of))
    for name in names:
        for part in schema.COSTS:
            if (name, part) not in tables.costs:
                raise DeviceFileError(f"{tables.path}: operations.{name}.{part}: missing")
        if name not in tables.pipeline_of:
            raise DeviceFileError(f"{tables.path}: operations.{name}.pipeline: missing")
        issue, completion = (numbers.value(f"operations.{name}.{part}") for part in schema.COSTS)
        pipeline, variant = tables.pipeline_of[name], tables.variant_of.get(name, "")
        yield name, Operation(name, float(issue), float(completion), pipeline, variant)


class _Numbers:
    """Entries with their references followed; ``references`` in the order of dependence."""

    def __init__(self, entries: Mapping[str, DeviceEntry]) -> None:
        self.entries = entries
        self.references: dict[str, str] = {}
        for key in entries:
            self._follow(key, ())

    def _follow(self, key: str, way: tuple[str, ...]) -> None:
        entry = self.entries[key]
        if not isinstance(entry.value, str):
            return
        if key in way:
            shown = " → ".join((*way, key))
            raise DeviceFileError(f"{entry.path}: {key}: refers to itself: {shown}")
        self._follow(f"values.{entry.value}", (*way, key))
        self.references[key] = entry.value

    def value(self, key: str) -> float:
        value = self.entries[key].value
        return self.value(f"values.{value}") if isinstance(value, str) else value

    def origin(self, key: str) -> Provenance:
        """A reference without an origin has that of what it refers to."""
        entry = self.entries[key]
        if entry.origin is None:
            target = self.origin(f"values.{entry.value}")
            return replace(target, note=f"as {entry.value}")
        return _inherited_origin(entry.origin, entry.device)


def _inherited_origin(origin: Provenance, device: str) -> Provenance:
    """With the device that the value was written for, if it is another one."""
    if not device:
        return origin
    return replace(origin, note=f"as {device}" + (f": {origin.note}" if origin.note else ""))


def _digest(
    tables: Tables,
    values: Mapping[str, float | str],
    operations: Mapping[str, Operation],
    matrix: Mapping[str, float],
    curves: Mapping[str, CapacityCurve],
) -> str:
    """Return the digest of the values on which predictions depend, by keys of the schema.

    Comments and sources do not enter it, nor does the file from which a value is inherited.
    """
    content = {
        "name": tables.name,
        "arch": tables.arch,
        "values": {k: v if isinstance(v, str) else float(v) for k, v in values.items()},
        "pipelines": {key: scope.value for key, scope in tables.pipelines.items()},
        "operations": {
            k: [o.pipeline, o.issue, o.completion, *([o.variant] if o.variant else [])]
            for k, o in operations.items()
        },
        **({"matrix": dict(matrix)} if matrix else {}),
        "curves": {key: [c.a, c.b, c.c, c.reference_bytes] for key, c in curves.items()},
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
