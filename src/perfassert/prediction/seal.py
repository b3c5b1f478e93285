"""Whether a prediction still says what the predictor said.

The predictor seals values, a diagnosis and a timeline, each when it makes it, with a digest of what
they say. Whatever changes them later, ``dataclasses.replace``, ``object.__setattr__`` or a write to
``__dict__``, leaves the seal as it is; what is read from data has none.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import astuple, replace

from perfassert.prediction.prediction import (
    Diagnosis,
    Lane,
    Prediction,
    Timeline,
    advice_data,
)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _values_digest(prediction: Prediction) -> str:
    return _digest(prediction.to_dict(diagnosis=False))


def _diagnosis_digest(question: str, diagnosis: Diagnosis) -> str:
    advice = diagnosis.advice and [advice_data(a) for a in diagnosis.advice]
    return _digest(question, dict(diagnosis.stalls), advice, [*map(astuple, diagnosis.waits)])


def seal_values(prediction: Prediction) -> Prediction:
    """Store the digest of a prediction's values in it, and return it."""
    object.__setattr__(prediction, "seal", _values_digest(prediction))
    return prediction


def seal_diagnosis(question: str, diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis of a question, which its digest names, with a seal."""
    return replace(diagnosis, seal=_diagnosis_digest(question, diagnosis))


def seal_timeline(question: str, lanes: tuple[Lane, ...]) -> Timeline:
    """Return the timeline of a question, which its digest names, with a seal."""
    return Timeline(lanes, _digest(question, lanes))


def has_intact_values(prediction: Prediction) -> bool:
    """Tell whether the predictor made the values, and nothing has changed them since."""
    return bool(prediction.seal) and prediction.seal == _values_digest(prediction)


def is_intact_diagnosis(question: str, diagnosis: Diagnosis) -> bool:
    """Tell whether the predictor made the diagnosis of that question, and nothing changed it."""
    return bool(diagnosis.seal) and diagnosis.seal == _diagnosis_digest(question, diagnosis)


def is_intact_timeline(question: str, lanes: tuple[Lane, ...]) -> bool:
    """Tell whether the predictor made the timeline of that question."""
    return isinstance(lanes, Timeline) and lanes.seal == _digest(question, lanes)


def _timeline_of(prediction: Prediction) -> tuple[Lane, ...] | None:
    """Return the timeline, or None where nobody has asked for it."""
    return prediction.__dict__.get("timeline")


def is_intact(prediction: Prediction) -> bool:
    """Tell whether the predictor made the prediction in this process, and nothing changed it.

    That is its values, the question that it answers, and of diagnosis and timeline what was asked
    for.
    """
    question, lanes = prediction.question, _timeline_of(prediction)
    return (
        has_intact_values(prediction)
        and prediction.asked is not None
        and prediction.asked.digest == question
        and (not prediction.diagnosed or is_intact_diagnosis(question, prediction.diagnosis))
        and (lanes is None or is_intact_timeline(question, lanes))
    )


def is_copy(data: Prediction, prediction: Prediction) -> bool:
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
