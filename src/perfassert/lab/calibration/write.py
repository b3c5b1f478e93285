"""Text of a device file from measured results."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from math import log
from pathlib import Path

from perfassert.errors import DeviceFileError
from perfassert.hardware.load import device, devices, load_device
from perfassert.hardware.model import Device
from perfassert.hardware.schema import CHOICES, VALUES
from perfassert.lab.calibration.driver import CalibrationError, Properties
from perfassert.lab.calibration.evaluate import Evaluation, MeasuredEntry, Missing
from perfassert.lab.calibration.journal import write_atomic
from perfassert.toml.text import format_key, format_string, format_table

_DIGITS = 4
_UNITS = {
    "clock_hz": ("MHz", 1e6), "l2_bandwidth": ("GB/s", 1e9), "dram_bandwidth": ("GB/s", 1e9),
    "launch_overhead": ("us", 1e-6),
}  # fmt: skip
"""Units that are written, with their scale; other keys use the base unit."""
_REPORTED = (
    "compute_units", "warp_size", "max_threads_per_block", "max_block_z", "max_threads_per_unit",
    "max_blocks_per_unit", "registers_per_unit", "shared_bytes_per_unit", "shared_bytes_per_block",
    "shared_reserved_bytes", "l2_bytes",
)  # fmt: skip
"""Keys whose values the driver reports."""


def nearest_device(gpu: Properties) -> Device:
    """Return the shipped device most like a GPU: same architecture, else the nearest below.

    Among those, the least difference in units and L2 decides, then the name.
    """
    wanted = _number(gpu.arch)
    shipped = [device(name) for name in devices()]

    def distance(candidate: Device) -> tuple[bool, int, float, float]:
        arch = _number(candidate.arch)
        unlike = abs(log(candidate.compute_units / gpu.compute_units))
        unlike += abs(log(candidate.l2_bytes / gpu.l2_bytes))
        alike = SequenceMatcher(None, candidate.name.lower(), gpu.name.lower()).ratio()
        return arch > wanted, abs(arch - wanted), round(unlike, 2), -alike

    return min(shipped, key=distance)


def _number(arch: str) -> int:
    return int("".join(filter(str.isdigit, arch)))


def device_text(
    name: str, gpu: Properties, nearest: Device, findings: Evaluation, date: str
) -> str:
    """Return a whole device file; values not measured are the nearest device's, ``assumed``."""
    return "\n".join(_file_lines(name, gpu, nearest, findings, date)) + "\n"


def _file_lines(
    name: str, gpu: Properties, nearest: Device, findings: Evaluation, date: str
) -> Iterator[str]:
    yield "schema = 1"
    yield f"name = {format_string(name)}"
    yield f"arch = {format_string(gpu.arch)}"
    yield 'capacity_fits = "warpspeed"'
    yield "\n[sources]"
    yield f"calibrate = {format_string(f'perfassert calibrate, {date}, on {gpu.name}')}"
    yield f"driver = {format_string(f'CUDA driver {gpu.driver}, device attributes')}"
    yield f"nearest = {format_string(f'device file {nearest.name} of perfassert')}"
    yield "\n[values]"
    for key in VALUES:
        unit, scale = _unit(key)
        if key in _REPORTED:
            yield f"{key} = {_format_entry(getattr(gpu, key), unit, 'driver', 'documented', '')}"
        else:
            number = getattr(nearest, key) / scale
            entry = _value_or_nearest(f"values.{key}", unit, scale, number, nearest, findings)
            yield f"{key} = {entry}"
    for key in CHOICES:
        note = f"as {nearest.name}; not measured: no benchmark for it"
        texts = {"source": "nearest", "grade": "assumed", "note": note}
        word = {"value": getattr(nearest, key), **texts}
        yield f"{key} = {format_table([(k, format_string(v)) for k, v in word.items()])}"
    yield "\n[pipelines]"
    for pipeline, scope in nearest.pipelines.items():
        yield f'{pipeline} = "{scope.value}"'
    for operation in nearest.operations.values():
        yield f"\n[operations.{format_key(operation.name)}]"
        yield f'pipeline = "{operation.pipeline}"'
        if operation.variant and operation.variant != operation.name:
            yield f"variant = {format_string(operation.variant)}"
        for part in ("issue", "completion"):
            key = f"operations.{operation.name}.{part}"
            number = getattr(operation, part)
            yield f"{part} = {_value_or_nearest(key, 'cycles', 1.0, number, nearest, findings)}"
    if nearest.matrix:
        yield "\n[matrix]"
    for rate, number in nearest.matrix.items():
        entry = _value_or_nearest(f"matrix.{rate}", "madd/cycle", 1.0, number, nearest, findings)
        yield f"{format_string(rate)} = {entry}"


def _value_or_nearest(
    key: str, unit: str, scale: float, other: float, nearest: Device, findings: Evaluation
) -> str:
    result = findings.entries.get(key, Missing("no benchmark for it"))
    if isinstance(result, MeasuredEntry):
        return _format_entry(result.value / scale, unit, "calibrate", "measured", result.note)
    note = f"as {nearest.name}; not measured: {result.reason}"
    return _format_entry(other, unit, "nearest", "assumed", note)


def _unit(key: str) -> tuple[str, float]:
    if key in _UNITS:
        return _UNITS[key]
    return next((unit, scale) for unit, scale in VALUES[key].units.items() if scale == 1.0)


def _format_entry(value: float, unit: str, source: str, grade: str, note: str) -> str:
    number = f"{value:.0f}" if value == int(value) else f"{value:.{_DIGITS}g}"
    own = {} if unit == "count" else {"unit": unit}
    texts = {**own, "source": source, "grade": grade, "note": note}
    written = ((key, format_string(text)) for key, text in texts.items() if text)
    return format_table([("value", number), *written])


def write_device(path: Path, text: str) -> Device:
    """Write a file and load it; a file that contradicts itself stays beside the output."""
    draft = path.with_name(f"{path.stem}.rejected.toml")
    write_atomic(draft, text)
    try:
        load_device(draft)
    except DeviceFileError as error:
        raise CalibrationError(
            f"the measurements contradict each other: {error}; run again with --fresh while "
            "nothing else uses the GPU"
        ) from None
    draft.unlink()
    write_atomic(path, text)
    return load_device(path)
