"""Tests of loads of sectors that are new to a warp, against sets of sectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfassert as pa
from perfassert.engines.volume.binding import bind_groups
from perfassert.engines.volume.first_touches import first_touches
from perfassert.predictor.model import bind_launch
from perfassert.predictor.session import DEFAULT

pytestmark = pytest.mark.exhaustive(one_in=4)

WHOLE = slice(None)
GPU = pa.device("a100")
CODE = """
extern "C" __global__ void walk(const {type}* a, const int* shift, {type}* out, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {type} sum = 0;
    {guard}
    #pragma unroll {unroll}
    for (int j = 0; j < n; ++j) sum += a[{index}];
    out[i] = sum;
}}"""
N, BLOCKS = 256, 64


def walked(folder, index, type_="float", guard="", unroll=1):
    """First touches of ``a`` by threads that walk through ``N`` iterations."""
    pytest.importorskip("nvidia.cu13")
    (file := folder / "walk.cu").write_text(
        CODE.format(type=type_, index=index, guard=guard, unroll=unroll)
    )
    size = 64 * BLOCKS * N
    dtype = {"float": "float32", "double": "float64", "char": "int8"}[type_]
    args = {
        "a": pa.Buffer(size, dtype), "shift": np.zeros(N, np.int32), "out": pa.Buffer(size, dtype),
        "n": N,
    }  # fmt: skip
    launch = pa.Launch(BLOCKS, 64, args=args)
    bound = bind_launch(DEFAULT.ask(pa.from_cuda(file), launch, GPU))
    groups = [g for g in bound.estimate.groups if g.field == "a"]
    most = [g for g in groups if g.loops == max((g.loops for g in groups), key=len)]
    return first_touches(most, bound.effective_launch, GPU)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("shifted", ["", " + shift[j]"])
@pytest.mark.parametrize(("type_", "each"), [("char", 32), ("float", 8), ("double", 4)])
def test_a_row_for_each_thread_is_new_once_for_a_sector(tmp_path, type_, each, shifted):
    found = walked(tmp_path, f"i * n + j{shifted}", type_)
    assert found.new_share(WHOLE) == 1 / each
    assert found.executions_with_arriving(WHOLE) == 1 / each  # in all lanes at once


@pytest.mark.parametrize("shifted", ["", " + shift[i % 4]"])
def test_loads_of_one_iteration_are_new_where_none_of_them_was_before(tmp_path, shifted):
    """Four in each iteration: the first of them is new in every second one."""
    found = walked(tmp_path, f"i * n + j{shifted}", unroll=4)
    assert found.asked.shape[1] == 4
    assert [found.executions_with_arriving(slice(k, k + 1)) for k in range(4)] == [0.5, 0, 0, 0]
    assert found.new_share(WHOLE) == 1 / 8


@pytest.mark.parametrize("shifted", ["", " + shift[j]"])
def test_rows_that_are_shifted_against_each_other_are_new_in_more_iterations(tmp_path, shifted):
    """Lanes begin one item further in their sectors from row to row."""
    found = walked(tmp_path, f"i * (n + 1) + j{shifted}")
    assert found.new_share(WHOLE) == pytest.approx(1 / 8, abs=0.04)
    assert found.executions_with_arriving(WHOLE) > 0.9


def test_what_neighbours_share_is_new_every_time(tmp_path):
    found = walked(tmp_path, "j * gridDim.x * blockDim.x + i")
    assert found.new_share(WHOLE) == found.executions_with_arriving(WHOLE) == 1


@pytest.mark.parametrize("shifted", ["", " + shift[j]"])
def test_what_warps_share_arrives_for_all_of_them(tmp_path, shifted):
    """Both warps of a block come to the same sector in the same iteration, and wait for it."""
    found = walked(tmp_path, f"j{shifted}")
    assert found.new_share(WHOLE) == found.executions_with_arriving(WHOLE) == 1 / 8
    assert found.shared == 1 / 16


def test_what_a_warp_has_touched_earlier_is_there_for_the_others(tmp_path):
    """A warp comes to what the other one was at an iteration before: new to it, but not on its
    way, except in the first iteration."""
    found = walked(tmp_path, "(i / 32 % 2 + j) * 8 + shift[j]")
    assert found.new_share(WHOLE) == 1
    assert found.executions_with_arriving(WHOLE) == (N + 1) / (2 * N)


def test_where_few_warps_load_one_of_them_is_looked_at(tmp_path):
    found = walked(tmp_path, "i * n + j", guard="if (threadIdx.x) return;")
    assert found.new_share(WHOLE) == found.executions_with_arriving(WHOLE) == 1 / 8


def by_sets(offsets, block, size):
    """Count the requested and the new sectors of each load, for the warps of block 1 of 3."""
    asked, new = [], []
    for warp in range(0, block, 32):
        seen = set()
        for offset in offsets:
            lanes = range(warp, min(warp + 32, block))
            sectors = {(block + t + offset) * size // 32 for t in lanes}
            asked.append(len(sectors))
            new.append(len(sectors - seen))
            seen |= sectors
    return asked, new


@settings(max_examples=50)
@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=8, unique=True),
    st.sampled_from([32, 48, 64, 128]),
    st.sampled_from([("float32", 4), ("float64", 8)]),
)
def test_loads_side_by_side_are_new_where_no_load_before_them_went(offsets, block, item):
    dtype, size = item
    fields = [pa.Field("a", dtype, (3 * block,), halo=40)]
    kernel = pa.Kernel.from_accesses("loads", fields, loads=[f"a[x + {o}]" for o in offsets])
    launch = pa.Launch(3, block)
    (group,) = bind_groups(kernel, launch)
    found = first_touches([group], launch, GPU)
    begin = int(group.offsets[0]) // size - offsets[0]  # of the field: where its interior lies
    asked, new = by_sets([begin + o for o in offsets], block, size)
    assert found.asked.ravel().tolist() == asked
    assert found.new.ravel().tolist() == new
    assert found.arriving.tolist() == found.new.tolist()  # all in one iteration
