"""Options for baselines, the mode that they select, and canonical paths of test modules."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfassert.pytest_plugin.settings import setting

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
UPDATES = ("all", "new", "prune", "model")


@dataclass(frozen=True, slots=True)
class Mode:
    """Options of a run that say which baselines are written and what fails.

    Attributes:
        all: write new and changed baselines.
        new: write new baselines.
        prune: remove unused baselines.
        model: write baselines of unchanged code that another version of the model made.
        diff: show the changes, and write nothing.
        strict: fail the run if a baseline is unused or its test did not run.
        ratchet: fail tests that are better than their baselines by more than the tolerance.
        name: name of alternative baselines; empty for the usual ones.
    """

    all: bool = False
    new: bool = False
    prune: bool = False
    model: bool = False
    diff: bool = False
    strict: bool = False
    ratchet: bool = False
    name: str = ""

    @property
    def writes(self) -> bool:
        """True if this run may write files of baselines."""
        return (self.all or self.new or self.prune or self.model) and not self.diff

    @property
    def words(self) -> list[str]:
        """Command-line arguments that select the same baselines."""
        return [f"--perf-baseline={self.name}"] if self.name else []


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Add the options for baselines, each with an ini setting of the same meaning."""
    for written, const, what in (
        ("--perf-update", "all", "write new and changed baselines to __perf__/"),
        ("--perf-update=new", "new", "write only new baselines; changed ones fail as ever"),
        ("--perf-update=prune", "prune", "drop baselines that no test asks for any more"),
        (
            "--perf-update=model",
            "model",
            "write anew the baselines that another version of the model made of the same code",
        ),
    ):  # an option per value: with an optional value, a bare --perf-update would take a path
        group.addoption(written, dest="perf_update", action="append_const", const=const, help=what)
    for name, what in (
        ("perf-diff", "show how baselines differ from what is predicted; write nothing"),
        ("perf-strict", "fail where baselines are unused, or tests that have one are not run"),
        (
            "perf-ratchet",
            "fail where a metric is better than its baseline by more than the tolerance",
        ),
        ("perf-update-in-ci", "let --perf-update write although the variable CI is set"),
    ):
        group.addoption(f"--{name}", action="store_true", default=False, help=what)
        parser.addini(name.replace("-", "_"), what, type="bool", default=False)
    what = "compare with and write baselines of this name, in __perf__/NAME/"
    group.addoption("--perf-baseline", metavar="NAME", help=what)
    parser.addini("perf_baseline", what, "string", default="")
    what = f"what --perf-update does, always: {', '.join(UPDATES)}"
    parser.addini("perf_update", what, type="args")


def mode_of(config: pytest.Config) -> Mode:
    """Read the mode from command line and ini file; raise :class:`pytest.UsageError` if invalid."""

    asked, diff = config.getoption("perf_update") or [], _is_set(config, "perf-diff")
    always = config.getini("perf_update")
    for word in always:
        if word not in UPDATES:
            raise pytest.UsageError(f"perf_update must be of {', '.join(UPDATES)}, not {word!r}")
    if _in_ci() and not _is_set(config, "perf-update-in-ci") and not diff:
        if asked:
            raise pytest.UsageError(
                "--perf-update writes no baselines under CI (the variable CI is set): run it where "
                "the change can be reviewed, or add --perf-update-in-ci"
            )
        always = []
    words = {*asked, *always}
    chosen = {word: word in words for word in UPDATES}
    ratchet = _is_set(config, "perf-ratchet")
    strict = is_strict(config)
    return Mode(**chosen, diff=diff, strict=strict, ratchet=ratchet, name=_name(config))


def is_strict(config: pytest.Config) -> bool:
    """Return True if the command line or the ini file sets ``--perf-strict``."""
    return _is_set(config, "perf-strict")


def _is_set(config: pytest.Config, name: str) -> bool:
    return bool(config.getoption(f"--{name}") or config.getini(name.replace("-", "_")))


def _name(config: pytest.Config) -> str:
    """Return the name of alternative baselines, a folder name of letters, digits, ., - and _."""
    name, where = setting(config, "--perf-baseline")
    if name and not _NAME.fullmatch(name):
        raise pytest.UsageError(
            f"{where}: {name!r} is no name; use letters, digits, '.', '-' and '_', as in cuda-13"
        )
    return str(name)


def _in_ci() -> bool:
    return os.environ.get("CI", "").strip().lower() not in ("", "0", "false", "no", "off")


def canonical_module_path(module: Path) -> str:
    """Return the path of a module with the symbolic links of its folder resolved."""
    return os.path.join(os.path.realpath(module.parent), module.name)
