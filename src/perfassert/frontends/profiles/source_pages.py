"""Nsight Compute's source page of each launch of a file, as columns and rows of text.

``ncu --import R --page source --print-source sass --csv`` prints per launch a row ``"Kernel
Name",…``, a header, and a row per instruction. A report has the same, with metrics as columns.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfassert.errors import SamplesError
from perfassert.frontends.profiles import ncu_report
from perfassert.system.confined import open_file

PRINT_AGAIN = (
    "print the page again with ncu --import REPORT --page source --print-source sass --csv"
)
_PROFILE_AGAIN = "export it again: ncu --section SourceCounters --export REPORT PROGRAM"
_UNKNOWN = "???"  # an instruction that NVIDIA's package does not disassemble
ADDRESS = ("address", "pc")
SOURCE = ("source", "sass")
"""Names of the columns for addresses and SASS, in lower case."""

Rows = list[tuple[int, list[str]]]


@dataclass(slots=True)
class SourcePage:
    """The source page of one launch: its kernel, the header, and the rows with their numbers.

    ``number`` is the line of the header, or the number of the launch in a report. ``again`` tells
    the user how to get a complete page.
    """

    kernel: str
    file: str
    number: int
    header: list[str] = field(default_factory=list)
    rows: Rows = field(default_factory=list)
    unit: str = "line"
    again: str = PRINT_AGAIN

    @property
    def place(self) -> str:
        """Place in the file: ``"line 4"`` or ``"launch 4"``."""
        return f"{self.unit} {self.number}"

    @property
    def where(self) -> str:
        """Beginning of a message: the file, and the place in it."""
        return f"{self.file}:{self.number}" if self.unit == "line" else f"{self.file}: {self.place}"


def read_pages(path: Path) -> tuple[Sequence[SourcePage], Callable[[SourcePage], None]]:
    """Return the pages of a file, and a function that fills in header and rows of a page.

    Raises:
        SamplesError: the file cannot be read, or is neither a report nor such a CSV.
        ToolchainMissing: the file is a report, and ``ncu-report`` is not installed.
    """
    try:
        with open_file(path) as file:
            data = file.read(len(ncu_report.MAGIC))
            data += b"" if data == ncu_report.MAGIC else file.read()
    except OSError as error:
        raise SamplesError(f"{path}: cannot be read: {error.strerror or error}") from error
    if data == ncu_report.MAGIC:
        return _report_pages(path), lambda page: _fill_page(path, page)
    return _csv_pages(data, str(path)), lambda page: None


def _report_pages(path: Path) -> list[SourcePage]:
    launches = ncu_report.read_launches(path, SamplesError)
    return [
        SourcePage(launch["name"], str(path), number, unit="launch", again=_PROFILE_AGAIN)
        for number, launch in enumerate(launches)
    ]


def _fill_page(path: Path, page: SourcePage) -> None:
    launch = ncu_report.read_instructions(path, page.number, SamplesError)
    if all(text == _UNKNOWN for _, text, _ in launch["instructions"]) and launch["instructions"]:
        raise SamplesError(
            f"{page.where}: this release of NVIDIA's ncu-report does not know the instructions of "
            "the GPU that was profiled; an older one may: pip install ncu-report==2025.3.1"
        )
    if launch["outside"]:
        raise SamplesError(
            f"{page.where}: {launch['outside']:.0f} samples are of functions that {page.kernel} "
            "calls, which is not supported; have them inlined (__forceinline__), and profile again"
        )
    page.header = ["Address", "Source", *launch["metrics"]]
    page.rows = [
        (number, [f"{address:x}", text, *map(str, values)])
        for number, (address, text, values) in enumerate(launch["instructions"], 1)
    ]


def _csv_pages(data: bytes, file: str) -> list[SourcePage]:
    pages: list[SourcePage] = []
    for line, cells in _csv_rows(_decode(data, file), file):
        if cells[0].lower() == "kernel name" and len(cells) > 1:
            pages.append(SourcePage(", ".join(cell for cell in cells[1:] if cell), file, line))
        elif not pages:
            names = [normalise_column(cell) for cell in cells]
            if not all(any(name in names for name in known) for known in (ADDRESS, SOURCE)):
                raise SamplesError(
                    f"{file}:{line}: not a source page of Nsight Compute: no row 'Kernel Name'; "
                    + PRINT_AGAIN
                )
            pages.append(SourcePage("", file, line, cells))
        elif not pages[-1].header:
            pages[-1].number, pages[-1].header = line, cells
        else:
            pages[-1].rows.append((line, cells))
    if not pages:
        raise SamplesError(f"{file}: is empty; {PRINT_AGAIN}")
    return pages


def _decode(data: bytes, file: str) -> str:
    try:
        utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # PowerShell's redirection
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except ValueError as error:
        raise SamplesError(f"{file}: is not text; {PRINT_AGAIN}") from error


def _csv_rows(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield non-blank rows with their line numbers; lines such as ``==PROF== …`` are skipped."""
    lines = ("\n" if line.startswith("==") else line for line in io.StringIO(text, newline=""))
    reader = csv.reader(lines, strict=True, skipinitialspace=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise SamplesError(
            f"{file}:{reader.line_num}: damaged row: {error}; {PRINT_AGAIN}"
        ) from error


def normalise_column(cell: str) -> str:
    """Return a column's name in lower case, with single spaces as separators."""
    return " ".join(cell.lower().replace("-", " ").split())
