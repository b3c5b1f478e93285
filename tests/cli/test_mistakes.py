"""Mistakes on the command line: the first one is named, in the words of the command line."""

import pytest

from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools

SOURCE = """
struct box { int low[4]; };
extern "C" __global__ void fill(float* a, int n, box b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i + b.low[1]] = 1;
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text(SOURCE)
    return str(path)


def said(capsys, *arguments):
    assert main(arguments) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize("command", ["predict", "advise"])
def test_a_missing_file_comes_before_missing_options(capsys, tmp_path, source, command):
    near = str(tmp_path / "fil.cu")
    assert said(capsys, command, near).endswith("fil.cu: no such file; did you mean 'fill.cu'?")
    assert "--device is missing" in said(capsys, command, source)
    assert "--grid is missing" in said(capsys, command, source, "--device", "a100")
    assert "the source is missing" in said(capsys, command)


def test_init_names_a_missing_file_first(capsys, tmp_path):
    assert "nothing.cu: no such file" in said(capsys, "init", str(tmp_path / "nothing.cu"))


def test_an_extent_that_is_none_is_quoted(capsys, source):
    grid = ("--device", "a100", "--grid", "64,y", "--block", "32")
    assert said(capsys, "predict", source, *grid) == "perfassert: --grid: 'y' is not an integer"


def test_a_missing_argument_is_asked_for_as_an_option(capsys, source):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("needs a compiler")
    launch = (source, "--device", "a100", "--grid", "64", "--block", "32")
    missing = said(capsys, "predict", *launch, "--arg", "b.low[1]=1")
    assert "needs its argument 'n'" in missing
    assert "give --arg n=…" in missing
    assert "Launch.args" not in missing
    assert "give --arg b.low[1]=…" in said(capsys, "predict", *launch, "--arg", "n=5")
    assert main(["predict", *launch, "--arg", "n=5", "--arg", "b.low[1]=1"]) == 0
