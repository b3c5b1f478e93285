"""A session: asks questions, runs the stages that answer them, and recalls what they share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from perfassert.errors import LaunchError, check_kind, in_short
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import CompiledKernel, Kernel
from perfassert.kernel.launch import Launch
from perfassert.prediction.prediction import Diagnosis, Lane, PredictionValues
from perfassert.prediction.seal import (
    has_intact_values,
    is_intact_diagnosis,
    seal_diagnosis,
    seal_timeline,
)
from perfassert.predictor.answer import NO_DIAGNOSIS, Answer, Asked
from perfassert.predictor.memo import DEFAULT_BUDGET, Memo, SameObjects
from perfassert.predictor.question import Question, make_question
from perfassert.quantity import to_integer
from perfassert.system.collection import without_collections

if TYPE_CHECKING:  # a recalled answer needs no engine
    from perfassert.engines.pipeline.configuration import Unit
    from perfassert.engines.pipeline.results import Duration
    from perfassert.frontends.cuda.kernels import Analyses
    from perfassert.predictor.model import BoundLaunch, Model

_NO_VOLUMES: Mapping[str, Any] = MappingProxyType({})
_PREDICTION_BYTES = 24 << 10
_NODE_BYTES, _MODEL_BYTES, _SPAN_BYTES = 6 << 10, 64 << 10, 200
"""Estimated memory of a prediction, a node of a model, the rest of a model, a timeline's span."""
_DURATION_BYTES = 1 << 10  # of a simulation, without its key


