"""Layouts of a tile in shared memory with the fewest bank conflicts.

Two kinds are looked for: rows that are padded, and a swizzle, by which some bits of an element's
index are combined with higher ones. Each is checked on the addresses of all accesses. What one
access takes at once stays together, so that some conflicts have to stay as well: lanes that read 4
bytes each in a column are in every second bank wherever others take 8 bytes at once.

A tile of 32 x 32 floats, ``t[y][x]``, that a warp reads by columns: all lanes meet in one bank.
With rows of 33 elements lane ``y`` is in bank ``(33 y + x) % 32 = (y + x) % 32``. With
``i ^ (i >> 5 & 31)`` for the index ``i = 32 y + x`` it is in bank ``x ^ y``. Both differ from lane
to lane, by rows as well as by columns.

Source: NVIDIA CUTLASS, ``include/cute/swizzle.hpp`` (``Swizzle<B, M, S>``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfassert.engines.volume.warps import shared_passes, wavefronts
from perfassert.hardware.model import Device

IntArray = npt.NDArray[np.int64]
_MOST_BITS = 5  # of the number of a bank
_MOST_HIGHER = 12  # bits: a tile has no more elements in a row
_MOST_ROWS = 4  # widths of an access by which a row is longer


@dataclass(frozen=True, slots=True)
class TileAccess:
    """Accesses of warps by one instruction: bytes from the start of the tile and whether a lane
    takes part, each of shape (instructions, lanes); ``item_bytes`` of a lane."""

    addresses: IntArray
    active: npt.NDArray[np.bool_]
    item_bytes: int
    loads: bool = True


@dataclass(frozen=True, slots=True)
class Padding:
    """``padding`` unused elements after every ``row`` of them."""

    row: int
    padding: int
    element_bytes: int

    def move(self, addresses: IntArray) -> IntArray:
        """Addresses in the padded tile."""
        return addresses + addresses // (self.row * self.element_bytes) * (
            self.padding * self.element_bytes
        )

    def __str__(self) -> str:
        return f"rows of {self.row + self.padding} instead of {self.row} elements"


@dataclass(frozen=True, slots=True)
class Swizzle:
    """``bits`` of an element's index, from bit ``base`` on, combined with those ``shift`` higher,
    by exclusive or: ``Swizzle<bits, base, shift>`` of CuTe."""

    bits: int
    base: int
    shift: int
    element_bytes: int

    def move(self, addresses: IntArray) -> IntArray:
        """Addresses in the swizzled tile."""
        index, within = np.divmod(addresses, self.element_bytes)
        higher = index >> (self.base + self.shift) & ((1 << self.bits) - 1)
        moved: IntArray = (index ^ higher << self.base) * self.element_bytes + within
        return moved

    @property
    def index(self) -> str:
        """The place of element ``i``, as an expression of C."""
        mask = (1 << self.bits) - 1
        higher = f"i >> {self.base + self.shift} & {mask}"
        return f"i ^ ({higher}) << {self.base}" if self.base else f"i ^ ({higher})"

    def __str__(self) -> str:
        return f"Swizzle<{self.bits}, {self.base}, {self.shift}>"


@dataclass(frozen=True, slots=True)
class Checked:
    """A layout, the passes that conflicts cost in it, and how many accesses were counted."""

    layout: Padding | Swizzle
    conflicts: float
    accesses: int

    def __str__(self) -> str:
        left = f"{self.conflicts:g} passes lost to conflicts" if self.conflicts else "no conflict"
        return f"{self.layout}: {left} in {self.accesses} accesses"


@dataclass(frozen=True, slots=True)
class BankLayouts:
    """The best of each kind; None where none has fewer conflicts. ``conflicts`` as it is."""

    padding: Checked | None
    swizzle: Checked | None
    conflicts: float


def find_layouts(accesses: Sequence[TileAccess], size: int, device: Device) -> BankLayouts:
    """Find the layouts of a tile with the fewest conflicts; of equal ones that which changes least.

    Args:
        accesses: all that there are to the tile, with the addresses that it has now.
        size: bytes of the tile.
        device: whose banks count.
    """
    element = min(a.item_bytes for a in accesses)
    widest = max(a.item_bytes for a in accesses) // element
    known = [(a, _passes_side_by_side(a, device)) for a in accesses]
    now = [_lost_passes(a, free, device, a.addresses) for a, free in known]
    worst_first = [known[n] for n in sorted(range(len(now)), key=lambda n: -now[n])]

    def best(layouts: Iterable[Padding | Swizzle]) -> Checked | None:
        least_conflicts, fewest = None, sum(now)
        for layout in layouts:
            left = 0.0
            for a, free in worst_first:
                left += _lost_passes(a, free, device, layout.move(a.addresses))
                if left >= fewest:
                    break
            else:
                least_conflicts, fewest = Checked(layout, left, len(accesses)), left
                if not left:
                    break
        return least_conflicts

    paddings = _paddings(accesses, element, widest)
    swizzles = _swizzles(element, widest, size // element)
    return BankLayouts(best(paddings), best(swizzles), sum(now))


def conflicts(accesses: Iterable[TileAccess], device: Device) -> float:
    """Count the passes of accesses beyond those that they would take without conflicts.

    Args:
        accesses: of warps.
        device: whose banks count.
    """
    return sum(
        _lost_passes(a, _passes_side_by_side(a, device), device, a.addresses) for a in accesses
    )


def _passes_side_by_side(access: TileAccess, device: Device) -> IntArray:
    """Passes of each instruction, if its lanes accessed elements side by side."""
    lanes = np.arange(access.addresses.shape[1], dtype=np.int64) * access.item_bytes
    side_by_side = np.ascontiguousarray(np.broadcast_to(lanes, access.addresses.shape))
    return wavefronts(side_by_side, access.active, access.item_bytes, device)


def _lost_passes(access: TileAccess, free: IntArray, device: Device, addresses: IntArray) -> float:
    """Passes beyond ``free``, those without conflicts, with the lanes at these addresses."""
    taken = shared_passes(addresses, access.active, access.item_bytes, access.loads, False, device)
    return float(np.maximum(taken - free, 0).sum())


def _paddings(accesses: Sequence[TileAccess], element: int, widest: int) -> Iterator[Padding]:
    """Rows are as long as lanes are apart; the least padding first."""
    steps = (np.abs(np.diff(a.addresses, axis=1)) for a in accesses)
    apart = {int(step) // element for s in steps for step in np.unique(s)}
    rows = sorted(row for row in apart if row > widest and row % widest == 0)
    for times in range(1, _MOST_ROWS + 1):
        for row in rows:
            yield Padding(row, times * widest, element)


def _swizzles(element: int, widest: int, elements: int) -> Iterator[Swizzle]:
    """The fewest bits first. Elements of the widest access stay side by side, and none leaves the
    tile."""
    lowest = (widest - 1).bit_length()
    for bits in range(1, _MOST_BITS + 1):
        for base in range(lowest, lowest + _MOST_BITS):
            for shift in range(bits, _MOST_HIGHER - base):
                if elements % (1 << (base + bits)) == 0:
                    yield Swizzle(bits, base, shift, element)
