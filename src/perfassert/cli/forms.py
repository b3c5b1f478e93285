"""How a comparison is printed: options that more than one command has."""

from __future__ import annotations

import argparse


def add_forms(parser: argparse.ArgumentParser) -> None:
    """``--json`` or ``--markdown`` instead of a table, and ``--github`` beside it."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a pull-request comment")
    parser.add_argument(
        "--github",
        action="store_true",
        help="print annotations too, and add to the job's summary (GITHUB_STEP_SUMMARY)",
    )
