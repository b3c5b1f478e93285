"""The D3Q15 lattice-Boltzmann interface-tracking kernel of the Warpspeed paper (§5.3).

Pull scheme: 15 distributions are read from the neighbours and written, aligned, to the own cell;
the curvature of the phase field needs a 7-point stencil.
"""

from itertools import product

import pytest

import perfassert as pa

DOMAIN = (256, 256, 256)
ROW = 288  # elements, padded so that every row starts on a 256-byte boundary
VELOCITIES = [
    (0, 0, 0),
    *((s, 0, 0) for s in (1, -1)),
    *((0, s, 0) for s in (1, -1)),
    *((0, 0, s) for s in (1, -1)),
    *product((1, -1), repeat=3),
]


@pytest.fixture(scope="module")
def interface():
    nx, ny, nz = DOMAIN
    cells = (nz, ny, nx)
    pulls = [f"f[{i}, z - {cz}, y - {cy}, x - {cx}]" for i, (cz, cy, cx) in enumerate(VELOCITIES)]
    faces = [f"phase[z + {dz}, y + {dy}, x + {dx}]" for dz, dy, dx in VELOCITIES[:7]]
    return pa.Kernel.from_accesses(
        name="lbm_interface",
        fields=[
            *(
                pa.Field(name, "float64", (15, *cells), halo=(0, 1, 1, 1), pitch=ROW)
                for name in "fg"
            ),
            pa.Field("phase", "float64", cells, halo=1, pitch=ROW),
        ],
        loads=pulls + faces,
        stores=[f"g[{i}, z, y, x]" for i in range(15)],
        flops=350,
        registers=96,
    )


def test_streams_fifteen_distributions(perf, interface):
    """120 B are stored and, with the phase field, some 130 B loaded for every cell."""
    prediction = perf(interface, domain=DOMAIN, block=(64, 2, 4))
    prediction.expect(
        limiter="dram",
        dram_store="120 B/update ± 2 %",
        dram_load="128 B/update -0 % +12 %",
        occupancy="20 % .. 40 %",
    )
    assert prediction.occupancy.limited_by == "registers"


def test_short_x_wastes_sectors(perf, interface):
    def loads(block):
        return perf(interface, domain=DOMAIN, block=block).volumes.l2_load.per_update

    assert loads((128, 2, 2)) < loads((16, 4, 8)) < loads((2, 16, 16))


def test_partial_stores_are_read_back(perf, interface):
    """One value of a four-value sector per warp: evicted sectors are read to be completed."""

    def filled(block):
        return perf(interface, domain=DOMAIN, block=block).volumes.dram_load.parts["store_fill"]

    assert filled((1, 16, 32)) > 0
    assert filled((64, 2, 4)) == 0


def test_only_short_x_leaves_the_dram_limit(perf, interface):
    ranking = perf.rank(
        [(128, 2, 2), (64, 2, 4), (64, 8, 1), (32, 4, 4), (16, 4, 8), (1, 16, 32)],
        kernel=interface,
        domain=DOMAIN,
    )
    ranking.expect(order=[(64, 2, 4), (1, 16, 32)])
    limited = {block: p.limiter for block, p in ranking.entries}
    assert limited[(64, 2, 4)] == limited[(64, 8, 1)] == limited[(32, 4, 4)] == "dram"
