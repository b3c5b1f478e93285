"""``--perf-report``: what tests predicted is gathered, and written once, at the end of the session.

Tests, in this process or in xdist's workers, attach plain data to their reports; the controller
alone writes. Imports the standard library, pytest and the table of kinds only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfassert.pytest_plugin.settings import setting
from perfassert.report.kinds import OTHER_NAMES, list_kinds

if TYPE_CHECKING:
    from perfassert.pytest_plugin.session import Perf

REPORTS = pytest.StashKey["Reports"]()
_OPTION = "--perf-report"
_NOT_RUN = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR)


@dataclass(frozen=True, slots=True)
class Target:
    """A report file to be written; ``shown``: its path as the user gave it."""

    format: str
    path: Path
    shown: str


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Add the options for reports, each with an ini setting of the same meaning."""
    what = f"write a report at the end: {list_kinds()}"
    group.addoption(_OPTION, action="append", metavar="FORMAT:PATH", help=f"{what} (repeatable)")
    parser.addini("perf_report", f"{what}, one per line, unless --perf-report says", "linelist")
    what = "reports have stalls and advice of every prediction, which takes a simulation each"
    group.addoption("--perf-report-advice", action="store_true", default=False, help=what)
    parser.addini("perf_report_advice", what, type="bool", default=False)


class Reports:
    """Registered as a plug-in of its own for the length of a run.

    ``tests``: the latest record of each, by node ID. ``errors``: what was not collected or set up.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.targets = tuple(_targets(config))
        _check_junit_path(config)
        self.advice = bool(
            config.getoption("--perf-report-advice") or config.getini("perf_report_advice")
        )
        self.tests: dict[str, Mapping[str, Any]] = {}
        self.errors: set[str] = set()
        self.written: list[Target] = []
        self.problems: list[str] = []

    def attach(self, report: pytest.TestReport, item: pytest.Item, perf: Perf, error: Any) -> None:
        """Add what the test predicted to its report, as text that every worker can send."""
        if self.targets:
            from perfassert.pytest_plugin.evidence import evidence

            data = evidence(item, perf, error, self.advice)
            report.perfassert_test = json.dumps(data)  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a test's record; one that is run again replaces its own.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_logreport
        """
        if report.when == "setup" and getattr(report, "perfassert_wanted", False):
            (self.errors.add if report.failed else self.errors.discard)(report.nodeid)
        written = getattr(report, "perfassert_test", None)
        if written and not _is_worker(self.config):
            test = json.loads(written)
            self.tests[test["nodeid"]] = {**test, "outcome": outcome(report)}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that cannot be collected, for the reports.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_collectreport
        """
        if report.failed:
            self.errors.add(report.nodeid)

    @pytest.hookimpl(trylast=True)  # when the exit status is known
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; one that cannot be written fails a run that passed.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_sessionfinish
        """
        if not self.targets or _is_worker(self.config) or session.exitstatus in _NOT_RUN:
            return
        if self.config.option.collectonly:
            return
        from perfassert.errors import PerfAssertError
        from perfassert.pytest_plugin.report_formats import write

        for target in self.targets:
            try:
                tests, root = self.tests.values(), self.config.rootpath
                passed = session.exitstatus == pytest.ExitCode.OK
                write(target.format, target.path, tests, self.errors, root, passed)
            except PerfAssertError as error:
                self.problems.append(str(error))
            else:
                self.written.append(target)
        if self.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the paths of the reports, and the reason why one is missing.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_terminal_summary
        """
        for problem in self.problems:
            terminalreporter.write_line(f"ERROR: --perf-report: {problem}", red=True)
        if self.written and terminalreporter.verbosity >= 0:
            files = ", ".join(target.shown for target in self.written)
            terminalreporter.write_line(f"performance reports: {files}")


def outcome(report: pytest.TestReport) -> str:
    """Return the outcome of the test, with ``xfailed`` and ``xpassed`` for expected failures."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return str(report.outcome)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _targets(config: pytest.Config) -> list[Target]:
    """Paths of the command line are from where it was typed, others from the ini file."""
    given, name = setting(config, _OPTION)
    folder = config.invocation_params.dir
    if name != _OPTION:
        folder = config.rootpath if config.inipath is None else config.inipath.parent
    targets: list[Target] = []
    for text in given:
        target = _target(text, folder, name)
        if any(target.path == other.path for other in targets):
            raise pytest.UsageError(f"{name}: {target.shown} is to be written twice")
        targets.append(target)
    return targets


def _target(text: str, folder: Path, setting_name: str) -> Target:
    format_, colon, shown = (part.strip() for part in text.partition(":"))
    if not colon or not shown or not format_:
        raise pytest.UsageError(
            f"{setting_name}: {text!r} is not FORMAT:PATH, as in json:perf.json"
        )
    format_ = OTHER_NAMES.get(format_, format_)
    _check_format(format_, setting_name)
    path = folder / Path(shown).expanduser()
    _check_links(setting_name, shown, path)
    if path.exists() and not path.is_file():
        raise pytest.UsageError(f"{setting_name}: {shown} is not a file; name one to write")
    return Target(format_, path, shown)


def _check_junit_path(config: pytest.Config) -> None:
    """pytest writes this report itself, at the path that it makes of the option."""
    if given := getattr(config.option, "xmlpath", None):
        path = os.path.abspath(os.path.expanduser(os.path.expandvars(given)))
        _check_links("--junit-xml", given, Path(path))


def _check_links(option: str, shown: str, path: Path) -> None:
    """End the run before anything is written through a link of a stranger."""
    from perfassert.errors import PerfAssertError
    from perfassert.system.confined import leads_elsewhere

    try:
        reason = leads_elsewhere(path)
    except PerfAssertError as error:
        raise pytest.UsageError(str(error)) from None
    if reason:
        raise pytest.UsageError(f"{option}: {shown}: {reason}")


def _check_format(name: str, setting_name: str) -> None:
    from perfassert.errors import PluginError
    from perfassert.pytest_plugin.report_formats import check_format

    try:
        check_format(name)
    except PluginError as error:
        raise pytest.UsageError(f"{setting_name}: {error}") from None
