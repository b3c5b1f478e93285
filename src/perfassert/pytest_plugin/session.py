"""The object behind the ``perf`` fixture: predictions of one test on one device."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, overload

import pytest

from perfassert.baseline.identity import missing_instance
from perfassert.errors import (
    ExpectationError,
    ExpectationFailed,
    LaunchError,
    PerfAssertError,
    PerfAssertWarning,
    PluginError,
    PluginWarning,
)
from perfassert.expect.check import Outcome
from perfassert.expect.metrics import Kind, all_metrics
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import recall
from perfassert.frontends.cuda.kernels import own_toolchain, with_toolchain
from perfassert.frontends.generators.recognised import kernel_of
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Args, Extent, Launch
from perfassert.perf_toml.launches import launches as read_launches
from perfassert.perf_toml.launches import of_kernel
from perfassert.predictor.answer import is_copy, is_intact
from perfassert.predictor.judge.pairs import CONFIDENCE
from perfassert.pytest_plugin import guesses
from perfassert.pytest_plugin.baselines import BASELINES
from perfassert.pytest_plugin.regression import TestBaselines
from perfassert.pytest_plugin.toolchain import toolchain_of
from perfassert.ranking.ranking import Candidates, Ranking, rank
from perfassert.source import INSTANCE


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction of a test, with the outcomes of the expectations so far."""

    label: str
    note: str
    prediction: Prediction
    outcomes: list[Outcome]


