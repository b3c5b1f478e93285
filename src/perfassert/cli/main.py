"""``perfassert …``: exit code 0 all well, 1 a check failed, 2 usage, 3 internal error."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any

from perfassert.cli.terminal import printable_output
from perfassert.deprecation import FORMER_NAME
from perfassert.errors import ExpectationFailed, MissingArgument, PerfAssertError, close_matches
from perfassert.version import VERSION

OK, FAILED, USAGE, INTERNAL = 0, 1, 2, 3
COMMANDS = {
    name: name
    for name in (
        "devices",
        "predict",
        "rank",
        "advise",
        "record",
        "compare",
        "diff",
        "docs",
        "doctor",
        "explain",
        "explore",
        "history",
        "bisect",
        "launches",
        "init",
        "kernels",
        "schema",
        "validate",
        "calibrate",
        "measure",
        "completion",
    )
} | {"bisect": "history", "launches": "import_launches"}
"""Command → the module of :mod:`perfassert.cli` that adds it, in the order of the help."""


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    with printable_output():
        return _main(arguments)


def _main(arguments: Sequence[str]) -> int:
    if wrong := _unknown_command(arguments):
        print(f"perfassert: {wrong}", file=sys.stderr)
        return USAGE
    first = arguments[0] if arguments else ""
    parser = command_parser((first,) if first in COMMANDS else COMMANDS)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.filterwarnings("default", FORMER_NAME, DeprecationWarning)
            return int(options.command(options))
    except ExpectationFailed as failure:
        print(failure, file=sys.stderr)
        return FAILED
    except MissingArgument as error:
        print(f"perfassert: {error.command_line_text}", file=sys.stderr)
        return USAGE
    except PerfAssertError as error:
        print(f"perfassert: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough, as in `perfassert devices a100 | head`
        return OK
    except Exception as error:
        from perfassert.cli.internal_error import internal_error_text, wants_debug

        debug = options.debug or wants_debug()
        print(internal_error_text(error, arguments, debug), file=sys.stderr)
        return INTERNAL


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """Without the line of Python that it comes from."""
    print(f"perfassert: warning: {message}", file=sys.stderr)


def _unknown_command(arguments: Sequence[str]) -> str:
    """What is wrong with the first word that is no option; empty where it is a command."""
    name = next((a for a in arguments if not a.startswith("-")), None)
    if name is None or name in COMMANDS:
        return ""
    near = close_matches(name, COMMANDS) or f"; commands: {', '.join(COMMANDS)}"
    return f"unknown command {name!r}{near}"


def command_parser(names: Collection[str] = COMMANDS.keys()) -> argparse.ArgumentParser:
    """The parser of the command line; only the modules of ``names`` are imported."""
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
