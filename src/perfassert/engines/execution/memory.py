"""Memory as the executed warps see it: buffers, shared and local memory, constant banks.

A pointer argument points into a span of 2⁴⁰ addresses of its own, so that every address says which
buffer is meant; generic addresses of shared and local memory lie below all of them.
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

Offsets = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]
SPAN_BITS = MAX_BYTES.bit_length()
SHARED_WINDOW = 1  # high words of generic addresses
LOCAL_WINDOW = 2
_MIDDLE = MAX_BYTES
_PADDING = PAGE_BYTES


@dataclass(frozen=True, eq=False)
class Region:
    """What a pointer argument points to.

    ``content``: its bytes, or None where nobody gave them; ``size`` in bytes, None: unknown;
    ``offset``: of the first byte from a 256-B boundary. ``pages``: with them ``content`` is that of
    some pages of 256 B only, which start where addresses are multiples of it; of the others, and of
    all where ``pages`` is empty, nobody gave it.
    """

    name: str
    content: npt.NDArray[np.uint8] | None = None
    size: int | None = None
    offset: int = 0
    pages: npt.NDArray[np.int64] | None = None


def pointer(index: int, offset: int = 0) -> int:
    """Where the buffer of the pointer argument at ``index`` starts."""
    return ((index + 1) << SPAN_BITS) + _MIDDLE + offset


class Plane:
    """Bytes, and for each byte where it comes from while it is unknown."""

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
        """All of it is unknown from here on."""
        self._mark(np.array(mask, np.uint32), start, stop)

    def unknown(self, start: int, stop: int) -> int:
        """How many bytes of a range are unknown."""
        return 0 if self._unknown is None else int(np.count_nonzero(self._unknown[start:stop]))

    def read(self, offsets: Offsets, size: int) -> tuple[tuple[Words, ...], Masks | None]:
        """Words at ``offsets``, which are multiples of ``size``; and where they come from."""
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
        """Write one-dimensional arrays; of lanes that overlap, the last one stays."""
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
        """The code of each byte; where all are known, an array that :meth:`adopt` takes."""
        return np.zeros(len(self.content), np.uint8) if self._unknown is None else self._unknown

    @property
    def marked(self) -> bool:
        """Whether any byte may be unknown."""
        return self._unknown is not None

    def adopt(self, marks: npt.NDArray[np.uint8]) -> None:
        """Take over codes that were written elsewhere."""
        self._unknown = marks


class GlobalMemory:
    """All buffers in one plane; those without content are nowhere in it."""

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
        """What the buffers with known content hold now."""
        return {
            r.name: self.plane.content[start : start + len(r.content)].copy()
            for r, start in zip(self.regions, self._starts.tolist(), strict=False)
            if r.content is not None
        }

    def unknowns(self) -> dict[str, int]:
        """How many bytes of each buffer are unknown now, its own content given."""
        return {
            r.name: 0 if r.content is None else self.plane.unknown(start, start + len(r.content))
            for r, start in zip(self.regions, self._starts.tolist(), strict=False)
        }

    def taint(self, addresses: Addresses, mask: int) -> None:
        """The buffers that these addresses lie in are unknown from here on."""
        for index in np.unique(self.locate(addresses)[0]):
            if index < 0:
                self.plane.taint(mask)
            elif self._starts[index] >= 0:
                start = int(self._starts[index])
                content = self.regions[index].content
                self.plane.taint(mask, start, start + (0 if content is None else len(content)))

    def locate(self, addresses: Addresses) -> tuple[npt.NDArray[np.intp], Offsets]:
        """Which buffer each address means (−1: none), and the offset in it."""
        index = (addresses >> np.uint64(SPAN_BITS)).astype(np.int64) - 1
        index = np.where((index < 0) | (index >= len(self.regions)), -1, index)
        offsets = (addresses - self._bases[index]).view(np.int64)
        return index, offsets

    def inside(
        self, index: npt.NDArray[np.intp], offsets: Offsets, size: int
    ) -> npt.NDArray[np.bool_]:
        """Whether ``size`` bytes there belong to the buffer."""
        return (offsets >= 0) & (offsets <= self._sizes[index] - size)

    def place(self, index: npt.NDArray[np.intp], offsets: Offsets) -> Offsets:
        """Where in the plane that is, inside of the buffers; below 0: its content is unknown."""
        starts = self._starts[index]
        places = np.where(starts < 0, starts, starts + offsets)
        for buffer, region in enumerate(self.regions):
            if region.pages is None:
                continue
            here = index == buffer
            page, behind = np.divmod(offsets[here] + region.offset % PAGE_BYTES, PAGE_BYTES)
            rank = np.searchsorted(region.pages, page)
            known = np.isin(page, region.pages)
            places[here] = np.where(known, self._starts[buffer] + rank * PAGE_BYTES + behind, -1)
        return places

    def spans(self) -> list[tuple[int, int, int, int, int]]:
        """Of each buffer: its start in the plane (−1: nowhere), its size, how much of the plane it
        takes, its address, its provenance."""
        return [
            (
                int(self._starts[i]), int(self._sizes[i]),
                0 if r.content is None else len(r.content), int(self._bases[i]), int(self._bits[i]),
            )
            for i, r in enumerate(self.regions)
        ]  # fmt: skip

    def bits(self, index: npt.NDArray[np.intp]) -> Masks:
        """The provenance of what is read there."""
        return self._bits[index]
