"""Catalogue of all schemas by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from perfassert.expect.metrics import METRICS, Metric
from perfassert.schemas.data_files import device_schema, suite
from perfassert.schemas.parts import Schema
from perfassert.schemas.perf_toml import launches_file, perf_toml
from perfassert.schemas.report import report

_MAKERS: Mapping[str, Callable[[], Schema]] = {
    "device": device_schema,
    "launches": launches_file,
    "report": report,
    "suite": suite,
}


def schema(name: str, metrics: Mapping[str, Metric] = METRICS) -> Schema:
    """Return a schema; ``metrics`` can be expected in tests, plug-ins' metrics included."""
    return perf_toml(metrics) if name == "perf-toml" else _MAKERS[name]()


def schema_file_name(name: str) -> str:
    """Return the file name of a published schema with its version: ``perf-toml-1.json``."""
    return f"{name}-{str(schema(name)['$id']).rpartition(':')[2]}.json"


def to_json(document: Schema) -> str:
    """Return a schema as JSON text in the published form."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
