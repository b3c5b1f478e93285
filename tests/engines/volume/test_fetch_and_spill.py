"""Volumes beside the data: spilled registers and instructions, against closed forms."""

from dataclasses import replace
from math import exp

import pytest

import perfassert as pa
from perfassert.engines.volume.estimate import estimate_volumes
from perfassert.engines.volume.fetch_and_spill import INSTRUCTIONS, SPILLS
from perfassert.engines.volume.reuse import miss_share
from perfassert.engines.volume.roofline import roofline
from perfassert.hardware.load import device as load_device
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import BodyItem, InstructionGraph, ItemKind, Loop, Node
from perfassert.kernel.names import LoopCounter

DEVICE = load_device("RTX-2080-Ti")
LAUNCH = pa.Launch(1000, 256)
WARPS = 1000 * 8
KIB = 1024
CACHE = DEVICE.instruction_cache_bytes


def access(direction, size=4, address=-16, ranges=None, loops=(), space="local"):
    form = address if isinstance(address, Affine) else Affine(address)
    return BoundAccess(
        space, space, direction, size, form, ranges or {}, (), loops, False, "", None
    )


def kernel(*bound, graph=None, **facts):
    facts = {"code_bytes": 0, "program": None, "spill_bytes": 0, **facts}
    return BoundKernel(name="k", fields={}, bound=bound, graph=graph, **facts)


def estimate(code, launch=LAUNCH, device=DEVICE):
    held = occupancy(device, launch.threads_per_block, code.registers, 0)
    return estimate_volumes(code, launch, device, held)


def volumes(code, launch=LAUNCH, device=DEVICE):
    return estimate(code, launch, device).volumes


LOAD, STORE = access(Direction.LOAD), access(Direction.STORE)


class TestSpills:
    @pytest.mark.parametrize(("size", "sectors"), [(1, 4), (4, 4), (8, 8), (16, 16)])
    def test_a_word_of_a_warp_is_four_sectors(self, size, sectors):
        found = volumes(kernel(access(Direction.STORE, size), spill_bytes=4096))
        assert float(found.l2_store.total) == WARPS * sectors * 32
        assert float(found.dram_store.total) == float(found.l2_store.total)
        assert float(found.l2_load.total) == float(found.dram_load.total) == 0

    def test_every_access_counts(self):
        found = volumes(kernel(LOAD, LOAD, access(Direction.LOAD, address=-8), spill_bytes=4096))
        assert float(found.l2_load.total) == 3 * WARPS * 4 * 32

    def test_trips_count(self):
        inside = access(Direction.LOAD, ranges={LoopCounter(0): (0, 99)}, loops=(LoopCounter(0),))
        found = volumes(kernel(inside, spill_bytes=4096))
        assert float(found.l2_load.total) == pytest.approx(100 * WARPS * 4 * 32)

    def test_masked_lanes_move_nothing(self):
        some = access(Direction.LOAD, ranges={"threadIdx.x": (0, 40)})
        found = volumes(kernel(some, spill_bytes=4096))
        assert float(found.l2_load.total) == 1000 * (4 + 2) * 32  # 32 lanes, then 9

    def test_an_index_of_each_lane_scatters(self):
        apart = access(Direction.LOAD, address=Affine(-512, (("threadIdx.x", 4),)))
        found = volumes(kernel(apart, spill_bytes=8192), pa.Launch(1000, 32))
        assert float(found.l2_load.total) == 1000 * 32 * 32

    def test_stacks_that_fit_into_the_l2_are_not_read_again(self):
        threads = 68 * 1024
        fits = DEVICE.l2_bytes // threads // 4 * 4
        assert float(volumes(kernel(LOAD, spill_bytes=fits)).dram_load.total) == 0
        found = estimate(kernel(LOAD, spill_bytes=4 * fits))
        lost = found.stack_miss * (1 - DEVICE.l2_bytes / (4 * fits * threads))
        assert float(found.volumes.dram_load.total) == pytest.approx(lost * WARPS * 4 * 32)

    def test_stacks_that_fit_into_the_l1_are_found_there(self):
        fits = DEVICE.l1_bytes // 1024
        for times in (1, 2, 20):
            found = estimate(kernel(LOAD, STORE, spill_bytes=times * fits))
            missed = found.stack_miss  # with random replacement
            assert missed == pytest.approx(0 if times == 1 else 1 - exp(-times * missed), abs=1e-6)
            assert (missed > 0.7) == (times > 1)
            assert float(found.volumes.l2_load.total) == pytest.approx(missed * WARPS * 4 * 32)
            assert float(found.volumes.l2_store.total) == WARPS * 4 * 32

    def test_stacks_that_fit_into_the_l2_are_not_evicted(self):
        fits = DEVICE.l2_bytes // (68 * 1024)
        for size, evicted in ((fits, 0), (fits + 4, 1)):
            found = volumes(kernel(STORE, spill_bytes=size))
            assert float(found.dram_store.total) == evicted * WARPS * 4 * 32

    def test_only_resident_threads_have_a_stack(self):
        found = volumes(kernel(LOAD, spill_bytes=4096), pa.Launch(4, 256))
        assert float(found.dram_load.total) == 0  # 4 MiB

    def test_a_field_of_their_own(self):
        found = volumes(kernel(LOAD, STORE, spill_bytes=4096))
        for volume in (found.l2_load, found.l2_store, found.dram_load, found.dram_store):
            assert set(volume.fields) == {SPILLS}
            assert float(volume.parts["spills"]) == float(volume.total) > 0
        assert not volumes(kernel(spill_bytes=4096)).l2_load.fields


