"""Blocks that stand for others, against a count over all blocks of the grid."""

import numpy as np
import pytest

from perfassert.engines.volume.block_classes import sampled_blocks
from perfassert.engines.volume.groups import AccessGroup
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, AffineCall, Quotient, below_zero
from perfassert.kernel.launch import Launch

X, Y = Affine(0, (("x", 1),)), Affine(0, (("y", 1),))


def group(*conditions, **ranges):
    return AccessGroup(
        "a", Direction.LOAD, 4, (("x", 4),), np.zeros(1, dtype=np.int64), 256, frozenset(),
        tuple(ranges.items()), conditions,
    )  # fmt: skip


def equal(form, value):
    return Affine(
        0, ((AffineCall("==", (Affine(form.constant - value, form.terms), Affine(0))), 1),)
    )


def on_border(width, height):
    edges = (equal(X, 0), equal(Y, 0), equal(X, width - 1), equal(Y, height - 1))
    return Affine(0, ((AffineCall("or", edges), 1),))


def lanes(launch, holds):
    """Threads of each block for which the guard holds, by brute force."""
    nx, ny, _ = launch.block
    width, height, _ = launch.extent
    x, y = np.meshgrid(np.arange(width), np.arange(height), indexing="ij")
    counts = np.zeros((launch.grid[0], launch.grid[1]), dtype=np.int64)
    np.add.at(counts, (x // nx, y // ny), holds(x, y))
    return counts


CASES = [
    ("x < n", group(x=(0, 99_999)), Launch.cover(200_000, 256), lambda x, y: x < 100_000),
    ("x // 36 < n", group(below_zero(Affine(-1000, ((Quotient(X, 36), 1),)))),
     Launch.cover(200_000, 256), lambda x, y: x // 36 < 1000),
    ("border", group(on_border(1000, 900)), Launch.cover((1000, 900), (16, 16)),
     lambda x, y: (x == 0) | (y == 0) | (x == 999) | (y == 899)),
    ("border, cut", group(on_border(997, 901)), Launch.cover((997, 901), (16, 16)),
     lambda x, y: (x == 0) | (y == 0) | (x == 996) | (y == 900)),
    ("below the diagonal", group(below_zero(Affine(0, (("x", 1), ("y", -1))))),
     Launch.cover((1000, 1000), (16, 16)), lambda x, y: x < y),
]  # fmt: skip


@pytest.mark.parametrize(("name", "own", "launch", "holds"), CASES, ids=[c[0] for c in CASES])
def test_active_threads_are_those_of_the_grid(name, own, launch, holds):
    counts = lanes(launch, holds)
    chosen = sampled_blocks([own], launch, 64)
    assert sum(w for _, w, _ in chosen) == pytest.approx(counts.size)
    assert len(chosen) <= 64 + 128
    found = sum(w * counts[x, y] for (x, y, _), w, _ in chosen)
    assert found == pytest.approx(counts.sum(), rel=0.002)


def test_few_blocks_are_all_taken():
    chosen = sampled_blocks([group(x=(0, 5))], Launch.cover(1000, 256), 64)
    assert sorted(c[:2] for c in chosen) == [((i, 0, 0), 1.0) for i in range(4)]


@pytest.mark.parametrize("blocks", [10**6, 10**9])
def test_large_grids_are_looked_at_in_part(blocks):
    launch = Launch(blocks, 256)
    chosen = sampled_blocks([group(x=(0, blocks * 64 - 1))], launch, 64)
    assert sum(w for _, w, _ in chosen) == pytest.approx(blocks)
    working = sum(w for (x, _, _), w, _ in chosen if x < blocks // 4)
    assert working == pytest.approx(blocks / 4, rel=0.01)
