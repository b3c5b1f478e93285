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
