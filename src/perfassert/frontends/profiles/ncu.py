"""Reader for the CSV of ``ncu --csv``.

With ``--page details``, the default, the file has a line for each metric of a launch. With ``--page
raw`` it has a line for each launch, a column for each metric, and units below the header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

from perfassert.errors import RecordError
from perfassert.frontends.profiles.launch import (
    Extent,
    MeasuredFile,
    Measurement,
    Shape,
    describe_shape,
    only_name,
)
from perfassert.quantity import round_significant
from perfassert.system.confined import read_text

_HOW = "write it with: ncu --csv --print-units base --section LaunchStats PROGRAM > launches.csv"
_NEEDED = ("ID", "Kernel Name", "Block Size", "Grid Size")
_SHARED = ("Dynamic Shared Memory Per Block", "launch__shared_mem_per_block_dynamic")
_TIME = ("Duration", "gpu__time_duration.sum", "gpu__time_duration.avg")
_VOLUMES: Mapping[str, tuple[str, str]] = {
    "dram_load": ("dram__bytes_read.sum", "byte"),
    "dram_store": ("dram__bytes_write.sum", "byte"),
    "l2_load_sectors": ("lts__t_sectors_srcunit_tex_op_read.sum", "sector"),
    "l2_store_sectors": ("lts__t_sectors_srcunit_tex_op_write.sum", "sector"),
}
"""Value of a measurement → Nsight Compute's metric, and the unit that the metric must have."""
_DEVICE = "device__attribute_display_name"
_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNIT = re.compile(r"(?P<prefix>[KMGT]?)(?P<unit>byte|sector)s?")
_DIGITS = 20  # more than any extent has
_CLUSTER_AXES = tuple(f"launch__cluster_dim_{axis}" for axis in "xyz")
_SECONDS = {
    "s": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9,
    "nsecond": 1e-9,
}  # fmt: skip
_BYTES = ("byte", "byte/block", "")

Metrics = dict[str, tuple[str, str]]
"""Metric → value and unit."""


def read_ncu(path: Path) -> MeasuredFile:
    """Read the launches of a CSV; :class:`~perfassert.RecordError` names the line of an error."""
    try:
        text = read_text(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from None
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise RecordError(f"{path}: is neither a CSV of Nsight Compute nor a database; {_HOW}")
    try:
        header, *rows = csv.reader(line for line in lines[start:] if line.startswith('"'))
    except csv.Error as error:
        raise RecordError(f"{path}: is no CSV: {error}; {_HOW}") from None
    needed = [*_NEEDED, *(["Metric Value"] if "Metric Name" in header else [])]
    if missing := [name for name in needed if name not in header]:
        raise RecordError(f"{path}:{start + 1}: has no column {missing[0]!r}; {_HOW}")
    launches = _launches(str(path), header, [row for row in rows if len(row) == len(header)])
    return measured_file("a CSV of Nsight Compute", list(launches))


def measured_file(kind: str, launches: Sequence[tuple[Shape, Metrics]]) -> MeasuredFile:
    """Make measurements of launches with their metrics, read from a CSV or a report."""
    measurements = tuple(
        Measurement(
            describe_shape(shape),
            shape,
            dict(_values(metrics)),
            {name: value for name, (value, _) in metrics.items()},
        )
        for shape, metrics in launches
    )
    devices = [metrics.get(_DEVICE, ("", ""))[0] for _, metrics in launches]
    return MeasuredFile(kind, measurements, only_name(devices))


def _launches(
    place: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> Iterator[tuple[Shape, Metrics]]:
    """Yield the launches in the file's order; process and number together identify a launch."""
    launches: dict[tuple[str, ...], tuple[Mapping[str, str], Metrics]] = {}
    units: Sequence[str] = [""] * len(header)
    for row in rows:
        line = dict(zip(header, row, strict=True))
        if not line["ID"]:
            units = row
            continue
        key = line.get("Process ID", ""), line["ID"]
        metrics = launches.setdefault(key, (line, {}))[1]
        if "Metric Name" in line:
            metrics[line["Metric Name"]] = line["Metric Value"], line.get("Metric Unit", "")
        else:
            metrics.update({n: (v, u) for n, v, u in zip(header, row, units, strict=True)})
    if not launches:
        raise RecordError(f"{place}: has no launch; {_HOW}")
    for (_, number), (first, metrics) in launches.items():
        yield shape_of(f"{place}: launch {number}", first, metrics), metrics


def shape_of(place: str, line: Mapping[str, str], metrics: Metrics) -> Shape:
    """Return the shape of a launch; ``line`` has the columns that each page begins with."""
    return Shape(
        name=line["Kernel Name"],
        grid=_extent(place, "Grid Size", line["Grid Size"]),
        block=_extent(place, "Block Size", line["Block Size"]),
        shared_bytes=_dynamic_shared_bytes(place, metrics),
        cluster=_cluster(place, metrics),
    )


def _extent(place: str, what: str, text: str) -> Extent:
    words = [word.replace(",", "") for word in re.split(r",\s+", text.strip().strip("()"))]
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < _DIGITS]
    if not 1 <= len(numbers) <= 3 or len(numbers) != len(words):
        raise RecordError(f"{place}: {what} is {text!r}, not three numbers")
    x, y, z = (max(1, n) for n in (*numbers, 1, 1)[:3])
    return x, y, z


def _dynamic_shared_bytes(place: str, metrics: Metrics) -> int | None:
    metric = next((metrics[name] for name in _SHARED if name in metrics), None)
    if metric is None:
        return None
    value, unit = metric
    number = _parse_number(value)
    if number is None or number < 0 or (number and unit not in _BYTES):
        raise RecordError(
            f"{place}: dynamic shared memory is {value} {unit}, which is no count or rounded; "
            f"{_HOW}"
        )
    return int(number)


def _cluster(place: str, metrics: Metrics) -> Extent:
    if all(name in metrics for name in _CLUSTER_AXES):
        x, y, z = (max(1, int(_parse_number(metrics[name][0]) or 1)) for name in _CLUSTER_AXES)
        return x, y, z
    return (1, 1, 1)


def _values(metrics: Metrics) -> Iterator[tuple[str, float]]:
    if (seconds := _time(metrics)) is not None:
        yield "time", seconds
    for name, (metric, wanted) in _VOLUMES.items():
        value, unit = metrics.get(metric, ("", ""))
        number, known = _parse_number(value), _UNIT.fullmatch(unit)
        if number is not None and known is not None and known["unit"] == wanted:
            yield name, number * _PREFIX[known["prefix"]]


def _time(metrics: Metrics) -> float | None:
    value, unit = next((metrics[name] for name in _TIME if name in metrics), ("", ""))
    number, scale = _parse_number(value), _SECONDS.get(unit)
    return None if number is None or scale is None else round_significant(number * scale)


def _parse_number(text: str) -> float | None:
    """Parse a number with separators of thousands, ``1,205.00``; None if it is no finite number."""
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if isfinite(number) else None
