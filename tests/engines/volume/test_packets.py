"""Packets of a warp's access to the L2, against bytes that are counted one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.engines.volume.warps import Moves, count_packets, count_rows
from perfassert.kernel.access import Direction

DEVICE = pa.device("H200")


def access(direction, item_bytes, serial=False):
    return SimpleNamespace(direction=direction, item_bytes=item_bytes, serial=serial)


def packets(addresses, group):
    none = np.zeros(1, np.int64)
    counts = count_rows(np.array([addresses], dtype=np.int64), Moves(none, 1, none), DEVICE)
    return int(count_packets(counts, group, DEVICE)[0])


@pytest.mark.parametrize(
    ("stride", "width", "stored", "loaded"),
    [
        (4, 4, 4, 1),  # a line as a whole
        (16, 16, 16, 4),
        (16, 8, 16 + 4, 4),  # half of each sector
        (32, 4, 32 + 8, 8),
        (64, 4, 32 + 16, 16),
        (128, 16, 32 + 32, 32),
        (0, 4, 1 + 1, 1),  # all lanes on one word
    ],
)
def test_strides(stride, width, stored, loaded):
    """A stored sector takes one packet, a line that is written in part one more, as on an H200."""
    addresses = stride * np.arange(32)
    assert packets(addresses, access(Direction.STORE, width)) == stored
    assert packets(addresses, access(Direction.LOAD, width)) == loaded
    assert packets(addresses, access(Direction.STORE, width, serial=True)) == len(
        set(addresses // 32)
    )


@given(st.lists(st.integers(0, 255), min_size=1, max_size=32), st.sampled_from([4, 8, 16]))
def test_any_addresses(items, width):
    written = {width * item + byte for item in items for byte in range(width)}
    sectors, lines = {b // 32 for b in written}, {b // 128 for b in written}
    whole = len(written) == 32 * len(sectors)
    addresses = width * np.array(items)
    assert packets(addresses, access(Direction.LOAD, width)) == len(lines)
    expected = len(sectors) + (0 if whole else len(lines))
    assert packets(addresses, access(Direction.STORE, width)) == expected
