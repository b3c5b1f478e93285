"""Differences of two baselines, component by component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from perfassert.baseline.entry import Entry, Leaf, Path, leaves, unit_of
from perfassert.prediction.volumes import UNITS
from perfassert.quantity import format_quantity
from perfassert.report.tables import percent

_EQUAL = 1e-9  # numbers that leave the model have ten digits
_DERIVED = {"cycles", "roofline_time", "roofline_limiter", "dram_volume", "l2_volume", "updates",
            "speed_of_light", "headroom"}  # fmt: skip
"""What follows from other components, and so explains nothing."""
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LARGE = 1e5  # a count below is shown with all its digits
_LAST = {"time"}  # the effect, not a component
_IDENTITY = {
    "kernel",
    "source_launches",
    "compilers",
    "model_version",
    "device_digest",
    "kernel_digest",
}

Value = Union[Leaf, None]


@dataclass(frozen=True, slots=True)
class Change:
    """A number or name on both sides; None where a side does not have it.

    ``path``: where it lies in a baseline; that of a metric is its name alone.
    """

    path: Path
    before: Value
    after: Value

    @property
    def name(self) -> str:
        """The path in words: ``"dram_load of src: capacity"``."""
        return _name(self.path)

    @property
    def metric(self) -> str:
        """The first word of the path."""
        return self.path[0]

    @property
    def relative_change(self) -> float | None:
        """The change over the value before, for numbers other than 0 before."""
        if isinstance(self.before, (int, float)) and isinstance(self.after, (int, float)):
            return self.after / self.before - 1 if self.before else None
        return None

    @property
    def percent_text(self) -> str:
        """``"+35.5 %"``, or empty without a relative change."""
        return "" if self.relative_change is None else percent(self.relative_change)

    @property
    def values(self) -> tuple[str, str]:
        """Both values as people read them."""
        return format_field(self.path, self.before), format_field(self.path, self.after)

    def __str__(self) -> str:
        before, after = self.values
        return f"{self.name} {before} → {after}{self.percent_text and f' ({self.percent_text})'}"


def components(old: Entry, new: Entry) -> tuple[Change, ...]:
    """Volumes by field and part, wavefronts, occupancy and its limit, registers, spills,
    instructions, limiter, bounds, launch: every one that differs, in the order of the entries.

    A part that only one side has counts as 0 on the other. Volumes stand for themselves only
    where no field of them differs.
    """
    before, after = dict(leaves(old)), dict(leaves(new))
    differing = [
        _component(path, before.get(path), after.get(path))
        for path in (*before, *(p for p in after if p not in before))
        if path[0] not in (_DERIVED | _LAST | _IDENTITY)
        and not same(_value(before, path), _value(after, path))
    ]
    explained = {c.path[2] for c in differing if c.path[0] == "fields"}
    return tuple(c for c in differing if c.path[0] not in explained)


def same(before: Value, after: Value) -> bool:
    """Equal to the ten digits that numbers have."""
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        return abs(before - after) <= _EQUAL * max(abs(before), abs(after))
    return before == after


def _value(table: dict[Path, Leaf], path: Path) -> Value:
    """A part that is not listed is 0."""
    return table.get(path, 0 if path[0] == "fields" else None)


def _component(path: Path, before: Value, after: Value) -> Change:
    if path[0] == "fields":
        before, after = before or 0, after or 0
    return Change(path, before, after)


def _name(path: Path) -> str:
    if path[0] == "bounds":
        return f"{path[1]} alone"
    if path[0] == "fields":
        part = "" if path[3] == "total" else f": {path[3]}"
        return f"{path[2]} of {path[1]}{part}"
    return path[0].replace("_", " ") if path[0] not in UNITS else path[0]


def format_field(path: Path, value: Value) -> str:
    """A value as people read it: ``12.15 us``, ``75.0 %``, ``16×2×8``, ``1.573 M``."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "×".join(map(str, value))
    if isinstance(value, str):
        return value
    unit = unit_of(path)
    if unit == "%":
        return percent(value, signed=False)
    return format_quantity(float(value), unit) if unit else _format_count(float(value))


def _format_count(value: float) -> str:
    """``67``, ``1.573 M``."""
    if abs(value) < _LARGE:
        return format_quantity(value, "")
    scale, prefix = next(pair for pair in _COUNTS if abs(value) >= pair[0])
    return f"{value / scale:.4g} {prefix}"
