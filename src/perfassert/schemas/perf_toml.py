"""``*.perf.toml`` files, and launches files."""

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
    at,
    closed,
    described,
    document,
    either,
    listed,
    named,
    one_of,
)

_PLACE = {"type": "string", "pattern": r"^\{[A-Za-z_]\w*\}$"}
_DEVICES = described(
    either(listed(TEXT, 1), _PLACE), "names, aliases, or paths of device files; else --perf-device"
)
_REASON = either(TEXT, named(TEXT))
_PARAMETERS = either(named(listed({}, 1)), listed({"type": "object"}, 1))
_TOLERANCE = {"anyOf": [TEXT, NUMBER, {"const": False}]}


def perf_toml(metrics: Mapping[str, Metric]) -> Schema:
    """Tests without Python; ``metrics``: those that can be expected."""
    shared = {
        "name": described(TEXT, "the id begins with it"),
        "kernel": described(
            either(TEXT, at("kernel")), "a kernel, or the name of one in [kernels]"
        ),
        "launch": at("launch"),
        "devices": _DEVICES,
        "skip": described(_REASON, "why; or a table device → why"),
        "xfail": described(_REASON, "why it is expected to fail; or a table device → why"),
        "parametrize": described(_PARAMETERS, "every combination is a test"),
        "allow_guesses": described(FLAG, "a prediction that is a guess is no warning"),
    }
    test = {
        **shared,
        "launches": described(
            either(TEXT, named(at("launch"))), "label → launch, or a launches file"
        ),
        "expect": described(_expected(metrics), "what must hold"),
        "baseline": described(_baseline(metrics), "compare with __perf__/"),
    }
    rank = {
        **shared,
        "kernel": described(either(TEXT, at("kernel_part")), "what the candidates have in common"),
        "launch": at("launch_part"),
        "domain": described(EXTENT, "threads that are to be covered"),
        "candidates": described(_candidates(), "blocks, or label → { kernel, launch }"),
        "expect": _claims(),
    }
    table = {
        "devices": _DEVICES,
        "constants": described(named({}), "names for values, used in braces"),
        "kernels": described(named(at("kernel_part")), "kernels that several entries use"),
        "test": listed(closed(TEST, test, ("name",))),
        "rank": listed(closed(RANK, rank, ("name", "expect"))),
    }
    schema = closed(TOP, table, anyOf=[{"required": ["test"]}, {"required": ["rank"]}])
    title = "Tests of predicted performance: *.perf.toml"
    return document(
        "perf-toml", 1, title, schema, kernel=KERNEL_TABLE, kernel_part=KERNEL_PART,
        launch=launch(LAUNCH), launch_part=closed(LAUNCH, LAUNCH_KEYS), **DEFINITIONS,
    )  # fmt: skip


def _expected(metrics: Mapping[str, Metric]) -> Schema:
    found = {name: _condition(metric) for name, metric in metrics.items()}
    return closed(found, found, minProperties=1)


def _condition(metric: Metric) -> Schema:
    if metric.kind in (Kind.NAME, Kind.ADVICE):
        return described(
            TEXT, f"as in {metric.names[0]} | !{metric.names[-1]}" if metric.names else ""
        )
    unit = "%" if metric.kind is Kind.FRACTION else metric.unit
    return described(CELL, f"as in < 5 {unit}".strip() + (" or 5 ± 1 %" if unit != "%" else ""))


def _baseline(metrics: Mapping[str, Metric]) -> Schema:
    keys = ("tolerance", *GROUPS, *metrics)
    was = described(TEXT, "the name that the kernel had when the baseline was written")
    tolerances = dict.fromkeys(keys, _TOLERANCE)
    return either(FLAG, closed((*keys, "was"), {**tolerances, "was": was}))


def _candidates() -> Schema:
    candidate = {"kernel": either(TEXT, at("kernel_part")), "launch": at("launch_part")}
    return either(listed(EXTENT, 1), named(closed(VARIANT, candidate)), _PLACE)


def _claims() -> Schema:
    one = EXTENT
    several = either(listed(one, 1), _PLACE)
    claims = {"best": one, "best_in": several, "order": several, "within": CELL, "of": one}
    return closed(CLAIMS, claims, minProperties=1)


def launches_file() -> Schema:
    """What ``perfassert record`` and ``launches import`` write."""
    entry = {
        **LAUNCH_KEYS,
        "kernel": described(TEXT, "a key of [kernels]"),
        "count": described({"type": "integer", "minimum": 1}, "how often it was launched so"),
        "constants": named(at("constant")),
    }
    recorded = {"by": TEXT, "command": STRINGS, "device": TEXT, "launches": EXPRESSION}
    table = {
        "schema": one_of([launches.SCHEMA]),
        "recorded": closed(launches.RECORDED, recorded),
        "kernels": named(at("kernel")),
        "launch": listed(closed(launches.ENTRY, entry, ("kernel", "block")), 1),
    }
    schema = closed(launches.TOP, table, ("schema", "kernels", "launch"))
    return document(
        "launches", launches.SCHEMA, "Launches of a program", schema,
        kernel=KERNEL_TABLE, **DEFINITIONS,
    )  # fmt: skip
