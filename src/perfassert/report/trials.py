"""Changes that were compiled on a copy of the source: registers, spills, occupancy, time."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from perfassert.prediction.prediction import TrialResult
from perfassert.predictor.answer import Answer
from perfassert.predictor.diagnose.diagnose import LEAST_GAIN
from perfassert.predictor.diagnose.trials import patch
from perfassert.quantity import round_significant
from perfassert.report.tables import Table, Text, percent, table

_WIDTH = 96  # columns of a terminal
_HEADER = ("compiled with", "for", "registers", "spilled", "occupancy", "predicted", "as fast")


def trials_report(prediction: Answer, patches: bool) -> list[str | Table | Text]:
    """Return tables of changes that were compiled and of those that were not.

    ``patches`` adds a patch for each change that gains.
    """
    diagnosis = prediction.diagnosis
    parts: list[str | Table | Text] = []
    if diagnosis.trials:
        own = prediction.resources
        as_it_is = (
            "(as it is)", "", own.registers, _bytes(own.spill_bytes or 0),
            percent(prediction.occupancy.fraction, signed=False), prediction.time, "",
        )  # fmt: skip
        rows = [as_it_is, *(_trial_row(r, _speedup(prediction, r)) for r in diagnosis.trials)]
        parts.append(table(_HEADER, rows))
    for result in diagnosis.trials if patches else ():
        speedup = _speedup(prediction, result)
        if speedup is not None and speedup > 1 + LEAST_GAIN:
            assert prediction.origin is not None
            how = patch(result.trial, prediction.origin[0]) or f"  {_command(result)}"
            parts.append(f"{result.trial.name}: {speedup:.2f}x as fast\n{how}".rstrip())
    if diagnosis.left_out:
        names = ", ".join(trial.name for trial in diagnosis.left_out)
        text = f"Not compiled ({diagnosis.reason}): {names}. --prove compiles all."
        parts.append(fill(text, _WIDTH, break_on_hyphens=False))
    return parts


def _trial_row(result: TrialResult, speedup: float | None) -> tuple[object, ...]:
    name, optimizer = result.trial.name, result.trial.optimizer
    if not result.registers:
        return name, optimizer, "", "", "", result.error[:60], ""
    occupancy = percent(result.occupancy, signed=False)
    time, times = (result.time, f"{speedup:.2f}x") if speedup else (result.error, "")
    spilled = _bytes(result.spill_bytes)
    return name, optimizer, result.registers, spilled, occupancy, time, times


def _bytes(value: int) -> str:
    return f"{value} B" if value else ""


def _speedup(prediction: Answer, result: TrialResult) -> float | None:
    return None if result.time is None else float(prediction.time) / float(result.time)


def _command(result: TrialResult) -> str:
    return " ".join(result.trial.changes.get("options", (result.trial.name,)))


def trials_data(prediction: Answer) -> dict[str, Any]:
    """Return the same as plain data; empty if the code cannot be compiled with changes."""
    diagnosis = prediction.diagnosis
    if not (diagnosis.trials or diagnosis.left_out):
        return {}
    return {
        "tried": [_data(prediction, result) for result in diagnosis.trials],
        "left_out": [trial.name for trial in diagnosis.left_out],
        "left_out_because": diagnosis.reason,
    }


def _data(prediction: Answer, result: TrialResult) -> dict[str, Any]:
    speedup = _speedup(prediction, result)
    assert prediction.origin is not None
    return {
        "change": result.trial.name,
        "optimizer": result.trial.optimizer,
        "speedup": None if speedup is None else round_significant(speedup),
        "registers": result.registers,
        "spill_bytes": result.spill_bytes,
        "occupancy": result.occupancy,
        "error": result.error,
        "patch": patch(result.trial, prediction.origin[0]),
    }
