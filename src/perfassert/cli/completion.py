"""``perfassert completion``: commands, options and devices in the shell, by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfassert.cli.command import add_command, command_parser
from perfassert.errors import PerfAssertError

_SHELLS = ("bash", "zsh", "tcsh")


def add(commands: Any) -> None:
    """Register the command."""
    one = add_command(
        commands, "completion", "print what makes a shell complete perfassert",
        "Prints a script that the shell reads at its start.",
        "bash > ~/.local/share/bash-completion/completions/perfassert",
    )  # fmt: skip
    one.add_argument("shell", choices=_SHELLS, help="whose syntax")
    one.set_defaults(command=_completion)


def _completion(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise PerfAssertError(
            'completion is written by shtab: pip install "perfassert[completion]"'
        ) from None
    from perfassert.hardware.load import devices

    parser = command_parser()
    for action in _actions(parser):
        if "--device" in action.option_strings:
            action.choices = devices()
        elif action.type is Path or action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a parser and of all its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in dict.fromkeys(action.choices.values()):
                yield from _actions(below)
        else:
            yield action
