"""Reading of measurements from files of any format; this module lists all formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfassert.errors import RecordError
from perfassert.frontends.profiles import ncu_report, nsys
from perfassert.frontends.profiles.launch import LaunchProfile, MeasuredFile, group_launches
from perfassert.frontends.profiles.ncu import read_ncu
from perfassert.frontends.profiles.nvbench import read_nvbench
from perfassert.system.confined import open_file


@dataclass(frozen=True, slots=True)
class MeasurementFormat:
    """A format, recognised by the first bytes of a file; ``suffix`` is the usual file suffix."""

    suffix: str
    begins: tuple[bytes, ...]
    read: Callable[[Path], MeasuredFile]


FORMATS = (
    MeasurementFormat(".ncu-rep", (ncu_report.MAGIC,), ncu_report.read_ncu_report),
    MeasurementFormat(".sqlite", (nsys.MAGIC,), nsys.read_nsys),
    MeasurementFormat(".json", (b"{",), read_nvbench),
    MeasurementFormat(".csv", (b'"ID",', b"==PROF=="), read_ncu),
)
_BEGIN = max(len(begin) for form in FORMATS for begin in form.begins)


def format_of(path: Path) -> MeasurementFormat | None:
    """Return the format that the first bytes of the file show, or None for an unknown format.

    Raises:
        RecordError: the file cannot be read.
    """
    try:
        with open_file(path) as file:
            begin = file.read(_BEGIN)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    return next((form for form in FORMATS if begin.startswith(form.begins)), None)


def read_measurements(path: Path) -> MeasuredFile:
    """Read the measurements; :class:`~perfassert.RecordError` for a file of another kind."""
    form = format_of(path)
    return form.read(path) if form is not None else read_ncu(path)  # behind a program's output


def read_profile(path: Path) -> LaunchProfile:
    """Read the launches; :class:`~perfassert.RecordError` for a file that names no launches."""
    measured = read_measurements(path)
    profile = group_launches(measured.measurements, measured.device)
    if measured.measurements and not profile.launches:
        raise RecordError(
            f"{path}: {measured.kind} names no kernels, grids or blocks; profile the program with "
            "ncu or nsys for launches. Its times are read by perfassert validate and by perfassert "
            "predict --measured"
        )
    return profile
