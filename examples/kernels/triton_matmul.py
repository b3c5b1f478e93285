"""C = A B in tiles: A is m×k, B is k×n, all row-major; the tiles divide the matrices."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):  # noqa: N803
    row = tl.program_id(1) * M + tl.arange(0, M)
    column = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left = a + row[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + column[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += K
        right += K * n
    tl.store(c + row[:, None] * n + column[None, :], total)
