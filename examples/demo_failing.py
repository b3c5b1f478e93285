"""One expectation that fails on purpose, to show the table. Not collected by `pytest` alone."""

from star3d25pt import DOMAIN, star3d25pt


def test_flat_block_is_expected_to_be_as_good_as_a_deep_one(perf):
    prediction = perf(star3d25pt(), domain=DOMAIN, block=(32, 32, 1))
    prediction.expect(time="< 3 ms", dram_load="12 B/update ± 10 %", limiter="dram")
