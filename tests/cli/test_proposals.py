"""A first prediction of a source of which nothing else is said."""

import json

import pytest

import perfassert as pa
from perfassert.cli.main import main

SOURCE = """\
extern "C" __global__ void scale(float* out, const float* in, float by, int n, bool twice) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = twice ? by * in[i] * 2 : by * in[i];
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    try:
        pa.kernels(path, "sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    return str(path)


def test_device_launch_and_numbers_are_proposed(source, capsys):
    assert main(["predict", source, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.strip() == (
        "perfassert: proposed, to be replaced: --device A100-SXM4-40GB --domain 1048576 "
        "--block 256 --arg by=1.0 --arg n=1048576 --arg twice=1"
    )
    proposed = json.loads(out)
    words = err.partition("replaced: ")[2].split()
    assert main(["predict", source, "--json", *words]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == proposed
    assert not err


def test_what_is_given_is_kept(source, capsys):
    given = ["--device", "v100", "--arg", "n=4096", "--json"]
    assert main(["predict", source, *given]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["device"].startswith("V100")
    assert "--device" not in err
    assert "n=" not in err


def test_part_of_a_launch_is_a_mistake(source, capsys):
    assert main(["predict", source, "--device", "a100", "--block", "64"]) == 2
    assert "--grid is missing" in capsys.readouterr().err
