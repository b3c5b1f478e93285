"""``perfassert survey``: inputs, order, pins, exit codes."""

from __future__ import annotations

import json
import zipfile

import pytest

from perfassert.cli.main import main
from perfassert.comparison.sides import Reading
from perfassert.frontends.toolchain.elf import Cubin
from perfassert.survey.survey import survey

pytestmark = pytest.mark.exhaustive(one_in=4)

WIDE = """
extern "C" __global__ void copy(float* a, const float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = b[i];
}
"""
WASTEFUL = """
extern "C" __global__ void column(float* a, const float* b, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i * columns] = b[i];
}
"""
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* a) {
    float v[48];
    #pragma unroll
    for (int k = 0; k < 48; ++k) v[k] = a[k * 1024 + threadIdx.x];
    for (int n = 0; n < 8; ++n)
        #pragma unroll
        for (int k = 0; k < 48; ++k) v[k] = v[k] * v[(k + 17) % 48] + v[(k + 5) % 48];
    #pragma unroll
    for (int k = 0; k < 48; ++k) a[k * 1024 + threadIdx.x] = v[k];
}
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    for name, text in {"copy": WIDE, "column": WASTEFUL, "spilling": SPILLING}.items():
        (tmp_path / "lib" / f"{name}.cu").write_text(text)
    return tmp_path / "lib"


def _run(capsys, *arguments):
    code = main(["survey", *map(str, arguments)])
    return code, capsys.readouterr()


def _data(capsys, *arguments):
    code, shown = _run(capsys, *arguments, "--json")
    return code, json.loads(shown.out)


def test_the_worst_kernel_is_first_and_all_are_listed(library, capsys):
    code, data = _data(capsys, "lib", "--arch", "sm_80")
    assert code == 0
    assert {k["name"] for k in data["kernels"]} == {"copy", "column", "spilling"}
    assert data["kernels"][-1]["name"] == "copy"
    assert data["counts"] == {"uncoalesced": 1, "spills": 1}


def test_spills_are_told_with_the_launch_bounds_that_cause_them(library, capsys):
    _, shown = _run(capsys, "lib/spilling.cu")
    assert "launch bounds of 1024 threads and 2 blocks leave 32 registers" in shown.out


SAVING = """
__device__ __noinline__ float deep(float x, int n) { return n ? deep(x * 2 + n, n - 1) * x : x; }
extern "C" __global__ void saving(float* a, int n) { a[threadIdx.x] = deep(a[threadIdx.x], n); }
"""


def test_a_limit_that_is_far_is_no_cause_of_spills(tmp_path, monkeypatch):
    """A compiler that does not record spills leaves open what a call has saved on the stack."""
    (tmp_path / "saving.cu").write_text(SAVING)
    monkeypatch.setattr(Cubin, "spills", lambda *_: None)
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    (row,) = survey([tmp_path / "saving.cu"], Reading(arch="sm_80", findings=True)).rows
    (message,) = [f.message for f in row.findings if f.kind == "spills"]
    assert message == "16 B of registers in local memory"
    assert row.info.registers < 64


def test_a_finding_fails_only_where_it_is_asked_for(library, capsys):
    assert _run(capsys, "lib")[0] == 0
    assert _run(capsys, "lib", "--fail-on", "bank-conflicts, local-array")[0] == 0
    assert _run(capsys, "lib", "--fail-on", "spills")[0] == 1
    assert _run(capsys, "lib", "--fail-on", "any")[0] == 1


def test_an_unknown_finding_is_a_mistake_with_a_hint(library, capsys):
    code, shown = _run(capsys, "lib", "--fail-on", "spill")
    assert code == 2
    assert "no finding is called 'spill'" in shown.err
    assert "spills" in shown.err


@pytest.mark.parametrize("kinds", ["", ",", "spills,"])
def test_a_list_of_findings_without_a_name_is_a_mistake(library, capsys, kinds):
    code, shown = _run(capsys, "lib", "--fail-on", kinds)
    assert code == 2
    assert "--fail-on: no finding is called ''; known: " in shown.err


