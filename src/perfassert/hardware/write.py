"""Writing of a device as the text of a complete device file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfassert.hardware.entries import Provenance
from perfassert.hardware.model import Device
from perfassert.hardware.schema import CHOICES, COSTS, MATRIX_RATE, VALUES, ValueRule
from perfassert.toml.text import format_key, format_string, format_table, format_value


def device_toml(device: Device) -> str:
    """Return the text of a device file that extends no other.

    :func:`~perfassert.device` reads the same values from it.
    """
    return "\n".join(_file_lines(device)) + "\n"


def _file_lines(device: Device) -> Iterator[str]:
    sources = _sources(device)
    yield "schema = 1"
    yield f"name = {format_string(device.name)}"
    yield f"arch = {format_string(device.arch)}"
    if device.aliases:
        yield f"aliases = {format_value(device.aliases)}"
    yield f"capacity_fits = {format_string(device.capacity_fits)}"
    yield "\n[sources]"
    for text, name in sources.items():
        yield f"{name} = {format_string(text)}"
    yield "\n[values]"
    for key, rule in VALUES.items():
        entry = _format_entry(device, f"values.{key}", getattr(device, key), rule, sources)
        yield f"{key} = {entry}"
    for key in CHOICES:
        yield f"{key} = {_choice(device, key, sources)}"
    yield "\n[pipelines]"
    for pipeline, scope in device.pipelines.items():
        yield f"{format_key(pipeline)} = {format_string(scope.value)}"
    for operation in device.operations.values():
        yield f"\n[operations.{format_key(operation.name)}]"
        yield f"pipeline = {format_string(operation.pipeline)}"
        if operation.variant and operation.variant != operation.name:
            yield f"variant = {format_string(operation.variant)}"
        for part in COSTS:
            key, number = f"operations.{operation.name}.{part}", getattr(operation, part)
            yield f"{part} = {_format_entry(device, key, number, _CYCLES, sources)}"
    if device.matrix:
        yield "\n[matrix]"
    for name, rate in device.matrix.items():
        entry = _format_entry(device, f"matrix.{name}", rate, MATRIX_RATE, sources)
        yield f"{format_string(name)} = {entry}"


_CYCLES = ValueRule({"cycles": 1.0})


def _sources(device: Device) -> dict[str, str]:
    """Map the text of each cited source to its key in the file."""
    cited = (origin.source for key, origin in _file_provenance(device))
    return {text: f"s{number}" for number, text in enumerate(dict.fromkeys(cited), 1)}


def _file_provenance(device: Device) -> Iterator[tuple[str, Provenance]]:
    """Yield the provenance of the values in the file; the file of fits has that of the curves."""
    return ((k, o) for k, o in device.provenance.items() if not k.startswith("curves."))


def _format_entry(
    device: Device, key: str, number: float, rule: ValueRule, sources: Mapping[str, str]
) -> str:
    origin = device.provenance[key]
    reference = device.references.get(key)
    items = [("value", format_string(reference))] if reference else _number(number, rule)
    return format_table([*items, *_origin(origin, sources)])


def _choice(device: Device, key: str, sources: Mapping[str, str]) -> str:
    word = ("value", format_string(getattr(device, key)))
    return format_table([word, *_origin(device.provenance[f"values.{key}"], sources)])


def _origin(origin: Provenance, sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    texts = {"source": sources[origin.source], "grade": origin.grade.value, "note": origin.note}
    return ((key, format_string(text)) for key, text in texts.items() if text)


def _number(number: float, rule: ValueRule) -> list[tuple[str, str]]:
    """Value and unit, in the unit that makes the shortest text of exactly this number."""
    forms = []
    for unit, scale in rule.units.items():
        text = f"{number / scale:.15g}"
        if float(text) * scale == number and "e" not in text:
            forms.append(_with_unit(text, unit))
    base = next(unit for unit, scale in rule.units.items() if scale == 1.0)
    shortest = min(forms, key=lambda form: len(format_table(form)), default=None)
    return shortest or _with_unit(repr(number), base)


def _with_unit(number: str, unit: str) -> list[tuple[str, str]]:
    return [("value", number), *([] if unit == "count" else [("unit", format_string(unit))])]
