"""Split of a suite's configurations into two halves by hash: one to fit on, one to judge on.

Equal configurations are in the same half, in every suite and process and for any order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from perfassert.errors import SuiteError
from perfassert.hardware.load import device as load_device
from perfassert.lab.validation.data import DataRow
from perfassert.lab.validation.suite import FittedOn, Suite

Cells = Mapping[str, str]
_SEPARATOR = "\x1f"  # in no cell of a table


def in_fitting_half(cells: Cells, configuration: Sequence[str]) -> bool:
    """Return True if a row belongs to the fitting half, a coin toss that never changes.

    Numbers count as numbers: ``16`` and ``16.0`` are one configuration. The order of
    ``configuration`` does not matter.
    """
    named = (f"{column}={_canonical(cells[column])}" for column in sorted(configuration))
    return sha256(_SEPARATOR.join(named).encode()).digest()[0] % 2 == 0


def _canonical(cell: str) -> str:
    try:
        return repr(float(cell))
    except ValueError:
        return cell


def covers(entry: FittedOn, suite: Suite, cells: Cells) -> bool:
    """Return True if the fit named by the entry has seen this row's measurement."""
    if entry.half and not in_fitting_half(cells, suite.configuration):
        return False
    return all(condition.holds(cells[condition.column]) for condition in entry.filters)


def is_fitted(suite: Suite, cells: Cells, metric: str) -> bool:
    """Return True if a fit has seen this row's value of a metric, which then tests nothing."""
    return any(
        covers(entry, suite, cells)
        for entry in suite.fitted_on
        if not entry.metrics or metric in entry.metrics
    )


def rows_to_fit(
    suite: Suite, rows: Sequence[DataRow], device: str, values: Sequence[str]
) -> list[DataRow]:
    """Return the rows that may be used to fit these values of a device file.

    Raises :class:`SuiteError` where it does not declare one, or would leave no row for a test.
    """
    allowed = list(rows)
    for value in values:
        entry = _entry_for(suite, device, value)
        allowed = [row for row in allowed if covers(entry, suite, row.cells)]
    return allowed


def _entry_for(suite: Suite, device: str, value: str) -> FittedOn:
    for entry in suite.fitted_on:
        if value in entry.values and device in map(_name, entry.devices):
            if entry.half or entry.filters:
                return entry
            reason = f'{value} is declared for all rows, which leaves no test; write rows = "half"'
            raise SuiteError(f"{suite.path}: fitted_on: {reason}")
    reason = f"does not name {value} of {device}; declare it before it is fitted"
    raise SuiteError(f"{suite.path}: fitted_on: {reason}")


def _name(device: str) -> str:
    return load_device(device).name
