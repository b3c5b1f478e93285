"""The 2D 5-point stencil: wide blocks waste nothing, tall ones pay for every sector."""

import pytest

import perfassert as pa

NX = NY = 8192


@pytest.fixture(scope="module")
def jacobi():
    return pa.Kernel.from_accesses(
        name="jacobi2d5pt",
        fields=[pa.Field(name, "float64", (NY, NX), halo=1) for name in ("a", "b")],
        loads=["a[y, x]", "a[y, x - 1]", "a[y, x + 1]", "a[y - 1, x]", "a[y + 1, x]"],
        stores=["b[y, x]"],
        flops=5,
        registers=24,
    )


def test_rows_stay_in_l2(perf, jacobi):
    """Neighbouring rows are still cached: 8 bytes loaded for every update, 8 stored."""
    prediction = perf(jacobi, domain=(NX, NY), block=(64, 8))
    prediction.expect(
        limiter="dram", dram_load="8 B/update -0 % +3 %", dram_store="8 B/update ± 1 %"
    )


def test_square_blocks_move_least_through_l2(perf, jacobi):
    """Figure 7: elongated shapes have more surface; sectors favour width over height."""

    def loads(block):
        return perf(jacobi, domain=(NX, NY), block=block).volumes.l2_load.per_update

    assert loads((32, 32)) < loads((1024, 1)) < loads((1, 1024))


def test_ranking(perf, jacobi):
    ranking = perf.rank(
        [(32, 32), (64, 8), (256, 4), (1024, 1), (4, 256), (1, 1024)],
        kernel=jacobi,
        domain=(NX, NY),
    )
    ranking.expect(best_in=[(32, 32), (64, 8)], order=[(64, 8), (4, 256), (1, 1024)])
