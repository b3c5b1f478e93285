"""Warp kernels: plain, two indices, vectors and a structure, and one that does not compile."""

import warp as wp


@wp.kernel
def axpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def diffuse(rate: float, old: wp.array2d(dtype=float), new: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i > 0 and i < old.shape[0] - 1 and j > 0 and j < old.shape[1] - 1:
        around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
        new[i, j] = old[i, j] + rate * (around - 4.0 * old[i, j])


@wp.struct
class Step:
    dt: float
    gravity: wp.vec3


@wp.kernel
def integrate(step: Step, x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    v[i] = v[i] + step.gravity * step.dt
    x[i] = x[i] + v[i] * step.dt
