"""A matrix product with a space of configurations, one of which needs more than a GPU has."""

import triton
import triton.language as tl

SPACE = [
    triton.Config({"M": m, "N": n, "K": k}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in (
        (128, 256, 64, 8, 3), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
        (64, 128, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 2, 5), (32, 64, 32, 2, 5),
    )
]  # fmt: skip


@triton.autotune(configs=SPACE, key=["m", "n", "k"])
@triton.heuristics({"EVEN": lambda args: args["k"] % args["K"] == 0})
@triton.jit
def matmul(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr  # noqa: N803
):  # fmt: skip
    """C = A B: A is m×k, B is k×n, row-major; groups of eight rows of tiles share what L2 holds."""
    rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
    number = tl.program_id(0)
    group = number // (8 * columns)
    height = tl.minimum(rows - group * 8, 8)
    row = group * 8 + number % (8 * columns) % height
    column = number % (8 * columns) // height
    i = (row * M + tl.arange(0, M)) % m
    j = (column * N + tl.arange(0, N)) % n
    inner = tl.arange(0, K)
    left = a + i[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + j[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        if EVEN:
            total = tl.dot(tl.load(left), tl.load(right), total)
        else:
            rest = k - step * K
            x = tl.load(left, mask=inner[None, :] < rest, other=0.0)
            total = tl.dot(x, tl.load(right, mask=inner[:, None] < rest, other=0.0), total)
        left += K
        right += K * n
    i, j = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(c + i[:, None] * n + j[None, :], total.to(tl.float16), mask=inside)
