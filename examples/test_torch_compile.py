"""What torch.compile and Helion wrote, predicted where there is neither PyTorch nor a GPU.

The files in ``generated/`` are written by hand, in the layouts of PyTorch 2.4 and 2.8 and of
Helion 1.5.
"""

from pathlib import Path

import pytest

import perfassert as pa

pytest.importorskip("triton")

GENERATED = Path(__file__).parent / "generated"
FLOATS = dict.fromkeys(("x", "y", "out"), "*fp32")
HALVES = dict.fromkeys(("x", "y", "out"), "*fp16")
ROWS = {"m": 8192, "x.size(0)": 8192, "x.size(1)": 1024, "out.stride(0)": 1, "x.stride(0)": 1024,
        "x.stride(1)": 1}  # fmt: skip


def test_rows(perf):
    """Relu of a sum, then softmax, in two kernels: each reads and writes all numbers once."""
    relu, softmax = pa.from_inductor(GENERATED / "inductor_rows.py")
    for each in (relu, softmax):
        perf(each.kernel, each.launch).expect(limiter="dram", confidence="!guessed")
    assert softmax.calls == 2


def test_columns(perf):
    """Of the tiles that Inductor tries, those that leave most of the device idle come last."""
    (columns,) = pa.from_inductor(GENERATED / "inductor_columns.py", sizes={"s0": 2048})
    ranking = perf.rank(columns.candidates)
    assert "XBLOCK=64" in ranking.entries[-1][0]
    assert columns.candidates[ranking.best][1].blocks >= 108


def test_helion(perf):
    kernel, launch = pa.from_helion(GENERATED / "helion_exponents.py", FLOATS)
    perf(kernel, launch).expect(limiter="dram", spill_bytes=0)


def test_helion_with_dynamic_shapes(perf):
    types = dict.fromkeys(("x", "out"), "*fp32")
    kernel, launch = pa.from_helion(GENERATED / "helion_row_sums.py", types, sizes=ROWS)
    perf(kernel, launch).expect(limiter="dram", dram_load="33.5 MB ± 1 %")


def test_helion_matmul(perf):
    """Each block reads its rows of one matrix and its columns of the other."""
    kernel, launch = pa.from_helion(GENERATED / "helion_matmul.py", HALVES)
    loaded = (2048 // 128) ** 2 * 2 * 128 * 2048 * 2
    perf(kernel, launch).expect(l2_load=f"{loaded} B ± 1 %", confidence="!guessed")
