"""The recorder's knowledge of device memory: allocations, and the bytes that are known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

Span = tuple[int, int]


@dataclass(slots=True)
class Allocation:
    """An allocation of device memory.

    ``written`` has the known bytes, as sorted ranges from its start. ``shared`` memory is written
    by the host without a call. ``stale`` is True if a kernel that was not executed may have written
    to it.
    """

    address: int
    size: int
    shared: bool = False
    stale: bool = False
    written: list[Span] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """True if the whole allocation holds what it would hold on a GPU."""
        return self.written == [(0, self.size)] or (self.shared and not self.stale)

    @property
    def may_be_known(self) -> bool:
        """True if at least a part of the allocation is known."""
        return self.known or bool(self.written)

    def write(self, start: int, stop: int) -> None:
        spans = self.written
        first = bisect_left(spans, start, key=itemgetter(1))
        last = bisect_right(spans, stop, key=itemgetter(0))
        if first < last:  # adjoining ranges are merged
            start, stop = min(start, spans[first][0]), max(stop, spans[last - 1][1])
        spans[first:last] = [(start, stop)]
        if spans == [(0, self.size)]:
            self.stale = False

    def forget_all(self) -> None:
        """Mark every byte as unknown, as a kernel that was not executed may have written it."""
        self.written, self.stale = [], True

    def forget(self, start: int, stop: int) -> None:
        self.written = list(_remaining_spans(self.written, start, stop))


class DeviceMemory:
    """Allocations by address.

    Memory that a kernel may have written is unknown until the host writes it again.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._held: dict[int, Allocation] = {}

    def add(self, address: int, size: int, shared: bool = False) -> None:
        if address not in self._held:
            insort(self._starts, address)
        self._held[address] = Allocation(address, size, shared)

    def drop(self, address: int) -> None:
        if self._held.pop(address, None) is not None:
            del self._starts[bisect_left(self._starts, address)]

    def around(self, address: int) -> Allocation | None:
        """Return the allocation that contains the address or ends at it."""
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        allocation = self._held[self._starts[place]]
        return allocation if address <= allocation.address + allocation.size else None

    def write(self, address: int, size: int) -> None:
        if allocation := self.around(address):
            start = address - allocation.address
            allocation.write(start, min(start + size, allocation.size))

    def copy(self, into: int, source: int, size: int) -> None:
        """Note a copy in device memory: the target's bytes are known where the source's are."""
        target, origin = self.around(into), self.around(source)
        if target is None:
            return
        shift = into - target.address
        target.forget(shift, shift + size)
        if origin is None:
            return
        target.stale = target.stale or origin.stale
        first = source - origin.address
        for start, stop in list(origin.written):
            low, high = max(start, first), min(stop, first + size)
            if low < high:
                target.write(low - first + shift, high - first + shift)


def _remaining_spans(spans: list[Span], start: int, stop: int) -> Iterator[Span]:
    for low, high in spans:
        if high <= start or low >= stop:
            yield low, high
            continue
        if low < start:
            yield low, start
        if high > stop:
            yield stop, high
