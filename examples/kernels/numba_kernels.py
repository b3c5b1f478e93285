"""Numba kernels: plain, tiled, with data in addresses, and two that are no kernels."""

from numba import cuda, float32

TILE = 16


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@cuda.jit
def transpose(src, dst):
    column, row = cuda.grid(2)
    if row < src.shape[0] and column < src.shape[1]:
        dst[column, row] = src[row, column]


@cuda.jit
def gather(index, source, target):
    i = cuda.grid(1)
    if i < target.shape[0]:
        target[i] = source[index[i]]


@cuda.jit(fastmath=True)
def matmul(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for start in range(0, a.shape[1], TILE):
        left[y, x] = a[row, start + x]
        right[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit(device=True)
def twice(x):
    return x + x


@cuda.jit
def broken(x):
    x[0] = nothing_of_that_name  # noqa: F821
