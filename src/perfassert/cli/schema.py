"""``perfassert schema``: what a kind of file may hold, for editors and other programs."""

from __future__ import annotations

import argparse
from typing import Any

NAMES = ("device", "launches", "perf-toml", "report", "suite")


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("schema", help="print the JSON Schema of a kind of file")
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """With the metrics of installed plug-ins."""
    from perfassert.expect.metrics import all_metrics
    from perfassert.schemas.catalogue import schema, to_json

    print(to_json(schema(options.name, all_metrics())), end="")
    return 0
