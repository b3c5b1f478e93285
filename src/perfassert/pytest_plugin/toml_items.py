"""``*.perf.toml`` files as pytest collects and runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from perfassert.errors import (
    ExpectationFailed,
    Interface,
    LaunchError,
    PerfAssertError,
    PerfFileError,
    printable,
)
from perfassert.perf_toml.cases import EVERY_DEVICE, Case, RankCase, TestCase
from perfassert.perf_toml.read import read_perf_file
from perfassert.pytest_plugin.devices import NoDevice, UsageProblem, expected_failure, parameters
from perfassert.pytest_plugin.regression import relative
from perfassert.pytest_plugin.swallowed import PERF
from perfassert.pytest_plugin.usage import USAGE

if TYPE_CHECKING:
    from perfassert.facade.prediction import Prediction
    from perfassert.pytest_plugin.session import Perf


class PerfTomlFile(pytest.File):
    """A ``*.perf.toml`` file, which has an item for each case and device."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the items of the file; a file that cannot be used is a collection error."""
        shown = relative(self.path, self.config.invocation_params.dir)
        if "::" in self.nodeid:
            raise self.CollectError(
                f"{printable(shown, lines=False)}: pytest takes what follows :: for the name of a "
                "test; rename the file or folder"
            )
        try:
            cases = read_perf_file(self.path, shown)
        except PerfFileError as error:
            raise self.CollectError(str(error)) from None
        for case in cases:
            yield from self._items(case)

    def _items(self, case: Case) -> Iterator[pytest.Item]:
        header = case.header
        try:
            devices = parameters(header.devices, {}, self.config)
        except (UsageProblem, PerfAssertError) as error:
            self.config.stash[USAGE].append(f"{self.nodeid}::{header.name}: {error}")
            return
        for given in devices:
            name = header.case_id(given.id)
            yield PerfTomlItem.from_parent(self, name=name, case=case, device=given)


class PerfTomlItem(pytest.Item):
    """A case of a ``*.perf.toml`` file on one device."""

    def __init__(self, *, case: Case, device: Any, **more: Any) -> None:
        super().__init__(**more)
        self.case = case
        (self.perf_device,) = device.values
        self._device_id = device.id
        self.add_marker(pytest.mark.perf)
        skip, xfail = case.header.skip, case.header.xfail
        # The author's own `skip = "why"` of this test, as pytest.mark.skip is in Python.
        if reason := skip.get(device.id) or skip.get(EVERY_DEVICE):
            self.add_marker(pytest.mark.skip(reason=printable(reason)))
        if reason := xfail.get(device.id) or xfail.get(EVERY_DEVICE):
            self.add_marker(expected_failure(printable(reason)))

    @property
    def older_names(self) -> tuple[str, ...]:
        """The names that version 0.3 had for this test, if they were others.

        It never cut a name, and ``init`` named a test after the whole name of its kernel.
        """
        headers = [self.case.header]
        if isinstance(self.case, TestCase):
            as_kernel = re.sub(r"\W+", "_", self.case.kernel.name).strip("_")
            headers.append(replace(self.case.header, name=as_kernel))
        names = (header.whole_id(self._device_id) for header in headers)
        return tuple(name for name in names if name != self.name)

    def setup(self) -> None:
        """The engines are loaded here, not when the file is collected."""
        from perfassert.pytest_plugin.session import Perf

        if isinstance(self.perf_device, NoDevice):
            self.perf_device.fail()
        self.stash[PERF] = Perf(self.perf_device, self)

    def runtest(self) -> None:
        """Predict, and run the checks of the case."""
        perf = self.stash[PERF]
        if isinstance(self.case, RankCase):
            _rank(perf, self.case)
        else:
            _check_case(perf, self.case)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, line and name of the case."""
        return self.path, self.case.header.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of a failure; errors of perfassert are shown without a traceback."""
        ours = isinstance(excinfo.value, (PerfAssertError, ExpectationFailed))
        return super().repr_failure(excinfo, style="value" if ours and not style else style)


def _check_case(perf: Perf, case: TestCase) -> None:
    with _locate_errors(
        case.header.locate(case.launch_key), source=case.header.locate(case.kernel_key)
    ):
        prediction = perf(case.kernel, case.launch, allow_guesses=case.header.allow_guesses)
    checks: list[_Check] = []
    if case.baseline is not None:
        compare = partial(perf.no_regression, prediction, **case.baseline)
        checks.append(_Check(case.header.place("baseline"), compare))
    if case.expect:
        failing = partial(_failing, prediction, case)
        expect = partial(prediction.expect, **case.expect)
        checks.append(_Check(case.header.place("expect"), expect, failing))
    _run_checks(checks)


def _failing(prediction: Prediction, case: TestCase) -> Iterator[str]:
    from perfassert.expect.check import FAIL, UNDECIDED, evaluate

    conditions = {name: c for name, c in case.expect.items() if name != UNDECIDED}
    outcomes = evaluate(prediction, conditions, case.expect.get(UNDECIDED, FAIL))
    for name, outcome in zip(conditions, outcomes, strict=True):
        if not outcome.passed:
            yield case.header.place(f"expect.{name}")


def _rank(perf: Perf, case: RankCase) -> None:
    with _locate_errors(case.header.locate(case.header.key)):
        ranking = perf.rank(case.candidates, allow_guesses=case.header.allow_guesses)
    checks: list[_Check] = []
    if case.tolerance is not None:
        compare = partial(perf.no_regression, ranking, case.tolerance)
        checks.append(_Check(case.header.place("baseline"), compare))
    if case.claims:
        expect = partial(ranking.expect, **case.claims)
        checks.append(_Check(case.header.place("expect"), expect))
    _run_checks(checks)


class _Check(NamedTuple):
    """An assertion of a test and its place; ``failing`` yields the keys that do not hold."""

    place: str
    run: Callable[[], object]
    failing: Callable[[], Iterator[str]] | None = None


def _run_checks(checks: Sequence[_Check]) -> None:
    """Run all checks, and raise what failed, in one message where several did.

    An error of one outweighs a failed expectation of another, which an xfail would accept.
    """
    __tracebackhide__ = True
    failures: list[PerfAssertError | ExpectationFailed] = []
    for check in checks:
        try:
            with _locate_errors(check.place, check.failing):
                check.run()
        except (PerfAssertError, ExpectationFailed) as failure:
            failures.append(failure)
    if failures:
        first = next((f for f in failures if isinstance(f, PerfAssertError)), failures[0])
        others = [str(f) for f in failures if f is not first]
        first.args = ("\n\n".join([str(first), *others]),)
        raise first


@contextmanager
def _locate_errors(
    place: str, failing: Callable[[], Iterator[str]] | None = None, source: str = ""
) -> Iterator[None]:
    """Errors begin with ``place``, failures end with it, or with the places of ``failing``.

    ``source``: where the kernel is described, if errors of its code are to be expected.
    """
    __tracebackhide__ = True
    try:
        yield
    except PerfAssertError as error:
        at = source if source and not isinstance(error, LaunchError) else place
        error.args = (f"{at}: {error.text_for(Interface.TABLE)}",)
        raise
    except ExpectationFailed as failure:
        places = "\n".join(failing() if failing else (place,))
        failure.args = (f"{failure}\n\n{places}",)
        raise
