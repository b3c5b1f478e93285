"""An autotuned Triton kernel: which configurations are worth measuring, without a GPU."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytest.importorskip("triton")
if tools.find("nvdisasm") is None:
    pytest.skip("nvdisasm is not installed", allow_module_level=True)

import triton
from kernels.triton_autotuned import SPACE, matmul

SIZE = 2048
TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32", "n": "i32", "k": "i32"}


def grid(given):
    return triton.cdiv(given["m"], given["M"]) * triton.cdiv(given["n"], given["N"])


def test_small_tiles_are_not_kept():
    """They load each matrix more often: 32 columns are read twice as often as 64."""
    args = dict.fromkeys("mnk", SIZE)
    ranking = pa.rank_autotune(matmul, TYPES, grid, args, "A100-SXM4-40GB")
    kept = ranking.keep(share=0.25)
    assert len(kept) == len(SPACE) // 4
    assert all(min(c.kwargs["M"], c.kwargs["N"]) >= 64 for c in kept)
    assert set(ranking.configs.values()) == set(SPACE)