class Session:
    """Shared store of intermediate results within a budget; see :class:`perfassert.Session`.

    Args:
        budget: bytes that it keeps at most; 0: everything is made anew. Default: 512 MB.
    """

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self._memo = Memo(budget)
        self._analyses: Analyses | None = None

    def predict(
        self,
        kernel: Kernel,
        launch: Launch,
        device: Device | str | Path,
        *,
        volumes: Mapping[str, str | float] | None = None,
        prove: int | None = None,
    ) -> Answer:
        """Predict a launch, as :func:`perfassert.predict` does.

        Args:
            kernel: from any entry point.
            launch: grid, block and arguments.
            device: a :class:`Device`, a name or alias, or the path of a device file.
            volumes: measured volumes in place of predicted ones.
            prove: changes that advice compiles at most; None: a few.
        """
        return self._predict(kernel, launch, device, volumes, prove, is_stored=False)

    def recall(self, kernel: Kernel, launch: Launch, device: Device | str | Path) -> Answer:
        """Predict a launch, or recall its answer from the cache on disk.

        Args:
            kernel: from any entry point.
            launch: grid, block and arguments.
            device: a :class:`Device`, a name or alias, or the path of a device file.
        """
        return self._predict(kernel, launch, device, None, None, is_stored=True)

    def _predict(
        self,
        kernel: Kernel,
        launch: Launch,
        device: Device | str | Path,
        volumes: Mapping[str, str | float] | None,
        prove: int | None,
        *,
        is_stored: bool,
    ) -> Answer:
        for argument, value, kind in (("kernel", kernel, Kernel), ("launch", launch, Launch)):
            if not isinstance(value, kind):
                raise LaunchError(f"{argument} must be a {kind.__name__}, not {in_short(value)}")
        target = load_device(device)
        with without_collections():
            question = self.ask(kernel, launch, target, volumes, prove)
            return self.answer(question, is_stored=is_stored)

    def ask(
        self,
        kernel: Kernel,
        launch: Launch,
        device: Device,
        volumes: Mapping[str, Any] | None = None,
        prove: int | None = None,
    ) -> Question:
        """Make a question of what files and arrays hold now.

        Args:
            kernel: from any entry point.
            launch: grid, block and arguments.
            device: whose limits and rates decide.
            volumes: measured volumes in place of predicted ones.
            prove: changes that advice compiles at most; None: a few.
        """
        if prove is not None:
            prove = to_integer(prove, "prove", LaunchError, 0)
        analyses = self._recalled_analyses() if isinstance(kernel, CompiledKernel) else None
        given = _NO_VOLUMES
        if volumes is not None:
            check_kind(volumes, Mapping, "volumes", LaunchError)
            given = MappingProxyType(dict(volumes))
        return make_question(kernel, launch, device, given, prove, self._memo.share, analyses)

    def _recalled_analyses(self) -> Analyses:
        if self._analyses is None:
            from perfassert.predictor.analyses import RecalledAnalyses

            self._analyses = RecalledAnalyses(self._memo)
        return self._analyses

    def answer(self, question: Question, *, is_stored: bool = False) -> Answer:
        """Return the answer of a question, as an object that nobody else has.

        Args:
            question: what :meth:`ask` has made.
            is_stored: whether the cache on disk is asked before, and gets what is new.
        """

        made: list[PredictionValues] = []

        def compute() -> PredictionValues:
            from perfassert.predictor.judge.judge import judge

            return judge(question, self.model(question))

        def make() -> PredictionValues:
            if is_stored:
                from perfassert.predictor.stored import recall_answer

                made.append(recall_answer(question.key, compute))
            else:
                made.append(compute())
            return made[-1]

        values = self._memo.recall("judge", question.key, make, lambda _: _PREDICTION_BYTES)
        if not made and not has_intact_values(values):  # somebody has written to what is shared
            values = compute()
        return Answer.of_values(values, asked=Asked(question, self))

    def bound_launch(self, question: Question) -> BoundLaunch:
        """Return the kernel bound to its launch, and what it moves.

        Args:
            question: what :meth:`ask` has made.
        """
        return self.model(question).bound_launch

    def model(self, question: Question) -> Model:
        """Return what is simulated for a question.

        Args:
            question: what :meth:`ask` has made.
        """

        def make() -> Model:
            from perfassert.predictor.model import bind_launch
            from perfassert.predictor.simulate.time import loaded_model

            with without_collections():
                bound_launch = bind_launch(question)
                launch, device = question.launch, question.device
                return loaded_model(bound_launch, launch, device, run=partial(_run, self._memo))

        return self._memo.recall("model", question.key, make, _model_bytes)

    def diagnose(self, question: Question, prediction: Answer) -> Diagnosis:
        """Return stalls and advice of a question's prediction.

        Args:
            question: what :meth:`ask` has made.
            prediction: its answer.
        """
        if question.volumes:
            return seal_diagnosis(question.digest, NO_DIAGNOSIS)
        from perfassert.engines.advisor.optimizers import plugged_optimizers
        from perfassert.predictor.diagnose.diagnose import diagnose

        def make() -> Diagnosis:
            diagnosis = diagnose(prediction, self.model(question), self.predict, question.prove)
            return seal_diagnosis(question.digest, diagnosis)

        key = question.key and (question.key, SameObjects(plugged_optimizers().values()))
        diagnosis = self._memo.recall("diagnose", key, make, lambda _: _PREDICTION_BYTES)
        if not is_intact_diagnosis(question.digest, diagnosis):  # as above
            diagnosis = make()
        return diagnosis

    def timeline(self, question: Question) -> tuple[Lane, ...]:
        """Return the first cycles of the warps of a scheduler.

        Args:
            question: what :meth:`ask` has made.
        """
        if question.volumes:
            return seal_timeline(question.digest, ())
        from perfassert.predictor.diagnose.timeline import timeline

        return self._memo.recall(
            "timeline",
            question.key,
            lambda: seal_timeline(question.digest, timeline(self.model(question))),
            lambda lanes: _SPAN_BYTES * sum(map(len, lanes)),
        )

    def close(self) -> None:
        """Drop everything that is kept; predictions that were made remain what they are."""
        self._memo.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


DEFAULT = Session()
"""The session of :func:`perfassert.predict`."""


def launch_model(kernel: Kernel, launch: Launch, device: Device) -> Model:
    """Return what the default session simulates of a launch."""
    return DEFAULT.model(DEFAULT.ask(kernel, launch, device))


def _run(memo: Memo, unit: Unit, limit: int) -> Duration:
    """Run a unit as :func:`run_bounded` does; the same unit, of whatever launch, runs once."""
    from perfassert.engines.pipeline.simulate import content_of, run_bounded

    key = content_of(unit, limit)
    run = partial(run_bounded, unit, limit)
    return memo.recall("simulate", key, run, lambda _: _DURATION_BYTES + len(key or b""))


def _model_bytes(model: Model) -> int:
    return _MODEL_BYTES + _NODE_BYTES * len(model.graph.nodes)
