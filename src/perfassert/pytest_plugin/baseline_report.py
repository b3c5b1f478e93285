"""Terminal section "performance baselines"; it is omitted if no baseline needs attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from perfassert.baseline.components import format_field
from perfassert.baseline.entry import RANKING, BaselineKey, Entry
from perfassert.baseline.text import format_entry
from perfassert.pytest_plugin.baseline_options import Mode
from perfassert.pytest_plugin.baseline_session import WRITTEN, Record, Result
from perfassert.pytest_plugin.regression import relative

_SHOWN = 20  # rows of a table in the terminal


def write_report(reporter: Any, result: Result) -> None:
    """Write the section about baselines; lists are cut after 20 lines, unless ``-v`` is given."""
    parts = [
        _problems(result),
        _diff(result) if result.mode.diff else _written_lines(result),
        _model_lines(result),
        _launch_lines(result),
        _older_lines(result),
        _improved_lines(result),
        _unused_lines(result),
    ]
    shown = [list(part) for part in parts]
    if not any(shown):
        return
    reporter.section("performance baselines")
    for lines in shown:
        heading, *rest = lines or ("",)
        kept = rest if reporter.verbosity > 0 or result.mode.diff else rest[:_SHOWN]
        for line in (heading, *kept) if lines else ():
            red, green = line.startswith(("ERROR", "-")), line.startswith("+")
            reporter.write_line(line, red=red, green=green)
        if len(kept) < len(rest):
            reporter.write_line(f"… and {len(rest) - len(kept)} more; -v shows all")
    reporter.write_line(_tally(result))


def _tally(result: Result) -> str:
    counts: dict[str, int] = {}
    for record in result.records:
        counts[record.status] = counts.get(record.status, 0) + 1
    words = [f"{count} {status}" for status, count in sorted(counts.items())]
    if result.unused:
        words.append(f"{len(result.unused)} unused")
    return f"baselines: {', '.join(words) or 'none'}"


def _problems(result: Result) -> Iterator[str]:
    for problem in result.problems:
        yield f"ERROR: {problem}"


def _written_lines(result: Result) -> Iterator[str]:
    if not result.written:
        return
    files = ", ".join(_place(f, result) for f in result.written)
    yield f"written: {files}"
    for record in result.records:
        if record.file in result.written and record.status in WRITTEN:
            details = record.moved or _figures(record.new or {}) * (record.status == "new")
            moved = f": {details}" if details else ""
            yield f"  {record.status:8}{record.key}{moved}"
    for unused in result.unused:
        if unused.file in result.written and result.mode.prune:
            yield f"  dropped {unused.key}"


def _figures(entry: Entry) -> str:
    """Return the figures of a new baseline, which a reviewer has to judge."""
    if RANKING in entry:
        return f"best {entry[RANKING]['best']} of {len(entry[RANKING]['order'])}"
    return ", ".join(
        f"{name.replace('_', ' ')} {format_field((name,), entry[name])}"
        for name in ("time", "registers", "spill_bytes")
        if name in entry
    )


def _diff(result: Result) -> Iterator[str]:
    """Yield the lines of the files that an update would change; nothing is written."""
    lines: list[str] = []
    place: Path | None = None
    for record in result.records:
        changed = _changes(record, result.mode)
        if changed and record.file != place:
            place = record.file
            lines.append(_place(place, result))
        lines += changed
    if result.mode.prune:
        for unused in result.unused:
            lines += [_place(unused.file, result), f"- [{format_entry(unused.key, {})[0][1:-1]}]"]
    if lines:
        yield "--perf-diff: what an update would change; nothing was written"
        yield from lines
    else:
        yield "--perf-diff: an update would change nothing"


def _changes(record: Record, mode: Mode) -> list[str]:
    """Return the lines of one baseline that an update would remove or add.

    If no kind of update is requested, the lines are those that ``--perf-update`` would change.
    """
    left = (mode.new or mode.prune or mode.model) and not mode.all and record.status not in WRITTEN
    if left or record.new is None or record.new == record.old:
        return []
    after = format_entry(record.key, record.new)
    if record.old is None:
        return [f"+ {line}" for line in after]
    before = format_entry(record.key, record.old)
    lines = [f"  {after[0]}"]
    for tag, i, j, k, n in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [f"- {line}" for line in before[i:j]] + [f"+ {line}" for line in after[k:n]]
    return lines


def _model_lines(result: Result) -> Iterator[str]:
    """Yield lines about baselines that another version of the model wrote."""
    heading = "written by another version of the model; accept those whose code is unchanged"
    texts = [(r.key, r.model) for r in result.records if r.model]
    return _advise(heading, "--perf-update=model", texts, result)


def _launch_lines(result: Result) -> Iterator[str]:
    """Yield lines about kernels whose launches in the source differ from those in the baseline."""
    heading = "the source launches other grids or blocks: update the tests, then accept this"
    texts = [(r.key, r.launched) for r in result.records if r.launched and r.status not in WRITTEN]
    return _advise(heading, "--perf-update", texts, result)


def _older_lines(result: Result) -> Iterator[str]:
    """Yield lines about baselines that are stored under the test name of version 0.3."""
    heading = "stored under the name that version 0.3 gave the test; rename them"
    texts = [(r.key, str(r.older)) for r in result.records if r.older and r.status not in WRITTEN]
    return _advise(heading, "--perf-update", texts, result)


def _advise(
    heading: str, option: str, texts: Sequence[tuple[BaselineKey, str]], result: Result
) -> Iterator[str]:
    """Yield a heading with the command to run, and a line for each baseline; nothing if none."""
    if texts:
        yield f"{heading}: {_command(option, result)}"
    yield from (f"  {key}: {text}" for key, text in texts)


def _improved_lines(result: Result) -> Iterator[str]:
    """Yield lines about improved baselines.

    A baseline whose launch in the source has changed is left out: its time is that of a launch
    that the program no longer makes.
    """
    better = [r for r in result.records if r.status == "improved" and not r.launched]
    fails = ", which fails them (--perf-ratchet)" if result.mode.ratchet else ""
    known = [(r.key, r.moved) for r in better if not r.guessed]
    heading = f"better than their baselines{fails}; tighten them"
    yield from _advise(heading, "--perf-update", known, result)
    if guessed := [r for r in better if r.guessed]:
        missing = "give the missing values before you accept it"
        yield f"better than their baselines, but the prediction is a guess{fails}; {missing}"
        yield from (f"  {record.key}: {record.moved}" for record in guessed)


def _unused_lines(result: Result) -> Iterator[str]:
    pruned = result.mode.prune and result.mode.writes
    left = [u for u in result.unused if u.waits or not pruned]
    if not left:
        return
    fails = " fail the run (--perf-strict)" if result.mode.strict else ""
    yield f"unused baselines{fails}; drop them: {_command('--perf-update=prune', result)}"
    for unused in left:
        why = f" ({unused.why})" if unused.why else ""
        yield f"  {_place(unused.file, result)}: {unused.key}{why}"


def _command(option: str, result: Result) -> str:
    return f"pytest {option} {result.command}".strip()


def _place(file: Path, result: Result) -> str:
    return relative(file, result.folder)
