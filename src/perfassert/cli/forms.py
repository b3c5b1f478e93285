"""Options of how a comparison is printed, shared by several commands."""

from __future__ import annotations

import argparse


def link_of(options: argparse.Namespace) -> str:
    """Return the address that a comment links to, or ``""``."""
    from perfassert.comparison.github import run_page

    return options.link or (run_page() if options.github else "")


def add_forms(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--markdown`` in place of a table, and ``--github`` in addition."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a pull-request comment")
    parser.add_argument(
        "--link",
        metavar="URL",
        help="of the report, which the comment links; with --github by default the workflow's run",
    )
    parser.add_argument(
        "--github",
        action="store_true",
        help="print annotations too, and add to the job's summary (GITHUB_STEP_SUMMARY)",
    )
