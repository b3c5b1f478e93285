"""Whether a prediction still says what the predictor said."""

from __future__ import annotations

import hashlib

from perfassert.prediction.prediction import Prediction


def content_digest(prediction: Prediction) -> str:
    """Of all that a prediction says, stalls and advice aside, which are found when asked for."""
    text = prediction.to_json(diagnosis=False)
    return hashlib.sha256(text.encode()).hexdigest()


def seal_prediction(prediction: Prediction) -> Prediction:
    """Store the digest of a prediction's content in it, and return it.

    The predictor seals what it returns. Whatever changes it later, ``dataclasses.replace`` or
    ``object.__setattr__``, leaves the seal as it is; what is read from data has none.
    """
    object.__setattr__(prediction, "seal", content_digest(prediction))
    return prediction


def is_intact(prediction: Prediction) -> bool:
    """Whether the predictor made it in this process, and nothing has changed it since."""
    return bool(prediction.seal) and prediction.seal == content_digest(prediction)
