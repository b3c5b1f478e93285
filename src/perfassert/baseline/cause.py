"""Why a prediction is slower than its baseline, from the two entries alone, so that pytest, two
reports, a history and a diff of launches say the same of the same pair.

A time is taken as the largest bound of any resource and what is exposed beside it:

    t = max(bounds) + e

What differs is reverted, one cause after the other: each says which bounds become what they were.
Exposed time that has grown is reverted with them: as much of it as of the growth of all bounds, if
that is as large. The cause that brings back most of the slowdown is named; where none does alone,
as two resources are busy alike, two of them are reverted together. Of causes that bring back as
much, the one that the others follow from is named: other arguments before spilled registers, and
those before the instructions that spilling takes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import inf, prod

from perfassert.baseline.compare import same_code
from perfassert.baseline.components import Change, components, same
from perfassert.baseline.entry import Entry
from perfassert.kernel_kind import KernelKind
from perfassert.predictor.judge.pairs import CONFIDENCE, TimedLaunch, probability
from perfassert.quantity import format_quantity
from perfassert.report.tables import is_factor, percent

_ASSUMED = re.compile(r"^(global|constant) 0x|^unknown|^local$")
"""Fields that are no buffer of the user's: what is said of them would mislead."""
_NEARLY = 0.85  # of what the best cause brings back: as good, if others follow from it
_CAUSE = 0.3  # of the slowdown: what brings back less is not called the cause
_MORE = 1.02  # times as much: less is no change
_COSTLIER = 1.2  # times as long as so many more instructions explain
_UNLIKE = 1.5  # times as much as instructions have grown by: another pattern of accesses
_SCATTERED = 4  # times the cycles: so many more for the same data are scattered accesses
_MUCH = 0.1  # of what a level serves: less is not what costs
_UNUSED = 10  # times fewer wavefronts: the rest is something else
_SERVED = {
    "dram_load": ("dram_load", "dram_store"), "dram_store": ("dram_load", "dram_store"),
    "l2_load": ("l2_load", "l2_store"), "l2_store": ("l2_load", "l2_store"),
    "l1_cycles": ("l1_cycles",),
}  # fmt: skip
"""A volume of a field → those that the same bound is made of."""
_LEVEL_OF = {name: name.partition("_")[0] for name in _SERVED}
_WAITS = ("latency", "parallelism")
_GUESSED = "guessed"


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that differs, in words; ``bounds``: resource → what its bound becomes, in seconds,
    if it is reverted; ``exposed``: likewise of the exposed time, as a factor, None where it follows
    from the bounds; ``field``: whose accesses it is about; ``doubles``: it is about arithmetic in
    double."""

    text: str
    bounds: Mapping[str, float] = field(default_factory=dict)
    exposed: float | None = None
    field: str = ""
    doubles: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a time has risen; ``causes``: one, or two that only together explain it; ``share``: of
    the slowdown that is gone without them."""

    rise: str
    causes: tuple[Cause, ...]
    share: float

    def __str__(self) -> str:
        if not self.causes:
            return f"{self.rise}: no single component explains it"
        named = " and ".join(cause.text for cause in self.causes)
        this = "this" if len(self.causes) == 1 else "both"
        gone = _percent(self.share)
        return f"{self.rise}: {named}; reverting {this} removes {gone} of the slowdown"


def explain(old: Entry, new: Entry, coalesced: Container[str] = frozenset()) -> Explanation | None:
    """Why the time of ``new`` is above that of ``old``; None where it is not.

    ``coalesced``: fields whose accesses are known to touch no sector too many now.
    """
    before, after = float(old.get("time", 0.0)), float(new.get("time", 0.0))
    if not 0 < before < after or same(before, after):
        return None
    pair = _Pair(old, new, coalesced)
    causes = tuple(_causes(old, new, pair))
    chosen: tuple[Cause, ...] = ()
    share = _CAUSE
    for count in (1, 2):
        options = [(one, pair.brought_back(one)) for one in combinations(causes, count)]
        most = max((gain for _, gain in options), default=0.0)
        if most > share and (count == 1 or most > share + _CAUSE):
            chosen, share = next((o, g) for o, g in options if g >= _NEARLY * most)
    return Explanation(_rise(old, new), chosen, share if chosen else 0.0)


