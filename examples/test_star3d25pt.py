"""What the paper reports for the 25-point star on an A100, as assertions."""

import pytest
from star3d25pt import DOMAIN, star3d25pt, threads

import perfassert as pa

FOLDS = {"plain": (1, 1), "2y": (2, 1), "2z": (1, 2)}
BEST, DEEP, WIDE_SHALLOW, TALL = (16, 4, 16), (16, 2, 32), (256, 4, 1), (4, 256, 1)
SHORT_X = [(1, 32, 32), (2, 16, 32), (4, 8, 32)]


def blocks_of_1024():
    powers = [2**i for i in range(11)]
    return [
        (x, y, z) for x in powers for y in powers for z in powers if x * y * z == 1024 and z <= 64
    ]


def dram_load(perf, block, fold=(1, 1)):
    prediction = perf(star3d25pt(fold=fold), domain=threads(fold=fold), block=block)
    return prediction.volumes.dram_load.per_update


def test_best_known_block_is_limited_by_dram(perf):
    """In the roofline; the load-store unit is busy about as long, with hits and what it fills."""
    prediction = perf(star3d25pt(), domain=DOMAIN, block=(16, 2, 16))
    prediction.expect(
        roofline_limiter="dram",
        limiter="l1 | dram",
        dram_load="12.2 B/update ± 2 %",
        dram_store="8 B/update ± 1 %",
        l2_load="49.2 B/update ± 2 %",
        l1_wavefronts="1.625 /update ± 0.1 %",
        occupancy=">= 100 %",
    )


def test_deep_blocks_load_least_and_tall_ones_most(perf):
    deep, wide, tall = (dram_load(perf, block) for block in (DEEP, WIDE_SHALLOW, TALL))
    assert deep < wide < tall
    assert deep < "12 B/update"


@pytest.mark.parametrize("block", SHORT_X, ids=str)
def test_short_x_is_limited_by_l1(perf, block):
    perf(star3d25pt(), domain=DOMAIN, block=block).expect(limiter="l1")


def test_blocks_are_ranked_by_shape(perf):
    ranking = perf.rank(blocks_of_1024(), kernel=star3d25pt(), domain=DOMAIN)
    ranking.expect(best=BEST, order=[DEEP, WIDE_SHALLOW, (1, 32, 32)])
    assert ranking.prediction(ranking.best).roofline_limiter == "dram"
    assert all(ranking.prediction(block).roofline_limiter != "dram" for block in SHORT_X)


def test_folding_helps_where_the_wave_is_shallow(perf):
    """§5.6: folding in z doubles the wave's depth and its share of new data falls."""
    assert dram_load(perf, (256, 2, 2), FOLDS["2z"]) < dram_load(perf, (256, 2, 2))


def test_variants_compete(perf):
    """Folding saves wavefronts, values are reused from registers (§5.4)."""
    variants = {
        f"{label} {block}": (star3d25pt(fold=fold), pa.Launch.cover(threads(fold=fold), block))
        for label, fold in FOLDS.items()
        for block in ((16, 2, 32), (4, 8, 32))
    }
    ranking = perf.rank(variants)
    ranking.expect(best="2y (16, 2, 32)", order=["2y (16, 2, 32)", "2y (4, 8, 32)"])
    folded = ranking.prediction("2y (16, 2, 32)").volumes.l1_wavefronts.per_update
    assert folded < ranking.prediction("plain (16, 2, 32)").volumes.l1_wavefronts.per_update
