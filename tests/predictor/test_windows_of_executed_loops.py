"""Tests that reuse in loops is the same with executed addresses as with closed forms."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.execution.touched import _times

pytestmark = pytest.mark.exhaustive(one_in=2)

pytest.importorskip("nvidia.cu13")

UNITS, BLOCKS, THREADS, PASSES = 4, 8, 256, 6
CODE = """
extern "C" __global__ void walk(const float* a, const int* shift, float* out, int n, int m)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int pass = 0; pass < {passes}; ++pass) {{
        for (int j = 0; j < m; ++j) sum += a[{index}];
        sum *= 1.5f;
    }}
    out[i] = sum;
}}"""


def loaded(folder, index, m, passes=PASSES):
    """Return how often the L1 loads each byte of ``a``."""
    (file := folder / "walk.cu").write_text(CODE.format(index=index, passes=passes))
    n = 2 * UNITS * BLOCKS * THREADS
    args = {
        "a": pa.Buffer(n * m, "float32"), "shift": np.zeros(m, np.int32),
        "out": pa.Buffer(n, "float32"), "n": n, "m": m,
    }  # fmt: skip
    device = pa.device("a100").replace(compute_units=UNITS)
    launch = pa.Launch(n // THREADS, THREADS, args=args)
    kernel = pa.from_cuda(file)
    found = pa.predict(kernel, launch, device)
    assert found.occupancy.resident_blocks == BLOCKS
    return float(found.volumes.l2_load.fields["a"].total) / (4 * n * m)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("m", [16, 32, 64, 128])
def test_passes_load_as_often_as_by_the_closed_form(tmp_path, m):
    closed = loaded(tmp_path, "i + j * n", m)
    executed = loaded(tmp_path, "i + (j + shift[j]) * n", m)
    assert executed == pytest.approx(closed, rel=0.05)
    if m == 128:  # 1 MiB on an SM
        assert executed > 0.9 * PASSES


@pytest.mark.parametrize("m", [32, 256])
def test_rows_are_loaded_as_often_as_by_the_closed_form(tmp_path, m):
    closed = loaded(tmp_path, "i * m + j", m, passes=1)
    executed = loaded(tmp_path, "i * m + j + shift[j]", m, passes=1)
    assert executed == pytest.approx(closed, rel=0.1)


def test_what_warps_share_in_one_iteration_is_loaded_once(tmp_path):
    """One iteration of a block fits into the cache, not all of them: nothing is loaded twice."""
    executed = loaded(tmp_path, "(j + shift[j]) * n + i % 32", 2048, passes=1)
    n = 2 * UNITS * BLOCKS * THREADS
    once = n // THREADS * 2048 * 128
    assert executed * 4 * n * 2048 == pytest.approx(once, rel=0.02)


def test_executions_are_numbered_warp_by_warp():
    assert _times(np.array([5, 7, 5, 5, 7])).tolist() == [0, 0, 1, 2, 1]
