"""How commands and their help are made."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(
    commands: Any, name: str, summary: str, description: str, *examples: str
) -> argparse.ArgumentParser:
    """A command with its help.

    ``summary`` stands in the list of commands; ``description`` above the options; ``examples``,
    command lines without ``perfassert`` and the command's name, below them.
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
    """Wraps descriptions, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)
