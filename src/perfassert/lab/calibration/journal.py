"""Measurements on disk: one JSON file beside the output, moved into place after each of them."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfassert.lab.calibration.driver import CalibrationError, Properties, Sample
from perfassert.version import VERSION


class Journal:
    """Measurements of one GPU: measurement → shot → repetition → :class:`Sample`.

    ``date`` is that of the first measurement, so that a resumed run writes the same file.
    """

    def __init__(self, path: Path, gpu: Properties, date: str, fresh: bool = False) -> None:
        self.path = path
        self.head = {"version": VERSION, "uuid": gpu.uuid, "driver": gpu.driver}
        self.properties = asdict(gpu)
        self.date = date
        self.results: dict[str, list[list[list[float]]]] = {}
        if path.exists() and not fresh:
            self._read()

    def _read(self) -> None:
        try:
            table: dict[str, Any] = json.loads(self.path.read_text("utf-8"))
            head, results = dict(table["head"]), dict(table["results"])
            for shots in results.values():
                _ = [[Sample(*map(float, values)) for values in shot] for shot in shots]
            date, free = str(table["date"]), int(table["properties"]["free_bytes"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CalibrationError(f"{self.path} is no journal ({error}); use --fresh") from None
        for key, value in self.head.items():
            if head.get(key) != value:
                raise CalibrationError(
                    f"{self.path}: its {key} is {head.get(key)}, the GPU at hand has {value}; "
                    "use --fresh to measure anew, or another output"
                )
        self.results, self.date = results, date
        self.properties["free_bytes"] = free  # what the first run planned with

    def complete_samples(self, key: str, shots: int, repeats: int) -> list[list[Sample]] | None:
        """Return the samples of a measurement if they are complete; else None."""
        result = self.results.get(key)
        if result is None or len(result) != shots or any(len(s) != repeats for s in result):
            return None
        return [[Sample(*values) for values in samples] for samples in result]

    def add(self, key: str, samples: list[list[Sample]]) -> None:
        """Store a measurement; it is on disk before this function returns."""
        self.results[key] = [
            [[s.cycles, s.seconds, s.clock_hz] for s in repeated] for repeated in samples
        ]
        table = {"head": self.head, "date": self.date, "properties": self.properties,
                 "results": self.results}  # fmt: skip
        write_atomic(self.path, json.dumps(table) + "\n")


def write_atomic(path: Path, text: str) -> None:
    """Write a file so that it always holds either the whole text or its former content."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise CalibrationError(f"{path}: cannot be written: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
