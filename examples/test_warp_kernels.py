"""Warp kernels, compiled and predicted where there is no GPU."""

import pytest

import perfassert as pa

pytest.importorskip("warp")

from kernels.warp_kernels import axpy, diffuse, integrate

COUNT, SIDE = 1 << 22, 2048


def test_axpy(perf):
    launch = pa.Launch(COUNT // 256, 256, {"a": 2.0, "x": COUNT, "y": COUNT})
    perf(pa.from_warp(axpy), launch).expect(
        limiter="dram", dram_load="== 8 B/thread", dram_store="== 4 B/thread"
    )


def test_diffuse(perf):
    """A row above and one below: half a row of blocks is what neighbours load again."""
    shape = (SIDE, SIDE)
    args = {"dim": shape, "rate": 0.1, "old": shape, "new": shape}
    perf(pa.from_warp(diffuse), pa.Launch(SIDE * SIDE // 256, 256, args)).expect(
        dram_store="4 B/thread ± 2 %", dram_load="4 .. 6 B/thread", confidence="!guessed"
    )


def test_integrate(perf):
    """Positions and velocities are read and written, 12 bytes each."""
    args = {"x": COUNT, "v": COUNT, "step": {"dt": 0.01, "gravity": [0.0, 0.0, -9.81]}}
    perf(pa.from_warp(integrate), pa.Launch(COUNT // 256, 256, args)).expect(
        limiter="dram", dram_load="24 .. 28 B/thread"
    )
