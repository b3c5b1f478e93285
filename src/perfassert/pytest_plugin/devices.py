"""Devices of a test: from its marker, else the command line, else the ini file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

from perfassert.errors import PerfAssertError
from perfassert.hardware.load import device as load_device

_MARKER_KEYS = ("devices", "xfail")
_NONE = (
    "no device given: use @pytest.mark.perf(devices=[...]), --perf-device NAME, or the ini key "
    "perf_devices"
)


class UsageProblem(Exception):
    """The command line or the ini file asks for something that has no meaning: the run ends."""


class CaseProblem(Exception):
    """A problem of one test that has no usable device: that test fails."""


@dataclass(frozen=True, slots=True)
class NoDevice:
    """Placeholder for the device of a test that has none, with the reason."""

    reason: str

    def fail(self) -> NoReturn:
        """Fail the test in its set-up, with the reason."""
        pytest.fail(self.reason, pytrace=False)


def no_device_anywhere(devices: Sequence[object]) -> str:
    """Return the problem of a run in which no test has a device; empty if one test has."""
    lacking = [d for d in devices if isinstance(d, NoDevice) and d.reason == _NONE]
    return _NONE if lacking and len(lacking) == len(devices) else ""


def device_parameters(node: pytest.Item | Any, config: pytest.Config) -> list[Any]:
    """Return one ``pytest.param`` per device of a test, with the device's name as id."""
    try:
        devices, expected_failures = _from_markers(node)
    except CaseProblem as problem:
        return [_no_device_parameter(problem)]
    return parameters(devices, expected_failures, config)


def parameters(
    devices: Sequence[str] | None, expected_failures: Mapping[str, str], config: pytest.Config
) -> list[Any]:
    """Return one ``pytest.param`` per device; ``expected_failures``: device → reason.

    A test that has no usable device has one parameter that fails it. :class:`UsageProblem`, or an
    error of the device file, where the run's own devices are wrong.
    """
    if devices is None:
        devices = _of_run(config)
        _parameters(devices, {})  # what is wrong with these is not of this test
    try:
        return _parameters(devices, expected_failures) or [_no_device_parameter(_NONE)]
    except (UsageProblem, PerfAssertError) as problem:
        return [_no_device_parameter(problem)]


def _of_run(config: pytest.Config) -> list[str]:
    """Return the devices of the command line, else of the ini file."""
    return config.getoption("--perf-device") or [
        _relative_to_ini(name, config) for name in config.getini("perf_devices")
    ]


def _no_device_parameter(problem: object) -> Any:
    return pytest.param(NoDevice(str(problem)), id="no device")


def _parameters(devices: Sequence[str], expected_failures: Mapping[str, str]) -> list[Any]:
    reasons = {load_device(name).name: str(why) for name, why in expected_failures.items()}
    parameters = []
    names: set[str] = set()
    for given in devices:
        name = load_device(given).name
        if name in names:
            raise UsageProblem(f"device {name} is given twice")
        names.add(name)
        marks = [expected_failure(reasons[name])] if name in reasons else []
        parameters.append(pytest.param(str(given), id=name, marks=marks))
    return parameters


def _relative_to_ini(name: str, config: pytest.Config) -> str:
    """A device file named in the ini file is looked for beside it."""
    if name.endswith(".toml") and config.inipath is not None:
        return str(config.inipath.parent / name)
    return name


def expected_failure(reason: str) -> pytest.MarkDecorator:
    """Return an ``xfail`` mark for failed expectations; a typo in one still fails the test."""
    return pytest.mark.xfail(reason=reason, raises=AssertionError)


def _from_markers(node: Any) -> tuple[list[str] | None, dict[str, str]]:
    devices: list[str] | None = None
    expected_failures: dict[str, str] = {}
    for mark in node.iter_markers("perf"):
        _check_marker(mark)
        if devices is None and mark.kwargs.get("devices") is not None:
            devices = list(mark.kwargs["devices"])
            if not devices:
                raise CaseProblem("marker perf: devices is empty")
        expected_failures = {**(mark.kwargs.get("xfail") or {}), **expected_failures}
    return devices, expected_failures


def _check_marker(mark: pytest.Mark) -> None:
    if mark.args:
        raise CaseProblem(f"marker perf takes no positional arguments, but has {mark.args!r}")
    for key in mark.kwargs:
        if key not in _MARKER_KEYS:
            known = ", ".join(_MARKER_KEYS)
            raise CaseProblem(f"marker perf has no argument {key!r}; known: {known}")
    devices, xfail = mark.kwargs.get("devices"), mark.kwargs.get("xfail")
    if isinstance(devices, str):
        raise CaseProblem(f"marker perf: devices must be a list, as in [{devices!r}]")
    if xfail is not None and not isinstance(xfail, Mapping):
        raise CaseProblem("marker perf: xfail must map a device to a reason")
