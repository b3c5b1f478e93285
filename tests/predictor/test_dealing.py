"""Blocks of unequal work on units, against closed forms."""

import pytest

from perfassert.predictor.simulate.dealing import BlockTime, BlockWork, makespan, unevenness


def test_equal_blocks_that_fill_a_unit_take_their_work():
    assert makespan([BlockWork(1.0, 2.0)] * 12, units=3, slots=4) == pytest.approx(4.0)


def test_equal_blocks_that_cannot_fill_a_unit_take_as_long_as_one_alone():
    assert makespan([BlockWork(1.0, 8.0)] * 8, units=2, slots=4) == pytest.approx(8.0)


def test_a_heavy_block_among_many_ends_last_and_alone():
    """Five share the unit: light ones of work 1 end at 5, the heavy one has done 1 of 30 by then
    and goes on with half of the unit, which is all that it can use."""
    blocks = [BlockWork(30.0, 60.0), *[BlockWork(1.0, 2.0)] * 4]
    assert makespan(blocks, units=1, slots=5) == pytest.approx(5 + 29 / 0.5)


def test_a_heavy_block_slows_down_what_shares_its_unit():
    blocks = [BlockWork(3.0, 3.0), BlockWork(1.0, 1.0)]
    assert makespan(blocks, units=1, slots=2) == pytest.approx(4.0)  # work is never lost
    assert makespan(blocks, units=2, slots=1) == pytest.approx(3.0)


def test_blocks_go_to_the_slot_that_is_free_first():
    blocks = [BlockWork(4.0, 4.0), *[BlockWork(1.0, 1.0)] * 4]
    assert makespan(blocks, units=2, slots=1) == pytest.approx(4.0)
    late = [*[BlockWork(1.0, 1.0)] * 4, BlockWork(4.0, 4.0)]
    assert makespan(late, units=2, slots=1) == pytest.approx(6.0)


def test_a_long_warp_in_each_block_is_no_unevenness_between_blocks():
    same = [1.0] * 16
    assert unevenness(same, same, 1000, 8, 4, 1.0, BlockTime(0.0, 3.0)) == 1.0


@pytest.mark.parametrize("units", [4, 16])
def test_one_heavy_block_of_a_wave_decides_alone(units):
    """Light blocks of work w and a heavy one of 100 w, each on a unit of its own."""
    work = [1.0] * (units - 1) + [100.0]
    mean = sum(work) / units
    relative = [w / mean for w in work]
    found = unevenness(relative, relative, units, units, 1, 5.0, BlockTime(0.0, 5.0))
    assert found == pytest.approx(100 / mean)


def test_the_tail_of_a_long_launch_is_a_small_share_of_it():
    relative = [0.9, 1.1] * 32
    short = unevenness(relative, relative, 64, 32, 2, 1.0, BlockTime(0.5, 0.5))
    long = unevenness(relative, relative, 64_000, 32, 2, 1.0, BlockTime(0.5, 0.5))
    assert 1.0 <= long < short
    assert long < 1.01


def test_what_a_block_takes_whatever_it_does_is_not_multiplied_with_its_work():
    """Half of the mean block's time is fixed and not multiplied with its work; a unit holds one
    block."""
    relative = [0.5, 0.5, 0.5, 2.5]
    found = unevenness(relative, relative, 4, 4, 1, 1.0, BlockTime(0.5, 0.5))
    assert found == pytest.approx(2.5)  # the unit's throughput: work 2.5 takes 2.5
    found = unevenness(relative, relative, 4, 4, 1, 0.1, BlockTime(0.5, 0.5))
    assert found == pytest.approx(0.5 + 0.5 * 2.5)
