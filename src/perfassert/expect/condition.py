"""Language of conditions: ``"< 60 us"``, ``"10 B/update ± 5 %"``, ``"dram | l2"``.

A condition is parsed for its metric and becomes an interval in base units or a set of names. A
condition that cannot be parsed is an :class:`~perfassert.errors.ExpectationError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf, isclose
from typing import Union

from perfassert.errors import ExpectationError, UnitError, close_matches, in_short
from perfassert.expect.metrics import Kind, Metric
from perfassert.quantity import (
    ParsedQuantity,
    Quantity,
    format_quantity,
    parse_quantity,
    to_real,
)

_OPERATOR = re.compile(r"\s*(<=|>=|==|<|>|≤|≥)\s*(.+)", re.S)
_SYMMETRIC = re.compile(r"(.+?)\s*(?:±|\+/-|\+-)\s*(.+)", re.S)
_ASYMMETRIC = re.compile(r"(.+?)\s+-\s*(\S.*?)\s+\+\s*(\S.*)", re.S)
_RANGE = re.compile(r"(.+?)\s*\.\.\s*(.+)", re.S)
_TOP = re.compile(r"in\s+top\s+(\d+)\s*:\s*(.+)", re.S)
_EQUAL = 1e-9  # numbers that leave the model have ten digits
_EXAMPLES = "'< 60 us', '10 B/update ± 5 %', '50 .. 60 us'"

OPTIMIZERS = (
    "Register Reuse", "Strength Reduction", "Function Split", "Fast Math", "Warp Balance",
    "Memory Transaction Reduction", "Loop Unrolling", "Code Reordering", "Function Inlining",
    "Block Increase", "Thread Increase", "Coalescing", "Shared Bank Conflict Removal",
    "Block Shape", "Asynchronous Copy", "Occupancy Increase",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """Interval of base units, per ``per``; ``target`` is the value that differences refer to."""

    text: str
    low: float
    high: float
    target: float
    per: str = ""
    strict: bool = False  # the bounds themselves do not hold

    def holds(self, value: float) -> bool:
        """Return True if the value lies within the bounds, exclusive of them if ``strict``."""
        if self.low == self.high:
            return isclose(value, self.low, rel_tol=_EQUAL)
        if self.strict:
            return self.low < value < self.high
        return self.low <= value <= self.high

    def slack(self, value: float) -> float:
        """Return the distance to the nearest bound as a share of it; negative outside."""
        if self.low == self.high:
            return -abs(value - self.low) / abs(self.low) if self.low else -abs(value)
        return min(self._distances(value))

    def is_within(self, value: float, above: float, below: float) -> bool:
        """Return True if the condition holds for a value with an error.

        ``above`` and ``below`` are how far the value may be off, as shares of the bounds.
        """
        to_high, to_low = self._distances(value)
        return to_high >= above and to_low >= below

    def _distances(self, value: float) -> tuple[float, float]:
        """Return the distances to the upper and lower bound, as shares; infinite without bound."""
        to_high = inf if self.high == inf else (self.high - value) / (abs(self.high) or 1.0)
        to_low = inf if self.low == -inf else (value - self.low) / (abs(self.low) or 1.0)
        return to_high, to_low


@dataclass(frozen=True, slots=True)
class Names:
    """Condition that a name is one of some names, or none of them if ``negated``.

    For advice, one of the first ``top`` names has to be.
    """

    text: str
    names: tuple[str, ...]
    negated: bool = False
    top: int = 1

    def holds(self, actual: tuple[str, ...]) -> bool:
        """Return True if any of the first ``top`` names is wanted; if ``negated``, if none is."""
        return any(name in self.names for name in actual[: self.top]) != self.negated


Condition = Union[Interval, Names]


def parse_condition(metric: Metric, condition: object) -> Condition:
    """Return a condition for ``metric``, or raise :class:`ExpectationError`."""
    if metric.kind in (Kind.NAME, Kind.ADVICE):
        return _names(metric, condition)
    if isinstance(condition, str):
        return _interval(metric, condition)
    try:
        number = float(to_real(condition, "it", ExpectationError))
    except ExpectationError:
        reason = f"give a number or a string such as {_EXAMPLES}"
        raise _error(metric, condition, reason) from None
    unit, per = getattr(condition, "unit", metric.unit), getattr(condition, "per", "")
    if unit != metric.unit:
        raise _error(metric, condition, f"its unit should be {metric.unit or 'none'}")
    if per:
        _check_granularity(metric, per, str(condition))
    return Interval(f"== {format_quantity(number, unit, per)}", number, number, number, per)


def _error(metric: Metric, condition: object, reason: str) -> ExpectationError:
    shown = str(condition) if isinstance(condition, Quantity) else in_short(condition)
    return ExpectationError(f"{metric.name}: cannot understand {shown}: {reason}")


def _interval(metric: Metric, text: str) -> Interval:
    shown = " ".join(text.split())
    if match := _OPERATOR.fullmatch(text):
        return _comparison(metric, shown, match[1], _quantity(metric, match[2], text))
    if match := _SYMMETRIC.fullmatch(text):
        return _tolerance(metric, shown, match[1], match[2], match[2])
    if match := _RANGE.fullmatch(text):
        return _range(metric, shown, match[1], match[2])
    if match := _ASYMMETRIC.fullmatch(text):
        return _tolerance(metric, shown, match[1], match[2], match[3])
    raise _error(metric, text, f"it needs an operator, a tolerance or a range: {_EXAMPLES}")


def _comparison(metric: Metric, shown: str, operator: str, value: ParsedQuantity) -> Interval:
    v, per = value.value, value.per
    if metric.kind is Kind.FRACTION and v > 1 and not value.has_unit:
        raise _error(metric, shown, f"{v:g} is more than all of it; write {v:g} %")
    if operator == "==":
        return Interval(shown, v, v, v, per)
    strict = operator in ("<", ">")
    if operator in ("<", "<=", "≤"):
        return Interval(shown, -inf, v, v, per, strict)
    return Interval(shown, v, inf, v, per, strict)


def _tolerance(metric: Metric, shown: str, center: str, below: str, above: str) -> Interval:
    middle = _quantity(metric, center, shown)
    low = middle.value - _margin(metric, below, middle, shown)
    high = middle.value + _margin(metric, above, middle, shown)
    return Interval(shown, low, high, middle.value, middle.per)


def _margin(metric: Metric, text: str, middle: ParsedQuantity, shown: str) -> float:
    if text.strip().endswith("%"):
        share = _parse_quantity(metric, text, shown).value
        size = share * abs(middle.value)
    else:
        value = _parse_quantity(metric, text, shown)
        if value.has_unit and (value.unit, value.per) != (middle.unit, middle.per):
            raise _error(metric, shown, "value and tolerance have different units")
        if middle.has_unit and not value.has_unit:
            raise _error(metric, shown, f"the tolerance {text.strip()!r} needs a unit or %")
        size = value.value
    if size < 0:
        raise _error(metric, shown, "a tolerance is not negative")
    return size


def _range(metric: Metric, shown: str, low: str, high: str) -> Interval:
    top = _quantity(metric, high, shown)
    bottom = _parse_quantity(metric, low, shown)
    if not bottom.has_unit and top.has_unit:
        unit = high.strip().lstrip("+-0123456789.eE_ ")
        bottom = _quantity(metric, f"{low.strip()} {unit}", shown)
    else:
        bottom = _quantity(metric, low, shown)
    if bottom.per != top.per:
        raise _error(metric, shown, "both ends of a range need the same unit")
    if bottom.value > top.value:
        raise _error(metric, shown, "the range is empty: its low end lies above its high end")
    target = (bottom.value + top.value) / 2
    return Interval(shown, bottom.value, top.value, target, top.per)


def _parse_quantity(metric: Metric, text: str, shown: str) -> ParsedQuantity:
    try:
        return parse_quantity(text)
    except UnitError as error:
        raise _error(metric, shown, str(error)) from None


def _quantity(metric: Metric, text: str, shown: str) -> ParsedQuantity:
    """Return a quantity with a unit that suits the metric."""
    value = _parse_quantity(metric, text, shown)
    if "%" in text and metric.kind is not Kind.FRACTION:
        raise _error(metric, shown, "a percentage is allowed only in a tolerance")
    if value.unit != metric.unit:
        wanted = f"a unit of {metric.unit!r}" if metric.unit else "no unit"
        had = f"{value.unit!r}" if value.unit else "none"
        raise _error(metric, shown, f"{metric.name} needs {wanted}, not {had}")
    if value.per:
        _check_granularity(metric, value.per, shown)
    return value


def _check_granularity(metric: Metric, per: str, shown: str) -> None:
    if not metric.extensive:
        raise _error(metric, shown, f"{metric.name} has no value per {per}")


def _names(metric: Metric, condition: object) -> Names:
    if not isinstance(condition, str) or not condition.strip():
        raise _error(metric, condition, "give names, as in 'dram | l2' or '!latency'")
    text, top = condition.strip(), 1
    if metric.kind is Kind.ADVICE and (match := _TOP.fullmatch(text)):
        top, text = int(match[1]), match[2]
        if top < 1:
            raise _error(metric, condition, "'in top N' starts at 1")
    negated = text.startswith("!")
    names = tuple(part.strip() for part in text.removeprefix("!").split("|"))
    folded = {name.lower(): name for name in metric.names or OPTIMIZERS}
    resolved = tuple(folded.get(n.lower()) or _plugged_name(metric, condition, n) for n in names)
    return Names(" ".join(condition.split()), resolved, negated, top)


def _plugged_name(metric: Metric, condition: str, name: str) -> str:
    """Return the name of a plug-in's optimizer, or raise :class:`ExpectationError`."""
    known, note = metric.names, ""
    if metric.kind is Kind.ADVICE:
        from perfassert.engines.advisor.optimizers import plugged_optimizers

        plugged = plugged_optimizers()
        if (optimizer := plugged.get(name)) is not None:
            return optimizer.name
        known, note = (*OPTIMIZERS, *(o.name for o in plugged.values())), plugged.note()
    hint = close_matches(name, known) or f"; known: {', '.join(known)}"
    raise _error(metric, condition, f"unknown name {name!r}{hint}{note}")


def parse_share(within: str | float) -> float:
    """Return a share from a number or from ``"5 %"``; else raise :class:`ExpectationError`."""
    try:
        value = parse_quantity(within) if isinstance(within, str) else None
    except UnitError as error:
        raise ExpectationError(f"within: {error}") from None
    share = to_real(within, "within", ExpectationError) if value is None else value.value
    if value is not None and (value.unit or value.per or not value.has_unit):
        raise ExpectationError(f"within: {within!r} is no percentage, as in '5 %'")
    if share < 0:
        raise ExpectationError(f"within: {within!r} is negative")
    return share
