"""The layer condition of the 25-point star (paper §5.7), in the interior of the domain."""

from itertools import pairwise

import pytest
from star3d25pt import star3d25pt

import perfassert as pa
from perfassert.engines.volume.launch_groups import group_launch
from perfassert.engines.volume.waves import waves
from perfassert.hardware.occupancy import Occupancy

DEVICE = "A100-SXM4-40GB"
DEPTHS = [1, 2, 4, 8, 16, 32]


def per_update(plane, depth, layers=128, shared_bytes=0):
    nx, ny = plane
    block = (max(32, 512 // depth), 1, depth)
    kernel = star3d25pt((nx, ny, layers))
    launch = pa.Launch.cover((nx, ny, layers), block, shared_bytes=shared_bytes)
    return pa.predict(kernel, launch, DEVICE)


def values(prediction):
    return float(prediction.volumes.dram_load.per_update) / 8


@pytest.mark.parametrize("depth", DEPTHS)
def test_without_layer_reuse_the_wave_depth_decides(depth):
    """Rows within a plane are reused, planes are not: (d + 8) / d values per update.

    Shared memory holds the wave small enough for its rows to stay in the L2.
    """
    prediction = per_update((2048, 2048), depth, shared_bytes=48 * 1024)
    assert prediction.diagnostics["layer_y_miss"] < 0.05
    assert prediction.diagnostics["layer_z_miss"] > 0.99
    assert values(prediction) == pytest.approx((depth + 8) / depth, rel=0.04)


def test_the_wave_alone_loads_eight_more_per_row():
    """Compulsory and both overlaps of a wave of r rows, d deep: (d + 8) / d + 8 / r."""
    device = pa.device(DEVICE)
    kernel = star3d25pt((640, 512, 512))
    launch = pa.Launch.cover((640, 512, 512), (640, 1, 1))
    resident = Occupancy(0.625, 2, 40, "warps")
    groups = group_launch(kernel, launch, launch, device, resident)
    (wave,) = waves(groups)
    concurrent = 2 * device.compute_units
    alone = wave.fields["src"].load / wave.threads / 8
    assert alone == pytest.approx(9 + 8 / concurrent, rel=0.005)


def halo(n):
    """Values loaded for each update of an n × n plane that is loaded once, halo included."""
    return (n * (n + 8) + 8 * n) / n**2


@pytest.mark.parametrize("depth", DEPTHS[:4])
def test_small_planes_load_every_value_once(depth):
    assert values(per_update((192, 192), depth, layers=512)) == pytest.approx(halo(192), rel=0.04)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("depth", DEPTHS)
def test_transition(depth):
    """From one value per update to (d + 8) / d as the plane outgrows the L2 (figure 23)."""
    planes = range(128, 1537, 128)
    series = [values(per_update((n, n), depth, layers=256)) / halo(n) for n in planes]
    full = (depth + 8) / depth
    assert all(b > 0.97 * a for a, b in pairwise(series))
    assert series[0] == pytest.approx(1, rel=0.06)
    assert series[-1] == pytest.approx(full, rel=0.06)


def test_deeper_blocks_leave_the_cache_earlier():
    shallow, deep = (values(per_update((512, 512), d, layers=256)) for d in (1, 32))
    assert shallow / 9 < deep / 1.25


def test_doubling_the_grid_doubles_everything():
    kernel = star3d25pt((640, 512, 1024))
    once, twice = (
        pa.predict(kernel, pa.Launch.cover((640, 512, nz), (32, 4, 8)), DEVICE).volumes
        for nz in (512, 1024)
    )
    for name in ("l1_cycles", "l2_load", "l2_store", "dram_load", "dram_store"):
        ratio = float(getattr(twice, name).total) / float(getattr(once, name).total)
        assert ratio == pytest.approx(2, rel=1e-9)


def test_what_a_wave_stores_takes_room_in_the_l2():
    """A store of the wave moves the layer condition as much as a load of as many bytes."""
    (n,) = shape = (1 << 24,)
    plane = 1 << 20
    launch = pa.Launch.cover((1024, 1024, 16), (32, 8, 1))
    field = [pa.Field(name, shape=shape) for name in "abc"]
    near, far = "a[x + 1024 * y + 1048576 * z]", f"a[(x + 1024 * y + 1048576 * z + {plane}) % {n}]"
    other = "[x + 1024 * y + 1048576 * z]"

    def miss(loads, stores):
        kernel = pa.Kernel.from_accesses("k", field, [near, far, *loads], stores)
        return pa.predict(kernel, launch, DEVICE).diagnostics["layer_z_miss"]

    alone = miss([], [])
    assert miss([], [f"b{other}"]) == miss([f"b{other}"], []) > alone
