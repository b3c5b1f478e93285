"""Device files and suites of measurements."""

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
    at,
    closed,
    described,
    document,
    either,
    listed,
    named,
    one_of,
)

_GRADES = one_of(grade.value for grade in Grade)


def device() -> Schema:
    """A device file; one that extends another may leave anything out but its name."""
    values = {key: at(_unit(rule)) for key, rule in devices.VALUES.items()}
    cycles = at(_unit(devices.Key({"cycles": 1.0})))
    operation = {
        "pipeline": TEXT, "issue": cycles, "completion": cycles,
        "variant": described(TEXT, "the matrix instruction, as in tensor.m16n8k16.f16.f32"),
    }  # fmt: skip
    table = {
        "schema": one_of([1]),
        "name": TEXT,
        "extends": described(TEXT, "the device, or the path of the file, that this one builds on"),
        "arch": {"type": "string", "pattern": "^sm_[0-9]+[a-z]?$"},
        "aliases": listed(TEXT),
        "capacity_fits": described(TEXT, "the table of capacity curves"),
        "sources": described(named(TEXT), "where numbers come from, by the words that entries use"),
        "values": closed(devices.VALUES, values),
        "pipelines": named(one_of(scope.value for scope in Scope)),
        "operations": named(closed(devices.OPERATION, operation)),
        "matrix": named(at(_unit(devices.MATRIX_RATE))),
    }
    whole = [key for key in devices.TOP_LEVEL if key not in ("extends", "aliases", "matrix")]
    needed = [key for key, rule in devices.VALUES.items() if rule.off is None]
    rest = {"required": whole, "properties": {"values": {"required": needed}}}
    schema = closed(
        devices.TOP_LEVEL, table, ("schema", "name"),
        **{"if": {"not": {"required": ["extends"]}}, "then": rest},
    )  # fmt: skip
    rules = (*devices.VALUES.values(), devices.MATRIX_RATE)
    return document("device", 1, "A GPU", schema, **{_unit(rule): _entry(rule) for rule in rules})


def _unit(rule: devices.Key) -> str:
    """What entries in the same units are defined as."""
    return f"in {next(iter(rule.units))}".replace("/", " per ")


def _entry(rule: devices.Key) -> Schema:
    known = [key for key, other in devices.VALUES.items() if other.units == rule.units]
    entry = {
        "value": either(NUMBER, one_of(known)),
        "unit": one_of(rule.units),
        "source": described(TEXT, "a key of [sources]"),
        "grade": _GRADES,
        "note": TEXT,
    }
    return either(one_of(known), closed(devices.ENTRY, entry, ("value", "source", "grade")))


def suite() -> Schema:
    """A suite of ``perfassert validate``: a table of measurements, and what its rows are."""
    launch = closed(suites.LAUNCH, LAUNCH_KEYS)
    accesses = {**ACCESS_KEYS, "each": named(listed(WHOLE))}
    kernel = {
        "accesses": closed((*ACCESSES, "each"), accesses),
        "cuda": TEXT, "kernel": TEXT, "recorded": TEXT, "named": TEXT, "improves": TEXT,
        "defines": named(EXPRESSION), "include_dirs": STRINGS, "options": STRINGS,
        "updates_per_thread": EXPRESSION, "trip_counts": named(EXPRESSION), "proxies": named(TEXT),
        "constants": named(EXPRESSION), "launch": at("launch"),
        "rows": listed(named(either(CELL, listed(CELL)))),
    }  # fmt: skip
    ways = [{"required": [way]} for way in ("accesses", "cuda", "recorded")]
    numbers = dict.fromkeys(suites.DEVICE, CELL)
    metric = {
        "name": TEXT, "column": STRINGS, "unit": TEXT, "scale": NUMBER,
        "per": one_of((*GRANULARITIES, WARP_INSTRUCTION)), "bytes": EXPRESSION,
    }  # fmt: skip
    chosen = closed(suites.DEVICE, {**numbers, "name": TEXT, "column": TEXT})
    table = {
        "title": TEXT, "source": TEXT, "data": described(TEXT, "the CSV file"), "select": STRINGS,
        "group": STRINGS, "device": chosen,
        "filter": at("filter"), "constants": named(EXPRESSION), "launch": at("launch"),
        "kernel": at("kernel"), "kernels": named(at("kernel")),
        "metric": listed(closed(suites.METRIC, metric, ("name", "column")), 1),
        "targets": named(closed(FIGURES, dict.fromkeys(FIGURES, CELL))),
        "limits": STRINGS, "configuration": STRINGS, "fitted_on": listed(_fitted_on()),
        "toolchain": TEXT,
    }  # fmt: skip
    between = {"min": NUMBER, "max": NUMBER}
    filters = named(either(CELL, listed(CELL), closed(between, between)))
    return document(
        "suite", 1, "A suite of measurements",
        closed(suites.TOP, table, ("data", "device", "metric")),
        kernel=closed(suites.KERNEL, kernel, oneOf=ways), launch=launch, filter=filters,
        constant=CONSTANT, argument=argument(CELL),
    )  # fmt: skip


def _fitted_on() -> Schema:
    keys = {
        "devices": STRINGS, "values": STRINGS, "sources": STRINGS, "rows": one_of(("half", "all")),
        "filter": at("filter"), "note": TEXT,
    }  # fmt: skip
    return closed(suites.FITTED_ON, keys, ("rows",))
