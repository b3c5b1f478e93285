"""Tests of the choice of waves: accesses that meet in the middle, and accesses of few blocks."""

import pytest

import perfassert as pa

N = 1 << 24
A100 = pa.device("a100")  # its L2 holds none of the two arrays


def loaded(*loads):
    fields = [pa.Field(name, "float32", shape=(N,)) for name in "ab"]
    kernel = pa.Kernel.from_accesses("k", fields, loads, ["b[x]"])
    return float(pa.predict(kernel, pa.Launch(N // 256, 256), A100).volumes.dram_load.total)


def test_an_array_that_is_read_from_both_ends_is_read_twice():
    """The two ends are the same bytes only in the middle of the grid."""
    assert loaded("a[x]") == 4 * N
    assert loaded(f"a[{N - 1} - x]") == 4 * N
    assert loaded("a[x]", f"a[{N - 1} - x]") == pytest.approx(2 * 4 * N, rel=0.01)
