"""``perfassert compare BASE.json HEAD.json``: predictions that became faster or slower."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.exit_status import FAILED, OK, USAGE
from perfassert.cli.forms import add_forms, link_of
from perfassert.cli.terminal import raw, say

if TYPE_CHECKING:
    from perfassert.comparison.compare import ReportComparison


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "compare", "compare two JSON reports, or two predictions",
        "What became faster and slower between two reports of pytest, or two predictions, and why. "
        "Exit code 1 where a prediction is slower beyond the tolerance, gone or broken, 2 where "
        "nothing can be compared.",
        "main.json pull-request.json", "main.json pull-request.json --markdown",
    )  # fmt: skip
    what = "of pytest --perf-report=json:PATH, or what perfassert predict --json printed"
    parser.add_argument("base", type=Path, metavar="BASE.json", help=what)
    parser.add_argument("head", type=Path, metavar="HEAD.json", help="the newer one")
    parser.add_argument(
        "--tolerance", default="2 %", help="how far times may grow: '2 %%', '2 %% or 1 us'"
    )
    parser.add_argument(
        "--require-all",
        action="store_true",
        help="every prediction of either side must have been compared: new ones fail, too, and so "
        "do two files without any",
    )
    parser.add_argument(
        "--allow-gone",
        action="store_true",
        help="predictions that the head does not have, or cannot make, are no failure",
    )
    add_forms(parser)
    parser.set_defaults(command=_compare)


def _compare(options: argparse.Namespace) -> int:
    from perfassert.comparison import text
    from perfassert.comparison.compare import compare, time_tolerance
    from perfassert.comparison.github import report_to_github
    from perfassert.comparison.read import read

    comparison = compare(read(options.base), read(options.head), time_tolerance(options.tolerance))
    status, reason = exit_status(comparison, options.allow_gone, options.require_all)
    markdown = text.markdown(comparison, failed=status != OK, link=link_of(options))
    if options.json:
        print(json.dumps(text.to_dict(comparison)))
    elif options.markdown:
        print(markdown)
    else:
        say(text.text(comparison))
    if options.github:
        stream = sys.stderr if options.json or options.markdown else sys.stdout
        report_to_github(text.warnings(comparison), markdown, raw(stream))
    if reason:
        print(f"perfassert: {reason}", file=sys.stderr)
    return status


def exit_status(
    comparison: ReportComparison, allow_gone: bool = False, require_all: bool = False
) -> tuple[int, str]:
    """Return the exit status, and its reason if the comparison does not show it."""
    from perfassert.comparison.status import Status

    lost = () if allow_gone else comparison.of(Status.GONE, Status.BROKEN)
    if comparison.of(Status.SLOWER) or lost:
        return FAILED, ""
    if require_all and not comparison.items:
        return FAILED, "there is nothing to compare (--require-all)"
    if require_all and comparison.of(Status.NEW):
        return FAILED, "some predictions are new (--require-all)"
    if comparison.of(Status.INCOMPARABLE):
        return USAGE, "some predictions are incomparable"
    return OK, ""
