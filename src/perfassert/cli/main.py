"""``perfassert …``: exit code 0 all well, 1 a check failed, 2 usage, 3 internal error."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from perfassert.cli import (
    advise,
    calibrate,
    compare,
    docs,
    explain,
    measure,
    predict,
    rank,
    validate,
)
from perfassert.errors import ExpectationFailed, PerfAssertError
from perfassert.version import VERSION

OK, FAILED, USAGE, INTERNAL = 0, 1, 2, 3


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return int(options.command(options))
    except ExpectationFailed as failure:
        print(failure, file=sys.stderr)
        return FAILED
    except PerfAssertError as error:
        print(f"perfassert: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough, as in `perfassert devices a100 | head`
        return OK
    except Exception as error:
        print(f"perfassert: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        return INTERNAL


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """Without the line of Python that it comes from."""
    print(f"perfassert: warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="perfassert", description=__doc__)
    parser.add_argument("--version", action="version", version=f"perfassert {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    devices = commands.add_parser("devices", help="list the shipped devices, or show one")
    devices.add_argument("name", nargs="?", help="a name, an alias or a device file")
    devices.add_argument("--json", action="store_true", help="print JSON")
    devices.set_defaults(command=_devices)
    for module in (predict, rank, advise, compare, docs, explain, validate, calibrate, measure):
        module.add(commands)
    return parser


def _devices(options: argparse.Namespace) -> int:
    from perfassert.hardware.load import devices

    if options.name:
        return _one_device(options.name, options.json)
    if options.json:
        print(json.dumps(list(devices())))
    else:
        print("\n".join(devices()))
    return OK


def _one_device(name: str, as_json: bool) -> int:
    from perfassert.hardware.load import device
    from perfassert.hardware.schema import VALUES
    from perfassert.report.tables import table

    chosen = device(name)
    rows = []
    for key in VALUES:
        origin = chosen.provenance[f"values.{key}"]
        rows.append((key, getattr(chosen, key), origin.grade.value, origin.source, origin.note))
    if as_json:
        keys = ("value", "grade", "source", "note")
        values = {row[0]: dict(zip(keys, row[1:], strict=True)) for row in rows}
        print(json.dumps({"name": chosen.name, "arch": chosen.arch, "values": values}))
    else:
        print(f"{chosen.name} ({chosen.arch})\n")
        print(table(("key", "value", "grade", "source", "note"), rows))
    return OK
