"""Limits of a change, as in ``"spill_bytes +0, registers +8, time +2 %"``; more is a failure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from perfassert.baseline.entry import stored_metrics
from perfassert.baseline.tolerance import Margin
from perfassert.errors import ExpectationError, UnitError, close_matches
from perfassert.expect.metrics import METRICS, Kind
from perfassert.quantity import parse_quantity

CODE_UNITS = {
    "registers": "", "spill_bytes": "B", "stack_bytes": "B", "shared_bytes": "B", "barriers": "",
    "code_bytes": "B", "occupancy": "",
}  # fmt: skip
"""Metrics that code has without a launch → their units."""
NEW, WORSE = "new", "worse"
"""Words that make a new kernel, or a worse one, a failure."""
_LIMIT = re.compile(r"(?P<metric>\w+)\s*(?P<sign>[+-])\s*(?P<amount>[^+-].*)", re.S)
_OR = re.compile(r"\s+or\s+")
_EXAMPLE = "'spill_bytes +0, registers +8, time +2 %'"


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of one metric: it may rise by ``margin``, or fall by it if ``falls``.

    ``text`` is the limit as written; ``amount`` is the part of the text with the margin.
    """

    metric: str
    falls: bool
    margin: Margin
    text: str
    amount: str

    def is_exceeded(self, before: float, after: float) -> bool:
        """Return True if the change from ``before`` to ``after`` exceeds the limit."""
        change = before - after if self.falls else after - before
        return change > self.margin.around(before)


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """Limits of a change; ``new``: new kernels are failures; ``worse``: worse kernels are."""

    all: tuple[Limit, ...]
    new: bool = False
    worse: bool = False

    def without_launches(self) -> ChangeLimits:
        """Return the limits; :class:`ExpectationError` for a limit that needs a launch."""
        for limit in self.all:
            if limit.metric not in CODE_UNITS:
                raise ExpectationError(
                    f"--fail-on: {limit.metric} is of a launch; give --launches FILE"
                )
        return self

    def of(self, metrics: Collection[str]) -> tuple[Limit, ...]:
        """Return the limits of some metrics."""
        return tuple(limit for limit in self.all if limit.metric in metrics)


def parse(text: str) -> ChangeLimits:
    """Parse limits, without evaluation; :class:`ExpectationError` for text without a meaning."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    limits = [_limit(part) for part in parts if part not in (NEW, WORSE)]
    metrics = [limit.metric for limit in limits]
    if twice := [m for m in metrics if metrics.count(m) > 1]:
        raise ExpectationError(f"--fail-on: {twice[0]} is limited twice")
    return ChangeLimits(tuple(limits), NEW in parts, WORSE in parts)


def _limit(part: str) -> Limit:
    match = _LIMIT.fullmatch(part)
    if match is None:
        raise ExpectationError(f"--fail-on: cannot understand {part!r}; write {_EXAMPLE}")
    metric, units = match["metric"], _units()
    if metric not in units:
        known = [*units, NEW, WORSE]
        hint = close_matches(metric, known) or f"; known: {', '.join(known)}"
        raise ExpectationError(f"--fail-on: there is no metric {metric!r}{hint}")
    amounts = [_amount(term, units[metric], part) for term in _OR.split(match["amount"])]
    share = max((value for value, relative in amounts if relative), default=0.0)
    absolute = max((value for value, relative in amounts if not relative), default=0.0)
    if metric == "occupancy" and absolute > 1:
        raise ExpectationError(f"--fail-on: {part!r} is more than all of it; write a percentage")
    return Limit(
        metric, match["sign"] == "-", Margin(share, absolute), part, match["amount"].strip()
    )


def _units() -> dict[str, str]:
    """Return the units of all metrics of a launch or of code."""
    launched = {m.name: METRICS[m.name].unit for m in stored_metrics() if m.kind is not Kind.NAME}
    return {**launched, **CODE_UNITS}


def _amount(term: str, unit: str, whole: str) -> tuple[float, bool]:
    """Return an amount in base units, and True if it is a share."""
    try:
        parsed = parse_quantity(term)
    except UnitError as error:
        raise ExpectationError(f"--fail-on: cannot understand {whole!r}: {error}") from None
    if term.rstrip().endswith("%"):
        return parsed.value, True
    bare = not parsed.has_unit and parsed.value and unit == "s"  # "time +2" would be two seconds
    if parsed.per or bare or (parsed.has_unit and parsed.unit != unit):
        expected = f"the unit {unit}" if unit else "no unit"
        raise ExpectationError(
            f"--fail-on: {term.strip()!r} in {whole!r} should be a percentage or have {expected}"
        )
    return parsed.value, False
