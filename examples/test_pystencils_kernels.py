"""Stencils of pystencils: as generated CUDA, and as addresses before there is any code."""

import pytest

import perfassert as pa

pytest.importorskip("pystencils")

import pystencils as ps
from kernels import lattice_boltzmann

SIDE = 128
BLOCKS = [(32, 4, 2), (64, 2, 2), (8, 8, 4), (1, 16, 16)]


@pytest.fixture(scope="module")
def cuda():
    config = ps.CreateKernelConfig(target=ps.Target.CUDA)
    return lambda assignments: pa.from_pystencils(ps.create_kernel(assignments, config))


def star():
    """Seven points."""
    extents = ",".join([str(SIDE + 2)] * 3)
    src, dst = ps.fields(f"src, dst: float64[{extents}]", layout="fzyx")
    around = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    return [ps.Assignment(dst[0, 0, 0], 0.4 * src[0, 0, 0] + 0.1 * sum(src[o] for o in around))]


def stream():
    """Nine directions of a plane are pulled and relaxed to their mean, as in a lattice gas."""
    f, g = ps.fields("f(9), g(9): float64[514,514]", layout="fzyx")
    pulled = [f[x, y](3 * x + y + 4) for x in (-1, 0, 1) for y in (-1, 0, 1)]
    mean = sum(pulled) / 9
    return [ps.Assignment(g.center(i), p + 0.5 * (mean - p)) for i, p in enumerate(pulled)]


def test_star(perf, cuda):
    """What neighbours share comes from a cache."""
    launch = pa.Launch.cover((SIDE,) * 3, (32, 4, 2))
    perf(cuda(star()), launch).expect(dram_load="8 .. 9.5 B/thread", spill_bytes=0)


def test_before_there_is_code(perf):
    launch = pa.Launch.cover((SIDE,) * 3, (32, 4, 2))
    perf(pa.from_pystencils(star()), launch).expect(dram_load="8 .. 9.5 B/thread")


def test_streaming_and_collision(perf, cuda):
    """Nine numbers are read and nine written."""
    launch = pa.Launch.cover((512, 512), (128, 1))
    perf(cuda(stream()), launch).expect(l2_store="72 B/thread ± 15 %")


def test_blocks_along_rows_are_the_best(perf):
    kernel = pa.from_pystencils(star())
    ranking = perf.rank(BLOCKS, kernel=kernel, domain=(SIDE,) * 3)
    assert ranking.position((1, 16, 16)) == len(BLOCKS)


def test_a_lattice_boltzmann_step(perf, cuda):
    """Nineteen floats in, nineteen out: no block saves any, rows of warps take least. Rows begin
    and end within sectors, which are read before they are written: 19 · 2 · 32 B for 128 cells."""
    inner = (SIDE,) * 3
    shapes = [(32, 4, 2), (64, 4, 1), (128, 1, 1), (16, 4, 4), (8, 8, 4), (4, 8, 8)]
    kernel = cuda(lattice_boltzmann.pull_and_relax(SIDE + 2))
    launch = pa.Launch.cover(inner, (128, 1, 1))
    perf(kernel, launch).expect(dram_load="76 .. 87 B/update", limiter="dram | compute")
    ranking = perf.rank(shapes, kernel=kernel, domain=inner)
    assert ranking.position((4, 8, 8)) == len(shapes)
    assert ranking.best[0] >= 32


def test_foldings_of_a_lattice_boltzmann_step(perf):
    """Points along rows that one thread makes pull its warp's numbers apart; points above each
    other leave it alone. No fold saves any volume: each direction is read once, in whole sectors
    where a block's rows begin and end."""
    steps = lattice_boltzmann.pull_and_relax(SIDE + 2)
    candidates = {}
    for fold in [(1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 1), (4, 1, 1)]:
        kernel = pa.from_pystencils(steps, registers=64, fold=fold)
        domain = tuple(SIDE // n for n in fold)
        for block in [(32, 4, 1), (64, 2, 2)]:
            label = f"fold {fold} block {block}"
            candidates[label] = (kernel, pa.Launch.cover(domain, block))
    ranking = perf.rank(candidates)
    assert ranking.best.startswith(("fold (1, 1, 1)", "fold (1, 2, 1)", "fold (1, 1, 2)"))
    assert ranking.entries[-1][0].startswith("fold (4, 1, 1)")
    for label, prediction in ranking.entries:
        if not label.startswith(("fold (2", "fold (4")):
            ends = 19 * 2 * 32 / prediction.block[0]
            assert 76 <= prediction.volumes.dram_load.per_update <= 76 + ends, label
