"""nvbench's JSON: one measurement for each state of each benchmark.

https://github.com/NVIDIA/nvbench, ``json_printer.cu`` and ``measure_cold.cu``; files of version 1.
It names benchmarks and values of their axes, no kernels, grids or blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from perfassert.errors import RecordError
from perfassert.frontends.profiles.launch import MeasuredFile, Measurement, only_name
from perfassert.system.confined import read_text

TIME = "nv/cold/time/gpu/mean"
"""Tag of the summary for the mean time of a launch with flushed caches, in seconds."""
_HOW = "write it with: BENCHMARK --json FILE"
_VERSION = 1  # of the format, major


def read_nvbench(path: Path) -> MeasuredFile:
    """Read the states that were run; :class:`~perfassert.RecordError` for what is no such file.

    The values of a state are its mean time with flushed caches. Its cells are the benchmark, the
    device, each axis by its name, and each summary by its tag; times of both in seconds.
    """
    try:
        data = json.loads(read_text(path, "utf-8-sig"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: is not JSON: {error}; {_HOW}") from None
    try:
        _check_version(path, data)
        devices = {device["id"]: str(device["name"]) for device in data["devices"]}
        states = tuple(_states(data["benchmarks"], devices))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise RecordError(
            f"{path}: is not nvbench's JSON: {type(error).__name__} at {error}; {_HOW}"
        ) from None
    if not states:
        raise RecordError(f"{path}: no state of a benchmark was run; {_HOW}")
    return MeasuredFile(
        "nvbench's JSON", states, only_name([state.cells["device"] for state in states])
    )


def _check_version(path: Path, data: Any) -> None:
    if not isinstance(data, dict) or "benchmarks" not in data:
        raise RecordError(f"{path}: is not nvbench's JSON: no key 'benchmarks'; {_HOW}")
    version = data["meta"]["version"]["json"]
    if version["major"] != _VERSION:
        raise RecordError(
            f"{path}: is version {version['string']!s:.20} of nvbench's JSON, and {_VERSION} is "
            "what this version of perfassert reads"
        )


def _states(
    benchmarks: Sequence[Mapping[str, Any]], devices: Mapping[int, str]
) -> Iterator[Measurement]:
    """Yield the states that were not skipped."""
    for benchmark in benchmarks:
        for state in benchmark["states"] or ():
            if not state.get("is_skipped"):
                yield _measurement(str(benchmark["name"]), state, devices)


def _measurement(
    benchmark: str, state: Mapping[str, Any], devices: Mapping[int, str]
) -> Measurement:
    axes = {str(axis["name"]): _value(axis) for axis in state["axis_values"] or ()}
    summaries = {
        str(summary["tag"]): _value(value)
        for summary in state["summaries"] or ()
        for value in summary.get("data") or ()
        if value["name"] == "value"
    }
    own = {"benchmark": benchmark, "device": devices.get(state["device"], "")}
    seconds = _parse_number(summaries.get(TIME, ""))
    return Measurement(
        f"{benchmark} [{state['name']}]",
        None,
        {} if seconds is None else {"time": seconds},
        {**summaries, **axes, **own},
    )


def _value(named: Mapping[str, Any]) -> str:
    """Return a value as text, as the file has it for every type."""
    return str(named["value"])


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
