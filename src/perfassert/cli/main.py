"""Entry of ``perfassert …``; exit code 0: all well, 1: a check failed, 2: usage, 3: internal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from perfassert.cli.command import COMMANDS, command_parser
from perfassert.cli.exit_status import FAILED, INTERNAL, OK, USAGE
from perfassert.cli.terminal import printable_output
from perfassert.cli.wording import command_line_text
from perfassert.errors import ExpectationFailed, PerfAssertError, close_matches
from perfassert.system.confined import confining
from perfassert.system.python_children import isolate_imports


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
        if confining() is not None:
            isolate_imports()
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return int(options.command(options))
    except ExpectationFailed as failure:
        print(failure, file=sys.stderr)
        return FAILED
    except PerfAssertError as error:
        print(f"perfassert: {command_line_text(error)}", file=sys.stderr)
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
    """Print a warning without the line of Python code that raised it."""
    print(f"perfassert: warning: {message}", file=sys.stderr)


def _unknown_command(arguments: Sequence[str]) -> str:
    """Return why the first word that is no option is no command; empty if it is a command."""
    name = next((a for a in arguments if not a.startswith("-")), None)
    if name is None or name in COMMANDS:
        return ""
    near = close_matches(name, COMMANDS) or f"; commands: {', '.join(COMMANDS)}"
    return f"unknown command {name!r}{near}"
