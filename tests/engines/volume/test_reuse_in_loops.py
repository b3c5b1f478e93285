"""Tests of the cache capacity for reuse in loops, against a walk through the iterations."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.reuse import CacheDemand, miss_share, touched_again
from perfassert.kernel.access import Direction

SECTOR, LINE = 32, 128
LAUNCH = pa.Launch(1, 32)


def group(field, terms, **trips):
    """Return an access of 4 bytes in the loops ``trips``, the outermost first."""
    ranges = tuple(sorted((name, (0, n - 1)) for name, n in trips.items()))
    return AccessGroup(field, Direction.LOAD, 4, tuple(terms.items()), np.zeros(1, np.int64), 128,
                       frozenset(), ranges, (), tuple(trips), (hash(field) % 1000,))  # fmt: skip


def addresses(one, ranges):
    """Return the addresses of all threads and iterations."""
    values = {"x": np.arange(32), **{k: np.arange(a, b + 1) for k, (a, b) in ranges.items()}}
    grids = np.meshgrid(*values.values(), indexing="ij")
    named = dict(zip(values, grids, strict=True))
    return sum(c * named[s] for s, c in one.terms).ravel()


def footprint(groups):
    found = np.concatenate([addresses(g, dict(g.ranges)) for g in groups])
    lines = float(LINE * len(np.unique(found // LINE)))
    return float(SECTOR * len(np.unique(found // SECTOR))), CacheDemand(lines, lines)


def again(groups, asked):
    fields = {}
    for one in groups:
        fields.setdefault(one.field, []).append(one)
    asked_by = {g.members: asked[g.field] for g in groups}
    nests = touched_again(fields, asked_by, footprint, Direction.LOAD, float("inf"))
    return [one for nest in nests for one in nest]


def test_a_row_is_touched_again_while_its_lines_are_near():
    """32 rows, 4096 columns: eight iterations per sector, each by another thread's own line."""
    trips = 4096
    row = group("a", {"x": 4 * trips, "k": 4}, k=trips)
    asked = 32 * trips * SECTOR
    found = again([row], {"a": asked})
    unique = 32 * trips * 4
    assert sum(one.bytes["a"] for one in found) == asked - unique
    near = sum(one.bytes["a"] for one in found if one.room.shared <= 32 * LINE)
    assert near == asked - unique


def test_a_vector_that_every_sweep_reads_must_fit_as_a_whole():
    sweeps, n = 8, 1024
    x = group("x", {"k": 4}, t=sweeps, k=n)
    found = again([x], {"x": sweeps * n * SECTOR})
    far = [one for one in found if one.room.shared >= 4 * n]
    assert sum(one.bytes["x"] for one in far) == pytest.approx((sweeps - 1) * 4 * n, rel=0.01)
    assert sum(one.bytes["x"] for one in found) == pytest.approx(sweeps * n * SECTOR - 4 * n)


def test_others_in_the_loop_need_room_as_well():
    trips = 256
    row = group("a", {"x": 4 * trips, "k": 4}, k=trips)
    stream = group("b", {"x": 4, "k": 128}, k=trips)
    [alone] = [one for one in again([row], {"a": 32 * trips * SECTOR}) if one.across]
    both = again([row, stream], {"a": 32 * trips * SECTOR, "b": trips * LINE})
    [beside] = [one for one in both if one.across and "a" in one.bytes]
    assert beside.bytes == alone.bytes
    assert beside.room.shared == alone.room.shared + LINE
    assert sum(one.bytes["b"] for one in both if "b" in one.bytes) == 0


def test_loops_after_one_another_need_no_room_at_the_same_time():
    first, second = group("a", {"x": 4, "i": 128}, i=64), group("b", {"x": 4, "j": 128}, j=64)
    found = again([first, second], {"a": 64 * LINE, "b": 64 * LINE})
    assert max(one.room.shared for one in found) == LINE


@pytest.mark.parametrize("device", ["a100", "a40"])
def test_a_product_of_matrices_loads_a_tile_as_often_as_tiles_need_it(tmp_path, device):
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "rows.cu").write_text("""
    extern "C" __global__ void rows(const float* a, const float* b, float* c, int n) {
        int row = blockIdx.x * 32 + threadIdx.x / 32, column = blockIdx.y * 32 + threadIdx.x % 32;
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
        c[row * n + column] = sum;
    }""")
    n = 2048
    found = pa.predict(
        pa.from_cuda(file), pa.Launch((n // 32, n // 32), 1024, args={"n": n}), device
    )
    once = 2 * 4 * n * n * (n // 32)  # every block reads 32 rows and 32 columns
    assert float(found.volumes.l2_load.total) == pytest.approx(once, rel=0.1)


def predicted(folder, code, launch, device):
    (file := folder / "kernel.cu").write_text(code)
    return pa.predict(pa.from_cuda(file), launch, device).volumes.dram_load


def test_blocks_of_a_product_share_what_they_load_at_the_same_time(tmp_path):
    """A wave touches more than the L2 holds, but one iteration of it little."""
    pytest.importorskip("nvidia.cu13")
    n = 4096
    code = """
    extern "C" __global__ void columns(const float* a, const float* b, float* c, int n) {
        int column = blockIdx.x * 32 + threadIdx.x % 32, row = blockIdx.y * 32 + threadIdx.x / 32;
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
        c[row * n + column] = sum;
    }"""
    launch = pa.Launch((n // 32, n // 32), 1024, args={"n": n})
    found = predicted(tmp_path, code, launch, "a100")
    assert 4 * n * n > pa.device("a100").l2_effective_bytes
    assert float(found.parts["capacity"]) < 0.01 * float(found.total)


def test_what_every_sweep_reads_anew_must_fit_into_the_l2_as_a_whole(tmp_path):
    """Blocks that all read the same array eight times: seven sweeps come back to what is gone."""
    pytest.importorskip("nvidia.cu13")
    n, sweeps = 1 << 25, 8
    code = """
    extern "C" __global__ void sweep(const float* x, float* out, int n, int sweeps) {
        float sum = 0;
        for (int t = 0; t < sweeps; ++t)
            for (int k = threadIdx.x; k < n; k += 1024) sum += x[k];
        out[blockIdx.x * 1024 + threadIdx.x] = sum;
    }"""
    launch = pa.Launch(108, 1024, args={"n": n, "sweeps": sweeps})
    found = predicted(tmp_path, code, launch, "a100")
    device = pa.device("a100")
    gone = miss_share(4 * n / device.l2_effective_bytes)
    assert gone > 0.99
    swept = (sweeps - 1) * 4 * n * gone
    near = 0.02 * 8 * 4 * n  # the curve is not quite zero for what blocks read at the same time
    assert swept <= float(found.parts["capacity"]) < swept + near
