"""Softmax of the rows of a matrix, a row per program; masked where the row ends."""

import triton
import triton.language as tl


@triton.jit
def softmax(target, source, columns, pitch, BLOCK: tl.constexpr):  # noqa: N803
    start = tl.program_id(0) * pitch
    column = tl.arange(0, BLOCK)
    inside = column < columns
    row = tl.load(source + start + column, mask=inside, other=-float("inf"))
    raised = tl.exp(row - tl.max(row, axis=0))
    tl.store(target + start + column, raised / tl.sum(raised, axis=0), mask=inside)