def _rise(old: Entry, new: Entry) -> str:
    """``"time +12.3 %"``, and how sure it is that it is slower where that is not sure enough."""
    share = float(new["time"]) / float(old["time"]) - 1
    text = f"time {percent(share)}{' as long' if is_factor(share) else ''}"
    if new.get("confidence") == _GUESSED != old.get("confidence", _GUESSED):
        text += ", by a guess, which the baseline is not"
    likely = probability(_timed_launch(old), _timed_launch(new))
    if likely is None or likely >= CONFIDENCE:
        return text
    return f"{text} (only {_percent(likely)} sure that it is slower)"


def _timed_launch(entry: Entry) -> TimedLaunch:
    name, seconds = str(entry.get("kernel", "")), float(entry["time"])
    compiled = KernelKind.of_values("spill_bytes" in entry) is KernelKind.COMPILED
    return TimedLaunch(name, compiled, str(entry.get("limiter", "")), seconds)


def _percent(share: float) -> str:
    return f"{min(100.0, 100 * share):.0f} %"


class _Pair:
    """Times and bounds of both sides, and fields that are accessed coalesced on the new one."""

    def __init__(self, old: Entry, new: Entry, coalesced: Container[str]) -> None:
        self.before, self.after = float(old["time"]), float(new["time"])
        self.coalesced = coalesced
        self.old = {k: float(v) for k, v in old.get("bounds", {}).items() if k not in _WAITS}
        self.new = {k: float(v) for k, v in new.get("bounds", {}).items() if k not in _WAITS}

    def exposed_time(self, side: str) -> float:
        """The time beside the largest bound."""
        time, bounds = (self.before, self.old) if side == "old" else (self.after, self.new)
        return max(0.0, time - max(bounds.values(), default=0.0))

    def growth(self, before: Mapping[str, float]) -> float:
        """Return the sum by which bounds have grown since ``before``, in seconds."""
        return sum(max(0.0, t - before.get(name, 0.0)) for name, t in self.new.items())

    def brought_back(self, causes: tuple[Cause, ...]) -> float:
        """The share of the slowdown that is gone if these are reverted."""
        bounds, exposed = dict(self.new), self.exposed_time("new")
        for cause in causes:
            for name, seconds in cause.bounds.items():
                bounds[name] = min(bounds.get(name, 0.0), seconds)
            exposed *= 1.0 if cause.exposed is None else cause.exposed
        if all(cause.exposed is None for cause in causes):
            more = max(0.0, exposed - self.exposed_time("old"))
            whole = max(self.growth(self.old), more) or 1.0
            exposed -= more * min(1.0, self.growth(bounds) / whole)
        reverted = max(bounds.values(), default=0.0) + exposed
        return min(1.0, (self.after - reverted) / (self.after - self.before))


