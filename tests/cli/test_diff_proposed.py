"""Kernels without recorded launches are judged by times at a launch that is proposed."""

from __future__ import annotations

import json

from perfassert.cli.main import main

WIDE = """
extern "C" __global__ void copy(float4* a, const float4* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = b[i];
}
"""
NARROW = """
extern "C" __global__ void copy(float* a, const float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; ++k) a[4 * i + k] = b[4 * i + k];
}
"""
STRUCTURE = """
struct Sizes { long long rows, columns, pitch; };
extern "C" __global__ void fill(float* a, Sizes s) {
    a[blockIdx.x * s.pitch + threadIdx.x] = s.rows %s;
}
"""


def _diff(tmp_path, capsys, before, after, *options):
    for name, text in (("before.cu", before), ("after.cu", after)):
        (tmp_path / name).write_text(text)
    names = [str(tmp_path / name) for name in ("before.cu", "after.cu")]
    code = main(["diff", *names, "--arch", "sm_80", *options])
    return code, capsys.readouterr().out


def test_lost_vectorisation_is_slower_and_fails(tmp_path, capsys):
    code, shown = _diff(tmp_path, capsys, WIDE, NARROW)
    assert code == 1
    assert "worse: copy (sm_80)" in shown
    assert "1048576 threads, block 256, which is" in shown
    assert _diff(tmp_path, capsys, WIDE, NARROW, "--fail-on", "spill_bytes +0")[0] == 0


def test_the_way_back_is_faster(tmp_path, capsys):
    code, shown = _diff(tmp_path, capsys, NARROW, WIDE, "--json")
    (kernel,) = json.loads(shown)["kernels"]
    assert (code, kernel["status"]) == (0, "better")
    assert kernel["proposed"]["difference"] < -0.02


def test_a_structure_has_no_launch_to_propose(tmp_path, capsys):
    code, shown = _diff(tmp_path, capsys, STRUCTURE % "+ 1", STRUCTURE % "* s.columns", "--json")
    (kernel,) = json.loads(shown)["kernels"]
    assert kernel["proposed"] is None
    assert code in (0, 1)


ROWS = """
extern "C" __global__ void blur(float* out, const float* in, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < columns && y < rows) out[y * columns + x] = in[INDEX] * 2;
}
"""


def test_a_launch_has_the_dimensions_that_the_code_reads(tmp_path, capsys):
    """Threads of one row alone would do nothing: the guard keeps the border from storing."""
    rows = ROWS.replace("INDEX", "y * columns + x - 1")
    columns = ROWS.replace("INDEX", "x * rows * 3 + y * 7 - 1 + x / 3 + y / 5")
    code, shown = _diff(tmp_path, capsys, rows, columns)
    assert code == 1
    assert "1024×1024 threads, block 32×8, which is" in " ".join(shown.split())


def test_times_of_threads_that_store_nothing_are_not_compared(tmp_path, capsys):
    """The proposed value of the argument makes the guard fail on both sides."""
    guard = "if (n != (1 << 20))"
    sides = (WIDE, NARROW)
    sides = [s.replace("* b)", "* b, int n)").replace("a[", f"{guard} a[", 1) for s in sides]
    _, shown = _diff(tmp_path, capsys, *sides, "--json")
    (kernel,) = json.loads(shown)["kernels"]
    assert kernel["status"] == "worse"
    assert kernel["proposed"] is None
