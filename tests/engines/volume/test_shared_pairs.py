"""Loads of 8 and 16 bytes from shared memory: passes of parts of a warp that merge."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.warps import shared_passes

DEVICE = pa.device("A100-SXM4-40GB")
LANES = np.arange(32)


def passes(addresses, item_bytes, active=None, loads=True, device=DEVICE):
    active = np.ones(32, bool) if active is None else active
    shaped = np.asarray(addresses, np.int64)[None], active[None]
    return float(shared_passes(*shaped, item_bytes, loads, False, device)[0])


def enumerated(addresses, item_bytes, active):
    """The rule as it is published: by words of 4 bytes, part of the warp by part."""

    def agrees(distance):
        pairs = [(n, n ^ distance) for n in range(32)]
        return all(addresses[a] == addresses[b] for a, b in pairs if active[a] and active[b])

    size = 128 // item_bytes
    if item_bytes > 4 and (agrees(1) or agrees(2)):
        size *= 2
    total = 0
    for first in range(0, 32, size):
        words = {
            int(addresses[n]) // 4 + k
            for n in range(first, min(first + size, 32))
            if active[n]
            for k in range(item_bytes // 4)
        }
        banks = [word % 32 for word in words]
        total += max((banks.count(bank) for bank in set(banks)), default=0)
    return total


@pytest.mark.parametrize(
    ("item_bytes", "apart", "paired"), [(4, 1, 1), (8, 2, 1), (16, 4, 2)], ids=str
)
def test_pairs_halve_the_passes(item_bytes, apart, paired):
    assert passes(LANES * item_bytes, item_bytes) == apart
    assert passes(LANES // 2 * item_bytes, item_bytes) == paired  # n and n ^ 1
    third = (LANES & 1 | LANES >> 2 << 1) * item_bytes  # n and n ^ 2
    assert passes(third, item_bytes) == paired
    assert passes(LANES * 0, item_bytes) == paired  # all lanes at one address


def test_masked_lanes_agree_with_any():
    even = LANES % 2 == 0
    assert passes(LANES * 8, 8, even) == 2  # banks collide: 16 items, eight of each half of them
    assert passes(LANES // 2 * 8, 8, even) == 1
    assert passes(LANES // 2 * 16, 16, even) == 2


def test_pairs_of_pairs_that_differ_in_one_place_do_not_merge():
    addresses = LANES // 2 * 8
    addresses[31] = 0
    assert passes(addresses, 8) == 2


def test_stores_do_not_merge():
    assert passes(LANES // 2 * 8, 8, loads=False) == 2


def test_a_device_without_the_rule():
    plain = DEVICE.replace(shared_merged_passes=1)
    assert passes(LANES // 2 * 8, 8, device=plain) == 2
    assert passes(LANES // 2 * 16, 16, device=plain) == 4


@pytest.mark.parametrize("item_bytes", [4, 8, 16])
@pytest.mark.parametrize("seed", range(40))
def test_passes_are_those_of_the_published_rule(seed, item_bytes):
    draw = np.random.default_rng(seed)
    items = draw.integers(0, 48, 32)
    kind = seed % 4
    if kind == 1:
        items = items[LANES >> 1 << 1]
    elif kind == 2:
        items = items[LANES & ~2]
    elif kind == 3:
        items = items[LANES >> 2 << 2]
    active = draw.random(32) < (0.7 if seed % 3 else 1.0)
    expected = enumerated(items * item_bytes, item_bytes, active)
    assert passes(items * item_bytes, item_bytes, active) == expected
