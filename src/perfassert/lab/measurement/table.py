"""File of measurements: rows by device, kernel and launch, complete on disk after each one."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from perfassert.errors import ReportError
from perfassert.lab.measurement.counters import COUNTERS
from perfassert.lab.measurement.gpu import MeasurementError
from perfassert.lab.measurement.plan import MeasurementJob
from perfassert.report.files import replace_file

TIMES = ("time_us", "time_spread", "repetitions", "clock_hz")
ABOUT = ("gpu", "driver", "compiler", "code", "date")


class MeasurementTable:
    """Rows in the order in which they were first measured; those of other GPUs are kept."""

    def __init__(self, path: Path, parameters: tuple[str, ...]) -> None:
        self.path = path
        self.parameters = parameters
        self.header = ("device", "kernel", "problem", *parameters, *TIMES, *COUNTERS, *ABOUT)
        if twice := {n for n in self.header if self.header.count(n) > 1}:
            raise MeasurementError(f"rows: column {min(twice)!r} is one that measure itself writes")
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            lines = list(csv.reader(io.StringIO(self.path.read_text("utf-8")), strict=True))
        except OSError as error:
            raise MeasurementError(
                f"{self.path}: cannot be read: {error.strerror}; name another file"
            ) from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise MeasurementError(
                f"{self.path}: not a CSV file: {error}; name another file"
            ) from None
        if not lines:
            return
        if tuple(lines[0]) != self.header:
            odd = sorted({*lines[0]} ^ {*self.header}) or ["their order"]
            raise MeasurementError(
                f"{self.path}: its columns are not those of the suite ({', '.join(odd)}); "
                "name another file with -o, or move this one away"
            )
        for number, cells in enumerate(lines[1:], 2):
            if len(cells) != len(self.header):
                raise MeasurementError(f"{self.path}: line {number}: {len(cells)} cells")
            row = dict(zip(self.header, cells, strict=True))
            self.rows[self._key(row)] = row

    def _key(self, row: Mapping[str, str]) -> tuple[str, ...]:
        return (row["device"], row["kernel"], *(row[p] for p in self.parameters))

    def row(self, device: str, job: MeasurementJob) -> dict[str, str] | None:
        """Return the row of a job on a device; ``None`` if there is none."""
        return self.rows.get((device, *job.key))

    def enter_values(self, device: str, job: MeasurementJob, values: Mapping[str, str]) -> None:
        """Enter values, keep the row's others, and write the file."""
        key = (device, *job.key)
        empty = dict.fromkeys(self.header, "")
        place = {"device": device, "kernel": job.kernel, "problem": job.problem, **job.cells}
        self.rows[key] = {**self.rows.get(key, empty), **place, **values}
        self.save()

    def save(self) -> None:
        """Write the whole file in one step: an interrupt leaves the old or the new file."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows.values())
        try:
            replace_file(self.path, text.getvalue())
        except ReportError as error:
            raise MeasurementError(f"{error}; name another file with -o") from None
