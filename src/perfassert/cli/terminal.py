"""Output for terminals: tables of its width, verdicts in colour, bars with the time left.

Piped text is printed unchanged. A log gets a line of progress now and then instead of a bar.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic
from typing import Any, Protocol, TextIO, cast

from perfassert.cli.wording import option_words
from perfassert.errors import printable
from perfassert.report.tables import Table, Text, join

SOON, EVERY = 1.0, 10.0
"""Seconds until the first line of progress on a terminal, and between lines."""
THREAD = "perfassert progress"

_STYLES = {
    **dict.fromkeys("FAIL REGRESSION failed slower worse broken gone missing".split(), "bold red"),
    **dict.fromkeys("ok faster improved passed".split(), "green"),
    **dict.fromkeys(("same", "within tolerance"), "dim"),
}
"""Styles of table cells that hold nothing but a verdict."""


class Bar(Protocol):
    """Callback that is told the amount done, the whole amount, and perhaps the next item."""

    def __call__(self, done: int, total: int, what: str = "", /) -> None: ...


class PrintableStream:
    """Stream that writes text as :func:`perfassert.errors.printable` returns it.

    Names and messages from other sources reach the terminal and a job's log through this stream.
    perfassert's own control sequences (colours, annotations) go to ``raw``, the underlying stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write text without control characters and commands to GitHub."""
        return self.raw.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw(stream: TextIO) -> TextIO:
    """Return the stream behind a :class:`PrintableStream`."""
    return stream.raw if isinstance(stream, PrintableStream) else stream


@contextmanager
def printable_output() -> Iterator[None]:
    """Replace standard output and standard error by a :class:`PrintableStream` each."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, PrintableStream(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def say(text: str | Table | Text) -> None:
    """Print text with its tables, in the words of the command line."""
    if not sys.stdout.isatty():
        print(option_words(str(text)))
        return
    from rich.console import Console

    console = Console(file=raw(sys.stdout), highlight=False, markup=False, emoji=False)
    after_table = False  # which ends its line
    for part in join((text,)).parts:
        if isinstance(part, Table):
            console.print(_rich_table(part))
        else:
            line = printable(option_words(part))
            console.print(line.removeprefix("\n") if after_table else line, end="", soft_wrap=True)
        after_table = isinstance(part, Table)
    if not after_table:
        console.print()


def _rich_table(table: Table) -> object:
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in table.header:
        shown.add_column(RichText(name), overflow="fold")
    for row in table.rows:
        shown.add_row(*(RichText(option_words(cell), _STYLES.get(cell, "")) for cell in row))
    return Padding(shown, (0, 0, 0, len(table.indent)), expand=False)


@contextmanager
def progress(name: str, alone: bool = True) -> Iterator[Bar]:
    """Show on standard error how much of a task is done, and for how long it has run.

    A terminal shows a bar at once, with the time left where the total amount is known. A log gets a
    line every ten seconds. ``alone`` says that nothing else is printed meanwhile. With
    ``alone=False``, as while a program runs, a terminal gets lines as well.
    """
    if _is_live() and alone:
        with _bar(name) as bar:
            yield bar
        return
    shown = _Line(name, monotonic())
    ended = Event()
    first = SOON if _is_live() else EVERY
    thread = Thread(target=_print_lines, args=(shown, ended, first), name=THREAD, daemon=True)
    thread.start()
    try:
        yield shown.update
    finally:
        ended.set()
        thread.join()


def _is_live() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _bar(name: str) -> Iterator[Bar]:
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}", markup=False), bars.BarColumn(),
        bars.TextColumn("{task.fields[amount]}"), bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=Console(file=raw(sys.stderr)), transient=True) as shown:
        task = shown.add_task(printable(name), total=None, amount="")

        def bar(done: int, total: int, what: str = "", /) -> None:
            shown.update(
                task, completed=done, total=total, description=printable(what or name),
                amount=f"{done}/{total}",
            )  # fmt: skip

        yield bar


@dataclass(slots=True)
class _Line:
    """A line of progress for a log, written by the work and read by the thread that prints."""

    name: str
    started: float
    amount: str = ""

    def update(self, done: int, total: int, what: str = "", /) -> None:
        self.amount = f": {done} of {total}" + (f", {what}" if what else "")

    def text(self) -> str:
        return f"perfassert: {self.name}{self.amount}, {monotonic() - self.started:.0f} s"


def _print_lines(shown: _Line, ended: Event, first: float) -> None:
    stream, wait = sys.stderr, first
    while not ended.wait(wait):
        print(printable(shown.text()), file=stream, flush=True)
        wait = EVERY
