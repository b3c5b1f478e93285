"""Kernels as their authors write them, in CUDA: what gates them, without a GPU."""

from pathlib import Path

import pytest
from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa

KERNELS = Path(__file__).parent / "kernels"
N = 1 << 24
STREAM = pa.Launch(N // 256, 256, args={"n": N})
GRID_STRIDE = pa.Launch(4 * 108, 256, args={"n": N})
MATRIX = pa.Launch((128, 128), (32, 8), args={"rows": 4096, "columns": 4096})


def kernel(file, name=None, **settings):
    return pa.from_cuda(KERNELS / f"{file}.cu", name, **settings)


def test_saxpy_moves_twelve_bytes_per_element(perf):
    p = perf(kernel("saxpy", "saxpy"), STREAM)
    p.expect(limiter="dram", dram_load="== 8 B/thread", dram_store="== 4 B/thread", spill_bytes=0)


def test_a_grid_stride_loop_is_the_work_it_does(perf):
    plain = perf(kernel("saxpy", "saxpy"), STREAM)
    stride = perf(kernel("saxpy", "saxpy_grid_stride"), GRID_STRIDE)
    assert float(stride.volumes.dram_load.total) == float(plain.volumes.dram_load.total)
    assert stride.threads == plain.threads == N


def test_compiled_star_moves_what_the_expressions_say(perf):
    nx, ny, nz = DOMAIN
    launch = pa.Launch.cover(DOMAIN, (16, 2, 8), args={"nx": nx, "ny": ny, "nz": nz})
    written = perf(star3d25pt(), domain=DOMAIN, block=(16, 2, 8)).volumes
    compiled = perf(kernel("star3d25pt"), launch).volumes
    for name in ("l2_load", "l2_store", "dram_load", "dram_store"):
        expected = float(getattr(written, name).total)
        assert float(getattr(compiled, name).total) == pytest.approx(expected, rel=1e-6)


def test_naive_transpose_writes_a_sector_for_each_element(perf):
    p = perf(kernel("transpose", "transpose_naive"), MATRIX)
    p.expect(limiter="l1 | l2 | dram", l2_store="== 128 B/thread", l2_load="== 16 B/thread")


def test_padding_removes_the_bank_conflicts(perf):
    tiled = perf(kernel("transpose", "transpose_tiled", updates_per_thread=4), MATRIX)
    padded = perf(kernel("transpose", "transpose_padded", updates_per_thread=4), MATRIX)
    assert tiled.volumes.shared_wavefronts.total > 10 * padded.volumes.shared_wavefronts.total
    tiled.expect(limiter="shared | dram")
    padded.expect(limiter="dram")
    assert tiled.time > 1.2 * padded.time


def test_matmul_is_bound_by_shared_memory(perf):
    p = perf(
        kernel("matmul", defines={"TILE": 16}), pa.Launch((64, 64), (16, 16), args={"n": 1024})
    )
    p.expect(limiter="shared", dram_store="== 4 B/thread")


def test_reduction_reads_once(perf):
    p = perf(kernel("reduction", defines={"BLOCK": 256}), GRID_STRIDE)
    p.expect(limiter="latency", dram_load="4 B/thread ± 1 %")


def test_histogram_says_what_it_does_not_know(perf):
    p = perf(kernel("histogram"), GRID_STRIDE, allow_guesses=True)  # how often lanes meet in a bin
    assert p.confidence == "guessed"
    assert any("depends on data" in str(a) for a in p.confidence_reasons)
    p.expect(dram_load="4 B/thread ± 1 %")


def test_gather_with_a_declared_index(perf):
    scattered = perf(kernel("gather"), STREAM, allow_guesses=True)  # nobody says what index holds
    orderly = perf(kernel("gather", assume={"index": "x"}), STREAM)
    assert (scattered.confidence, orderly.confidence) == ("guessed", "extrapolated")
    assert "table" in str(scattered.confidence_reasons[0])
    orderly.expect(dram_load="== 8 B/thread")
    assert scattered.volumes.dram_load.total > 4 * orderly.volumes.dram_load.total


@pytest.mark.parametrize("tile", [1, 2])
def test_convolution_tiles(perf, tile):
    p = perf(convolution(tile), pa.Launch((4096 // (32 * tile), 4096 // (8 * tile)), (32, 8)))
    p.expect(limiter="shared | latency | compute | issue", dram_store=f"== {4 * tile**2} B/thread")


def test_large_tiles_spill(perf):
    """Sixteen sums, unrolled: registers do not suffice, and DRAM has to hold them."""
    p = perf(convolution(4), pa.Launch((32, 128), (32, 8)))
    p.expect(limiter="dram", spill_bytes="> 1 kB")
    assert p.volumes.dram_store.fields["output"].per_thread == 64
    assert p.volumes.dram_store.per_thread > 64 + 1000


def convolution(tile):
    defines = {"block_size_x": 32, "block_size_y": 8, "tile_size_x": tile, "tile_size_y": tile,
               "use_padding": 0, "read_only": 0}  # fmt: skip
    return kernel("convolution", defines=defines)
