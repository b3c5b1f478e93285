"""``perfassert devices``: list of devices, and the known values of one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from warnings import warn

from perfassert.cli.command import add_command
from perfassert.cli.exit_status import OK
from perfassert.cli.terminal import say
from perfassert.errors import PerfAssertError, ToolchainMissing
from perfassert.report.tables import Table, join, table

if TYPE_CHECKING:
    from perfassert.hardware.model import Device
    from perfassert.sensitivity.sensitivity import Sensitivity

_COLUMNS = ("value", "grade", "source", "note")
"""Columns of the table of a device's values, after the column of keys."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "devices", "list the shipped devices, or show one",
        "Without a name: all device files that come with perfassert, with their architecture. With "
        "one: its values, where each comes from, and how well it is known.",
        "", "a100", "--compare a100 h100", "my-gpu.toml --toml",
    )  # fmt: skip
    parser.add_argument("name", nargs="?", help="a name, an alias or a device file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--toml", action="store_true", help="print the device as one complete file")
    parser.add_argument("--compare", nargs=2, metavar="DEVICE", help="two devices side by side")
    parser.set_defaults(command=_devices)


def _devices(options: argparse.Namespace) -> int:
    from perfassert.hardware.load import device, devices
    from perfassert.hardware.write import device_toml

    if options.compare:
        if options.name or options.toml:
            raise PerfAssertError("--compare takes two devices, and nothing else but --json")
        one, other = map(device, options.compare)
        _compare(one, other, options.json)
        return OK
    if options.toml and not options.name:
        raise PerfAssertError("--toml needs the name of a device, or a device file")
    if not options.name:
        print(json.dumps(list(devices())) if options.json else "\n".join(devices()))
    elif options.toml:
        print(device_toml(device(options.name)), end="")
    else:
        _one_device(device(options.name), options.json)
    return OK


def _one_device(device: Device, as_json: bool) -> None:
    from perfassert.hardware.schema import CHOICES, VALUES
    from perfassert.sensitivity.sensitivity import Sensitivity, assumed_keys, sensitivities

    rows = []
    for key in (*VALUES, *CHOICES):
        origin = device.provenance[f"values.{key}"]
        rows.append((key, getattr(device, key), origin.grade.value, origin.source, origin.note))
    if not as_json:  # what takes no time comes first
        print(f"{device.name} ({device.arch})\n")
        say(table(("key", *_COLUMNS), rows))
    keys = assumed_keys(device)
    try:
        results = sensitivities(device, keys)
    except ToolchainMissing as error:
        warn(f"the examples that judge assumed values are not compiled: {error}", stacklevel=2)
        results = tuple(Sensitivity(key, None) for key in keys)
    if as_json:
        values = {row[0]: dict(zip(_COLUMNS, row[1:], strict=True)) for row in rows}
        data = {"name": device.name, "arch": device.arch, "values": values}
        print(json.dumps({**data, "assumed": list(map(_data, results))}))
    else:
        say(join(_sensitivity_text(device, results), "\n"))


def _compare(one: Device, other: Device, as_json: bool) -> None:
    """Print the values in which two device files differ; JSON also has those that are equal."""
    from perfassert.hardware.schema import CHOICES
    from perfassert.sensitivity.sensitivity import device_value

    pair = (one, other)
    keys = dict.fromkeys(key for d in pair for key in d.provenance if not key.startswith("curves."))
    words = {f"values.{key}": [getattr(d, key) for d in pair] for key in CHOICES}
    values: dict[str, list[float | str | None]] = {
        key: words.get(key) or [device_value(d, key) if key in d.provenance else None for d in pair]
        for key in keys
    }
    if as_json:
        print(json.dumps({"devices": [d.name for d in pair], "values": values}))
        return
    rows = [
        (key.removeprefix("values."), *map(_format_value, both), _ratio(*both),
         *(d.provenance[key].grade.value if key in d.provenance else "" for d in pair))
        for key, both in values.items()
        if both[0] != both[1]
    ]  # fmt: skip
    say(table(("key", one.name, other.name, "ratio", "grade", "grade"), rows))
    print(f"\n{len(keys) - len(rows)} of {len(keys)} numbers are equal")


def _format_value(value: float | str | None) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else value or ""


def _ratio(one: float | str | None, other: float | str | None) -> str:
    if isinstance(one, str) or isinstance(other, str):
        return ""
    return f"{other / one:.3g}" if one and other else ""


def _data(one: Sensitivity) -> dict[str, object]:
    return {"key": one.key, "change": one.change, "kernel": one.kernel or None}


def _sensitivity_text(device: Device, results: Sequence[Sensitivity]) -> Iterable[str | Table]:
    from perfassert.sensitivity.examples import EXAMPLES
    from perfassert.sensitivity.sensitivity import STEP, device_value

    moving = [one for one in results if one.change]
    still = [one.key for one in results if one.change == 0]
    unknown = [one.key for one in results if one.change is None]
    yield (
        f"\n{len(results)} values are assumed. How far the predicted time of an example moves with "
        f"one of them,\nlarger and smaller by a factor of {1 + STEP:g}, or 2 if it must remain a "
        f"multiple; the worst of\n{', '.join(EXAMPLES)}:\n"
    )
    rows = [
        (one.key, f"{device_value(device, one.key):g}", f"{100 * (one.change or 0):.1f} %",
         one.kernel, device.provenance[one.key].note)
        for one in moving
    ]  # fmt: skip
    yield table(("key", "value", "time moves by", "example", "note"), rows)
    if still:
        yield f"\nNo example moves with: {', '.join(still)}"
    if unknown:
        yield f"\nNo example can tell: {', '.join(unknown)}"
