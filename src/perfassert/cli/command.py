"""Table of all commands, the form of their help, and the parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from importlib import import_module
from typing import Any

from perfassert.version import VERSION

COMMANDS = {
    name: name
    for name in (
        "devices",
        "predict",
        "test",
        "rank",
        "advise",
        "record",
        "serve",
        "mcp",
        "compare",
        "diff",
        "survey",
        "docs",
        "doctor",
        "explain",
        "explore",
        "history",
        "bisect",
        "launches",
        "init",
        "kernels",
        "whatif",
        "schema",
        "validate",
        "calibrate",
        "measure",
        "completion",
    )
} | {"bisect": "history", "launches": "import_launches"}
"""Command → the module of :mod:`perfassert.cli` that adds it, in the order of the help."""


def add_command(
    commands: Any, name: str, summary: str, description: str, *examples: str
) -> argparse.ArgumentParser:
    """Add a command with its help, and return its parser.

    ``summary`` stands in the list of commands and ``description`` above the options. ``examples``
    are command lines, without ``perfassert`` and the command's name, below the options.
    """
    lines = "\n".join(f"  perfassert {name} {example}".rstrip() for example in examples)
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{lines}",
        formatter_class=_Help,
    )
    return parser


class _Help(argparse.RawDescriptionHelpFormatter):
    """Formatter that wraps descriptions and keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


def command_parser(names: Collection[str] = COMMANDS.keys()) -> argparse.ArgumentParser:
    """Return the parser of the command line; only the modules of ``names`` are imported."""
    parser = argparse.ArgumentParser(
        prog="perfassert",
        description="Predicts how fast GPU kernels are, without a GPU. `perfassert COMMAND --help` "
        "explains a command.",
        epilog="exit codes: 0 all well, 1 a check failed, 2 wrong usage, 3 an internal error",
    )
    parser.add_argument("--version", action="version", version=f"perfassert {VERSION}")
    parser.add_argument(
        "--debug",
        action="store_true",
        help="print messages and lines of code of an internal error, which may be yours",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in dict.fromkeys(COMMANDS[name] for name in names):
        import_module(f"perfassert.cli.{module}").add(commands)
    return parser
