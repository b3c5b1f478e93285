"""Pages of buffers whose values an execution used; they must be kept to repeat the execution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.memory import SPAN_BITS, pointer
from perfassert.engines.execution.result import Execution, Touch
from perfassert.kernel.buffer import PAGE_BYTES
from perfassert.kernel.distinct import distinct
from perfassert.kernel.machine import Kind, Space

Pages = npt.NDArray[np.int64]
_READS = (Kind.LOAD, Kind.ATOMIC)
_ROWS = 1 << 14  # rows of addresses that are computed at a time


@dataclass(slots=True)
class Reads:
    """Pages of buffers that executions have read.

    ``pages`` holds ascending page numbers by buffer. ``instructions`` is the number of warp
    instructions that were executed in all.
    """

    pages: dict[str, Pages] = field(default_factory=dict)
    instructions: int = 0


def note_reads(reads: Reads, done: Execution, needed: frozenset[tuple[int, int]] | None) -> None:
    """Add the reads of an execution to ``reads``; ``needed`` is that of the execution."""
    reads.instructions += int(done.executed.sum())
    for touch in done.touches:
        operation = done.code.instructions[touch.instruction].operations[touch.part]
        wanted = needed is None or (touch.instruction, touch.part) in needed
        in_buffers = touch.memory.space in (Space.GLOBAL, Space.GENERIC)
        if wanted and in_buffers and operation.kind in _READS:
            for number, pages in _pages_by_buffer(touch, len(done.regions)):
                region = done.regions[number]
                pages = pages - (pointer(number, region.offset) // PAGE_BYTES)
                before = reads.pages.get(region.name)
                both = pages if before is None else np.concatenate([before, pages])
                reads.pages[region.name] = distinct(both)


def _pages_by_buffer(touch: Touch, buffers: int) -> Iterator[tuple[int, Pages]]:
    """Yield the number of each buffer, and the pages of addresses in it.

    Addresses outside of all buffers, such as those computed from invented data, are left out.
    """
    parts: list[Pages] = []
    for first in range(0, len(touch.warps), _ROWS):
        last_row = min(first + _ROWS, len(touch.warps))
        addresses = touch.part_addresses(first, last_row)[touch.lanes[first:last_row]]
        for last in (0, max(touch.memory.bytes - 1, 0)):
            parts.append(
                distinct(((addresses + np.uint64(last)) // np.uint64(PAGE_BYTES)).astype(np.int64))
            )
    pages = distinct(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
    owners = (pages >> (SPAN_BITS - PAGE_BYTES.bit_length() + 1)) - 1
    for owner in distinct(owners[(owners >= 0) & (owners < buffers)]):
        yield int(owner), pages[owners == owner]
