"""Numba kernels, compiled and predicted where there is no GPU."""

import pytest

import perfassert as pa

pytest.importorskip("numba.cuda")
pytest.importorskip("cuda.bindings")

from kernels.numba_kernels import TILE, axpy, matmul, transpose

COUNT, SIZE = 1 << 24, 1024
MATRIX = "float32[:, ::1]"


def test_axpy(perf):
    """One number of each array is read, one is written."""
    kernel = pa.from_numba(axpy, "void(float32, float32[::1], float32[::1])")
    launch = pa.Launch(COUNT // 256, 256, {"a": 2.0, "x": COUNT, "y": COUNT})
    perf(kernel, launch).expect(
        limiter="dram", dram_load="== 8 B/thread", dram_store="== 4 B/thread", spill_bytes=0
    )


def test_transpose(perf):
    """Rows are read, columns written: a sector for each number, which the L2 puts together."""
    kernel = pa.from_numba(transpose, f"void({MATRIX}, {MATRIX})")
    shapes = {"src": (4 * SIZE, 4 * SIZE), "dst": (4 * SIZE, 4 * SIZE)}
    launch = pa.Launch((4 * SIZE // TILE, 4 * SIZE // TILE), (TILE, TILE), shapes)
    perf(kernel, launch).expect(l2_load="4 B/thread ± 5 %", dram_store="4 B/thread ± 5 %")


def test_matmul(perf):
    """A tile of each matrix is loaded by each block, once."""
    kernel = pa.from_numba(matmul, f"void({MATRIX}, {MATRIX}, {MATRIX})")
    shapes = dict.fromkeys("abc", (SIZE, SIZE))
    launch = pa.Launch((SIZE // TILE, SIZE // TILE), (TILE, TILE), shapes)
    loaded = 2 * 4 * SIZE // TILE  # bytes of a thread
    perf(kernel, launch).expect(l2_load=f"{loaded} B/thread ± 5 %", confidence="!guessed")
