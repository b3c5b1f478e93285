"""``perfassert history`` and ``perfassert bisect``: baselines over the commits that wrote them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.terminal import progress, say
from perfassert.errors import printable
from perfassert.quantity import Quantity
from perfassert.report.tables import Table, Text, join, percent, table

if TYPE_CHECKING:
    from perfassert.comparison.history import BaselineHistory, Commit, History, TimeStep

_HEADER = ("test", "device", "commits", "first", "last", "change", "largest slowdown")


def add(commands: Any) -> None:
    """Register both commands."""
    parser = add_command(
        commands, "history", "baselines over the commits of a repository",
        "How each baseline changed from commit to commit, with the cause where the files tell it.",
        "", "tests/perf --range v1.0..HEAD --html history.html",
    )  # fmt: skip
    parser.add_argument("path", nargs="?", type=Path, default=Path("."), help="a folder or a file")
    parser.add_argument("--range", default="HEAD", help="commits, as v1.0..HEAD (default: HEAD)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that shows them")
    parser.set_defaults(command=_history)
    parser = add_command(
        commands, "bisect", "the commit that made a baseline slower",
        "Finds the commit between a fast and a slow one at which the baseline of a test got worse, "
        "from the baseline files in the history: nothing is built or run.",
        "test_copy v1.0 HEAD",
    )  # fmt: skip
    parser.add_argument("test", help="as in the baselines: test_copy, test_copy[16]")
    parser.add_argument("good", nargs="?", help="a commit that is fast enough")
    parser.add_argument("bad", nargs="?", help="one that is not (default: HEAD)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_bisect)


def _history(options: argparse.Namespace) -> int:
    from perfassert.comparison.history import history

    with progress("commits") as bar:
        commit_history = history(options.path, options.range, bar)
    if options.html:
        from perfassert.comparison.history_page import history_page
        from perfassert.report.files import replace_file

        replace_file(options.html, history_page(commit_history, options.range))
        print(f"written: {options.html}", file=sys.stderr)
    if options.json:
        print(json.dumps(_to_dict(commit_history)))
    elif not options.html:
        say(_history_table(commit_history))
    return 0


def _bisect(options: argparse.Namespace) -> int:
    """Return 0 if a commit is found, 1 if none made the test slower."""
    from perfassert.comparison.history import history, steps_of_test

    end = options.bad or "HEAD"
    with progress("commits") as bar:
        steps = steps_of_test(history(Path("."), end, bar), options.test)
    if options.good:
        wanted = _between(options.good, end)
        steps = [(line, step) for line, step in steps if step.commit.digest in wanted]
    slower = [(line, step) for line, step in steps if (step.relative_change or 0.0) > 0]
    if options.json:
        print(json.dumps([{"device": ln.key.device, **_step(s)} for ln, s in slower]))
    elif not slower:
        say(f"no commit made {options.test} slower")
    else:
        line, step = slower[0]
        change = f"time {percent(step.relative_change or 0.0)}: {step.cause}"
        say(f"{_format_commit(step.commit)}\n{line.key}: {change}")
    return 0 if slower else 1


def _between(good: str, bad: str) -> set[str]:
    from perfassert.comparison.revisions import check_revision, git_text

    check_revision(good)
    return set(git_text("rev-list", f"{good}..{bad}").split())


def _format_commit(commit: Commit) -> str:
    return printable(f"{commit.digest[:12]} {commit.date[:10]} {commit.author}: {commit.subject}")


def _history_table(history: History) -> Text:
    parts: list[str | Table] = []
    if history.lines:
        parts.append(table(_HEADER, [_history_row(line) for line in history.lines]))
    parts.append(f"{len(history.lines)} baseline{'s' * (len(history.lines) != 1)}")
    parts += [f"unreadable: {text}" for text in history.unreadable]
    return join(parts)


def _history_row(line: BaselineHistory) -> tuple[object, ...]:
    first, last = (Quantity(line.times[i][1], "s") for i in (0, -1))
    worst = max(line.steps, key=lambda s: s.relative_change or 0.0, default=None)
    worst_text = ""
    if worst is not None and (worst.relative_change or 0.0) > 0:
        worst_text = (
            f"{percent(worst.relative_change or 0.0)} {worst.commit.digest[:8]} "
            f"{worst.commit.subject[:40]}"
        )
    return (
        line.name, line.key.device, len(line.times), first, last,
        percent(line.loss) if line.loss else "", worst_text,
    )  # fmt: skip


def _to_dict(history: History) -> dict[str, Any]:
    return {
        "baselines": [_line_to_dict(line) for line in history.lines],
        "unreadable": [*history.unreadable],
    }


def _line_to_dict(line: BaselineHistory) -> dict[str, Any]:
    return {
        "file": line.file,
        "baselines": line.alternative,
        **line.key._asdict(),
        "loss": line.loss,
        "times": [{"commit": c.digest, "date": c.date, "time": t} for c, t in line.times],
        "steps": [_step(step) for step in line.steps],
    }


def _step(step: TimeStep) -> dict[str, Any]:
    commit = step.commit
    return {
        "commit": commit.digest,
        "date": commit.date,
        "author": commit.author,
        "subject": commit.subject,
        "time": {"base": step.before, "head": step.after, "difference": step.relative_change},
        "cause": step.cause,
        "reason": step.reason,
    }
