"""Layouts of a tile in shared memory with the fewest bank conflicts.

Two kinds of layout are tried: padded rows, and a swizzle, which combines some bits of an element's
index with higher bits by exclusive or. Each layout is checked on the addresses of all accesses. The
bytes that one lane accesses at once stay together, so some conflicts cannot be removed. If some
accesses take 8 bytes per lane, lanes that read 4 bytes each in a column use every second bank only.

For example, a warp reads one column of a tile of 32 x 32 floats, ``t[y][x]``: all lanes access one
bank. With rows of 33 elements lane ``y`` accesses bank ``(33 y + x) % 32 = (y + x) % 32``. With
``i ^ (i >> 5 & 31)`` in place of the index ``i = 32 y + x`` it accesses bank ``x ^ y``. In both
layouts the banks of all lanes differ, along rows and along columns.

Source: NVIDIA CUTLASS, ``include/cute/swizzle.hpp`` (``Swizzle<B, M, S>``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfassert.engines.volume.warps import shared_passes, wavefronts
from perfassert.hardware.model import Device
from perfassert.kernel.distinct import distinct

IntArray = npt.NDArray[np.int64]
_MOST_BITS = 5  # bits of a bank's number
_MOST_HIGHER = 12  # bits of an index that are tried: rows have fewer than 2^12 elements
_MOST_ROWS = 4  # largest padding of a row, in widths of the widest access


@dataclass(frozen=True, slots=True)
class TileAccess:
    """Accesses to a tile by the warps that execute one instruction.

    ``addresses`` holds bytes from the start of the tile, ``active`` the lanes that take part. Both
    have the shape (warp instructions, lanes). ``item_bytes`` is the number of bytes per lane.
    """

    addresses: IntArray
    active: npt.NDArray[np.bool_]
    item_bytes: int
    loads: bool = True


@dataclass(frozen=True, slots=True)
class Padding:
    """A layout with ``padding`` unused elements after every ``row`` elements."""

    row: int
    padding: int
    element_bytes: int

    def move(self, addresses: IntArray) -> IntArray:
        """Return the addresses in the padded tile."""
        # For example, rows of 32 floats with 1 float of padding: byte 132, element 1 of row 1,
        # moves to 136.
        return addresses + addresses // (self.row * self.element_bytes) * (
            self.padding * self.element_bytes
        )

    def __str__(self) -> str:
        return f"rows of {self.row + self.padding} instead of {self.row} elements"


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A layout that combines ``bits`` bits of an element's index with bits ``shift`` places higher.

    The bits from bit ``base`` on are combined by exclusive or, as ``Swizzle<bits, base, shift>`` of
    CuTe does.
    """

    bits: int
    base: int
    shift: int
    element_bytes: int

    def move(self, addresses: IntArray) -> IntArray:
        """Return the addresses in the swizzled tile."""
        # For example, Swizzle<5, 0, 5> moves element 33, 0b1_00001, to 33 ^ 1 = 32, and 32 to 32 ^
        # 1 = 33.
        index, within = np.divmod(addresses, self.element_bytes)
        higher = index >> (self.base + self.shift) & ((1 << self.bits) - 1)
        moved: IntArray = (index ^ higher << self.base) * self.element_bytes + within
        return moved

    @property
    def index(self) -> str:
        """The new place of element ``i``, as a C expression."""
        mask = (1 << self.bits) - 1
        higher = f"i >> {self.base + self.shift} & {mask}"
        return f"i ^ ({higher}) << {self.base}" if self.base else f"i ^ ({higher})"

    def __str__(self) -> str:
        return f"Swizzle<{self.bits}, {self.base}, {self.shift}>"


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked layout: the passes lost to conflicts in it, and the number of checked accesses."""

    layout: Padding | Swizzle
    conflicts: float
    accesses: int

    def __str__(self) -> str:
        left = f"{self.conflicts:g} passes lost to conflicts" if self.conflicts else "no conflict"
        return f"{self.layout}: {left} in {self.accesses} accesses"


@dataclass(frozen=True, slots=True)
class BankLayouts:
    """The best layout of each kind, None if no layout of that kind reduces the conflicts.

    ``conflicts`` is the number of passes lost to conflicts in the present layout.
    """

    padding: Checked | None
    swizzle: Checked | None
    conflicts: float


def find_layouts(accesses: Sequence[TileAccess], size: int, device: Device) -> BankLayouts:
    """Find the layouts of a tile with the fewest conflicts; among equals the smallest change wins.

    Args:
        accesses: all accesses to the tile, with their present addresses.
        size: bytes of the tile.
        device: the device, for its number of banks and their width.
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
        accesses: accesses of warps to a tile.
        device: the device, for its number of banks and their width.
    """
    return sum(
        _lost_passes(a, _passes_side_by_side(a, device), device, a.addresses) for a in accesses
    )


def _passes_side_by_side(access: TileAccess, device: Device) -> IntArray:
    """Return the passes of each instruction if its lanes accessed consecutive elements."""
    lanes = np.arange(access.addresses.shape[1], dtype=np.int64) * access.item_bytes
    side_by_side = np.ascontiguousarray(np.broadcast_to(lanes, access.addresses.shape))
    return wavefronts(side_by_side, access.active, access.item_bytes, device)


def _lost_passes(access: TileAccess, free: IntArray, device: Device, addresses: IntArray) -> float:
    """Count the passes at ``addresses`` beyond ``free``, the passes without conflicts."""
    taken = shared_passes(addresses, access.active, access.item_bytes, access.loads, False, device)
    return float(np.maximum(taken - free, 0).sum())


def _paddings(accesses: Sequence[TileAccess], element: int, widest: int) -> Iterator[Padding]:
    """Yield paddings, smallest first, for rows as long as the distances of neighbouring lanes."""
    steps = (np.abs(np.diff(a.addresses, axis=1)) for a in accesses)
    apart = {int(step) // element for s in steps for step in distinct(s)}
    rows = sorted(row for row in apart if row > widest and row % widest == 0)
    for times in range(1, _MOST_ROWS + 1):
        for row in rows:
            yield Padding(row, times * widest, element)


def _swizzles(element: int, widest: int, elements: int) -> Iterator[Swizzle]:
    """Yield swizzles inside the tile, fewest bits first, that do not split the widest access."""
    lowest = (widest - 1).bit_length()
    for bits in range(1, _MOST_BITS + 1):
        for base in range(lowest, lowest + _MOST_BITS):
            for shift in range(bits, _MOST_HIGHER - base):
                if elements % (1 << (base + bits)) == 0:
                    yield Swizzle(bits, base, shift, element)
