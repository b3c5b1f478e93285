"""A device as the text of a complete file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from perfassert.hardware.entries import Provenance
from perfassert.hardware.model import Device
from perfassert.hardware.schema import COSTS, MATRIX_RATE, VALUES, Key


def device_toml(device: Device) -> str:
    """One file that extends no other; :func:`~perfassert.device` of it has the same values."""
    return "\n".join(_lines(device)) + "\n"


def quoted(text: str) -> str:
    """A basic string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(device: Device) -> Iterator[str]:
    sources = _sources(device)
    yield "schema = 1"
    yield f"name = {quoted(device.name)}"
    yield f"arch = {quoted(device.arch)}"
    if device.aliases:
        yield f"aliases = [{', '.join(map(quoted, device.aliases))}]"
    yield f"capacity_fits = {quoted(device.capacity_fits)}"
    yield "\n[sources]"
    for text, name in sources.items():
        yield f"{name} = {quoted(text)}"
    yield "\n[values]"
    for key, rule in VALUES.items():
        yield f"{key} = {_entry(device, f'values.{key}', getattr(device, key), rule, sources)}"
    yield "\n[pipelines]"
    for pipeline, scope in device.pipelines.items():
        yield f"{bare(pipeline)} = {quoted(scope.value)}"
    for operation in device.operations.values():
        yield f"\n[operations.{bare(operation.name)}]"
        yield f"pipeline = {quoted(operation.pipeline)}"
        if operation.variant and operation.variant != operation.name:
            yield f"variant = {quoted(operation.variant)}"
        for part in COSTS:
            key, number = f"operations.{operation.name}.{part}", getattr(operation, part)
            yield f"{part} = {_entry(device, key, number, _CYCLES, sources)}"
    if device.matrix:
        yield "\n[matrix]"
    for name, rate in device.matrix.items():
        yield f"{quoted(name)} = {_entry(device, f'matrix.{name}', rate, MATRIX_RATE, sources)}"


_CYCLES = Key({"cycles": 1.0})


def bare(name: str) -> str:
    """A key as TOML takes it: quoted where it has to be."""
    return name if name.replace("_", "").replace("-", "").isalnum() else quoted(name)


def _sources(device: Device) -> dict[str, str]:
    """What is cited → its key."""
    cited = (origin.source for key, origin in _own(device))
    return {text: f"s{number}" for number, text in enumerate(dict.fromkeys(cited), 1)}


def _own(device: Device) -> Iterator[tuple[str, Provenance]]:
    """Origins of what the file itself holds; those of the curves lie beside the fits."""
    return ((k, o) for k, o in device.provenance.items() if not k.startswith("curves."))


def _entry(device: Device, key: str, number: float, rule: Key, sources: Mapping[str, str]) -> str:
    origin = device.provenance[key]
    parts = [f"value = {_number(number, rule)}"]
    if key in device.references:
        parts = [f"value = {quoted(device.references[key])}"]
    parts += [f"source = {quoted(sources[origin.source])}", f"grade = {quoted(origin.grade.value)}"]
    if origin.note:
        parts.append(f"note = {quoted(origin.note)}")
    return f"{{ {', '.join(parts)} }}"


def _number(number: float, rule: Key) -> str:
    """In the unit that makes the shortest text of exactly this number."""
    texts = []
    for unit, scale in rule.units.items():
        text = f"{number / scale:.15g}"
        if float(text) * scale == number and "e" not in text:
            texts.append(text if unit == "count" else f'{text}, unit = "{unit}"')
    return min(texts, key=len, default=_exactly(number, rule))


def _exactly(number: float, rule: Key) -> str:
    base = next(unit for unit, scale in rule.units.items() if scale == 1.0)
    return repr(number) if base == "count" else f'{number!r}, unit = "{base}"'
