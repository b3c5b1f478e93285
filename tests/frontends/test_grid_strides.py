"""Grid-stride loops become a wider grid: every address of the launch is that of the source.

The oracle goes through all threads and writes down what the source text says.
"""

from collections import Counter
from functools import reduce

import numpy as np
import pytest
from described import KERNELS, missing

import perfassert as pa
from perfassert.kernel.affine import Forms
from perfassert.kernel.expression import AXES

pytestmark = pytest.mark.exhaustive(one_in=3)

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
BLOCK = 64


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


def guard_above(x, b, stride, n, m):
    return [("b", i) for i in range(x, m, stride) if x < n]


def guard_on_place(x, b, stride, n, m):
    places = range(x, m, stride)
    return [("b", i) for i in places] + [("a", i) for i in places if i < n]


def guard_beside(x, b, stride, n, m):
    return [("a", x)] * (x < n) + [("b", i) for i in range(x, m, stride)]


def guard_on_both(x, b, stride, n, m):
    places = range(x, m, stride)
    return [("b", i) for i in places] + [("a", i) for i in places if i < n and x % 2]


def guard_on_block(x, b, stride, n, m):
    places = range(x, m, stride)
    return [("b", i) for i in places] + [("a", i) for i in places if b < n]


def block_in_address(x, b, stride, n, m):
    return [("b", i + b * n) for i in range(x, m, stride)] + [("a", b)]


def row_and_column(x, b, stride, n, m):
    return [("b", i // 32 * n + i % 32) for i in range(x, m, stride)]


def longer_inside(x, b, stride, n, m):
    return [("b", i + j * m) for i in range(x, m, stride) for j in range(x % n)]


def left_over(x, b, stride, n, m):
    places, i = [], x
    while i + n < m:
        places.append(i)
        i += stride
    return [("b", p) for p in [*places, *([i] if i < m else [])]]


CASES = [
    (guard_above, {"n": 50, "m": 768}),
    (guard_above, {"n": 100, "m": 700}),
    (guard_above, {"n": 999, "m": 700}),
    ("guard_in", {"n": 50, "m": 768}),
    (guard_on_place, {"n": 50, "m": 768}),
    (guard_on_place, {"n": 300, "m": 700}),
    (guard_beside, {"n": 50, "m": 700}),
    (guard_on_both, {"n": 300, "m": 768}),
    (guard_on_block, {"n": 2, "m": 768}),
    (block_in_address, {"n": 4096, "m": 700}),
    (row_and_column, {"n": 40, "m": 700}),
    (longer_inside, {"n": 5, "m": 700}),
    (left_over, {"n": 100, "m": 700}),
]


def expected(oracle, grid, arguments):
    """Count the accesses to each address."""
    threads = [(b * BLOCK + t, b) for b in range(grid) for t in range(BLOCK)]
    made = (oracle(x, b, grid * BLOCK, **arguments) for x, b in threads)
    return Counter((field, 4 * index) for accesses in made for field, index in accesses)


def accessed(kernel, work):
    """The same, of all threads of the launch that stands for it."""
    found = Counter()
    for access in kernel.bound:
        lengths = {**dict(zip(AXES, work.extent, strict=True))}
        places = {s: np.arange(n) for s, n in lengths.items()}
        places |= {c: np.arange(access.ranges[c][0], access.ranges[c][1] + 1) for c in access.loops}
        values = dict(zip(places, np.ix_(*places.values()), strict=True))
        for axis, size in zip(AXES, work.block, strict=True):
            values[f"threadIdx.{axis}"] = values[axis] % size
            values[f"blockIdx.{axis}"] = values[axis] // size
        address, *conditions = Forms([access.address, *access.conditions])(values)
        held = [c != 0 for c in conditions]
        held += [
            (values[s] >= low) & (values[s] <= high) for s, (low, high) in access.ranges.items()
        ]
        shape = tuple(len(p) for p in places.values())
        held = np.broadcast_to(reduce(np.logical_and, held, np.True_), shape)
        found.update((access.field, int(a)) for a in np.broadcast_to(address, shape)[held])
    return found


def bound(name, launch, arch):
    return pa.from_cuda(KERNELS / "strides.cu", name).bind(launch, arch, 32)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("oracle", "arguments"), CASES,
    ids=[f"{getattr(c[0], '__name__', c[0])}-{c[1]['n']}-{c[1]['m']}" for c in CASES],
)  # fmt: skip
@pytest.mark.exhaustive(one_in=3)
def test_every_address_is_accessed_as_often_as_the_source_says(oracle, arguments, arch):
    name, oracle = (oracle, guard_above) if isinstance(oracle, str) else (oracle.__name__, oracle)
    kernel, work = bound(name, pa.Launch(4, BLOCK, arguments), arch)
    assert accessed(kernel, work) == expected(oracle, 4, arguments)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_strides_along_the_other_axis_too(arch):
    kernel, work = bound("rows_in_turn", pa.Launch((4, 3), BLOCK, {"n": 50, "m": 20}), arch)
    assert accessed(kernel, work) == Counter(("b", 4 * i) for i in range(50 * 20))


def test_a_loop_without_guards_costs_what_a_grid_without_the_loop_does():
    """The point of widening: the cost does not grow with the trips."""
    kernel, work = bound("guard_beside", pa.Launch(4, BLOCK, {"n": 50, "m": 10**8}), "sm_80")
    assert work.extent == (10**8, 1, 1)
    assert all(not a.loops for a in kernel.bound)


def test_bytes_of_a_guarded_loop():
    """65,536 threads of which 512 work."""
    code = pa.from_cuda(KERNELS / "strides.cu", "guard_above")
    launch = pa.Launch(256, 256, {"n": 512, "m": 3 * 65536})
    p = pa.predict(code, launch, pa.device("A100-SXM4-40GB"))
    stored = 3 * 512 * 4
    assert float(p.volumes.l2_store.total) == stored
    assert float(p.volumes.dram_store.total) == pytest.approx(stored, rel=0.01)


def test_iterations_are_no_further_threads():
    """Columns are as many as threads, or one fewer: what each of them loads is the same."""
    code = pa.from_cuda(KERNELS / "strides.cu", "columns")
    for columns in (2**18, 2**18 - 1):
        p = pa.predict(code, pa.Launch(1024, 256, {"n": columns, "m": 16}), "A100-SXM4-40GB")
        assert p.threads == p.updates == columns
        assert float(p.volumes.dram_load.per_thread) == pytest.approx(16 * 4, rel=0.01)
