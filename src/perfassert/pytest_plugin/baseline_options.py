"""Options about baselines, and what they come to."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

UPDATES = ("all", "new", "prune")


@dataclass(frozen=True, slots=True)
class Mode:
    """``all``: write new and changed baselines; ``new``: only new; ``prune``: drop unused ones.

    ``diff``: show instead of writing. ``strict``: unused baselines fail the run.
    """

    all: bool = False
    new: bool = False
    prune: bool = False
    diff: bool = False
    strict: bool = False

    @property
    def writes(self) -> bool:
        """Whether files may change."""
        return (self.all or self.new or self.prune) and not self.diff


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Each with its twin in the ini file."""
    for written, const, what in (
        ("--perf-update", "all", "write new and changed baselines to __perf__/"),
        ("--perf-update=new", "new", "write only new baselines; changed ones fail as ever"),
        ("--perf-update=prune", "prune", "drop baselines that no test asks for any more"),
    ):  # three options, so that a path after a bare --perf-update stays a path
        group.addoption(written, dest="perf_update", action="append_const", const=const, help=what)
    for name, what in (
        ("perf-diff", "show how baselines differ from what is predicted; write nothing"),
        ("perf-strict", "fail where baselines are unused"),
        ("perf-update-in-ci", "let --perf-update write although the variable CI is set"),
    ):
        group.addoption(f"--{name}", action="store_true", default=False, help=what)
        parser.addini(name.replace("-", "_"), what, type="bool", default=False)
    parser.addini("perf_update", "what --perf-update does, always: all, new, prune", type="args")


def mode_of(config: pytest.Config) -> Mode:
    """From command line and ini file; :class:`pytest.UsageError` for what must not be."""

    def flag(name: str) -> bool:
        return bool(config.getoption(f"--{name}") or config.getini(name.replace("-", "_")))

    asked, diff = config.getoption("perf_update") or [], flag("perf-diff")
    always = config.getini("perf_update")
    for word in always:
        if word not in UPDATES:
            raise pytest.UsageError(f"perf_update must be of {', '.join(UPDATES)}, not {word!r}")
    if _in_ci() and not flag("perf-update-in-ci") and not diff:
        if asked:
            raise pytest.UsageError(
                "--perf-update writes no baselines under CI (the variable CI is set): run it where "
                "the change can be reviewed, or add --perf-update-in-ci"
            )
        always = []
    words = {*asked, *always}
    chosen = {word: word in words for word in UPDATES}
    return Mode(**chosen, diff=diff, strict=flag("perf-strict"))


def _in_ci() -> bool:
    return os.environ.get("CI", "").strip().lower() not in ("", "0", "false", "no", "off")
