"""Kernels of CUTLASS' Python DSL; skipped unless its environment says that PTX is kept:

CUTE_DSL_ARCH=sm_80 CUTE_DSL_KEEP_PTX=1 CUTE_DSL_DUMP_DIR=/a/folder pytest test_cute_kernels.py
"""

import os

import pytest

import perfassert as pa

pytest.importorskip("cutlass")
if os.environ.get("CUTE_DSL_KEEP_PTX") != "1":
    pytest.skip("CUTE_DSL_KEEP_PTX is not set", allow_module_level=True)

from kernels.cute_kernels import BLOCK, COUNT, SIDE, compiled


@pytest.fixture(scope="module")
def kernels():
    return {name: pa.from_cute(*made) for name, made in compiled().items()}


def test_add(perf, kernels):
    launch = pa.Launch(COUNT // BLOCK, BLOCK, {"n": COUNT})
    perf(kernels["add"], launch).expect(
        dram_load="8 B/thread ± 1 %", dram_store="4 B/thread ± 1 %", limiter="dram"
    )


def test_scale(perf, kernels):
    launch = pa.Launch(COUNT // BLOCK, BLOCK, {"factor": 2.0})
    perf(kernels["scale"], launch).expect(dram_load="4 B/thread ± 1 %", limiter="dram")


def test_transpose(perf, kernels):
    """Rows are read, columns written: a sector for each number."""
    launch = pa.Launch((SIDE // 32, SIDE // 8), (32, 8), {"pitch": SIDE})
    perf(kernels["transpose"], launch).expect(l2_load="4 B/thread ± 5 %")
