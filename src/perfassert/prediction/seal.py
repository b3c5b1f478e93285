"""Seals of predictions: digests by which a change after they were made is seen.

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
    PredictionValues,
    Timeline,
    advice_data,
    values_data,
)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _values_digest(prediction: PredictionValues) -> str:
    return _digest(values_data(prediction))


def _diagnosis_digest(question: str, diagnosis: Diagnosis) -> str:
    advice = diagnosis.advice and [advice_data(a) for a in diagnosis.advice]
    return _digest(question, dict(diagnosis.stalls), advice, [*map(astuple, diagnosis.waits)])


def seal_values(prediction: PredictionValues) -> PredictionValues:
    """Store the digest of a prediction's values in it, and return it."""
    object.__setattr__(prediction, "seal", _values_digest(prediction))
    return prediction


def seal_diagnosis(question: str, diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis of a question, which its digest names, with a seal."""
    return replace(diagnosis, seal=_diagnosis_digest(question, diagnosis))


def seal_timeline(question: str, lanes: tuple[Lane, ...]) -> Timeline:
    """Return the timeline of a question, which its digest names, with a seal."""
    return Timeline(lanes, _digest(question, lanes))


def has_intact_values(prediction: PredictionValues) -> bool:
    """Tell whether the predictor made the values, and nothing has changed them since."""
    return bool(prediction.seal) and prediction.seal == _values_digest(prediction)


def is_intact_diagnosis(question: str, diagnosis: Diagnosis) -> bool:
    """Tell whether the predictor made the diagnosis of that question, and nothing changed it."""
    return bool(diagnosis.seal) and diagnosis.seal == _diagnosis_digest(question, diagnosis)


def is_intact_timeline(question: str, lanes: tuple[Lane, ...]) -> bool:
    """Tell whether the predictor made the timeline of that question."""
    return isinstance(lanes, Timeline) and lanes.seal == _digest(question, lanes)
