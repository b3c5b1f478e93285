"""Whether a time that somebody measured can be one of a launch, and how it compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfassert.errors import ExpectationError
from perfassert.prediction.prediction import PredictionValues
from perfassert.quantity import Quantity

IMPOSSIBLE, PLAUSIBLE = "impossible", "plausible"
_WARM = (
    "The bound takes the L2 to hold none of its data before; a repeated launch whose data stays "
    "there can be faster"
)


@dataclass(frozen=True, slots=True)
class Plausibility:
    """A measured time beside a prediction.

    ``headroom``: measured time over the speed of light, None where that is unknown; ``ratio``: over
    the predicted time; ``low``, ``high``: where the prediction's error band ends, in seconds.
    """

    verdict: str
    measured: Quantity
    headroom: float | None
    ratio: float
    low: Quantity
    high: Quantity
    notes: tuple[str, ...] = ()

    @property
    def within_band(self) -> bool:
        """Whether the prediction's error explains the difference."""
        return float(self.low) <= float(self.measured) <= float(self.high)


def judge_measured(prediction: PredictionValues, measured: str) -> Plausibility:
    """Judge a measured time, such as ``"12.3 us"``.

    Raises :class:`~perfassert.errors.ExpectationError` for what is no time above 0, and
    :class:`~perfassert.errors.UnitError` for what is no quantity.
    """
    time = Quantity(measured)
    if time.unit != "s" or time.per or not 0 < float(time) < float("inf"):
        raise ExpectationError(f"--measured: {measured!r} is no time above 0, as in '12.3 us'")
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
    """What ``perfassert predict --measured`` adds."""
    where = "" if judged.headroom is None else (
        f": {judged.headroom:.3g} times the speed of light, {prediction.speed_of_light}"
    )  # fmt: skip
    side = "within" if judged.within_band else "outside of"
    lines = [
        f"measured {judged.measured}: {judged.verdict}{where}",
        f"{judged.ratio:.3g} times the predicted time, {side} its error band "
        f"({judged.low} to {judged.high})",
        *judged.notes,
    ]
    return "\n".join(lines)


def to_dict(judged: Plausibility) -> dict[str, Any]:
    """The same as plain data, times in seconds."""
    return {
        "verdict": judged.verdict,
        "measured": float(judged.measured),
        "headroom": judged.headroom,
        "ratio_to_prediction": judged.ratio,
        "band": [float(judged.low), float(judged.high)],
        "within_band": judged.within_band,
        "notes": list(judged.notes),
    }
