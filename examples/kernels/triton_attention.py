"""O = softmax(Q Kᵀ / √d) V in one pass, halves: q, k, v and o are [heads][length][D], the tiles
divide the length."""

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, length, scale, ROWS: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr):  # noqa: N803
    head = tl.program_id(1) * length * D
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner, column = tl.arange(0, TILE), tl.arange(0, D)
    rows = tl.load(q + head + row[:, None] * D + column[None, :])
    keys = k + head + inner[None, :] * D + column[:, None]
    values = v + head + inner[:, None] * D + column[None, :]
    most = tl.full((ROWS,), float("-inf"), tl.float32)
    sums = tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, D), tl.float32)
    for _ in range(0, length, TILE):
        scores = tl.dot(rows, tl.load(keys)) * scale
        higher = tl.maximum(most, tl.max(scores, 1))
        part = tl.math.exp2(scores - higher[:, None])
        shrink = tl.math.exp2(most - higher)
        sums = sums * shrink + tl.sum(part, 1)
        out = tl.dot(part.to(tl.float16), tl.load(values), out * shrink[:, None])
        most = higher
        keys += TILE * D
        values += TILE * D
    tl.store(o + head + row[:, None] * D + column[None, :], (out / sums[:, None]).to(tl.float16))
