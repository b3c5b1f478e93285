"""Schemas of ``pytest --perf-report=json:PATH`` and of ``perfassert predict --json``."""

from __future__ import annotations

from dataclasses import fields

from perfassert.expect.metrics import METRICS
from perfassert.kernel_kind import KernelKind
from perfassert.prediction.prediction import CONFIDENCES, LIMITERS, Advice
from perfassert.prediction.volumes import UNITS
from perfassert.report.document import FORMAT, SCHEMA
from perfassert.schemas.parts import (
    CELL,
    FLAG,
    NUMBER,
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

_NULL: Schema = {"type": "null"}
_EXTENT = {**list_of(WHOLE, 3), "maxItems": 3}
_ABSENT = (
    "stalls",
    "advice",
    "findings",
    "timeline",
    "waits",
    "speed_of_light",
    "headroom",
    "question",
    "kernel_kind",
)
"""Keys that a prediction may lack: not asked for, or unknown to the release that wrote the file."""
_OUTCOMES = ("passed", "failed", "skipped", "xfailed", "xpassed")


def _full_table(of: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return closed_table(of, of, [key for key in of if key not in optional])


def report() -> Schema:
    """Return the schema of a report; numbers are in base units, null stands for NaN."""
    table = {
        "format": one_of([FORMAT]),
        "schema": one_of([SCHEMA]),
        "perfassert": annotate(TEXT, "version of the package"),
        "model_version": TEXT,
        "errors": annotate(list_of(TEXT), "node IDs of what could not be collected or set up"),
        "tests": list_of(_test()),
    }
    return document(
        "report", SCHEMA, "Report of a session", _full_table(table), prediction=_prediction(),
        assumption=_assumption(), volume=_volume(),
    )  # fmt: skip


def _test() -> Schema:
    ranked = {
        "candidate": TEXT, "kernel": TEXT, "grid": _EXTENT, "block": _EXTENT, "time": NUMBER,
        "limiter": one_of(LIMITERS), "tied_with_best": FLAG,
        "best_is_faster": either(NUMBER, _NULL),
    }  # fmt: skip
    ranking = {"label": TEXT, "confidence": NUMBER, "candidates": list_of(_full_table(ranked))}
    return _full_table(
        {
            "nodeid": TEXT, "file": TEXT, "line": either(WHOLE, _NULL), "device": TEXT,
            "outcome": one_of(_OUTCOMES), "message": either(TEXT, _NULL),
            "predictions": list_of(at("prediction")), "rankings": list_of(_full_table(ranking)),
            "baselines": list_of(_baseline()),
        }
    )  # fmt: skip


def _baseline() -> Schema:
    """Return the schema of a baseline.

    ``base`` and ``differences`` exist if the baseline differs from what is predicted now.
    """
    value = either(NUMBER, TEXT, _NULL)
    difference = {"component": TEXT, "unit": TEXT, "baseline": value, "predicted": value}
    figures = {"time": NUMBER, "updates": WHOLE, "bounds": table_of(NUMBER)}
    volumes = dict.fromkeys(("dram_load", "dram_store", "l2_load", "l2_store"), NUMBER)
    own = {
        "name": TEXT, "status": TEXT, "moved": TEXT, "label": TEXT, "cause": TEXT,
        "base": _full_table({**figures, **volumes}, tuple(volumes)),
        "differences": list_of(_full_table(difference)),
    }  # fmt: skip
    return _full_table(own, ("label", "cause", "base", "differences"))


def _prediction() -> Schema:
    occupancy = {
        "fraction": NUMBER,
        "resident_blocks": WHOLE,
        "warps_per_unit": WHOLE,
        "limited_by": TEXT,
    }
    count = either(NUMBER, _NULL)
    resources = {
        "registers": WHOLE,
        "shared_bytes": WHOLE,
        "spill_bytes": count,
        "instructions": count,
    }
    band = {
        "error": count,
        "band": NUMBER,
        "suite": TEXT,
        "outside": TEXT,
        "above": NUMBER,
        "below": NUMBER,
    }
    newer = ("outside", "above", "below")  # files of former releases lack them
    limits = one_of(("", *LIMITERS))
    own = {
        "kernel": TEXT, "kernel_kind": one_of([kind.value for kind in KernelKind]),
        "device": TEXT, "device_digest": TEXT, "model_version": TEXT,
        "grid": _EXTENT, "block": _EXTENT, "threads": WHOLE, "updates": WHOLE, "warps": WHOLE,
        "blocks": WHOLE, "time": NUMBER, "cycles": NUMBER, "spread": NUMBER, "limiter": limits,
        "bounds": table_of(NUMBER), "roofline_time": NUMBER, "roofline_limiter": limits,
        "volumes": _full_table(dict.fromkeys(UNITS, at("volume"))),
        "occupancy": _full_table(occupancy),
        "resources": _full_table(resources), "stalls": table_of(NUMBER),
        "advice": either(list_of(_advice()), _NULL), "assumptions": list_of(at("assumption")),
        "exact": list_of(TEXT), "error_bands": table_of(_full_table(band, newer)),
        "confidence": one_of(CONFIDENCES),
        "confidence_reasons": list_of(at("assumption")),
        "diagnostics": {"type": "object"}, "speed_of_light": NUMBER, "headroom": count,
        "question": {"type": "string"},
    }  # fmt: skip
    metrics = dict.fromkeys(METRICS, CELL)
    added = {
        "label": TEXT, "note": TEXT,
        "metrics": {"type": "object", "properties": metrics},  # and those of plug-ins
        "expectations": list_of(_expectation()), "sources": table_of(list_of(_line_schema())),
        "findings": list_of(_finding()), "timeline": _timeline(), "waits": list_of(_wait()),
    }  # fmt: skip
    return _full_table({**own, **added}, _ABSENT)


def _finding() -> Schema:
    return _full_table({"rule": TEXT, "file": TEXT, "line": WHOLE, "message": TEXT})


def _wait() -> Schema:
    at = {"file": TEXT, "line": WHOLE, "for_file": TEXT, "for_line": WHOLE}
    return _full_table({**at, "stall": TEXT, "share": NUMBER})


def _timeline() -> Schema:
    warp = {
        "start": WHOLE,
        "spans": annotate(list_of(WHOLE), "reason, cycles, place, again"),
    }
    of = {"reasons": list_of(TEXT), "places": list_of(TEXT), "warps": list_of(_full_table(warp))}
    return _full_table(of)


def _advice() -> Schema:
    known = {
        "optimizer": TEXT, "category": TEXT, "speedup": NUMBER, "importance": NUMBER,
        "suggestion": TEXT, "hotspots": list_of({"type": "object"}), "formula_speedup": NUMBER,
        "context": {"type": "object"}, "proof": either(TEXT, _NULL),
    }  # fmt: skip
    names = [field.name for field in fields(Advice)]
    return closed_table(names, known, names)


def _expectation() -> Schema:
    share = either(NUMBER, _NULL)
    return _full_table(
        {
            "metric": TEXT, "expected": TEXT, "predicted": TEXT, "difference": share,
            "slack": share, "model_error": share, "known_error": TEXT, "error_suite": TEXT,
            "verdict": TEXT,
        }
    )  # fmt: skip


def _line_schema() -> Schema:
    costs = {"line": WHOLE, "instructions": NUMBER, "wavefronts": NUMBER, "sectors": NUMBER}
    called = annotate({**list_of(NUMBER, 3), "maxItems": 3}, "the three of what is inlined here")
    return _full_table({**costs, "executed": TEXT, "called": called}, ("executed", "called"))


def _assumption() -> Schema:
    span = either({"type": "array", "items": [TEXT, WHOLE, WHOLE]}, _NULL)
    return _full_table({"text": TEXT, "span": span, "stands_for": TEXT, "share": NUMBER})


def _volume() -> Schema:
    of = {"total": NUMBER, "parts": table_of(NUMBER), "fields": table_of(at("volume"))}
    return _full_table(of, ("parts", "fields"))