class Perf:
    """Type of the pytest fixture ``perf``: predictions of one test on one device.

    Call it to predict. Every prediction goes into the terminal section, the reports and the JUnit
    properties.

    Args:
        device: name, alias or path, as the marker, ``--perf-device`` or the ini file gives it.
        node: the test.

    Attributes:
        records: predictions, for the terminal section.
        predicted: predictions with what was expected of them, for the reports.
        rankings: rankings, for the reports.
        failures: of rankings, and of predictions that may not be guesses.
        expects: whether the test has expected anything, or asked for a baseline.
        baselines: of this test.

    Example:
        >>> import perfassert as pa
        >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
        >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
        >>> def test_copy(perf: pa.Perf) -> None:
        ...     prediction = perf(copy, domain=1 << 24, block=256)
        ...     prediction.expect(time="< 400 us", limiter="dram")
        ...     perf.rank([256, 1024], kernel=copy, domain=1 << 24).expect(best=256)
    """

    def __init__(self, device: str, node: pytest.Item) -> None:
        self.device = load_device(device)
        self.records: list[dict[str, Any]] = []
        self.predicted: list[Predicted] = []
        self.rankings: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.expects = False
        self._node = node
        self._labels: dict[str, int] = {}
        self._assumptions = guesses.mode_of(node.config)
        self._toolchain = toolchain_of(node.config)
        run = node.config.stash[BASELINES]
        self.baselines = TestBaselines(node, self.device.name, run.mode, run.files)

    @overload
    def __call__(
        self,
        kernel: Kernel | Any,
        launch: Launch | None = None,
        *,
        domain: Extent | None = None,
        grid: Extent | None = None,
        block: Extent | None = None,
        args: Args | None = None,
        shared_bytes: int = 0,
        allow_guesses: bool = False,
    ) -> Prediction: ...

    @overload
    def __call__(
        self,
        kernel: Kernel | str | None = None,
        *,
        launches: str | PathLike[str],
        allow_guesses: bool = False,
    ) -> tuple[Prediction, ...]: ...

    def __call__(
        self,
        kernel: Kernel | str | Any | None = None,
        launch: Launch | None = None,
        *,
        launches: str | PathLike[str] | None = None,
        domain: Extent | None = None,
        grid: Extent | None = None,
        block: Extent | None = None,
        args: Args | None = None,
        shared_bytes: int = 0,
        allow_guesses: bool = False,
    ) -> Prediction | tuple[Prediction, ...]:
        """Predict a kernel on this test's device, for a launch or for a block with a domain.

        A prediction that rests on guesses is treated as ``--perf-assumptions`` says.

        Args:
            kernel: a kernel, or an object of Numba, Triton, pystencils, Warp or CuPy, whose
                parameters have the types of the arguments. With ``launches``, the name of one
                recorded kernel, or a kernel in place of the recorded one of its name; all kernels
                by default.
            launch: grid, block and arguments. Default: made of the arguments below.
            launches: a launches file beside the test module; all launches in it are predicted.
            domain: what the grid covers, in threads in (x, y, z), with ``block``.
            grid: blocks in (x, y, z), with ``block``.
            block: threads of a block in (x, y, z).
            args: kernel parameters, as for :class:`perfassert.Launch`.
            shared_bytes: dynamic shared memory of a block, in bytes. Default: 0.
            allow_guesses: whether the prediction may rest on guesses. Default: False.

        Returns:
            The prediction; with ``launches`` a tuple, one for each launch.

        Raises:
            LaunchError: no launch, one that is given twice, or one that the device cannot run.
            RecordError: a launches file that cannot be used.
            ExpectationFailed: a guess, under ``--perf-assumptions=error``.
        """
        __tracebackhide__ = True
        launch_arguments = (launch, domain, grid, block, args, shared_bytes)
        if launches is not None:
            if any(v is not None for v in launch_arguments[:-1]) or shared_bytes:
                raise LaunchError("launches= already says grid, block, args and shared_bytes")
            entries = of_kernel(read_launches(self._node.path.parent / launches), kernel)
            return tuple(
                self._predict_and_judge(e.kernel, e.launch, allow_guesses) for e in entries
            )
        if kernel is None or isinstance(kernel, str):
            raise LaunchError("give the kernel, or launches= with a launches file")
        started = _launch(*launch_arguments)
        resolved = kernel if isinstance(kernel, Kernel) else kernel_of(kernel, started)
        return self._predict_and_judge(resolved, started, allow_guesses)

    def _predict_and_judge(self, kernel: Kernel, launch: Launch, allow_guesses: bool) -> Prediction:
        __tracebackhide__ = True
        prediction = self._record(self._predict(kernel, launch, self.device))
        self._judge_guesses(prediction, allow_guesses)
        return prediction

    def _predict(self, kernel: Kernel, launch: Launch, device: Device | str | Path) -> Prediction:
        """Predict the kernel as the release of ``--perf-toolchain`` compiles it."""
        if self._toolchain is not None:
            kernel = with_toolchain(kernel, self._toolchain)
        prediction = recall(kernel, launch, device)
        if prediction.origin is not None and "<" in prediction.kernel:
            known, _, on = prediction.origin
            notes = (a.text for a in prediction.assumptions if a.stands_for == INSTANCE)
            if missing := missing_instance(known, on) or next(notes, ""):
                self._node.warn(PerfAssertWarning(missing))
        return prediction

    def _judge_guesses(self, prediction: Prediction, allow_guesses: bool) -> None:
        __tracebackhide__ = True
        try:
            mode = "allow" if allow_guesses else self._assumptions
            guesses.judge(prediction, mode, self._node)
        except ExpectationFailed as failure:
            self.failures.append(str(failure).partition("\n")[0])
            raise

    def rank(
        self,
        candidates: Candidates,
        *,
        kernel: Kernel | None = None,
        domain: Extent | None = None,
        confidence: float = CONFIDENCE,
        allow_guesses: bool = False,
    ) -> Ranking:
        """Rank launches or variants on this test's device; see :func:`perfassert.rank`.

        Args:
            candidates: blocks, launches, or a mapping label → (kernel, launch).
            kernel: the kernel to launch, where candidates are blocks or launches. Default: none.
            domain: threads in (x, y, z) that a grid of each block has to cover. Default: none.
            confidence: probability from which the order of two is decided. Default: 0.9.
            allow_guesses: whether a candidate may rest on guesses. Default (False): what
                ``--perf-assumptions`` says.

        Returns:
            The ranking, fastest first.

        Raises:
            RankingError: no candidates, one twice, or ``kernel`` or ``domain`` missing.
            LaunchError: a launch that the device cannot run.
            ExpectationFailed: a guess, under ``--perf-assumptions=error``.
        """
        __tracebackhide__ = True
        ranking = rank(
            candidates,
            self.device,
            kernel=kernel,
            domain=domain,
            predictor=self._predict,
            confidence=confidence,
        )
        for _, candidate in ranking.entries:
            self._judge_guesses(candidate, allow_guesses)
        (best, prediction), *others = ranking.entries
        recorded = self._record(prediction, note=f"best of {len(ranking.entries)}")
        self.rankings.append({"label": self.predicted[-1].label, **ranking.to_dict()})
        entries = ((best, recorded), *others)
        return replace(ranking, entries=entries, on_expect=self._note_complaints)

    def _note_complaints(self, complaints: list[str]) -> None:
        self.expects = True
        self.failures += complaints

    @overload
    def no_regression(
        self,
        prediction: Prediction,
        tolerance: str | None = "2 %",
        name: str | None = None,
        was: str | None = None,
        **metrics: str | int | None,
    ) -> Prediction: ...

    @overload
    def no_regression(
        self, prediction: Ranking, tolerance: str | None = "2 %", name: str | None = None
    ) -> Ranking: ...

    def no_regression(
        self,
        prediction: Prediction | Ranking,
        tolerance: str | None = "2 %",
        name: str | None = None,
        was: str | None = None,
        **metrics: str | int | None,
    ) -> Prediction | Ranking:
        """Compare with the baseline in ``__perf__/<module>.toml`` beside the test module.

        A change for the better beyond the tolerance is reported; with ``--perf-ratchet`` it fails
        until it is accepted.

        Args:
            prediction: of this test's device, as ``perf(...)`` returned it; or a ranking of
                ``perf.rank(...)``, whose best, order and distances to the best are compared.
            tolerance: how far the time may grow: ``"2 %"`` (the default), ``"2 % or 1 us"``,
                ``"+2 % -100 %"``; None: it is not compared. Of a ranking: how much further behind
                the best a candidate may be, as a share of the best's time.
            name: distinguishes several predictions of one test. Default: none.
            was: name that the kernel had when the baseline was written. Default: none.
            **metrics: further metrics or groups of them (``dram l2 l1 volumes resources all``),
                each with a tolerance.

        Returns:
            The prediction or ranking.

        Raises:
            ExpectationFailed: a metric got worse than its tolerance allows, or better under
                ``--perf-ratchet``; or a candidate of a ranking fell behind, or two changed places.
            BaselineError: there is no baseline to compare with, or it is of another model, device
                file, kernel or set of candidates.
            ExpectationError: an unknown metric or tolerance, or a prediction that was not made by
                this test.

        Example:
            >>> import perfassert as pa
            >>> field = pa.Field("a", shape=1 << 24)
            >>> fill = pa.Kernel.from_accesses("fill", [field], stores=["a[x]"])
            >>> def test_block_shapes(perf: pa.Perf) -> None:
            ...     perf.no_regression(perf.rank([256, 1024], kernel=fill, domain=1 << 24))
        """
        __tracebackhide__ = True
        try:
            if isinstance(prediction, Ranking):
                if was is not None or metrics:
                    given = ", ".join((*(["was"] if was is not None else []), *metrics))
                    raise ExpectationError(f"no_regression(): a ranking takes no {given}")
                for _, candidate in prediction.entries:
                    self.check_genuine(candidate)
                label = self._label_of(prediction.entries[0][1])
                self.baselines.check_ranking(prediction, tolerance, name, label)
                return prediction
            if isinstance(prediction, Prediction):
                self.check_genuine(prediction)
            label = self._label_of(prediction)
            self.baselines.check(prediction, tolerance, name, metrics, label, was)
        except PerfAssertError as error:
            raise error.with_traceback(None) from None  # its way helps nobody
        return prediction

    def check_genuine(self, prediction: Prediction) -> None:
        """Raise :class:`~perfassert.ExpectationError` for a prediction that no predictor made.

        That is one that was read from data, or changed after it was made. Unchanged copies of this
        test's own predictions pass.

        Args:
            prediction: what is to be checked.
        """
        __tracebackhide__ = True
        self.expects = True
        if is_intact(prediction):
            return
        if not prediction.seal and any(is_copy(prediction, p.prediction) for p in self.predicted):
            return
        how = (
            "was changed after it was made (by dataclasses.replace or object.__setattr__)"
            if prediction.seal
            else "was read from data (by from_dict, pickle or copy) that is of no prediction of "
            "this test"
        )
        text = (
            f"the prediction of {prediction.kernel} on {prediction.device} {how}; check what "
            "perf(...) or perfassert.predict(...) returned"
        )
        self.failures.append(text)
        raise ExpectationError(text)

    def _label_of(self, prediction: Prediction) -> str:
        """Return the label of a prediction that this test made."""
        return next((seen.label for seen in self.predicted if seen.prediction is prediction), "")

    def _record(self, prediction: Prediction, note: str = "") -> Prediction:
        """Note the prediction, and give it back as one that tells what is expected of it."""
        count = self._labels[prediction.kernel] = self._labels.get(prediction.kernel, 0) + 1
        label = prediction.kernel if count == 1 else f"{prediction.kernel}#{count}"
        metrics = metrics_of(prediction)
        self.records.append(
            {
                "label": label,
                "device": prediction.device,
                "block": list(prediction.block),
                "grid": list(prediction.grid),
                "metrics": dict(metrics),
                "confidence": prediction.confidence,
                "guess": guesses.worst(prediction),
                "share": max((a.share for a in prediction.confidence_reasons), default=0.0),
                "note": note,
                "toolchain": prediction.origin and own_toolchain(prediction.origin[0]),
            }
        )
        for name, value in metrics.items():
            self._node.user_properties.append((f"perf.{label}.{name}", value))
        outcomes: list[Outcome] = []
        prediction = replace(prediction, on_expect=outcomes.extend)
        self.predicted.append(Predicted(label, note, prediction, outcomes))
        return prediction


