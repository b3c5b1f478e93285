"""``perfassert …``: exit code 0 all well, 1 a check failed, 2 usage, 3 internal error."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from perfassert.cli import (
    advise,
    calibrate,
    compare,
    completion,
    devices,
    diff,
    docs,
    doctor,
    explain,
    explore,
    history,
    import_launches,
    init,
    kernels,
    measure,
    predict,
    rank,
    record,
    schema,
    validate,
)
from perfassert.cli.terminal import printable_output
from perfassert.errors import ExpectationFailed, MissingArgument, PerfAssertError, close_matches
from perfassert.version import VERSION

OK, FAILED, USAGE, INTERNAL = 0, 1, 2, 3


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    with printable_output():
        return _main(arguments)


def _main(arguments: Sequence[str]) -> int:
    parser = command_parser()
    if wrong := _unknown_command(parser, arguments):
        print(f"perfassert: {wrong}", file=sys.stderr)
        return USAGE
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


def _unknown_command(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str:
    """What is wrong with the first word that is no option; empty where it is a command."""
    name = next((a for a in arguments if not a.startswith("-")), None)
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    known = [name for action in actions for name in action.choices]
    if name is None or name in known:
        return ""
    near = close_matches(name, known) or f"; commands: {', '.join(known)}"
    return f"unknown command {name!r}{near}"


def command_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with all commands."""
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
    for module in (
        devices,
        predict,
        rank,
        advise,
        record,
        compare,
        diff,
        docs,
        doctor,
        explain,
        explore,
        history,
        import_launches,
        init,
        kernels,
        schema,
        validate,
        calibrate,
        measure,
    ):
        module.add(commands)
    completion.add(commands, command_parser)
    return parser
