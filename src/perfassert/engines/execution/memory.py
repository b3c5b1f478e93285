"""Memory of the executed warps: buffers, shared and local memory, constant banks.

Each pointer argument has a separate span of 2⁴⁰ addresses, so that every address identifies its
buffer. Generic addresses of shared and local memory lie below all spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.provenance import OUTSIDE, Codes, Masks, buffer_bit
from perfassert.engines.execution.words import Words
from perfassert.kernel.buffer import MAX_BYTES, PAGE_BYTES
from perfassert.kernel.distinct import distinct

Offsets = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]
SPAN_BITS = MAX_BYTES.bit_length()
SHARED_WINDOW = 1  # high words of generic addresses
LOCAL_WINDOW = 2
_MIDDLE = MAX_BYTES
_PADDING = PAGE_BYTES


@dataclass(frozen=True, eq=False)
class Region:
    """The buffer that a pointer argument points to.

    ``content`` holds its bytes, or None if they are unknown. ``size`` is its size in bytes, or None
    if unknown. ``offset`` is the distance of the first byte from a 256-B boundary. If ``pages`` is
    given, ``content`` consists of these pages of 256 B only, which start at multiples of 256. The
    content of the other pages is unknown. An empty ``pages`` means that all content is unknown.
    """

    name: str
    content: npt.NDArray[np.uint8] | None = None
    size: int | None = None
    offset: int = 0
    pages: npt.NDArray[np.int64] | None = None


def pointer(index: int, offset: int = 0) -> int:
    """Return the address of the first byte of the buffer of pointer argument ``index``."""
    # For example, argument 1 starts at 2 · 2⁴⁰ + 2³⁹, the middle of its span. Any address a with a
    # >> 40 = 2 belongs to it, even one a little before the buffer.
    return ((index + 1) << SPAN_BITS) + _MIDDLE + offset


class Plane:
    """Bytes of memory, and the provenance of each byte that is unknown."""

    def __init__(self, content: npt.NDArray[np.uint8], codes: Codes, unknown: int = 0) -> None:
        self.content = content
        self._codes = codes
        self._unknown: npt.NDArray[np.uint8] | None = None
        if unknown:
            self._mark(np.array(unknown, np.uint32))

    def _mark(self, mask: Masks, start: int = 0, stop: int | None = None) -> None:
        if self._unknown is None:
            self._unknown = np.zeros(len(self.content), np.uint8)
        self._unknown[start:stop] = self._codes.encode(mask.reshape(1))[0]

    def taint(self, mask: int, start: int = 0, stop: int | None = None) -> None:
        """Mark a range, by default all bytes, as unknown."""
        self._mark(np.array(mask, np.uint32), start, stop)

    def unknown(self, start: int, stop: int) -> int:
        """Count the unknown bytes of a range."""
        return 0 if self._unknown is None else int(np.count_nonzero(self._unknown[start:stop]))

    def read(self, offsets: Offsets, size: int) -> tuple[tuple[Words, ...], Masks | None]:
        """Return the words at ``offsets``, multiples of ``size``, and the provenance of unknown
        ones."""
        if size < 4:
            narrow = self.content.view(np.uint8 if size == 1 else np.uint16)
            words: tuple[Words, ...] = (narrow[offsets // size].astype(np.uint32),)
        else:
            view, first = self.content.view(np.uint32), offsets >> 2
            words = tuple(view[first + k] for k in range(size // 4))
        return words, self._masks(offsets, size)

    def _masks(self, offsets: Offsets, size: int) -> Masks | None:
        if self._unknown is None:
            return None
        step = min(size, 4)
        marks = self._unknown.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[step])
        first = offsets // step
        masks = np.zeros(offsets.shape, np.uint32)
        for k in range(max(size // 4, 1)):
            packed = marks[first + k]
            if packed.any():
                for byte in range(step):
                    code = (packed >> (8 * byte) & 0xFF).astype(np.uint8)
                    masks |= self._codes.decode(code)
        return masks if masks.any() else None

    def write(
        self, offsets: Offsets, size: int, words: Sequence[Words], masks: Masks | None
    ) -> None:
        """Write one-dimensional arrays; if lanes overlap, the last one wins."""
        if size < 4:
            kind = np.uint8 if size == 1 else np.uint16
            self.content.view(kind)[offsets // size] = words[0].astype(kind)
        else:
            places = (offsets >> 2)[:, None] + np.arange(size // 4)
            self.content.view(np.uint32)[places] = np.stack(words[: size // 4], axis=1)
        if self._unknown is None and masks is None:
            return
        if self._unknown is None:
            self._unknown = np.zeros(len(self.content), np.uint8)
        codes: Any = 0 if masks is None else self._codes.encode(masks)[:, None]
        self._unknown[offsets[:, None] + np.arange(size)] = codes

    def marks(self) -> npt.NDArray[np.uint8]:
        """Return the code of each byte, or a new array for :meth:`adopt` if all are known."""
        return np.zeros(len(self.content), np.uint8) if self._unknown is None else self._unknown

    @property
    def marked(self) -> bool:
        """True if a byte may be unknown."""
        return self._unknown is not None

    def adopt(self, marks: npt.NDArray[np.uint8]) -> None:
        """Use an array of codes that was written elsewhere."""
        self._unknown = marks


class GlobalMemory:
    """Plane that holds all buffers with content; other buffers have no place in it."""

    def __init__(self, regions: Sequence[Region], codes: Codes) -> None:
        self.regions, self.codes = tuple(regions), codes
        starts, end = [], 0
        for region in regions:
            known = region.content is not None
            starts.append(end if known else -1)
            if region.content is not None:
                end += -(-(len(region.content) + _PADDING) // _PADDING) * _PADDING
        content = np.zeros(end, np.uint8)
        for region, start in zip(regions, starts, strict=True):
            if region.content is not None:
                content[start : start + len(region.content)] = region.content
        self.plane = Plane(content, codes)
        self._starts = np.array([*starts, -1], np.int64)
        sizes = [(2**62 if r.size is None else r.size) for r in regions]
        self._sizes = np.array([*sizes, -1], np.int64)
        bases = [pointer(i, r.offset) for i, r in enumerate(regions)]
        self._bases = np.array([*bases, 0], np.uint64)
        self._bits = np.array(
            [*(buffer_bit(i) for i in range(len(regions))), OUTSIDE], np.uint32
        )  # fmt: skip

    def contents(self) -> dict[str, npt.NDArray[np.uint8]]:
        """Return the present content of the buffers whose content was given."""
        return {
            r.name: self.plane.content[start : start + len(r.content)].copy()
            for r, start in zip(self.regions, self._starts.tolist(), strict=False)
            if r.content is not None
        }

    def unknowns(self) -> dict[str, int]:
        """Count the bytes of each buffer that became unknown, 0 if its content was not given."""
        return {
            r.name: 0 if r.content is None else self.plane.unknown(start, start + len(r.content))
            for r, start in zip(self.regions, self._starts.tolist(), strict=False)
        }

    def taint(self, addresses: Addresses, mask: int) -> None:
        """Mark the buffers as unknown that these addresses lie in."""
        for index in distinct(self.locate(addresses)[0]):
            if index < 0:
                self.plane.taint(mask)
            elif self._starts[index] >= 0:
                start = int(self._starts[index])
                content = self.regions[index].content
                self.plane.taint(mask, start, start + (0 if content is None else len(content)))

    def locate(self, addresses: Addresses) -> tuple[npt.NDArray[np.intp], Offsets]:
        """Return the buffer that each address belongs to (−1: none), and the offset in it."""
        index = (addresses >> np.uint64(SPAN_BITS)).astype(np.int64) - 1
        index = np.where((index < 0) | (index >= len(self.regions)), -1, index)
        offsets = (addresses - self._bases[index]).view(np.int64)
        return index, offsets

    def inside(
        self, index: npt.NDArray[np.intp], offsets: Offsets, size: int
    ) -> npt.NDArray[np.bool_]:
        """Return True if ``size`` bytes at the offset belong to the buffer."""
        return (offsets >= 0) & (offsets <= self._sizes[index] - size)

    def place(self, index: npt.NDArray[np.intp], offsets: Offsets) -> Offsets:
        """Return the offsets in the plane, negative where the content is unknown.

        The places must be inside of the buffers.
        """
        starts = self._starts[index]
        places = np.where(starts < 0, starts, starts + offsets)
        for buffer, region in enumerate(self.regions):
            if region.pages is None:
                continue
            here = index == buffer
            # For example, the pages 2 and 5 of a buffer are given. Offset 5 · 256 + 8 lies in page
            # 5, the second given page: it is byte 256 + 8 of the buffer's content. Offset 0 lies in
            # no given page: -1.
            page, behind = np.divmod(offsets[here] + region.offset % PAGE_BYTES, PAGE_BYTES)
            rank = np.searchsorted(region.pages, page)
            known = np.isin(page, region.pages)
            places[here] = np.where(known, self._starts[buffer] + rank * PAGE_BYTES + behind, -1)
        return places

    def spans(self) -> list[tuple[int, int, int, int, int]]:
        """Return (start, size, length of content, address, provenance) of each buffer.

        The start is the offset in the plane, or −1 without content.
        """
        return [
            (
                int(self._starts[i]), int(self._sizes[i]),
                0 if r.content is None else len(r.content), int(self._bases[i]), int(self._bits[i]),
            )
            for i, r in enumerate(self.regions)
        ]  # fmt: skip

    def bits(self, index: npt.NDArray[np.intp]) -> Masks:
        """Return the provenance of unknown values read from these buffers."""
        return self._bits[index]
