"""Schemas of ``*.perf.toml`` files and of launches files."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.baseline.tolerance import GROUPS
from perfassert.expect.metrics import Kind, Metric
from perfassert.frontends.tables import LAUNCH
from perfassert.perf_toml import launches
from perfassert.perf_toml.candidates import CLAIMS, VARIANT
from perfassert.perf_toml.read import RANK, TEST, TOP
from perfassert.schemas.kernels import (
    DEFINITIONS,
    KERNEL_PART,
    KERNEL_TABLE,
    LAUNCH_KEYS,
    launch,
)
from perfassert.schemas.parts import (
    CELL,
    EXPRESSION,
    EXTENT,
    FLAG,
    NUMBER,
    STRINGS,
    TEXT,
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

_PLACE = {"type": "string", "pattern": r"^\{[A-Za-z_]\w*\}$"}
_DEVICES = annotate(
    either(list_of(TEXT, 1), _PLACE), "names, aliases, or paths of device files; else --perf-device"
)
_REASON = either(TEXT, table_of(TEXT))
_PARAMETERS = either(table_of(list_of({}, 1)), list_of({"type": "object"}, 1))
_TOLERANCE = {"anyOf": [TEXT, NUMBER, {"const": False}]}


def perf_toml(metrics: Mapping[str, Metric]) -> Schema:
    """Return the schema of tests without Python; ``metrics`` are those that can be expected."""
    shared = {
        "name": annotate(TEXT, "the id begins with it"),
        "kernel": annotate(either(TEXT, at("kernel")), "a kernel, or the name of one in [kernels]"),
        "launch": at("launch"),
        "devices": _DEVICES,
        "skip": annotate(_REASON, "why; or a table device → why"),
        "xfail": annotate(_REASON, "why it is expected to fail; or a table device → why"),
        "parametrize": annotate(_PARAMETERS, "every combination is a test"),
        "allow_guesses": annotate(FLAG, "a prediction that is a guess is no warning"),
    }
    test = {
        **shared,
        "launches": annotate(
            either(TEXT, table_of(at("launch"))), "label → launch, or a launches file"
        ),
        "expect": annotate(_expectations(metrics), "what must hold"),
        "baseline": annotate(_baseline(metrics), "compare with __perf__/"),
    }
    rank = {
        **shared,
        "kernel": annotate(either(TEXT, at("kernel_part")), "what the candidates have in common"),
        "launch": at("launch_part"),
        "domain": annotate(EXTENT, "threads that are to be covered"),
        "candidates": annotate(_candidates(), "blocks, or label → { kernel, launch }"),
        "expect": _claims(),
        "baseline": annotate(
            either(FLAG, closed_table(("tolerance",), {"tolerance": _TOLERANCE})),
            "compare best, order and distances with __perf__/",
        ),
    }
    table = {
        "devices": _DEVICES,
        "constants": annotate(table_of({}), "names for values, used in braces"),
        "kernels": annotate(table_of(at("kernel_part")), "kernels that several entries use"),
        "test": list_of(closed_table(TEST, test, ("name",))),
        "rank": list_of(
            closed_table(RANK, rank, ("name",), anyOf=[_needs("expect"), _needs("baseline")])
        ),
    }
    schema = closed_table(TOP, table, anyOf=[{"required": ["test"]}, {"required": ["rank"]}])
    title = "Tests of predicted performance: *.perf.toml"
    return document(
        "perf-toml", 1, title, schema, kernel=KERNEL_TABLE, kernel_part=KERNEL_PART,
        launch=launch(LAUNCH), launch_part=closed_table(LAUNCH, LAUNCH_KEYS), **DEFINITIONS,
    )  # fmt: skip


_UNDECIDED = annotate(one_of(("fail", "allow")), "what becomes of what the model cannot decide")


def _expectations(metrics: Mapping[str, Metric]) -> Schema:
    conditions = {name: _condition(metric) for name, metric in metrics.items()}
    conditions["undecided"] = _UNDECIDED
    return closed_table(conditions, conditions, minProperties=1)


def _condition(metric: Metric) -> Schema:
    if metric.kind in (Kind.NAME, Kind.ADVICE):
        return annotate(
            TEXT, f"as in {metric.names[0]} | !{metric.names[-1]}" if metric.names else ""
        )
    unit = "%" if metric.kind is Kind.FRACTION else metric.unit
    return annotate(CELL, f"as in < 5 {unit}".strip() + (" or 5 ± 1 %" if unit != "%" else ""))


def _baseline(metrics: Mapping[str, Metric]) -> Schema:
    keys = ("tolerance", *GROUPS, *metrics)
    was = annotate(TEXT, "the name that the kernel had when the baseline was written")
    tolerances = dict.fromkeys(keys, _TOLERANCE)
    return either(FLAG, closed_table((*keys, "was"), {**tolerances, "was": was}))


def _candidates() -> Schema:
    candidate = {"kernel": either(TEXT, at("kernel_part")), "launch": at("launch_part")}
    return either(list_of(EXTENT, 1), table_of(closed_table(VARIANT, candidate)), _PLACE)


def _needs(key: str) -> Schema:
    return {"required": [key]}


def _claims() -> Schema:
    one = EXTENT
    several = either(list_of(one, 1), _PLACE)
    claims = {"best": one, "best_in": several, "order": several, "within": CELL, "of": one}
    claims["undecided"] = _UNDECIDED
    return closed_table(CLAIMS, claims, minProperties=1)


def launches_file() -> Schema:
    """Return the schema of files that ``perfassert record`` and ``launches import`` write."""
    entry = {
        **LAUNCH_KEYS,
        "kernel": annotate(TEXT, "a key of [kernels]"),
        "count": annotate({"type": "integer", "minimum": 1}, "how often it was launched so"),
        "constants": table_of(at("constant")),
    }
    recorded = {"by": TEXT, "command": STRINGS, "device": TEXT, "launches": EXPRESSION}
    table = {
        "schema": one_of([launches.SCHEMA]),
        "recorded": closed_table(launches.RECORDED, recorded),
        "kernels": table_of(at("kernel")),
        "launch": list_of(closed_table(launches.ENTRY, entry, ("kernel", "block")), 1),
    }
    schema = closed_table(launches.TOP, table, ("schema", "kernels", "launch"))
    return document(
        "launches", launches.SCHEMA, "Launches of a program", schema,
        kernel=KERNEL_TABLE, **DEFINITIONS,
    )  # fmt: skip
