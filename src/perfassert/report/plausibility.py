"""Check of a measured time: is it possible for a launch, and how does the prediction compare?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perfassert.errors import ExpectationError
from perfassert.prediction.prediction import PredictionValues
from perfassert.quantity import Quantity
from perfassert.report.measured import ChosenMeasurement

IMPOSSIBLE, PLAUSIBLE = "impossible", "plausible"
_WARM = (
    "The bound takes the L2 to hold none of its data before; a repeated launch whose data stays "
    "there can be faster"
)


@dataclass(frozen=True, slots=True)
class Plausibility:
    """A measured time beside a prediction.

    ``headroom``: measured time over the speed of light, None where that is unknown; ``ratio``: over
    the predicted time; ``low``, ``high``: where the prediction's error band ends, in seconds;
    ``volumes``: metric → measured and predicted bytes, where a profile has them.
    """

    verdict: str
    measured: Quantity
    headroom: float | None
    ratio: float
    low: Quantity
    high: Quantity
    notes: tuple[str, ...] = ()
    volumes: Mapping[str, tuple[Quantity, Quantity]] = field(default_factory=dict)

    @property
    def within_band(self) -> bool:
        """Return True if the measured time lies in the error band of the prediction."""
        return float(self.low) <= float(self.measured) <= float(self.high)


def judge_measured(prediction: PredictionValues, measured: str) -> Plausibility:
    """Return the judgement of a measured time, such as ``"12.3 us"``.

    Raises :class:`~perfassert.errors.ExpectationError` for what is no time above 0, and
    :class:`~perfassert.errors.UnitError` for what is no quantity.
    """
    time = Quantity(measured)
    if time.unit != "s" or time.per or not 0 < float(time) < float("inf"):
        raise ExpectationError(f"--measured: {measured!r} is no time above 0, as in '12.3 us'")
    return _judge(prediction, time)


def judge_profile(prediction: PredictionValues, measured: ChosenMeasurement) -> Plausibility:
    """Return the judgement of a measurement from a file.

    Raises :class:`~perfassert.errors.ExpectationError` for a time that is not above 0.
    """
    if not 0 < measured.seconds < float("inf"):
        raise ExpectationError(f"--measured: {measured.seconds:g} s is no time above 0")
    compared = {
        metric: (Quantity(size, "B"), Quantity(getattr(prediction.volumes, metric).total, "B"))
        for metric, size in measured.volumes.items()
    }
    judged = _judge(prediction, Quantity(measured.seconds, "s"))
    return replace(judged, volumes=compared, notes=(*measured.notes, *judged.notes))


def _judge(prediction: PredictionValues, time: Quantity) -> Plausibility:
    least, band = float(prediction.speed_of_light), prediction.error_band("time")
    predicted = float(prediction.time)
    low, high = band.interval(predicted)
    below = bool(least) and float(time) < least
    return Plausibility(
        IMPOSSIBLE if below else PLAUSIBLE,
        time,
        float(time) / least if least else None,
        float(time) / predicted,
        Quantity(low, "s"),
        Quantity(high, "s"),
        tuple(_notes(prediction, below)),
    )


def _notes(prediction: PredictionValues, below: bool) -> list[str]:
    notes = []
    if not prediction.speed_of_light:
        notes.append("No speed of light is known of it: it moves and computes nothing that counts.")
    if below and prediction.volumes.dram_load.total + prediction.volumes.dram_store.total:
        notes.append(f"{_WARM}.")
    if prediction.confidence == "guessed":
        notes.append("The prediction is a guess: the bound holds if the assumed values do.")
    return notes


def text(judged: Plausibility, prediction: PredictionValues) -> str:
    """Return the text that ``perfassert predict --measured`` adds."""
    where = "" if judged.headroom is None else (
        f": {judged.headroom:.3g} times the speed of light, {prediction.speed_of_light}"
    )  # fmt: skip
    side = "within" if judged.within_band else "outside of"
    lines = [
        f"measured {judged.measured}: {judged.verdict}{where}",
        f"{judged.ratio:.3g} times the predicted time, {side} its error band "
        f"({judged.low} to {judged.high})",
        *(f"{m} measured {had}, predicted {made}" for m, (had, made) in judged.volumes.items()),
        *judged.notes,
    ]
    return "\n".join(lines)


def to_dict(judged: Plausibility) -> dict[str, Any]:
    """Return the judgement as plain data, times in seconds."""
    return {
        "verdict": judged.verdict,
        "measured": float(judged.measured),
        "headroom": judged.headroom,
        "ratio_to_prediction": judged.ratio,
        "band": [float(judged.low), float(judged.high)],
        "within_band": judged.within_band,
        "notes": list(judged.notes),
        "volumes": {
            metric: {"measured": float(had), "predicted": float(made)}
            for metric, (had, made) in judged.volumes.items()
        },
    }
