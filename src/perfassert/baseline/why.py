"""Why a prediction is slower than its baseline: what differs is reverted, one after the other, and
the launch predicted again; what removes the slowdown is the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from perfassert.baseline.compare import BaselineComparison
from perfassert.baseline.components import Change
from perfassert.baseline.entry import Entry
from perfassert.baseline.lines import cause_beyond_components
from perfassert.baseline.stalls import grown_stall
from perfassert.errors import PerfAssertError
from perfassert.kernel.description import CompiledKernel
from perfassert.prediction.prediction import Prediction
from perfassert.predictor.predict import predict
from perfassert.predictor.whatif import with_changes
from perfassert.report.tables import percent

_CAUSE = 0.3  # of the difference: what brings back less is not called the cause


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that differs, in words, and the changes that undo it."""

    text: str
    changes: Mapping[str, Any]


def why(
    comparison: BaselineComparison, prediction: Prediction, base: Prediction | None = None
) -> str:
    """One sentence, or ``""`` where the time has not risen.

    ``prediction``: what is compared with the baseline; it must know its kernel. ``base``: the
    prediction that it is compared with, where more is known of it than its baseline.
    """
    before, after = float(comparison.old["time"]), float(comparison.new["time"])
    if after <= before or prediction.origin is None:
        return ""
    best, reverted, share = None, None, _CAUSE
    for cause in _causes(comparison, prediction):
        try:
            other = predict(*with_changes(prediction, cause.changes))
        except PerfAssertError:
            continue  # the old value does not fit the new kernel
        brought_back = (after - float(other.time)) / (after - before)
        if brought_back > share + 1e-9:
            best, reverted, share = cause, other, brought_back
    rise = f"time {percent(after / before - 1)}"
    if best is None or reverted is None:
        return f"{rise}: {cause_beyond_components(prediction, base, before, after)}"
    removed = f"{min(100.0, 100 * share):.0f} %"
    parts = [f"{rise}: {best.text}; reverting this removes {removed} of the slowdown"]
    parts += _effects_of_cause(reverted, prediction)
    return "; ".join(parts)


def _causes(comparison: BaselineComparison, prediction: Prediction) -> Iterator[Cause]:
    old, new = comparison.old, comparison.new
    yield from _residency(old, new)
    if list(old["block"]) != list(new["block"]):
        shapes = ["×".join(map(str, e["block"])) for e in (old, new)]
        changes = {"block": tuple(old["block"]), "grid": tuple(old["grid"])}
        yield Cause(
            f"blocks of {shapes[1]} instead of {shapes[0]} threads{_occupancy_change(old, new)}",
            changes,
        )
    wavefronts = _ratio(old, new, "shared_wavefronts")
    if wavefronts > 1:
        classes = dict.fromkeys(("shared_load", "shared_store"), 1 / wavefronts)
        where = _hotspot(prediction, "Shared Bank Conflict Removal")
        yield Cause(
            f"{wavefronts:.3g} times the wavefronts of shared memory{where}", {"latency": classes}
        )
    for level, values in (
        ("dram", ("dram_bandwidth",)),
        ("l2", ("l2_bandwidth", "l2_port_bytes_per_cycle")),
    ):
        more = _ratio(old, new, f"{level}_volume")
        if more > 1:
            worst = _largest(comparison.components, level)
            text = str(worst) if worst is not None else f"{level}_volume {percent(more - 1)}"
            field = worst.path[1] if worst is not None and worst.path[0] == "fields" else ""
            yield Cause(text + _lines(prediction, field), dict.fromkeys(values, more))
    more = _ratio(old, new, "instructions")
    if more > 1:
        yield Cause(f"{percent(more - 1)} instructions", {"latency": _arithmetic(prediction, more)})


def _residency(old: Entry, new: Entry) -> Iterator[Cause]:
    """Registers and shared memory, which decide how many blocks reside."""
    for key, words in (("registers", "registers"), ("shared_bytes", "bytes of shared memory")):
        if new.get(key, 0) > old.get(key, 0):
            text = f"{words} {old[key]} → {new[key]}{_reside(old, new)}"
            yield Cause(text, {key: int(old[key])})


def _reside(old: Entry, new: Entry) -> str:
    before, after = (int(e["resident_blocks"]) for e in (old, new))
    return f" let {after} instead of {before} blocks reside" if before != after else ""


def _occupancy_change(old: Entry, new: Entry) -> str:
    before, after = (float(e["occupancy"]) for e in (old, new))
    return f", occupancy {before:.0%} → {after:.0%}" if before != after else ""


def _ratio(old: Entry, new: Entry, key: str) -> float:
    """New over old; 1 where one of them is not there or nothing."""
    before, after = old.get(key), new.get(key)
    return float(after) / float(before) if before and after else 1.0


def _largest(components: tuple[Change, ...], level: str) -> Change | None:
    """The field's part that has grown most."""
    grown = [
        c for c in components
        if c.path[0] == "fields" and c.path[2].startswith(f"{level}_")
    ]  # fmt: skip
    return max(grown, key=lambda c: float(c.after or 0) - float(c.before or 0), default=None)  # type: ignore[arg-type]


def _arithmetic(prediction: Prediction, more: float) -> dict[str, float]:
    """Classes that are issued to pipelines of the schedulers, faster by as much."""
    device = prediction.origin[2]
    return {
        name: 1 / more
        for name, o in device.operations.items()
        if device.pipelines[o.pipeline].value == "scheduler"
    }


def _hotspot(prediction: Prediction, optimizer: str) -> str:
    """Where the advisor sees it."""
    for advice in prediction.advice or ():
        if advice.optimizer == optimizer and advice.hotspots:
            return f" at {advice.hotspots[0]['def']}"
    return ""


def _lines(prediction: Prediction, field: str) -> str:
    """Where compiled code accesses a field."""
    kernel, launch, device = prediction.origin
    if not field or not isinstance(kernel, CompiledKernel):
        return ""
    bound, _ = kernel.bind(launch, device.arch, device.warp_size)
    spans = dict.fromkeys(a.span.short for a in bound.bound if a.field == field and a.span)
    return f" at {', '.join(list(spans)[:2])}" if spans else ""


def _effects_of_cause(before: Prediction, after: Prediction) -> list[str]:
    """The limiter, and the stall that has grown most since before the cause."""
    words = []
    if before.limiter != after.limiter:
        words.append(f"limited by {after.limiter} instead of {before.limiter}")
    stall = grown_stall(before.stalls, after.stalls)
    return [*words, stall] if stall else words
