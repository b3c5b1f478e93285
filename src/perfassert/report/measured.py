"""Choice of the measurement in a file that belongs to a prediction: same launch, or a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from perfassert.errors import RecordError
from perfassert.frontends.profiles.launch import (
    SECTORS,
    MeasuredFile,
    Measurement,
    device_file_name,
)
from perfassert.frontends.toolchain.names import base_name, demangle
from perfassert.prediction.prediction import PredictionValues

_LISTED = 20  # rows


@dataclass(frozen=True, slots=True)
class ChosenMeasurement:
    """Measurement of one launch in a file.

    ``seconds`` is its time and ``volumes`` are bytes by metric. ``notes`` say in sentences which
    measurements these are, and on which other device.
    """

    seconds: float
    volumes: Mapping[str, float]
    notes: tuple[str, ...]


def choose_measurement(
    measured: MeasuredFile,
    file: str,
    prediction: PredictionValues,
    sector_bytes: int,
    number: int | None = None,
) -> ChosenMeasurement:
    """Return the measurement of a prediction's launch.

    Args:
        measured: the file, read.
        file: what messages call it.
        prediction: of the launch; kernels are compared by name, without template arguments.
        sector_bytes: of the device, for volumes that are counted in sectors.
        number: which of the file's measurements, from 0. Default (None): those of this kernel with
            this grid and block, of which there may be several: the median.

    Raises:
        RecordError: none is of this launch, or several that differ may be, or it has no time.
    """
    everything = measured.measurements
    if number is not None:
        if not 0 <= number < len(everything):
            raise RecordError(
                f"{file}: has no measurement {number}; choose by --measured-launch among:\n"
                + _list(everything)
            )
        chosen: Sequence[Measurement] = [everything[number]]
    else:
        chosen = [one for one in everything if _fits(one, prediction)]
        shapes = {one.shape if one.shape is not None else one.label for one in chosen}
        if len(shapes) != 1:
            grid, block = ("×".join(map(str, e)) for e in (prediction.grid, prediction.block))
            problem = "several measurements may be" if chosen else "none of its measurements is"
            raise RecordError(
                f"{file}: {problem} of {prediction.kernel}, grid {grid}, block {block}; choose by "
                f"--measured-launch among:\n{_list(everything)}"
            )
    if not any("time" in one.values for one in chosen):
        raise RecordError(
            f"{file}: {chosen[0].label} has no time; with ncu, add --section SpeedOfLight"
        )
    names = dict.fromkeys(name for one in chosen for name in one.values)
    values = {name: median(o.values[name] for o in chosen if name in o.values) for name in names}
    seconds = values.pop("time")
    volumes = {
        SECTORS.get(name, name): value * (sector_bytes if name in SECTORS else 1)
        for name, value in values.items()
    }
    return ChosenMeasurement(seconds, volumes, tuple(_notes(measured, chosen, prediction)))


def _notes(
    measured: MeasuredFile, chosen: Sequence[Measurement], prediction: PredictionValues
) -> Iterator[str]:
    many = f", the median of {len(chosen)}" if len(chosen) > 1 else ""
    yield f"Measured: {chosen[0].label}{many}."
    device = chosen[0].cells.get("device", measured.device)
    if device and device_file_name(device).casefold() != prediction.device.casefold():
        yield f"It was measured on {device!r}, and the prediction is of {prediction.device}."


def _fits(measurement: Measurement, prediction: PredictionValues) -> bool:
    """Return True if a measurement may be of the prediction's launch."""
    shape = measurement.shape
    if shape is None:
        return True
    return (
        _plain_name(shape.name) == _plain_name(prediction.kernel)
        and shape.grid == tuple(prediction.grid)
        and shape.block == tuple(prediction.block)
    )


def _plain_name(name: str) -> str:
    return base_name(demangle(name))


def _list(measurements: Sequence[Measurement]) -> str:
    lines = [f"  {number}: {one.label}" for number, one in enumerate(measurements[:_LISTED])]
    return "\n".join([*lines, *(["  …"] if len(measurements) > _LISTED else [])])
