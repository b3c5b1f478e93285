"""Stall samples of each instruction, from the source page of Nsight Compute.

Columns are found by name, since releases of the tool name them differently and add some, and a
report has names of metrics instead. Nothing in the file is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from os import PathLike
from pathlib import Path

from perfassert.errors import SamplesError, check_kind, close_matches
from perfassert.frontends.profiles.source_pages import (
    ADDRESS,
    PRINT_AGAIN,
    SOURCE,
    SourcePage,
    normalise_column,
    read_pages,
)
from perfassert.kernel.samples import Count, Samples


@dataclass(frozen=True, slots=True)
class StallColumn:
    """A ``stall_*`` column: its spellings, its reason, and what a warp in the state waits for."""

    spellings: tuple[str, ...]
    reason: str
    meaning: str


# The reasons are the older ones of nvprof and the GPA paper. NVIDIA's own table from these columns
# to the reasons (CLI manual of Nsight Compute, metrics of nvprof) also puts drain into memory
# throttle, dispatch and misc into other. It has mio as pipe busy; here mio is memory throttle,
# since most of its stalls are by shared memory.
STALL_COLUMNS = tuple(
    StallColumn(tuple(spellings.split()), reason, meaning)
    for spellings, reason, meaning in (
        ("selected", "selected", "nothing: the instruction was issued"),
        ("not_selected", "not_selected", "its turn: another ready warp was issued"),
        ("long_sb long_scoreboard", "memory_dependency", "global, local, texture memory"),
        ("short_sb short_scoreboard", "execution_dependency", "shared memory, special functions"),
        ("wait", "execution_dependency", "a fixed latency between instructions"),
        ("barrier", "synchronization", "other warps at a barrier of the block"),
        ("membar", "synchronization", "a memory fence"),
        ("lg lg_throttle", "memory_throttle", "room for a global or local access"),
        ("mio mio_throttle", "memory_throttle", "room for shared memory, special functions"),
        ("tex tex_throttle", "memory_throttle", "room for a texture access"),
        ("drain", "memory_throttle", "stores under way, after the exit"),
        ("math math_pipe_throttle", "pipe_busy", "an arithmetic pipeline"),
        ("imc imc_miss", "constant_dependency", "a miss in the constant cache"),
        ("no_inst no_instruction no_instructions", "instruction_fetch", "the instruction itself"),
        ("branch_resolving", "instruction_fetch", "the target of a branch"),
        ("sleeping sleep", "sleeping", "its wake-up, or asleep by yielding"),
        ("dispatch dispatch_stall", "other", "the dispatcher, which holds back"),
        ("misc", "other", "something else"),
    )
)
"""Stall columns that are known; a column with any other name counts as ``other``."""

_REASON = {name: column.reason for column in STALL_COLUMNS for name in column.spellings}
_CANONICAL = {name: column.spellings[0] for column in STALL_COLUMNS for name in column.spellings}
_STALL = re.compile(
    r"(?:stall_|smsp__pcsamp_warps_issue_stalled_)(?P<name>\w+?)"
    r"(?P<latency> ?\(not issued(?: samples| cycles)?\)|_not_issued)?"
)

_ALL = (
    "warp stall sampling (all samples)",
    "warp stall sampling (all cycles)",
    "sampling data (all)",
)
_LATENCY = (
    "warp stall sampling (not issued samples)",
    "warp stall sampling (not issued cycles)",
    "sampling data (not issued)",
)
_EXECUTED = ("instructions executed", "inst_executed")
COUNTERS: Mapping[str, tuple[str, ...]] = {
    "thread_instructions_executed": ("thread instructions executed", "thread_inst_executed"),
    "predicated_on_thread_instructions_executed": (
        "predicated on thread instructions executed",
        "thread_inst_executed_true",
    ),
    "divergent_branches": ("divergent branches",),
    "l1_tag_requests_global": ("l1 tag requests global", "memory_l1_tag_requests_global"),
    **{
        f"{name}{suffix}": (
            f"{name}{suffix}".replace("_", " "),
            f"memory_{name}{suffix}",
            f"derived__memory_{name}{suffix}",
        )
        for name in (
            "l1_wavefronts_shared",
            "l2_theoretical_sectors_global",
            "l2_theoretical_sectors_local",
        )
        for suffix in ("", "_excessive", "_ideal")
    },
}
"""Optional columns: name of the counter in perfassert → its names in the file, in lower case."""

_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NOTHING = ("", "-", "n/a")
_HEX = re.compile(r"(?:0x)?[0-9a-f]{1,16}")
_OPCODE = re.compile(r"(?:\{ ?)?(?:@!?U?P[T\d]+ )?([A-Z]\w*)((?:\.\w+)*)", re.ASCII)
_COMMENT = re.compile(r"/\*[^*]*\*/")
_PADDING = ("NOP", "BRA")
_LISTED = 20  # lines


@dataclass(frozen=True, slots=True)
class MeasuredInstruction:
    """A row of a source page: the samples of one instruction.

    ``offset`` is in bytes from the start of the kernel. ``all`` and ``latency`` are samples by
    reason of :data:`~perfassert.kernel.samples.REASONS`, as in the file. ``latency`` has the
    not-issued samples, which the tool may take in another pass than ``all``. ``executed`` counts
    executions by warps, None where the column is missing. ``counters`` has those columns of
    :data:`COUNTERS` that the file has.
    """

    line: int
    offset: int
    text: str
    all: Mapping[str, float]
    latency: Mapping[str, float]
    executed: float | None
    counters: Mapping[str, float]

    def counts(self) -> dict[str, Count]:
        """Return the samples by reason, without zeros; latency samples are at most all samples."""
        return {
            reason: Count(number, min(number, self.latency.get(reason, 0.0)))
            for reason, number in self.all.items()
            if number
        }

    @property
    def issued(self) -> float:
        """Executions of the instruction by warps, else its ``selected`` samples."""
        return self.all.get("selected", 0.0) if self.executed is None else self.executed


@dataclass(frozen=True, slots=True)
class MeasuredSamples:
    """Stall samples of one launch, as Nsight Compute measured them; see :func:`read_samples`.

    Attributes:
        kernel: name of the kernel, empty where the page does not say it.
        file: the page or report that they were read from.
        instructions: samples of each instruction, by its offset.
    """

    kernel: str
    file: str
    instructions: tuple[MeasuredInstruction, ...]

    def join_listing(self, offsets_and_texts: Sequence[tuple[int, str]]) -> Samples:
        """Return the samples of a disassembled binary: instruction i gets those at its offset.

        Modifiers that only one disassembler prints are ignored. Only padding after the end may be
        missing.

        Args:
            offsets_and_texts: byte offset and SASS of each instruction of the binary.

        Raises:
            SamplesError: offsets or opcodes that do not agree: the profile is of another build.
        """
        numbers = {offset: number for number, (offset, _) in enumerate(offsets_and_texts)}
        end = max(numbers, default=-1)
        counts: dict[tuple[int, str], Count] = {}
        issued: dict[int, float] = dict.fromkeys(range(len(offsets_and_texts)), 0.0)
        for row in self.instructions:
            number = numbers.pop(row.offset, None)
            text = None if number is None else offsets_and_texts[number][1]
            if number is None or text is None:
                if row.offset > end and _is_padding(row.text) and not row.counts():
                    continue
                raise self._mismatch(row.line, row.offset, row.text, None, len(offsets_and_texts))
            if not _same_opcode(row.text, text):
                raise self._mismatch(row.line, row.offset, row.text, text, len(offsets_and_texts))
            issued[number] = row.issued
            for reason, count in row.counts().items():
                counts[number, reason] = count
        last = self.instructions[-1]
        for offset, number in numbers.items():
            text = offsets_and_texts[number][1]
            if offset < last.offset or not _is_padding(text):
                raise self._mismatch(last.line, offset, None, text, len(offsets_and_texts))
        return Samples(counts, issued, None, self.file)

    def _mismatch(
        self, line: int, offset: int, measured: str | None, binary: str | None, length: int
    ) -> SamplesError:
        def show(text: str | None) -> str:
            return "no instruction" if text is None else repr(_squeeze(text))

        return SamplesError(
            f"{self.file}:{line}: at offset {offset:#06x} the profile has {show(measured)}, the "
            f"binary {show(binary)} ({len(self.instructions)} and {length} instructions): they "
            "must be of the same build; profile this binary, or give the one that was profiled"
        )


def read_samples(
    path: str | PathLike[str], kernel: str | None = None, launch: int | None = None
) -> MeasuredSamples:
    r"""Read stall samples of a real GPU, as Nsight Compute measured them.

    The profile must have been measured with ``--section SourceCounters``.

    Args:
        path: a report (``.ncu-rep``), which needs ``pip install "perfassert[ncu]"``, or its source
            page as CSV: ``ncu --import REPORT --page source --print-source sass --csv``.
        kernel: full name or function name. Default (None): the only launch of the file.
        launch: number among the launches of that name, from 0. Default (None): the only one.

    Returns:
        Samples by instruction, for :func:`perfassert.advise`.

    Raises:
        SamplesError: what cannot be read, lacks columns or samples, or leaves open which launch is
            meant; file and line, or launch, are named.
        ToolchainMissing: a report, where ``ncu-report`` is not installed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import perfassert as pa
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = Path(folder, "page.csv")
        ...     _ = page.write_text(
        ...         "Address,Source,stall_selected,stall_wait,stall_wait (Not Issued)\n"
        ...         '0x100,"MOV R1, R2",2,3,1\n'
        ...         "0x110,EXIT,2,0,0\n"
        ...     )
        ...     samples = pa.read_samples(page)
        >>> [row.offset for row in samples.instructions]
        [0, 16]

    Source:
        NVIDIA, *Nsight Compute CLI*, source page; *Python Report Interface*.
    """
    check_kind(path, (str, PathLike), "the path of a source page", SamplesError)
    file = str(path)
    pages, fill = read_pages(Path(path))
    chosen = _choose_page(pages, file, kernel, launch)
    fill(chosen)
    header = _parse_header(chosen)
    rows = sorted(
        (_instruction(header, line, cells, file) for line, cells in chosen.rows),
        key=lambda row: row.offset,
    )
    if not rows:
        raise SamplesError(f"{chosen.where}: no instructions below the header; {chosen.again}")
    for before, row in pairwise(rows):
        if before.offset == row.offset:
            raise SamplesError(f"{file}:{row.line}: same address as in line {before.line}")
    if not any(row.counts() for row in rows):
        raise SamplesError(
            f"{chosen.where}: no samples of {chosen.kernel or 'the kernel'}; profile a "
            "longer launch with --section SourceCounters, and print counts, not percentages"
        )
    start = rows[0].offset
    instructions = tuple(replace(row, offset=row.offset - start) for row in rows)
    return MeasuredSamples(chosen.kernel, file, instructions)


@dataclass(frozen=True, slots=True)
class _Header:
    """Positions of the columns; stall columns have canonical names, so no synonym counts twice."""

    width: int
    address: int
    source: int
    totals: tuple[int | None, int | None]
    stalls: tuple[Mapping[str, int], Mapping[str, int]]
    executed: int | None
    counters: Mapping[str, int]


def _choose_page(
    pages: Sequence[SourcePage], file: str, kernel: str | None, launch: int | None
) -> SourcePage:
    matching = [p for p in pages if kernel is None or kernel in (p.kernel, *_short_names(p.kernel))]
    if not matching and kernel is not None:  # template arguments are spelt differently
        name = _short_names(kernel)[0]
        matching = [p for p in pages if name in _short_names(p.kernel)]
    if not matching:
        known = sorted({page.kernel for page in pages})
        short = [name for full in known for name in (full, *_short_names(full))]
        raise SamplesError(
            f"{file}: no kernel {kernel!r}{close_matches(str(kernel), short)}; it holds "
            + ", ".join(repr(name) for name in known)
        )
    if launch is None and len(matching) == 1:
        return matching[0]
    if launch is None or not 0 <= launch < len(matching):
        lines = [f"  {n}: {p.kernel} ({p.place})" for n, p in enumerate(matching)]
        listed = "\n".join([*lines[:_LISTED], *(["  …"] if len(lines) > _LISTED else [])])
        wrong = "" if launch is None else f", not {launch}"
        raise SamplesError(
            f"{file}: choose by kernel= or launch= among {len(matching)} launches{wrong}:\n{listed}"
        )
    return matching[launch]


def _short_names(kernel: str) -> tuple[str, str]:
    """Return ``ns::f`` and ``f`` for ``void ns::f<int>(float *)``."""
    name = kernel.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    qualified = re.split(r"[<(]", name, maxsplit=1)[0].strip().rpartition(" ")[2]
    return qualified, qualified.rpartition("::")[2]


def _position(names: Sequence[str], spellings: Sequence[str]) -> int | None:
    return next((names.index(name) for name in spellings if name in names), None)


def _parse_header(page: SourcePage) -> _Header:
    names = [normalise_column(cell) for cell in page.header]
    while names and not names[-1]:
        names.pop()
    if sum(name in SOURCE for name in names) > 1:
        raise SamplesError(f"{page.where}: more than the SASS was printed; {page.again}")
    address, source = _position(names, ADDRESS), _position(names, SOURCE)
    stalls: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for position, name in enumerate(names):
        match = _STALL.fullmatch(name)
        if match:
            kind = stalls[match["latency"] is not None]
            kind.setdefault(_CANONICAL.get(match["name"], match["name"]), position)
    needed = {
        "Address": address is not None,
        "Source": source is not None,
        "stall_*": bool(stalls[0]),
        "stall_* (Not Issued)": bool(stalls[1]),
    }
    missing = [name for name, there in needed.items() if not there]
    if address is None or source is None or missing:
        columns = ", ".join(missing)
        raise SamplesError(
            f"{page.where}: the source page lacks {columns}; profile with --section "
            f"SourceCounters and {page.again}"
        )
    counters = {name: _position(names, spellings) for name, spellings in COUNTERS.items()}
    return _Header(
        width=len(names),
        address=address,
        source=source,
        totals=(_position(names, _ALL), _position(names, _LATENCY)),
        stalls=stalls,
        executed=_position(names, _EXECUTED),
        counters={name: at for name, at in counters.items() if at is not None},
    )


def _instruction(header: _Header, line: int, cells: list[str], file: str) -> MeasuredInstruction:
    cells = _fit_cells(cells, header)
    if len(cells) != header.width:
        raise SamplesError(
            f"{file}:{line}: {len(cells)} cells below {header.width} columns; {PRINT_AGAIN}"
        )
    address = "".join(cells[header.address].lower().split())
    text = _squeeze(cells[header.source])
    if not _HEX.fullmatch(address) or not text:
        raise SamplesError(f"{file}:{line}: no address or no instruction; {PRINT_AGAIN}")

    def number(position: int) -> float:
        value = _parse_count(cells[position])
        if value is None:
            raise SamplesError(
                f"{file}:{line}: {_quote(cells[position])} is not a count; {PRINT_AGAIN}"
            )
        return value

    everything, latency = (
        _by_reason(
            {name: number(at) for name, at in stalls.items()},
            0.0 if total is None else number(total),
        )
        for stalls, total in zip(header.stalls, header.totals, strict=True)
    )
    executed = None if header.executed is None else number(header.executed)
    counters = {name: number(at) for name, at in header.counters.items()}
    return MeasuredInstruction(
        line, int(address, 16), text, everything, latency, executed, counters
    )


def _fit_cells(cells: list[str], header: _Header) -> list[str]:
    """Return the row without an empty last cell and with the operands of unquoted SASS joined."""
    # 4 columns, source second: 0, LDG R2, [R4], 5, 7, "" has "LDG R2, [R4]" as its source.
    surplus = len(cells) - header.width
    if surplus > 0 and not cells[-1]:
        cells, surplus = cells[:-1], surplus - 1
    if surplus <= 0:
        return cells
    start, stop = header.source, header.source + surplus + 1
    return [*cells[:start], ", ".join(cells[start:stop]), *cells[stop:]]


def _parse_count(cell: str) -> float | None:
    """Return the count in a cell: 0 for an empty cell or a percentage, None if it is no number."""
    if cell.lower() in _NOTHING or cell.endswith("%"):
        return 0.0
    value = float(cell.replace(",", "")) if _NUMBER.fullmatch(cell) else float("nan")
    return value if isfinite(value) else None


def _by_reason(columns: Mapping[str, float], total: float) -> dict[str, float]:
    """Sum samples by reason; the part of the total that no column explains counts as ``other``."""
    reasons: dict[str, float] = {}
    for name, number in columns.items():
        reason = _REASON.get(name, "other")
        reasons[reason] = reasons.get(reason, 0.0) + number
    unexplained = total - sum(columns.values())
    if unexplained > 0:
        reasons["other"] = reasons.get("other", 0.0) + unexplained
    return reasons


def _quote(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:40] + "…")


def _squeeze(text: str) -> str:
    return " ".join(_COMMENT.sub(" ", text).split()).rstrip(" ;")


def _opcode(text: str) -> tuple[str, frozenset[str]]:
    match = _OPCODE.match(_squeeze(text))
    if match is None:
        return _squeeze(text), frozenset()
    return match[1], frozenset(match[2].split(".")[1:])


def _same_opcode(first: str, second: str) -> bool:
    (name, modifiers), (other_name, other_modifiers) = _opcode(first), _opcode(second)
    return name == other_name and (modifiers <= other_modifiers or modifiers >= other_modifiers)


def _is_padding(text: str) -> bool:
    """Return True for the padding behind a function: a branch to itself or NOPs, never executed."""
    return _opcode(text)[0] in _PADDING
