"""A sparse matrix times a vector: what the kernel costs is up to the matrix, so it is described."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa

KERNEL = Path(__file__).parent / "kernels" / "spmv.cu"
ROWS, MEAN = 1 << 15, 8
ENTRIES = ROWS * MEAN  # of both matrices


def band():
    """Every row has entries beside the diagonal."""
    row, place = np.divmod(np.arange(ENTRIES, dtype=np.int32), np.int32(MEAN))
    return {
        "rows": np.arange(ROWS + 1, dtype=np.int32) * MEAN,
        "columns": np.clip(row + place - MEAN // 2, 0, ROWS - 1),
    }


def graph():
    """Few rows have most of the entries, anywhere; made by generators, the same every time."""
    return {
        "rows": pa.Buffer(ROWS + 1, fill=f"csr_rows(nnz_per_row={MEAN}, skew='power-law')"),
        "columns": pa.Buffer(ENTRIES, fill="random(0, n)"),
    }


@pytest.fixture
def product(perf):
    def predicted(matrix, kind="threads"):
        vectors = {name: pa.Buffer(ROWS) for name in ("x", "y")}  # content that decides nothing
        args = {"n": ROWS, **matrix, "values": pa.Buffer(ENTRIES), **vectors}
        threads = ROWS * (32 if kind == "warps" else 1)
        launch = pa.Launch.cover(threads, 128, args)
        return perf(pa.from_cuda(KERNEL, f"spmv_by_{kind}"), launch)

    return predicted


def test_a_graph_takes_longer_than_a_band_with_as_many_entries(product):
    even, skewed = product(band()), product(graph())
    assert skewed.time > 3 * even.time
    even.expect(limiter="latency | dram", time="< 5 us")  # all warps have the same to do
    skewed.expect(limiter="latency", time="> 12 us")  # a warp waits for its longest row
    assert even.diagnostics["uneven_blocks"] == 1
    assert skewed.diagnostics["uneven_blocks"] > 1.15


def test_a_warp_for_each_row_makes_up_for_it(product):
    assert product(graph(), "warps").time < 0.5 * product(graph()).time
    even, skewed = product(band(), "warps"), product(graph(), "warps")
    assert skewed.time == pytest.approx(even.time, rel=0.15)
    assert product(band()).time < even.time  # of even rows a thread does with fewer warps


def test_scattered_columns_cost_sectors(product):
    scattered = product({**band(), "columns": pa.Buffer(ENTRIES, fill="random(0, n)")})
    loaded = [p.volumes.l2_load.fields["x"].total for p in (product(band()), scattered)]
    assert loaded[1] > 4 * loaded[0]
