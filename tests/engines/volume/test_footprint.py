"""Footprints against enumeration of every thread."""

import tracemalloc

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfassert as pa
from perfassert.engines.volume import footprint
from perfassert.engines.volume.binding import bind_groups
from perfassert.engines.volume.footprint import box_volume, granules, linear_range, threads_in
from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.representatives import representatives
from perfassert.engines.volume.runs import (
    Runs,
    common,
    distinct,
    inner_granules,
    merge_runs,
    repeat_runs,
    size,
)
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, Quotient
from perfassert.kernel.names import LoopCounter

BLOCKS = [(1, 32, 16), (5, 7, 3), (1024, 1, 1), (16, 2, 2), (3, 1, 1), (32, 4, 1), (1, 1, 8)]


def make(texts, dtype="float64", alignment=256, offset=0):
    field = pa.Field("a", dtype, (1 << 22,), halo=1 << 21, alignment=alignment, offset=offset)
    return pa.Kernel.from_accesses("k", [field], loads=texts)


def count(runs):
    return int((runs.ends - runs.starts).sum())


def assert_footprints(kernel, texts, launch, blocks, first, last):
    groups = bind_groups(kernel, launch)
    boxes = linear_range(launch.grid, first, last)
    starts = brute_force.addresses(kernel, "a", texts, launch, blocks)
    item = kernel.fields["a"].item_bytes
    for granularity in (1, 32, 64, 128):
        expected = brute_force.granules(starts, item, granularity)
        assert count(granules(groups, boxes, launch, granularity)) == len(expected), granularity


coefficient = st.integers(-40, 40)


@st.composite
def affine(draw, symbols=("x", "y", "z")):
    terms = [f"{draw(coefficient)} * {s}" for s in draw(st.lists(st.sampled_from(symbols)))]
    return " + ".join([*terms, str(draw(st.integers(-300, 300)))])


@st.composite
def expression(draw):
    inner = draw(affine())
    kind = draw(st.sampled_from(["affine", "div", "mod", "thread", "nested"]))
    divisor = draw(st.sampled_from([-7, -2, 1, 2, 3, 4, 8, 32]))
    if kind == "div":
        return f"({inner}) // {divisor}"
    if kind == "mod":
        return f"({inner}) % {divisor} + {draw(coefficient)} * x"
    if kind == "thread":
        return draw(affine(("threadIdx.x", "blockIdx.x", "threadIdx.y", "blockIdx.y", "x", "z")))
    if kind == "nested":
        return f"(({inner}) // 3 + y) % {divisor} + 2 * z"
    return inner


@st.composite
def launches(draw):
    block = draw(st.sampled_from(BLOCKS))
    grid = tuple(draw(st.integers(1, n)) for n in (4, 3, 2))
    if block[0] * block[1] * block[2] > 128:
        grid = (min(grid[0], 2), 1, min(grid[2], 2))
    if draw(st.booleans()):
        return pa.Launch(grid, block)
    domain = tuple(
        draw(st.integers((g - 1) * b + 1, g * b)) for g, b in zip(grid, block, strict=True)
    )
    return pa.Launch.cover(domain, block)


@settings(max_examples=120)
@given(
    texts=st.lists(expression(), min_size=1, max_size=4),
    launch=launches(),
    dtype=st.sampled_from(["float64", "float32", "int16", "uint8", "complex128"]),
    phase=st.integers(0, 15),
    data=st.data(),
)
def test_random_accesses(texts, launch, dtype, phase, data):
    item = {"float64": 8, "float32": 4, "int16": 2, "uint8": 1, "complex128": 16}[dtype]
    loads = [f"a[{t}]" for t in texts]
    kernel = make(loads, dtype, offset=phase * item)
    last = data.draw(st.integers(1, launch.blocks))
    first = data.draw(st.integers(0, last - 1))
    blocks = list(brute_force.block_order(launch.grid))[first:last]
    assert_footprints(kernel, loads, launch, blocks, first, last)


