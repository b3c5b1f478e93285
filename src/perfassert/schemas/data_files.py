"""Schemas of device files and of suites of measurements."""

from __future__ import annotations

from perfassert.frontends.tables import ACCESSES
from perfassert.hardware import schema as devices
from perfassert.hardware.entries import Grade, Scope
from perfassert.lab.validation import schema as suites
from perfassert.lab.validation.suite import WARP_INSTRUCTION
from perfassert.lab.validation.targets import FIGURES
from perfassert.quantity import GRANULARITIES
from perfassert.schemas.kernels import ACCESS_KEYS, CONSTANT, LAUNCH_KEYS, argument
from perfassert.schemas.parts import (
    CELL,
    EXPRESSION,
    NUMBER,
    STRINGS,
    TEXT,
    WHOLE,
    Schema,
    annotate,
    at,
    closed_table,
    document,
    either,
    list_of,
    one_of,
    table_of,
)

_GRADES = one_of(grade.value for grade in Grade)
_ORIGIN = {"source": annotate(TEXT, "a key of [sources]"), "grade": _GRADES, "note": TEXT}


def device_schema() -> Schema:
    """Return the schema of a device file; one that extends another needs only a name."""
    values = {key: at(_unit(rule)) for key, rule in devices.VALUES.items()}
    values |= {key: _choice(known) for key, known in devices.CHOICES.items()}
    cycles = at(_unit(devices.ValueRule({"cycles": 1.0})))
    operation = {
        "pipeline": TEXT, "issue": cycles, "completion": cycles,
        "variant": annotate(TEXT, "the matrix instruction, as in tensor.m16n8k16.f16.f32"),
    }  # fmt: skip
    table = {
        "schema": one_of([1]),
        "name": TEXT,
        "extends": annotate(TEXT, "the device, or the path of the file, that this one builds on"),
        "arch": {"type": "string", "pattern": "^sm_[0-9]+[a-z]?$"},
        "aliases": list_of(TEXT),
        "capacity_fits": annotate(TEXT, "the table of capacity curves"),
        "sources": annotate(
            table_of(TEXT), "where numbers come from, by the words that entries use"
        ),
        "values": closed_table((*devices.VALUES, *devices.CHOICES), values),
        "pipelines": table_of(one_of(scope.value for scope in Scope)),
        "operations": table_of(closed_table(devices.OPERATION, operation)),
        "matrix": table_of(at(_unit(devices.MATRIX_RATE))),
    }
    whole = [key for key in devices.TOP_LEVEL if key not in ("extends", "aliases", "matrix")]
    needed = [key for key, rule in devices.VALUES.items() if rule.off is None]
    rest = {"required": whole, "properties": {"values": {"required": needed}}}
    schema = closed_table(
        devices.TOP_LEVEL, table, ("schema", "name"),
        **{"if": {"not": {"required": ["extends"]}}, "then": rest},
    )  # fmt: skip
    rules = (*devices.VALUES.values(), devices.MATRIX_RATE)
    return document(
        "device", 1, "A GPU", schema, **{_unit(rule): _value_schema(rule) for rule in rules}
    )


def _unit(rule: devices.ValueRule) -> str:
    """Return the name of the definition that entries with the same units share."""
    return f"in {next(iter(rule.units))}".replace("/", " per ")


def _value_schema(rule: devices.ValueRule) -> Schema:
    known = [key for key, other in devices.VALUES.items() if other.units == rule.units]
    entry = {"value": either(NUMBER, one_of(known)), "unit": one_of(rule.units), **_ORIGIN}
    return either(one_of(known), closed_table(devices.ENTRY, entry, ("value", "source", "grade")))


def _choice(known: tuple[str, ...]) -> Schema:
    keys = tuple(key for key in devices.ENTRY if key != "unit")
    return closed_table(keys, {"value": one_of(known), **_ORIGIN}, ("value", "source", "grade"))


def suite() -> Schema:
    """Return the schema of a suite of ``perfassert validate``: measurements and their launches."""
    launch = closed_table(suites.LAUNCH, LAUNCH_KEYS)
    accesses = {**ACCESS_KEYS, "each": table_of(list_of(WHOLE))}
    kernel = {
        "accesses": closed_table((*ACCESSES, "each"), accesses),
        "cuda": TEXT, "kernel": TEXT, "recorded": TEXT, "named": TEXT, "launches": one_of(("all",)),
        "improves": TEXT,
        "defines": table_of(EXPRESSION), "include_dirs": STRINGS, "options": STRINGS,
        "updates_per_thread": EXPRESSION, "trip_counts": table_of(EXPRESSION),
        "assume": table_of(TEXT), "constants": table_of(EXPRESSION),
        "launch": at("launch"),
        "rows": list_of(table_of(either(CELL, list_of(CELL)))),
    }  # fmt: skip
    ways = [{"required": [way]} for way in ("accesses", "cuda", "recorded")]
    numbers = dict.fromkeys(suites.DEVICE, CELL)
    metric = {
        "name": TEXT, "column": STRINGS, "unit": TEXT, "scale": NUMBER,
        "per": one_of((*GRANULARITIES, WARP_INSTRUCTION)), "bytes": EXPRESSION,
    }  # fmt: skip
    chosen = closed_table(suites.DEVICE, {**numbers, "name": TEXT, "column": TEXT})
    table = {
        "title": TEXT, "source": TEXT, "data": annotate(TEXT, "the CSV file"), "select": STRINGS,
        "group": STRINGS, "device": chosen,
        "filter": at("filter"), "constants": table_of(EXPRESSION),
        "launch": at("launch"),
        "kernel": at("kernel"), "kernels": table_of(at("kernel")),
        "metric": list_of(closed_table(suites.METRIC, metric, ("name", "column")), 1),
        "targets": table_of(closed_table(FIGURES, dict.fromkeys(FIGURES, CELL))),
        "limits": STRINGS, "configuration": STRINGS, "distinct": STRINGS,
        "fitted_on": list_of(_fitted_on()), "toolchain": TEXT,
    }  # fmt: skip
    between = {"min": NUMBER, "max": NUMBER}
    filters = table_of(either(CELL, list_of(CELL), closed_table(between, between)))
    return document(
        "suite", 1, "A suite of measurements",
        closed_table(suites.TOP, table, ("data", "device", "metric")),
        kernel=closed_table(suites.KERNEL, kernel, oneOf=ways), launch=launch, filter=filters,
        constant=CONSTANT, argument=argument(CELL),
    )  # fmt: skip


def _fitted_on() -> Schema:
    keys = {
        "devices": STRINGS, "values": STRINGS, "sources": STRINGS, "rows": one_of(("half", "all")),
        "filter": at("filter"), "metrics": STRINGS, "note": TEXT,
    }  # fmt: skip
    return closed_table(suites.FITTED_ON, keys, ("rows",))
