"""Kernels by address expressions before and after a piece of advice is taken, by optimizer."""

import perfassert as pa

N = 1 << 22
SIDE = 4096
DEVICE = "a100"


def plane(name, dtype="float32", shape=(SIDE, SIDE), halo=0):
    return pa.Field(name, dtype, shape, halo)


def copied(loads, stores, launch, dtype="float32", fields=None, device=DEVICE, **settings):
    """A kernel of two planes, predicted."""
    fields = fields or [plane("a", dtype), plane("b", dtype)]
    kernel = pa.Kernel.from_accesses("copy", fields, loads, stores, dtype=dtype, **settings)
    return pa.predict(kernel, launch, device)


def cover(block, side=SIDE):
    return pa.Launch.cover((side, side), block)


def row(length, width=1, dtype="float32"):
    return [pa.Field(name, dtype, (length // width,)) for name in "ab"]


def sums(block, blocks, **settings):
    """Many operations for each of a few elements."""
    threads = blocks * block
    fields = [pa.Field(name, "float32", (threads,)) for name in "ab"]
    kernel = pa.Kernel.from_accesses("sums", fields, ["a[x]"], ["b[x]"], flops=4096,
                                     dtype="float32", **settings)  # fmt: skip
    return kernel, threads


def few(block, threads=16 * 1024):
    kernel, _ = sums(1024, 16)
    return pa.predict(kernel, pa.Launch.cover(threads, block), DEVICE)


def structures(access, shape):
    fields = [pa.Field("a", "float32", shape), pa.Field("b", "float32", (N,))]
    loads = [access.format(c) for c in (0, 3, 5)]
    kernel = pa.Kernel.from_accesses("drift", fields, loads, ["b[x]"], 2, "float32")
    return pa.predict(kernel, pa.Launch.cover(N, 256), DEVICE)


def four(width):
    """Predict a kernel whose threads copy four neighbouring elements each."""
    dtype = {1: "float32", 4: "complex128"}[width]
    places = ["x"] if width == 4 else ["4 * x", "4 * x + 1", "4 * x + 2", "4 * x + 3"]
    loads, stores = ([f"{name}[{place}]" for place in places] for name in "ab")
    kernel = pa.Kernel.from_accesses("four", row(N, width, dtype), loads, stores, dtype="float32")
    return pa.predict(kernel, pa.Launch.cover(N // 4, 256), DEVICE)


def crowded(registers):
    fields = [plane("a", "float64"), plane("b", "float64")]
    kernel = pa.Kernel.from_accesses("crowded", fields, ["a[y, x]"], ["b[y, x]"], 64, "float64",
                                     registers=registers)  # fmt: skip
    return pa.predict(kernel, cover((32, 8)), DEVICE)


def table(loads):
    fields = [*row(N), pa.Field("t", "float32", (64,))]
    kernel = pa.Kernel.from_accesses("table", fields, ["a[x]", *loads], ["b[x]"], 64, "float32")
    return pa.predict(kernel, pa.Launch.cover(N, 256), DEVICE)


PAIRS = {
    "Coalescing": (
        lambda: copied(["a[x, y]"], ["b[y, x]"], cover((32, 8))),
        lambda: copied(["a[y, x]"], ["b[y, x]"], cover((32, 8))),
    ),
    "Coalescing (stores)": (
        lambda: copied(["a[y, x]"], ["b[x, y]"], cover((32, 8))),
        lambda: copied(["a[y, x]"], ["b[y, x]"], cover((32, 8))),
    ),
    "Coalescing (structures)": (
        lambda: structures("a[x, {}]", (N, 8)),
        lambda: structures("a[{}, x]", (8, N)),
    ),
    "Coalescing (strides)": (
        lambda: structures("a[8 * x + {}]", (8 * N,)),
        lambda: structures("a[{}, x]", (8, N)),
    ),
    "Memory Transaction Reduction": (lambda: four(1), lambda: four(4)),
    "Memory Transaction Reduction (table)": (
        lambda: table([f"t[{n}]" for n in range(64)]),
        lambda: table([]),
    ),
    "Block Shape": (
        lambda: copied(["a[y, x]"], ["b[y, x]"], cover((1, 256))),
        lambda: copied(["a[y, x]"], ["b[y, x]"], cover((16, 16))),
    ),
    "Block Increase": (lambda: few(1024), lambda: few(160)),
    "Thread Increase": (
        lambda: copied(["a[y, x]"], ["b[y, x]"], cover((16, 1)), flops=64),
        lambda: copied(["a[y, x]"], ["b[y, x]"], cover((64, 1)), flops=64),
    ),
    "Occupancy Increase": (lambda: crowded(200), lambda: crowded(128)),
}
