"""baseline + prediction → verdict: regressions, improvements, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from perfassert.baseline.components import Change, components, same
from perfassert.baseline.entry import CHECKSUM, RANKING, UNKNOWN, BaselineKey, Entry
from perfassert.baseline.tolerance import Tolerance
from perfassert.errors import BaselineError, ExpectationError
from perfassert.expect.metrics import METRICS
from perfassert.frontends.toolchain.names import short_name
from perfassert.report.tables import is_factor, percent, table

_LARGER_IS_BETTER = frozenset({"occupancy"})
_DIGITS = 8  # of a share in percent, behind the point
_NAMED = 3  # metrics in the headline; the table has all of them
_LAUNCHES = 3  # of a kernel that are shown
_LISTED = 8  # components in a failure; all of them would bury the table
SLIGHT = 5e-4
"""A change that would be shown as 0.0 %."""


class Verdict(str, Enum):
    """Result of the comparison of one metric."""

    SAME = "same"
    WITHIN = "ok"
    IMPROVED = "improved"
    REGRESSED = "REGRESSION"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A compared metric, with its tolerance and the verdict."""

    change: Change
    tolerance: Tolerance
    verdict: Verdict

    @property
    def metric(self) -> str:
        """Its name."""
        return self.change.metric

    def cells(self) -> tuple[str, ...]:
        """Return the row for the table of a failure."""
        difference = "" if self.verdict is Verdict.SAME else self._difference
        values = self.change.values
        return (self.metric, *values, difference, self.tolerance.text, self.verdict.value)

    @property
    def _difference(self) -> str:
        """The change as a share, with as many digits as tell it from the tolerance."""
        share, text = self.change.relative_change, self.change.percent_text
        side = self.tolerance.above if share and share > 0 else self.tolerance.below
        if share is None or abs(share) <= side.share or self.verdict is Verdict.WITHIN:
            return text
        for digits in range(1, _DIGITS):
            if abs(float(f"{100 * share:.{digits}f}")) > 100 * side.share:
                return text if digits == 1 else f"{100 * share:+.{digits}f} %"
        return text

    def __str__(self) -> str:
        metric, before, after, difference, *_ = self.cells()
        return f"{metric} {before} → {after}{difference and f' ({difference})'}"


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A baseline beside what is predicted now."""

    key: BaselineKey
    old: Entry
    new: Entry
    rows: tuple[MetricRow, ...]

    def of(self, verdict: Verdict) -> tuple[MetricRow, ...]:
        """The metrics with that verdict."""
        return tuple(row for row in self.rows if row.verdict is verdict)

    @property
    def components(self) -> tuple[Change, ...]:
        """Components in which the two entries differ."""
        return components(self.old, self.new)


def other_model(key: BaselineKey, old: Entry, new: Entry) -> str:
    """Tell which versions of the model made the two, or return ``""`` if it is one version."""
    if old["model_version"] == new["model_version"]:
        return ""
    changed = f", with another device file of {key.device}"
    return (
        f"it was made by version {old['model_version']} of the model, and this is version "
        f"{new['model_version']}{changed if old['device_digest'] != new['device_digest'] else ''}"
    )


def same_code(old: Entry, new: Entry) -> bool:
    """Tell whether both are known to be of the same code."""
    return bool(old["kernel_digest"] == new["kernel_digest"] != UNKNOWN)


def other_compilers(old: Entry, new: Entry) -> str:
    """Tell which compilers made other code of the two, or return ``""``.

    Example:
        >>> other_compilers({"compilers": "nvcc 13.0 with gcc 12.2", "kernel_digest": "a"},
        ...                 {"compilers": "nvrtc 13.5", "kernel_digest": "b"})
        'compiled otherwise: nvcc 13.0 with gcc 12.2 → nvrtc 13.5'
    """
    before, after = old.get("compilers"), new.get("compilers")
    if not before or not after or before == after or same_code(old, new):
        return ""
    return f"compiled otherwise: {before} → {after}"


def other_launches(old: Entry, new: Entry) -> str:
    """Tell how the source launches the kernel now, if that has changed, or return ``""``.

    Example:
        >>> other_launches({"source_launches": "copy<<<n / 256, 256>>>"},
        ...                {"source_launches": "copy<<<n / 32, 32>>>"})
        'the source now has copy<<<n / 32, 32>>>, was copy<<<n / 256, 256>>>'
    """
    before, after = old.get("source_launches"), new.get("source_launches")
    if before is None or before == after:
        return ""
    now, then = (text.split("; ") if text else [] for text in (after or "", before))
    added = _list_launches([launch for launch in now if launch not in then])
    gone = _list_launches([launch for launch in then if launch not in now])
    if added:
        return f"the source now has {added}" + (f", was {gone}" if gone else "")
    return f"the source no longer has {gone}" if gone else ""


def _list_launches(launches: Sequence[str]) -> str:
    more = len(launches) - _LAUNCHES
    return "; ".join(launches[:_LAUNCHES]) + (f" and {more} more" if more > 0 else "")


def fewer_threads(old: Entry, new: Entry) -> str:
    """Ask whether the domain has shrunk, where as many blocks have fewer threads; else ``""``.

    Example:
        >>> fewer_threads({"grid": [64, 1, 1], "block": [192, 1, 1]},
        ...               {"grid": [64, 1, 1], "block": [32, 1, 1]})
        'as many blocks of 32×1×1 threads, were 192×1×1: do they still cover the domain?'
    """
    blocks: list[list[int]] = [entry.get("block", []) for entry in (old, new)]
    if old.get("grid") != new.get("grid") or prod(blocks[1]) >= prod(blocks[0]):
        return ""
    before, after = ("×".join(map(str, block)) for block in blocks)
    return f"as many blocks of {after} threads, were {before}: do they still cover the domain?"


def foreign(key: BaselineKey, old: Entry, new: Entry) -> str:
    """Why the two cannot be compared, or ``""``: they are of different device files for one version
    of the model, one is a ranking, or the baseline is not what was written."""
    if (RANKING in old) != (RANKING in new):
        return "only one of the two is a ranking"
    one_model = old["model_version"] == new["model_version"]
    if one_model and old["device_digest"] != new["device_digest"]:
        return (
            f"the device file of {key.device} has changed since "
            f"({old['device_digest']}, now {new['device_digest']})"
        )
    if CHECKSUM in old:
        return (
            "a value is not the one that was written: it was edited by hand, or the file is "
            f'damaged (to accept the edit, delete its line {CHECKSUM} = "{old[CHECKSUM]}")'
        )
    return ""


def other_kernel(old: Entry, new: Entry, was: str | None = None) -> str:
    """Why the two are of different kernels, or ``""``.

    A kernel is known by its name, with template arguments, or by what it computes: code that only
    was renamed has the same digest. ``was``: the name that it had in the baseline.
    """
    before, after = old.get("kernel", ""), new["kernel"]
    if same_code(old, new) or before in (after, was):
        return ""
    if not before:
        return f"it names no kernel, and this prediction is of {after!r}"
    return f"it is of kernel {before!r}, and this prediction is of kernel {after!r}"


def compare(
    key: BaselineKey,
    old: Entry,
    new: Entry,
    wanted: Mapping[str, Tolerance],
    named: frozenset[str] = frozenset(),
) -> BaselineComparison:
    """Compare an entry with its baseline, metric by metric.

    A metric that this kernel cannot have is skipped, unless it is among those ``named`` explicitly:
    then an :class:`ExpectationError` is raised. A metric that only the baseline lacks raises a
    :class:`BaselineError`, unless an earlier version of the model did not have it.
    """
    rows = []
    for metric, tolerance in wanted.items():
        if metric not in new:
            if metric in named:
                needs = METRICS[metric].needs
                kernel = new["kernel"]
                raise ExpectationError(f"{metric}: kernel {kernel!r} cannot have it; {needs}")
            continue
        if metric not in old:
            if metric not in named and old["model_version"] != new["model_version"]:
                continue
            raise BaselineError(
                f"the baseline of {key} has no {metric}; write it anew with pytest --perf-update"
            )
        rows.append(_metric_row(metric, tolerance, old[metric], new[metric]))
    if not rows:
        raise ExpectationError(f"{key}: none of {', '.join(wanted)} exists for this kernel")
    return BaselineComparison(key, old, new, tuple(rows))


def _metric_row(
    metric: str, tolerance: Tolerance, before: float | str, after: float | str
) -> MetricRow:
    if isinstance(before, str) or isinstance(after, str):
        verdict = Verdict.SAME if before == after else Verdict.REGRESSED
    else:
        verdict = _verdict(metric, tolerance, before, after)
    return MetricRow(Change((metric,), before, after), tolerance, verdict)


def _verdict(metric: str, tolerance: Tolerance, before: float, after: float) -> Verdict:
    if same(before, after):
        return Verdict.SAME
    rises = after > before
    margin = (tolerance.above if rises else tolerance.below).around(before)
    if abs(after - before) <= margin:
        return Verdict.WITHIN
    better = rises == (metric in _LARGER_IS_BETTER)
    return Verdict.IMPROVED if better else Verdict.REGRESSED


def failure_text(comparison: BaselineComparison, why: str, next_step: str) -> str:
    """Headline, why, the compared metrics, what differs, and what to do next.

    The headline has the regressions; without any, the improvements that have to be accepted.
    """
    new = comparison.new
    failing = comparison.of(Verdict.REGRESSED) or comparison.of(Verdict.IMPROVED)
    headline = "; ".join(_headline(row) for row in failing[:_NAMED])
    if len(failing) > _NAMED:
        headline += f"; and {len(failing) - _NAMED} more"
    block = "×".join(map(str, new["block"]))
    header = ("metric", "baseline", "predicted", "difference", "tolerance", "verdict")
    return "\n\n".join(
        [
            f"{headline} ({short_name(new['kernel'])} on {comparison.key.device}, block {block})",
            *([why] if why else []),
            str(table(header, [row.cells() for row in comparison.rows])),
            _differences_text(comparison),
            next_step,
        ]
    )


def _headline(row: MetricRow) -> str:
    _, before, after, difference, tolerance, _ = row.cells()
    if row.verdict is Verdict.IMPROVED:
        relative = row.change.relative_change
        share = f"{percent(abs(relative), signed=False)} " if relative else ""
        return (
            f"{row.metric} is {after}, {share}better than the baseline {before} "
            f"(allowed: {tolerance})"
        )
    if not difference:
        return f"{row.metric} is {after}, was {before}"
    to = "" if is_factor(row.change.relative_change or 0.0) else "to "
    return f"{row.metric} is {after}, {difference} {to}the baseline {before} (allowed: {tolerance})"


def _differences_text(comparison: BaselineComparison) -> str:
    """The components that differ as a table, and whether the kernel does."""
    unchanged = comparison.old["kernel_digest"] == comparison.new["kernel_digest"]
    title = f"what differs ({'the kernel is the same' if unchanged else 'the kernel has changed'})"
    changes = differences(comparison.old, comparison.new)
    if not changes:
        return f"{title}: no component"
    rows = [(c.name, *c.values, c.percent_text) for c in changes[:_LISTED]]
    more = f"\n… and {len(changes) - _LISTED} more" if len(changes) > _LISTED else ""
    header = ("component", "baseline", "predicted", "difference")
    return f"{title}:\n{table(header, rows)}{more}"


def differences(old: Entry, new: Entry) -> tuple[Change, ...]:
    """The components that differ visibly; times last, as they follow from the others."""
    listed = [c for c in components(old, new) if not _is_slight(c, new)]
    return tuple(sorted(listed, key=lambda c: c.path[0] == "bounds"))


def _is_slight(c: Change, new: Entry) -> bool:
    """Return True if a change rounds to zero or is a negligible part of its volume."""
    if isinstance(c.before, (int, float)) and isinstance(c.after, (int, float)):
        size = abs(c.after - c.before)
        whole = new.get(c.path[2], 0) if c.path[0] == "fields" else c.before
        return size <= SLIGHT * abs(float(whole))
    return False