def _causes(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    """Yield the causes of a slowdown, a cause before its consequences."""
    yield from _other_launch(old, new, pair)
    yield from _spills(old, new, pair)
    yield from _conflicts(old, new, pair)
    yield from _revert_bound(pair, "atomics", "atomic operations")
    yield from _accesses(old, new, pair)
    yield from _residency(old, new, pair)
    yield from _doubles(old, new, pair)
    yield from _instructions(old, new, pair)
    yield from _waits(pair)
    if not same_code(old, new):
        yield from _other_blocks(old, new, pair, " and other code")


def _other_launch(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    """Yield changes of the launch, which are all of the slowdown if the code is the same.

    Blocks of another size beside other code come last, since either may be the cause.
    """
    is_same = same_code(old, new)
    everything = _all_bounds(pair)
    written = [str(e.get("arguments", "")) for e in (old, new)]
    arguments = written[0] != written[1] and _differing(*written)
    numbers = arguments and "[" not in arguments.partition(" ")[2].partition(",")[0]
    more = _ratio(old, new, "updates")
    if numbers and is_same:
        work = f" ({_times(more)} the work)" if more > _MORE else ""
        yield Cause(f"other arguments: {arguments}{work}", *everything)
    if more > _MORE and (is_same or _ratio(old, new, "l2_store") > _MORE):
        counts = " → ".join(f"{int(e['updates']):,}" for e in (old, new))
        part = {name: seconds / more for name, seconds in pair.new.items()}, 1 / more
        text = f"{_times(more)} the work, {counts} {_updates(new)}"
        yield Cause(text, *(everything if is_same else part))
    if is_same:
        yield from _other_blocks(old, new, pair)
    if arguments and (is_same or _ratio(old, new, "instructions") > _MORE):
        yield Cause(f"other arguments: {arguments}", *everything)
    blocks = [prod(e.get("grid", ())) for e in (old, new)]
    if is_same and blocks[0] != blocks[1]:
        yield Cause(f"a grid of {blocks[1]:,} instead of {blocks[0]:,} blocks", *everything)


def _other_blocks(old: Entry, new: Entry, pair: _Pair, beside: str = "") -> Iterator[Cause]:
    shapes = ["×".join(map(str, e.get("block", ()))) for e in (old, new)]
    if shapes[0] != shapes[1]:
        words = f"blocks of {shapes[1]} instead of {shapes[0]} threads{beside}"
        yield Cause(f"{words}{_occupancy(old, new)}", *_all_bounds(pair))


def _updates(entry: Entry) -> str:
    """Return the unit of the count: threads, or updates if a thread makes several."""
    threads = prod(entry.get("grid", ())) * prod(entry.get("block", ()))
    return "updates" if int(entry.get("updates", 0)) > threads else "threads"


def _all_bounds(pair: _Pair) -> tuple[Mapping[str, float], float]:
    exposed = pair.exposed_time("new")
    return pair.old, (pair.exposed_time("old") / exposed if exposed else 1.0)


def _spills(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    before, after = (int(e.get("spill_bytes", 0)) for e in (old, new))
    if after <= before:
        return
    sizes = " → ".join(format_quantity(float(n), "B") for n in (before, after))
    bounds, _ = _all_bounds(pair)
    kept = {name: t for name, t in bounds.items() if name not in ("compute", "shared")}
    if old.get("registers") == new.get("registers"):
        words = f"local memory: {sizes} per thread, an array that is indexed at run time or spills"
    else:
        words = f"spilled registers: {sizes} per thread{_registers(old, new)}"
    yield Cause(words, kept)


def _registers(old: Entry, new: Entry) -> str:
    return f", {old.get('registers')} → {new.get('registers')} registers"


def _conflicts(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    """Shared memory and the L1 are one unit, whose time their wavefronts and cycles share."""
    before, after = (float(e.get("shared_wavefronts", 0.0)) for e in (old, new))
    whole = after + float(new.get("l1_cycles", 0.0))
    if after > _MORE * before and whole:
        part = pair.new.get("shared", 0.0) * (after - before) / whole
        text = "accesses to shared memory"
        if before:
            text = f"{_times(after / before)} the wavefronts of shared memory"
            conflicts = after > _UNLIKE * before * _ratio(old, new, "instructions")
            text += " (bank conflicts)" if conflicts else ""
        yield Cause(text, {"shared": pair.new.get("shared", 0.0) - part})
    if before > _UNUSED * after:
        counts = " → ".join(f"{n:,.0f}" for n in (before, after))
        yield Cause(f"shared memory is hardly used any more: {counts} wavefronts", pair.old)


def _accesses(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    """More traffic of one field at any level, then of several, then more wavefronts of the L1."""
    changes = [c for c in components(old, new) if c.path[0] == "fields"]
    traffic = _Traffic(old, new, pair, changes)
    names = dict.fromkeys(c.path[1] for c in changes if not _ASSUMED.search(c.path[1]))
    each = (traffic.cause([c for c in changes if c.path[1] == name]) for name in names)
    grown = [cause for cause in each if cause is not None]
    grown.sort(key=lambda cause: -pair.brought_back((cause,)))
    yield from grown
    if len(grown) > 1:
        text = f"{grown[0].text}, and likewise of {', '.join(c.field for c in grown[1:3])}"
        every = [c for c in changes if any(c.path[1] == cause.field for cause in grown)]
        yield Cause(text, traffic.without(every), field=grown[0].field)
    more = _ratio(old, new, "l1_wavefronts")
    if more > _MORE:
        yield from _revert_bound(pair, "l1", f"{_times(more)} the wavefronts of the L1")


class _Traffic:
    """Growth of the traffic of fields, as shares of the traffic that each level serves.

    Traffic that only moves from one field to another costs nothing: a level's shares are scaled to
    its net growth. What the L1 takes longer without more cycles are fills, which loads from the L2
    bring.
    """

    def __init__(self, old: Entry, new: Entry, pair: _Pair, changes: list[Change]) -> None:
        self.old, self.new, self.pair = old, new, pair
        self.instructions = _ratio(old, new, "instructions")
        shares = [(_LEVEL_OF[c.path[2]], _share(c, new)) for c in changes if c.path[2] in _SERVED]
        self.net = {}
        for level in ("dram", "l2", "l1"):
            more = sum(share for name, share in shares if name == level and share > 0)
            net = sum(share for name, share in shares if name == level)
            self.net[level] = max(0.0, net) / more if more else 0.0
        cycles = max(1.0, _ratio(old, new, "l1_cycles"))
        self.fills = max(0.0, pair.new.get("l1", 0.0) - cycles * pair.old.get("l1", 0.0))
        loads = [c for c in changes if c.path[2] == "l2_load"]
        self.loaded = sum(max(0.0, _share(c, new)) for c in loads)

    def cause(self, changes: list[Change]) -> Cause | None:
        """Return the cause that one field is, or None if its traffic has not grown."""
        grown = [c for c in changes if c.path[2] in _SERVED and _share(c, self.new) > 0]
        if not grown:
            return None
        largest = max(grown, key=self._weight)
        return Cause(self._describe(largest), self.without(changes), field=largest.path[1])

    def _weight(self, change: Change) -> tuple[bool, bool, float]:
        """Return the sort key of a change: the largest is named.

        Traffic that has multiplied between threads and L2 comes before traffic of DRAM, which
        follows from it; scattered accesses come before the traffic that they cause in the L2.
        """
        factor, share = _factor(change), _share(change, self.new)
        much = _UNLIKE <= factor < inf and share >= _MUCH  # what is new has no factor
        multiplied = much and _LEVEL_OF[change.path[2]] != "dram"
        scattered = multiplied and change.path[2] == "l1_cycles" and self._is_scattered(change)
        return multiplied, scattered, factor if multiplied else share

    def _is_scattered(self, change: Change) -> bool:
        """Return True if an access takes more cycles than more or narrower accesses explain.

        For example, 4 times the cycles for loads of 4 instead of 16 bytes are no scattered loads.
        """
        factor, field = _factor(change), change.path[1]
        width = {"loads": "load_width", "stores": "store_width"}.get(change.path[3], "")
        narrower = max(1.0, 1 / _ratio(self.old, self.new, width))
        much = factor >= _SCATTERED * narrower and factor > _UNLIKE * self.instructions
        return much and field not in self.pair.coalesced

    def _describe(self, change: Change) -> str:
        """``"stores of out take 32 times the cycles of the L1 (uncoalesced)"``, or the volume."""
        _, name, metric, part = change.path
        if metric != "l1_cycles" or not change.before:
            return str(change)
        factor = _factor(change)
        why = " (uncoalesced)" if self._is_scattered(change) else ""
        return f"{part} of {name} take {_times(factor)} the cycles of the L1{why}"

    def without(self, changes: list[Change]) -> Mapping[str, float]:
        """The bounds without what these parts have grown by; shared memory is in the L1's unit."""
        bounds = {}
        for level, net in self.net.items():
            mine = (c for c in changes if _LEVEL_OF.get(c.path[2]) == level)
            more = net * sum(_share(c, self.new) for c in mine)
            bounds[level] = self.pair.new.get(level, 0.0) * (1 - min(1.0, max(0.0, more)))
        if self.loaded:
            mine = (c for c in changes if c.path[2] == "l2_load")
            part = sum(max(0.0, _share(c, self.new)) for c in mine) / self.loaded
            bounds["l1"] = max(0.0, bounds["l1"] - part * self.fills)
        saved = self.pair.new.get("l1", 0.0) - bounds["l1"]
        return {**bounds, "shared": max(0.0, self.pair.new.get("shared", 0.0) - saved)}


def _factor(change: Change) -> float:
    """Return new over old; infinite if the old value is 0."""
    before, after = float(change.before or 0), float(change.after or 0)  # type: ignore[arg-type]
    return after / before if before else inf


def _share(change: Change, new: Entry) -> float:
    """Return the growth of a part, as a share of the traffic of its level."""
    whole = sum(float(new.get(name, 0.0)) for name in _SERVED[change.path[2]])
    return (float(change.after or 0) - float(change.before or 0)) / whole if whole else 0.0  # type: ignore[arg-type]


def _instructions(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    more = _ratio(old, new, "instructions")
    slower = max((_bound_ratio(pair, name) for name in ("compute", "issue")), default=1.0)
    bounds = {name: pair.old.get(name, 0.0) for name in ("compute", "issue")}
    if slower > _COSTLIER * more:
        text = f"arithmetic keeps its pipelines busy for {_times(slower)} as long"
        yield Cause(f"{text}, at {_times(more)} the instructions", bounds)
    if more > _MORE:
        accesses = _ratio(old, new, "l1_wavefronts")
        alike = "; accesses grow alike" if accesses > 1 + 0.7 * (more - 1) else ""
        alike = " for the same accesses" if accesses < _MORE else alike
        yield Cause(f"{_times(more)} the instructions{alike}", bounds)


def _doubles(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    """Arithmetic in double, whose few pipelines warps wait for, whatever resource is busiest."""
    before, after = (int(e.get("double_instructions", 0)) for e in (old, new))
    if after > _MORE * before and after > before + 1:
        bounds, exposed = _all_bounds(pair)
        arithmetic = {name: bounds.get(name, 0.0) for name in ("compute", "issue")}
        text = f"arithmetic in double: {before} → {after} instructions of the code"
        yield Cause(text, arithmetic, exposed, doubles=True)


def _residency(old: Entry, new: Entry, pair: _Pair) -> Iterator[Cause]:
    """Registers and shared memory, which decide how many warps reside."""
    if _ratio(new, old, "occupancy") <= _MORE:
        return
    _, exposed = _all_bounds(pair)
    why = ""
    for key, words in (("registers", "registers"), ("shared_bytes", "bytes of shared memory")):
        if new.get(key, 0) > old.get(key, 0):
            why = f"{words} {old.get(key)} → {new.get(key)}"
            break
    before, after = (int(e.get("resident_blocks", 0)) for e in (old, new))
    let = f"{after} instead of {before} blocks reside" if before != after else ""
    text = f"{why} let {let}" if why and let else (why or let or "fewer warps reside")
    yield Cause(text + _occupancy(old, new), exposed=min(1.0, exposed))


def _waits(pair: _Pair) -> Iterator[Cause]:
    """Yield the growth of the time beyond the busiest resource."""
    before, after = pair.exposed_time("old"), pair.exposed_time("new")
    if after > _MORE * before:
        times = " → ".join(format_quantity(t, "s") for t in (before, after))
        share = before / after
        text = f"warps wait longer: {times} beyond the time of the busiest resource"
        yield Cause(text, exposed=share)


def _revert_bound(pair: _Pair, name: str, words: str) -> Iterator[Cause]:
    if _bound_ratio(pair, name) > _MORE:
        yield Cause(words, {name: pair.old.get(name, 0.0)})


def _bound_ratio(pair: _Pair, name: str) -> float:
    before, after = pair.old.get(name, 0.0), pair.new.get(name, 0.0)
    return after / before if before else (float("inf") if after else 1.0)


def _ratio(old: Entry, new: Entry, key: str) -> float:
    """New over old; 1 where one of them is not there or nothing."""
    before, after = old.get(key), new.get(key)
    return float(after) / float(before) if before and after else 1.0


def _times(ratio: float) -> str:
    """``"2.5 times"``, ``"1.04 times"``."""
    return f"{ratio:.3g} times"


def _occupancy(old: Entry, new: Entry) -> str:
    before, after = (float(e.get("occupancy", 0.0)) for e in (old, new))
    return f", occupancy {before:.0%} → {after:.0%}".replace("%", " %") if before != after else ""


def _differing(before: str, after: str) -> str:
    """The arguments that are not as they were."""
    old, new = (
        dict(part.partition("=")[::2] for part in text.split(", ")) for text in (before, after)
    )
    names = [name for name in new if old.get(name) != new[name]]
    names.sort(key=lambda name: "[" in new[name])  # buffers follow from numbers
    return ", ".join(f"{name} {old.get(name, 'none')} → {new[name]}" for name in names[:3])
