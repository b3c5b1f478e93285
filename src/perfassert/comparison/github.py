"""A comparison in GitHub Actions: annotations at source lines, and the summary of the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from perfassert.comparison.compare import Comparison, Item, Status
from perfassert.comparison.text import kernel, times
from perfassert.errors import ReportError, printable

_SHOWN = 10  # warnings that GitHub shows of one step


def warnings(comparison: Comparison) -> Iterator[str]:
    """Workflow commands, one line each; the worst first."""
    worse = comparison.of(Status.SLOWER, Status.BROKEN, Status.GONE)
    for item in worse[:_SHOWN]:
        yield _annotation(item) if item.status is Status.SLOWER else _missing(item)
    if len(worse) > _SHOWN:
        yield f"::notice::{len(worse) - _SHOWN} more predictions are slower or missing"


def _annotation(item: Item) -> str:
    base, head, difference = times(item)
    place = ""
    if item.place:
        place = f"file={_property(item.place.file)},line={_property(str(item.place.line))},"
    named = kernel(item)
    causes = "; ".join(map(str, item.components[:3]))
    message = f"{named} on {item.device}: {base} → {head} ({difference})"
    test = f" in {item.key.test}" if item.key.test else ""
    text = f"{message}{test}{causes and f': {causes}'}"
    return (
        f"::warning {place}title={_property(f'{named} is predicted to be slower')}::{_data(text)}"
    )


def _missing(item: Item) -> str:
    title = f"{kernel(item)} is {item.status.value}"
    test = f" in {item.key.test}" if item.key.test else ""
    sentence = f"{kernel(item)} on {item.device} has no prediction{test}"
    return annotation(title, sentence + (item.reason and f": {item.reason}"))


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def tell(lines: Iterable[str], summary: str, stream: TextIO) -> None:
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


def annotation(title: str, message: str, file: str = "") -> str:
    """A warning, at a file where there is one."""
    place = f"file={_property(file)}," if file else ""
    return f"::warning {place}title={_property(title)}::{_data(message)}"
