"""Verdict on a prediction by conditions: one table, one error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from perfassert.errors import ExpectationError, ExpectationFailed, in_short
from perfassert.expect.condition import Condition, Interval, Names, parse_condition
from perfassert.expect.metrics import Kind, Metric, metric, value_of
from perfassert.frontends.toolchain.names import short_name
from perfassert.prediction.error_band import ErrorBand
from perfassert.prediction.prediction import UNSATURATED
from perfassert.predictor.answer import Answer
from perfassert.quantity import Quantity
from perfassert.report.composition import composition
from perfassert.report.tables import percent, table
from perfassert.report.trust import trust

UNDECIDED = "undecided"
"""Key of ``expect`` that says if an undecided condition fails."""
FAIL, ALLOW = "fail", "allow"
"""Choices for a condition that the error bands leave undecided."""
GATE: ContextVar[Callable[[Any], None] | None] = ContextVar("gate", default=None)
"""Check of predictions by the fixture ``perf`` of the running test.

The check raises an error for predictions that the predictor did not make. Outside of such a test it
is ``None``: tools that compare files check predictions read from data.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a checked condition; ``difference`` and ``slack`` are fractions, or None.

    ``band``: the known error of the metric. ``guessed``: the metric depends too much on assumed
    values. ``tight``: the condition holds, but may not with an error of ``band``. ``undecided``:
    the result depends on candidates that the model cannot distinguish.
    """

    metric: Metric
    condition: Condition
    predicted: str
    passed: bool
    band: ErrorBand
    guessed: bool = False
    difference: float | None = None
    slack: float | None = None
    tight: bool = False
    undecided: bool = False

    @property
    def per(self) -> str:
        """Granularity that was asked for."""
        return self.condition.per if isinstance(self.condition, Interval) else ""

    @property
    def verdict(self) -> str:
        """``"FAIL"``; ``"undecided"``, which fails unless it is allowed; ``"ok"``; ``"ok,
        guessed"``; ``"ok, tight"`` where the slack is within the model's error."""
        if not self.passed:
            return "FAIL"
        if self.undecided:
            return "undecided"
        if self.guessed:
            return "ok, guessed"
        return "ok, tight" if self.tight else "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
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


def check_undecided(given: object) -> None:
    """Raise :class:`ExpectationError` unless the value is :data:`FAIL` or :data:`ALLOW`."""
    if given not in (FAIL, ALLOW):
        raise ExpectationError(f"undecided is {in_short(given)}; give {FAIL!r} or {ALLOW!r}")


def evaluate(
    prediction: Answer, conditions: Mapping[str, object], undecided: str = FAIL
) -> tuple[Outcome, ...]:
    """Return every condition's outcome; :class:`ExpectationError` for a senseless condition."""
    if not conditions:
        raise ExpectationError("expect() was given no condition; name at least one metric")
    parsed = [
        (m := metric(name), parse_condition(m, condition)) for name, condition in conditions.items()
    ]
    outcomes = (_outcome(prediction, m, condition) for m, condition in parsed)
    return tuple(o if undecided == ALLOW else _refuse_undecided(o) for o in outcomes)


def _refuse_undecided(outcome: Outcome) -> Outcome:
    return replace(outcome, passed=outcome.passed and not outcome.undecided)


def check(
    prediction: Answer,
    conditions: Mapping[str, object],
    undecided: str = FAIL,
    on_expect: Callable[[tuple[Outcome, ...]], object] | None = None,
) -> None:
    """Raise one :class:`ExpectationFailed` if any condition does not hold, or is undecided and may
    not be; ``on_expect``: called with the outcomes before."""
    __tracebackhide__ = True
    check_undecided(undecided)
    gate = GATE.get()
    if gate is not None:
        gate(prediction)
    try:
        outcomes = evaluate(prediction, conditions, undecided)
    except ExpectationError as error:
        raise error.with_traceback(None) from None  # the way through this package helps nobody
    if on_expect is not None:
        on_expect(outcomes)
    if not all(o.passed for o in outcomes):
        raise ExpectationFailed(failure_text(prediction, outcomes))


def _outcome(prediction: Answer, wanted: Metric, condition: Condition) -> Outcome:
    band = prediction.error_band(wanted.name)
    guessed = prediction.confidence == "guessed" and not (band.exact or wanted.says_trust)
    if isinstance(condition, Names):
        actual = _names(value_of(wanted, prediction))
        shown = ", ".join(actual[: condition.top]) or "none"
        limiters = limiters_within_error(prediction)
        verdicts = {condition.holds((name,)) for name in limiters}
        undecided = wanted.name == "limiter" and len(verdicts) > 1
        if undecided:
            shown += f" (or {', '.join(limiters[1:])}, within the model's error)"
        holds = undecided or condition.holds(actual)
        return Outcome(wanted, condition, shown, holds, band, guessed, undecided=undecided)
    value = value_of(wanted, prediction, condition.per)
    assert isinstance(value, Quantity)
    number = float(value)
    difference = (number - condition.target) / abs(condition.target) if condition.target else None
    shown = percent(number, signed=False) if wanted.kind is Kind.FRACTION else str(value)
    holds, slack = condition.holds(number), condition.slack(number)
    above, below = band.band + band.above, band.band + band.below
    tight = slack >= 0 and not condition.is_within(number, above, below)
    return Outcome(wanted, condition, shown, holds, band, guessed, difference, slack, tight)


def limiters_within_error(prediction: Answer) -> tuple[str, ...]:
    """Return the limiter, and others whose bounds are below the largest by less than the error.

    Latency and parallelism, which keep a launch from using any resource fully, stand alone.
    """
    bounds = {k: float(t) for k, t in prediction.bounds.items() if k not in UNSATURATED}
    limiter, known = prediction.limiter, prediction.error_bands.get("limiter")
    if limiter not in bounds or known is None:
        return (limiter,)
    least = bounds[limiter] * (1 - known.band)
    others = sorted((k for k in bounds if k != limiter), key=lambda k: -bounds[k])
    return (limiter, *(k for k in others if bounds[k] >= least))


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(a.optimizer for a in value)  # type: ignore[attr-defined]


def failure_text(prediction: Answer, outcomes: tuple[Outcome, ...]) -> str:
    """Return a headline with the verdict, the table, and the components of failing metrics."""
    failed = [o for o in outcomes if not o.passed]
    headline = "; ".join(_headline(o) for o in failed)
    block = "×".join(map(str, prediction.block))
    subject = f"{short_name(prediction.kernel)} on {prediction.device}, block {block}"
    rows = [_outcome_row(o) for o in outcomes]
    header = ("metric", "expected", "predicted", "difference", "margin", "verdict")
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
    if o.undecided:
        return (
            f"{o.metric.name} is undecided: {o.predicted}, expected {o.condition.text}; "
            'name them all, or give undecided="allow"'
        )
    difference = f" ({percent(o.difference)})" if o.difference is not None else ""
    expected = o.condition.text
    return f"{o.metric.name} is {o.predicted}, expected {expected}{difference}"


def _outcome_row(o: Outcome) -> tuple[str, ...]:
    difference = "" if o.difference is None else percent(o.difference)
    return (
        o.metric.name,
        o.condition.text,
        o.predicted,
        difference,
        _describe_margin(o),
        o.verdict,
    )


def _describe_margin(o: Outcome) -> str:
    """Return the room to the bound, beside the model's error."""
    if o.slack is None:
        return ""
    return f"{percent(o.slack)} ({o.band.describe()})"
