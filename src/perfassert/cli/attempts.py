"""``advise --try``: what can be changed mechanically, made on a copy, compiled and predicted."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import chain, islice
from pathlib import Path
from typing import Any

from perfassert.cli.launches import RequestedLaunch
from perfassert.cli.source_edits import add_launch_bounds, add_restrict, relocate, unroll_loop
from perfassert.cli.sources import kernel_of
from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.facade.prediction import Prediction
from perfassert.quantity import round_significant
from perfassert.report.tables import Table, Text, join, table
from perfassert.system.temporary import temporary_folder

_LOOP = re.compile(r"loop at (.+):(\d+)")
_FACTORS = (4, 8, 2)
_FEWER = 8  # registers: the step in which compilers are asked for fewer
_TRIED_FOR = {
    "Fast Math": ("fast math",),
    "Strength Reduction": ("fast math",),
    "Loop Unrolling": ("unroll", "restrict"),
    "Code Reordering": ("restrict", "unroll"),
    "Register Reuse": ("more registers", "bounds"),
    "Occupancy Increase": ("fewer registers", "bounds"),
    "Memory Transaction Reduction": ("restrict", "cache"),
    "Coalescing": ("cache", "restrict"),
    "Thread Increase": ("block",),
    "Block Increase": ("block",),
    "Block Shape": ("block",),
}
"""What is tried for an optimizer's advice, the likeliest first."""
_ALWAYS = ("restrict", "unroll", "fast math", "bounds", "block", "fewer registers",
           "more registers", "cache")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attempt:
    """``options`` of the compiler, another ``text`` of the source, or another ``block``.

    ``optimizer``: whose advice it stands for, else empty.
    """

    what: str
    optimizer: str = ""
    options: tuple[str, ...] = ()
    text: str | None = None
    block: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt and what was predicted of it; ``error``: why nothing was."""

    attempt: Attempt
    estimate: float | None
    speedup: float | None
    error: str = ""
    patch: str = ""


def try_changes(
    work: RequestedLaunch, prediction: Prediction, options: argparse.Namespace, count: int
) -> tuple[Tried, ...]:
    """The first ``count`` attempts, those for the best advice first.

    Raises :class:`KernelSourceError` for what is not CUDA source.
    """
    source = Path(options.source)
    if source.suffix != ".cu":
        raise KernelSourceError(f"{source}: --try changes CUDA source and compiles it: give a .cu")
    text = source.read_text("utf-8")
    attempts: dict[tuple[object, ...], Attempt] = {}
    for attempt in _attempts(text, prediction, work.launch.block):
        key = attempt.options, attempt.text, attempt.block
        attempts.setdefault(key, attempt)
    return tuple(
        _predict_attempt(attempt, work, prediction, options, text)
        for attempt in islice(attempts.values(), count)
    )


def _attempts(text: str, p: Prediction, block: tuple[int, int, int]) -> Iterator[Attempt]:
    made = _Attempts(text, p, block)
    advised = [
        (way, a.optimizer) for a in p.advice or () for way in _TRIED_FOR.get(a.optimizer, ())
    ]
    for way, optimizer in chain(advised, ((way, "") for way in _ALWAYS)):
        yield from made.of(way, optimizer)


class _Attempts:
    def __init__(self, text: str, prediction: Prediction, block: tuple[int, int, int]) -> None:
        self.text = text
        self.p = prediction
        self.block = block

    def of(self, way: str, optimizer: str) -> Iterator[Attempt]:
        registers = self.p.resources.registers
        threads = self.block[0] * self.block[1] * self.block[2]
        if way == "fast math":
            yield Attempt("-use_fast_math", optimizer, ("-use_fast_math",))
        elif way == "cache":
            for policy in ("ca", "cg"):
                option = f"-Xptxas=-dlcm={policy}"
                yield Attempt(option, optimizer, (option,))
        elif way == "more registers" and self.p.resources.spill_bytes:
            yield self._limit(2 * registers, optimizer)
        elif way == "fewer registers" and registers > 2 * _FEWER:
            yield self._limit(registers - registers % _FEWER - _FEWER, optimizer)
        elif way == "block":
            yield from self._blocks(optimizer)
        elif way == "unroll":
            yield from self._unroll_attempts(optimizer)
        elif way == "restrict":
            yield from self._source_attempt(
                "__restrict__", add_restrict(self.text, self.p.kernel), optimizer
            )
        elif way == "bounds":
            edited = add_launch_bounds(self.text, self.p.kernel, threads)
            yield from self._source_attempt(f"__launch_bounds__({threads})", edited, optimizer)

    def _limit(self, registers: int, optimizer: str) -> Attempt:
        option = f"-maxrregcount={registers}"
        return Attempt(option, optimizer, (option,))

    def _source_attempt(self, what: str, text: str | None, optimizer: str) -> Iterator[Attempt]:
        if text is not None:
            yield Attempt(what, optimizer, text=text)

    def _blocks(self, optimizer: str) -> Iterator[Attempt]:
        x, y, z = self.block
        for block in ((2 * x, y, z), (x // 2, y, z), (2 * x, y // 2, z), (x // 2, 2 * y, z)):
            if min(block) > 0:
                yield Attempt(f"block {'×'.join(map(str, block))}", optimizer, block=block)

    def _unroll_attempts(self, optimizer: str) -> Iterator[Attempt]:
        """Loops that advice is about, the hottest first."""
        hot = [h for a in self.p.advice or () for h in (a.context, *a.hotspots)]
        places = (_LOOP.match(h.get("loop", "")) for h in hot)
        lines = dict.fromkeys(int(m.group(2)) for m in places if m)
        for line in lines:
            for factor in _FACTORS:
                what = f"#pragma unroll {factor}, line {line}"
                yield from self._source_attempt(
                    what, unroll_loop(self.text, line, factor), optimizer
                )


def _predict_attempt(
    attempt: Attempt,
    work: RequestedLaunch,
    before: Prediction,
    options: argparse.Namespace,
    text: str,
) -> Tried:
    from perfassert.facade.session import predict
    from perfassert.predictor.model import model_of
    from perfassert.predictor.rewrites.relaunching import resizable, same_work
    from perfassert.predictor.rewrites.whatif import with_changes

    advice = {a.optimizer: a.speedup for a in before.advice or ()}
    estimate = advice.get(attempt.optimizer)
    source = Path(options.source)
    with temporary_folder() as folder:
        copy = folder / source.name
        edited = text if attempt.text is None else attempt.text
        copy.write_text(edited, "utf-8")
        overrides = {
            "trip_count": [relocate(place, text, edited) for place in options.trip_count],
            "source": str(copy),
            "option": [*options.option, *attempt.options],
            "include_dir": [*options.include_dir, str(source.parent.resolve())],
        }
        try:
            kernel = kernel_of(argparse.Namespace(**{**vars(options), **overrides}))
            launch = work.launch
            if attempt.block is not None and not resizable(model_of(before).bound_launch.kernel):
                return Tried(attempt, estimate, None, "the code fixes the size of its blocks")
            if attempt.block is not None:
                launch = with_changes(before, _relaunch(launch, attempt.block))[1]
            after = predict(kernel, launch, work.device)
        except PerfAssertError as error:
            return Tried(attempt, estimate, None, f"{type(error).__name__}: {error}")
    if attempt.block is not None and not same_work(before, after):
        return Tried(attempt, estimate, None, "other blocks do other work")
    if "guessed" in (before.confidence, after.confidence):
        return Tried(attempt, estimate, None, "rests on guesses: give arguments, trip counts")
    speedup = float(before.time) / float(after.time)
    return Tried(attempt, estimate, speedup, patch=_patch(attempt, source, text))


def _relaunch(launch: Any, block: tuple[int, int, int]) -> dict[str, object]:
    """The same threads in blocks of another shape."""
    if launch.domain is not None:
        return {"block": block}
    pairs = zip(launch.grid, launch.block, block, strict=True)
    return {"block": block, "grid": tuple(-(-g * b // n) for g, b, n in pairs)}


def _patch(attempt: Attempt, source: Path, text: str) -> str:
    if attempt.text is None:
        return ""
    before, after = (t.splitlines(keepends=True) for t in (text, attempt.text))
    return "".join(unified_diff(before, after, f"a/{source.name}", f"b/{source.name}"))


def report(attempts: tuple[Tried, ...], band: float) -> Text:
    """What was tried, and patches of what is predicted to win more than ``band``."""
    rows = [
        (t.attempt.what, t.attempt.optimizer, _times(t.estimate), _times(t.speedup) or _short(t))
        for t in attempts
    ]
    header = ("tried on a copy", "advised by", "estimate", "predicted")
    parts: list[str | Table] = [table(header, rows)] if rows else ["Nothing could be tried."]
    for t in attempts:
        if t.speedup is not None and t.speedup > 1 + band:
            how = t.patch or f"  {t.attempt.what}"
            parts.append(f"{t.attempt.what}: {_times(t.speedup)} as fast\n{how}".rstrip())
    return join(parts)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _short(one: Tried) -> str:
    """The first line of an error."""
    return one.error.splitlines()[0][:80]


def to_data(attempts: tuple[Tried, ...]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "change": t.attempt.what,
            "optimizer": t.attempt.optimizer,
            "estimate": t.estimate,
            "speedup": None if t.speedup is None else round_significant(t.speedup),
            "error": t.error,
            "patch": t.patch,
        }
        for t in attempts
    ]
