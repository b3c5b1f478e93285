"""Budget for the error of a suite's times: compiler, volumes, clock, and the rest.

Each row is predicted twice, the second time with its measured volumes. The remaining error is one
of the time alone. A factor that all rows share is attributed to the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfassert.errors import PerfAssertError, SuiteError
from perfassert.facade.session import predict
from perfassert.lab.validation.build import (
    make_cases,
    make_device,
    measured_value,
    row_names,
    total_value,
)
from perfassert.lab.validation.data import DataRow
from perfassert.lab.validation.statistics import Vector, spearman
from perfassert.lab.validation.suite import TIME, MetricSpec, Suite
from perfassert.lab.validation.toolchain import as_installed
from perfassert.predictor.rewrites.measured_volumes import MEASURABLE
from perfassert.report.tables import percent, table
from perfassert.system.process_pool import Submitter

REGISTERS = "registers"
_FEWEST = 5
"""Least number of rows for a correlation."""


@dataclass(frozen=True, slots=True)
class TwiceTimed:
    """A row's time: measured, predicted, and predicted from measured volumes (``given``).

    ``same_code``: the compiler took as many registers as were measured; None where nobody knows.
    """

    line: int
    parameters: Mapping[str, int]
    measured: float
    predicted: float
    given: float | None
    same_code: bool | None


def twice_timed(
    suite: Suite, rows: Sequence[DataRow], executor: Submitter | None = None
) -> list[TwiceTimed]:
    """Return the rows with a measured time and a prediction; :class:`SuiteError` for none."""
    suite, _ = as_installed(suite)  # the suite's own report says it
    specs = {spec.name: spec for spec in suite.metrics}
    if TIME not in specs:
        raise SuiteError(f"{suite.path}: --explain: the suite has no metric 'time'")
    if executor is None:
        results = [_time_twice(suite, row) for row in rows]
    else:
        results = [f.result() for f in [executor.submit(_time_twice, suite, row) for row in rows]]
    timed = [row for row in results if row is not None]
    if not timed:
        raise SuiteError(f"{suite.path}: --explain: no row has a measured and a predicted time")
    return timed


def _time_twice(suite: Suite, row: DataRow) -> TwiceTimed | None:
    specs = {spec.name: spec for spec in suite.metrics}
    key, cells = suite.kernel_key(row.cells), row.cells
    spec = suite.kernels[key]
    try:
        names = row_names(spec, cells)
        measured = measured_value(specs[TIME], cells, names)
        device = make_device(suite.device, cells)
        cases = make_cases(spec, cells, names, key, device)
        plain = [(predict(case.kernel, case.launch, device), case.count) for case in cases]
        volumes = dict(_volumes(specs, cells, names))
        given = None
        if volumes and len(cases) == 1:
            (case,) = cases
            given = float(predict(case.kernel, case.launch, device, volumes=volumes).time)
        used = specs.get(REGISTERS)
        same = None
        if used is not None:
            same = measured_value(used, cells, names) == total_value(used, plain, names)
    except PerfAssertError:
        return None  # the suite's own report names it
    columns = {name for _, name in suite.uses} | set(suite.configuration)
    parameters = {name: names[name] for name in sorted(columns) if name in names}
    return TwiceTimed(
        row.line, parameters, measured, total_value(specs[TIME], plain, names), given, same
    )


def _volumes(
    specs: Mapping[str, MetricSpec], cells: Mapping[str, str], names: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    for name in MEASURABLE:
        if spec := specs.get(name):
            per = f"/{spec.per}" if spec.per else ""
            yield name, f"{measured_value(spec, cells, names)!r} B{per}"


def text(rows: Sequence[TwiceTimed]) -> str:
    """Return the budget as a table, and the parameter that correlates with the rest.

    If registers were measured, volumes and clock are judged on rows with the same number of them.
    """
    lines = [_figures("as predicted", _ratios(rows))]
    left, source = rows, "predicted"
    if same := [row for row in rows if row.same_code]:
        if recompiled := [row for row in rows if row.same_code is False]:
            lines.append(_figures("registers differ: another kernel", _ratios(recompiled)))
        left = same
        lines.append(_figures("registers as measured", _ratios(left)))
    if with_volumes := [row for row in left if row.given is not None]:
        left, source = with_volumes, "given"
        lines.append(_figures("with measured volumes", _ratios(with_volumes, source)))
    rest = _ratios(left, source)
    rest = rest / np.median(rest)
    lines.append(_figures("and one clock for all", rest))
    shown = table(("time", "n", "bias", "median", "mean", "90th perc."), lines)
    return f"{shown}\n{_culprit(left, rest)}"


def _ratios(rows: Sequence[TwiceTimed], source: str = "predicted") -> Vector:
    return np.array([getattr(row, source) / row.measured for row in rows], dtype=np.float64)


def _figures(label: str, ratios: Vector) -> tuple[str, ...]:
    errors = np.abs(ratios - 1)
    bias = percent(float(np.median(ratios)) - 1)
    figures = (np.median(errors), np.mean(errors), np.quantile(errors, 0.9))
    return (label, str(len(ratios)), bias, *(percent(float(v), signed=False) for v in figures))


def _culprit(rows: Sequence[TwiceTimed], rest: Vector) -> str:
    """Return the parameter with the largest rank correlation, of those that all rows have."""
    names = set.intersection(*(set(row.parameters) for row in rows))
    correlations = {
        name: spearman(np.array([row.parameters[name] for row in rows], dtype=np.float64), rest)
        for name in sorted(names)
    }
    known = {name: value for name, value in correlations.items() if value is not None}
    if len(rows) < _FEWEST or not known:
        return "The rest: no parameter to hold it against."
    worst = max(known, key=lambda name: abs(known[name]))
    way = "too slow" if known[worst] > 0 else "too fast"
    return f"The rest goes with {worst}: {way} where it is large (Spearman {known[worst]:.2f})."
