"""Compare predictions of FP16 Triton products with published ones on an RTX 4090 and an RTX 3090.

``python validation/triton_products.py TABLE`` reads ``origami_gemm_triton_nvidia.csv``
(codingjin/0129-params @84ab469): for each size the tile that an analytic model chose and what it
reached. The measured kernel is not published; this one is a tiled product whose programs walk
through groups of rows, with 8 warps and 2 stages as reported. Nothing is fitted to these rows.
"""

from __future__ import annotations

import csv
import sys
from itertools import combinations
from statistics import median

import triton
import triton.language as tl

import perfassert as pa
from perfassert.frontends.generators.triton import from_triton

APART = 1.1  # measured times of a pair whose order counts
SMALL = 4e9  # operations; below, the launch from Python is in the time


@triton.jit
def multiply(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,  # noqa: N803
             GROUP: tl.constexpr):  # fmt: skip  # noqa: N803
    """C = A B in tiles of M x N; programs visit GROUP rows of tiles together."""
    program = tl.program_id(0)
    across = tl.cdiv(n, N)
    first = program // (GROUP * across) * GROUP
    high = min(tl.cdiv(m, M) - first, GROUP)
    within = program % (GROUP * across)
    row = (first + within % high) * M + tl.arange(0, M)
    column = within // high * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left = a + (row % m)[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + (column % n)[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        rest = k - step * K
        one = tl.load(left, mask=inner[None, :] < rest, other=0.0)
        two = tl.load(right, mask=inner[:, None] < rest, other=0.0)
        total = tl.dot(one, two, total)
        left += K
        right += K * n
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16), mask=inside)


def predicted_tflops(row: dict[str, str]) -> tuple[float, str]:
    """What the row's product reaches by prediction, and how sure that is."""
    m, n, k = (int(row[name]) for name in "mnk")
    tile = {"M": int(row["block_m"]), "N": int(row["block_n"]), "K": int(row["block_k"])}
    types = dict.fromkeys("abc", "*fp16") | dict.fromkeys("mnk", "i32")
    sizes = {**tile, "GROUP": int(row["group_m"])}
    kernel = from_triton(multiply, types, sizes, num_warps=8, num_stages=2)
    blocks = -(-m // tile["M"]) * -(-n // tile["N"])
    launch = pa.Launch(blocks, 256, {"m": m, "n": n, "k": k})
    prediction = pa.predict(kernel, launch, row["gpu"])
    return 2e-12 * m * n * k / float(prediction.time), prediction.confidence


def main(table: str) -> None:
    """Print each row, then the errors of the large ones and the share of pairs in order."""
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = []
    for row in rows:
        tflops, confidence = predicted_tflops(row)
        ratio = float(row["chosen_tflops"]) / tflops
        size = " x ".join(row[name] for name in "mnk")
        tile = " x ".join(row[f"block_{name}"] for name in "mnk")
        print(f"{row['gpu']}  {size:22} {tile:16} time {ratio:5.2f} of measured, {confidence}")
        operations = 2.0 * int(row["m"]) * int(row["n"]) * int(row["k"])
        measured = operations / float(row["chosen_tflops"])
        if operations >= SMALL:
            found.append((row["gpu"], measured, measured * ratio))
    errors = [abs(predicted / measured - 1) for _, measured, predicted in found]
    print(f"{len(errors)} products: median error {median(errors):.1%}, worst {max(errors):.1%}")
    pairs = [
        (one[1] < two[1]) == (one[2] < two[2])
        for one, two in combinations(found, 2)
        if one[0] == two[0] and max(one[1], two[1]) >= APART * min(one[1], two[1])
    ]
    print(f"{sum(pairs)} of {len(pairs)} pairs in the measured order")


if __name__ == "__main__":
    main(sys.argv[1])
