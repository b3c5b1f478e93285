"""Reuse across iterations, of blocks that share a cache: against a simulated cache."""

from itertools import product

import numpy as np
import pytest
from cache_simulation import (
    LINE,
    SECTOR,
    LeastRecentlyUsed,
    Program,
    RandomReplacement,
    loaded_bytes,
)

from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.reuse import Cache, CacheDemand, lost_bytes, touched_again
from perfassert.hardware.entries import CapacityCurve
from perfassert.kernel.access import Direction

NOTHING_WITHIN = CapacityCurve(0.0, 1.0, 1.0)
"""What one iteration touches again hits: the simulated blocks keep in step."""


class Sharp(Cache):
    """Least recently used: all or nothing."""

    def lost_across(self, room):
        return float(room.shared > self.capacity)


def program(warps, trips, *loads):
    """Loads: field, its loops, bytes from one thread, block and iteration to the next, offsets."""
    names = {"thread": "threadIdx.x", "block": "blockIdx.x"}
    groups = [
        AccessGroup(
            field, Direction.LOAD, 4, tuple((names.get(s, s), c) for s, c in terms.items()),
            np.array(offsets or [0]), 128, frozenset(),
            tuple((loop, (0, trips[loop] - 1)) for loop in loops), (), tuple(loops), (number,),
        )
        for number, (field, loops, terms, *offsets) in enumerate(loads)
    ]  # fmt: skip
    return Program(tuple(groups), trips, warps)


def sectors_asked(one, groups):
    """Return the sectors that the first block requests."""
    found = []
    for group in groups:
        spans = [range(first, last + 1) for _, (first, last) in group.ranges]
        for counters in product(*spans):
            values = dict(zip((loop for loop, _ in group.ranges), counters, strict=True))
            for offset, warp in product(group.offsets.tolist(), range(one.warps)):
                found += one.sectors(group, offset, values, 0, warp)
    return np.array(found)


