"""Normalising 3-vectors stored as an array of structures: accesses of stride three.

Every sector is used by three instructions of a warp. DRAM sees each byte once (but for some partly
written sectors that are evicted early); the L1 has to look up three times as many lines as for a
structure of arrays.
"""

import pytest

import perfassert as pa

VECTORS = 1 << 24


def normalise(layout):
    stride, step = (3, 1) if layout == "array of structures" else (1, VECTORS)
    components = [f"[{stride} * x + {i * step}]" for i in range(3)]
    return pa.Kernel.from_accesses(
        name=f"normalise, {layout}",
        fields=[pa.Field(name, "float32", (3 * VECTORS,)) for name in "vw"],
        loads=[f"v{c}" for c in components],
        stores=[f"w{c}" for c in components],
        flops=9,
        dtype="float32",
        registers=16,
    )


@pytest.mark.parametrize("layout", ["array of structures", "structure of arrays"])
def test_dram_sees_every_byte_once(perf, layout):
    prediction = perf(normalise(layout), domain=VECTORS, block=256)
    prediction.expect(
        limiter="dram",
        dram_load="12 B/thread -0 % +6 %",
        dram_store="12 B/thread -0 % +6 %",
        l2_load="12 B/thread -0 % +4 %",
    )


def test_stride_three_costs_the_l1(perf):
    structures, arrays = (
        perf(normalise(layout), domain=VECTORS, block=256).volumes
        for layout in ("array of structures", "structure of arrays")
    )
    assert structures.l1_wavefronts.total == arrays.l1_wavefronts.total  # 3 is odd: no conflict
    assert structures.l1_cycles.total > 1.15 * arrays.l1_cycles.total  # but more lines to look up
    assert structures.l2_store.total > 2 * arrays.l2_store.total  # written through, sector-wise
