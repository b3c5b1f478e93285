"""Answers of questions: values, and what is computed of them when it is first read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from perfassert.prediction.prediction import (
    Advice,
    Diagnosis,
    Lane,
    LineWait,
    PredictionValues,
    diagnosis_data,
    read_diagnosis,
    read_values,
    values_data,
)
from perfassert.prediction.seal import (
    has_intact_values,
    is_intact_diagnosis,
    is_intact_timeline,
)

if TYPE_CHECKING:
    from perfassert.hardware.model import Device
    from perfassert.kernel.description import Kernel
    from perfassert.kernel.launch import Launch
    from perfassert.predictor.question import Question
    from perfassert.predictor.session import Session

A = TypeVar("A", bound="Answer")
NO_DIAGNOSIS = Diagnosis(MappingProxyType({}), None)


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """The question that a prediction answers, and the session that it was asked in."""

    question: Question
    session: Session


@dataclass(frozen=True, eq=False)
class Answer(PredictionValues):
    """Values with the question that they answer; of data that was read, it is not known."""

    asked: Asked | None = field(default=None, repr=False, kw_only=True)

    @classmethod
    def of_values(cls: type[A], values: PredictionValues, **others: Any) -> A:
        """Make an answer of values, which are not copied.

        Args:
            values: what is said, and whatever else an answer has.
            others: fields that only an answer has.
        """
        made = object.__new__(cls)
        made.__dict__.update(values.__dict__, **others)
        return made

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Stalls and advice together; the first access runs another simulation."""
        if self.asked is None:
            return NO_DIAGNOSIS
        return self.asked.session.diagnose(self.asked.question, self)

    @property
    def origin(self) -> tuple[Kernel, Launch, Device] | None:
        """Kernel, launch and device, where it was made in this process and may be asked again.

        None with measured volumes, which are of no other launch.
        """
        if self.asked is None or self.asked.question.volumes:
            return None
        question = self.asked.question
        return question.kernel, question.launch, question.device

    @property
    def diagnosed(self) -> bool:
        """Return True if stalls and advice are computed already; reading them costs nothing."""
        return "diagnosis" in self.__dict__

    @property
    def stalls(self) -> Mapping[str, float]:
        """Fraction of warp samples by stall reason; with ``selected`` they sum to 1.

        Empty for a prediction that was read from data without them, or has measured volumes.
        """
        return self.diagnosis.stalls

    @property
    def advice(self) -> tuple[Advice, ...] | None:
        """Suggestions, the largest speedup first; empty where nothing is worth one.

        None for measured volumes, and for a prediction that was read from data without advice.
        """
        return self.diagnosis.advice

    @cached_property
    def timeline(self) -> tuple[Lane, ...]:
        """The warps of one scheduler of an SM over the first cycles of the launch.

        A tuple of spans for each place of a warp. Empty for a prediction that was read from data,
        has measured volumes, or whose warps run too many instructions to be watched.

        Example:
            >>> import perfassert as pa
            >>> fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
            >>> lanes = pa.predict(fill, pa.Launch(16, 256), "a100").timeline
            >>> len(lanes), lanes[0][0].start, lanes[0][0].reason
            (2, 0, 'launch')
        """
        return () if self.asked is None else self.asked.session.timeline(self.asked.question)

    def __reduce__(self) -> tuple[Any, ...]:
        waits = self.diagnosis.waits if self.diagnosed else None
        lanes = tuple(self.timeline) if "timeline" in self.__dict__ else None
        return type(self)._from_pickle, (self.to_dict(self.diagnosed), waits, lanes)

    @classmethod
    def _from_pickle(
        cls: type[A],
        data: Mapping[str, Any],
        waits: tuple[LineWait, ...] | None,
        timeline: tuple[Lane, ...] | None,
    ) -> A:
        """Read the values, and what JSON does not have of a diagnosis: None where none was made."""
        read = cls.from_dict(data)
        if waits is not None:
            read.__dict__["diagnosis"] = replace(read.diagnosis, waits=waits)
        if timeline is not None:
            read.__dict__["timeline"] = timeline
        return read

    def to_dict(self, diagnosis: bool = True) -> dict[str, Any]:
        """Convert to plain data that JSON can hold; numbers in base units.

        Args:
            diagnosis: with stalls and advice, which take a simulation to find. Default: True.

        Returns:
            What :meth:`from_dict` reads.

        Example:
            >>> import perfassert as pa
            >>> fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
            >>> prediction = pa.predict(fill, pa.Launch(16, 256), "a100")
            >>> pa.Prediction.from_dict(prediction.to_dict()) == prediction
            True
        """
        return values_data(self) | (diagnosis_data(self.diagnosis) if diagnosis else {})

    def to_json(self, diagnosis: bool = True) -> str:
        """Write as one line of JSON.

        Args:
            diagnosis: with stalls and advice, as for :meth:`to_dict`. Default: True.
        """
        return json.dumps(self.to_dict(diagnosis))

    @classmethod
    def from_dict(cls: type[A], data: Mapping[str, Any]) -> A:
        """Read what :meth:`to_dict` gave; ``stalls`` and ``advice`` may both be missing.

        Args:
            data: plain data.

        Returns:
            An equal prediction, which does not know its kernel: :func:`perfassert.whatif` refuses
            it.

        Raises:
            PredictionDataError: damaged data; the key is named.
        """
        read = read_values(cls, data)
        if (diagnosis := read_diagnosis(data)) is not None:
            read.__dict__["diagnosis"] = diagnosis
        return read


def _timeline_of(prediction: Answer) -> tuple[Lane, ...] | None:
    """Return the timeline, or None where nobody has asked for it."""
    return prediction.__dict__.get("timeline")


def is_intact(prediction: Answer) -> bool:
    """Tell whether the predictor made the prediction in this process, and nothing changed it.

    That is its values, the question that it answers, and of diagnosis and timeline what was asked
    for.
    """
    question, lanes = prediction.question, _timeline_of(prediction)
    return (
        has_intact_values(prediction)
        and prediction.asked is not None
        and prediction.asked.question.digest == question
        and (not prediction.diagnosed or is_intact_diagnosis(question, prediction.diagnosis))
        and (lanes is None or is_intact_timeline(question, lanes))
    )


def is_copy(data: Answer, prediction: Answer) -> bool:
    """Tell whether a prediction that was read from data says what an intact one says.

    Args:
        data: the prediction that was read. Only with a diagnosis or a timeline of its own does it
            ask for those of the other.
        prediction: the one that the data would be of.
    """
    diagnosed, lanes = data.diagnosed, _timeline_of(data)
    if not is_intact(prediction) or data.to_json(diagnosed) != prediction.to_json(diagnosed):
        return False
    waits = data.diagnosis.waits if diagnosed else ()  # of which JSON has none
    return (not waits or waits == prediction.diagnosis.waits) and (
        lanes is None or lanes == prediction.timeline
    )
