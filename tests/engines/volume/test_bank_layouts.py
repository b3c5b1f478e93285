"""Padding and swizzles of tiles, against conflicts counted lane by lane."""

import random

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.bank_layouts import (
    Padding,
    Swizzle,
    TileAccess,
    find_layouts,
)

A100 = pa.device("a100")
BANKS, WORD = 32, 4


def passes(addresses, width):
    """Sum the largest number of words of a bank over groups of lanes that fill the banks."""
    group = BANKS * WORD // max(width, WORD)
    total = 0
    for start in range(0, len(addresses), group):
        words = {}
        for address in addresses[start : start + group]:
            for word in range(address // WORD, (address + width - 1) // WORD + 1):
                words.setdefault(word % BANKS, set()).add(word)
        total += max(map(len, words.values()))
    return total


def counted(access, move=lambda a: a):
    """Passes beyond those of lanes side by side."""
    least = -(-32 * max(access.item_bytes, WORD) // (BANKS * WORD))
    rows = move(access.addresses).tolist()
    return sum(max(0, passes(row, access.item_bytes) - least) for row in rows)


def tile_access(rows, width, pitch, ways):
    """Warps that go through a tile of ``pitch`` bytes a row: along rows, columns, or 8 rows at a
    time, as matrix fragments are loaded."""
    lanes, warps = np.arange(32), np.arange(8)[:, None]
    per_row = pitch // width
    place = {
        "rows": (warps * 32 + lanes) % (rows * per_row),
        "columns": (lanes * per_row + warps) % (rows * per_row),
        "fragments": ((lanes % 8 + warps * 8) % rows) * per_row + lanes // 8 % per_row,
        "every second": (2 * lanes * per_row + warps) % (rows * per_row),
    }[ways]
    addresses = (place * width).astype(np.int64)
    return TileAccess(addresses, np.ones(addresses.shape, bool), width, loads=False)


def random_tile(seed):
    """A tile with two or three kinds of access, at least one of them with conflicts."""
    draw = random.Random(seed)
    while True:
        rows, element = draw.choice([16, 32, 64]), draw.choice([2, 4, 8])
        pitch = element * draw.choice([16, 32, 64, 128])
        ways = draw.sample(["rows", "columns", "fragments", "every second"], draw.choice([2, 3]))
        widths = [draw.choice([element, min(16, 2 * element)]) for _ in ways]
        tile = [tile_access(rows, w, pitch, way) for w, way in zip(widths, ways, strict=True)]
        if any(map(counted, tile)):
            return tile, rows * pitch


@pytest.mark.parametrize("seed", range(40))
def test_on_random_tiles(seed):
    """Conflicts are as counted, before and after; every element has a place of its own."""
    tile, size = random_tile(seed)
    found = find_layouts(tile, size, A100)
    assert found.conflicts == sum(map(counted, tile))
    for checked in filter(None, (found.padding, found.swizzle)):
        layout = checked.layout
        assert checked.conflicts == sum(counted(a, layout.move) for a in tile) < found.conflicts
        elements = np.arange(0, size, layout.element_bytes)
        moved = layout.move(elements)
        assert len(np.unique(moved)) == len(elements)
        if checked is found.swizzle:
            assert moved.max() < size
        for access in tile:  # what a lane takes at once stays together
            first = access.addresses.ravel()
            for part in range(0, access.item_bytes, layout.element_bytes):
                assert (layout.move(first + part) == layout.move(first) + part).all()


def test_conflicts_of_random_tiles_go():
    """Layouts remove nine tenths of the conflicts.

    They remove all if accesses have one width, but for every second row of short ones.
    """
    found = [find_layouts(*random_tile(seed), A100) for seed in range(40)]
    before = sum(f.conflicts for f in found)
    for kind in ("padding", "swizzle"):
        left = [getattr(f, kind) for f in found]
        assert sum(c.conflicts if c else f.conflicts for c, f in zip(left, found, strict=True)) < (
            0.1 * before
        )


def test_what_nothing_removes():
    """Columns of words where pairs of words have to stay together."""
    tile = [tile_access(64, 8, 64, "rows"), tile_access(64, 4, 64, "columns")]
    found = find_layouts(tile, 64 * 64, A100)
    assert found.conflicts == 8 * 15  # 16 lanes in one bank
    assert found.swizzle.conflicts == 8  # two


def test_the_transposed_tile():
    """The example of the module."""
    tile = [tile_access(32, 4, 128, way) for way in ("rows", "columns")]
    found = find_layouts(tile, 32 * 128, A100)
    assert found.padding.layout == Padding(32, 1, 4)
    assert found.swizzle.layout == Swizzle(5, 0, 5, 4)
    assert found.swizzle.layout.index == "i ^ (i >> 5 & 31)"
    assert str(found.swizzle) == "Swizzle<5, 0, 5>: no conflict in 2 accesses"


def test_half_precision_fragments():
    """Rows of 64 halves, read as eight halves of eight rows: the layout of CUTLASS' tiles."""
    whole = tile_access(64, 16, 128, "rows")
    tile = [whole, tile_access(64, 16, 128, "fragments"), tile_access(64, 2, 128, "rows")]
    assert find_layouts(tile, 64 * 128, A100).swizzle.layout == Swizzle(3, 3, 3, 2)
