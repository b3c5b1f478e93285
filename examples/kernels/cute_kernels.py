"""Kernels of CUTLASS' Python DSL, as its introduction has them; compiled without a GPU.

The DSL reads ``CUTE_DSL_ARCH``, ``CUTE_DSL_KEEP_PTX`` and ``CUTE_DSL_DUMP_DIR`` when it is
imported.
"""

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor

COUNT, SIDE, BLOCK = 1 << 22, 2048, 256


@cute.kernel
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    x, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * BLOCK + x
    if i < n:
        c[i] = a[i] + b[i]


@cute.kernel
def scale(source: cute.Tensor, target: cute.Tensor, factor: cutlass.Float32):
    x, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * BLOCK + x
    target[i] = source[i] * factor


@cute.kernel
def transpose(source: cute.Tensor, target: cute.Tensor, pitch: cutlass.Int32):
    x, y, _ = cute.arch.thread_idx()
    along, down, _ = cute.arch.block_idx()
    column, row = along * 32 + x, down * 8 + y
    target[column * pitch + row] = source[row * pitch + column]


@cute.jit
def start_add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    add(a, b, c, n).launch(grid=[COUNT // BLOCK, 1, 1], block=[BLOCK, 1, 1])


@cute.jit
def start_scale(source: cute.Tensor, target: cute.Tensor, factor: cutlass.Float32):
    scale(source, target, factor).launch(grid=[COUNT // BLOCK, 1, 1], block=[BLOCK, 1, 1])


@cute.jit
def start_transpose(source: cute.Tensor, target: cute.Tensor, pitch: cutlass.Int32):
    transpose(source, target, pitch).launch(grid=[SIDE // 32, SIDE // 8, 1], block=[32, 8, 1])


def compiled():
    """By name: what ``cute.compile`` returns, and the function under ``@cute.kernel``."""
    a, b, c = (
        make_fake_compact_tensor(cutlass.Float32, (COUNT,), stride_order=(0,)) for _ in range(3)
    )
    return {
        "add": (cute.compile(start_add, a, b, c, cutlass.Int32(COUNT)), add),
        "scale": (cute.compile(start_scale, a, b, cutlass.Float32(2.0)), scale),
        "transpose": (cute.compile(start_transpose, a, b, cutlass.Int32(SIDE)), transpose),
    }
