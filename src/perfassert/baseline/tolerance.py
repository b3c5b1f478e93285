"""Tolerances of metrics: ``"2 %"``, ``"2 % or 1 us"``, ``"+2 % -100 %"``; per metric, group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfassert.baseline.entry import stored_metrics
from perfassert.errors import ExpectationError, UnitError, close_matches
from perfassert.expect.metrics import METRICS, Kind, Metric
from perfassert.quantity import parse_quantity

GROUPS: Mapping[str, tuple[str, ...]] = {
    "dram": ("dram_load", "dram_store"),
    "l2": ("l2_load", "l2_store"),
    "l1": ("l1_wavefronts", "l1_cycles"),
    "volumes": (
        "dram_load", "dram_store", "l2_load", "l2_store", "l1_wavefronts", "l1_cycles",
        "shared_wavefronts",
    ),
    "resources": ("occupancy", "registers", "spill_bytes"),
    "all": (),  # every number that is kept, but the time
}  # fmt: skip
"""What several metrics are called together; a smaller group goes before a larger one."""

_SIDES = re.compile(r"(?P<first>[+-])(?P<one>[^+]*?)\s(?P<second>[+-])(?P<two>.+)", re.S)
_OR = re.compile(r"\s+or\s+")
_EQUAL = 1e-9  # numbers that leave the model have ten digits
_EXAMPLES = "'2 %', '2 % or 1 us', '+2 % -100 %'"


@dataclass(frozen=True, slots=True)
class Margin:
    """The larger of a share of the baseline and an absolute amount in base units."""

    share: float = 0.0
    absolute: float = 0.0

    def around(self, baseline: float) -> float:
        """Return how far a value may lie from the baseline, in base units."""
        return max(self.share * abs(baseline), self.absolute) + _EQUAL * abs(baseline)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``above`` and ``below`` the baseline; for names there is none: they must be the same."""

    text: str
    above: Margin = Margin()
    below: Margin = Margin()


def tolerances(
    default: str | None, given: Mapping[str, object]
) -> tuple[dict[str, Tolerance], frozenset[str]]:
    """Metric → tolerance for all that is compared, and those named outright.

    ``default`` is that of ``time``, which no group has; ``given``: metrics and groups. None: not
    compared. Raises :class:`ExpectationError` for a name or text without meaning.
    """
    wanted: dict[str, object] = {}
    groups = [name for name in given if name in GROUPS]
    for name in sorted(groups, key=lambda g: -len(members(g))):
        wanted.update(dict.fromkeys(members(name), given[name]))
    wanted["time"] = default
    named = {name: text for name, text in given.items() if name not in GROUPS}
    for name in named:
        _check_name(name)
    wanted.update(named)
    result = {m: parse(METRICS[m], text) for m, text in wanted.items() if text is not None}
    if not result:
        raise ExpectationError("no_regression() compares nothing: give a tolerance or a metric")
    ordered = {m.name: result[m.name] for m in stored_metrics() if m.name in result}
    return ordered, frozenset(named)


def members(group: str) -> tuple[str, ...]:
    """The metrics of a group."""
    numbers = (m.name for m in stored_metrics() if m.kind is not Kind.NAME)
    return GROUPS[group] or tuple(name for name in numbers if name != "time")


def _check_name(name: str) -> None:
    known = [*(m.name for m in stored_metrics()), *GROUPS]
    if name not in known:
        hint = close_matches(name, known) or f"; known: {', '.join(known)}"
        raise ExpectationError(f"no_regression() has no metric {name!r}{hint}")


def parse(metric: Metric, given: object) -> Tolerance:
    """A tolerance for ``metric``, or :class:`ExpectationError`."""
    if metric.kind is Kind.NAME:
        if given != "same":
            raise _tolerance_error(metric, given, f"{metric.name} is a name; it can only be 'same'")
        return Tolerance("same")
    if not isinstance(given, (str, bool)) and given == 0:
        given = "0 %"
    if not isinstance(given, str) or not given.strip():
        raise _tolerance_error(metric, given, f"give a string such as {_EXAMPLES}")
    text = " ".join(given.split())
    plain = text.removeprefix("±").removeprefix("+-").removeprefix("+/-").strip()
    if plain == text and text[0] in "+-":
        return _two_sided_tolerance(metric, text)
    margin = _margin(metric, plain, text)
    return Tolerance(text, margin, margin)


def _two_sided_tolerance(metric: Metric, text: str) -> Tolerance:
    match = _SIDES.fullmatch(text)
    if match is None or match["first"] == match["second"]:
        raise _tolerance_error(
            metric, text, "give both sides, as in '+2 % -100 %', or none of the signs"
        )
    sides = {match["first"]: match["one"], match["second"]: match["two"]}
    return Tolerance(text, _margin(metric, sides["+"], text), _margin(metric, sides["-"], text))


def _margin(metric: Metric, text: str, whole: str) -> Margin:
    share = absolute = 0.0
    for term in _OR.split(text.strip()):
        relative = term.rstrip().endswith("%")
        value = _amount(metric, term, whole, relative)
        if relative:
            share = max(share, value)
        else:
            absolute = max(absolute, value)
    return Margin(share, absolute)


def _amount(metric: Metric, term: str, whole: str, relative: bool) -> float:
    try:
        parsed = parse_quantity(term)
    except UnitError as error:
        raise _tolerance_error(metric, whole, str(error)) from None
    if parsed.value < 0 or term.lstrip()[0] in "+-":
        raise _tolerance_error(metric, whole, "an amount of a tolerance has no sign of its own")
    fits = parsed.unit == metric.unit and (parsed.has_unit or not metric.unit)
    if relative or (fits and not parsed.per) or (parsed.value == 0 and not parsed.has_unit):
        return parsed.value
    unit = f"the unit {metric.unit!r}" if metric.unit else "no unit"
    raise _tolerance_error(metric, whole, f"{term.strip()!r} should be a percentage or have {unit}")


def _tolerance_error(metric: Metric, given: object, reason: str) -> ExpectationError:
    return ExpectationError(f"tolerance of {metric.name}: cannot understand {given!r}: {reason}")
