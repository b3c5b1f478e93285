"""Tests of invariants: more bandwidth never lengthens a bound, twice the work is twice the time."""

from math import gcd
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from star3d25pt import star3d25pt

import perfassert as pa
from perfassert.frontends.toolchain import tools

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
A100 = pa.device("A100-SXM4-40GB")
EXACT = ("dram", "l2", "l1", "compute", "shared", "issue", "latency")
"""Bounds that come from no simulation; ``parallelism`` is at most the simulated time."""
BANDWIDTHS = ("dram_bandwidth", "dram_alone_factor", "l2_bandwidth", "l2_port_bytes_per_cycle")
LATENCIES = (
    "l1_latency", "l2_latency", "dram_latency", "dram_latency_spread", "memory_issue_cycles",
    "block_launch_cycles", "block_drain_cycles",
)  # fmt: skip
CACHES = ("l1_bytes", "l2_bytes")
ROUNDING = 1 + 1e-9  # predictions have ten digits
N = 1 << 16


@st.composite
def kernels(draw):
    """Streams and stencils in one or two dimensions, with their launches."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    width = draw(st.sampled_from([N, 512]))
    shape = (N,) if width == N else (N // width, width)
    fields = [pa.Field(name, dtype, shape, halo=4) for name in ("a", "b", "c")]
    reach = st.integers(-4, 4)
    if width == N:
        offsets = draw(st.sets(st.tuples(st.sampled_from("ab"), reach), min_size=1, max_size=6))
        loads = [f"{name}[x + {d}]" for name, d in sorted(offsets)]
        stores = ["c[x]"]
    else:
        some = st.tuples(st.sampled_from("ab"), reach, reach)
        offsets = draw(st.sets(some, min_size=1, max_size=6))
        loads = [f"{name}[y + {e}, x + {d}]" for name, d, e in sorted(offsets)]
        stores = ["c[y, x]"]
    kernel = pa.Kernel.from_accesses(
        "k", fields, loads, stores if draw(st.booleans()) else (), dtype=dtype,
        flops=draw(st.integers(0, 40)), registers=draw(st.sampled_from([16, 64, 200])),
    )  # fmt: skip
    block = draw(st.sampled_from([(32, 1), (64, 2), (256, 1), (8, 32)]))
    domain = (draw(st.sampled_from([64, N])),) if width == N else (width, N // width)
    return kernel, pa.Launch.cover(domain, block)


def both(drawn, name, key, factor):
    """Predictions on a device and on one that is better in one value."""
    kernel, launch = drawn
    device = pa.device(name)
    value = getattr(device, key)
    better = value / factor if key in LATENCIES else value * factor
    if isinstance(value, int):
        better = round(better)
    try:
        variant = device.replace(**{key: better})
    except pa.DeviceFileError:  # an L2 as fast as the L1, for example
        assume(False)
    return pa.predict(kernel, launch, device), pa.predict(kernel, launch, variant)


names = st.sampled_from(["A100-SXM4-40GB", "V100-PCIE-32GB", "RTX-2080-Ti"])
factors = st.sampled_from([1.07, 1.5, 4.0])


@settings(max_examples=60)
@given(kernels(), names, st.sampled_from(BANDWIDTHS + LATENCIES), factors)
def test_bounds_are_monotone_in_bandwidths_and_latencies(drawn, name, key, factor):
    before, after = both(drawn, name, key, factor)
    assert after.volumes == before.volumes
    for bound in EXACT:
        assert after.bounds[bound] <= before.bounds[bound] * ROUNDING, bound
    assert after.roofline_time <= before.roofline_time * ROUNDING


@settings(max_examples=30)
@given(kernels(), names, st.sampled_from(CACHES), st.sampled_from([2, 4]))
def test_bounds_are_monotone_in_cache_sizes(drawn, name, key, factor):
    """Not the latency: a load that hits waits for the line that an earlier one fetches, and
    returns behind it."""
    before, after = both(drawn, name, key, factor)
    for volume in ("l2_load", "dram_load", "dram_store"):
        old = getattr(before.volumes, volume).total
        assert getattr(after.volumes, volume).total <= old * ROUNDING, volume
    for bound in EXACT:
        if bound != "latency":
            assert after.bounds[bound] <= before.bounds[bound] * ROUNDING, bound
    assert after.roofline_time <= before.roofline_time * ROUNDING


@settings(max_examples=30)
@given(kernels(), names)
def test_no_time_is_below_a_bound(drawn, name):
    p = pa.predict(*drawn, name)
    for bound, time in p.bounds.items():
        assert time <= p.time * ROUNDING, bound


def cuda(file, name=None, **defines):
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return pa.from_cuda(KERNELS / f"{file}.cu", name, defines=defines)


def line(file, name=None, work=1, **defines):
    """A grid in x over ``n``, each thread doing ``work`` of it."""
    kernel = cuda(file, name, **defines)
    return lambda blocks: (kernel, pa.Launch(blocks, 256, args={"n": 256 * work * blocks}))


def transpose(name):
    kernel = cuda("transpose", name)
    return lambda rows: (
        kernel, pa.Launch((64, rows), (32, 8), args={"rows": 32 * rows, "columns": 2048})
    )  # fmt: skip


def matmul():
    kernel = cuda("matmul", TILE=16)
    return lambda rows: (kernel, pa.Launch((64, rows), (16, 16), args={"n": 1024}))


def convolution():
    sizes = {"block_size_x": 32, "block_size_y": 8, "tile_size_x": 1, "tile_size_y": 2}
    return lambda rows: (
        cuda("convolution", **sizes, image_width=2048, image_height=16 * rows),
        pa.Launch((64, rows), (32, 8)),
    )


def star_by_expressions():
    def of(planes):
        domain = (256, 64, 8 * planes)
        return star3d25pt(domain), pa.Launch.cover(domain, (16, 2, 8))

    return of


def star_by_code():
    kernel = cuda("star3d25pt")

    def of(planes):
        sizes = dict(zip(("nx", "ny", "nz"), (256, 64, 8 * planes), strict=True))
        return kernel, pa.Launch.cover(tuple(sizes.values()), (16, 2, 8), args=sizes)

    return of


CASES = {
    "saxpy": lambda: line("saxpy", "saxpy"),
    "saxpy_grid_stride": lambda: line("saxpy", "saxpy_grid_stride", work=8),
    "gather": lambda: line("gather"),
    "histogram": lambda: line("histogram", work=8),
    "block_sums": lambda: line("reduction", work=8, BLOCK=256),
    "transpose_naive": lambda: transpose("transpose_naive"),
    "transpose_tiled": lambda: transpose("transpose_tiled"),
    "transpose_padded": lambda: transpose("transpose_padded"),
    "matmul": matmul,
    "convolution": convolution,
    "star3d25pt": star_by_code,
    "star3d25pt by expressions": star_by_expressions,
}


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", CASES)
def test_twice_the_grid_is_twice_the_time(name):
    """The slowest axis of the grid, from 32 whole waves on."""
    make = CASES[name]()
    kernel, launch = make(16)
    wave = A100.compute_units * pa.predict(kernel, launch, A100).occupancy.resident_blocks
    across = launch.blocks // 16
    step = wave // gcd(wave, across)
    once = step * -(-32 * wave // (step * across))
    assert once * across % wave == 0
    assert once * across >= 32 * wave
    one, two = (pa.predict(*make(times * once), A100) for times in (1, 2))
    net = [float(p.time) - A100.launch_overhead for p in (one, two)]
    assert net[1] == pytest.approx(2 * net[0], rel=0.02)
