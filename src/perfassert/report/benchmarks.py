"""Predictions as results of a benchmark, for tools that keep a history of those.

All formats hold one entry for each prediction, named by its test and its label, so that another
prediction in the test renames none. Sources: pytest-benchmark's documentation,
https://pytest-benchmark.readthedocs.io; *Bencher Metric Format*,
https://bencher.dev/docs/reference/bencher-metric-format; nvbench's ``json_printer.cu``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from perfassert.prediction.error_band import ErrorBand
from perfassert.quantity import round_significant
from perfassert.report.document import Document, plain
from perfassert.version import VERSION

_STATS_VERSION = "5.1.0"  # of pytest-benchmark, whose layout this is
_NANOSECONDS = 1e9  # in a second
_MEASURES = {
    "dram-load": "dram_load",
    "dram-store": "dram_store",
    "l2-load": "l2_load",
    "l2-store": "l2_store",
}
"""Measure of Bencher, in bytes → metric of a prediction."""
_EXTRA = ("device", "device_digest", "model_version", "confidence", "limiter", "grid", "block")


def pytest_benchmark_text(report: Document) -> str:
    """Return the report as pytest-benchmark's JSON.

    A prediction is one round of one iteration: its time is each of the statistics, and its spread
    is 0. ``extra_info`` says that it is predicted, by which model, for which device, and how sure.
    """
    data = {
        "machine_info": {"node": "predicted", "predicted_by": f"perfassert {VERSION}"},
        "commit_info": {},
        "benchmarks": [_benchmark(*entry) for entry in _entries(report)],
        "datetime": "",  # two reports of the same code are the same file
        "version": _STATS_VERSION,
    }
    return json.dumps(plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def bencher_text(report: Document) -> str:
    """Return the report as Bencher Metric Format: latency in nanoseconds, volumes in bytes.

    ``lower_value`` and ``upper_value`` are the ends of the time's error band, where it is known.
    """
    data = {name: _metrics(prediction) for _, name, prediction in _entries(report)}
    return json.dumps(plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def nvbench_text(report: Document) -> str:
    """Return the report as nvbench's JSON: a benchmark of one state for each prediction.

    The state's mean time is the predicted one, and its noise the prediction's spread; it has no
    samples. ``argv`` of the file says that it is predicted.
    """
    entries = list(_entries(report))
    devices = list(dict.fromkeys(prediction["device"] for _, _, prediction in entries))
    data = {
        "meta": {
            "argv": ["perfassert", VERSION, "predicted"],
            "version": {"json": {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}},
        },
        "devices": [{"id": number, "name": name} for number, name in enumerate(devices)],
        "benchmarks": [
            _nvbench_benchmark(name, prediction, devices.index(prediction["device"]))
            for _, name, prediction in entries
        ],
    }
    return json.dumps(plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _nvbench_benchmark(name: str, prediction: Mapping[str, Any], device: int) -> dict[str, Any]:
    values = {
        "nv/cold/time/gpu/mean": prediction["time"],
        "nv/cold/time/gpu/stdev/relative": prediction["spread"],
    }
    summaries = [
        {"tag": tag, "data": [{"name": "value", "type": "float64", "value": repr(float(value))}]}
        for tag, value in values.items()
    ]
    state = {
        "name": f"Device={device}",
        "device": device,
        "axis_values": [],
        "summaries": summaries,
        "is_skipped": False,
    }
    return {"name": name, "devices": [device], "axes": [], "states": [state]}


def _entries(report: Document) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    """Yield test, full name and prediction, for each prediction whose time is a number."""
    for test in report["tests"]:
        for prediction in test["predictions"]:
            if isfinite(prediction["time"]):
                yield test, f"{test['nodeid']}::{prediction['label']}", prediction


def _benchmark(test: Mapping[str, Any], name: str, prediction: Mapping[str, Any]) -> dict[str, Any]:
    time = prediction["time"]
    same = ("min", "max", "mean", "median", "q1", "q3", "ld15iqr", "hd15iqr", "total")
    stats = {
        **dict.fromkeys(same, time),
        **dict.fromkeys(("stddev", "iqr", "iqr_outliers", "stddev_outliers"), 0),
        "outliers": "0;0",
        "ops": 1 / time if time else 0,
        "rounds": 1,
        "iterations": 1,
        "data": [time],
    }
    extra = {
        "predicted": True,
        "predicted_by": f"perfassert {VERSION}",
        **{key: prediction[key] for key in _EXTRA},
        "error_band_seconds": _time_band(prediction),
        "outcome": test["outcome"],
    }
    return {
        "group": prediction["kernel"],
        "name": name.partition("::")[2],
        "fullname": name,
        "params": None,
        "param": None,
        "extra_info": extra,
        "options": {},
        "stats": stats,
    }


def _metrics(prediction: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    band = _time_band(prediction)
    latency = {"value": _nanoseconds(prediction["time"])}
    if band is not None:
        latency |= dict(zip(("lower_value", "upper_value"), map(_nanoseconds, band), strict=True))
    volumes = {
        measure: {"value": prediction["volumes"][metric]["total"]}
        for measure, metric in _MEASURES.items()
    }
    return {"latency": latency, **volumes}


def _time_band(prediction: Mapping[str, Any]) -> list[float] | None:
    """Return the ends of the time's error band in seconds, or None if the error is unknown."""
    data = prediction["error_bands"].get("time")
    if data is None or data["error"] is None:
        return None
    return list(map(round_significant, ErrorBand(**data).interval(prediction["time"])))


def _nanoseconds(seconds: float) -> float:
    return round_significant(seconds * _NANOSECONDS)
