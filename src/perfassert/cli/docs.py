"""``perfassert docs``: a page of what tests assert about kernels."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from perfassert.cli.command import add_command
from perfassert.cli.exit_status import FAILED, OK
from perfassert.cli.terminal import progress
from perfassert.errors import PerfAssertError, ReportError
from perfassert.system.python_children import isolated_command
from perfassert.system.temporary import temporary_folder

_PASSED, _TESTS_FAILED, _NO_TESTS = 0, 1, 5  # exit codes of pytest


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "docs", "write what tests assert about kernels as a page",
        "Runs the tests and writes a Markdown page of what they assert about each kernel, with "
        "what is predicted.",
        "tests/perf -o docs/performance.md", "tests/perf -o docs/performance.md --device h100",
    )  # fmt: skip
    parser.add_argument("paths", nargs="+", metavar="PATH", help="as pytest takes them")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE",
                        help="the Markdown file")  # fmt: skip
    parser.add_argument("--device", action="append", default=[], help="instead of the tests' own")
    parser.add_argument("-k", metavar="EXPRESSION", dest="select", help="only some of the tests")
    parser.add_argument("--allow-failures", action="store_true", help="write it all the same")
    parser.add_argument("--force", action="store_true", help="overwrite what was not written by it")
    parser.set_defaults(command=_docs)


def _docs(options: argparse.Namespace) -> int:
    from perfassert.report.files import replace_file
    from perfassert.report.performance_page import performance_page

    _check_page(options.output, options.force)
    with temporary_folder() as folder:
        report = folder / "report.json"
        code = _run(options, report)
        written = json.loads(report.read_text("utf-8")) if report.is_file() else {"tests": []}
    if code == _TESTS_FAILED and not options.allow_failures:
        print(
            f"perfassert: tests failed, so {options.output} was not written; fix them, or give "
            "--allow-failures",
            file=sys.stderr,
        )
        return FAILED
    count = sum(len(test["predictions"]) for test in written["tests"])
    if not count:
        raise ReportError(
            "nothing was predicted by these tests; name tests that use the perf fixture, or "
            "*.perf.toml files"
        )
    replace_file(options.output, performance_page(written, _command(options)))
    print(f"{options.output}: {count} predictions in {len(written['tests'])} tests")
    return OK


def _check_page(page: Path, force: bool) -> None:
    """Check that the page may be overwritten: only what an earlier run has written may be."""
    from perfassert.report.performance_page import MARKER

    if force or not page.exists():
        return
    try:
        first = page.read_text("utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        first = ""
    if first != MARKER:
        raise ReportError(f"{page}: was not written by perfassert docs; name another, or --force")


def _run(options: argparse.Namespace, report: Path) -> int:
    """Return pytest's exit code; if anything is wrong, pytest's output goes to standard error."""
    words = [
        *options.paths, "--quiet", f"--perf-report=json:{report}", "--perf-report-advice",
        *(f"--perf-device={name}" for name in options.device),
    ]  # fmt: skip
    if options.select:
        words += ["-k", options.select]
    command = isolated_command("pytest:main", *words)
    with progress(f"tests of {', '.join(options.paths)}"):
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode != _PASSED:
        print(done.stdout + done.stderr, file=sys.stderr, end="")
    if done.returncode == _NO_TESTS:
        raise ReportError(f"there are no tests in {', '.join(options.paths)}")
    if done.returncode not in (_PASSED, _TESTS_FAILED):
        raise PerfAssertError(f"pytest ended with exit code {done.returncode}; see above")
    return done.returncode


def _command(options: argparse.Namespace) -> str:
    words = ["perfassert", "docs", *options.paths, "-o", str(options.output)]
    for name in options.device:
        words += ["--device", name]
    if options.select:
        words += ["-k", options.select]
    return shlex.join(words)
