"""A comparison in GitHub Actions: annotations at source lines, and the summary of the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfassert.comparison.compare import Comparison, Item, Status
from perfassert.comparison.text import kernel, markdown, times
from perfassert.errors import ReportError

_SHOWN = 10  # warnings that GitHub shows of one step


def warnings(found: Comparison) -> Iterator[str]:
    """Workflow commands, one line each; the worst first."""
    worse = found.of(Status.SLOWER, Status.BROKEN, Status.GONE)
    for item in worse[:_SHOWN]:
        yield _annotation(item) if item.status is Status.SLOWER else _missing(item)
    if len(worse) > _SHOWN:
        yield f"::notice::{len(worse) - _SHOWN} more predictions are slower or missing"


def _annotation(item: Item) -> str:
    base, head, difference = times(item)
    place = ""
    if item.place:
        place = f"file={_property(item.place.file)},line={item.place.line},"
    named = kernel(item)
    causes = "; ".join(map(str, item.components[:3]))
    message = f"{named} on {item.device}: {base} → {head} ({difference})"
    test = f" in {item.key.test}" if item.key.test else ""
    text = f"{message}{test}{causes and f': {causes}'}"
    return (
        f"::warning {place}title={_property(f'{named} is predicted to be slower')}::{_data(text)}"
    )


def _missing(item: Item) -> str:
    title = _property(f"{kernel(item)} is {item.status.value}")
    test = f" in {item.key.test}" if item.key.test else ""
    said = f"{kernel(item)} on {item.device} has no prediction{test}"
    return f"::warning title={title}::{_data(said + (item.reason and f': {item.reason}'))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(found: Comparison, path: Path) -> None:
    """Add the comment to the summary of the job."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(markdown(found))
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None
