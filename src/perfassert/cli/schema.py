"""``perfassert schema``: schemas of files, for editors and other programs."""

from __future__ import annotations

import argparse
from typing import Any

from perfassert.cli.command import add_command

NAMES = ("device", "launches", "perf-toml", "report", "suite")


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "schema", "print the JSON Schema of a kind of file",
        "For editors and validators: what a file that perfassert reads or writes may contain.",
        "report", "perf-toml > perf.schema.json",
    )  # fmt: skip
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Print the schema that was asked for, including the metrics of installed plug-ins."""
    from perfassert.expect.metrics import all_metrics
    from perfassert.schemas.catalogue import schema, to_json

    print(to_json(schema(options.name, all_metrics())), end="")
    return 0
