"""Prediction of every row of a suite, on all cores or any executor; failed rows are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfassert.errors import PerfAssertError
from perfassert.facade.session import predict
from perfassert.hardware.model import Device
from perfassert.lab.validation.build import (
    Case,
    Names,
    make_cases,
    make_device,
    measured_value,
    row_names,
    total_value,
)
from perfassert.lab.validation.data import DataRow
from perfassert.lab.validation.halves import is_fitted
from perfassert.lab.validation.statistics import (
    Summary,
    Vector,
    percentage_errors,
    summarize_groups,
)
from perfassert.lab.validation.suite import MetricSpec, Suite
from perfassert.lab.validation.toolchain import as_installed
from perfassert.predictor.ahead import compile_together
from perfassert.predictor.judge.errors import PredictionKind, kind_of, read_traits
from perfassert.system.process_pool import Progress, Submitter
from perfassert.version import MODEL_VERSION

_CHUNKS = 64  # so many steps has the progress, at least where there are enough rows
_TOGETHER = 8  # rows whose code one run of nvdisasm reads, where _SHARES processes get some
_SHARES = 16


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """Outcome of a row: by metric (measured, predicted), or a reason for their absence.

    ``fitted``: metrics whose values some fit has seen. ``failure``: why there is no prediction, or
    ``""``. ``kind``: the kind of prediction. ``guessed``: the prediction rests on assumed values,
    so that its error is not the model's. ``bands``: the stated error by metric. ``traits``: values
    that tell if similar kernels were measured. ``kernel``: its name. ``speed_of_light`` is in
    seconds.
    """

    line: int
    group: tuple[str, ...]
    fitted: frozenset[str]
    device: str
    pairs: Mapping[str, tuple[float, float]]
    reasons: Mapping[str, str]
    failure: str = ""
    kind: PredictionKind | None = None
    guessed: bool = False
    bands: Mapping[str, float] = field(default_factory=dict)
    traits: Mapping[str, float] = field(default_factory=dict)
    kernel: str = ""
    speed_of_light: float = 0.0


@dataclass(frozen=True, slots=True)
class MetricResult:
    """Points, figures and failures of one metric; ``lines`` in the order of the file.

    Of each point: ``kinds``, None for a guess; ``bands``, its stated error as a share; ``traits``,
    ``kernels``, ``devices`` and ``speeds_of_light``, as in :class:`RowOutcome`. ``fitted`` marks
    points that a fit has seen: ``seen`` sums them up, and ``unseen`` the others, which alone are a
    test. ``failures``: (line, reason) of rows without a prediction or a measurement of the metric.
    """

    spec: MetricSpec
    lines: tuple[int, ...]
    groups: tuple[tuple[str, ...], ...]
    kinds: tuple[PredictionKind | None, ...]
    bands: Vector
    traits: tuple[Mapping[str, float], ...]
    kernels: tuple[str, ...]
    devices: tuple[str, ...]
    speeds_of_light: Vector
    measured: Vector
    predicted: Vector
    fitted: tuple[bool, ...]
    summary: Summary
    unseen: Summary
    seen: Summary
    by_group: Mapping[tuple[str, ...], Summary]
    failures: tuple[tuple[int, str], ...]

    @property
    def strict_median(self) -> float:
        """Median error with failed rows counted as infinitely wrong; for gates."""
        errors = percentage_errors(self.measured, self.predicted)
        return float(np.median(np.append(errors, [np.inf] * len(self.failures))))


@dataclass(frozen=True, slots=True)
class Validation:
    """Result of a suite. ``failures``: (line, reason) of the rows without prediction.

    ``note`` says why kernels were not compiled as the measured ones were.
    """

    suite: Suite
    rows: int
    devices: tuple[str, ...]
    metrics: tuple[MetricResult, ...]
    failures: tuple[tuple[int, str], ...]
    note: str = ""
    model_version: str = field(default=MODEL_VERSION)

    def metric(self, name: str) -> MetricResult:
        """Return the metric of that name; KeyError if the suite has none."""
        by_name = {m.spec.name: m for m in self.metrics}
        return by_name[name]


def validate(
    suite: Suite,
    rows: Sequence[DataRow],
    executor: Submitter | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Predict every row on ``executor`` (default: here) and compare.

    ``progress(done, total)`` is called after every chunk of rows. Rows whose kernel, launch or
    prediction fails come back with their reason; an interrupt or a broken executor raises.
    """
    suite, note = as_installed(suite)
    outcomes: list[RowOutcome] = []
    for part in _outcomes(suite, rows, executor):
        outcomes += part
        if progress:
            progress(len(outcomes), len(rows))
    return Validation(
        suite=suite,
        rows=len(rows),
        devices=tuple(Counter(o.device for o in outcomes if o.device)),
        metrics=tuple(_metric(spec, outcomes) for spec in suite.metrics),
        failures=tuple((o.line, o.failure) for o in outcomes if o.failure),
        note=note,
    )


