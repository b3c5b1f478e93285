"""The pytest plug-in: options, marker, the ``perf`` fixture, the terminal section.

This module imports the standard library and pytest only; everything else is imported by the
hook that needs it, so that a run without ``perf`` pays nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfassert.pytest_plugin import guesses, layout
from perfassert.pytest_plugin.baseline_options import add_options, is_strict
from perfassert.pytest_plugin.baselines import BASELINES, Baselines
from perfassert.pytest_plugin.reports import REPORTS, Reports
from perfassert.pytest_plugin.reports import add_options as add_report_options
from perfassert.pytest_plugin.strict import refuse_idle_runs
from perfassert.pytest_plugin.swallowed import PERF, swallowed_failures
from perfassert.pytest_plugin.toolchain import (
    NO_TOOLCHAIN,
    skips_without_toolchain,
    toolchain_of,
)
from perfassert.pytest_plugin.usage import USAGE
from perfassert.system.confined import FOLDER

if TYPE_CHECKING:
    from perfassert.pytest_plugin.ahead import AheadOfTests
    from perfassert.pytest_plugin.session import Perf

MARKER = (
    "perf(*, devices=None, xfail=None): devices that the test's `perf` fixture predicts for, "
    "instead of --perf-device and the ini key perf_devices; xfail maps a device to the reason "
    "why the test is expected to fail on it."
)
_WORKER_USAGE = pytest.StashKey[list[str]]()  # told by xdist workers, not yet printed
_AHEAD: pytest.StashKey[AheadOfTests] = pytest.StashKey()
_LAYOUT = pytest.StashKey[layout.Layout]()
_REWRITTEN = frozenset(("AssertionError", "@pytest_ar"))
"""Names in a function whose asserts pytest has rewritten."""
_NOT_OF_TESTS = {"perfassert", *sys.stdlib_module_names}
"""Packages whose frames below a test are no code of the test: we call the standard library, too."""
_OUTPUT_KEY = "perfassert_usage_errors"
_BASELINES = "__perf__"  # the folder has files of the same names


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, each with its twin in the ini file.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_addoption
    """
    group = parser.getgroup("perfassert", "predicted performance of GPU kernels")
    group.addoption(
        "--perf-device",
        action="append",
        default=None,
        metavar="NAME",
        help="device to predict for: a shipped name, an alias, or a device file (repeatable)",
    )
    group.addoption(
        "--perf-no-toolchain",
        choices=NO_TOOLCHAIN,
        default=None,
        help="what becomes of tests that need NVIDIA's compiler where it is not installed",
    )
    group.addoption(
        "--perf-toolchain",
        default=None,
        metavar="RELEASE",
        help="the CUDA release that compiles kernels which name none, as 12.4",
    )
    group.addoption(
        "--perf-confined",
        action="store_true",
        help="sources, headers and data lie below the root folder, or are refused",
    )
    add_options(parser, group)
    guesses.add_options(parser, group)
    layout.add_options(parser, group)
    add_report_options(parser, group)
    parser.addini("perf_devices", "devices to predict for, one per line", type="linelist")
    parser.addini("perf_no_toolchain", "fail (the default) or skip", default="fail")
    parser.addini("perf_toolchain", "CUDA release that compiles kernels which name none")
    parser.addini(
        "perf_confined", "sources, headers and data lie below the root folder", type="bool"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Keep imports away from the sources if the environment confines these.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_load_initial_conftests
    """
    if not os.environ.get(FOLDER):
        return
    from perfassert.errors import PerfAssertError
    from perfassert.system.python_children import isolate_imports

    try:
        isolate_imports()
    except PerfAssertError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and what gathers baselines and reports over the run.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_configure
    """
    config.addinivalue_line("markers", MARKER)
    confined = config.getoption("--perf-confined") or config.getini("perf_confined")
    if confined and not os.environ.get(FOLDER):
        os.environ[FOLDER] = str(config.rootpath)  # of the tools that we start, too
        config.add_cleanup(partial(os.environ.__delitem__, FOLDER))
    for read in (toolchain_of, skips_without_toolchain, guesses.mode_of):
        read(config)  # a value that is none ends the run here
    config.stash[USAGE] = []
    config.stash[_WORKER_USAGE] = []
    config.stash[_LAYOUT] = layout.layout_of(config)
    config.stash[BASELINES] = Baselines(config)
    config.stash[REPORTS] = Reports(config)
    parts = {"baselines": config.stash[BASELINES], "reports": config.stash[REPORTS]}
    for name, part in parts.items():
        if config.pluginmanager.register(part, f"perfassert-{name}") is None:
            raise pytest.UsageError(
                f"-p no:perfassert-{name} turns off a part of perfassert; turn off all of it with "
                "-p no:perfassert"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """``--perf-strict`` refuses runs that run no test.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_cmdline_main
    """
    if is_strict(config):
        refuse_idle_runs(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line about the engine, which decides how long predictions take.

    A session without devices has no line.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_report_header
    """
    if not (config.getoption("--perf-device") or config.getini("perf_devices")):
        return None
    from perfassert.pytest_plugin.header import line

    return line(toolchain_of(config))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """``*.perf.toml`` files are tests, but for those that hold baselines.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_collect_file
    """
    above = {file_path.parent.name, file_path.parent.parent.name}
    if not file_path.name.endswith(".perf.toml") or _BASELINES in above:
        return None
    from perfassert.errors import printable
    from perfassert.pytest_plugin.toml_items import PerfTomlFile

    relative = os.path.relpath(file_path, parent.config.rootpath).replace(os.sep, "/")
    nodeid = printable(relative, lines=False)  # which pytest prints
    if nodeid == relative:
        return PerfTomlFile.from_parent(parent, path=file_path)
    return PerfTomlFile.from_parent(parent, path=file_path, nodeid=nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with ``perf`` runs once per device.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_generate_tests
    """
    if "perf" not in metafunc.fixturenames:
        return
    from perfassert.errors import PerfAssertError
    from perfassert.pytest_plugin.devices import UsageProblem, device_parameters

    try:
        parameters = device_parameters(metafunc.definition, metafunc.config)
    except (UsageProblem, PerfAssertError) as error:
        metafunc.config.stash[USAGE].append(f"{metafunc.definition.nodeid}: {error}")
        parameters = []
    metafunc.parametrize("perf", parameters, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``-m perf`` means all tests with the fixture; devices that are none end the run here.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_collection_modifyitems
    """
    for item in items:
        if "perf" in getattr(item, "fixturenames", ()):
            item.add_marker("perf")  # behind those of the test: it says nothing of its own
    _warn_of_older_names(items, config.getoption("deselect") or ())
    problems = config.stash[USAGE]
    if not problems and (missing := _without_devices(items)):
        problems.append(missing)
    if not problems:
        return
    if hasattr(config, "workeroutput"):  # an xdist worker: the controller reports it
        config.workeroutput[_OUTPUT_KEY] = problems
        items.clear()
        return
    raise pytest.UsageError(_usage_message(problems))


def _without_devices(items: list[pytest.Item]) -> str:
    """Why the run cannot mean anything: none of its tests has a device."""
    parameters = [getattr(item, "callspec", None) for item in items]
    devices = [c.params["perf"] for c in parameters if c is not None and "perf" in c.params]
    devices += [d for item in items if (d := getattr(item, "perf_device", None)) is not None]
    if not devices:
        return ""
    from perfassert.pytest_plugin.devices import no_device_anywhere

    return no_device_anywhere(devices)


def _usage_message(problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more tests)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """An xdist worker has ended: what it found without meaning is told once.

    https://github.com/pytest-dev/pytest-xdist
    """
    problems = getattr(node, "workeroutput", {}).get(_OUTPUT_KEY, [])
    known = node.config.stash[_WORKER_USAGE]
    known.extend(p for p in problems if p not in known)


def pytest_runtestloop(session: pytest.Session) -> None:
    """Kernels of later tests are compiled while earlier ones run; workers of xdist leave the other
    cores to each other.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtestloop
    """
    config = session.config
    items = [item for item in session.items if item.get_closest_marker("perf")]
    if items and not config.option.collectonly and not hasattr(config, "workerinput"):
        from perfassert.pytest_plugin.ahead import AheadOfTests

        config.stash[_AHEAD] = AheadOfTests(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run whose workers found tests without meaning ends as a usage error.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_sessionfinish
    """
    if _AHEAD in session.config.stash:
        session.config.stash[_AHEAD].close()
    if session.config.stash.get(_WORKER_USAGE, []):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


@pytest.fixture
def perf(request: pytest.FixtureRequest) -> Perf:
    """Predict kernels on the device of this test: ``perf(kernel, domain=..., block=...)``."""
    from perfassert.pytest_plugin.devices import NoDevice
    from perfassert.pytest_plugin.session import Perf

    if isinstance(request.param, NoDevice):
        request.param.fail()
    made = request.node.stash[PERF] = Perf(request.param, request.node)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse checks of predictions that the test did not make, and skip a test without compiler.

    Tests are skipped under ``--perf-no-toolchain=skip``; tracebacks end where they leave the test.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_call
    """
    try:
        with _only_genuine(item), _compiling_ahead(item):
            result = yield
        _warn_of_no_expectation(item)
        return result
    except Exception as error:
        if type(error).__name__ == "ToolchainMissing" and skips_without_toolchain(item.config):
            pytest.skip(str(error))
        if type(error).__module__ == "perfassert" and not item.config.getoption("fulltrace"):
            _cut_own_frames(error)
        raise


def _cut_own_frames(error: Exception) -> None:
    """End the traceback of an error of ours where it leaves the test: the rest helps nobody."""
    last, frame = None, error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _NOT_OF_TESTS:
            last = frame
        frame = frame.tb_next
    if last is not None:
        last.tb_next = None
    error.__cause__, error.__suppress_context__ = None, True


def _warn_of_older_names(items: Iterable[pytest.Item], deselected: Sequence[str]) -> None:
    """Warn of each ``--deselect`` that means a test by the name that it had in version 0.3."""
    from perfassert.errors import PerfAssertWarning

    for given in deselected:
        for item in (i for i in items if not i.nodeid.startswith(given)):
            module = item.nodeid.removesuffix(item.name)
            if any(
                f"{module}{name}".startswith(given) for name in getattr(item, "older_names", ())
            ):
                text = f"--deselect leaves nothing out: since version 0.4 it is {item.nodeid}"
                item.warn(PerfAssertWarning(text))


def _warn_of_no_expectation(item: pytest.Item) -> None:
    """A test that predicts, and passes whatever the prediction is."""
    perf = item.stash.get(PERF, None)
    if perf is None or perf.expects or not perf.records:
        return
    code = getattr(getattr(item, "function", None), "__code__", None)
    asserts = code is not None and not _REWRITTEN.isdisjoint(code.co_names)
    if asserts or item.config.getoption("assertmode", "") == "plain":
        return
    from perfassert.errors import PerfAssertWarning

    item.warn(
        PerfAssertWarning(
            "it predicts and expects nothing, so it cannot fail: call .expect(...) or "
            "perf.no_regression(...)"
        )
    )


@contextmanager
def _only_genuine(item: pytest.Item) -> Generator[None, None, None]:
    """Expectations of a prediction that nobody made, or that was changed, are errors."""
    perf = item.stash.get(PERF, None)
    if perf is None:
        yield
        return
    from perfassert.expect.check import GATE

    token = GATE.set(perf.check_genuine)
    try:
        yield
    finally:
        GATE.reset(token)


def _compiling_ahead(item: pytest.Item) -> AbstractContextManager[None]:
    ahead = item.config.stash.get(_AHEAD, None)
    if ahead is None or PERF not in item.stash:
        return nullcontext()
    return ahead.of_test(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the predictions of a test to its report, which workers send.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_makereport
    """
    report = yield
    if report.when == "setup" and "perf" in getattr(item, "fixturenames", ()):
        report.perfassert_wanted = True  # type: ignore[attr-defined]
    perf = item.stash.get(PERF, None)
    if report.when == "call" and perf is not None:
        quiet = not (report.failed or hasattr(report, "wasxfail"))
        if quiet and (hidden := swallowed_failures(perf, report.outcome)):
            report.outcome, report.longrepr = "failed", hidden
        report.perfassert_failed = report.failed  # type: ignore[attr-defined]
        report.perfassert = perf.records  # type: ignore[attr-defined]
        report.perfassert_baselines = perf.baselines.records  # type: ignore[attr-defined]
        error = call.excinfo.value if call.excinfo else None
        item.config.stash[REPORTS].attach(report, item, perf, error)
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write a line for each prediction, and the usage errors that workers found.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_terminal_summary
    """
    if hasattr(config, "workerinput"):
        return
    problems = config.stash.get(_WORKER_USAGE, [])
    if problems:
        terminalreporter.write_line(f"ERROR: {_usage_message(problems)}", red=True)
    used = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "perfassert", None)
    ]
    if used:
        from perfassert.pytest_plugin.terminal import write_section

        write_section(terminalreporter, used, config.stash[_LAYOUT], toolchain_of(config))