def node(index, loop=-1):
    return Node(index, "fp32", "", (), loop=loop, program=index)


def item(node):
    return BodyItem(ItemKind.NODE, node.index)


def straight(count):
    nodes = tuple(node(i) for i in range(count))
    return InstructionGraph(nodes, (), tuple(map(item, nodes)))


def looping(before, inside, trips):
    """Some instructions, then a loop."""
    nodes = tuple(node(i, 0 if i >= before else -1) for i in range(before + inside))
    loop = Loop(0, -1, trips, tuple(map(item, nodes[before:])))
    body = (*map(item, nodes[:before]), BodyItem(ItemKind.LOOP, 0))
    return InstructionGraph(nodes, (loop,), body)


def code_read(graph, size, device=DEVICE):
    """Bytes of instructions per block."""
    found = volumes(kernel(graph=graph, code_bytes=size), device=device).l2_load
    own = found.fields.get(INSTRUCTIONS)
    assert float(found.total) == (float(own.total) if own else 0)
    return float(own.total) / LAUNCH.blocks if own else 0.0


class TestInstructions:
    share = DEVICE.instruction_fetch_share

    @pytest.mark.parametrize("ratio", [1.001, 1.1, 1.5, 2, 10, 100])
    def test_what_misses_is_what_was_replaced(self, ratio):
        missed = miss_share(ratio)
        assert 0 < missed <= 1
        assert missed == pytest.approx(1 - exp(-missed * ratio))

    def test_misses_start_at_none(self):
        assert miss_share(0.5) == miss_share(1) == 0
        assert miss_share(1.0001) < 0.001

    def test_code_that_fits_is_not_counted(self):
        assert code_read(straight(100), CACHE) == 0

    def test_long_code_is_read_by_every_block(self):
        missed = self.share * miss_share(2) * 2 * CACHE
        assert code_read(straight(100), 2 * CACHE) == pytest.approx(missed)

    def test_a_long_loop_is_read_in_every_iteration(self):
        once = code_read(looping(0, 100, 1), 2 * CACHE)
        assert once == pytest.approx(self.share * miss_share(2) * 2 * CACHE)
        assert code_read(looping(0, 100, 7), 2 * CACHE) == pytest.approx(7 * once)

    def test_a_short_loop_is_read_once(self):
        whole = self.share * miss_share(2) * 2 * CACHE
        assert code_read(looping(60, 40, 7), 2 * CACHE) == pytest.approx(whole)

    def test_code_around_a_long_loop(self):
        before, inside = 50, 150  # a quarter of the code, three quarters
        outer = miss_share(4) * CACHE
        inner = miss_share(3) * 3 * CACHE
        expected = self.share * (outer + 5 * inner)
        assert code_read(looping(before, inside, 5), 4 * CACHE) == pytest.approx(expected)

    def test_the_device_says_how_much(self):
        larger = replace(DEVICE, instruction_cache_bytes=2 * CACHE)
        assert code_read(straight(100), 2 * CACHE, larger) == 0
        none = replace(DEVICE, instruction_fetch_share=0.0)
        assert code_read(straight(100), 2 * CACHE, none) == 0

    def test_the_roofline_is_of_data(self):
        code = kernel(graph=straight(100), code_bytes=100 * KIB)
        found = volumes(code)
        assert float(found.l2_load.total) > 0
        assert roofline(code, LAUNCH, DEVICE, found, "fp32")["l2"] == 0
