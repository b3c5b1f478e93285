"""``perfassert init``: what it writes runs once it is filled in; nothing is overwritten."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import perfassert as pa
from perfassert.cli.init import suggest_tests
from perfassert.cli.main import main
from perfassert.errors import PerfFileError
from perfassert.frontends.toolchain import tools
from perfassert.toml.tables import read_toml

KERNELS = """
struct Configuration { int a; float c[4]; };
#include "step.cuh"
namespace ns {
template <class T, int N> __global__ void smooth(T* a, const T* b, int n, T w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - N) a[i] = w * (b[i] + b[i + N]);
}
}
template __global__ void ns::smooth<float, STEP>(float*, const float*, int, float);
__global__ void fill(int* a, Configuration c) { a[threadIdx.x] = c.a; }
"""
QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider")
SOURCE = ["init", "sources/k.cu", "--device", "a100", "-DSTEP=2", "-I", "headers"]


@pytest.fixture
def project(pytester, loaded, monkeypatch):
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.delenv("CI", raising=False)
    Path("sources").mkdir()
    Path("headers").mkdir()
    Path("headers/step.cuh").touch()
    Path("sources/k.cu").write_text(KERNELS)
    return pytester


@pytest.mark.parametrize("name", ["test_perf.py", "gate/below/kernels.perf.toml"])
def test_what_it_writes_runs_once_it_is_filled_in(project, name, capsys):
    assert main([*SOURCE, "-o", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": name, "devices": ["A100-SXM4-40GB"], "kernels": ["ns::smooth<float, 2>", "fill"],
    }  # fmt: skip
    project.runpytest_inprocess(*QUIET, name).assert_outcomes(skipped=2)
    written = Path(name).read_text()
    assert str(project.path) not in written
    assert "structures to be given as well: c\n" in written
    assert ("args = { n = 1048576, w = 1.0 }" in written) is name.endswith(".toml")
    lines = [line for line in written.splitlines() if "fill in domain" not in line]
    Path(name).write_text("\n".join(lines))
    project.runpytest_inprocess(*QUIET, name, "-k", "smooth", "--perf-update=new").assert_outcomes(
        passed=1, deselected=1
    )
    project.runpytest_inprocess(*QUIET, name, "-k", "smooth").assert_outcomes(
        passed=1, deselected=1
    )


def test_nothing_is_overwritten(project, capsys):
    Path("test_perf.py").write_text("mine")
    Path("link.py").symlink_to("nowhere")
    assert main(SOURCE) == 2
    assert "test_perf.py is there already and is left alone" in capsys.readouterr().err
    assert Path("test_perf.py").read_text() == "mine"
    assert main([*SOURCE, "-o", "link.py"]) == 2
    assert not Path("nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sources/k.cu"], "give --device, as in --device a100"),
        (["sources/k.cu", "--device", "a1000"], "unknown device 'a1000'"),
        ([*SOURCE[1:], "--filter", "smoth*"], "it has: fill, ns::smooth<float, 2>"),
        ([*SOURCE[1:], "-o", "perf.txt"], "name a .py file or a .perf.toml file"),
        (["nowhere.cu", "--device", "a100"], "nowhere.cu"),
    ],
)
def test_what_it_refuses(project, arguments, message, capsys):
    assert main(["init", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("test_perf.py").exists()


def test_compiled_code_names_its_devices(project, capsys):
    ptxas = tools.find("ptxas")
    if ptxas is None:
        pytest.skip("ptxas is not installed")
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing() { ret; }\n"
    Path("k.ptx").write_text(text)
    tools.run_tool("ptxas", [ptxas.path, "-arch=sm_90", "k.ptx", "-o", "k.cubin"], folder=".")
    assert main(["init", "k.cubin", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert pa.device(device).arch == "sm_90"


PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a) { ret; }
"""


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ('k"""; made = 1; """', "test_perf.py"),
        ('k"""', "test_perf.py"),
        ("k\r[[test]]\rname = 1 #", "k.perf.toml"),
        ("k\x7f", "k.perf.toml"),
    ],
)
def test_the_name_of_a_file_becomes_no_code(tmp_path, monkeypatch, name, output):
    monkeypatch.chdir(tmp_path)
    for tool in ("ptxas", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    Path(f"{name}.ptx").write_text(PTX)
    assert main(["init", f"{name}.ptx", "--device", "a100", "-o", output]) == 0
    if output.endswith(".toml"):
        _, table = read_toml(Path(output), PerfFileError)
        assert [test["name"] for test in table["test"]] == ["k"]
    else:
        body = ast.parse(Path(output).read_text()).body
        kinds = (ast.Expr, ast.ImportFrom, ast.Import, ast.Import, ast.Assign, ast.Assign)
        assert [type(node) for node in body] == [*kinds, ast.FunctionDef]


def test_tests_of_templates_have_short_names_of_their_own():
    name = "ns::Reduce<ns::Policy<float, " + "ns::It<int>, " * 30 + "4> >"
    infos = [
        SimpleNamespace(name=name, mangled=f"m{i}", max_threads=0, coordinates=()) for i in range(2)
    ]
    tests = [one.test for one in suggest_tests(infos, [(), ()])]
    assert tests == ["Reduce_Policy", "Reduce_Policy_2"]
