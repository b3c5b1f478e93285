"""The configurations of Triton's tutorial on matrix products, pruned to a quarter without a GPU.

Prints, for A100 and H100, the order of the tutorial's sixteen configurations (of fp16 and of fp8,
on fp16 inputs, as it has them), which of them a quarter keeps, the time that took, how much of the
processor's is not Triton's compiler, and whether what is published as best is among them. Needs the
extras ``cuda`` and ``triton``, and minutes: ``python benchmarks/autotune.py``; what the caches hold
(``PERFASSERT_CACHE_DIR``, ``TRITON_CACHE_DIR``) costs nothing. What is published of the order on
these devices:

- A100: of 128×256×64 the "best param" are three stages and eight warps; with four warps it "works
  but is very slow" (triton-lang/triton, pull request 1561, 2023-04-21).
- H100: tutorial 09 (persistent products) takes 128×256×64, three stages, eight warps for fp16.
- A100-SXM4-40GB, a Triton product of 4096³ in bf16: 226.62 TFLOP/s (gau-nernst/learn-cuda,
  02b_matmul_sm80).

A measured order of the whole space on these devices was not found.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import triton
from funnel import spent

import perfassert as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "examples/kernels"))
from triton_autotuned import matmul

SIZE = 4096
TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32", "n": "i32", "k": "i32"}
SPACE = [
    triton.Config({"M": m, "N": n, "K": k}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in (
        (128, 256, 64, 8, 3), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
        (64, 128, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 2, 5), (32, 64, 32, 2, 5),
        (128, 256, 128, 8, 3), (256, 128, 128, 8, 3), (256, 64, 128, 4, 4), (64, 256, 128, 4, 4),
        (128, 128, 128, 4, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (128, 32, 64, 4, 4),
    )
]  # fmt: skip
BEST = "M=128 N=256 K=64 warps=8 stages=3"
SLOW = "M=128 N=256 K=64 warps=4 stages=3"


def grid(given: dict[str, int]) -> int:
    """Return the number of blocks: one for each tile."""
    return int(triton.cdiv(given["m"], given["M"]) * triton.cdiv(given["n"], given["N"]))


def rank(space: list[triton.Config], device: str) -> pa.AutotuneRanking:
    """The tutorial's product of ``SIZE``³ with the configurations of ``space``."""
    tuned = triton.autotune(configs=space, key=["m", "n", "k"])(matmul.fn)
    return pa.rank_autotune(tuned, TYPES, grid, dict.fromkeys("mnk", SIZE), device)


@contextmanager
def compiler_seconds() -> Iterator[list[float]]:
    """Yield a list that gets the processor's seconds of each run of Triton's compiler."""
    seconds: list[float] = []
    compile_kernel = triton.compile

    def timed(*given: Any, **more: Any) -> Any:
        before = spent()
        try:
            return compile_kernel(*given, **more)
        finally:
            seconds.append(spent() - before)

    triton.compile = timed
    try:
        yield seconds
    finally:
        triton.compile = compile_kernel


def main() -> None:
    """Both devices, then the pair whose order is published."""
    rank(SPACE[-1:], "RTX-4090")  # imports
    for device in ("A100-SXM4-40GB", "H100-SXM5-80GB"):
        start, before = time.perf_counter(), spent()
        with compiler_seconds() as compiler:
            ranking = rank(SPACE, device)
        took, beyond = time.perf_counter() - start, spent() - before - sum(compiler)
        kept = ranking.keep(0.25)
        print(f"\n{device}, {SIZE}³ fp16: {len(SPACE)} configurations in {took:.0f} s")
        print(
            f"{beyond / len(SPACE):.2f} s of the processor each beyond {len(compiler)} compilations"
        )
        print(ranking.table())
        best = ranking.configs.get(BEST)
        print(f"kept: {len(kept)}; the published best is {'kept' if best in kept else 'LOST'}")
        fastest = float(ranking.ranking.entries[0][1].time)
        print(f"the fastest: {2 * SIZE**3 / fastest / 1e12:.0f} TFLOP/s")
    eight = SPACE[0]
    four = triton.Config(eight.kwargs, num_warps=4, num_stages=eight.num_stages)
    times = {k: float(p.time) for k, p in rank([eight, four], "A100-SXM4-40GB").ranking.entries}
    if SLOW in times:
        print(
            f"\nA100, four warps instead of eight: {times[SLOW] / times[BEST]:.2f} times the time"
        )


if __name__ == "__main__":
    main()