def predicted(one, blocks, capacity, cache=Sharp, presence=1.0):
    """Bytes that the blocks load, by the closed form."""

    def footprint(groups):
        touched = sectors_asked(one, groups)
        lines = float(LINE * len(np.unique(touched // (LINE // SECTOR))))
        differ = any(group.block_axes for group in groups)
        moved = float(SECTOR * len(np.unique(touched)))
        return moved, CacheDemand(lines, lines * (blocks if differ else 1))

    fields = {group.field: [group] for group in one.groups}
    asked = {g.members: SECTOR * float(len(sectors_asked(one, [g]))) for g in one.groups}
    whole = {name: footprint(groups) for name, groups in fields.items()}
    redundant = {g.field: asked[g.members] - whole[g.field][0] for g in one.groups}
    room = CacheDemand(*map(sum, zip(*(room for _, room in whole.values()), strict=True)))
    nests = touched_again(fields, asked, footprint, Direction.LOAD, capacity, lambda loop: presence)
    lost = lost_bytes(redundant, 0.0, cache(NOTHING_WITHIN, capacity), room, nests)
    return blocks * (sum(moved for moved, _ in whole.values()) + sum(lost.values()))


def passes(count, values, warps=4):
    """``s += a[i + j * n]``, again and again."""
    trips = {"p": count, "j": values}
    return program(warps, trips, ("a", "pj", {"thread": 4, "block": 1 << 20, "j": 4 * 32 * warps}))


CAPACITY = 64 * LINE


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
@pytest.mark.parametrize("values", [1, 3, 8, 16])
def test_passes_hit_while_what_all_blocks_go_through_fits(blocks, values):
    one, turns = passes(6, values), 6
    simulated = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    once = blocks * values * 4 * LINE
    assert simulated == once * (turns if once > CAPACITY else 1)
    assert predicted(one, blocks, CAPACITY) == pytest.approx(simulated)


@pytest.mark.parametrize(("blocks", "values"), [(2, 12), (4, 6), (4, 8), (8, 4), (8, 8), (4, 3)])
def test_passes_of_blocks_out_of_step_differ_little(blocks, values):
    one = passes(8, values)
    in_turns = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    later = loaded_bytes(one, blocks, LeastRecentlyUsed(64), behind=values // 2)
    by_chance = loaded_bytes(one, blocks, LeastRecentlyUsed(64), seed=1)
    assert predicted(one, blocks, CAPACITY) == pytest.approx(in_turns)
    assert later == pytest.approx(in_turns, rel=0.35)
    assert by_chance == pytest.approx(in_turns, rel=0.35)


@pytest.mark.parametrize("idle", [0, 1, 5, 7, 15])
def test_blocks_that_are_in_other_code_need_no_room(idle):
    """Eight blocks go through 24 lines each; the cache holds 64. ``idle``: as many times as long as
    its loads a block does something else, so on average 8 / (idle + 1) of them load."""
    one, rounds = passes(8, 6), 4
    length = 48 * (idle + 1)
    simulated = loaded_bytes(
        one, 8, LeastRecentlyUsed(64), length // 8, idle=48 * idle, rounds=rounds
    )
    found = rounds * predicted(one, 8, CAPACITY, presence=1 / (idle + 1))
    assert found == pytest.approx(simulated, rel=0.2)


@pytest.mark.parametrize(("blocks", "values"), [(1, 12), (2, 8), (2, 12), (4, 6), (8, 6), (4, 3)])
def test_passes_where_any_line_may_leave_miss_gradually(blocks, values):
    one = passes(40, values)
    simulated = loaded_bytes(one, blocks, RandomReplacement(64))
    assert predicted(one, blocks, CAPACITY, Cache) == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
@pytest.mark.parametrize("warps", [1, 2])
def test_a_walk_along_rows_needs_the_lines_of_all_threads(blocks, warps):
    """A thread reads 32 values of a line, one after the other; no two threads share a line."""
    n = 128
    one = program(warps, {"k": n}, ("a", "k", {"thread": 4 * n, "block": 1 << 20, "k": 4}))
    simulated = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    rows = blocks * warps * 32
    assert simulated == rows * (4 * n if rows <= 64 else SECTOR * n)
    assert predicted(one, blocks, CAPACITY) == pytest.approx(simulated)


@pytest.mark.parametrize("blocks", [1, 8])
def test_a_walk_along_columns_touches_nothing_again(blocks):
    one = program(2, {"k": 100}, ("a", "k", {"thread": 4, "block": 1 << 20, "k": 4096}))
    simulated = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    assert predicted(one, blocks, CAPACITY) == simulated == blocks * 100 * 2 * LINE


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_a_tile_that_all_warps_read_in_one_iteration_is_loaded_once(blocks):
    """One iteration of a block fits into the cache, not all of them: nothing is loaded twice."""
    one = program(1, {"k": 200}, ("a", "k", {"block": 1 << 20, "k": LINE}))
    one = Program(one.groups, one.trips, 8)
    simulated = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    assert predicted(one, blocks, CAPACITY) == simulated == blocks * 200 * SECTOR


@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("columns", [8, 16, 40])
def test_a_vector_comes_back_after_a_row_of_the_matrix(blocks, columns):
    """Two loops: the rows pass by, the vector is read anew beside each of them."""
    trips = {"row": 6, "column": columns}
    matrix = (
        "a",
        ("row", "column"),
        {"block": 1 << 20, "thread": 4, "row": 1 << 14, "column": LINE},
    )
    vector = ("x", ("row", "column"), {"block": 1 << 20, "thread": 4, "column": LINE})
    one = program(1, trips, matrix, vector)
    simulated = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    assert predicted(one, blocks, CAPACITY) == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize("columns", [8, 16, 40, 80])
def test_what_all_blocks_read_takes_room_once(columns):
    trips = {"row": 6, "column": columns}
    vector = ("x", ("row", "column"), {"thread": 4, "column": LINE})
    one = program(1, trips, vector)
    blocks = 4
    simulated = loaded_bytes(one, blocks, LeastRecentlyUsed(64))
    shared = predicted(one, blocks, CAPACITY) / blocks  # the first of them loads for all
    assert shared == pytest.approx(simulated)


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
@pytest.mark.parametrize("reach", [1, 2, 5])
def test_planes_that_overlap_come_back_after_as_many_iterations(blocks, reach):
    """A plane is read again ``reach`` iterations later. Distances between two windows count as
    partly the shorter, partly the longer one."""
    plane = 4 * LINE
    one = program(
        4, {"z": 64}, ("a", "z", {"thread": 4, "block": 1 << 20, "z": plane}, 0, reach * plane)
    )
    simulated = [loaded_bytes(one, blocks, LeastRecentlyUsed(lines)) for lines in (256, 64, 16)]
    found = predicted(one, blocks, CAPACITY)
    assert 0.99 * simulated[0] <= found <= 1.01 * simulated[2]
    if reach == 1:
        assert found == pytest.approx(simulated[1], rel=0.01)