@pytest.mark.parametrize("text", ["(3 * x + 6145 * y) // 2", "(6145 * x + 3 * y) // 2"])
def test_too_many_points_are_left_out_where_they_lie_closest(text, monkeypatch):
    """A quarter of them, an item of 4 bytes in 24, still touches each sector but for the last ones
    of a row; without every second row it would be half of them."""
    loads, launch = [f"a[{text}]"], pa.Launch((8, 8), (8, 8))
    monkeypatch.setattr(footprint, "_MAX_ENUMERATED", 64 * 64 // 4)
    kernel = make(loads, "float32")
    runs = granules(bind_groups(kernel, launch), linear_range(launch.grid, 0, 64), launch, 32)
    blocks = list(brute_force.block_order(launch.grid))
    starts = brute_force.addresses(kernel, "a", loads, launch, blocks)
    assert count(runs) == pytest.approx(len(brute_force.granules(starts, 4, 32)), rel=0.05)


@settings(max_examples=60)
@given(texts=st.lists(affine(), min_size=1, max_size=3, unique=True), launch=launches())
def test_l2_volumes_count_every_block_and_every_warp(texts, launch):
    """Classes of blocks carry exact weights, so sums over all blocks are exact for one shape."""
    offsets = [t.rpartition("+")[2] for t in texts]
    shape = texts[0].rpartition("+")[0] or "0 * x"
    loads = list(dict.fromkeys(f"a[{shape} + {o}]" for o in offsets))
    kernel = pa.Kernel.from_accesses(
        "k", make(loads).fields.values(), loads=loads, stores=loads[:1]
    )
    volumes = pa.predict(kernel, launch, "A100-SXM4-40GB").volumes
    sectors = sum(
        len(brute_force.touched(kernel, "a", loads, launch, [block], 32))
        for block in brute_force.block_order(launch.grid)
    )
    assert volumes.l2_load.parts["compulsory"] == 32 * sectors
    written = brute_force.warp_sectors(kernel, "a", loads[:1], launch)
    assert float(volumes.l2_store.total) == pytest.approx(32 * written, rel=1e-9)


@pytest.mark.parametrize(
    ("loads", "shape", "launch"),
    [
        (["a[x]", "a[2 * x]"], (1 << 18,), pa.Launch(100, 32)),
        (["a[y, x]", "a[x, y]"], (64, 64), pa.Launch.cover((64, 64), (16, 16))),
        (["a[x]", "a[threadIdx.x]"], (65536,), pa.Launch(200, 256)),
        (["a[x * 2 // 3]"], (512,), pa.Launch(6, 50)),
        (["a[x % 100]"], (128,), pa.Launch(20, 64)),
    ],
)
def test_accesses_that_move_apart_are_counted_block_by_block(loads, shape, launch):
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", "float32", shape)], loads, loads[:1])
    volumes = pa.predict(kernel, launch, "a100").volumes
    expected = sum(
        len(brute_force.touched(kernel, "a", loads, launch, [block], 32))
        for block in brute_force.block_order(launch.grid)
    )
    assert volumes.l2_load.parts["compulsory"] == 32 * expected
    written = brute_force.warp_sectors(kernel, "a", loads[:1], launch)
    assert float(volumes.l2_store.total) == pytest.approx(32 * written, rel=0.1)


def test_half_empty_warps_make_one_pass():
    def wavefronts(threads, stride=1):
        kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(2048,))], [f"a[{stride} * x]"])
        return pa.predict(kernel, pa.Launch(1, threads), "a100").volumes.l1_wavefronts.total

    assert [wavefronts(n) for n in (16, 20, 32)] == [1, 2, 2]
    assert [wavefronts(n, 16) for n in (16, 20, 32)] == [16, 20, 32]


@pytest.mark.parametrize("block", [(16, 2, 4), (5, 7, 3), (1, 32, 16), (1024, 1, 1)], ids=str)
def test_layers_at_any_size(block):
    """The quasi-polynomial extension of box_volume equals the direct count."""
    from star3d25pt import star3d25pt

    kernel = star3d25pt((1100, 300, 40))
    launch = pa.Launch.cover((1100, 300, 40), block)
    groups = [g for g in bind_groups(kernel, launch) if g.field == "src"]
    for counts in ((launch.grid[0], 1, 1), (launch.grid[0], launch.grid[1], 1), (1, 2, 2)):
        counts = tuple(
            min(c, e // b) or 1 for c, e, b in zip(counts, launch.extent, block, strict=True)
        )
        direct = count(granules(groups, [tuple((0, n) for n in counts)], launch, 64)) * 64
        assert box_volume(groups, counts, launch, 64) == pytest.approx(direct, rel=1e-12)


def test_closed_form_of_the_star():
    """A block of nx × ny × nz updates touches (nz + 8) ny + 8 nz rows, and x halos in the core."""
    from star3d25pt import star3d25pt

    kernel = star3d25pt((64, 64, 64))
    launch = pa.Launch.cover((64, 64, 64), (16, 4, 8))
    groups = [g for g in bind_groups(kernel, launch) if g.field == "src"]
    boxes = [((1, 2), (4, 5), (3, 4))]
    elements = (8 * 4 + 8 * 4 + 8 * 8) * 16 + 8 * 4 * 8
    assert count(granules(groups, boxes, launch, 1)) == elements * 8


def test_integer_sets_agree():
    """islpy counts the same sectors for a ragged wave of a 7-point star."""
    import islpy
    from star3d25pt import star

    from perfassert.engines.volume.integer_sets import as_isl, thread_set
    from perfassert.engines.volume.written import bound_expressions
    from perfassert.kernel.affine import split_axis

    loads = [f"a[z + {dz}, y + {dy}, x + {dx}]" for dz, dy, dx in star(reach=1)]
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(6, 6, 21), halo=1)], loads=loads)
    launch = pa.Launch.cover((21, 6, 6), (8, 2, 3))
    wave = islpy.Set("{ [tx, ty, tz, bx, by, bz] : 4 <= bx + 3 by + 9 bz < 11 }")
    sectors = islpy.Set("{ [s] : false }")
    for bound in bound_expressions(kernel, launch).accesses:
        form = bound.address
        for axis, block in zip("xyz", launch.block, strict=True):
            form = split_axis(form, axis, block)
        to_sector = islpy.Map(as_isl(form).replace("[(", "[floor((").replace(")] }", ")/32)] }"))
        sectors = sectors.union(wave.intersect(thread_set(launch)).apply(to_sector))
    groups = bind_groups(kernel, launch)
    found = granules(groups, linear_range(launch.grid, 4, 11), launch, 32)
    assert sectors.coalesce().count_val().to_python() == count(found)