def test_pins_fail_both_ways(library, capsys):
    assert _run(capsys, "lib", "--pin", "kernels.toml")[0] == 0
    assert _run(capsys, "lib", "--check", "kernels.toml")[0] == 0
    (library / "copy.cu").write_text(WASTEFUL.replace("column(", "copy("))
    code, shown = _run(capsys, "lib", "--check", "kernels.toml")
    assert code == 1
    assert "worse: copy in copy.cu:" in shown.out
    assert "new: uncoalesced" in shown.out
    assert "--pin kernels.toml" in shown.err
    assert _run(capsys, "lib", "--pin", "kernels.toml")[0] == 0
    (library / "copy.cu").write_text(WIDE)
    code, shown = _run(capsys, "lib", "--check", "kernels.toml")
    assert code == 1, "what is better has to be pinned again"
    assert "better: copy in copy.cu:" in shown.out


def test_kernels_that_come_and_go_are_told(library, capsys):
    _run(capsys, "lib", "--pin", "kernels.toml")
    (library / "copy.cu").rename(library / "other.cu")
    code, shown = _run(capsys, "lib", "--check", "kernels.toml")
    assert code == 1
    assert "copy in copy.cu: is gone" in shown.out
    assert "copy in other.cu: is new" in shown.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no file of `perfassert survey --pin`"),
        ("schema = 1\n[[kernel]]\nfile = 'a'\n", "kernel 1: 'name' is missing"),
        ("schema = ", "not valid TOML"),
    ],
)
def test_a_file_of_pins_that_is_none_is_named(library, capsys, text, message):
    (library.parent / "kernels.toml").write_text(text)
    code, shown = _run(capsys, "lib/copy.cu", "--check", "kernels.toml")
    assert code == 2
    assert message in shown.err


def test_wheels_are_read_without_being_unpacked(library, capsys, tmp_path):
    from perfassert.frontends.toolchain.binary import Source
    from perfassert.frontends.toolchain.build import compiled_module

    cubin = compiled_module(Source(library / "column.cu", "cuda"), "sm_80").cubin
    with zipfile.ZipFile(tmp_path / "package-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("package/kernels/column.cubin", cubin)
        wheel.writestr("package/__init__.py", "raise SystemExit('never imported')")
    code, data = _data(capsys, "package-1.0-py3-none-any.whl")
    assert code == 0
    assert [(k["name"], k["file"]) for k in data["kernels"]] == [
        ("column", "package/kernels/column.cubin")
    ]
    (tmp_path / "broken.whl").write_bytes(b"PK no archive")
    code, shown = _run(capsys, "broken.whl")
    assert code == 2
    assert "no readable wheel" in shown.err


def test_a_folder_of_a_cache_is_read_by_its_cubins(library, capsys, tmp_path):
    from perfassert.frontends.toolchain.binary import Source
    from perfassert.frontends.toolchain.build import compiled_module

    cubin = compiled_module(Source(library / "copy.cu", "cuda"), "sm_80").cubin
    for name in ("AAAA", "BBBB"):
        (tmp_path / "cache" / name).mkdir(parents=True)
        (tmp_path / "cache" / name / "copy.cubin").write_bytes(cubin)
        (tmp_path / "cache" / name / "copy.ptx").write_text(".version 8.0\n")
    _, data = _data(capsys, "cache")
    assert [k["file"] for k in data["kernels"]] == ["AAAA/copy.cubin", "BBBB/copy.cubin"]


def test_what_cannot_be_read_is_told_beside_the_rest(library, capsys):
    (library / "broken.cu").write_text("__global__ void k( {}")
    code, shown = _run(capsys, "lib")
    assert code == 0
    assert "broken.cu: not read:" in shown.out
    code, shown = _run(capsys, "lib/broken.cu")
    assert code == 2
    assert shown.err.startswith("perfassert: broken.cu:1:")
    code, shown = _run(capsys, "nowhere.so")
    assert code == 2
    assert "nowhere.so: there is no such file or folder" in shown.err


def test_other_forms_have_the_same_findings(library, capsys, tmp_path):
    _run(capsys, "lib", "--sarif", "s.sarif", "--html", "s.html")
    results = json.loads((tmp_path / "s.sarif").read_text())["runs"][0]["results"]
    assert {r["ruleId"] for r in results} == {"uncoalesced-access", "register-spill"}
    assert "Survey of GPU kernels" in (tmp_path / "s.html").read_text()
    _, shown = _run(capsys, "lib", "--markdown")
    assert shown.out.startswith("### GPU kernels: 3 kernels, 2 with findings")
