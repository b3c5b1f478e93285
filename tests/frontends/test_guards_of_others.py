"""Guards and predicates as found in published CUDA code; what a thread moves is counted by hand."""

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from described import KERNELS, missing, moved, program_of, variables

import perfassert as pa
from perfassert.frontends.binding.binder import Arguments, Binder
from perfassert.frontends.graph.block_kinds import (
    LongestKind,
    RepresentativeBlock,
    choose_representative,
    partition,
)
from perfassert.frontends.graph.launch_graph import representative_block

pytestmark = pytest.mark.exhaustive(one_in=4)

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")


class Walk(NamedTuple):
    instructions: int
    longest: int
    effort: int
    digest: int


class Works:
    """Blocks whose work is a function of their place, and constant between its ``cuts`` in x."""

    axes = frozenset(range(3))

    def __init__(self, work, cuts=()):
        self.work, self.cuts = work, cuts

    def cost(self, box):
        return math.prod(high - low for low, high in box)

    def differing(self, box, among):
        (low, high), *others = box
        alone = all(b - a == 1 for a, b in others)
        return [0] if not self.cuts or not alone or any(low < c < high for c in self.cuts) else []

    def decide(self, places):
        work = np.array([self.work(tuple(p)) for p in places.tolist()], np.int64)
        return work, work, 0 * work

    def standing(self, grid, effort=1):
        def walk(place):
            return Walk(self.work(place), self.work(place), effort, self.work(place))

        return choose_representative(walk, grid, partition(tuple((0, n) for n in grid), self))


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