def _outcomes(
    suite: Suite, rows: Sequence[DataRow], executor: Submitter | None
) -> Iterator[list[RowOutcome]]:
    size = max(1, len(rows) // _CHUNKS, min(_TOGETHER, len(rows) // _SHARES))
    chunks = [rows[i : i + size] for i in range(0, len(rows), size)]
    if executor is None:
        yield from (predict_rows(suite, chunk) for chunk in chunks)
        return
    waiting = [executor.submit(predict_rows, suite, chunk) for chunk in chunks]
    try:
        for future in waiting:
            yield future.result()
    except BaseException:  # an interrupt too: do not finish what nobody waits for
        for future in waiting:
            future.cancel()
        raise


def predict_rows(suite: Suite, rows: Sequence[DataRow]) -> list[RowOutcome]:
    """Predict rows in a worker process; arguments and result can be pickled."""
    asked = [_AskedRow.make(suite, row) for row in rows]
    compile_together(
        (case.kernel, case.launch, one.device)
        for one in asked
        for case in one.cases
        if one.device is not None
    )
    return [_predict_row(suite, row, one) for row, one in zip(rows, asked, strict=True)]


@dataclass(slots=True)
class _AskedRow:
    """Names, device and launches of a row, as far as it has them; ``failure``: why not."""

    names: Names = field(default_factory=dict)
    device: Device | None = None
    cases: tuple[Case, ...] = ()
    failure: Exception | None = None

    @staticmethod
    def make(suite: Suite, row: DataRow) -> _AskedRow:
        """Read what is asked in a row; an error is kept for its outcome."""
        key, asked = suite.kernel_key(row.cells), _AskedRow()
        spec = suite.kernels[key]
        try:
            asked.names = row_names(spec, row.cells)
            asked.device = make_device(suite.device, row.cells)
            asked.cases = make_cases(spec, row.cells, asked.names, key, asked.device)
        except Exception as error:
            asked.failure = error
        return asked

    def require(self) -> tuple[Device, tuple[Case, ...]]:
        """Return device and launches; raise what kept the row from having them."""
        if self.failure is not None or self.device is None:
            raise self.failure or AssertionError("a row without device has a reason")
        return self.device, self.cases


def _predict_row(suite: Suite, row: DataRow, asked: _AskedRow) -> RowOutcome:
    cells, names = row.cells, asked.names
    group = tuple(cells[column] for column in suite.group)
    seen = frozenset(m.name for m in suite.metrics if is_fitted(suite, cells, m.name))
    pairs: dict[str, tuple[float, float]] = {}
    reasons: dict[str, str] = {}
    name = asked.device.name if asked.device is not None else ""
    try:
        device, cases = asked.require()
        launched = [(predict(case.kernel, case.launch, device), case.count) for case in cases]
    except Exception as error:
        return RowOutcome(row.line, group, seen, name, pairs, reasons, _reason(error))
    for metric in suite.metrics:
        try:
            measured = measured_value(metric, cells, names)
            pairs[metric.name] = measured, total_value(metric, launched, names)
        except PerfAssertError as error:
            reasons[metric.name] = _reason(error)
    # Of several launches the longest says what sort of prediction the row is.
    longest = max(launched, key=lambda x: float(x[0].time) * x[1])[0]
    guessed = any(prediction.confidence == "guessed" for prediction, _ in launched)
    bands = {
        m.name: max(prediction.error_band(m.name).band for prediction, _ in launched)
        for m in suite.metrics
    }
    traits = read_traits(longest.diagnostics, longest.resources.registers)
    speed_of_light = sum(count * float(p.speed_of_light) for p, count in launched)
    return RowOutcome(
        row.line, group, seen, name, pairs, reasons, "", kind_of(longest, device), guessed,
        bands, traits, longest.kernel, speed_of_light,
    )  # fmt: skip


def _reason(error: Exception) -> str:
    """Return the reason of a failure; a bug in one row is reported like every failure."""
    kind = "" if isinstance(error, PerfAssertError) else "internal error: "
    return f"{kind}{type(error).__name__}: {error}"


def _metric(spec: MetricSpec, outcomes: Sequence[RowOutcome]) -> MetricResult:
    there = [o for o in outcomes if spec.name in o.pairs]
    pairs = np.array([o.pairs[spec.name] for o in there], dtype=np.float64).reshape(-1, 2)
    measured, predicted = pairs[:, 0], pairs[:, 1]
    groups = tuple(o.group for o in there)
    summary, parts = summarize_groups(measured, predicted, groups, spec.higher_is_better)
    unseen, seen = (
        _part(measured, predicted, groups, [(spec.name in o.fitted) is side for o in there], spec)
        for side in (False, True)
    )
    return MetricResult(
        spec=spec,
        lines=tuple(o.line for o in there),
        groups=groups,
        kinds=tuple(None if o.guessed else o.kind for o in there),
        bands=np.array([o.bands.get(spec.name, np.inf) for o in there], dtype=np.float64),
        traits=tuple(o.traits for o in there),
        kernels=tuple(o.kernel for o in there),
        devices=tuple(o.device for o in there),
        speeds_of_light=np.array([o.speed_of_light for o in there], dtype=np.float64),
        measured=measured,
        predicted=predicted,
        fitted=tuple(spec.name in o.fitted for o in there),
        summary=summary,
        unseen=unseen,
        seen=seen,
        by_group=parts,
        failures=tuple(
            (o.line, o.failure or o.reasons[spec.name])
            for o in outcomes
            if spec.name not in o.pairs
        ),
    )


def _part(
    measured: Vector,
    predicted: Vector,
    groups: Sequence[tuple[str, ...]],
    chosen: Sequence[bool],
    spec: MetricSpec,
) -> Summary:
    """Return the figures of the chosen points alone."""
    mask = np.array(chosen, dtype=bool)
    kept = [group for group, keep in zip(groups, chosen, strict=True) if keep]
    return summarize_groups(measured[mask], predicted[mask], kept, spec.higher_is_better)[0]
