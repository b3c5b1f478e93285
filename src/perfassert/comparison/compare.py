"""Comparison of two reports: status of each prediction (slower, new, …), and its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perfassert.baseline import compare as baselines
from perfassert.baseline.components import Change, Value, components, same
from perfassert.baseline.entry import BaselineKey, Entry, entry_of
from perfassert.baseline.tolerance import Tolerance, tolerances
from perfassert.baseline.why import explain_rise
from perfassert.comparison.line_changes import LineChange, line_changes
from perfassert.comparison.read import Place, PredictionKey, Reported, ReportFile
from perfassert.comparison.status import ORDER, Status, count
from perfassert.errors import ReportError
from perfassert.expect.metrics import METRICS

DEFAULT_TOLERANCE = "2 %"
_NONE: Mapping[str, str] = MappingProxyType({})


_OF_VERDICT = {
    baselines.Verdict.REGRESSED: Status.SLOWER,
    baselines.Verdict.IMPROVED: Status.FASTER,
    baselines.Verdict.WITHIN: Status.WITHIN,
    baselines.Verdict.SAME: Status.SAME,
}


@dataclass(frozen=True, slots=True)
class Item:
    """A compared prediction; ``base`` or ``head`` is None if that side does not have it.

    ``metrics`` holds the metrics that differ, time included. For a new prediction it holds all
    metrics. ``reason`` says why the prediction is slower, broken or incomparable.
    """

    key: PredictionKey
    status: Status
    base: Reported | None
    head: Reported | None
    metrics: tuple[Change, ...] = ()
    components: tuple[Change, ...] = ()
    reason: str = ""

    @property
    def reported(self) -> Reported:
        """Prediction of the head, or of the base if the head has none."""
        newest = self.head or self.base
        assert newest is not None
        return newest

    @property
    def lines(self) -> tuple[LineChange, ...]:
        """Lines of compiled code whose costs have changed."""
        if self.base is None or self.head is None:
            return ()
        return line_changes(self.base.lines, self.head.lines)

    @property
    def relative_change(self) -> float | None:
        """Relative change of the time from base to head; ``None`` without both times."""
        if self.base is None or self.head is None or not self.base.prediction.time:
            return None
        return float(self.head.prediction.time) / float(self.base.prediction.time) - 1

    @property
    def place(self) -> Place | None:
        """Costliest source line of :attr:`reported`, or the line of its test."""
        return self.reported.place

    @property
    def device(self) -> str:
        """Name of the device; both names if they differ."""
        sides = [side.prediction.device for side in (self.base, self.head) if side]
        return " → ".join(dict.fromkeys(sides))


@dataclass(frozen=True, slots=True)
class ReportComparison:
    """Comparison of the predictions of two files, worst first."""

    tolerance: Tolerance
    items: tuple[Item, ...]

    def of(self, *statuses: Status) -> tuple[Item, ...]:
        """Return the predictions with one of these statuses."""
        return tuple(item for item in self.items if item.status in statuses)

    @property
    def counts(self) -> Mapping[Status, int]:
        """Status → number of predictions, for statuses that occur."""
        return count(item.status for item in self.items)


def time_tolerance(text: str) -> Tolerance:
    """Parse a tolerance such as ``"2 %"``; raise :class:`ExpectationError` if it is invalid."""
    return tolerances(text, {})[0]["time"]


def compare(
    base: ReportFile,
    head: ReportFile,
    tolerance: Tolerance | None = None,
    incomparable: Mapping[str, str] = _NONE,
) -> ReportComparison:
    """Compare two reports, prediction by prediction.

    ``tolerance`` limits the growth of times, by default to :data:`DEFAULT_TOLERANCE`.
    ``incomparable``: test → why its predictions cannot be compared.

    Raises :class:`ReportError` for files that cannot be compared: a report and a single
    prediction, or different versions of the model.
    """
    wanted = {"time": tolerance or time_tolerance(DEFAULT_TOLERANCE)}
    if base.single != head.single:
        one, other = (base, head) if base.single else (head, base)
        raise ReportError(f"{one.path} is one prediction and {other.path} a report: incomparable")
    if base.model_version != head.model_version:
        raise ReportError(
            f"incomparable: {base.path} was made by version {base.model_version} of the model, "
            f"{head.path} by version {head.model_version}; make both with one version"
        )
    items = []
    for key in sorted({*base.predictions, *head.predictions}):
        old, new = base.predictions.get(key), head.predictions.get(key)
        if key.test in incomparable:
            reason = incomparable[key.test]
            items.append(Item(key, Status.INCOMPARABLE, old, new, reason=reason))
            continue
        head_failure, base_failure = head.why_missing(key.test), base.why_missing(key.test)
        items.append(_item(key, old, new, wanted, head_failure, base_failure))
    items.sort(key=lambda item: (ORDER[item.status], -abs(item.relative_change or 0.0), item.key))
    return ReportComparison(wanted["time"], tuple(items))


def _item(
    key: PredictionKey,
    base: Reported | None,
    head: Reported | None,
    wanted: Mapping[str, Tolerance],
    head_failure: str,
    base_failure: str,
) -> Item:
    """Return one compared prediction.

    ``head_failure`` says how the test or its file failed in the head, ``base_failure`` how it
    failed in the base. Each is ``""`` without a failure.
    """
    if base is None and base_failure:
        reason = f"the base is broken: {base_failure}"
        return Item(key, Status.INCOMPARABLE, base, head, reason=reason)
    if base is None:
        assert head is not None
        figures = _differences({}, _values(entry_of(head.prediction), head))
        return Item(key, Status.NEW, base, head, tuple(figures))
    if head is None:
        return Item(
            key,
            Status.BROKEN if head_failure else Status.GONE,
            base,
            head,
            reason=head_failure,
        )
    old, new = entry_of(base.prediction), entry_of(head.prediction)
    known = BaselineKey(key.test, key.label, key.device)
    if reason := _contradiction(base, head):
        return Item(key, Status.INCOMPARABLE, base, head, reason=reason)
    if key.device and (reason := baselines.foreign(known, old, new)):
        return Item(key, Status.INCOMPARABLE, base, head, reason=reason)
    (row,) = baselines.compare(known, old, new, wanted).rows
    status = _OF_VERDICT[row.verdict]
    slower = status is Status.SLOWER
    return Item(
        key,
        status,
        base,
        head,
        tuple(_differences(_values(old, base), _values(new, head))),
        components(old, new),
        explain_rise(old, new, head.prediction, base.prediction) if slower else "",
    )


def _contradiction(base: Reported, head: Reported) -> str:
    """Return a message if the same code, launched in the same way, has two times; else ``""``.

    One version of the model predicts one time for it, so one of the files was edited or damaged.
    """
    old, new = base.prediction, head.prediction
    if not old.question or old.question != new.question or same(float(old.time), float(new.time)):
        return ""
    return (
        f"the same code, launched in the same way, takes {old.time} in one file and {new.time} in "
        "the other, which one version of the model cannot predict: a file was edited or is "
        "damaged; write both again"
    )


def _values(entry: Entry, reported: Reported) -> dict[str, Value]:
    """Return the values of the metrics by name, those of plug-ins last."""
    own = {name: entry[name] for name in METRICS if name in entry}
    return {**own, **{k: v for k, v in reported.metrics.items() if k not in own}}


def _differences(base: Mapping[str, Value], head: Mapping[str, Value]) -> list[Change]:
    changes = (Change((name,), base.get(name), head.get(name)) for name in {**base, **head})
    return [change for change in changes if not same(change.before, change.after)]