@given(
    grid=st.tuples(*(st.integers(1, 5),) * 3), first=st.integers(-3, 130), span=st.integers(0, 130)
)
def test_linear_ranges(grid, first, span):
    """A run of blocks in launch order is covered exactly once, by at most five boxes."""
    boxes = linear_range(grid, first, first + span)
    order = list(brute_force.block_order(grid))
    covered = [
        (x, y, z)
        for (x0, x1), (y0, y1), (z0, z1) in boxes
        for z in range(z0, z1)
        for y in range(y0, y1)
        for x in range(x0, x1)
    ]
    assert covered == order[max(first, 0) : max(first + span, 0)]
    assert len(boxes) <= 5
    launch = pa.Launch(grid, (2, 3, 1))
    assert threads_in(boxes, launch) == 6 * len(covered)


runs_of = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), max_size=12)


def as_runs(pairs):
    import numpy as np

    starts = np.array([s for s, _ in pairs], dtype=np.int64)
    return merge_runs(starts, starts + np.array([n for _, n in pairs], dtype=np.int64), 1)


def as_set(runs: Runs):
    return {b for s, e in zip(runs.starts, runs.ends, strict=True) for b in range(s, e)}


@given(a=runs_of, b=runs_of, stride=st.integers(-30, 30), n=st.integers(1, 6))
def test_runs_are_sets(a, b, stride, n):
    one, other = as_runs(a), as_runs(b)
    assert as_set(one) == {s + i for s, length in a for i in range(length)}
    assert size(one) == len(as_set(one))
    assert common(one, other) == len(as_set(one) & as_set(other))
    assert as_set(repeat_runs(one, stride, n, 1)) == {
        v + stride * i for v in as_set(one) for i in range(n)
    }
    whole = [g for g in range(-40, 40) if set(range(4 * g, 4 * g + 4)) <= as_set(one)]
    assert inner_granules(one, 4) == len(whole)


@given(st.lists(st.integers(-40, 40), max_size=30), st.sampled_from([1, 7, 1 << 20, 1 << 50]))
def test_dense_or_not_distinct_values_are_those_that_occur(values, step):
    array = np.array(values, dtype=np.int64) * step
    found = distinct(array)
    assert found.dtype == np.int64
    assert found.tolist() == sorted({value * step for value in values})


def test_a_footprint_in_too_many_pieces_is_refused_before_it_takes_the_memory():
    field = pa.Field("a", "float64", (1 << 37,))
    kernel = pa.Kernel.from_accesses("k", [field], loads=["a[8 * (x + 64 * y + 262144 * z)]"])
    launch = pa.Launch.cover((64, 4096, 1 << 15), (64, 16))
    groups = bind_groups(kernel, launch)
    few, many = ([((0, 1), (0, 256), (0, last))] for last in (1, 1 << 15))
    assert count(granules(groups, few, launch, 32)) == 64 * 4096
    with pytest.raises(pa.LaunchError, match=r"'a' has \d+ separate pieces"):
        granules(groups, many, launch, 32)


def thirds(trips, *terms):
    """Another 4 B for every three of what counts a loop's iterations and the terms."""
    counter = LoopCounter(0)
    quotient = Quotient(Affine(0, ((counter, 1), *terms)), 3)
    return [
        AccessGroup(
            "a", Direction.LOAD, 4, ((quotient, 4),), np.zeros(1, np.int64), 128, frozenset(),
            ranges=((counter, (0, trips - 1)),), loops=(counter,),
        )
    ]  # fmt: skip


@pytest.mark.parametrize("trips", [1 << 20, 1 << 34])
def test_a_loop_of_any_length_takes_little_memory(trips):
    """Its counter is tied by a quotient."""
    groups = thirds(trips)
    launch = pa.Launch((1,), (32,))
    tracemalloc.start()
    found = count(granules(groups, [((0, 1), (0, 1), (0, 1))], launch, 32))
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 1 << 28
    assert trips > 1 << 21 or found == -(-trips // 3 * 4 // 32)  # of more values some are left out


@pytest.mark.parametrize(("trips", "blocks"), [(100, 200), (1 << 16, 200), (1 << 34, 16)])
def test_fewer_blocks_stand_for_the_grid_where_each_takes_long(trips, blocks):
    """At most 2^21 values of a block are evaluated, and 2^25 of all blocks."""
    chosen = representatives(thirds(trips, ("x", 5)), pa.Launch((200,), (2,)), 128)
    assert len(chosen) == blocks
    assert sum(block.weight for block in chosen) == pytest.approx(200)
