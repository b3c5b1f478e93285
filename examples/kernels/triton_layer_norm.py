"""Each row less its mean, over its deviation, times a weight, plus a bias: a row in a program."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(target, source, weight, bias, columns, epsilon, BLOCK: tl.constexpr):  # noqa: N803
    column = tl.arange(0, BLOCK)
    held = column < columns
    at = tl.program_id(0) * columns + column
    x = tl.load(source + at, mask=held, other=0.0)
    mean = tl.sum(x, 0) / columns
    apart = tl.where(held, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, 0) / columns + epsilon)
    scaled = apart * scale * tl.load(weight + column, mask=held)
    tl.store(target + at, scaled + tl.load(bias + column, mask=held), mask=held)
