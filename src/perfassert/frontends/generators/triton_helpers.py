"""Replacements for ``triton_helpers``, which code of PyTorch's Inductor and of Helion calls.

With the replacements, such code compiles without PyTorch. A kernel that calls any other helper is
rejected with an error that names the helper. Each function has the meaning of its original in
https://github.com/pytorch/pytorch/blob/main/torch/_inductor/runtime/triton_helpers.py.
"""

# mypy: ignore-errors
# Parameters of Triton functions have no Python types.

import triton
import triton.language as tl


@triton.jit
def promote_to_tensor(x):
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def is_floating(x):
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def div_floor_integer(a, b):
    whole = a // b
    down = (a % b != 0) & ((a < 0) != (b < 0))
    return tl.where(down, whole - 1, whole)


@triton.jit
def remainder_integer(a, b):
    rest = a % b
    return tl.where((rest != 0) & ((a < 0) != (b < 0)), rest + b, rest)


@triton.jit
def minimum(a, b):
    first = a < b
    if is_floating(a):
        first |= a != a
    return tl.where(first, a, b)


@triton.jit
def maximum(a, b):
    first = a > b
    if is_floating(a):
        first |= a != a
    return tl.where(first, a, b)


@triton.jit
def min2(a, dim):
    return tl.reduce(a, dim, minimum)


@triton.jit
def max2(a, dim):
    return tl.reduce(a, dim, maximum)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def prod(a, dim):
    return tl.reduce(a, dim, _product)


@triton.jit
def _bitwise_or(a, b):
    return a | b


@triton.jit
def any(a, dim):
    return tl.reduce(a, dim, _bitwise_or)


@triton.jit
def _select_with_index(less, equal, a, i, b, j):
    """Return the winning value and its index: NaN wins, and the lower index wins a tie."""
    if is_floating(a):
        less |= (a != a) & (b == b)
        equal |= (a != a) & (b != b)
    less |= equal & (i < j)
    return tl.where(less, a, b), tl.where(less, i, j)


@triton.jit
def minimum_with_index(a, i, b, j):
    return _select_with_index(a < b, a == b, a, i, b, j)


@triton.jit
def maximum_with_index(a, i, b, j):
    return _select_with_index(a > b, a == b, a, i, b, j)


@triton.jit
def min_with_index(value, index, dim):
    return tl.reduce((value, index), dim, minimum_with_index)


@triton.jit
def max_with_index(value, index, dim):
    return tl.reduce((value, index), dim, maximum_with_index)


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    if first_iteration:
        count = tl.full(weight.shape, 1, weight.dtype)
        average = value
        squares = tl.zeros_like(m2)
    else:
        step = value - mean
        count = weight + 1
        average = mean + step / count
        squares = m2 + step * (value - average)
    return average, squares, count


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    step = mean_2 - mean_1
    count = weight_1 + weight_2
    share = tl.where(count == 0.0, 0.0, weight_2 / count)
    return mean_1 + step * share, m2_1 + m2_2 + step * step * weight_1 * share, count


@triton.jit
def welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, welford_combine)


@triton.jit
def device_assert_then(cond, msg, r):
    tl.device_assert(cond, msg)
    return r
