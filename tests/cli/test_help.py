"""Tests of the help texts of commands."""

import argparse
import shlex

import pytest

from perfassert.cli.command import command_parser
from perfassert.cli.main import main


def commands_of(parser, path=()):
    """Yield the commands, each with the words that lead to it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield (*path, name), command
                yield from commands_of(command, (*path, name))


COMMANDS = dict(commands_of(command_parser()))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_describes_itself_and_each_of_its_options(words):
    command = COMMANDS[words]
    assert len(command.description) > 40
    without = [a.option_strings or a.dest for a in command._actions if not a.help
               and not isinstance(a, argparse._SubParsersAction)]  # fmt: skip
    assert without == []


@pytest.mark.parametrize("words", [w for w in COMMANDS if len(w) == 1], ids=" ".join)
def test_examples_can_be_typed(words):
    lines = [line.strip() for line in COMMANDS[words].epilog.splitlines()[1:]]
    assert lines
    for line in lines:
        program, *arguments = shlex.split(line.partition(" > ")[0])
        assert program == "perfassert"
        assert command_parser().parse_args(arguments).command


def test_help_keeps_the_lines_of_examples(capsys):
    assert main(["rank", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "  perfassert rank stencil.cu --device a100 --domain 4096,4096 --blocks" in shown


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("predct", "predict"), ("compair", "compare"), ("devcies", "devices"), ("kernls", "kernels")],
)
def test_a_misspelt_command_is_corrected(capsys, typed, meant):
    assert main([typed, "--json"]) == 2
    assert f"unknown command {typed!r}; did you mean {meant!r}" in capsys.readouterr().err


def test_no_command_is_near(capsys):
    assert main(["xyzzy"]) == 2
    assert "unknown command 'xyzzy'; commands: devices, predict" in capsys.readouterr().err