def metrics_of(prediction: Prediction) -> Mapping[str, str | float]:
    """Return the metrics that a prediction has, with numbers in base units; no advice."""
    values: dict[str, str | float] = {"device": prediction.device}
    for metric in all_metrics().values():
        if metric.kind is Kind.ADVICE or metric.name == "advice_speedup":
            continue  # found only when somebody asks
        try:
            value = metric.read(prediction)
        except PluginError as error:  # nobody has asked for it
            warnings.warn(str(error), PluginWarning, stacklevel=3)
            continue
        if value is not None:
            values[metric.name] = value if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    return values


def _launch(
    launch: Launch | None,
    domain: Extent | None,
    grid: Extent | None,
    block: Extent | None,
    args: Args | None,
    shared_bytes: int,
) -> Launch:
    if launch is not None:
        given: Sequence[object] = (domain, grid, block, args)
        if any(v is not None for v in given) or shared_bytes:
            raise LaunchError("launch= already says grid, block, args and shared_bytes")
        return launch
    if block is None or (domain is None) == (grid is None):
        raise LaunchError("give launch=, or block= with either domain= or grid=")
    if domain is not None:
        return Launch.cover(domain, block, args, shared_bytes)
    assert grid is not None
    return Launch(grid, block, args, shared_bytes)
