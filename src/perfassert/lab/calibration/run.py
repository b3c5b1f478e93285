"""Calibration of a GPU: measure what the journal lacks, evaluate, write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from perfassert.hardware.model import Device
from perfassert.lab.calibration import plan
from perfassert.lab.calibration.driver import CalibrationError, Driver, Properties, Sample
from perfassert.lab.calibration.evaluate import (
    Evaluation,
    MeasuredEntry,
    Missing,
    evaluate_measurements,
)
from perfassert.lab.calibration.journal import Journal
from perfassert.lab.calibration.write import device_text, nearest_device, write_device

CalibrationProgress = Callable[[int, int, str], None]
_REPORTED = "reported clock"


@dataclass(frozen=True, slots=True)
class CalibrationOutcome:
    """Written device, the results that it was made from, and the number of measured values."""

    device: Device
    nearest: Device
    findings: Evaluation

    def measured_count(self) -> int:
        return sum(isinstance(e, MeasuredEntry) for e in self.findings.entries.values())

    def missing(self) -> list[tuple[str, str]]:
        """Return keys that should have been measured, with the reasons why they were not."""
        entries = self.findings.entries.items()
        return [(key, e.reason) for key, e in entries if isinstance(e, Missing)]


def journal_path(output: Path) -> Path:
    """Return the journal's path: ``my-gpu.toml`` → ``my-gpu.journal.json`` in the same folder."""
    return output.with_name(f"{output.stem}.journal.json")


def calibrate(
    driver: Driver,
    output: Path,
    name: str | None = None,
    fresh: bool = False,
    progress: CalibrationProgress = lambda done, total, key: None,
) -> CalibrationOutcome:
    """Measure a GPU and write its device file.

    After each measurement the journal has it; a later call measures only what is missing.
    """
    gpu = driver.properties()
    journal = Journal(journal_path(output), gpu, date.today().isoformat(), fresh)
    gpu = replace(gpu, free_bytes=journal.properties["free_bytes"])
    nearest = nearest_device(gpu)
    steps = plan.plan(gpu, nearest)
    measured: dict[str, list[list[Sample]]] = {}
    for number, step in enumerate(steps):
        progress(number, len(steps), step.key)
        known = journal.complete_samples(step.key, len(step.shots), step.repeats)
        if known is None:
            known = _measure(driver, step)
            if step.key == "clock":  # reported while the GPU is still warm
                journal.add(_REPORTED, [[Sample(0.0, 0.0, driver.clock_hz())]])
            journal.add(step.key, known)
        measured[step.key] = known
    progress(len(steps), len(steps), "")
    reported = journal.complete_samples(_REPORTED, 1, 1)
    findings = evaluate_measurements(
        gpu, nearest, measured, reported[0][0].clock_hz if reported else 0.0
    )
    text = device_text(name or default_name(gpu), gpu, nearest, findings, journal.date)
    return CalibrationOutcome(write_device(output, text), nearest, findings)


def _measure(driver: Driver, step: plan.Measurement) -> list[list[Sample]]:
    """Take all shots, ``repeats`` times in turn, so that a slow moment spoils no single point."""
    samples: list[list[Sample]] = [[] for _ in step.shots]
    for _ in range(step.repeats):
        for place, shot in zip(samples, step.shots, strict=True):
            try:
                sample = driver.run(shot)
            except CalibrationError as error:
                raise CalibrationError(f"{step.key}: {error}") from None
            if not (sample.seconds > 0 and (sample.cycles > 0 or not shot.records)):
                raise CalibrationError(f"{step.key}: the GPU's clocks stand still: {sample}")
            place.append(sample)
    return samples


def default_name(gpu: Properties) -> str:
    """Return a device's name: ``NVIDIA A100-SXM4-40GB`` → ``A100-SXM4-40GB``, with hyphens."""
    return "-".join(gpu.name.removeprefix("NVIDIA ").split())