CASES = [
    # kernel, arguments, 4-byte loads and stores of thread t of block b; blocks have 64 threads
    ("rows_of_36", {"n": 3}, lambda b, t: (int((64 * b + t) // 36 < 3),) * 2),
    ("rows_of_36_signed", {"n": 3}, lambda b, t: (int((64 * b + t) // 36 < 3),) * 2),
    ("copy_or_zero", {"n": 100}, lambda b, t: (int(64 * b + t < 100), 1)),
    ("upper_half", {"n": 5}, lambda b, t: (5 * (b >= 3), int(b >= 3))),
    ("predicated_chain", {"n": 100}, lambda b, t: (1 + int(64 * b + t < 100), 1)),
]


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("kernel", "arguments", "counts"), CASES, ids=[c[0] for c in CASES])
def test_a_thread_moves_what_its_source_says(kernel, arguments, counts, arch):
    program = program_of("guards.cu", kernel, arch)
    for b, t in [(0, 0), (0, 63), (1, 35), (1, 36), (1, 44), (3, 20)]:
        names = variables(program, arguments, (4, 1, 1), (64, 1, 1), (b, 0, 0), (t, 0, 0))
        loads, stores = counts(b, t)
        assert moved(program, names) == (4 * loads, 4 * stores), (b, t)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_border_of_an_image_is_all_of_it(arch):
    """Four conditions: the last of them is an operand of EXIT."""
    program = program_of("guards.cu", "border", arch)
    width, height = 37, 21
    found = 0
    for x, y in product(range(48), range(32)):
        place, thread = (x // 16, y // 16, 0), (x % 16, y % 16, 0)
        names = variables(
            program, {"width": width, "height": height}, (3, 2, 1), (16, 16, 1), place, thread
        )
        found += moved(program, names)[1] // 4
    assert found == 2 * width + 2 * height - 4


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_address_made_under_a_predicate_is_known_under_it(arch):
    """Even where the predicate itself depends on data."""
    program = program_of("guards.cu", "predicated_two", arch)
    accesses = [a for i in program.instructions for a in i.accesses]
    assert [a.text for a in accesses if a.unresolved] == []
    assert sorted(a.field for a in accesses) == ["p", "sums", "x", "x"]


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_100"])
def test_a_cube_whose_edge_is_a_power_of_two(arch):
    program = program_of("guards.cu", "cube", arch)
    for place in [(0, 0, 0), (63, 63, 63), (64, 0, 0), (0, 64, 0), (0, 0, 64), (3, 70, 67)]:
        names = variables(program, {}, (9, 9, 9), (8, 8, 8), [p // 8 for p in place],
                          [p % 8 for p in place])  # fmt: skip
        assert moved(program, names) == ((4, 4) if max(place) < 64 else (0, 0)), place


@pytest.mark.parametrize("device", ["A100-SXM4-40GB", "H100-SXM5-80GB", "B200"])
@pytest.mark.parametrize("block", [(16, 4, 1), (64, 1, 2), (96, 1, 1), (24, 5, 3)])
def test_threads_are_those_that_no_guard_masks(device, block):
    """Guards are recognised in one block and in several, in rows of threads and of blocks."""
    grid = tuple(-(-70 // b) for b in block)
    code = pa.from_cuda(KERNELS / "guards.cu", "cube")
    prediction = pa.predict(code, pa.Launch(grid, block), device)
    assert prediction.threads == 64**3
    assert [a.text for a in prediction.assumptions if "branch" in a.text] == []
    assert float(prediction.volumes.l2_store.total) == 64**3 * 4


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_100"])
def test_parameters_are_found_wherever_they_lie(arch):
    """The driver's own words of later architectures lie where older ones have the eighth one."""
    program = program_of("guards.cu", "eighth_decides", arch)
    for thread in (0, 99, 100):
        names = variables(program, {"n": 100}, (2, 1, 1), (128, 1, 1), (0, 0, 0), (thread, 0, 0))
        assert moved(program, names) == ((24, 4) if thread < 100 else (0, 0))
    program = program_of("guards.cu", "eighth_points", arch)
    accesses = [a for i in program.instructions for a in i.accesses]
    assert sorted(a.field for a in accesses) == ["a", "b", "c", "d", "e", "f", "out"]


@pytest.mark.parametrize("device", ["A100-SXM4-40GB", "H100-SXM5-80GB", "B200"])
def test_what_no_launch_decides_is_unknown(device):
    code = pa.from_cuda(KERNELS / "guards.cu", "behind_the_table")
    prediction = pa.predict(code, pa.Launch(64, 128, {"n": 5}), device)
    assert [a.text for a in prediction.assumptions if "branch" in a.text] != []


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("device", ["RTX-2080-Ti", "A100-SXM4-40GB", "H100-SXM5-80GB"])
def test_a_relaxation_with_all_its_arguments(device):
    args = {"steps": 2, "columns": 512, "rows": 512, "left": 2, "top": 2, "capacity": 0.5,
            "rx": 1.0, "ry": 1.0, "rz": 4.75, "step": 0.1}  # fmt: skip
    code = pa.from_cuda(KERNELS / "guards.cu", "relaxed")
    prediction = pa.predict(code, pa.Launch((43, 43), (16, 16), args), device)
    columns = sum(0 <= 12 * block - 2 + t < 512 for block in range(43) for t in range(16))
    assert float(prediction.volumes.l2_store.total) >= columns**2 * 4
    assert [a.text for a in prediction.assumptions if "closed form" in a.text] == []


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_100"])
def test_tiles_in_groups_have_closed_forms(arch):
    program = program_of("guards.cu", "grouped", arch)
    assert [a.text for a in program.assumptions] == []
    assert [a.text for i in program.instructions for a in i.accesses if a.unresolved] == []


class TestGridsCutUnevenly:
    """Bytes of the launch by hand; times against kernels that have no guard to cut them."""

    blocks = 8192

    def predicted(self, kernel, **arguments):
        launch = pa.Launch(self.blocks, 256, arguments)
        code = pa.from_cuda(KERNELS / "guards.cu", kernel)
        return pa.predict(code, launch, pa.device("A100-SXM4-40GB"))

    def bytes_of(self, prediction):
        volumes = prediction.volumes
        return [
            float(getattr(volumes, name).total)
            for name in ("l2_load", "l2_store", "dram_load", "dram_store")
        ]

    @pytest.mark.parametrize("kernel", ["rows_of_36", "rows_of_36_signed"])
    @pytest.mark.parametrize("share", [3, 10])
    def test_a_guard_on_a_quotient(self, kernel, share):
        rows = self.blocks * 256 // 36 // share
        moved = rows * 36 * 4
        assert self.bytes_of(self.predicted(kernel, n=rows)) == pytest.approx([moved] * 4, rel=0.01)

    @pytest.mark.parametrize("share", [0.25, 0.5, 0.875])
    def test_one_thing_or_the_other(self, share):
        n = int(self.blocks * 256 * share)
        stored = self.blocks * 256 * 4
        wanted = [n * 4, stored, n * 4, stored]
        assert self.bytes_of(self.predicted("copy_or_zero", n=n)) == pytest.approx(wanted, rel=0.02)

    def test_blocks_at_the_end_do_all_the_work(self):
        prediction = self.predicted("upper_half", n=64)
        working = self.blocks // 4
        loaded = working * 256 * 64 * 4
        assert self.bytes_of(prediction)[2] == pytest.approx(loaded, rel=0.02)
        # a loop iteration is at least a load, a multiply-add's half and a branch, for each warp
        assert float(prediction.resources.instructions) >= working * 8 * 64 * 3
        assert float(prediction.time) >= float(prediction.bounds["dram"])

    def test_equal_blocks_are_what_they_were(self):
        """If all blocks execute the same, the middle one is the representative block."""
        program = program_of("guards.cu", "predicated_chain", "sm_80")
        launch = pa.Launch(64, 256, {"n": 64 * 256})
        arguments = Arguments(program, launch, "predicated_chain")
        binder = Binder(program, launch, arguments, {}, {}, 32)
        assert representative_block(program, binder, 32, (64, 1, 1)) == RepresentativeBlock(
            (32, 0, 0)
        )

    def test_a_loop_that_runs_at_most_once(self):
        """Its counter is known, and still stands in what decides about blocks."""
        program = program_of("strides.cu", "guard_on_place", "sm_80")
        launch = pa.Launch(8, 64, {"n": 3, "m": 300})
        binder = Binder(program, launch, Arguments(program, launch, "guard_on_place"), {}, {}, 32)
        assert representative_block(program, binder, 32, (5, 1, 1)) == RepresentativeBlock(
            (2, 0, 0), idle=3 * 12
        )


class TestStanding:
    """The block that stands for the others, of grids whose kinds are known."""

    @pytest.mark.parametrize("grid", [(40, 1, 1), (10_000, 1, 1), (100, 100, 1)])
    def test_work_is_conserved(self, grid):
        cut = grid[0] // 2
        found = Works(lambda p: 100 if p[0] < cut else 10).standing(grid)
        blocks = math.prod(grid)
        assert found.block[0] < cut
        assert found.amount == pytest.approx(blocks * 0.55)
        assert found.working == pytest.approx(blocks * 0.55, rel=0.03)

    @pytest.mark.parametrize(("blocks", "little"), [(11, 68), (50, 10)])
    def test_a_block_with_little_to_do_stands_for_no_others(self, blocks, little):
        """Even where most of the work is done by such blocks, as they are many."""
        found = Works(lambda p: little if p[0] else 400).standing((blocks, 1, 1))
        total = (blocks - 1) * little + 400
        assert found.block == (0, 0, 0)
        assert found.amount == pytest.approx(total / 400)

    def test_the_middle_does_all_the_work_of_a_part_of_the_blocks(self):
        found = Works(lambda p: 400 if p[0] < 8 else 20).standing((12, 1, 1))
        assert found == RepresentativeBlock((6, 0, 0), pytest.approx((8 * 400 + 4 * 20) / 400), 9)

    @pytest.mark.parametrize("heavy", [1, 32, 300])
    @pytest.mark.parametrize("last", [False, True])
    def test_few_blocks_at_an_end_that_do_most_of_the_work(self, heavy, last):
        blocks = 65536

        def work(place):
            return 1_000_000 if (blocks - 1 - place[0] if last else place[0]) < heavy else 5

        found = Works(work, [heavy, blocks - heavy]).standing((blocks, 1, 1))
        assert work(found.block) == 1_000_000
        assert found.amount == pytest.approx(heavy + (blocks - heavy) * 5 / 1e6)

    def test_few_blocks_at_an_end_that_do_little(self):
        found = Works(lambda p: 200 if p[0] < 32 else 100, [32]).standing((65536, 1, 1))
        assert found == RepresentativeBlock((32768, 0, 0), 65568, None, LongestKind((16, 0, 0), 32))

    @pytest.mark.parametrize("blocks", [10**5, 10**9, 10**14])
    def test_a_single_block_is_found_in_any_grid(self, blocks):
        one = blocks * 3 // 7
        works = Works(lambda p: 10**6 if p[0] == one else 100, [one, one + 1])
        assert works.standing((blocks, 1, 1)).longest == LongestKind((one, 0, 0), 1)

    @pytest.mark.parametrize("blocks", [10**8, 2**24, 2**31 - 1])
    @pytest.mark.parametrize("recurs", [4, 8, 97])
    def test_what_is_too_much_is_counted_in_a_sample(self, blocks, recurs):
        """Nothing is known between the blocks that are looked at, and nothing recurs with them."""
        works = Works(lambda p: p[0] % recurs == 3)
        found = partition(((0, blocks), (0, 1), (0, 1)), works)
        assert 0 < found.looked_at < found.sampled <= blocks
        assert found.counts.sum() == pytest.approx(blocks)
        heavy = dict(zip(found.conditions.tolist(), found.counts.tolist(), strict=True))[1]
        error = math.sqrt((recurs - 1) / found.looked_at)  # standard error of a share, of it
        assert heavy == pytest.approx(blocks / recurs, rel=3 * error)

    def test_the_middle_stands_for_those_like_it(self):
        found = Works(lambda p: 10 if p[0] in (0, 99) else 100).standing((100, 100, 1))
        assert found == RepresentativeBlock((50, 50, 0), pytest.approx(9800 + 20))


def test_few_kinds_are_walked_through_where_each_takes_long():
    """As where a block evaluates the decisions of many iterations."""
    grid = (200, 1, 1)
    differing = Works(lambda place: 100 + place[0], range(1, 200))
    assert differing.standing(grid).walked == 0  # all of them
    assert differing.standing(grid, effort=10**6).walked < 12
