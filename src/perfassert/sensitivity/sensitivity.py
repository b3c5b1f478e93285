"""Sensitivity to the values of a device: each is changed, and kernels predicted again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfassert.errors import DeviceFileError, GraphError, LaunchError
from perfassert.hardware.entries import Grade, key_parts
from perfassert.hardware.model import Device
from perfassert.hardware.schema import CHOICES, VALUES
from perfassert.predictor.session import launch_model
from perfassert.predictor.simulate.time import launch_time
from perfassert.sensitivity.examples import EXAMPLES, Example, example

_BOUND_TO = "values.warp_size"
STEP = 0.2  # of a value, up and down; an integer moves by one at least


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Sensitivity of predicted times to one value of a device file.

    ``change``: relative change of the time of the example ``kernel`` whose time changes most; 0 if
    no time changes. It is None if no example shows it: the value is 0, belongs to an operation that
    no example has, or is the warp size, to which the code of the examples is bound.
    """

    key: str
    change: float | None
    kernel: str = ""


def sensitivities(device: Device, keys: Iterable[str]) -> tuple[Sensitivity, ...]:
    """Return the sensitivities to the values with these keys, largest first.

    A key is such as ``"values.l2_bytes"`` or ``"operations.fp32.issue"``. Each value is changed by
    :data:`STEP` in both directions, if the file is then still valid and the example can be
    launched.
    """
    cases = tuple(_cases(device))
    results = (_sensitivity(device, key, cases) for key in keys)
    return tuple(sorted(results, key=lambda s: (s.change is None, -(s.change or 0.0), s.key)))


def assumed_keys(device: Device) -> tuple[str, ...]:
    """List the keys of numbers that are graded ``assumed`` and follow no other."""
    words = {f"values.{key}" for key in CHOICES}
    numbers = (k for k in device.provenance if not k.startswith("curves.") and k not in words)
    grades = {key: device.provenance[key].grade for key in numbers}
    return tuple(
        key for key, grade in grades.items()
        if grade is Grade.ASSUMED and key not in device.references
    )  # fmt: skip


def device_value(device: Device, key: str) -> float:
    """The number behind a key, in base units."""
    section, name, part = key_parts(key)
    if section == "matrix":
        return device.matrix[name]
    return float(getattr(device, name) if section == "values"
                 else getattr(device.operations[name], part))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Case:
    """An example on the device as it is."""

    example: Example
    seconds: float

    def on(self, device: Device) -> float:
        """Seconds on another device."""
        return launch_time(launch_model(self.example.kernel, self.example.launch, device)).seconds


def _cases(device: Device) -> Iterator[_Case]:
    for name in EXAMPLES:
        case = _Case(example(name, device.warp_size), 0.0)
        try:
            yield replace(case, seconds=case.on(device))
        except (DeviceFileError, LaunchError, GraphError):
            continue  # the device lacks an operation, or room for the block


def _sensitivity(device: Device, key: str, cases: tuple[_Case, ...]) -> Sensitivity:
    section, name, _ = key_parts(key)
    concerned = [c for c in cases if section != "operations" or name in c.example.operations]
    worst = Sensitivity(key, None)
    for variant in _variants(device, key):
        for case in concerned:
            try:
                seconds = case.on(variant)
            except LaunchError:
                continue
            change = abs(seconds / case.seconds - 1)
            if worst.change is None or change > worst.change:
                worst = Sensitivity(key, change, case.example.kernel.name if change else "")
    return worst


def _variants(device: Device, key: str) -> tuple[Device, ...]:
    """With the value larger and smaller; by a factor of two where others hold it to multiples."""
    factors = ((1 + STEP, 1 / (1 + STEP)), (2.0, 0.5))
    by_factor = (tuple(_valid(device, key, pair)) for pair in factors)
    return next((variants for variants in by_factor if variants), ())


def _valid(device: Device, key: str, factors: Iterable[float]) -> Iterator[Device]:
    section, name, _ = key_parts(key)
    now = device_value(device, key)
    for factor in factors if now and key != _BOUND_TO else ():
        value = now * factor
        if section == "values" and VALUES[name].integer:
            value = max(round(value), round(now) + 1) if factor > 1 else min(int(value), now - 1)
        try:
            yield device.replace(**_change(device, key, value))
        except DeviceFileError:
            continue  # it would contradict another value


def _change(device: Device, key: str, value: float) -> Mapping[str, object]:
    section, name, part = key_parts(key)
    if section == "values":
        return {name: value}
    if section == "matrix":
        return {"matrix": {**device.matrix, name: value}}
    changed: dict[str, Any] = {part: value}
    operation = replace(device.operations[name], **changed)
    return {"operations": {**device.operations, name: operation}}
