"""Output for GitHub Actions: annotations at source lines, and the summary of the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from perfassert.errors import ReportError, printable


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def report_to_github(lines: Iterable[str], summary: str, stream: TextIO) -> None:
    """Print annotations, and add the comment to the summary of the job."""
    for line in lines:
        print(line, file=stream)
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        print("perfassert: GITHUB_STEP_SUMMARY is not set: no summary is written", file=sys.stderr)
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None


def run_page() -> str:
    """Return the address of the workflow's run, which has the artifacts; ``""`` without one."""
    names = ("SERVER_URL", "REPOSITORY", "RUN_ID")
    server, repository, run = (os.environ.get(f"GITHUB_{name}", "") for name in names)
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else ""


def annotation(title: str, message: str, file: str = "", line: int = 0) -> str:
    """Return a warning, at a line of a file if they are known."""
    place = f"file={_property(file)}," if file else ""
    if line:
        place += f"line={_property(str(line))},"
    return f"::warning {place}title={_property(title)}::{_data(message)}"
