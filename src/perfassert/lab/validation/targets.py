"""Targets of a suite's figures, metric by metric, and which of them are met."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from perfassert.errors import close_matches
from perfassert.lab.validation.statistics import Summary
from perfassert.lab.validation.suite import MetricSpec
from perfassert.report.tables import percent
from perfassert.toml.tables import TableReader


class Figure(NamedTuple):
    """A figure of a :class:`Summary`, which is its ``attribute``.

    ``least``: a target bounds it from below. ``share``: it is written in percent.
    """

    heading: str
    attribute: str
    least: bool = False
    share: bool = True

    def value(self, summary: Summary) -> float | None:
        """Return the figure; ``None`` if it is not defined."""
        number: float | None = getattr(summary, self.attribute)
        return number

    def format(self, number: float | None) -> str:
        """Return the figure as text, ``–`` if there is none."""
        if number is None:
            return "–"
        return percent(number, signed=False) if self.share else f"{number:.3f}"

    def is_met(self, number: float | None, target: float) -> bool:
        """Return True if the figure is as good as the target; an undefined figure is not."""
        if number is None:
            return False
        return number >= target if self.least else number <= target


FIGURES: Mapping[str, Figure] = {
    "median": Figure("median", "median"),
    "mean": Figure("mean", "mean"),
    "percentile_90": Figure("90th percentile", "percentile_90"),
    "spearman": Figure("Spearman", "spearman", least=True, share=False),
    "kendall": Figure("Kendall", "kendall", least=True, share=False),
    "regret": Figure("regret", "regret"),
    "order": Figure("right order", "pairs_right", least=True),
}
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def read_targets(
    reader: TableReader, value: Any, metrics: tuple[MetricSpec, ...]
) -> dict[str, dict[str, float]]:
    """Read ``[targets.METRIC]`` tables: figures by name; raises :class:`SuiteError`."""
    tables = reader.section("targets", value)
    names = [spec.name for spec in metrics]
    targets = {}
    for name, entry in tables.items():
        key = f"targets.{name}"
        if name not in names:
            hint = close_matches(name, names) or f"; it has {', '.join(names)}"
            reader.fail(key, f"the suite has no metric {name!r}{hint}")
        table = reader.section(key, entry)
        reader.check_keys(key, table, FIGURES)
        targets[name] = {k: _target(reader, f"{key}.{k}", FIGURES[k], v) for k, v in table.items()}
    return targets


def _target(reader: TableReader, key: str, figure: Figure, value: Any) -> float:
    if figure.share:
        match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            reader.fail(key, f"must be a percentage as a string, as in '5 %', not {value!r}")
        target = float(match[1]) / 100
    else:
        target = reader.number(key, value)
    if figure.least and not 0 <= target <= 1:
        most = "100 %" if figure.share else "1"
        reader.fail(key, f"must lie between 0 and {most}, not {value!r}")
    return target
