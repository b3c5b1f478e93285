"""prediction + conditions → verdict: one table, one error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from perfassert.errors import ExpectationError, ExpectationFailed
from perfassert.expect.condition import Condition, Interval, Names, parse_condition
from perfassert.expect.metrics import Kind, Metric, metric, value_of
from perfassert.prediction.error_band import ErrorBand
from perfassert.prediction.prediction import Prediction
from perfassert.quantity import Quantity
from perfassert.report.composition import composition
from perfassert.report.tables import percent, table
from perfassert.report.trust import trust

GATE: ContextVar[Callable[[Prediction], None] | None] = ContextVar("gate", default=None)
"""Within a test that has the fixture ``perf``: raises for predictions that the predictor did not
make. Elsewhere what is read from data may be checked too, as tools do that compare files."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One checked condition; ``difference`` and ``slack`` as shares, where they exist.

    ``band``: how wrong the metric is known to be; ``guessed``: too much of it rests on stand-ins.
    """

    metric: Metric
    condition: Condition
    predicted: str
    passed: bool
    band: ErrorBand
    guessed: bool = False
    difference: float | None = None
    slack: float | None = None

    @property
    def per(self) -> str:
        """The granularity that was asked for."""
        return self.condition.per if isinstance(self.condition, Interval) else ""

    @property
    def verdict(self) -> str:
        """``"FAIL"``; ``"ok"``; ``"ok, guessed"``; ``"ok, tight"`` where the slack is within the
        model's error."""
        if not self.passed:
            return "FAIL"
        if self.guessed:
            return "ok, guessed"
        tight = self.slack is not None and 0 <= self.slack < self.band.band
        return "ok, tight" if tight else "ok"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return {
            "metric": self.metric.name,
            "expected": self.condition.text,
            "predicted": self.predicted,
            "difference": self.difference,
            "slack": self.slack,
            "model_error": self.band.error,
            "known_error": self.band.describe(),
            "error_suite": self.band.suite,
            "verdict": self.verdict,
        }


def evaluate(prediction: Prediction, conditions: Mapping[str, object]) -> tuple[Outcome, ...]:
    """Every condition's outcome; raises :class:`ExpectationError` for senseless ones."""
    if not conditions:
        raise ExpectationError("expect() was given no condition; name at least one metric")
    parsed = [
        (m := metric(name), parse_condition(m, condition)) for name, condition in conditions.items()
    ]
    return tuple(_outcome(prediction, m, condition) for m, condition in parsed)


def check(prediction: Prediction, conditions: Mapping[str, object]) -> None:
    """Raise one :class:`ExpectationFailed` if any condition does not hold."""
    __tracebackhide__ = True
    gate = GATE.get()
    if gate is not None:
        gate(prediction)
    try:
        outcomes = evaluate(prediction, conditions)
    except ExpectationError as error:
        raise error.with_traceback(None) from None  # the way through this package helps nobody
    if prediction.on_expect is not None:
        prediction.on_expect(outcomes)
    if not all(o.passed for o in outcomes):
        raise ExpectationFailed(failure_text(prediction, outcomes))


def _outcome(prediction: Prediction, wanted: Metric, condition: Condition) -> Outcome:
    band = prediction.error_band(wanted.name)
    guessed = prediction.confidence == "guessed" and not (band.exact or wanted.says_trust)
    if isinstance(condition, Names):
        actual = _names(value_of(wanted, prediction))
        shown = ", ".join(actual[: condition.top]) or "none"
        return Outcome(wanted, condition, shown, condition.holds(actual), band, guessed)
    value = value_of(wanted, prediction, condition.per)
    assert isinstance(value, Quantity)
    number = float(value)
    difference = (number - condition.target) / abs(condition.target) if condition.target else None
    shown = percent(number, signed=False) if wanted.kind is Kind.FRACTION else str(value)
    holds, slack = condition.holds(number), condition.slack(number)
    return Outcome(wanted, condition, shown, holds, band, guessed, difference, slack)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(a.optimizer for a in value)  # type: ignore[attr-defined]


def failure_text(prediction: Prediction, outcomes: tuple[Outcome, ...]) -> str:
    """Headline with the verdict, table, and what the failing metrics are made of."""
    failed = [o for o in outcomes if not o.passed]
    headline = "; ".join(_headline(o) for o in failed)
    block = "×".join(map(str, prediction.block))
    subject = f"{prediction.kernel} on {prediction.device}, block {block}"
    rows = [_row(o) for o in outcomes]
    header = ("metric", "expected", "predicted", "difference", "headroom", "verdict")
    sections = [f"{headline} ({subject})", str(table(header, rows))]
    evidence: dict[str, None] = {}
    for outcome in failed:
        text = composition(prediction, outcome.metric.name, outcome.per)
        if text:
            evidence[text] = None
    sections.extend(evidence)
    sections.append(trust(prediction, [o.metric.name for o in outcomes]))
    if prediction.assumptions:
        listed = "\n".join(f"- {a}" for a in prediction.assumptions)
        sections.append(f"assumed:\n{listed}")
    return "\n\n".join(sections)


def _headline(o: Outcome) -> str:
    difference = f" ({percent(o.difference)})" if o.difference is not None else ""
    expected = o.condition.text
    return f"{o.metric.name} is {o.predicted}, expected {expected}{difference}"


def _row(o: Outcome) -> tuple[str, ...]:
    difference = "" if o.difference is None else percent(o.difference)
    return (
        o.metric.name,
        o.condition.text,
        o.predicted,
        difference,
        _headroom(o),
        o.verdict,
    )


def _headroom(o: Outcome) -> str:
    """Room to the bound, beside the model's error."""
    if o.slack is None:
        return ""
    return f"{percent(o.slack)} ({o.band.describe()})"
