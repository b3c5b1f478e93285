"""Width of the L1 pipe: its bytes in a cycle, and the cycles that an access takes at least."""

from types import SimpleNamespace

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.warps import rows_cost
from perfassert.kernel.access import Direction

LANES = np.arange(32)


def cycles(device, item_bytes, active=None, stride=1):
    active = np.ones(32, bool) if active is None else active
    addresses = (LANES * item_bytes * stride).astype(np.int64)
    load = SimpleNamespace(direction=Direction.LOAD, item_bytes=item_bytes, serial=False)
    return rows_cost(addresses[None], active[None], load, 256, device).cycles


@pytest.mark.parametrize(
    ("device", "four", "eight", "sixteen"),
    [("a100", 1, 2, 4), ("rtx-3090", 2, 2, 4), ("rtx-4090", 2, 2, 4), ("rtx-2080-ti", 2, 4, 8)],
)
def test_contiguous_items(device, four, eight, sixteen):
    device = pa.device(device)
    assert [cycles(device, size) for size in (4, 8, 16)] == [four, eight, sixteen]


def test_few_lanes_take_as_long_as_an_access():
    some = LANES < 8
    assert cycles(pa.device("rtx-3090"), 4, some) == 2
    assert cycles(pa.device("rtx-3090"), 16, some) == 2
    assert cycles(pa.device("a100"), 16, some) == 1


def test_the_least_time_is_no_addend():
    """If banks or tags take longer than the least time, the least time is not added."""
    with_least = pa.device("rtx-3090")
    without = with_least.replace(l1_access_cycles=0)
    assert cycles(with_least, 4, stride=32) == cycles(without, 4, stride=32) > 2
