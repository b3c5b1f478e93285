"""Checks of ``--perf-strict`` beyond unused baselines.

It refuses runs that run nothing, tests that were left out, and an exit status that is better than
the run was. Imports the standard library and pytest only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any

import pytest

_RUNS_NOTHING = {
    "collectonly": ("--collect-only", "--co"),
    "setuponly": ("--setup-only",),
    "setupplan": ("--setup-plan",),
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
    "markers": ("--markers",),
    "version": ("--version", "-V"),
    "help": ("--help", "-h"),
    "cacheshow": ("--cache-show",),
}
"""Options of pytest with which no test is run, by what they set."""
_CHOICES: Mapping[str, tuple[str, object]] = {
    "keyword": ("-k", ""),
    "markexpr": ("-m", ""),
    "deselect": ("--deselect", None),
}
"""What selects tests, by what it sets: the option, and what stands for none."""
_FROM_LAST_RUN = ("--lf", "--last-failed", "--sw", "--stepwise")
ENDED_WELL = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def refuse_idle_runs(config: pytest.Config) -> None:
    """Raise :class:`pytest.UsageError` where no test would be run and nobody has asked for that.

    An option on the command line is such a word, as editors say ``--collect-only`` to list tests,
    unless ``--perf-strict`` stands beside it.
    """
    typed = config.invocation_params.args
    for name, options in _RUNS_NOTHING.items():
        if not getattr(config.option, name, None):
            continue
        if config.getoption("--perf-strict") or not any(o in typed for o in options):
            raise pytest.UsageError(
                f"--perf-strict: {options[0]} runs no test, so that nothing is checked; take it "
                "from addopts, PYTEST_ADDOPTS or the command line"
            )


def selected_items(config: pytest.Config, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests that the command line selects among those that were collected.

    What an ini file, a variable, a plug-in or a conftest leaves out, nobody has asked to leave
    out. With ``--lf`` and ``--sw`` nothing can be told, so that nothing is expected.
    """
    typed = [str(word) for word in config.invocation_params.args]
    if any(word.startswith(_FROM_LAST_RUN) for word in typed):
        return []
    asked = copy(config)
    asked.option = copy(config.option)
    asked.hook = SimpleNamespace(pytest_deselected=lambda items: None)  # type: ignore[assignment]
    for name, (option, nothing) in _CHOICES.items():
        if not any(word.startswith(option) for word in typed):
            setattr(asked.option, name, nothing)
    left = list(items)
    for name in ("mark", "main"):  # the plug-ins of pytest that carry these options out
        plugin: Any = config.pluginmanager.get_plugin(name)
        if plugin is not None:
            plugin.pytest_collection_modifyitems(items=left, config=asked)
    return left


def restore_exit_status(session: pytest.Session, failures: Sequence[str]) -> None:
    """A run that failed ends so, whatever a hook has made of its exit status or its reports."""
    if not failures or session.exitstatus not in ENDED_WELL:
        return
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    sys.stderr.write(
        f"ERROR: --perf-strict: {failures[0]} failed{more}, and a plug-in or conftest.py hid it; "
        "the exit status is 1\n"
    )
