"""Baselines over a whole run: what tests report is gathered, and written once, at the end.

Tests, in this process or in xdist's workers, attach records to their reports; the controller
alone finds unused baselines, writes, and prints. Imports the standard library and pytest only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfassert.pytest_plugin.baseline_options import Mode, canonical_module_path, mode_of
from perfassert.pytest_plugin.strict import ENDED_WELL, restore_exit_status, selected_items

if TYPE_CHECKING:
    from perfassert.pytest_plugin.baseline_session import Result
    from perfassert.pytest_plugin.regression import Files

BASELINES = pytest.StashKey["Baselines"]()
_OUTPUT_KEY = "perfassert_modules"
_COLLECTED_KEY = "perfassert_collected"
_EXPECTED_KEY = "perfassert_expected"
_FOLDER = "__perf__"


class Baselines:
    """Registered as a plug-in of its own for the length of a run.

    ``modules``: those collected whole that have baselines beside them, by node ID.
    ``collected``: all that have tests, chosen or not, without their suffix.
    ``expected``: tests that were collected and that the command line does not leave out, in modules
    with baselines beside them: node ID → module. ``outcomes``: how each test ended.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.mode: Mode = mode_of(config)
        self.files: Files = {}
        self.records: list[dict[str, Any]] = []
        self.modules: dict[str, dict[str, Any]] = {}
        self.collected: set[str] = set()
        self.expected: dict[str, str] = {}
        self.broken: set[str] = set()
        self.outcomes: dict[str, str] = {}
        self.finished: set[str] = set()
        self.result: Result | None = None
        config.add_cleanup(self._restore_exit_status)  # behind all hooks
        self.session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, whose exit status is read at the end.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_sessionstart
        """
        self.session = session

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Note the tests to run, and the modules from which ``-k`` or ``-m`` drop none."""
        collected = list(items)
        before = Counter(_module(item.nodeid) for item in items)
        places = {_module(item.nodeid): item.path for item in items}
        self.collected = {canonical_module_path(path.with_suffix("")) for path in places.values()}
        yield
        if self.config.getoption("lf", False):  # drops tests while it collects
            return
        if self.mode.strict:
            for item in selected_items(self.config, collected):
                self.expected[item.nodeid] = str(item.path)
        after = Counter(_module(item.nodeid) for item in items)
        folders = {
            path.parent: (path.parent / _FOLDER / self.mode.name).is_dir()
            for path in places.values()
        }
        for module, path in places.items():
            if after[module] == before[module] and folders[path.parent]:
                self.modules[module] = {"path": str(path), "tests": after[module]}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what tests said about their baselines, and how they ended.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_logreport
        """
        self.records.extend(getattr(report, "perfassert_baselines", ()))
        if report.when == "call":
            hidden = getattr(report, "perfassert_failed", False) and not hasattr(report, "wasxfail")
            ended = report.passed or report.skipped  # else it is run again, or counts as failed
            (self.broken.add if hidden and ended else self.broken.discard)(report.nodeid)
        if report.when == "setup":
            self.outcomes[report.nodeid] = "passed"  # a test may be run again
        worse = report.failed or report.skipped  # or neither: it is run again
        if worse and self.outcomes.get(report.nodeid) != "failed":
            self.outcomes[report.nodeid] = report.outcome
        if report.when == "teardown":
            self.finished.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that cannot be collected, which fails the run.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_collectreport
        """
        if report.failed:
            self.broken.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """An xdist worker has ended: the modules that it collected whole are known.

        https://github.com/pytest-dev/pytest-xdist
        """
        output = getattr(node, "workeroutput", {})
        self.modules.update(output.get(_OUTPUT_KEY, {}))
        self.collected.update(output.get(_COLLECTED_KEY, ()))
        self.expected.update(output.get(_EXPECTED_KEY, {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Find unused baselines and write, in the controller alone.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_sessionfinish
        """
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[_OUTPUT_KEY] = self.modules
            self.config.workeroutput[_COLLECTED_KEY] = sorted(self.collected)
            self.config.workeroutput[_EXPECTED_KEY] = self.expected
            return
        if not (self.records or self.modules or self.mode.strict):
            return
        from perfassert.pytest_plugin.baseline_session import RunState, finish

        # else modules may be missing for that
        passed = session.exitstatus in ENDED_WELL and not self._failures()
        run_state = RunState(
            self.config, self.mode, tuple(self.records), self.outcomes, self._passed_whole(),
            frozenset(self.collected) if self.mode.strict and passed else None,
            self._never_run() if passed else {},
        )  # fmt: skip
        self.result = finish(run_state)
        if self.result.fails and session.exitstatus in ENDED_WELL:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Report baselines that were written, are unused, or could be tighter.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_terminal_summary
        """
        if self.result is not None:
            from perfassert.pytest_plugin.baseline_report import write_report

            write_report(terminalreporter, self.result)

    def _failures(self) -> list[str]:
        """Tests and modules that failed, whatever their reports say in the end."""
        failed = {nodeid for nodeid, outcome in self.outcomes.items() if outcome == "failed"}
        return sorted(failed | self.broken)

    def _never_run(self) -> dict[str, Path]:
        """Tests that were collected, that nobody deselected, and that did not come to an end."""
        return {n: Path(at) for n, at in self.expected.items() if n not in self.finished}

    def _restore_exit_status(self) -> None:
        """Restore the exit status of a strict run that failed, whatever a hook has made of it."""
        if self.session is None or not self.mode.strict or hasattr(self.config, "workerinput"):
            return
        gate = ["the check of baselines"] if self.result is not None and self.result.fails else []
        restore_exit_status(self.session, self._failures() + gate)

    def _passed_whole(self) -> dict[str, Path]:
        """Node ID → path of the modules of which every test was run and none failed."""
        ran = Counter(_module(nodeid) for nodeid in self.finished)
        failed = {_module(n) for n, outcome in self.outcomes.items() if outcome == "failed"}
        chosen = self._chosen_in_part()
        return {
            module: Path(facts["path"])
            for module, facts in sorted(self.modules.items())
            if ran[module] == facts["tests"] and module not in failed
            and Path(facts["path"]) not in chosen and None not in chosen
        }  # fmt: skip

    def _chosen_in_part(self) -> set[Path | None]:
        """Modules of which node IDs were given; None: they cannot be told."""
        parts = [arg.split("::")[0] for arg in self.config.args if "::" in arg]
        if parts and self.config.getoption("pyargs", False):
            return {None}
        folder = self.config.invocation_params.dir
        return {*((folder / p).resolve() for p in parts), *(folder / p for p in parts)}


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]
