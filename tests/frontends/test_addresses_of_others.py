"""Addresses and constants that depend on memory in part: what is known of them is kept."""

import numpy as np
import pytest
from described import KERNELS, missing, program_of

import perfassert as pa
from perfassert.frontends.binding.binder import Arguments, Binder
from perfassert.frontends.binding.bound_accesses import bind_accesses
from perfassert.kernel.affine import Forms
from perfassert.kernel.names import Argument

pytestmark = pytest.mark.exhaustive(one_in=4)

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
A100 = "A100-SXM4-40GB"


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


def bound(kernel, launch, arch, **trips):
    """The binder, and the accesses by field."""
    program = program_of("addresses.cu", kernel, arch)
    binder = Binder(program, launch, Arguments(program, launch, kernel), trips, {}, 32)
    accesses, _ = bind_accesses(binder)
    return binder, {a.field: a for a in accesses}


def at(access, block, thread, size, counters=()):
    places = {"x": block * size + thread, "threadIdx.x": thread, "blockIdx.x": block}
    places |= counters or {}
    return int(Forms([access.address])(places)[0])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_row_chosen_by_data_keeps_its_pattern(arch):
    _, accesses = bound("block_rows", pa.Launch(64, 1024), arch)
    access = accesses["in"]
    rows = set()
    for block in range(64):
        start = at(access, block, 0, 1024)
        assert start % 4096 == 0
        assert [at(access, block, t, 1024) - start for t in (1, 31, 1023)] == [4, 124, 4092]
        rows.add(start)
    assert len(rows) == 64
    assert "same for all threads of a block" in access.rests_on[0].text
    assert access.rests_on[0].stands_for == "address"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_each_iteration_has_a_row_of_its_own(arch):
    _, accesses = bound("rows_in_turn", pa.Launch(8, 256, {"n": 5}), arch)
    (counter,) = accesses["in"].loops
    starts = {at(accesses["in"], b, 0, 256, {counter: k}) for b in range(8) for k in range(5)}
    assert len(starts) == 8 * 5
    assert {s % 1024 for s in starts} == {0}


def test_bytes_of_rows_are_those_of_a_permutation():
    blocks = 4096
    kernel = pa.from_cuda(KERNELS / "addresses.cu", "block_rows")
    p = pa.predict(kernel, pa.Launch(blocks, 1024), pa.device(A100))
    permuted = blocks * 4096 + blocks * 4
    assert float(p.volumes.dram_load.total) == pytest.approx(permuted, rel=0.01)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_thread_that_gathers_is_apart_from_its_neighbour(arch):
    _, accesses = bound("scattered", pa.Launch(4, 256), arch)
    places = [at(accesses["in"], 0, t, 256) for t in range(256)]
    assert len({p // 32 for p in places}) == 256
    assert "8 elements apart" in accesses["in"].rests_on[0].text


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_unsigned_index_below_zero_is_above_all_others(arch):
    program = program_of("addresses.cu", "clamped_below_zero", arch)
    loads = [a for i in program.instructions for a in i.accesses if a.field == "in"]
    threads = {"blockIdx.x": np.zeros(256, np.int64), "threadIdx.x": np.arange(256)}
    names = {**threads, Argument(2): np.asarray(100)}
    found = sorted(program.symbols.evaluate(a.address, names).tolist() for a in loads)
    wrapped = (np.arange(256) - 1) % 2**32
    expected = [np.minimum(wrapped, 100), 102 + np.maximum(wrapped, 5) % 1024]
    assert found == sorted((4 * e).tolist() for e in expected)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_products_of_threads_with_small_magic_numbers_have_64_bits(arch):
    _, accesses = bound("remainders_of_threads", pa.Launch(1, 1024), arch)
    found = [at(accesses["in"], 0, t, 1024) for t in range(1024)]
    assert found == [4 * (t % 9 + 16 * (t % 5)) for t in range(1024)]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("block", [(96, 1), (64, 2), (32, 4), (48, 2), (16, 4), (24, 4)], ids=str)
def test_what_a_named_lane_says_is_its_own_value(arch, block):
    """``__shfl_sync(mask, threadIdx.x / 32, 0)`` is ``threadIdx.x / 32`` where rows are warps."""
    wide, rows = block
    program = program_of("addresses.cu", "said_by_a_lane", arch)
    threads = np.arange(wide * rows)
    x, y = threads % wide, threads // wide
    names = {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": 0 * x, "laneid": threads % 32}
    names |= {"blockDim.x": wide + 0 * x, "blockDim.y": rows + 0 * x, "blockDim.z": 1 + 0 * x}
    first, fifth = (x[threads // 32 * 32 + lane] for lane in (0, 5))
    places = {"in": 3 * fifth * 8 + x % 2, "out": first // 32 * 1024 + x}
    for instruction in program.instructions:
        for access in instruction.accesses:
            found = program.symbols.evaluate(access.address, names)
            assert found.tolist() == (4 * places[access.field]).tolist()


class TestConstants:
    launch = pa.Launch(16, 256)

    @pytest.mark.parametrize("arch", ARCHITECTURES)
    def test_without_a_value_they_are_unknown(self, arch):
        binder, _ = bound("length_in_memory", self.launch, arch)
        (trips,) = binder.loops.values()
        assert trips.assumed
        (guess,) = trips.rests_on
        assert "__constant__ length has no value in the binary" in guess.text
        assert guess.stands_for == "trip count"

    def test_execution_does_not_take_them_for_zero_either(self):
        kernel = pa.from_cuda(KERNELS / "addresses.cu", "length_in_memory")
        p = pa.predict(kernel, self.launch, pa.device(A100))
        assert [a.stands_for for a in p.assumptions if "run 16 times" in a.text] == ["trip count"]
        assert float(p.volumes.l2_load.total) >= 16 * 256 * 16 * 4

    @pytest.mark.parametrize("arch", ARCHITECTURES)
    def test_a_trip_count_that_is_given_counts(self, arch):
        binder, _ = bound("length_in_memory", self.launch, arch, **{"addresses.cu:19": 40})
        assert [(r.fewest, r.most) for r in binder.loops.values()] == [(40, 40)]

    @pytest.mark.parametrize("arch", ARCHITECTURES)
    def test_a_value_in_the_binary_is_read(self, arch):
        binder, _ = bound("length_in_the_binary", self.launch, arch)
        assert [(r.fewest, r.most) for r in binder.loops.values()] == [(12, 12)]

    @pytest.mark.parametrize("arch", ARCHITECTURES)
    def test_pointers_in_them_are_fields(self, arch):
        _, accesses = bound("pointers_in_constants", self.launch, arch)
        assert set(accesses) == {"fields", "fields+8"}
        for access in accesses.values():
            assert not access.rests_on
            assert [at(access, b, t, 256) for b, t in [(0, 0), (2, 5)]] == [0, 4 * 517]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("held", [64, 4096, 1 << 20])
def test_a_stand_in_stays_inside_the_buffer(arch, held):
    """Its shape says how far an index can lead."""
    launch = pa.Launch(64, 256, {"in": pa.Buffer(held)})
    _, accesses = bound("scattered", launch, arch)
    places = [at(accesses["in"], b, t, 256) for b in (0, 31, 63) for t in (0, 1, 7, 255)]
    assert min(places) >= 0
    assert max(places) < 4 * held
    assert len(set(places)) > 1
